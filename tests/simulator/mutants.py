"""Mistakes in production code, each with the number of schedules until the simulator finds it.

    python -m tests.simulator.mutants                 all of them
    python -m tests.simulator.mutants --only NAME     one
    python -m tests.simulator.mutants --subject mute  those of a subject
    python -m tests.simulator.mutants --keep          note the counts for docs/reliability.md

A mistake is one replaced text.  The changed module is compiled, and the changed functions get their new code for a
while: no file is touched, and all who have imported a function run the new one.

Exit code 0: all were found.  1: some were not.
"""

import argparse
import gc
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import partial
from importlib import import_module
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

from tests.simulator.schedule import TCP, UDP
from tests.simulator.subjects import run_of
from tests.simulator.world import quiet

LIST: Final = Path(__file__).with_name("mutants.toml")
MOST_SCHEDULES: Final = 100_000
_SCHEMES: Final = {"streams": TCP, "streams over UDP": UDP}
"""A mistake is made where one of the two carriers meets it."""
_BETWEEN_COLLECTIONS: Final = 25


@dataclass(frozen=True)
class Mutant:
    """A mistake."""

    name: str
    module: str
    old: str
    new: str
    subject: str
    """What is simulated to find it."""


@dataclass(frozen=True)
class Found:
    """What has come of it."""

    mutant: str
    schedules: int
    """Until it was found."""
    broken: str
    """The law that did not hold; empty: none did."""
    seconds: float


def mutants() -> list[Mutant]:
    """All that are listed."""
    return [Mutant(**entry) for entry in tomllib.loads(LIST.read_text())["mutant"]]


@contextmanager
def made(mutant: Mutant) -> Iterator[None]:
    """Let this process make the mistake within the block.

    Raises:
        ValueError: the text is not there exactly once, or no function has changed.
    """
    module = import_module(mutant.module)
    path = Path(str(module.__file__))
    text = path.read_text()
    if text.count(mutant.old) != 1:
        raise ValueError(f"{mutant.name}: the text is {text.count(mutant.old)} times in {path.name}")
    codes = dict(_codes(compile(text.replace(mutant.old, mutant.new), str(path), "exec")))
    changed = {
        function: (function.__code__, code)
        for function in _functions(module)
        if (code := codes.get(function.__code__.co_qualname)) is not None and _differs(function.__code__, code)
    }
    if not changed:
        raise ValueError(f"{mutant.name}: no function of {path.name} has changed")
    try:
        for function, (_, code) in changed.items():
            function.__code__ = code
        yield
    finally:
        for function, (code, _) in changed.items():
            function.__code__ = code


def _codes(code: CodeType) -> Iterator[tuple[str, CodeType]]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant.co_qualname, constant
            yield from _codes(constant)


def _functions(module: ModuleType) -> Iterator[FunctionType]:
    """Functions and methods of a module, their decorators' ones too."""
    classes = [each for each in vars(module).values() if isinstance(each, type) and each.__module__ == module.__name__]
    for namespace in (module, *classes):
        for value in vars(namespace).values():
            function: Any = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
            while isinstance(function, FunctionType):
                if function.__module__ == module.__name__:
                    yield function
                function = getattr(function, "__wrapped__", None)


def _differs(one: CodeType, other: CodeType) -> bool:
    """Do they do different things?  Where they stand in the file does not matter."""
    if (one.co_code, one.co_names, len(one.co_consts)) != (other.co_code, other.co_names, len(other.co_consts)):
        return True
    for ours, theirs in zip(one.co_consts, other.co_consts, strict=True):
        if isinstance(ours, CodeType) and isinstance(theirs, CodeType):
            if _differs(ours, theirs):
                return True
        elif ours != theirs:
            return True
    return False


def _runner(subject: str) -> Callable[[int], list[str]]:
    """Runs a seed, and returns the broken laws."""
    if subject == "stores":
        from tests.simulator.store_runs import laws_of

        return laws_of
    if subject in _SCHEMES:
        from tests.simulator.streams import run_seed

        return lambda seed: run_seed(seed, False, _SCHEMES[subject]).broken
    run = run_of(subject)
    return lambda seed: run(seed, False).broken


def hunt(mutant: Mutant, most: int = MOST_SCHEDULES) -> Found:
    """Run schedules until the mistake is found."""
    run = _runner(mutant.subject)
    began = time.process_time()
    with made(mutant), quiet():
        gc.disable()  # what crashed processes have left must not be freed in the middle of a run
        try:
            for seed in range(most):
                if broken := run(seed):
                    return Found(mutant.name, seed + 1, broken[0], time.process_time() - began)
                if seed % _BETWEEN_COLLECTIONS == 0:
                    gc.collect()
        finally:
            gc.collect()
            gc.enable()
    return Found(mutant.name, most, "", time.process_time() - began)


def main() -> int:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulator.mutants", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", metavar="NAME", help="this one")
    parser.add_argument("--subject", metavar="NAME", help="those that are found in this subject")
    parser.add_argument("--most", type=int, default=MOST_SCHEDULES, metavar="N", help=f"schedules ({MOST_SCHEDULES:,})")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes (2)")
    parser.add_argument("--keep", action="store_true", help="note the counts for docs/reliability.md")
    asked = parser.parse_args()
    chosen = [
        mutant for mutant in mutants() if asked.only in (None, mutant.name) and asked.subject in (None, mutant.subject)
    ]
    began, results, numbers = time.monotonic(), list[Found](), count(1)
    with ProcessPoolExecutor(asked.jobs, mp_context=get_context("spawn")) as pool:
        for found in pool.map(partial(hunt, most=asked.most), chosen):
            results.append(found)
            told = found.broken[:100] if found.broken else "NOT FOUND"
            print(f"{next(numbers):3} {found.schedules:7,} {found.mutant:50} {told}", flush=True)
    if asked.keep:
        _keep(results, time.monotonic() - began)
    return 0 if all(found.broken for found in results) else 1


def _keep(results: list[Found], seconds: float) -> None:
    """Note the counts, beside those of former runs for the others."""
    from tools.reliability import RESULTS, Trial

    file = RESULTS / "mutants.json"
    former = Trial.read(file) if file.exists() else None
    counts = {str(row[0]): row[2] for row in (former.rows if former is not None else ())}
    counts |= {found.mutant: found.schedules for found in results}
    is_whole = former is None or len(results) == len(mutants())
    rows = tuple((each.name, each.subject, counts[each.name]) for each in mutants() if each.name in counts)
    Trial(
        name="mutants",
        title="Mistakes that the simulator finds",
        told="Production code with one mistake at a time, in simulated schedules until one of them breaks a law.",
        command=".venv/bin/python -m tests.simulator.mutants --keep",
        date=date.today().isoformat(),
        seconds=round(seconds if is_whole or former is None else seconds + former.seconds, 1),
        tried=len(rows),
        broken=sum(not found.broken for found in results),
        columns=("mistake", "simulated", "schedules until found"),
        rows=rows,
        promises=("each of these mistakes is found within 100,000 schedules",),
    ).keep()


if __name__ == "__main__":
    sys.exit(main())
