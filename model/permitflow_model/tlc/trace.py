"""TLC as a referee over recorded runs: are these steps, one after the other, steps of the specification's own text?

A generated module extends ``PermitChannel`` and holds the run as a constant.  Its behaviours take the next recorded
step if the specification allows it with what was recorded of it, and stop where it does not.  TLC walks this one
behaviour; how far it comes is the verdict.  No invariants are checked on the way: what every behaviour of the
specification keeps to, TLC and the proofs have shown elsewhere.

A long run is walked in segments.  Each starts in the state in which the one before it had to end: TLC itself has
shown that it is this one, so nothing is taken on trust.
"""

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from permitflow_model.manifest import SUCCESS, find_spec_directory
from permitflow_model.permit_channel import Parameters, State, rows_in
from permitflow_model.tla_values import TlaValue, camel_case, config_text, format_value, to_tla
from permitflow_model.tlc.output import TlcError
from permitflow_model.tlc.run import run_tlc

__all__ = ["SEGMENT_STEPS", "Told", "Walk", "walk_trace"]

SEGMENT_STEPS = 100_000
"""TLC takes about a quarter of a minute for so many; the module is some 5 MB."""

MOST_NUMBER = 2**31 - 1
"""TLC's numbers have 32 bits."""

_MODULE = "PermitChannelRecorded"
# A list of a hundred thousand items would nest the parser too deeply.
_PART = 500


class Told(NamedTuple):
    """One step as it was recorded."""

    action: str
    rows: int
    permits: tuple[int, int, int] | None = None
    """Of the message, or returned; None: the step explains an event together with others, and nothing was told."""

    counters: tuple[int, ...] = ()
    """What the end counted afterwards; empty: nothing was told."""


@dataclass(frozen=True)
class Walk:
    """How far TLC came."""

    steps: int
    """Steps that were given."""

    reached: int
    """Steps that the specification allows, from the first one on without a gap."""

    goes_on: bool
    """Is one of the events possible that were given as impossible after the last step?"""

    seconds: float

    def followed_by(self, walk: "Walk") -> "Walk":
        """Both together; this one was walked to its end."""
        return Walk(
            steps=self.steps + walk.steps,
            reached=self.reached + walk.reached,
            goes_on=walk.goes_on,
            seconds=self.seconds + walk.seconds,
        )


def walk_trace(
    steps: Sequence[Told],
    parameters: Parameters,
    *,
    start: State | None = None,
    end: State | None = None,
    impossible: Sequence[Told] = (),
    spec_directory: Path | None = None,
    timeout_seconds: float = 300,
) -> Walk:
    """Let TLC walk a recorded run, or a segment of it.

    Args:
        steps: in the order of one behaviour.
        parameters: of the channel; bounds for exploring do not matter.
        start: the state before the first step; None: the initial one.
        end: the state to which the last step must lead; None: any.
        impossible: events that are said to be impossible after the last step.
        spec_directory: where ``PermitChannel.tla`` is; found by itself by default.
        timeout_seconds: give up after so long.

    Raises:
        ValueError: a number is too large for TLC.
        TlcNotFoundError: Java or the jar is missing.
        TlcError: TLC came to no verdict.
    """
    directory = spec_directory or find_spec_directory()
    with tempfile.TemporaryDirectory(prefix="permitflow-trace-") as name:
        folder = Path(name)
        shutil.copy(directory / "PermitChannel.tla", folder)
        (folder / f"{_MODULE}.tla").write_text(module_text(steps, impossible, start, end), encoding="utf-8")
        found = run_tlc(_MODULE, _config(parameters), spec_directory=folder, timeout_seconds=timeout_seconds)
    if found.verdict != SUCCESS:
        raise TlcError(f"TLC stopped in the recorded run: {found.verdict}")
    # One state for each position: it starts at 0, and is beyond the last step only by way of an impossible event.
    return Walk(len(steps), min(found.states - 1, len(steps)), found.states - 1 > len(steps), found.seconds)


def module_text(
    steps: Sequence[Told], impossible: Sequence[Told], start: State | None = None, end: State | None = None
) -> str:
    """The generated module.

    Raises:
        ValueError: a number is too large for TLC.
    """
    parts = [steps[start : start + _PART] for start in range(0, len(steps), _PART)]
    definitions = [f"Part{number} == <<\n{_listed(part)}>>" for number, part in enumerate(parts)]
    names = ", ".join(f"Part{number}" for number in range(len(parts)))
    return _TEXT.format(
        module=_MODULE,
        parts="\n".join(definitions),
        names=names,
        part=_PART,
        count=len(steps),
        impossible=_listed(impossible),
        start="Init" if start is None else _equations(start),
        inbox_rows=0 if start is None else rows_in(start.inbox),
        end="TRUE" if end is None else _equations(end, "'"),
    )


def _equations(state: State, prime: str = "") -> str:
    """That the variables have the values that they have in a state."""
    values = ((camel_case(name), getattr(state, name)) for name in state._fields)
    return "\n       ".join(f"/\\ {name}{prime} = {_value(value)}" for name, value in values)


def _value(value: object) -> str:
    if isinstance(value, tuple | str) or not isinstance(value, Iterable):
        return format_value(to_tla(value))
    items = [format_value(to_tla(item)) for item in value]
    parts = [f"<<{', '.join(items[start : start + _PART])}>>" for start in range(0, len(items), _PART)]
    return " \\o ".join(parts) or "<<>>"


def _config(parameters: Parameters) -> str:
    constants: dict[str, TlaValue] = {
        "RowCount": parameters.row_count,
        "Batch": parameters.batch,
        "Clamp": parameters.clamp,
        "Sizes": frozenset(),
        "BarrierPermits": parameters.barrier_permits,
        "Watermarks": True,
        "FlushIdle": parameters.flush_idle,
        "Withdrawals": True,
        "Waiters": MOST_NUMBER,
        "Tags": 1,
        "Fair": frozenset(),
    }
    return config_text(constants, specification="SpecRecorded")


def _listed(told: Sequence[Told]) -> str:
    return ",\n".join(f'<<"{step.action}", {", ".join(_values(step))}>>' for step in told)


def _values(step: Told) -> Iterator[str]:
    for numbers in ((step.rows,), step.permits or (), step.counters):
        if any(abs(number) > MOST_NUMBER for number in numbers):
            raise ValueError(f"{max(numbers, key=abs)} is too large for TLC, whose numbers have 32 bits")
    yield str(step.rows)
    for told in (step.permits or (), step.counters):
        yield f"<<{', '.join(map(str, told))}>>"


_TEXT = r"""---- MODULE {module} ----
EXTENDS PermitChannel

VARIABLES
    position,          \* steps of the recording that were taken
    inboxRows          \* rows in the inbox: to sum them up at every step would take too long

{parts}

Parts == <<{names}>>

Recorded(number) == Parts[((number - 1) \div {part}) + 1][((number - 1) % {part}) + 1]

Impossible == {{{impossible}}}

\* What was told of a step: <<action, rows, permits, counters>>; << >> where nothing was told.
Told(p) == <<p.rows, p.barriers, p.watermarks>>

Of(step, message) == step[3] = <<>> \/ (step[2] = message.rows /\ step[3] = Told(Held(message)))

Carries(step, p) == step[3] = <<>> \/ step[3] = Told(p)

Counted(step) ==
    \/ step[4] = <<>>
    \/ step[4] = IF step[1] \in {{"Deliver", "Consume", "Flush"}}
                 THEN <<Len(inbox'), inboxRows', unreturned'>>
                 ELSE Told(permits')

Watermark == Message("watermark", 0, 0, 1)

\* A receiver that nobody recorded may return permits in other portions than the specification's.
Parted(first) ==
    LET all == SumPermits(grants)
        rest == Permits(all.rows - first.rows, all.barriers - first.barriers, all.watermarks - first.watermarks)
    IN  /\ IsPermits(first) /\ IsPermits(rest)
        /\ grants' = IF rest = Permits(0, 0, 0) THEN <<first>> ELSE <<first, rest>>
        /\ UNCHANGED <<senderVars, newestWatermark, wire, receiverVars>>

Step(step) ==
    /\ CASE step[1] = "OfferChunk"      -> OfferChunk(step[2]) /\ Of(step, waiting'[Len(waiting')])
         [] step[1] = "OfferBarrier"    -> OfferBarrier /\ Of(step, waiting'[Len(waiting')])
         [] step[1] = "OfferWatermark"  -> OfferWatermark /\ Of(step, Watermark)
         [] step[1] = "WithdrawChunk"   -> WithdrawChunk /\ Of(step, waiting[Len(waiting)])
         [] step[1] = "WithdrawBarrier" -> WithdrawBarrier /\ Of(step, waiting[Len(waiting)])
         [] step[1] = "SendChunk"       -> SendChunk /\ Of(step, Head(waiting))
         [] step[1] = "SendBarrier"     -> SendBarrier /\ Of(step, Head(waiting))
         [] step[1] = "SendWatermark"   -> SendWatermark /\ Of(step, Watermark)
         [] step[1] = "Deliver"         -> Deliver /\ Of(step, Head(wire))
         [] step[1] = "Consume"         -> Consume /\ Of(step, Head(inbox))
         [] step[1] = "Flush"           -> Flush /\ Carries(step, Permits(unreturned, 0, 0))
         [] step[1] = "AddPermits"      -> AddPermits /\ Carries(step, Head(grants))
         [] step[1] = "PartGrants"      -> Parted(Permits(step[3][1], step[3][2], step[3][3]))
    /\ inboxRows' = CASE step[1] = "Deliver" -> inboxRows + Head(wire).rows
                      [] step[1] = "Consume" -> inboxRows - Head(inbox).rows
                      [] OTHER               -> inboxRows
    /\ Counted(step)

Withdrawn(step, kind) ==
    /\ \E i \in DOMAIN waiting : waiting[i].kind = kind /\ Of(step, waiting[i])
    /\ step[4] \in {{<<>>, Told(permits)}}

\* An event may stand for several steps: returned permits add up, and any message that waits may be withdrawn.
Possible(step) ==
    CASE step[1] = "AddPermits" ->
           \E n \in DOMAIN grants :
               LET sum == SumPermits(SubSeq(grants, 1, n)) IN
               step[3] = Told(sum) /\ step[4] \in {{<<>>, Told(Plus(permits, sum))}}
      [] step[1] = "WithdrawChunk"   -> Withdrawn(step, "chunk")
      [] step[1] = "WithdrawBarrier" -> Withdrawn(step, "barrier")
      [] OTHER -> ENABLED Step(step)

InitRecorded ==
    /\ {start}
    /\ position = 0 /\ inboxRows = {inbox_rows}

Ends ==
    /\ {end}

recordedVars == <<vars, position, inboxRows>>

NextRecorded ==
    \/ /\ position < {count} /\ Step(Recorded(position + 1)) /\ position' = position + 1
       /\ position' = {count} => Ends
    \/ /\ position = {count} /\ \E step \in Impossible : Possible(step)
       /\ position' = position + 1 /\ UNCHANGED <<vars, inboxRows>>
    \/ UNCHANGED recordedVars

SpecRecorded == InitRecorded /\ [][NextRecorded]_recordedVars
====
"""
