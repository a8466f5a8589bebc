"""What a recorded run consists of, and what it has led to."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from permitflow_model.kernel.system import Step
from permitflow_model.permit_channel import NO_WATERMARK, State, rows_in

__all__ = ["RECEIVER_ACTIONS", "Path", "TraceEvent", "World", "counters_of", "withdraw_at"]

RECEIVER_ACTIONS = frozenset({"Deliver", "Consume", "Flush"})
"""Actions that happen at the receiver; all others happen at the sender."""


class TraceEvent(Protocol):
    """What the replay needs to know about a recorded event."""

    @property
    def action(self) -> str:
        """Spelt as in the specification."""
        ...

    @property
    def rows(self) -> int:
        """Rows of the chunk, or 0."""
        ...

    @property
    def permits(self) -> tuple[int, int, int]:
        """Permits of the message, or returned permits: rows, barriers, watermarks."""
        ...

    @property
    def counters(self) -> tuple[int, int, int] | None:
        """What the end counted after the event, if it was recorded; ``counters_of`` says of what."""
        ...


@dataclass(frozen=True, eq=False)
class Path:
    """A step of the model, and those before it.

    All paths are equal: worlds are the same if they are in the same state, whatever has led there.
    """

    step: Step[State]
    before: "Path | None"
    event: TraceEvent | None = None
    """The event that this step explains, or completes the explanation of."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Path)

    def __hash__(self) -> int:
        return 0

    def links(self) -> "list[Path]":
        """All links from the beginning, this one last."""
        links: list[Path] = []
        path: Path | None = self
        while path is not None:
            links.append(path)
            path = path.before
        return links[::-1]

    def steps(self) -> list[Step[State]]:
        """All steps from the beginning, this one last."""
        return [link.step for link in self.links()]


class World(NamedTuple):
    """What a trace has led to."""

    state: State
    path: Path | None = None
    """The model's steps until now, if they are kept."""


def counters_of(action: str, state: State) -> tuple[int, int, int]:
    """What the end at which the action happened must count in this state.

    The sender its permits, class by class; the receiver the messages and rows of its inbox, and what it has not
    returned.
    """
    if action in RECEIVER_ACTIONS:
        return state.inbox.size(), rows_in(state.inbox), state.unreturned
    return state.permits


def withdraw_at(state: State, position: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Actions that take back the waiting message at ``position`` (0 is the oldest) and leave the others as they were.

    Yields action names with their arguments.
    """
    waiting = list(state.waiting)
    for message in reversed(waiting[position:]):
        yield ("WithdrawChunk" if message.kind == "chunk" else "WithdrawBarrier"), ()
    # The watermark stood after so many messages; without one of them, it stands one place further forward.
    pending = state.watermark_pending
    place = pending - 1 if pending > position else NO_WATERMARK
    for size, message in enumerate(waiting[position + 1 :], start=position + 1):
        yield ("OfferChunk", (message.rows,)) if message.kind == "chunk" else ("OfferBarrier", ())
        if size == place:
            yield "OfferWatermark", ()
