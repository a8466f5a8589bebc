"""What being recordable costs a channel that nobody records.

The core asks at every action whether there is a recorder.  Beside it runs the same code without these questions: its
modules are loaded a second time, from sources in which each question has been answered with no.  Both copies are made
anew for each round, so that where a copy happens to lie in memory is not taken for what it costs.
"""

import ast
import asyncio
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType

from benchmarks.records import Record
from benchmarks.series import Series

__all__ = ["IN_A_PROCESS", "RecordingOff", "loaded", "measure_recording_off", "without_questions"]

IN_A_PROCESS = "a channel inside a process"
PACKAGE = "permitflow"
CORE = ("protocol.sender", "protocol.receiver")
RECORDER = "_record"
MESSAGES = 4_000
SMOKE_MESSAGES = 100
ROW_PERMITS = 32_768
CHUNK_ROWS = 1_024
REPEATS = 25
# Each with copies of their own.
ROUNDS_IN_A_ROUND = 3


@dataclass(frozen=True)
class RecordingOff(Record):
    """One way to use the core."""

    use: str
    nanoseconds: Series
    """Of the processor, for a message."""
    nanoseconds_without_questions: Series

    @property
    def percent(self) -> Series:
        """What the questions add."""
        ratios = self.nanoseconds.ratio_to(self.nanoseconds_without_questions)
        return Series.of(100 * (ratio - 1) for ratio in ratios.values)


def measure_recording_off(rounds: int, *, is_smoke: bool) -> list[RecordingOff]:
    """All uses, in turns with the copy that asks nothing."""
    messages = SMOKE_MESSAGES if is_smoke else MESSAGES
    repeats, rounds = (1, rounds) if is_smoke else (REPEATS, ROUNDS_IN_A_ROUND * rounds)
    found: dict[str, tuple[list[float], list[float]]] = {use: ([], []) for use in USES}
    for _ in range(rounds):
        with loaded(None) as asking, loaded(without_questions) as silent:
            for use, run in USES.items():
                for rates, least in zip(
                    found[use], _least_seconds(run, (asking, silent), messages, repeats), strict=True
                ):
                    rates.append(least / messages * 1e9)
    return [RecordingOff(use, Series.of(asking), Series.of(silent)) for use, (asking, silent) in found.items()]


def _least_seconds(
    run: Callable[[ModuleType, int], None], copies: Sequence[ModuleType], messages: int, repeats: int
) -> list[float]:
    """Of each copy, in turns: what disturbs a run only makes it longer."""
    seconds: list[list[float]] = [[] for _ in copies]
    for _ in range(repeats):
        for copy, taken in zip(copies, seconds, strict=True):
            began = time.process_time()
            run(copy, messages)
            taken.append(time.process_time() - began)
    return [min(taken) for taken in seconds]


def core(package: ModuleType, messages: int) -> None:
    """Every action by itself, so that each of them asks.  No channel does so little besides."""
    protocol = package.protocol
    parameters = package.ChannelParameters(row_permits=ROW_PERMITS)
    sender, receiver = protocol.sender.PermitSender(parameters), protocol.receiver.PermitReceiver(parameters)
    chunk = object()
    for _ in range(messages):
        sender.offer_chunk(chunk, CHUNK_ROWS)
        receiver.deliver(sender.send_chunk())
        receiver.take()
        if (due := receiver.consume()) is not None:
            sender.add_permits(due)


def local_channel(package: ModuleType, messages: int) -> None:
    """The channel inside a process."""
    asyncio.run(_through_a_channel(package, messages))


async def _through_a_channel(package: ModuleType, messages: int) -> None:
    sender, receiver = package.open_channel(package.ChannelParameters(row_permits=ROW_PERMITS))
    chunk = object()

    async def produce() -> None:
        for _ in range(messages):
            await sender.send(chunk, CHUNK_ROWS)
        await sender.end()

    async def consume() -> None:
        async for _ in receiver:
            pass

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(produce())
        tasks.create_task(consume())


USES: dict[str, Callable[[ModuleType, int], None]] = {
    IN_A_PROCESS: local_channel,
    "the core alone, each action by itself": core,
}


class _Answers(ast.NodeTransformer):
    """Answers every question for a recorder: there is none."""

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        asked, is_none = node.left, isinstance(node.ops[0], ast.Is)
        if isinstance(asked, ast.Attribute) and asked.attr == RECORDER and ast.unparse(node.comparators[0]) == "None":
            return ast.copy_location(ast.Constant(is_none), node)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        # The compiler leaves out branches that are never taken, but not the first half of ``True and ...``.
        left = [value for value in node.values if not isinstance(value, ast.Constant)]
        return left[0] if isinstance(node.op, ast.And) and len(left) == 1 else node


def without_questions(tree: ast.Module) -> ast.Module:
    """The same module for channels that nobody records."""
    _Answers().visit(tree)
    return ast.fix_missing_locations(tree)


Transform = Callable[[ast.Module], ast.Module]


class _Loader(SourceFileLoader):
    transform: Transform | None = None

    def get_code(self, fullname: str) -> CodeType:
        """From the source, whatever was compiled before."""
        tree = ast.parse(self.get_data(self.path))
        return compile(self.transform(tree) if self.transform is not None else tree, self.path, "exec")


class _Finder(MetaPathFinder):
    def __init__(self, transform: Transform | None) -> None:
        self._transform = transform

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: object = None) -> ModuleSpec | None:
        """The usual one, with another loader."""
        spec = PathFinder.find_spec(fullname, path) if fullname.split(".")[0] == PACKAGE else None
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = loader = _Loader(fullname, spec.loader.path)
            loader.transform = self._transform
        return spec


@contextmanager
def loaded(transform: Transform | None) -> Iterator[ModuleType]:
    """A copy of the package of its own, from sources that were transformed; what was loaded before is back at once."""
    finder = _Finder(transform)
    before = _take_out()
    sys.meta_path.insert(0, finder)
    try:
        package = import_module(PACKAGE)
        for name in CORE:
            import_module(f"{PACKAGE}.{name}")
    finally:
        sys.meta_path.remove(finder)
        _take_out()
        sys.modules.update(before)
    yield package


def _take_out() -> dict[str, ModuleType]:
    names = [name for name in sys.modules if name.split(".")[0] == PACKAGE]
    return {name: sys.modules.pop(name) for name in names}
