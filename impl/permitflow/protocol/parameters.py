"""The numbers that both ends of a channel must agree on, and how long a name may be."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from permitflow.errors import InvalidParametersError

__all__ = ["GAUGE_HELP", "MOST_NAME_CHARACTERS", "ChannelParameters", "Oversize", "kept_parameters", "require_name"]

# Four Arrow batches of 8,192 rows in flight; RisingWave began with the same pair (PR 6170).  A larger window is faster
# for large chunks, and lets each chunk of a full channel wait as much longer: docs/performance.md, "The defaults".
DEFAULT_ROW_PERMITS = 32_768
# Of a channel that keeps its rows.  A micro-batch of Spark holds half a window of each channel and takes at least some
# 0.2 s, whatever it holds: two channels of 32,768 rows pass on 0.15 million rows a second, two of a million rows nearly
# what Spark does with rows in memory: `make streaming-read`, docs/spark-streaming.md.  A bound in rows is none in
# bytes: a window of rows of 100 bytes is 100 MiB, once it is full.
DEFAULT_KEPT_ROW_PERMITS = 1_048_576
# With that window, larger chunks are cut: what travels in one piece holds up others, and may not exceed 256 MiB.
DEFAULT_KEPT_CHUNK_COST = 32_768
DEFAULT_BARRIER_PERMITS = 1
# Returning an eighth of the window at a time keeps the number of grant messages small; with half of it, the sender
# would stand still until its consumer is halfway through: docs/performance.md, "The batch".
BATCH_SHARE = 8

GAUGE_HELP = {
    "row_permits_here": "Row permits at the sender, unspent; all of them while the channel is idle.",
    "unreturned_permits": "Row permits of consumed chunks that the receiver has not returned yet.",
}
"""What each gauge of a channel with permits says: ``PermitSender.gauges``, ``PermitReceiver.gauges``."""


class Oversize(StrEnum):
    """What becomes of a chunk that costs more than the clamp."""

    SPLIT = "split"
    """It is sent as several slices, so that never more than ``row_permits`` rows are in the channel."""

    WHOLE = "whole"
    """It is admitted whole for the clamped cost, as RisingWave does; rows may exceed permits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChannelParameters:
    """Parameters of one channel; a permit is the right to send one row.

    Live for every sequence of chunks because ``max_chunk_cost <= row_permits - permit_batch + 1``.

    Spec: RowCount, Batch, Clamp, BarrierPermits.

    Raises:
        InvalidParametersError: a number is out of its range.
    """

    row_permits: int = DEFAULT_ROW_PERMITS
    """Rows that may be in the channel at once."""

    permit_batch: int = 0
    """The receiver returns row permits once it holds this many; 0 chooses an eighth of ``row_permits``."""

    max_chunk_cost: int = 0
    """The most permits a chunk takes; 0 chooses ``row_permits - permit_batch``."""

    barrier_permits: int = DEFAULT_BARRIER_PERMITS
    """Barriers that may be in the channel at once."""

    oversize: Oversize = Oversize.SPLIT
    """What becomes of a chunk above ``max_chunk_cost``."""

    def __post_init__(self) -> None:
        """Fill in what was left open, then refuse what cannot work."""
        for name in ("row_permits", "permit_batch", "max_chunk_cost", "barrier_permits"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool):
                raise InvalidParametersError(name=name, value=value, rule="must be a whole number")
        if self.row_permits < 2:
            raise InvalidParametersError(name="row_permits", value=self.row_permits, rule="must be at least 2")
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
        if self.barrier_permits < 1:
            raise InvalidParametersError(name="barrier_permits", value=self.barrier_permits, rule="must be at least 1")
        object.__setattr__(self, "oversize", _oversize(self.oversize))

    def _fill_in(self) -> None:
        """What follows from ``row_permits`` where nothing else was chosen."""
        if self.permit_batch == 0:
            object.__setattr__(self, "permit_batch", max(1, self.row_permits // BATCH_SHARE))
        if self.max_chunk_cost == 0:
            object.__setattr__(self, "max_chunk_cost", self.row_permits - self.permit_batch)

    def cost_of(self, rows: int) -> int:
        """Permits that a chunk of so many rows takes: an empty one takes 1, an oversize one the clamp.

        Spec: Cost.
        """
        return min(max(rows, 1), self.max_chunk_cost)


def kept_parameters(*, row_permits: int | None = None, **others: Any) -> ChannelParameters:
    """Parameters of a channel that keeps its rows: as ``ChannelParameters``, with a larger window if none is chosen.

    Raises:
        InvalidParametersError: a number is out of its range.
    """
    if row_permits is not None:
        return ChannelParameters(row_permits=row_permits, **others)
    return ChannelParameters(
        row_permits=DEFAULT_KEPT_ROW_PERMITS, **{"max_chunk_cost": DEFAULT_KEPT_CHUNK_COST, **others}
    )


def _oversize(value: object) -> Oversize:
    try:
        return Oversize(value)  # type: ignore[arg-type]  # options and files bring text
    except ValueError:
        names = " or ".join(repr(member.value) for member in Oversize)
        raise InvalidParametersError(name="oversize", value=value, rule=f"must be {names}") from None


MOST_NAME_CHARACTERS = 200
"""An exchange may keep a name for as long as the channel."""


def require_name(name: str, value: str) -> None:
    """Refuse a name that is too long to be kept; ``name`` says what it names.

    Raises:
        InvalidParametersError: it has more than 200 characters.
    """
    if len(value) > MOST_NAME_CHARACTERS:
        rule = f"must have at most {MOST_NAME_CHARACTERS} characters"
        raise InvalidParametersError(name=name, value=f"{value[:MOST_NAME_CHARACTERS]}…", rule=rule)
