"""The data source: reads the channels of an exchange as partitions, in Arrow batches.

A channel is a queue, not a table: it is read once.  A second action on the same DataFrame, a retried or speculative
task, or a self-join asks for a second reading and gets an error, never a shortened result.  A sort directly on it does
so too, because Spark samples the rows first: call ``repartition()`` before.  To use a DataFrame twice, write it, or
``cache()`` and ``count()`` it first.  All channels of a stream are open at the same time, so the job needs one task
slot for each of them; with fewer slots the stream starves, and its waits end with an error that says so.

If a channel keeps its rows (``--retention replay``), a query reads the rows that exist when it is planned, from the
first unacknowledged row of the consumer on, as often as Spark asks.  It waits for no producer and acknowledges nothing;
``spark.readStream`` acknowledges.  Only a broken channel is read without a plan, so that its readers meet the error
behind its last row.

Chunks that arrive together form one batch, of at most half the window; a slow job gets shorter ones.  Its permits
return when Spark's Python worker asks for the next batch.  "Handed to Spark" is not "processed": the buffer between the
worker and the JVM is made small; see ``permitflow.spark.reading``.
"""

from collections.abc import Generator, Iterator, MutableMapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    Filter,
    InputPartition,
)
from pyspark.sql.types import StructType

from permitflow.carriers.addresses import several
from permitflow.errors import ChannelSpentError, PeerTimeoutError, PermitflowError, RetentionError
from permitflow.spark.attempts import earlier_attempts_named
from permitflow.spark.causes import read_in_words, told_in_words
from permitflow.spark.options import (
    CHANNEL_OPTIONS,
    MOST,
    Delivery,
    ReadOptions,
    StreamOptions,
    WriteOptions,
    is_for_streams,
    refuse,
)
from permitflow.spark.reading import first_copied, narrow_socket, opened, paced, read_range, rows_together, schema_of
from permitflow.spark.recording import recording
from permitflow.spark.refused import RefusedStreamReader
from permitflow.spark.reused_worker import leave_imports_alone
from permitflow.spark.stream_planning import Position, RowRange
from permitflow.spark.task_ranges import Ranges, task_ranges
from permitflow.stream.control import ChannelState, Retention

if TYPE_CHECKING:
    import pyarrow as pa

    from permitflow.client.blocking import BlockingControl
    from permitflow.spark.filters import RowFilter

# What a channel that is read once needs is said beside a time-out, which has lasted long.
_NOTE_SECONDS = 2.0


class PermitflowDataSource(DataSource):
    """``format("permitflow")``: channels of a permit exchange.

    Options, for reading and writing:
        address: where the exchange listens, as in ``host:port``.
        stream, channels: the channels ``stream/0`` to ``stream/n-1``, with n as ``channels``; or without ``stream``
            a list of channel names, separated by commas.
        timeoutSeconds: the longest wait for the exchange, a row or a permit; 120.
        rowPermits, permitBatch: the window to ask for, in rows; the exchange grants at most its own.
        byteWindow: the window to ask for, in bytes, likewise; what the exchange has.
        traceDir: a folder for the recorded actions and the statistics of every stream.
        sameHost: whether workers share memory with an exchange on their host: auto, never or require; auto.
        compression: of chunks between workers and an exchange on another host: lz4, zstd, none, or what the exchange
            asks for; auto.
        tlsCa, tlsCert, tlsKey, tlsServerName, tokenFile: paths, on every machine of the job, and a name: see
            ``Security``.
        resumeSeconds: how long a stream goes on without its connection, which is dialled again meanwhile; 0: it fails
            at once; 30, or 0 for an exchange on the worker's host.

    Options for reading only:
        targetLatencySeconds: how long rows may wait in a stream; its window adapts to that, within the agreed one; the
            whole window.
        consumer: the consumer to read as, for channels that keep their rows; default.
        channelColumn: a name for a first column with the channel's name; then channels may have different columns.
        includeMetadata: whether columns ``_channel``, ``_row`` and ``_log`` come last; false.
        includeTime: whether a column ``_time`` comes last, when the exchange took a row over; false.
        mergeSchema: whether channels may have different columns, which are united by name; false.
        columns: names of those columns that are wanted; all.
        startingOffsets, endingOffsets: where a query without a checkpoint begins, and where a batch job ends: earliest,
            latest, or row numbers as JSON; the consumer's first row, and the last row that is there.
        failOnDataLoss: true.
        pushFilters: whether Spark hands the filters of a batch job to this source; false.
        minPartitions, maxPartitions: tasks for the rows of a batch; one for each channel.
        maxRowsPerTrigger, maxBytesPerTrigger: the most rows of a streaming batch, over all channels; half the window of
            each channel.
        minRowsPerTrigger, maxTriggerDelay: the rows for which a streaming batch waits, and for how long; 1 and 15m.
        epochs: ``aligned`` ends each streaming batch at a barrier that has come in all channels; none.
        stallSeconds: with epochs, how long a barrier may wait for channels in which nothing comes; 120.

    Options for writing only:
        chunkRows: the most rows of one chunk; without it Spark's Arrow batches go as they are.
        delivery: ``direct`` lets rows be read as they come, and refuses second attempts of a task; ``staged`` publishes
            them all at once, exactly once, into channels that keep their rows.  Batch jobs: direct; streams: staged.
        end: whether a batch job's commit ends the channels for their readers; true.
        query, batch: the key under which a staged batch job is published once, for ``foreachBatch`` and for repeated
            jobs; a new key for each job.

    Spark creates an instance in a planning process for each query; an instance connects only when it must.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Keep the options; Spark starts a worker only for this call."""
        super().__init__(options)
        leave_imports_alone()

    @classmethod
    def name(cls) -> str:
        """The word for ``format()``."""
        return "permitflow"

    @told_in_words
    def schema(self) -> StructType:
        """Ask the first channel for its schema; planning process, once per query without a schema of the user's.

        Of a single exchange, it asks whether all channels are there.

        If channels may have different columns, it asks all of them.  Waits for the first producer of each channel that
        is asked, at most ``timeout_seconds``; not if a producer would not help.

        Raises:
            InvalidOptionError: see ``ReadOptions``; or an option needs channels that keep their rows.
            RetentionError: a streaming query needs such channels.
            PermitflowError: the exchange does not answer, or has no such channel.
            SchemaMismatchError: Spark has no type for a column, or columns of one name have different types, or names
                differ only by case, or are those of the columns of options.
        """
        is_stream = is_for_streams(self.options, CHANNEL_OPTIONS)
        options = StreamOptions.parse(self.options).exchange if is_stream else ReadOptions.parse(self.options)
        # gRPC must not be loaded before Spark's daemon has forked.
        from permitflow.spark.schema import require_distinct, spark_schema, united_schema

        shape = options.shape
        asked = options.channels if shape.unites else options.channels[:1]
        # One exchange has all channels: a number that is too high is told before a producer comes.  Of several, each is
        # asked, and a silent one takes its time: no question without need.
        is_alone = len(several(options.address)) == 1
        if is_alone or is_stream or shape.unites or _needing_kept(options):
            once = _read_once(options, options.channels if is_alone else asked)
            if once and is_stream:
                rule = "is read by batch jobs only (spark.read)"
                raise RetentionError(channel=once[0], retention=Retention.ONCE.value, rule=rule)
            _require_kept(options, once)
        try:
            found = {channel: schema_of(options, channel) for channel in asked}
        except PeerTimeoutError as error:
            with suppress(PermitflowError):  # an exchange that is silent does not tell
                if _read_once(options, asked, timeout_seconds=_NOTE_SECONDS):
                    error.add_note(
                        "readStream needs channels that keep their rows: permitflow serve --retention replay"
                    )
            raise
        if not shape.is_plain:
            return united_schema(found, shape)
        columns = spark_schema(found[asked[0]], channel=asked[0])
        require_distinct(columns.names, f"channel {asked[0]!r}")
        return columns

    @told_in_words
    def reader(self, schema: StructType) -> DataSourceReader:
        """Check the options; planning process, once per query."""
        leave_imports_alone()
        options = ReadOptions.parse(self.options)
        return FilteringReader(options, schema) if options.push_filters else ExchangeReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Check the options; a planning process and one beside the driver, once per query."""
        from permitflow.spark.stream_source import ExchangeStreamReader

        leave_imports_alone()
        try:
            return ExchangeStreamReader(StreamOptions.parse(self.options), schema)
        except PermitflowError as error:
            return RefusedStreamReader(error)

    @told_in_words
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Check the options, and that the exchange has the channels; planning process, once per query.

        Raises:
            InvalidOptionError: also if the mode is ``overwrite``: sent rows cannot be taken back.
            PermitflowError: the exchange does not answer, or its channels are not for this job.
        """
        from permitflow.spark.sink import ExchangeWriter, StagedBatchWriter

        leave_imports_alone()
        refuse_overwriting("mode", "overwrite", overwrite)
        options = WriteOptions.parse(self.options)
        is_staged = options.delivery is Delivery.STAGED
        writer = StagedBatchWriter(options, schema) if is_staged else ExchangeWriter(options, schema)
        writer.require_channels()
        return writer

    @told_in_words
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        """Check the options; a planning process once per query, and one for each commit.

        Raises:
            InvalidOptionError: also if the output mode is ``complete``: published rows cannot be taken back.
        """
        from permitflow.spark.sink import StagedStreamWriter

        leave_imports_alone()
        refuse_overwriting("outputMode", "complete", overwrite)
        return StagedStreamWriter(WriteOptions.parse_stream(self.options), schema)


def refuse_overwriting(option: str, value: str, overwrites: bool) -> None:
    """Refuse a mode that replaces rows.

    Raises:
        InvalidOptionError: it does.
    """
    if overwrites:
        refuse(option, value, "must be 'append': sent rows cannot be replaced")


class ChannelPartition(InputPartition):
    """A channel that is read to its end, or rows that existed when the query was planned."""

    def __init__(self, channel: str, ranges: Ranges | None = None, log_id: str | None = None) -> None:
        """Name the rows.

        Args:
            channel: the first one's name.
            ranges: of kept rows, of this channel and others; None: all rows to the channel's end.
            log_id: the log in which rows up to the end are numbered; None: the channel keeps no rows.
        """
        super().__init__(channel)
        self.channel = channel
        self.ranges = ranges
        self.log_id = log_id


def _range(options: ReadOptions, at: Position) -> RowRange:
    """The rows of a channel that a batch job reads.

    Raises:
        InvalidOptionError: the user's last row is before the first one.
    """
    start = at.acknowledged_row if options.starting is None else options.starting.row(at)
    end = at.next_row if options.ending is None else options.ending.row(at)
    if end < start:
        reason = f"must not end channel {at.channel!r} before row {start}, where 'startingOffsets' begins"
        refuse("endingOffsets", end, reason)
    return RowRange(at.channel, at.log_id, start, end)


def _asking(options: ReadOptions, timeout_seconds: float | None = None) -> "BlockingControl":
    """Connect to ask about channels."""
    # gRPC must not be loaded before Spark's daemon has forked.
    from permitflow.client.blocking import control

    leave_imports_alone()
    return control(
        options.address,
        timeout_seconds=timeout_seconds or options.timeout_seconds,
        resume_seconds=options.resume_seconds,
        security=options.security,
    )


def _read_once(options: ReadOptions, channels: Sequence[str], timeout_seconds: float | None = None) -> list[str]:
    """Those of these channels that are read once."""
    with _asking(options, timeout_seconds) as orders:
        return [told.channel for told in orders.statistics(channels).channels if told.kept is None]


def _needing_kept(options: ReadOptions) -> list[str]:
    """The given options for numbered rows."""
    given = {
        "startingOffsets": options.starting is not None,
        "endingOffsets": options.ending is not None,
        "minPartitions": options.min_partitions > len(options.channels),
        "maxPartitions": (options.max_partitions or MOST) < len(options.channels),
        "consumer": options.consumer != "",
        "includeTime": options.shape.include_time,
    }
    return [name for name, is_given in given.items() if is_given]


def _require_kept(options: ReadOptions, once: Sequence[str]) -> None:
    """Refuse options for numbered rows where channels are read once, by one task, from the first row to the end."""
    for name in _needing_kept(options) if once else ():
        reason = f"needs channels that keep their rows (permitflow serve --retention replay), and {once[0]!r} is "
        refuse(name, None, reason + "read once, by one task, from its first row to its end")


class ExchangeReader(DataSourceReader):
    """Reads one channel per partition.  Built in a planning process, pickled, and used in the workers."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._filter: RowFilter | None = None

    @told_in_words
    def partitions(self) -> list[InputPartition]:
        """One partition per channel, or as many as the user wants; planning process, once per ``load()``.

        Raises:
            InvalidOptionError: an option needs channels that keep their rows, or the rows end before they begin.
            ChannelSpentError: a channel that is read once was read.
            RowsExpiredError, RowsForgottenError, RowsNotThereError: the user wants rows that are not there.
            PermitflowError: the exchange does not answer, or has no such channel.
        """
        options = self._options
        with _asking(options) as orders:
            channels = orders.statistics(options.channels).channels
            for told in channels:
                if told.kept is None and told.state == "spent":
                    raise ChannelSpentError(channel=told.channel, reason=told.reason)
            kept = [traffic.channel for traffic in channels if traffic.kept is not None]
            positions = orders.positions(kept, consumer=options.consumer) if kept else ()
        planned = {at.channel: _range(options, at) for at in positions if at.state is not ChannelState.BROKEN}
        logs = {at.channel: at.log_id for at in positions}
        once = [
            ChannelPartition(channel, log_id=logs.get(channel))
            for channel in options.channels
            if channel not in planned
        ]
        _require_kept(options, [each.channel for each in once if each.channel not in kept])
        ranges = [planned[channel] for channel in options.channels if channel in planned]
        if self._filter is not None:
            ranges = self._filter.ranges(ranges)
        tasks = task_ranges(ranges, least=options.min_partitions, most=options.max_partitions)
        if not (once or tasks):  # Spark would make a partition of its own
            return [ChannelPartition(options.channels[0], ranges=())]
        return [*once, *(ChannelPartition(each[0].channel, each) for each in tasks)]

    @read_in_words
    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Yield the rows of a partition in batches of chunks that arrived together; worker, once per partition.

        The permits of a batch return when the next one is asked for.  Closing the generator early tells the exchange
        that the reader is gone.

        Raises:
            SchemaMismatchError: the user's schema is not the channel's.
            RowsLostError: the exchange no longer has all rows that existed when the query was planned.
            ChannelAbortedError: the producer gave up.
            PeerGoneError: the producer or the exchange is gone, or nothing came in ``timeout_seconds``.
            PermitflowError: the channel does not exist, or was read before.
        """
        assert isinstance(partition, ChannelPartition)  # Spark passes the objects that partitions() returned
        with earlier_attempts_named():
            batches = first_copied(self._batches(partition))
            yield from batches if self._filter is None else map(self._filter.apply, batches)

    def _batches(self, partition: ChannelPartition) -> "Generator[pa.RecordBatch, None, None]":
        if partition.ranges is None:
            yield from self._read_once(partition.channel, partition.log_id)
        for rows in partition.ranges or ():
            with recording(self._options.trace_dir, f"read-{rows.channel}") as streams:
                yield from read_range(self._options, rows, self._schema, streams)

    def _read_once(self, channel: str, log_id: str | None) -> "Iterator[pa.RecordBatch]":
        """Yield all rows of a channel that is read once, or is broken."""
        from permitflow.spark.schema import RowForm

        options = self._options
        form = RowForm(self._schema, options.shape)
        # A reader that has begun must read all of a channel, so the schema is checked first.
        form.require_fitting(schema_of(options, channel), channel=channel)
        with (
            recording(options.trace_dir, f"read-{channel}") as streams,
            narrow_socket(),
            opened(options, channel, streams) as source,
        ):
            streams.add(source)
            row = source.first_row or 0
            for chunks in paced(source, rows_together(source.parameters)):
                yield form.conform(chunks.batch, channel=channel, first_row=row, log_id=log_id)
                row += chunks.num_rows


class FilteringReader(ExchangeReader):
    """A reader to which Spark hands its filters.

    A class of its own, because Spark refuses a reader with such a method where its setting for that is off.
    """

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802 - Spark's name
        """Take the filters that can be applied, and return all: Spark applies them again; planning process."""
        from permitflow.spark.filters import RowFilter

        leave_imports_alone()
        self._filter = RowFilter.of(filters, self._schema, self._options.shape)
        return filters
