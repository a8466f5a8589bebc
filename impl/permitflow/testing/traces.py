"""Judges recorded runs: is this a behaviour of the specification?  The verdict says so in numbers and in words."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from permitflow.errors import InvalidParametersError, TraceMismatchError
from permitflow.protocol.permits import PERMIT_ACTIONS, ChannelParameters, Oversize
from permitflow.protocol.recording import End
from permitflow.tracing.events import Event
from permitflow.tracing.reader import ChannelTrace, Trace
from permitflow_model.kernel.replay import Blocked, Replay, replay
from permitflow_model.permit_channel import SYSTEM, Parameters, row_bound_of, rows_in
from permitflow_model.permit_channel_trace import (
    PermitChannelReplay,
    ReceiverAlone,
    SenderAlone,
    World,
    permits_of,
    rows_of,
)

__all__ = [
    "UNLIMITED",
    "Peaks",
    "Verdict",
    "agreed_of",
    "event_in_words",
    "judge",
    "judge_all",
    "largest_rows",
    "model_of",
    "world_in_words",
]

UNLIMITED = 2**62
"""Chunks that may wait at once in a real run."""

_SHOWN = 8
"""Messages of a queue that are shown."""

_ONE_END: dict[frozenset[End], type[PermitChannelReplay]] = {
    frozenset({"sender"}): SenderAlone,
    frozenset({"receiver"}): ReceiverAlone,
}


@dataclass(kw_only=True)
class Peaks:
    """The most that was ever anywhere, beside the most that may be there."""

    row_permits: int
    """Of the channel: no more can be in use."""

    row_bound: int
    """Rows; above ``row_permits`` only where chunks above the clamp are admitted whole."""

    row_permits_in_use: int = 0
    """Not at the sender."""

    inbox_rows: int = 0
    """Arrived and not consumed."""


@dataclass(frozen=True)
class Verdict:
    """What the model says about the run of one channel."""

    channel: str
    replay: Replay[World, Event]
    left_over: int
    """Events that could not be explained any more, because an event before them was not."""

    is_at_rest: bool
    """Had everything been consumed at the end, and were all permits back at the sender?"""

    allowed: tuple[str, ...]
    """What the protocol could have done next."""

    peaks: Peaks
    ends: frozenset[End] = frozenset({"sender", "receiver"})
    """The ends that were recorded; the model itself played the other one."""

    cut_ends: frozenset[End] = frozenset()
    """Ends whose last events may be missing."""

    logs: int = 1
    """Processes that recorded it: with one, the order of all events is known; with two, each end's own."""

    actions: Counter[str] = field(default_factory=Counter)
    """How often each action was recorded."""

    rows: int = 0
    """Rows of the chunks that were consumed or, where the receiver was not recorded, sent."""

    @property
    def is_valid(self) -> bool:
        """Is the run a behaviour of the specification, and do its invariants hold at every step?

        Where a recording was cut off, what the other end did later may depend on events that are lost: that much is
        not held against the run, see ``undecided``.
        """
        return self.replay.is_valid or self.undecided is not None

    @property
    def undecided(self) -> Blocked[Event] | None:
        """An event that waits for something at the other end, whose recording was cut off before."""
        if self.logs < 2 or len(self.replay.blocked) != 1:
            return None
        (block,) = self.replay.blocked
        return block if not block.is_refused and self.cut_ends - {block.event.end} else None

    @property
    def world(self) -> World:
        """The last state, or the one before the first event that no behaviour allows."""
        return self.replay.worlds[0]

    @property
    def missing_actions(self) -> list[str]:
        """Actions of the specification that this run does not have."""
        return [action.name for action in SYSTEM.actions if action.name not in self.actions]

    def remarks(self) -> Iterator[str]:
        """What could not be checked, and why."""
        if len(self.ends) == 1:
            (end,) = self.ends
            other = "receiver" if end == "sender" else "sender"
            yield f"only the {end} was recorded: checked that some {other} that obeys explains what it did"
        for end in sorted(self.cut_ends):
            yield f"the recording of the {end} was not closed: its last events may be missing"
        if self.undecided is not None:
            event = event_in_words(self.undecided.event)
            left = f", and {self.left_over:,} events after it" if self.left_over else ""
            yield f"not decided: {event} waits for what is missing ({self.undecided.reason}){left}"

    def describe(self) -> str:
        """The verdict in words: if it is bad, what happened, in which state, and what would have been right."""
        name = f"channel {self.channel!r}"
        if self.is_valid:
            rest = "at rest" if self.is_at_rest else "not at rest: " + world_in_words(self.world)
            valid = f"{name}: valid, {self.replay.performed:,} events, at the end {rest}"
            return "\n  ".join((valid, *self.remarks()))
        lines = [f"{name}: not a behaviour of the specification, after {self.replay.performed:,} valid events"]
        lines += [f"  {problem}" for problem in self.problems()]
        lines.append(f"  in the state  {world_in_words(self.world)}")
        lines.append(f"  allowed are   {'; '.join(self.allowed) or 'no steps of the protocol'}")
        if self.left_over:
            lines.append(f"  {self.left_over:,} later events were not looked at")
        return "\n".join(lines)

    def problems(self) -> Iterator[str]:
        """The events at which the run left the specification, and why."""
        if self.replay.broken:
            yield f"{event_in_words(self.replay.last)} breaks {', '.join(self.replay.broken)}"
        for block in self.replay.blocked:
            problem = "is impossible" if block.is_refused else "has no cause"
            yield f"{event_in_words(block.event)} {problem}: {block.reason}"


def model_of(
    agreed: ChannelParameters, *, sizes: tuple[int, ...] = (), waiters: int = 1, numbered: bool = False
) -> Parameters:
    """The specification's constants for these parameters, with bounds for exploring and leading.

    Only an anonymous run (not ``numbered``) may have ``UNLIMITED`` waiters.
    """
    return Parameters(
        row_count=agreed.row_permits,
        batch=agreed.permit_batch,
        clamp=agreed.max_chunk_cost,
        sizes=sizes,
        barrier_permits=agreed.barrier_permits,
        watermarks=True,
        flush_idle=True,
        withdrawals=True,
        waiters=waiters,
        tags=agreed.row_permits + agreed.barrier_permits + waiters + 1 if numbered else 1,
    )


def agreed_of(channel: ChannelTrace) -> ChannelParameters:
    """The parameters of a recorded permit channel.

    Raises:
        TraceMismatchError: they are none, or another protocol was recorded.
    """
    if channel.table != PERMIT_ACTIONS:
        raise TraceMismatchError(channel=channel.channel, reason=f"{channel.table.flow!r} is recorded, not permits")
    try:
        return ChannelParameters(**channel.parameters)  # type: ignore[arg-type]  # it looks at the types itself
    except (InvalidParametersError, TypeError) as error:
        raise TraceMismatchError(channel=channel.channel, reason=str(error)) from error


def judge(channel: ChannelTrace, *, by_end: bool = False, keep_path: bool = False) -> Verdict:
    """Replay what was recorded of one channel.

    Where one process recorded both ends, the order in which it did so counts: a permit that comes back before its
    chunk was consumed is found out at once.  With ``by_end`` each end's own order is all that counts, as it is
    anyway where two processes recorded.  Of an end that was not recorded, the model plays the part.

    Raises:
        TraceMismatchError: its parameters are impossible, or another protocol was recorded.
    """
    logs = channel.logs_by_end if by_end else channel.logs
    parameters = model_of(agreed_of(channel), sizes=(largest_rows(channel),), waiters=UNLIMITED)
    interpretation = _ONE_END.get(channel.ends, PermitChannelReplay)(parameters, keep_path=keep_path)
    watched = _Watched(interpretation)
    outcome = replay(watched, interpretation.start(), logs)
    actions = Counter(event.action for log in logs for event in log)
    return Verdict(
        channel=channel.channel,
        replay=outcome,
        left_over=sum(map(len, logs)) - outcome.performed - len(outcome.blocked),
        is_at_rest=any(interpretation.is_at_rest(world) for world in outcome.worlds),
        allowed=tuple(interpretation.allowed(outcome.worlds[0])),
        peaks=watched.peaks(),
        ends=channel.ends,
        cut_ends=channel.cut_ends,
        logs=len(logs),
        actions=actions,
        rows=_rows_of("Consume" if "receiver" in channel.ends else "SendChunk", logs),
    )


def judge_all(trace: Trace, *, by_end: bool = False) -> list[Verdict]:
    """Replay every channel of a recording."""
    return [judge(channel, by_end=by_end) for channel in trace.channels.values()]


class _Watched:
    """An interpretation that remembers how much was where."""

    def __init__(self, interpretation: PermitChannelReplay) -> None:
        self.perform = interpretation.perform
        self._broken = interpretation.broken
        self._parameters = interpretation.parameters
        self._least_permits = self._parameters.row_count
        self._inbox_rows = 0

    def broken(self, world: World) -> list[str]:
        """The names of the invariants that do not hold; asked once after every event."""
        self._least_permits = min(self._least_permits, world.state.permits.rows)
        self._inbox_rows = max(self._inbox_rows, rows_in(world.state.inbox))
        return self._broken(world)

    def peaks(self) -> Peaks:
        """The most that was ever there."""
        of = self._parameters
        return Peaks(
            row_permits=of.row_count,
            row_bound=row_bound_of(of.row_count, of.clamp, max(of.sizes)),
            row_permits_in_use=of.row_count - self._least_permits,
            inbox_rows=self._inbox_rows,
        )


def _rows_of(action: str, logs: Sequence[Sequence[Event]]) -> int:
    return sum(rows_of(event) for log in logs for event in log if event.action == action)


def largest_rows(channel: ChannelTrace) -> int:
    """Rows of the largest chunk that the channel may have carried."""
    agreed = agreed_of(channel)
    if agreed.oversize is Oversize.SPLIT:
        return agreed.max_chunk_cost
    return max((rows_of(event) for log in channel.logs for event in log), default=0)


def event_in_words(event: Event | None) -> str:
    """Action, permits and place of an event."""
    if event is None:
        return "nothing"
    permits = ", ".join(f"{count} {name}" for name, count in permits_of(event)._asdict().items() if count)
    rows = f"{rows_of(event)} rows, " if event.action.endswith("Chunk") or rows_of(event) else ""
    return f"{event.action} ({rows}permits: {permits or 'none'}), event {event.sequence} of the {event.end},"


def world_in_words(world: World) -> str:
    """Where everything is; what is empty is left out."""
    state = world.state
    parts = {
        "waiting": _first([str(message.rows) if message.kind == "chunk" else "a barrier" for message in state.waiting]),
        "watermark pending after": None if state.watermark_pending < 0 else state.watermark_pending,
        "permits": tuple(state.permits),
        "on the wire": _first([str((message.kind, message.rows)) for message in state.wire]),
        "inbox": _first([str((message.kind, message.rows)) for message in state.inbox]),
        "unreturned": state.unreturned,
        "permits on their way back": _first([str(tuple(grant)) for grant in state.grants]),
    }
    return ", ".join(f"{name} {value}" for name, value in parts.items() if value not in (0, None, ""))


def _first(items: list[str]) -> str:
    """As many as one can look at."""
    more = f", and {len(items) - _SHOWN:,} more" if len(items) > _SHOWN else ""
    return f"[{', '.join(items[:_SHOWN])}{more}]" if items else ""
