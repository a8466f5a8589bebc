"""Plans batches that end at aligned barriers: an epoch is a batch.  Without I/O.

Each channel is an input of the gate.  A barrier is aligned once it has come in all of them; an input that has ended is
not waited for.  Numbers grow in each channel: so a barrier that an input has left out is given up, and the epochs
before and behind it are one.  Whatever else comes, an aligned barrier stays aligned, and one given up stays given up.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import ClassVar

from permitflow.errors import EpochTooLargeError, InputLostError, InputStalledError
from permitflow.spark.stream_planning import Position, Positions, StreamOffset, StreamPlanner
from permitflow.stream.control import ChannelRow, ChannelState

# A batch has all rows of its epoch: for the recording, which states a bound.
_MOST_ROWS = 2**62


@dataclass(frozen=True)
class NextBarrier:
    """The oldest barrier behind an epoch that may still be aligned."""

    number: int
    """The numbers before it, from the epoch on, are given up."""
    arrived: tuple[str, ...]
    """The channels in which it has come."""
    awaited: tuple[str, ...]
    """The channels that have to reach it; none: it is aligned."""


def next_barrier(positions: Sequence[Position], after: int) -> NextBarrier | None:
    """Find the oldest barrier above number ``after`` that is not given up; None: no barrier has come."""
    numbers = {each.channel: {barrier.number for barrier in each.barriers} for each in positions}
    for number in sorted({number for own in numbers.values() for number in own if number > after}):
        lacking = [each for each in positions if number not in numbers[each.channel]]
        if all(max(numbers[each.channel], default=0) < number for each in lacking):
            awaited = tuple(each.channel for each in lacking if each.state is not ChannelState.ENDED)
            arrived = tuple(channel for channel, own in numbers.items() if number in own)
            return NextBarrier(number, arrived, awaited)
    return None


class EpochPlanner(StreamPlanner):
    """Plans one epoch a batch; the last batch of inputs that have all ended has the rows behind the last barrier."""

    _has_epochs: ClassVar[bool] = True

    def __init__(
        self, channels: Sequence[str], *, consumer: str, stall_seconds: float, clock: Callable[[], float] = monotonic
    ) -> None:
        """Plan nothing yet.

        Args:
            channels: the inputs.
            consumer: the one that reads.
            stall_seconds: how long a barrier may wait for inputs in which nothing comes.
            clock: seconds that do not go backwards.
        """
        super().__init__(channels, consumer=consumer, clock=clock)
        self._stall_seconds = stall_seconds
        self._done = self._given_up = 0
        self._last: tuple[int, bool] | None = None
        """The last barrier for ``Trigger.AvailableNow``, and whether the rows behind it belong to the query."""
        self._stalled: tuple[object, float] | None = None

    def initial(self, positions: Positions) -> StreamOffset:
        """Where a query without a checkpoint begins: at the first rows that its consumer may still read."""
        return self._at(super().initial(positions), 0)

    def latest(self, positions: Positions) -> StreamOffset:
        """The end of the rows that exist, and the last aligned barrier."""
        return self._at(super().latest(positions), max(self._done, self._last_aligned(positions)))

    def cap(self, position: Position) -> int:
        """No bound: a batch has all rows of its epoch."""
        return _MOST_ROWS

    def default_limit(self, positions: Positions) -> int:
        """No bound, as ``cap``."""
        return _MOST_ROWS

    def end_at(self, positions: Positions) -> None:
        """Plan no epoch behind those that are here, and the rest of inputs that have all ended by now."""
        self._last = self._last_aligned(positions), self._are_over(positions)

    def acknowledgement(self, start: StreamOffset) -> tuple[ChannelRow, ...]:
        """As without epochs, and what was given up need not be kept either.

        Raises:
            CheckpointError: the options do not fit the offset.
        """
        self.require_own(start)
        return start.acknowledged(self._given_up)

    def plan(
        self, start: StreamOffset, positions: Positions, *, limit_rows: int | None = None, min_rows: int = 1
    ) -> StreamOffset:
        """The end of the next epoch; ``start`` itself if no barrier is aligned behind it.

        A channel that is missing in ``start`` is new among the options: as without epochs, a batch enters it first.

        Args:
            start: the end of the last batch in the commit log, acknowledged just now.
            positions: of all channels, after that acknowledgement.
            limit_rows: is not used: an epoch is a batch.
            min_rows: is not used either.

        Raises:
            RowsLostError: the exchange no longer has all rows from ``start`` on.
            InputLostError: a producer has aborted a channel, and all epochs before that were read.
            EpochTooLargeError: a channel cannot keep all rows of an epoch.
            InputStalledError: a barrier waits for channels in which nothing has come for too long.

        Spec: PlanBatch, ReportLoss of SparkMicroBatch.
        """
        self.require_kept(start, positions)
        inputs = [positions[channel] for channel in self._channels]
        self._done = done = start.barrier or 0
        if any(each.channel not in start.rows for each in inputs):
            entered = {each.channel: start.rows.get(each.channel, each.acknowledged_row) for each in inputs}
            return self._at(self._offset(entered, positions), done)
        barrier = next_barrier(inputs, done)
        self._given_up = done if barrier is None else barrier.number - 1
        if barrier is not None and not barrier.awaited:
            return self._at_barrier(barrier.number, positions) if self._is_wanted(barrier.number) else start
        if self._are_over(positions):
            end = self._at(super().latest(positions), done)
            return end if end.rows != start.rows and self._is_wanted(None) else start
        self._require_possible(start, inputs, barrier)
        self._require_progress(barrier, positions)
        return start

    def _at(self, offset: StreamOffset, barrier: int) -> StreamOffset:
        return StreamOffset(offset.rows, offset.log_ids, barrier)

    def _at_barrier(self, number: int, positions: Positions) -> StreamOffset:
        rows = {
            channel: next(
                (barrier.row for barrier in positions[channel].barriers if barrier.number == number),
                positions[channel].next_row,  # it has ended: all its rows are before the barrier
            )
            for channel in self._channels
        }
        return self._at(self._offset(rows, positions), number)

    def _is_wanted(self, number: int | None) -> bool:
        """Is the epoch up to this barrier, or None: what is behind the last one, to be read?"""
        if self._last is None:
            return True
        last, has_tail = self._last
        return has_tail if number is None else number <= last

    def _last_aligned(self, positions: Positions) -> int:
        number, inputs = 0, [positions[channel] for channel in self._channels]
        while (barrier := next_barrier(inputs, number)) is not None and not barrier.awaited:
            number = barrier.number
        return number

    def _are_over(self, positions: Positions) -> bool:
        return all(positions[channel].state is ChannelState.ENDED for channel in self._channels)

    def _require_possible(self, start: StreamOffset, inputs: Sequence[Position], barrier: NextBarrier | None) -> None:
        """Require that each input that has no barrier yet can still get one."""
        for each in inputs:
            row = start.rows[each.channel]
            if each.state is ChannelState.ENDED or (barrier is not None and each.channel not in barrier.awaited):
                continue
            if each.state is ChannelState.BROKEN:
                what = f"all epochs before were read; the rows from {row} on belong to none that is whole"
                raise InputLostError(input=each.channel, reason=f"{each.reason}; {what}")
            if each.waiting_rows > each.limit_rows - (each.next_row - row):
                raise EpochTooLargeError(
                    channel=each.channel,
                    kept_rows=each.next_row - row,
                    limit_rows=each.limit_rows,
                    waiting_rows=each.waiting_rows,
                    barrier=start.barrier or 0,
                )

    def _require_progress(self, barrier: NextBarrier | None, positions: Positions) -> None:
        """Require that a barrier does not wait too long for inputs in which nothing comes."""
        if barrier is None or self._last is not None:
            self._stalled = None
            return
        here = [(positions[channel].next_row, positions[channel].barriers[-1:]) for channel in barrier.awaited]
        now, found = self._clock(), (barrier, here)
        if self._stalled is None or self._stalled[0] != found:
            self._stalled = found, now
        elif now - self._stalled[1] >= self._stall_seconds:
            error = InputStalledError(
                awaited=", ".join(barrier.awaited),
                blocked=", ".join(barrier.arrived),
                barrier=barrier.number,
                seconds=self._stall_seconds,
            )
            error.add_note(f"option stallSeconds: {self._stall_seconds:g}; the query goes on where it was")
            raise error
