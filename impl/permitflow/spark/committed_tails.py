"""What streaming queries have committed and not acknowledged when they end; acknowledged for them, if that is wanted.

A source acknowledges a batch when Spark asks what comes next, and a query that is stopped is asked no more.  Spark says
``onQueryProgress`` once a batch is in the commit log, so the end of that batch may be acknowledged by anybody.
"""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

from pyspark.sql.streaming.listener import SourceProgress, StreamingQueryProgress

from permitflow.errors import CheckpointError, PermitflowError
from permitflow.protocol.control import ChannelRow
from permitflow.spark.stream_offsets import StreamOffset

__all__ = ["CommittedTails", "offset_of", "query_name"]

_log = logging.getLogger(__name__)

# Spark's listener bus waits meanwhile; but nothing comes after the end of a query.
LONGEST_ANSWER_SECONDS = 10.0


class CommittedTails:
    """Follows the queries that it is told to acknowledge for."""

    def __init__(self, address: str, consumers: Mapping[str, str]) -> None:
        """Nothing is dialled yet.

        Args:
            address: of the exchange.
            consumers: as whom each query reads, by its name, or by its id if it has none; others are left alone.
        """
        self._address = address
        self._consumers = consumers
        self._ends: dict[UUID, tuple[str, StreamOffset]] = {}
        """Of each run of a query: as whom it reads, and where its last committed batch ends."""

    def committed(self, progress: StreamingQueryProgress) -> None:
        """A batch is in the commit log."""
        name = query_name(progress)
        if name not in self._consumers:
            return
        ends = [*_offsets(progress.sources)]
        if len(ends) == 1:
            self._ends[progress.runId] = (self._consumers[name], ends[0])
        elif ends:
            # Each has a consumer of its own, and an offset does not say which.
            _log.error("query %r reads from exchanges %d times: nothing is acknowledged for it", name, len(ends))

    def ended(self, run: UUID) -> None:
        """A run of a query is over: acknowledge what it has committed.

        An exchange that does not answer costs no more than a line in the log: the query acknowledges when it starts
        again, as without this.

        Spec: AcknowledgeForDriver of SparkMicroBatch.
        """
        if run not in self._ends:
            return
        consumer, end = self._ends.pop(run)
        rows = [ChannelRow(channel, row, end.log_ids[channel]) for channel, row in end.rows.items()]
        # gRPC must not be loaded before Spark's gateway has been started.
        from permitflow.transports.grpc_blocking import control

        try:
            with control(self._address, timeout_seconds=LONGEST_ANSWER_SECONDS) as orders:
                orders.acknowledge(rows, consumer=consumer)
        except PermitflowError as error:
            _log.warning("what a query has committed stays in the exchange until it starts again: %s", error)


def query_name(progress: StreamingQueryProgress) -> str:
    """The query's name, or its id if it has none."""
    return progress.name or str(progress.id)


def offset_of(text: str | None) -> StreamOffset | None:
    """An offset as Spark reports it; None: it is another source's, or there is none yet."""
    try:
        return StreamOffset.of_json(json.loads(text or "null"))
    except (CheckpointError, ValueError):
        return None


def _offsets(sources: Sequence[SourceProgress]) -> Iterator[StreamOffset]:
    for source in sources:
        end = offset_of(source.endOffset)
        if end is not None:
            yield end
