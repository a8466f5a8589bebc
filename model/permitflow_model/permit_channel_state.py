"""The constants and variables of ``PermitChannel.tla``, and the arithmetic of permits."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from permitflow_model.kernel.queue import Fifo, Queue

__all__ = [
    "NOTHING",
    "NO_WATERMARK",
    "Message",
    "Parameters",
    "Permits",
    "State",
    "cost_of",
    "held",
    "initial",
    "next_sent",
    "plus",
    "successor",
    "total",
]

Kind = Literal["chunk", "barrier", "watermark"]
Whereabouts = Literal["pending", "sent", "heard"]


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """The constants of the specification."""

    row_count: int
    """Row permits of the channel."""

    batch: int
    """The receiver returns row permits once it holds this many."""

    clamp: int
    """The most a chunk costs; a larger one is admitted whole."""

    sizes: tuple[int, ...]
    """Chunk sizes that may be offered, in rows (for bounded exploration)."""

    barrier_permits: int = 0
    """Barriers that may be in the channel at once; 0: none are offered."""

    watermarks: bool = False
    """Are watermarks offered?"""

    flush_idle: bool = False
    """Does an idle receiver return a residue below ``batch``?"""

    withdrawals: bool = False
    """May the sender give up waiting?"""

    waiters: int = 1
    """Chunks and barriers that may wait for permits at once."""

    tags: int = 1
    """Numbers of chunks and barriers are taken modulo this; 1: they are anonymous."""

    def __post_init__(self) -> None:
        """Refuse what the specification's ASSUME refuses.

        Raises:
            ValueError: a parameter is out of its range.
        """
        for name in ("row_count", "batch", "clamp", "waiters", "tags"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.barrier_permits < 0:
            raise ValueError(f"barrier_permits must not be negative, but is {self.barrier_permits}")
        if any(rows < 0 for rows in self.sizes):
            raise ValueError(f"a chunk size must not be negative, but sizes are {self.sizes}")
        most = self.row_count + self.barrier_permits + self.waiters
        if 1 < self.tags <= most:
            raise ValueError(f"tags must be 1 or above row_count + barrier_permits + waiters = {most}, not {self.tags}")


class Permits(NamedTuple):
    """Permits by class."""

    rows: int
    barriers: int
    watermarks: int


class Message(NamedTuple):
    """What travels: a chunk of data, a barrier or a watermark, with the permits it holds."""

    kind: Kind
    id: int
    """The number of a chunk or barrier; for a watermark, the number of the one that it stands before."""
    rows: int
    cost: int


class State(NamedTuple):
    """The variables of the specification."""

    offered: int
    consumed: int
    waiting: Queue[Message]
    watermark_pending: int
    newest_watermark: Whereabouts
    permits: Permits
    wire: Queue[Message]
    inbox: Queue[Message]
    unreturned: int
    grants: Queue[Permits]


NO_WATERMARK = -1
NOTHING = Permits(0, 0, 0)


def plus(left: Permits, right: Permits) -> Permits:
    """Add class by class."""
    return Permits(left.rows + right.rows, left.barriers + right.barriers, left.watermarks + right.watermarks)


def total(parameters: Parameters) -> Permits:
    """All permits of the channel: Buf, for each class."""
    return Permits(parameters.row_count, parameters.barrier_permits, 1)


def cost_of(rows: int, parameters: Parameters) -> int:
    """Permits that a chunk of so many rows takes."""
    return min(max(rows, 1), parameters.clamp)


def held(message: Message) -> Permits:
    """Permits that a message holds while it is in the channel."""
    match message.kind:
        case "chunk":
            return Permits(message.cost, 0, 0)
        case "barrier":
            return Permits(0, message.cost, 0)
        case "watermark":
            return Permits(0, 0, message.cost)


def successor(number: int, parameters: Parameters) -> int:
    """The number of the next chunk or barrier."""
    return (number + 1) % parameters.tags


def next_sent(state: State) -> int:
    """The number of the next chunk or barrier to be sent: where a watermark stands among them."""
    return state.offered if state.waiting.is_empty() else state.waiting.head().id


def initial(parameters: Parameters) -> State:
    """Everything at rest, all permits at the sender."""
    return State(
        offered=0,
        consumed=0,
        waiting=Fifo(),
        watermark_pending=NO_WATERMARK,
        newest_watermark="heard",
        permits=total(parameters),
        wire=Fifo(),
        inbox=Fifo(),
        unreturned=0,
        grants=Fifo(),
    )
