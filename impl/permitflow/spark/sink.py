"""The data sinks: Spark's tasks put rows into the channels of an exchange.

Task p sends to channel p mod n; with a ``key``, each row to the channel of its key, from all tasks.

``ExchangeWriter``: rows are read as they come.  If the job succeeds, the exchange has accepted every row exactly once,
and each channel's reader comes to a clean end after the last row; a reader that is connected by then has consumed every
row.  If a task fails or is killed after it may have sent rows, the readers of its channel fail with an error that says
so, and the job's abort fails the readers of the other channels into which it has sent, and those who wait for the first
row of a channel: no reader takes a shortened result for a whole one.  A channel without rows of the job stays as it is.
A second attempt of a task takes the place of one that has sent no row.  Otherwise it is refused, because the rows of
the first may have been read already: the job fails instead of delivering rows twice.  Spark numbers attempts from 0
again when it runs a whole stage again, as after a lost executor; so the exchange tells attempts apart by the job, the
partition and Spark's ``taskAttemptId``, and compares at the end the rows that count with those that it has taken.  So
disable speculation and retries, or write with ``delivery=staged``, which survives both.

``StagedStreamWriter`` and, with ``delivery=staged``, ``StagedBatchWriter`` write exactly once.  Tasks stage their rows
in the exchange, each attempt in an area of its own, where no reader sees them.  The driver's commit publishes one
attempt at each partition, all together, in the order of the partitions, once for each query and batch: a commit that is
repeated after a crash publishes nothing again.  So Spark may repeat tasks, also speculatively.

A batch must fit into the staging areas of its channels (``staging_rows`` of the exchange).  Published rows belong to
their channels at once.  If consumers are slow, published rows beyond the window fill the staging areas, and tasks wait
for room: that is the back-pressure.

If there are several exchanges, each of them prepares the attempts that count, which do not expire from then on.  Then
the driver writes them down, before the first one publishes: ``decisions.py``.

``abort`` of a staged batch drops the rows that this driver's tasks have staged, and never published rows: an abort may
arrive after the batch was published, or while the next driver runs the batch again.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias, TypeVar, Unpack
from uuid import uuid4

from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    MapType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from permitflow.carriers.addresses import several
from permitflow.carriers.shared_memory import SameHost
from permitflow.chunks import slices
from permitflow.dispatch.mapping import spread
from permitflow.errors import (
    BatchOrderError,
    ChannelAbortedError,
    ChannelCancelledError,
    ChannelClosedError,
    ChannelError,
    ChannelSpentError,
    InvalidOptionError,
    InvalidParametersError,
    PeerGoneError,
    PermitflowError,
    RetentionError,
    SchemaMismatchError,
    StagedPartError,
    UnknownBatchError,
    UnknownChannelError,
    UnknownConsumerError,
)
from permitflow.names import spread_over
from permitflow.spark.attempts import earlier_attempts_named, require_attempts
from permitflow.spark.causes import told_in_words
from permitflow.spark.decisions import Decision, Decisions
from permitflow.spark.options import BatchKey, WriteOptions
from permitflow.spark.patience import AWAY, Patience, in_words, is_away
from permitflow.spark.recording import StreamRecording, recording
from permitflow.spark.reused_worker import leave_imports_alone
from permitflow.stream.control import MOST_CHANNELS, ChannelState, Published, Retention, StagedPart
from permitflow.stream.frames import EndOutcome, JobTotal, Staging, TaskAttempt

if TYPE_CHECKING:
    import pyarrow as pa

    from permitflow.client.blocking import BlockingControl, BlockingSink
    from permitflow.client.options import PutOptions
    from permitflow.dispatch.keys import Splitter
    from permitflow.stream.traffic import ChannelTraffic

    Routed: TypeAlias = dict[str, pa.RecordBatch]
    """The parts of a batch, by channel."""

_log = logging.getLogger(__name__)

T = TypeVar("T")
S = TypeVar("S")

# Channels that are opened, or ended, at the same time.
_AT_ONCE = 16

# Errors of a channel in which a job that has failed has nobody to tell.
_OVER = (ChannelError, ChannelSpentError, SchemaMismatchError, UnknownChannelError)

# The driver's abort waits this long: the exchange itself may be the cause of the failure.
ABORT_TIMEOUT_SECONDS = 10.0

# Spark's local properties: they name a task's micro-batch, and tell how its session reads names.
_QUERY_PROPERTY = "sql.streaming.queryId"

_BATCH_PROPERTY = "streaming.sql.batchId"

_CASE_PROPERTY = "spark.sql.caseSensitive"

_BATCH_ROWS_PROPERTY, _BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch", 10_000


def _at_once(act: Callable[[S], T], on: Sequence[S], at_once: int = _AT_ONCE) -> list[T]:
    """Apply ``act`` to each, some at a time, and return the results in order; after a failure, start no more."""
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(act, on))


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None  # Spark calls this in a task
    return context


_UNREAD = (
    "it needs no more rows, and has not read all of them: let it read to the end, or write into a channel that keeps "
    "its rows"
)


def _require_wanted(channel: str, outcome: EndOutcome) -> None:
    """Refuse to take dropped rows for delivered ones.

    Raises:
        ChannelCancelledError: the channel's reader has cancelled.
    """
    if outcome is EndOutcome.CANCELLED:
        raise ChannelCancelledError(channel=channel, reason=_UNREAD)


def _require_producible(channel: "ChannelTraffic") -> None:
    """Refuse a channel that takes no more rows.

    Raises:
        ChannelSpentError: it is read once, and has ended, or was read, or broke.
        ChannelAbortedError: it keeps its rows, and broke.
        ChannelClosedError: it keeps its rows, and has ended.
    """
    name, state = channel.channel, channel.state
    if state in ("waiting", "open"):
        return
    if channel.kept is None:
        raise ChannelSpentError(channel=name, reason=channel.reason)
    if state == "broken":
        raise ChannelAbortedError(channel=name, reason=channel.reason)
    why = (
        "it has ended: a job that others follow sets option 'end' to 'false'; open it again for more (permitflow "
        "channel reset; its rows stay), or take another one"
    )
    raise ChannelClosedError(end=f"sender of channel {name!r} ({why})")


def _beginnings(channels: "Iterable[ChannelTraffic]") -> dict[str, "PutOptions"]:
    """The next row of each channel that keeps its rows, and its log."""
    kept = [(told.channel, told.kept) for told in channels if told.kept is not None]
    return {channel: {"job_since_row": each.next_row, "job_log_id": each.log_id} for channel, each in kept}


# Arrow has these in every release of Spark.
_PLAIN = (BinaryType, BooleanType, DateType, NumericType, StringType, TimestampNTZType, TimestampType)


def _is_plain(kind: DataType) -> bool:
    match kind:
        case StructType():
            return all(_is_plain(field.dataType) for field in kind)
        case ArrayType():
            return _is_plain(kind.elementType)
        case MapType():
            return _is_plain(kind.keyType) and _is_plain(kind.valueType)
        case _:
            return isinstance(kind, _PLAIN)


def _require_carried(schema: StructType) -> None:
    """Refuse a column whose type Arrow cannot carry, as INTERVAL MONTH.

    Raises:
        InvalidParametersError: there is one.
    """
    for field in schema:
        if not _is_plain(field.dataType):
            # Arrow must not be loaded for nothing.
            from permitflow.spark.schema import arrow_schema

            try:
                arrow_schema(StructType([field]))
            except (PySparkException, ValueError):  # the latter: a map whose keys have no type
                rule = "must have types that PySpark has in Arrow: cast this one, as to STRING, or leave it out"
                value = f"{field.name} {field.dataType.simpleString()}"
                raise InvalidParametersError(name="the frame's columns", value=value, rule=rule) from None


def _is_short(first: "Routed", context: TaskContext) -> bool:
    """Is this the task's only batch, in parts so short that no memory that it shares would be used?

    Spark fills each batch of a task but the last one.
    """
    # Arrow must not be loaded for nothing.
    from permitflow.carriers.shared_memory.link import RING_FROM_BYTES

    most_rows = int(context.getLocalProperty(_BATCH_ROWS_PROPERTY) or _BATCH_ROWS)
    is_last = sum(part.num_rows for part in first.values()) < most_rows
    return is_last and all(part.nbytes < RING_FROM_BYTES for part in first.values())


def _require_distinct(names: Sequence[str], context: TaskContext) -> None:
    """Refuse columns that differ only by case, unless the session tells them apart; a task, which knows that.

    Raises:
        InvalidParametersError: there are some, and readers in Spark could not take them.
    """
    if len({name.lower() for name in names}) == len(names):
        return
    if (context.getLocalProperty(_CASE_PROPERTY) or "").lower() == "true":
        return
    rule = (
        "must have names that differ by more than case: rename the others, or set spark.sql.caseSensitive=true, also "
        "where they are read"
    )
    raise InvalidParametersError(name="the frame's columns", value=names, rule=rule)


class SentMessage(WriterCommitMessage):
    """The totals of what one attempt has sent."""

    def __init__(self, rows: Mapping[str, int]) -> None:
        """``rows``: by channel."""
        self.rows = rows


class _Sending:
    """Sends the rows of tasks.  Built in a planning process, pickled, and used in the workers."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        """Check the columns and the key, and that no channel is at two exchanges.

        Raises:
            InvalidOptionError: a column is not there, or cannot be in a key.
            InvalidParametersError: the rows have no columns, two of one name, or one that Arrow cannot carry; or two of
                several exchanges have the same channel, or rows are spread over fewer channels than there are.
        """
        if not schema.fields:
            rule = "must be at least one: in a channel that has some, rows without columns would be rows of nulls"
            raise InvalidParametersError(name="the frame's columns", value=0, rule=rule)
        if len(set(schema.names)) < len(schema.names):
            rule = "must have different names: rename the others"
            raise InvalidParametersError(name="the frame's columns", value=schema.names, rule=rule)
        _require_carried(schema)
        self._options = options
        self._schema = schema
        if options.key:
            self._splitter()
        self._since = _beginnings(self._require_single_places())
        """Where the logs of channels that keep their rows ended when the job was planned, as far as it is known."""

    def _require_single_places(self) -> "Sequence[ChannelTraffic]":
        """Of several exchanges, what they tell of the channels."""
        exchange = self._options.exchange
        if len(several(exchange.address)) == 1:
            return ()
        # gRPC must not be loaded before Spark's daemon has forked.
        from permitflow.client.blocking import require_single_places

        leave_imports_alone()
        return require_single_places(
            exchange.address, exchange.channels, spread_over=self._spread_over, security=exchange.security
        )

    @cached_property
    def _spread_over(self) -> int:
        return spread_over(self._options.exchange.channels) if self._options.key else 0

    @property
    def _job_channels(self) -> tuple[str, ...]:
        """What an exchange must have before it takes rows; of several, each has some."""
        exchange = self._options.exchange
        return () if len(several(exchange.address)) > 1 else exchange.channels[-MOST_CHANNELS:]

    @property
    def _asked_before(self) -> "PutOptions":
        """What the exchange need not compare again for each of a task's streams; several are asked by each stream."""
        is_divided = len(several(self._options.exchange.address)) > 1
        return {} if is_divided else {"spread_over": 0, "job_channels": ()}

    def channel_of(self, context: TaskContext) -> str:
        """The channel of a task: number p modulo n without a key; any of them with one."""
        channels = self._options.exchange.channels
        return channels[context.partitionId() % len(channels)]

    def send(
        self,
        batches: "Iterable[pa.RecordBatch]",
        context: TaskContext,
        *,
        staging: Staging | None = None,
        attempt: TaskAttempt | None = None,
    ) -> SentMessage:
        """Send all rows of a task, and wait until the exchange has accepted them.  Waits for permits.

        The commit asks, for all tasks together, whether the rows were consumed.  A task without rows opens no stream.

        Raises:
            PeerGoneError: the exchange or the consumer is gone, or no permit came back in ``timeout_seconds``.
            TaskRetryError: another attempt at the same task has sent rows, or may have, or is a later one.
            ChannelCancelledError: the reader needs no more rows; those that it had not read are dropped.
            PermitflowError: the channel does not exist, has ended, or has another schema.
        """
        routed = self._routed(batches, context)
        first = next(routed, None)
        if first is None:
            return SentMessage({})
        name = f"write-{next(iter(first))}-task-{context.partitionId()}"
        with recording(self._options.exchange.trace_dir, name) as streams:
            stated: PutOptions = {"record": streams.record, "staging": staging, "attempt": attempt}
            if self._options.exchange.same_host is SameHost.AUTO and _is_short(first, context):
                stated["same_host"] = SameHost.NEVER
            return self._send(chain([first], routed), streams, stated)

    def _send(self, routed: "Iterable[Routed]", streams: StreamRecording, stated: "PutOptions") -> SentMessage:
        from permitflow.spark.schema import conform

        wanted, sinks = self._options.exchange.wanted, dict[str, "BlockingSink"]()
        with ExitStack() as stack:

            def reach(channel: str, **asked: Unpack["PutOptions"]) -> "BlockingSink":
                options: PutOptions = {"wanted": wanted}
                options.update(stated)
                options.update(asked)
                return stack.enter_context(self._opened(channel, **options))

            reach_next = partial(reach, **self._asked_before)

            for parts in routed:
                if new := [channel for channel in parts if channel not in sinks]:
                    # If the first one refuses the task, as for its schema, the others are to stay as they are.
                    opened = [reach(channel) for channel in new[:1] if not sinks]
                    opened += _at_once(reach_next, new[len(opened) :])
                    for channel, sink in zip(new, opened, strict=True):
                        sinks[channel] = sink
                        streams.add(sink)
                for channel, part in parts.items():
                    for chunk in slices(part, self._options.chunk_rows or part.num_rows):
                        sinks[channel].send(conform(chunk, sinks[channel].schema))
            outcomes = _at_once(
                lambda sink: sink.end(closes_channel=False, until=EndOutcome.ACCEPTED), [*sinks.values()]
            )
            for channel, outcome in zip(sinks, outcomes, strict=True):
                _require_wanted(channel, outcome)
            return SentMessage({channel: sink.statistics().sent_rows for channel, sink in sinks.items()})

    def _opened(self, channel: str, **stated: Unpack["PutOptions"]) -> "BlockingSink":
        """Connect, and try again while an exchange that keeps its rows restarts: that need not fail the task."""
        patience = Patience(self._options.exchange.timeout_seconds, [channel])
        while True:
            try:
                return self.open(channel, **stated)
            except AWAY as error:
                if stated.get("staging") is None:
                    raise
                patience.wait(error)

    def open(
        self, channel: str, *, timeout_seconds: float | None = None, **stated: Unpack["PutOptions"]
    ) -> "BlockingSink":
        """Connect; see ``open_sink``.  The options give the defaults.

        All columns are stated as nullable, as Spark's file sinks do: whether a frame's columns are is an accident of
        its plan.  A channel that refuses nulls still takes a frame that has none.
        """
        # gRPC must not be loaded before Spark's daemon has forked.
        from permitflow.client.blocking import open_sink
        from permitflow.spark.schema import arrow_schema

        leave_imports_alone()
        exchange = self._options.exchange
        options: PutOptions = {
            "same_host": exchange.same_host,
            "compression": exchange.compression,
            "resume_seconds": exchange.resume_seconds,
            "byte_window": exchange.byte_window,
            "security": exchange.security,
            "spread_over": self._spread_over,
            "job_channels": self._job_channels,
            **self._since.get(channel, {}),
            **stated,
        }
        seconds = timeout_seconds or exchange.timeout_seconds
        nullable = arrow_schema(self._schema.toNullable())
        try:
            return open_sink(exchange.address, channel, nullable, timeout_seconds=seconds, **options)
        except SchemaMismatchError:
            own = arrow_schema(self._schema)
            return open_sink(exchange.address, channel, own, timeout_seconds=seconds, **options)

    def _dialled(self, address: str, timeout_seconds: float) -> "BlockingControl":
        # gRPC must not be loaded before Spark's daemon has forked.
        from permitflow.client.blocking import control

        leave_imports_alone()
        security = self._options.exchange.security
        return control(address, timeout_seconds=timeout_seconds, resume_seconds=0, security=security)

    def open_for_a_word(
        self,
        channel: str,
        *,
        timeout_seconds: float | None = None,
        total: JobTotal | None = None,
        failed_job: str = "",
    ) -> "BlockingSink":
        """Connect to send an end or an abort, without preparing for rows."""
        return self.open(
            channel,
            timeout_seconds=timeout_seconds,
            same_host=SameHost.NEVER,
            total=total,
            failed_job=failed_job,
        )

    def declare_schema(self, channel: str) -> None:
        """State the schema of a channel that gets no rows, so that its readers know it."""
        with self.open_for_a_word(channel) as sink:
            sink.end(closes_channel=False)

    def _routed(self, batches: "Iterable[pa.RecordBatch]", context: TaskContext) -> "Iterator[Routed]":
        """The batches of a task, each in parts for their channels."""
        from permitflow.spark.schema import arrow_schema, conform

        if not self._options.key:
            own_channel = self.channel_of(context)
            return ({own_channel: batch} for batch in batches if batch.num_rows > 0)
        target, split = arrow_schema(self._schema), self._by_key()
        return (split(conform(batch, target)) for batch in batches if batch.num_rows > 0)

    def _by_key(self) -> "Callable[[pa.RecordBatch], Routed]":
        channels, splitter = self._options.exchange.channels, self._splitter()
        owners = spread(len(channels))

        def split(batch: "pa.RecordBatch") -> "Routed":
            found = zip(channels, splitter.split(batch, owners), strict=True)
            return {channel: part for channel, part in found if part is not None}

        return split

    def _splitter(self) -> "Splitter":
        from permitflow.dispatch.keys import Splitter
        from permitflow.spark.schema import arrow_schema

        options = self._options
        try:
            return Splitter(arrow_schema(self._schema), options.key, changes=options.change_column)
        except InvalidParametersError as error:
            option = "changeColumn" if error.name == "changes" else "key"
            raise InvalidOptionError(option=option, value=error.value, reason=error.rule) from None


class ExchangeWriter(_Sending, DataSourceArrowWriter):
    """Writes through ``PutStream``.  Built in a planning process, pickled, used in the workers and in the driver."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        """Draw the job's name; planning process, once per job."""
        super().__init__(options, schema)
        self._job = uuid4().hex
        self._is_kept = False
        """May a channel keep the rows of a job that has failed, if the exchange was away when it was told?"""

    def require_channels(self) -> None:
        """Ask for the channels; planning process: of each task that fails, Spark logs hundreds of lines.

        Readers that wait are not told: they get the rows of the job that comes next.  Of several exchanges, one that is
        away need not have a channel of this job: its tasks will tell.

        Raises:
            PermitflowError: the exchange does not answer, lacks a channel, or one takes no more rows.
        """
        exchange = self._options.exchange
        if len(several(exchange.address)) > 1:
            self._is_kept = True
            return
        with self._dialled(exchange.address, exchange.timeout_seconds) as orders:
            channels = orders.statistics(exchange.channels).channels
        for told in channels:
            _require_producible(told)
        self._since = _beginnings(channels)
        self._is_kept = bool(self._since)

    @told_in_words
    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        """Send one partition; worker, once per task attempt.  Waits for permits, which is the back-pressure.

        Raises:
            InvalidParametersError: columns differ only by case.
            TaskRetryError: another attempt at the task has sent rows, or may have, or is a later one.
            PeerGoneError: the exchange or the consumer is gone, or no permit came back in ``timeout_seconds``.
            PermitflowError: the channel does not exist, has ended, or has another schema.
        """
        context = _context()
        _require_distinct(self._schema.names, context)
        is_retry = context.attemptNumber() > 0
        attempt = TaskAttempt(self._job, context.partitionId(), context.taskAttemptId(), is_retry)
        with earlier_attempts_named():
            return self.send(iterator, context, attempt=attempt)

    @told_in_words
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """End the channels for their readers; driver side, once, after all tasks have succeeded.

        Connects to all channels before it ends the first: each compares the rows that count with those that it has
        taken.  Waits until the connected readers have consumed all rows.
        If another job continues the stream (``end=false``), it ends no channel and waits for no reader, but fails if
        a channel has lost its reader.

        Raises:
            JobTotalError: a channel has other rows than those that count; its readers have got an error.
            ChannelCancelledError: a reader needs no more rows; those that it had not read are dropped.
            PermitflowError: a channel could not be ended, or has lost its reader; Spark calls ``abort`` then.
        """
        rows = Counter[str]()
        for message in messages:
            if isinstance(message, SentMessage):
                rows.update(message.rows)
        ends, channels = self._options.end, self._options.exchange.channels
        until = EndOutcome.CONSUMED if ends else EndOutcome.ACCEPTED
        with ExitStack() as stack:

            def reach(channel: str) -> "BlockingSink":
                return stack.enter_context(self.open_for_a_word(channel, total=JobTotal(self._job, rows[channel])))

            sinks = _at_once(reach, channels)
            # Send every end before waiting for any: a reader may need one channel's end to continue with another.
            outcomes = _at_once(lambda sink: sink.end(closes_channel=ends, until=until), sinks, at_once=len(sinks))
        for channel, outcome in zip(channels, outcomes, strict=True):
            _require_wanted(channel, outcome)
        accepted = [name for name, outcome in zip(channels, outcomes, strict=True) if outcome is EndOutcome.ACCEPTED]
        if accepted and ends:
            _log.info("the exchange holds all rows; no reader has consumed those of %s yet", in_words(accepted))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Fail the readers of the job's rows, and those who wait for the first; driver side, once, after a failure.

        Where rows are kept, it tries again for a while if the exchange is away, as one that starts again: the rows of
        the job would look like all of them.  What cannot be told goes into the log: beside an error of the abort,
        Spark would show the one of a task in hundreds of lines.
        """
        exchange = self._options.exchange
        timeout_seconds = min(exchange.timeout_seconds, ABORT_TIMEOUT_SECONDS)
        patience = Patience(timeout_seconds, exchange.channels)
        left = exchange.channels
        try:
            while failures := self._not_told(left, patience):
                left = tuple(failures)
                error = next(filter(is_away, failures.values()), failures[left[0]])
                if not self._is_kept:
                    raise error
                patience.wait(error)
        except PermitflowError as error:
            what = "readers may wait for a job that has failed, until their time-out, or take its rows for all of them"
            _log.warning("%s: %s", what, error)

    def _not_told(self, channels: Sequence[str], patience: Patience) -> dict[str, PermitflowError]:
        """Say in channels that the job has failed; return those in which that failed, and why.

        Each has what time is left: a silent exchange may have taken that of those before it.
        """

        def tell(channel: str) -> PermitflowError | None:
            seconds = round(patience.remaining_seconds, 2)
            try:
                with self.open_for_a_word(channel, timeout_seconds=seconds, failed_job=self._job) as sink:
                    sink.abort("the Spark job that was writing into it has failed")
            except PermitflowError as error:
                # The failed task may have aborted the channel already, or the channel had ended or been read before
                # this job, or was reset since it began, or has none of this job's rows: no reader waits there for it.
                is_over = isinstance(error, _OVER) and not isinstance(error, PeerGoneError)
                return None if is_over else error
            return None

        told = zip(channels, _at_once(tell, channels), strict=True)
        return {channel: error for channel, error in told if error is not None}


class StagedMessage(WriterCommitMessage):
    """The parts that one attempt at a partition has staged, one for each channel."""

    def __init__(self, query: str, parts: Sequence[StagedPart], within: BatchKey | None) -> None:
        """Carry the query's id as well: the driver of a streaming query learns it from its tasks.

        ``within`` is the micro-batch in which the task runs, also that of a batch job inside ``foreachBatch``.
        """
        self.query = query
        self.parts = parts
        self.within = within


class _Staged(_Sending):
    """The common part of both staged sinks."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        """Publish first what a driver before this one has decided: it takes room; planning process, before tasks."""
        super().__init__(options, schema)
        self._consumer = ""
        """Positions are asked for as one of the channels' consumers; whichever it is, a writer hears the same."""
        self._carry_out_earlier()

    @property
    def _decisions(self) -> Decisions | None:
        """The decisions of a stream over several exchanges; None for one exchange."""
        checkpoint = self._options.checkpoint_location
        is_divided = len(several(self._options.exchange.address)) > 1
        return Decisions(checkpoint) if is_divided and checkpoint is not None else None

    def _stage(self, batches: "Iterator[pa.RecordBatch]", key: BatchKey, context: TaskContext) -> StagedMessage:
        _require_distinct(self._schema.names, context)
        # Spark restarts its attempt numbers when the driver restarts.
        attempt = f"{context.taskAttemptId()}-{uuid4().hex}"
        staging = Staging(key.query, key.batch, context.partitionId(), attempt)
        with earlier_attempts_named():
            sent = self.send(batches, context, staging=staging)
        parts = [StagedPart(channel, staging.partition, attempt, rows) for channel, rows in sent.rows.items()]
        return StagedMessage(key.query, parts, _micro_batch_of(context))

    def _publish(self, key: BatchKey, messages: Sequence[StagedMessage]) -> None:
        parts = tuple(part for message in messages for part in message.parts)
        self._insist(self._declare_schema)
        if self._decisions is None:
            published = self._insist(lambda control: control.publish(key.query, key.batch, parts))
        else:
            decision = Decision(key.query, key.batch, parts, self._options.exchange.channels)
            published = self._decide(self._decisions, decision)
        if published.was_published and published.last_batch != key.batch:
            raise BatchOrderError(query=key.query, batch=key.batch, last_batch=published.last_batch)
        if published.was_published:
            _log.warning(
                "batch %d of query %r was published before: the rows of this run are dropped, as those of a batch that "
                "is repeated; other rows need a higher batch number, or another query",
                key.batch,
                key.query,
            )

    def _decide(self, decisions: Decisions, decision: Decision) -> Published:
        """Publish in several exchanges, all or nothing.  An earlier decision about the same batch stands."""
        if decision.parts:  # they do not expire from now on, though this driver, or the next one, may come late
            self._insist(lambda control: control.prepare(decision.query, decision.batch, decision.parts))
        standing = decisions.decide(decision)
        self._carry_out_earlier(before=standing)
        published = self._carry_out(standing)
        decisions.forget(standing)
        return published

    def _carry_out_earlier(self, before: Decision | None = None) -> None:
        """Carry out what a driver that has died, or has lost an exchange, had decided.

        Jobs with keys of their own may share the folder: what another query has decided is left to it.
        """
        if (decisions := self._decisions) is None:
            return
        key = self._options.publication
        for earlier in decisions.pending():
            is_own = key is None or earlier.query == key.query
            if is_own and (before is None or earlier.name != before.name):
                _log.info("publishing batch %d of query %r, as decided before", earlier.batch, earlier.query)
                self._carry_out(earlier)
                decisions.forget(earlier)

    def _carry_out(self, decision: Decision) -> Published:
        """Publish in each exchange what lies there, also nothing: then it knows the batch when it comes again."""

        def everywhere(control: "BlockingControl") -> Published:
            told = []
            for address, names in control.by_exchange(decision.channels).items():
                parts = [part for part in decision.parts if part.channel in names]
                with self._dialled(address, self._options.exchange.timeout_seconds) as there:
                    told.append(there.publish(decision.query, decision.batch, parts))
            return next((each for each in told if not each.was_published), told[0])

        try:
            return self._insist(everywhere)
        except StagedPartError as error:
            if (decisions := self._decisions) is not None:
                error.add_note(
                    "other exchanges may have published their rows of this batch: this one has lost its own, because "
                    "it has no store, or an administrator has rolled them back, or removed their channel. To go on, "
                    f"delete {decisions.where(decision)}: then the batch runs again, and its rows come here"
                )
            raise

    def _declare_schema(self, control: "BlockingControl") -> None:
        """Declare the schema of channels without rows: otherwise their readers would wait for it."""
        positions = control.positions(self._options.exchange.channels, consumer=self._consumer)
        new = [at.channel for at in positions if at.schema is None and at.state is ChannelState.OPEN]
        _at_once(self.declare_schema, new)

    def _discard(self, key: BatchKey, messages: Sequence[StagedMessage]) -> None:
        # Only this driver's parts: when the abort arrives, another driver may be running the batch again.
        parts = [part for message in messages for part in message.parts]
        if not parts:
            return
        decided = [] if (decisions := self._decisions) is None else decisions.pending()
        if any((each.query, each.batch) == (key.query, key.batch) for each in decided):
            return  # these rows are to be published
        seconds = min(self._options.exchange.timeout_seconds, ABORT_TIMEOUT_SECONDS)
        try:
            self._insist(lambda control: control.discard(key.query, key.batch, parts), timeout_seconds=seconds)
        except PermitflowError as error:
            _log.warning("staged rows of a job that has failed stay in the exchange for a while: %s", error)

    def _insist(self, order: "Callable[[BlockingControl], T]", timeout_seconds: float | None = None) -> T:
        """Send an idempotent order, and repeat it while the exchange is away."""
        exchange = self._options.exchange
        patience = Patience(timeout_seconds or exchange.timeout_seconds, exchange.channels)
        while True:
            try:
                with self._dialled(exchange.address, patience.remaining_seconds) as dialled:
                    return order(dialled)
            except UnknownConsumerError as error:
                if self._consumer or not error.known:
                    raise
                self._consumer = error.known[0]
            except PermitflowError as error:
                patience.wait(error)


class StagedBatchWriter(_Staged, DataSourceArrowWriter):
    """Writes a batch job.  Built in a planning process, pickled, used in the workers and in the driver."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        """Choose the key under which the job is published; planning process, once per job."""
        super().__init__(options, schema)
        self._key = options.batch_key()

    def require_channels(self) -> None:
        """As ``ExchangeWriter.require_channels``, and wait for an exchange that restarts.

        A job with a key may be a repetition, after which its channels have ended: its rows are dropped.

        Raises:
            RetentionError: a channel keeps no rows.
            PermitflowError: the exchange did not answer for ``timeout_seconds``, or lacks a channel, or one takes no
                more rows.
        """
        exchange = self._options.exchange
        if len(several(exchange.address)) > 1:
            return
        for told in self._insist(lambda orders: orders.statistics(exchange.channels)).channels:
            if told.kept is None:
                rule = "publishes nothing"
                raise RetentionError(channel=told.channel, retention=Retention.ONCE.value, rule=rule)
            if self._options.publication is None:
                _require_producible(told)

    @told_in_words
    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        """Stage one partition; worker, once per task attempt.  Waits for permits, which is the back-pressure.

        Raises:
            StagingFullError: the job's rows do not fit into the exchange's staging area.
            PeerGoneError: the exchange is gone, or there was no room in ``timeout_seconds``.
            PermitflowError: the channel does not exist, has ended, keeps no rows, or has another schema.
        """
        return self._stage(iterator, self._key, _context())

    @told_in_words
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish the tasks' staged rows, and end the channels; driver side, once, after all have succeeded.

        Raises:
            StagedPartError: the exchange has lost staged rows; nothing was published.
            BatchOrderError: a later batch of this query was published before; nothing was published.
            ChannelAbortedError: a channel that the job ends was broken meanwhile.
            PermitflowError: the exchange did not answer for ``timeout_seconds``; Spark calls ``abort`` then.
        """
        staged, exchange = _staged(messages), self._options.exchange
        self._warn_of_repetition(staged)
        self._publish(self._key, staged)
        if self._options.end:
            for at in self._insist(lambda line: line.close_channels(exchange.channels, consumer=self._consumer)):
                if at.state is ChannelState.BROKEN:
                    raise ChannelAbortedError(channel=at.channel, reason=at.reason)

    def _warn_of_repetition(self, staged: Sequence[StagedMessage]) -> None:
        within = next((message.within for message in staged if message.within is not None), None)
        if self._options.publication is None and within is not None:
            _log.warning(
                "this staged job runs in foreachBatch (batch %d of query %s) without a key: if Spark repeats the batch "
                "after a crash, its rows are published twice; set options 'query' (a name of your own) and 'batch' "
                "(the number that foreachBatch passes)",
                within.batch,
                within.query,
            )

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Drop the staged rows; driver side, once, after a task or the commit has failed.

        If the exchange does not answer, it drops them by itself later; see ``ExchangeWriter.abort``.
        """
        self._discard(self._key, _staged(messages))


class StagedStreamWriter(_Staged, DataSourceStreamArrowWriter):
    """Writes a streaming query.  Built in a planning process; used in the workers, and in one that commits."""

    @told_in_words
    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        """Stage one partition of a micro-batch; worker, once per task attempt.  Waits for permits.

        Raises:
            StagingFullError: the batch does not fit into the exchange's staging area.
            PeerGoneError: the exchange is gone, or there was no room in ``timeout_seconds``.
            PermitflowError: the channel does not exist, has ended, keeps no rows, or has another schema.
        """
        context = _context()
        return self._stage(iterator, _key_of(context), context)

    @told_in_words
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Publish a micro-batch; driver side, after all tasks have succeeded, and again if the driver crashes then.

        Raises:
            InvalidOptionError: Spark has handed no rows over; the trigger is continuous.
            StagedPartError: the exchange has lost staged rows; nothing was published.
            BatchOrderError: a later batch of this query was published before; nothing was published.
            PermitflowError: the exchange did not answer for ``timeout_seconds``.
        """
        require_attempts(messages)
        staged = _staged(messages)
        if staged:  # a batch without tasks has no rows
            self._publish(BatchKey(query=staged[0].query, batch=batchId), staged)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Drop the staged rows of a micro-batch that was not published; driver side, possibly late.

        The exchange has dropped the failed tasks' rows with their streams.  If it does not answer, it drops the others
        later; see ``ExchangeWriter.abort``.
        """
        staged = _staged(messages)
        if staged:
            self._discard(BatchKey(query=staged[0].query, batch=batchId), staged)


def _micro_batch_of(context: TaskContext) -> BatchKey | None:
    """The micro-batch to which a task belongs; None if its query is not a streaming query."""
    query, batch = context.getLocalProperty(_QUERY_PROPERTY), context.getLocalProperty(_BATCH_PROPERTY)
    return None if query is None or batch is None else BatchKey(query=query, batch=int(batch))


def _key_of(context: TaskContext) -> BatchKey:
    if (key := _micro_batch_of(context)) is None:
        is_unknown = context.getLocalProperty(_QUERY_PROPERTY) is None
        raise UnknownBatchError(missing=_QUERY_PROPERTY if is_unknown else _BATCH_PROPERTY)
    return key


def _staged(messages: Sequence[WriterCommitMessage | None]) -> list[StagedMessage]:
    """The messages of the tasks that have succeeded."""
    return [message for message in messages if isinstance(message, StagedMessage)]
