"""Reading a log: rows that are kept, again and again, and those that will come."""

from collections.abc import AsyncIterator

import pyarrow as pa

from permitflow.errors import ChannelAbortedError, RowsForgottenError
from permitflow.exchange.replay_log import ReplayLog
from permitflow.protocol.control import ChannelState

__all__ = ["read_rows"]


async def read_rows(
    log: ReplayLog, consumer: str, from_row: int, to_row: int | None, *, most_rows: int
) -> AsyncIterator[list[pa.RecordBatch]]:
    """The rows ``[from_row, to_row)``, a few at a time; without ``to_row`` all that will ever come.

    Args:
        log: whose rows.
        consumer: whose reading it is; nothing is acknowledged by it.
        from_row: a row that is kept, or the next that will come.
        to_row: all rows before it must have come.
        most_rows: that are handed over at a time.

    Raises:
        ReplayError: this consumer cannot read these rows, or has acknowledged some of them meanwhile.
        ChannelAbortedError: the channel is broken, and all that it kept was read; or it was removed.
        StoreError: they cannot be read.

    Spec: RunTask of SparkMicroBatch.
    """
    row = log.books.require_readable(consumer, from_row, to_row)
    while to_row is None or row < to_row:
        log.require_kept(consumer, row)
        limit = log.books.next_row if to_row is None else to_row
        stop = min(limit, row + most_rows)
        if stop > row:
            yield await _read(log, consumer, row, stop)
            row = stop
        elif log.state is ChannelState.ENDED:
            return
        elif log.state is ChannelState.BROKEN:
            raise ChannelAbortedError(channel=log.name, reason=log.reason)
        else:
            await log.changed()


async def _read(log: ReplayLog, consumer: str, row: int, stop: int) -> list[pa.RecordBatch]:
    batches = await log.store.read(row, stop)
    if sum(batch.num_rows for batch in batches) != stop - row:
        log.require_kept(consumer, row)
        raise RowsForgottenError(channel=log.name, wanted_row=row, first_kept_row=log.books.first_kept_row)
    return batches
