"""The claims about the running code, and the lines of it that none reaches, for docs/reference/proved-code.md.

    python -m tools.proved_code           write the table of lines
    python -m tools.proved_code claims    print the claims, which `site_hooks` puts into the page

The table needs a proof of each claim, line by line under a trace function: about two minutes.  A test compares.
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
from tools.marks import pasted

PAGE = Path(__file__).resolve().parent.parent / "docs/reference/proved-code.md"

CORES: tuple[type[Any], ...] = (
    *(permits.PermitSender, permits.PermitReceiver, credit.Credit, adaptive_window.AdaptiveWindow),
    *(demand.DemandSender, demand.DemandReceiver, squelch.SquelchSender, squelch.SquelchReceiver),
    *(seam.MessageSender, seam.MessageReceiver, seam.Outbound, seam.Inbound),
    *(byte_window.ByteWindow, byte_window.OutstandingBytes, byte_window.UnreturnedBytes),
    *(drop_queue.DropQueue, token_bucket.TokenBucket, ports.Connection, ports.Island),
    *(gate.GateSender, gate.GateReceiver, gate.Gate, graph.MuteGraph),
)

_HEADER = """\
| Core | Lines | Reached | Methods of which lines are not reached (of how many) |
|---|--:|--:|---|
"""


def main(arguments: list[str]) -> None:
    """Write the table, or print the claims."""
    if arguments == ["claims"]:
        print(claims(), end="")
    else:
        PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """The whole page; proves everything."""
    reached = lines_reached(catalogue())
    table = _HEADER + "".join(_row(core, reached) for core in CORES)
    return pasted(PAGE.read_text(encoding="utf-8"), "lines", table)


def claims() -> str:
    """By theorem; nothing is proved."""
    return "\n".join(map(_chapter, catalogue()))


def _chapter(theorem: Theorem) -> str:
    claims = "".join(f"- {each.name} (twin: {each.twin_change})\n" for each in theorem.obligations)
    return f"### `{theorem.id}`\n\n{theorem.statement} Specification: `{theorem.module}`.\n\n{claims}"


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
    main(sys.argv[1:])
