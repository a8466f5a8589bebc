"""Judges recorded runs: is this a behaviour of the specification?"""

from collections.abc import Sequence
from dataclasses import dataclass

from permitflow.protocol.parameters import ChannelParameters, Oversize
from permitflow.tracing.events import Event
from permitflow.tracing.reader import ChannelTrace, Trace
from permitflow_model.kernel.replay import Replay, replay
from permitflow_model.permit_channel import Parameters
from permitflow_model.permit_channel_trace import PermitChannelReplay
from permitflow_model.permit_channel_world import World

__all__ = ["UNLIMITED", "Verdict", "judge", "judge_all", "model_of"]

UNLIMITED = 2**62
"""Chunks that may wait at once in a real run."""


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

    @property
    def is_valid(self) -> bool:
        """Is the run a behaviour of the specification, and do its invariants hold at every step?"""
        return self.replay.is_valid

    @property
    def world(self) -> World:
        """The last state, or the one before the first event that no behaviour allows."""
        return self.replay.worlds[0]

    def describe(self) -> str:
        """The verdict in words: if it is bad, what happened, in which state, and what would have been right."""
        name = f"channel {self.channel!r}"
        if self.is_valid:
            rest = "at rest" if self.is_at_rest else "not at rest: " + _in_words(self.world)
            return f"{name}: valid, {self.replay.performed:,} events, at the end {rest}"
        lines = [f"{name}: not a behaviour of the specification, after {self.replay.performed:,} valid events"]
        if self.replay.broken:
            lines.append(f"  {_event_in_words(self.replay.last)} breaks {', '.join(self.replay.broken)}")
        for block in self.replay.blocked:
            problem = "is impossible" if block.is_refused else "has no cause"
            lines.append(f"  {_event_in_words(block.event)} {problem}: {block.reason}")
        lines.append(f"  in the state  {_in_words(self.world)}")
        lines.append(f"  allowed are   {'; '.join(self.allowed) or 'no steps of the protocol'}")
        if self.left_over:
            lines.append(f"  {self.left_over:,} later events were not looked at")
        return "\n".join(lines)


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
        tags=agreed.row_permits + waiters + 1 if numbered else 1,
    )


def judge(channel: ChannelTrace, *, by_end: bool = False, keep_path: bool = False) -> Verdict:
    """Replay what was recorded of one channel.

    Where one process recorded both ends, the order in which it did so counts: a permit that comes back before its
    chunk was consumed is found out at once.  With ``by_end`` each end's own order is all that counts, as it is
    anyway where two processes recorded.
    """
    logs = channel.logs_by_end if by_end else channel.logs
    sizes = (_largest_rows(channel.parameters, logs),)
    parameters = model_of(channel.parameters, sizes=sizes, waiters=UNLIMITED)
    interpretation = PermitChannelReplay(parameters, keep_path=keep_path)
    outcome = replay(interpretation, interpretation.start(), logs)
    return Verdict(
        channel=channel.channel,
        replay=outcome,
        left_over=sum(map(len, logs)) - outcome.performed - len(outcome.blocked),
        is_at_rest=any(interpretation.is_at_rest(world) for world in outcome.worlds),
        allowed=tuple(interpretation.allowed(outcome.worlds[0])),
    )


def judge_all(trace: Trace, *, by_end: bool = False) -> list[Verdict]:
    """Replay every channel of a recording."""
    return [judge(channel, by_end=by_end) for channel in trace.channels.values()]


def _largest_rows(agreed: ChannelParameters, logs: Sequence[Sequence[Event]]) -> int:
    if agreed.oversize is Oversize.SPLIT:
        return agreed.max_chunk_cost
    return max((event.rows for log in logs for event in log), default=0)


def _event_in_words(event: Event | None) -> str:
    if event is None:
        return "nothing"
    permits = ", ".join(
        f"{count} {name}" for name, count in zip(event.permits._fields, event.permits, strict=True) if count
    )
    rows = f"{event.rows} rows, " if event.action.endswith("Chunk") or event.rows else ""
    return f"{event.action} ({rows}permits: {permits or 'none'}), event {event.sequence} of the {event.end},"


def _in_words(world: World) -> str:
    state = world.state
    parts = {
        "waiting": [message.rows for message in state.waiting],
        "barriers waiting": int(state.barrier_waiting) + world.barriers_in_hand,
        "watermark pending after": None if state.watermark_pending < 0 else state.watermark_pending,
        "permits": tuple(state.permits),
        "on the wire": [(message.kind, message.rows) for message in state.wire],
        "inbox": [(message.kind, message.rows) for message in state.inbox],
        "unreturned": state.unreturned,
        "permits on their way back": [tuple(grant) for grant in state.grants],
    }
    return ", ".join(f"{name} {value}" for name, value in parts.items() if value not in (0, None, []))
