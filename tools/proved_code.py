"""Write docs/reference/proved-code.md: the claims about the running code, and the lines of it that none reaches.

    python -m tools.proved_code

It proves all of them, line by line under a trace function, in about two minutes.  A test compares.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

from permitflow.flows import adaptive_window, byte_window, credit, seam
from permitflow.flows.demand import core as demand
from permitflow.flows.gate import core as gate
from permitflow.flows.permits import core as permits
from permitflow.flows.squelch import core as squelch
from permitflow.mute import graph
from permitflow.stages.core import drop_queue, ports, token_bucket
from permitflow_proofs.code.catalogue import catalogue
from permitflow_proofs.kernel.obligation import SymbolicObligation, decide
from permitflow_proofs.kernel.theorem import Theorem

PAGE = Path(__file__).resolve().parent.parent / "docs/reference/proved-code.md"

CORES: tuple[type[Any], ...] = (
    *(permits.PermitSender, permits.PermitReceiver, credit.Credit, adaptive_window.AdaptiveWindow),
    *(demand.DemandSender, demand.DemandReceiver, squelch.SquelchSender, squelch.SquelchReceiver),
    *(seam.MessageSender, seam.MessageReceiver, seam.Outbound, seam.Inbound),
    *(byte_window.ByteWindow, byte_window.OutstandingBytes, byte_window.UnreturnedBytes),
    *(drop_queue.DropQueue, token_bucket.TokenBucket, ports.Connection, ports.Island),
    *(gate.GateSender, gate.GateReceiver, gate.Gate, graph.MuteGraph),
)

_HEAD = """\
# The code that is proved

Made by `python -m tools.proved_code`; a test compares. `permitflow prove --code` proves the claims below.
[How it is proved](../concepts/how-it-is-proved.md) explains what a claim does.

Each claim runs the methods of a core with symbols, in any state that stands for a state of the model that the
inductive invariant allows. Each has a twin, with one mistake, that must be refuted.
"""

_LINES = """
## Lines that no claim reaches

A line counts as reached if a claim runs it on some path. What is not reached is not proved: tests alone check it. Words
for errors, statistics and set-up are mostly of this kind.

| Core | Lines | Reached | Methods of which lines are not reached (so many of so many) |
|---|--:|--:|---|
"""


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """The whole page; proves everything."""
    reached = lines_reached(catalogue())
    return f"{claims()}{_LINES}{''.join(_row(core, reached) for core in CORES)}"


def claims() -> str:
    """The part of the page that needs no proof to be written."""
    return f"{_HEAD}{''.join(map(_chapter, catalogue()))}"


def _chapter(theorem: Theorem) -> str:
    claims = "".join(f"- {each.name} (twin: {each.twin_change})\n" for each in theorem.obligations)
    return f"\n## `{theorem.id}`\n\n{theorem.statement} Specification: `{theorem.module}`.\n\n{claims}"


def lines_reached(theorems: tuple[Theorem, ...]) -> Mapping[str, set[int]]:
    """By file: the lines that some claim runs."""
    files = {sys.modules[core.__module__].__file__ or "": set[int]() for core in CORES}

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        found = files.get(frame.f_code.co_filename)
        if found is None:
            return None
        if event == "line":
            found.add(frame.f_lineno)
        return trace

    for theorem in theorems:
        for obligation in theorem.obligations:
            assert isinstance(obligation, SymbolicObligation)
            sys.settrace(trace)
            try:
                decide(obligation.claim)
            finally:
                sys.settrace(None)
    return files


def _row(core: type[Any], reached: Mapping[str, set[int]]) -> str:
    found = reached[sys.modules[core.__module__].__file__ or ""]
    lines, hit, left = 0, 0, []
    for name, code in _codes(core):
        own = _lines_of(code)
        here = own & found
        lines, hit = lines + len(own), hit + len(here)
        if here != own:
            left.append(f"`{name}`{f' ({len(own - here)} of {len(own)})' if here else ''}")
    return f"| `{core.__name__}` | {lines} | {hit} | {', '.join(left) or 'none'} |\n"


def _codes(core: type[Any]) -> Iterator[tuple[str, CodeType]]:
    file = sys.modules[core.__module__].__file__
    for name, value in vars(core).items():
        function = value.fget if isinstance(value, property) else value
        if isinstance(function, FunctionType) and function.__code__.co_filename == file and not _is_abstract(function):
            yield name, function.__code__


def _is_abstract(function: FunctionType) -> bool:
    return bool(getattr(function, "__isabstractmethod__", False))


def _lines_of(code: CodeType) -> set[int]:
    """Those with statements, also of functions inside; not the first, which says what it is called."""
    lines = {line for _, _, line in code.co_lines() if line is not None and line != code.co_firstlineno}
    for part in code.co_consts:
        if isinstance(part, CodeType):
            lines |= _lines_of(part) | {part.co_firstlineno}
    return lines


if __name__ == "__main__":
    main()
