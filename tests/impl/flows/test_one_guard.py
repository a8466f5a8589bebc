"""The ends of the core own every rule: nobody else changes what they count, and a recorded run goes the same way."""

import ast
import asyncio
import inspect
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import permitflow
from examples.own_flow import xon_xoff
from permitflow import (
    ChannelParameters,
    Demand,
    GateParameters,
    LocalReceiver,
    LocalSender,
    Oversize,
    Parameters,
    RecorderFactory,
    SquelchParameters,
    open_channel,
)
from permitflow.flows.seam import Inbound, Outbound
from permitflow.flows.table import flow_named, flow_names
from permitflow.tracing import MemoryTrace
from permitflow_testing.traces import judge_all

PACKAGE = Path(permitflow.__file__).parent
FLOW_OF_TESTS = Path(inspect.getfile(xon_xoff))
CHANGES = {"append", "appendleft", "clear", "extend", "extendleft", "insert", "pop", "popleft", "remove", "rotate"}


def slots_of(end: type) -> tuple[str, ...]:
    """The attributes that it has by itself."""
    slots: tuple[str, ...] = vars(end)["__slots__"]
    return slots


def ends_of_flows() -> Iterator[type]:
    """The ends of all flows, and what they derive from."""
    for name in flow_names():
        flow_named(name)
    owners = {FLOW_OF_TESTS, *PACKAGE.rglob("flows/**/*.py")}
    found: list[type] = [Outbound, Inbound]
    for end in found:
        heirs: list[type] = end.__subclasses__()
        found += [heir for heir in heirs if Path(inspect.getfile(heir)) in owners]
    yield from found


ENDS = {end.__name__: end for end in ends_of_flows()}
OWNERS = {Path(inspect.getfile(end)) for end in ENDS.values()}
SHARED = {*Outbound.__slots__, *Inbound.__slots__}
"""What every flow's end has: in a flow's own file it may be looked at, not changed."""
ATTRIBUTES = {name for end in ENDS.values() for name in slots_of(end)}


def own_attributes(path: Path) -> set[str]:
    """What the ends that are written in this file count by themselves."""
    return {name for end in ENDS.values() if Path(inspect.getfile(end)) == path for name in slots_of(end)}


def offences(source: str, own: Collection[str] = (), *, is_flow: bool = False) -> Iterator[str]:
    """Where this module changes what an end of a flow counts, or reads what only the end knows.

    ``own``: what its own ends count; ``is_flow``: they may look at what every end has.
    """
    tree = ast.parse(source)
    heirs = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and ENDS.keys() & {*map(name_of_base, node.bases)}
    ]
    within_heirs = {id(node) for heir in heirs for node in ast.walk(heir)}
    containers = {id(container) for node in ast.walk(tree) if (container := changed(node)) is not None}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or node.attr not in ATTRIBUTES or node.attr in own:
            continue
        is_self = ast.unparse(node.value) in ("self", "super()")
        if is_self and id(node) not in within_heirs:
            continue  # what a class that is no end calls alike is its own
        is_free = not node.attr.startswith("_") or (is_flow and is_self and node.attr in SHARED)
        if not (is_free and isinstance(node.ctx, ast.Load)) or id(node) in containers:
            yield f"line {node.lineno}: {ast.unparse(node)}"


def changed(node: ast.AST) -> ast.expr | None:
    """The container of which this changes the content."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
        return node.func.value
    return node.value if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load) else None


def name_of_base(base: ast.expr) -> str:
    return ast.unparse(base).partition("[")[0].rpartition(".")[2]


def test_only_the_ends_change_what_they_count() -> None:
    found = {
        path.relative_to(path.parents[1]).as_posix(): list(
            offences(path.read_text(), own_attributes(path), is_flow=path in OWNERS)
        )
        for path in (*PACKAGE.rglob("*.py"), FLOW_OF_TESTS)
    }
    assert {name: lines for name, lines in found.items() if lines} == {}


HEIR = "class Mine(Inbound[int]):\n    def cheat(self, other):\n        "


@pytest.mark.parametrize(
    "snippet",
    [
        "sender._row_permits -= 1",
        "left, receiver._barriers = receiver.take(), 0",
        "del receiver._held[0]",
        "queue = receiver._runs",
        f"{HEIR}self.inbox_rows -= 1",
        f"{HEIR}self._runs.popleft()",
        f"{HEIR}return other._runs",
    ],
)
def test_a_change_from_outside_is_found(snippet: str) -> None:
    assert list(offences(snippet, {"_is_on"}, is_flow=snippet.startswith("class")))


@pytest.mark.parametrize(
    "snippet",
    ["here = sender.row_permits", "self._held = deque()\nself._held.append(1)", f"{HEIR}self._is_on = not self._runs"],
)
def test_a_look_and_a_change_of_its_own_are_allowed(snippet: str) -> None:
    assert list(offences(snippet, {"_is_on"}, is_flow=True)) == []


CORE = {str(path) for path in (*OWNERS, PACKAGE / "flows/credit.py", PACKAGE / "flows/permits/recorded.py")}
RECORDING = {
    *("stated", "_tell", "_note", "_note_delivered", "_note_marker", "_counter", "_steps", "_counters_after"),
    *("_steps_of_sending", "_steps_of_delivery", "_steps_of_consumption"),
    *("steps_of_sending", "steps_of_delivery", "steps_of_consumption"),
}
LOOKING = {"permits", "_counters"}


def is_recording(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_filename in CORE:
        if frame.f_code.co_name in RECORDING:
            return True
        frame = frame.f_back
    return False


def functions_called(run: Callable[[], Any]) -> list[str]:
    """The functions of the core that are called, in order, without those that only see to the record."""
    called: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        is_of_core = event == "call" and frame.f_code.co_filename in CORE
        if is_of_core and frame.f_code.co_name not in LOOKING and not is_recording(frame):
            called.append(frame.f_code.co_qualname)

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return called


FLOWS: dict[str, Parameters] = {
    "permits": ChannelParameters(
        row_permits=16, permit_batch=4, max_chunk_cost=8, barrier_permits=2, oversize=Oversize.WHOLE
    ),
    "demand, one by one": Demand(size=1, batch=1),
    "demand": Demand(size=4),
    "gate": GateParameters(exclusive=8, floating=16, max_chunk_cost=8),
    "squelch": SquelchParameters(high=4, rate=64),
}


async def stream_of_all_kinds(parameters: Parameters, record: RecorderFactory | None) -> None:
    """Chunks one by one and many at once, taken and received, small, empty and large, with barriers and watermarks."""
    ends: tuple[LocalSender[bytes], LocalReceiver[bytes]] = open_channel(parameters, name="orders", record=record)
    sender, receiver = ends

    async def produce() -> None:
        for size in (3, 0, 1, 9, 2, 5):
            await sender.send(bytes(size))
        await sender.send_barrier(b"b")
        sender.send_watermark(b"w")
        await sender.send_many(deque(bytes(size) for size in (1, 1, 2, 3, 5, 8, 0, 9, 1, 1, 1)))
        await sender.send_many(deque(b"x" for _ in range(40)))
        await sender.end()

    async def consume() -> None:
        for _ in range(4):
            await receiver.receive()
        receiver.consume(len(await receiver.take_many(2)))
        for _ in range(2):
            await receiver.receive_many(3)
            receiver.consume_oldest(len(receiver.chunks_at_hand(2, 16)[1]))
        async for _ in receiver:
            pass

    *_, given_up = [asyncio.ensure_future(sender.send(bytes(8))) for _ in range(3)]
    await asyncio.sleep(0)
    given_up.cancel()
    async with asyncio.TaskGroup() as group:
        group.create_task(produce())
        group.create_task(consume())


@pytest.mark.parametrize("flow", FLOWS)
def test_a_recorded_run_calls_the_same_functions(run: asyncio.Runner, flow: str) -> None:
    trace = MemoryTrace()
    recorded = functions_called(lambda: run.run(stream_of_all_kinds(FLOWS[flow], trace.recorder)))
    unrecorded = functions_called(lambda: run.run(stream_of_all_kinds(FLOWS[flow], None)))
    assert recorded == unrecorded
    assert {"Outbound.send_now", "Inbound.deliver_many", "Inbound._note_consumed"} <= set(recorded)
    assert {getattr(end, f"_{deed}").__qualname__ for end, deed in deeds_of(FLOWS[flow])} <= set(recorded)


def deeds_of(parameters: Parameters) -> Iterator[tuple[type, str]]:
    """What the ends of a flow do."""
    yield from ((parameters.flow.outbound, deed) for deed in ("may_leave", "leave", "leave_at_once"))
    yield from ((parameters.flow.inbound, deed) for deed in ("accept_chunks", "accept_marker", "consume"))


def test_a_recorded_run_is_a_behaviour(run: asyncio.Runner) -> None:
    trace = MemoryTrace()
    run.run(stream_of_all_kinds(FLOWS["permits"], trace.recorder))
    assert "WithdrawChunk" in {event.action for event in trace.events}
    for verdict in judge_all(trace.trace()):
        assert verdict.is_valid, verdict.describe()
        assert verdict.is_at_rest, verdict.describe()
