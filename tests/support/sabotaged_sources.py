"""Streaming sources that acknowledge in the wrong call, for tests that must find that out."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from permitflow.protocol.control import ChannelRow
from permitflow.spark.options import StreamOptions
from permitflow.spark.source import PermitflowDataSource
from permitflow.spark.stream_planning import OffsetJson, Positions, StreamOffset
from permitflow.spark.stream_source import ChannelRows, ExchangeLine, ExchangeStreamReader


class _CommitReader(ExchangeStreamReader):
    """Believes that ``commit`` is the place, as the name suggests."""

    def _acknowledge(self, start: StreamOffset) -> Positions:
        return self._ask_positions()

    def commit(self, end: OffsetJson) -> None:
        self._line.acknowledge(self._planner.acknowledgement(StreamOffset.of_json(end)))


class _ReadReader(ExchangeStreamReader):
    """Believes that rows which were read are not needed again."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from super().read(partition)
        assert isinstance(partition, ChannelRows)  # Spark hands back what partitions() made
        rows = partition.rows
        line = ExchangeLine(self._options)
        line.acknowledge([ChannelRow(rows.channel, rows.to_row, rows.log_id)])
        line.close()


class AcknowledgesInCommit(PermitflowDataSource):
    """``format("permitflow_commit")``: gets stuck when a batch takes the whole window."""

    @classmethod
    def name(cls) -> str:
        """The word for ``format()``."""
        return "permitflow_commit"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """A reader with this mistake."""
        return _CommitReader(StreamOptions.parse(self.options), schema)


class AcknowledgesInRead(PermitflowDataSource):
    """``format("permitflow_read")``: loses rows when a task is run again."""

    @classmethod
    def name(cls) -> str:
        """The word for ``format()``."""
        return "permitflow_read"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """A reader with this mistake."""
        return _ReadReader(StreamOptions.parse(self.options), schema)
