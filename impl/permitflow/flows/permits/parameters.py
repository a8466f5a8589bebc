"""The numbers of a permit channel, what they may be, and how many permits a message holds by them."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from permitflow.chunks import DEFAULT_CHUNK_ROWS, DEFAULT_KEPT_ROWS
from permitflow.errors import InvalidParametersError
from permitflow.flows import seam
from permitflow.flows.messages import Kind, Message
from permitflow.flows.seam import Wishes, require_whole, wishes_of

_CHUNK = Kind.CHUNK  # reading an enumeration's attribute costs more than the whole decision

# Four Arrow batches of 8,192 rows in flight; RisingWave began with the same pair (PR 6170).  A larger window is faster
# for large chunks, but each chunk of a full channel waits longer: docs/concepts/performance.md, "The defaults".
DEFAULT_ROW_PERMITS = 32_768
DEFAULT_BARRIER_PERMITS = 1
AS_MANY_AS_POSSIBLE = -1
# Returning an eighth of the window at a time keeps the number of feedback messages small; with half of it, the sender
# would stop until its consumer is halfway through: docs/concepts/performance.md, "The batch".
BATCH_SHARE = 8


class Oversize(StrEnum):
    """How to send a chunk of more rows than ``max_chunk_cost``."""

    SPLIT = "split"
    """Send it in slices, so that never more than ``row_permits`` rows are in the channel."""

    WHOLE = "whole"
    """Send it whole for ``max_chunk_cost`` permits, as RisingWave does; rows may exceed permits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChannelParameters(seam.Parameters):
    """Parameters of one channel; a permit is the right to send one row.

    Live for every sequence of chunks because ``max_chunk_cost <= row_permits - permit_batch + 1``.

    Spec: RowPermits, InitialPermits, PermitBatch, MaxChunkCost, BarrierPermits.

    Raises:
        InvalidParametersError: a number is out of its range.
    """

    row_permits: int = DEFAULT_ROW_PERMITS
    """Rows that may be in the channel at once."""

    permit_batch: int = 0
    """The receiver returns row permits once it holds this many; 0: an eighth of ``row_permits``."""

    max_chunk_cost: int = 0
    """The most permits that a chunk takes; 0: ``row_permits - permit_batch``."""

    barrier_permits: int = DEFAULT_BARRIER_PERMITS
    """Barriers that may be in the channel at once."""

    oversize: Oversize = Oversize.SPLIT
    """How to send a chunk of more rows than ``max_chunk_cost``."""

    initial_permits: int = AS_MANY_AS_POSSIBLE
    """Row permits that the sender has from the start; it gets the others when the receiver's application first asks for
    a message that is not here, or consumes one.  0: nothing is sent until then.  -1: ``row_permits``."""

    def __post_init__(self) -> None:
        """Fill in the defaults, then refuse numbers that cannot work."""
        require_whole(self, _LEAST)
        self._fill_in()
        if not 1 <= self.permit_batch < self.row_permits:
            raise InvalidParametersError(
                name="permit_batch",
                value=self.permit_batch,
                rule=f"must be at least 1 and below row_permits = {self.row_permits}",
            )
        limit = self.row_permits - self.permit_batch + 1
        if not 1 <= self.max_chunk_cost <= limit:
            raise InvalidParametersError(
                name="max_chunk_cost",
                value=self.max_chunk_cost,
                rule=f"must be in 1 .. row_permits - permit_batch + 1 = {limit}, else a chunk may wait for ever",
            )
        self._check_initial_permits()
        object.__setattr__(self, "oversize", _oversize(self.oversize))

    def _fill_in(self) -> None:
        """Derive the missing numbers from ``row_permits``."""
        if self.permit_batch == 0:
            object.__setattr__(self, "permit_batch", max(1, self.row_permits // BATCH_SHARE))
        if self.max_chunk_cost == 0:
            object.__setattr__(self, "max_chunk_cost", self.row_permits - self.permit_batch)
        if self.initial_permits == AS_MANY_AS_POSSIBLE:
            object.__setattr__(self, "initial_permits", self.row_permits)

    def _check_initial_permits(self) -> None:
        if not 0 <= self.initial_permits <= self.row_permits:
            rule = f"must be in 0 .. row_permits = {self.row_permits}"
            raise InvalidParametersError(name="initial_permits", value=self.initial_permits, rule=rule)

    @property
    def window_rows(self) -> int:
        """The most rows that may be in the channel at once."""
        return self.row_permits

    @property
    def most_rows(self) -> int | None:
        """The most rows of a chunk, if larger chunks are split."""
        return self.max_chunk_cost if self.oversize is Oversize.SPLIT else None

    def cost_of(self, rows: int) -> int:
        """Permits that a chunk of this many rows takes: an empty chunk takes 1, an oversize one ``max_chunk_cost``.

        Spec: Cost.
        """
        return rows if 0 < rows <= self.max_chunk_cost else min(max(rows, 1), self.max_chunk_cost)


_LEAST = {
    "row_permits": 2,
    "permit_batch": 0,
    "max_chunk_cost": 0,
    "barrier_permits": 1,
    "initial_permits": AS_MANY_AS_POSSIBLE,
}


def _oversize(value: object) -> Oversize:
    try:
        return Oversize(value)  # type: ignore[arg-type]  # options and files bring text
    except ValueError:
        names = " or ".join(repr(member.value) for member in Oversize)
        raise InvalidParametersError(name="oversize", value=value, rule=f"must be {names}") from None


ONCE_PARAMETERS = ChannelParameters(row_permits=131_072, permit_batch=4_096, max_chunk_cost=DEFAULT_CHUNK_ROWS)
"""The default for an exchange's channels that are read once.

Between processes a message costs more than the chunks in it, and half a window is the longest message.  Batch and
chunks are as small as with ``DEFAULT_ROW_PERMITS``: a slow reader's permits come back as soon.
"""

KEPT_PARAMETERS = ChannelParameters(row_permits=DEFAULT_KEPT_ROWS, max_chunk_cost=DEFAULT_CHUNK_ROWS)
"""The default for channels that keep their rows."""

StatedParameters: Any = wishes_of(ChannelParameters)
"""Parameters as one end states them: unchecked; None: the end states nothing."""

NOTHING_STATED: Wishes = StatedParameters()


class Permits(NamedTuple):
    """Permits by class."""

    rows: int = 0
    barriers: int = 0
    watermarks: int = 0


def held(message: Message[Any], parameters: ChannelParameters) -> Permits:
    """The permits that a message holds while it is in the channel."""
    if message.kind is _CHUNK:
        return Permits(rows=parameters.cost_of(message.rows))
    return Permits(barriers=1) if message.kind is Kind.BARRIER else Permits(watermarks=1)
