"""Plans which rows a streaming query reads next, and which ones the exchange may forget, without I/O.

All numbers are rows of one channel, counted since it was opened.  An offset says how far a query has come in each
channel; Spark keeps it in its checkpoint.  The rules are those of ``SparkMicroBatch.tla``, with rows acknowledged in
``latestOffset(start, limit)``: ``start`` is the end of the last batch in Spark's commit log.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import ClassVar, TypeAlias, TypeGuard

from permitflow.errors import (
    ChannelAbortedError,
    CheckpointError,
    LogReplacedError,
    ReplayError,
    RowsExpiredError,
    RowsForgottenError,
    RowsLostError,
    RowsNotThereError,
)
from permitflow.spark.places import Places, require_there
from permitflow.stream.control import ChannelPosition, ChannelRow, ChannelState

OFFSET_VERSION = 1
"""Version of the JSON form.  A later version of this package may read the checkpoint of an earlier one."""

EPOCH_OFFSET_VERSION = 2
"""Version of the JSON form of an offset with a barrier."""

OffsetJson = dict[str, object]


@dataclass(frozen=True)
class StreamOffset:
    """The first row of each channel that a query has not planned yet, counted since the channel was opened."""

    rows: Mapping[str, int]
    """By channel."""
    log_ids: Mapping[str, str]
    """The exchange's log in which each channel's rows were counted: after a loss, a new log counts from 0."""
    barrier: int | None = None
    """The number of the last barrier before these rows; 0: there was none; None: the query does not read by epochs."""

    def as_json(self) -> OffsetJson:
        """The form that Spark keeps: ``{"version": 1, "rows": {"orders/0": 1234}, "logs": {"orders/0": "5f0c"}}``.

        An offset with a barrier has version 2 and ``"barrier": 7``: a package that knows no epochs refuses it.

        Spark compares offsets as text: equal offsets have their channels in the same order.
        """
        content: OffsetJson = {"version": OFFSET_VERSION, "rows": dict(self.rows), "logs": dict(self.log_ids)}
        if self.barrier is not None:
            content |= {"version": EPOCH_OFFSET_VERSION, "barrier": self.barrier}
        return content

    @classmethod
    def of_json(cls, content: object) -> "StreamOffset":
        """Read the result of ``as_json``.

        Raises:
            CheckpointError: another program has written it.
        """
        if not isinstance(content, dict) or "version" not in content:
            raise _foreign(content)
        version = content["version"]
        if version not in (OFFSET_VERSION, EPOCH_OFFSET_VERSION):
            known = f"versions {OFFSET_VERSION} and {EPOCH_OFFSET_VERSION}"
            raise CheckpointError(
                reason=f"has offsets of version {version!r}, and this package reads {known}",
                hint="run the query with the version of permitflow that wrote it, or a later one",
            )
        rows, log_ids = content.get("rows"), content.get("logs")
        if not (_is_rows(rows) and _is_log_ids(log_ids) and rows.keys() == log_ids.keys()):
            raise _foreign(content)
        if version == OFFSET_VERSION:
            return cls(rows, log_ids)
        barrier = content.get("barrier")
        if type(barrier) is not int or barrier < 0:
            raise _foreign(content)
        return cls(rows, log_ids, barrier)

    def acknowledged(self, given_up: int = 0) -> tuple[ChannelRow, ...]:
        """What the exchange may forget once the batch that ends here is in the commit log.

        ``given_up``: barriers up to this number are not needed either.
        """
        next_barrier = 0 if self.barrier is None else max(self.barrier, given_up) + 1
        return tuple(
            ChannelRow(channel, row, self.log_ids[channel], next_barrier) for channel, row in self.rows.items()
        )

    def require_channels(self, channels: Sequence[str]) -> None:
        """Require that the query still reads every channel that it has read before.

        Raises:
            CheckpointError: a channel is missing from the options; its rows would be skipped silently.
        """
        missing = [channel for channel in self.rows if channel not in channels]
        if missing:
            raise CheckpointError(
                reason=f"has offsets of channel {missing[0]!r}, which the options do not name any more",
                hint="name it again in options 'stream' and 'channels', or start the query with a new checkpoint",
            )

    def require_epochs(self, has_epochs: bool) -> None:
        """Require an offset of a query that reads by epochs, or of one that does not.

        Raises:
            CheckpointError: it is of the other kind; its batches would end elsewhere.
        """
        if (self.barrier is not None) is not has_epochs:
            ends, wanted = "rows", "barriers"
            if not has_epochs:
                ends, wanted = wanted, ends
            option = "leave out option 'epochs'" if has_epochs else "set option 'epochs' to 'aligned'"
            raise CheckpointError(
                reason=f"has batches that end at {ends}, and by the options they end at {wanted}",
                hint=f"{option} as before, or start the query with a new checkpoint",
            )


def _is_rows(value: object) -> TypeGuard[dict[str, int]]:
    return isinstance(value, dict) and all(type(row) is int and row >= 0 for row in value.values())


def _is_log_ids(value: object) -> TypeGuard[dict[str, str]]:
    return isinstance(value, dict) and all(isinstance(log_id, str) for log_id in value.values())


def _foreign(content: object) -> CheckpointError:
    return CheckpointError(
        reason=f"has an offset that this source did not write, {str(content)[:200]}",
        hint="each query needs a checkpointLocation of its own",
    )


Position: TypeAlias = ChannelPosition[object]
Positions: TypeAlias = Mapping[str, Position]
"""By channel."""

LOSSES = (LogReplacedError, RowsExpiredError, RowsForgottenError, RowsNotThereError)
"""The errors of an exchange that does not have the requested rows."""


@dataclass(frozen=True)
class RowRange:
    """The rows ``[from_row, to_row)`` of a channel, which a task reads as often as Spark asks."""

    channel: str
    log_id: str
    """The log in which the rows were counted."""
    from_row: int
    to_row: int


@dataclass(frozen=True, kw_only=True)
class BatchLimits:
    """How many rows a streaming batch has, over all channels; picklable."""

    max_rows: int | None = None
    """None: half the window of each channel."""
    max_bytes: int | None = None
    """The most bytes, as rows are in the channel, by the average of those that come next."""
    min_rows: int = 1
    """A batch waits for this many rows, while nothing else ends the waiting."""
    max_delay_seconds: float = 900.0
    """The longest that it waits for ``min_rows``, from the batch before on."""


class StreamPlanner:
    """Takes positions, offsets and limits; returns offsets, ranges and acknowledgements.  Picklable."""

    _has_epochs: ClassVar[bool] = False
    """Do batches end at barriers?"""

    def __init__(
        self,
        channels: Sequence[str],
        *,
        consumer: str,
        limits: BatchLimits = BatchLimits(),
        starting: Places | None = None,
        fails_on_loss: bool = True,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Plan nothing yet.

        Args:
            channels: those that the query reads.
            consumer: the one that reads.
            limits: how many rows a batch has.
            starting: where a query without a checkpoint begins; None: at the consumer's first row.
            fails_on_loss: whether the query fails where rows are lost, or goes on behind them.
            clock: seconds that do not go backwards.
        """
        self._channels = tuple(channels)
        self._consumer = consumer
        self._limits = limits
        self._starting = starting or Places()
        self._fails_on_loss = fails_on_loss
        self._clock = clock
        self._planned_at = clock()
        self._targets: Mapping[str, int] | None = None

    def initial(self, positions: Positions) -> StreamOffset:
        """Where a query without a checkpoint begins: at the first row that its consumer may still read.

        If the user says otherwise, no channel has been entered yet: Spark asks for this offset again after a crash in
        the first batch, and what is latest by then is another row.  So the first batch has no rows, and its end, which
        Spark keeps, says where each channel is entered.
        """
        if self._starting != Places():
            return StreamOffset({}, {})
        return self._offset({channel: positions[channel].acknowledged_row for channel in self._channels}, positions)

    def latest(self, positions: Positions) -> StreamOffset:
        """The end of the rows that exist."""
        return self._offset({channel: positions[channel].next_row for channel in self._channels}, positions)

    def cap(self, position: Position) -> int:
        """The most rows of one channel in a batch, unless the trigger sets a limit."""
        return self._limits.max_rows or _half_window(position)

    def default_limit(self, positions: Positions) -> int:
        """The most rows of a batch, unless the trigger sets a limit."""
        return self._limits.max_rows or sum(_half_window(positions[channel]) for channel in self._channels)

    def end_at(self, positions: Positions) -> None:
        """Plan no rows beyond these positions: ``Trigger.AvailableNow`` has begun."""
        self._targets = {channel: positions[channel].next_row for channel in self._channels}

    def acknowledgement(self, start: StreamOffset) -> tuple[ChannelRow, ...]:
        """The rows that the exchange may forget when Spark asks for the batch after ``start``.

        Raises:
            CheckpointError: the options do not fit the offset.

        Spec: Acknowledge of SparkMicroBatch.
        """
        self.require_own(start)
        return start.acknowledged()

    def plan(
        self, start: StreamOffset, positions: Positions, *, limit_rows: int | None, min_rows: int = 1
    ) -> StreamOffset:
        """The end of the next batch; ``start`` itself if there is nothing new.

        A channel that is missing in ``start`` is new among the options.  The batch's end records its consumer's
        position, and its rows come with the next batch: so two offsets alone suffice to read any batch again.

        Args:
            start: the end of the last batch in the commit log, acknowledged just now.
            positions: of all channels, after that acknowledgement.
            limit_rows: the most rows of the batch, over all channels; None: all that exist.
            min_rows: with fewer new rows there is no batch, until the time for that is over, or waiting is in vain.

        Raises:
            RowsLostError: the exchange no longer has all rows from ``start`` on.
            RowsExpiredError, RowsForgottenError, RowsNotThereError: the user begins at a row that is not there.
            ChannelAbortedError: all rows of a channel were read, and its producer has aborted it.

        Spec: PlanBatch, ReportLoss of SparkMicroBatch.
        """
        if self._fails_on_loss:
            self.require_kept(start, positions)
        elif losses := self.losses(start, positions):
            return self._past(losses, start, positions)
        for channel, row in start.rows.items():
            _require_whole(positions[channel], row)
        there = [self._rows_there(start, positions[channel], limit_rows) for channel in self._channels]
        most = sum(there) if limit_rows is None else limit_rows
        shares = fair_shares(there, most, first=sum(start.rows.values()))
        is_new = any(channel not in start.rows for channel in self._channels)
        if not is_new and (not any(shares) or self._waits(start, positions, min_rows)):
            return start
        self._planned_at = self._clock()
        rows = {
            channel: start.rows[channel] + share if channel in start.rows else self._entry(start, positions[channel])
            for channel, share in zip(self._channels, shares, strict=True)
        }
        return self._offset(rows, positions)

    def _entry(self, start: StreamOffset, position: Position) -> int:
        """Where a channel is entered: as the user says for a new query, else at the consumer's first row."""
        return position.acknowledged_row if start.rows else self._starting.row(position)

    def _waits(self, start: StreamOffset, positions: Positions, min_rows: int) -> bool:
        """Does a batch wait for more rows?  Not where they cannot come before it, or will never come."""
        channels = [positions[channel] for channel in self._channels]
        new = sum(each.next_row - start.rows[each.channel] for each in channels)
        if new >= min_rows or self._targets is not None or any(each.waiting_rows for each in channels):
            return False
        if all(each.state is not ChannelState.OPEN for each in channels):
            return False
        return self._clock() - self._planned_at < self._limits.max_delay_seconds

    def ranges(self, start: StreamOffset, end: StreamOffset) -> list[RowRange]:
        """The rows of a new or repeated batch.

        Raises:
            CheckpointError: no query of these channels can have had such a batch.
        """
        self.require_own(start)
        self.require_own(end)
        ranges = []
        for channel, to_row in end.rows.items():
            from_row = start.rows.get(channel, to_row)
            is_new_log = channel in start.rows and start.log_ids[channel] != end.log_ids[channel]
            if not self._fails_on_loss and (is_new_log or from_row > to_row):
                continue  # lost rows were passed
            if from_row > to_row:
                raise CheckpointError(
                    reason=f"has a batch of channel {channel!r} that ends at row {to_row}, before it starts at row "
                    f"{from_row}",
                    hint="each query needs a checkpointLocation of its own",
                )
            if from_row < to_row:
                ranges.append(RowRange(channel, end.log_ids[channel], from_row, to_row))
        return ranges

    def _offset(self, rows: Mapping[str, int], positions: Positions) -> StreamOffset:
        return StreamOffset(rows, {channel: positions[channel].log_id for channel in rows})

    def require_own(self, offset: StreamOffset) -> None:
        """Require an offset of a query with these options.

        Raises:
            CheckpointError: a channel is missing from the options, or its batches end at rows of another kind.
        """
        offset.require_channels(self._channels)
        offset.require_epochs(self._has_epochs)

    def require_kept(self, start: StreamOffset, positions: Positions) -> None:
        """Require that the exchange has all rows from ``start`` on that it ever had.

        Raises:
            RowsLostError: it has not.
        """
        losses = self.losses(start, positions)
        if losses:
            raise losses[0]

    def losses(self, start: StreamOffset, positions: Positions) -> list[RowsLostError]:
        """An error for each channel of which the exchange no longer has all rows from ``start`` on."""
        found = []
        for channel, row in start.rows.items():
            try:
                _require_kept(positions[channel], row, start.log_ids[channel])
            except LOSSES as error:
                loss = lost(error, channel=channel, consumer=self._consumer, wanted_row=row)
                loss.__cause__ = error
                found.append(loss)
        return found

    def _past(self, losses: Sequence[RowsLostError], start: StreamOffset, positions: Positions) -> StreamOffset:
        """The end of a batch in which the query only passes lost rows: the first rows behind them."""
        rows = dict(start.rows)
        for loss in losses:
            position = positions[loss.channel]
            never_came = isinstance(loss.__cause__, RowsNotThereError)
            rows[loss.channel] = position.next_row if never_came else position.first_row
        return self._offset(rows, positions)

    def _rows_there(self, start: StreamOffset, position: Position, limit_rows: int | None) -> int:
        """Number of new rows of a channel, up to its limit in a batch."""
        row = start.rows.get(position.channel)
        if row is None:
            return 0
        there = position.next_row - row
        if self._targets is not None:
            there = min(there, max(0, self._targets[position.channel] - row))
        is_capped = limit_rows is not None and self._limits.max_rows is None
        return min(there, _half_window(position)) if is_capped else there


def fair_shares(rows: Sequence[int], most: int, *, first: int) -> list[int]:
    """Divide ``most`` rows among channels that have ``rows`` each, by max-min fairness.

    The remainder goes to the channels from number ``first`` on, modulo their number.
    """
    shares = [0] * len(rows)
    left = most
    hungry = [(first + number) % len(rows) for number in range(len(rows))]
    while left and (hungry := [number for number in hungry if shares[number] < rows[number]]):
        each = max(1, left // len(hungry))
        for number in hungry:
            share = min(each, rows[number] - shares[number], left)
            shares[number] += share
            left -= share
    return shares


def lost(error: ReplayError, *, channel: str, consumer: str, wanted_row: int) -> RowsLostError:
    """The query's error for one of the ``LOSSES``."""
    reason = error.message
    if isinstance(error, RowsForgottenError):
        reason += (
            f": perhaps another query, or another branch of this one, reads as consumer {consumer!r}, too, or the "
            "channel was purged"
        )
    return RowsLostError(channel=channel, consumer=consumer, wanted_row=wanted_row, reason=reason)


def _require_kept(position: Position, row: int, log_id: str) -> None:
    """Require that the exchange still has all rows from ``row`` on."""
    if position.log_id != log_id:
        raise LogReplacedError(channel=position.channel, wanted_log=log_id, log=position.log_id)
    require_there(position, row)


def _require_whole(position: Position, row: int) -> None:
    """Require that rows come behind the last one of a broken channel."""
    if position.state is ChannelState.BROKEN and row == position.next_row:
        raise ChannelAbortedError(
            channel=position.channel,
            reason=f"{position.reason}; all {row} rows that had come before were read and acknowledged",
        )


def _half_window(position: Position) -> int:
    # With half of the window, one full batch can wait while another runs: see `spark-double-buffer` in the
    # specification.
    return max(1, position.limit_rows // 2)
