"""What the model says about a recorded run, in numbers and in words."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from permitflow.protocol.recording import End
from permitflow.tracing.events import Event
from permitflow_model.kernel.replay import Blocked, Replay
from permitflow_model.permit_channel import SYSTEM
from permitflow_model.permit_channel_world import World

__all__ = ["Peaks", "Verdict", "event_in_words", "world_in_words"]

_SHOWN = 8
"""Messages of a queue that are shown."""


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


def event_in_words(event: Event | None) -> str:
    """Action, permits and place of an event."""
    if event is None:
        return "nothing"
    permits = ", ".join(
        f"{count} {name}" for name, count in zip(event.permits._fields, event.permits, strict=True) if count
    )
    rows = f"{event.rows} rows, " if event.action.endswith("Chunk") or event.rows else ""
    return f"{event.action} ({rows}permits: {permits or 'none'}), event {event.sequence} of the {event.end},"


def world_in_words(world: World) -> str:
    """Where everything is; what is empty is left out."""
    state = world.state
    parts = {
        "waiting": _first([str(message.rows) for message in state.waiting]),
        "barriers waiting": int(state.barrier_waiting) + world.barriers_in_hand,
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
