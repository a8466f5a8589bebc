"""The data sink for rows that are read as they come: Spark's tasks put them into the channels of an exchange.

Task p sends to channel p mod n.  What is promised: if the job succeeds, the exchange has accepted every row exactly
once, and the channels' readers come to a clean end after the last one; of a channel that has a reader by then, the
reader has consumed every row.  If a task fails, or is killed, while rows of
it may have been sent, the readers of its channel fail with an error that says so, and the job's abort does the same
for the other channels: no reader takes a shortened result for a whole one.  A second attempt of a task is refused,
because the rows of the first may have been read already: the job fails instead of delivering rows twice.  So set no
speculation, and expect no retries; or write with ``delivery=staged``, which survives both (``staged_sink``).
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, NoReturn, TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from permitflow.errors import ChannelError, PeerGoneError, PermitflowError, TaskRetryError
from permitflow.protocol.frames import EndOutcome
from permitflow.spark.patience import in_words
from permitflow.spark.sending import Sending
from permitflow.spark.write_options import WriteOptions

if TYPE_CHECKING:
    from permitflow.transports.blocking_ends import BlockingSink

__all__ = ["ExchangeWriter"]

T = TypeVar("T")
S = TypeVar("S")

_log = logging.getLogger(__name__)

# Channels that are dialled at the same time.
_AT_ONCE = 16

# How long the driver's abort waits for an exchange that may be the very cause of the failure.
ABORT_TIMEOUT_SECONDS = 10.0


class ExchangeWriter(DataSourceArrowWriter):
    """Writes through ``PutStream``.  Built in a planning process, pickled, used in the workers and in the driver."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        """Keep what the workers need."""
        self._options = options
        self._sending = Sending(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send one partition; worker, once per task attempt.  Waits for permits, which is the back-pressure.

        Raises:
            TaskRetryError: this is not the task's first attempt, and that has not broken the channel.
            PeerGoneError: the exchange or the consumer is gone, or no permit came back in ``timeout_seconds``.
            PermitflowError: the channel does not exist, has ended, or has another schema.
        """
        context = TaskContext.get()
        assert context is not None  # Spark calls this in a task
        if context.attemptNumber() > 0:
            self._refuse_retry(context)
        return self._sending.send(iterator, context)

    def _refuse_retry(self, context: TaskContext) -> NoReturn:
        # If the first attempt broke the channel, the exchange knows why, which says more than that there was one.
        # The first attempt may also be alive, or have ended well, so that nothing may be broken here.
        with self._sending.open_for_a_word(self._sending.channel_of(context)) as sink:
            sink.end(closes_channel=False, until=EndOutcome.ACCEPTED)
        raise TaskRetryError(partition=context.partitionId(), attempt=context.attemptNumber())

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """End the channels for their readers; driver side, once, after all tasks have succeeded.

        None is ended before all have been reached.  Waits until the readers that are connected have consumed all rows.
        If another job goes on (``end=false``), nothing is ended and no reader is waited for, but each must be there
        still, if there was one.

        Raises:
            PermitflowError: a channel could not be ended, or has lost its reader; Spark calls ``abort`` then.
        """
        ends, channels = self._options.ends_stream, self._options.exchange.channels
        until = EndOutcome.CONSUMED if ends else EndOutcome.ACCEPTED
        with ExitStack() as stack:

            def reach(channel: str) -> "BlockingSink":
                return stack.enter_context(self._sending.open_for_a_word(channel))

            sinks = _at_once(reach, channels)
            # All ends are said before any is waited for: a reader may need the end of one to go on with another.
            outcomes = _at_once(lambda sink: sink.end(closes_channel=ends, until=until), sinks, at_once=len(sinks))
        accepted = [name for name, outcome in zip(channels, outcomes, strict=True) if outcome is EndOutcome.ACCEPTED]
        if accepted and ends:
            _log.info("all rows are with the exchange; nobody has consumed those of %s yet", in_words(accepted))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make the readers of all channels fail; driver side, once, after a task or the commit has failed.

        Raises:
            PermitflowError: readers of a channel may be waiting still; all channels have been tried.
        """
        failures = [failure for failure in _at_once(self._abort, self._options.exchange.channels) if failure]
        if failures:
            raise failures[0]

    def _abort(self, channel: str) -> PermitflowError | None:
        timeout_seconds = min(self._options.exchange.timeout_seconds, ABORT_TIMEOUT_SECONDS)
        try:
            with self._sending.open_for_a_word(channel, timeout_seconds=timeout_seconds) as sink:
                sink.abort("the Spark job that was writing into it has failed")
        except PermitflowError as error:
            # The failed task may have aborted it already, or it had come to its end: nobody waits there.
            is_over = isinstance(error, ChannelError) and not isinstance(error, PeerGoneError)
            return None if is_over else error
        return None


def _at_once(act: Callable[[S], T], on: Sequence[S], at_once: int = _AT_ONCE) -> list[T]:
    """What comes of each, in their order; after a failure, which is raised, nothing more is begun."""
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(act, on))
