"""The streams of a channel, one for each peer that has dialled, and what they and the channel count."""

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import partial
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

import pyarrow as pa

from permitflow.channels.statistics import ChannelStatistics
from permitflow.client.remote_receiver import RemoteReceiver
from permitflow.client.remote_sender import RemoteSender
from permitflow.errors import ChannelAbortedError, JobTotalError, PermitflowError, TaskRetryError
from permitflow.exchange.books.attempts import AttemptBooks, Sending
from permitflow.exchange.books.bridge import BridgeState
from permitflow.flows.byte_window import ByteWindow
from permitflow.flows.seam import Parameters
from permitflow.stream.compression import Codec
from permitflow.stream.control import StreamConnection
from permitflow.stream.frames import Abort, End, Get, Put, TaskAttempt
from permitflow.stream.session import State
from permitflow.stream.traffic import ChannelTraffic, KeptRows
from permitflow.wire.schemas import OF_CONSUMER, require_equal_schemas

# Finished streams to keep: a channel may have thousands of short-lived producers.
_KEPT_STREAMS = 64
_OVER = (State.CLOSED, State.FAILED)


class Direction(StrEnum):
    """The direction of a stream's data, seen from the exchange."""

    PUT = "put"
    """From a producer into the exchange."""
    GET = "get"
    """From the exchange to a consumer."""


class Streams:
    """The streams of one channel: the open ones, and the latest finished ones."""

    def __init__(self, channel: str) -> None:
        self._channel = channel
        self._open: dict[str, AnyStream] = {}
        self._past: deque[tuple[StreamConnection, ChannelStatistics]] = deque(maxlen=_KEPT_STREAMS)
        self._counts = Counter[Direction]()
        self._past_resumes = 0

    def new_name(self, direction: Direction) -> str:
        """A name for the next stream: unique in the exchange."""
        self._counts[direction] += 1
        return f"{self._channel}#{direction.value}{self._counts[direction]}"

    def open(self, stream: "AnyStream") -> None:
        """Add an open stream to the statistics."""
        self._open[stream.name] = stream

    def close(self, stream: "AnyStream") -> None:
        """Note that a stream is over."""
        if self._open.pop(stream.name, None) is not None:
            self._past.append(past := stream.statistics())
            self._past_resumes += past[1].resumes

    @property
    def live(self) -> "list[AnyStream]":
        """The open streams that have not said their last word."""
        return [stream for stream in self._open.values() if stream.is_live]

    def end_all(self, error: PermitflowError) -> int:
        """End the live streams with this error; how many."""
        live = self.live
        for stream in live:
            stream.end_with(error)
        return len(live)

    def statistics(self) -> tuple[tuple[StreamConnection, ChannelStatistics], ...]:
        """Each stream, and a snapshot of the exchange's end; the latest finished ones first."""
        return (*self._past, *(stream.statistics() for stream in self._open.values()))

    def connections(self) -> tuple[StreamConnection, ...]:
        """The streams that are not over."""
        return tuple(connection for connection, _ in self.statistics() if connection.state not in _OVER)

    def traffic(
        self,
        channel: str,
        state: BridgeState,
        reason: str,
        numbers: ChannelStatistics,
        *,
        purged_rows: int,
        expired_rows: int = 0,
        kept: KeptRows | None = None,
    ) -> ChannelTraffic:
        """A snapshot of the channel; ``numbers`` are its own, between its producers and its consumers."""
        told, streams = self.statistics(), self._open.values()
        live = [(connection, each) for connection, each in told if connection.state not in _OVER]
        gets = [each for connection, each in told if connection.direction == Direction.GET]
        reading = [each for connection, each in live if connection.direction == Direction.GET]
        # All rows of a spent channel were consumed: nobody returns its last permits, and nothing takes their room.
        is_spent = state is BridgeState.SPENT
        return ChannelTraffic(
            channel=channel,
            state=state.value,
            reason=reason,
            window_rows=numbers.window_rows,
            producers=sum(stream.direction is Direction.PUT for stream in streams),
            consumers=len(reading),
            rows_in=numbers.sent_rows,
            rows_out=numbers.consumed_rows,
            rows_held=0 if is_spent else numbers.rows_held,
            peak_rows_held=numbers.peak_rows_held,
            rows_with_consumers=sum(each.rows_held for each in reading),
            byte_window=numbers.byte_window,
            bytes_held=0 if is_spent else numbers.bytes_held,
            peak_bytes_held=numbers.peak_bytes_held,
            bytes_with_consumers=sum(each.bytes_held for each in reading),
            waiting_seconds=numbers.waiting_seconds,
            consumer_waiting_seconds=sum(each.waiting_seconds for each in gets),
            consumer_stopped_seconds=sum(each.stopped_seconds for each in gets),
            resumes=self._past_resumes + sum(stream.resumes for stream in streams),
            suspended_streams=sum(stream.is_suspended for stream in streams),
            purged_rows=purged_rows,
            expired_rows=expired_rows,
            compressed_streams=_compressed(each for _, each in live),
            kept=kept,
            gauges=numbers.gauges,
            consumer_gauges=_added_up(each.gauges for each in reading),
        )


def _added_up(gauges: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for each in gauges:
        found.update(each)
    return dict(found)


def _compressed(ends: Iterable[ChannelStatistics]) -> dict[str, int]:
    found = Counter(each.compression for each in ends)
    return {codec.value: found[codec.value] for codec in Codec if found[codec.value]}


class _Channel(Protocol):
    name: str
    parameters: Parameters
    window: ByteWindow
    streams: Streams
    attempts: AttemptBooks

    async def known_schema(self) -> pa.Schema: ...


C = TypeVar("C", bound=_Channel)
E = TypeVar("E", RemoteReceiver, RemoteSender)


class _Stream(ABC, Generic[C, E]):
    """A peer that has dialled, and the channel that it has named."""

    direction: ClassVar[Direction]

    def __init__(self, channel: C, end: E, peer: str) -> None:
        """``end`` is the exchange's end of the stream, ``peer`` the address of the other end."""
        self.peer = peer
        self.name = ""
        """The stream's name; empty until both ends have agreed."""
        self._channel = channel
        self._end: E = end

    def _agree(
        self,
        schema: pa.Schema,
        first_row: int | None = None,
        *,
        rows: pa.Schema | None = None,
        is_probe: bool = False,
    ) -> None:
        streams = self._channel.streams
        name = streams.new_name(self.direction)
        channel = self._channel
        self._end.accept(
            channel.parameters, schema=schema, stream=name, rows=rows, first_row=first_row, window=channel.window
        )
        self.name = name
        if not is_probe:
            streams.open(self)

    @property
    def resumes(self) -> int:
        """How often it has gone on over another connection."""
        return self._end.resumes

    @property
    def is_suspended(self) -> bool:
        """Has the peer lost its connection, and may it come again?"""
        return self._end.suspended_since is not None

    @property
    def is_live(self) -> bool:
        """Has it more to say?"""
        return self._end.state not in _OVER

    def end_with(self, error: PermitflowError) -> None:
        """End the stream: the peer gets this error, at once, or when it comes again."""
        if not self._end.break_off(error):
            self._end.hang_up(error)

    def fail(self, reason: str) -> None:
        """React to a failure of the stream; called before ``leave``.  By default, do nothing."""

    def leave(self) -> None:
        """Note that the stream is over."""
        self._channel.streams.close(self)

    def statistics(self) -> tuple[StreamConnection, ChannelStatistics]:
        """The stream, and a snapshot of the exchange's end."""
        numbers = self._end.statistics()
        connection = StreamConnection(
            stream=self.name,
            peer=self.peer,
            direction=self.direction.value,
            state=self._end.state.value,
            is_suspended=self.is_suspended,
            rows_held=numbers.rows_held,
        )
        return connection, numbers


AnyStream: TypeAlias = _Stream[Any, Any]


class ProducerStream(_Stream[C, RemoteReceiver]):
    """A producer that has dialled."""

    direction = Direction.PUT

    _sending: Sending | None = None

    async def _begin(self, put: Put) -> None:
        """Begin the attempt that the producer states, or hear what its job says; no wait unless it is refused.

        Raises:
            ChannelResetError: the channel was reset since the job began; it stays as it is.
            TaskRetryError: another attempt at the same task may have sent rows; if an earlier one has, the channel
                breaks.
            JobTotalError: other rows of the job have come than count; the channel breaks.
        """
        books, channel = self._channel.attempts, self._channel.name
        try:
            if put.attempt is not None:
                stop = partial(self._stop, put.attempt)
                self._sending = books.begin(put.attempt, channel, self._rows_so_far, stop, put.job_since_row)
            if put.total is not None:
                books.require_total(put.total, channel, put.job_since_row)
        except (TaskRetryError, JobTotalError) as error:
            if put.attempt is None or books.spoils(put.attempt):
                await self._break(str(error))
            raise

    async def _require_whole(self, end: End) -> None:
        """Break the channel if it is to end, and has rows of a job that nobody knows to be all.

        Raises:
            ChannelAbortedError: that is so; or an attempt was to end it, which has no say in how many rows count.
        """
        name = self._channel.name
        if not end.closes_channel:
            return
        if self._sending is not None:
            reason = "an attempt at a task was to end it, which only its job may do, with the total of its rows"
        elif job := self._channel.attempts.unfinished(name):
            reason = f"it was to end, and job {job!r} has not said that its rows there are all"
        else:
            return
        await self._break(reason)
        raise ChannelAbortedError(channel=name, reason=reason)

    def _rows_so_far(self) -> int:
        if not self.name:  # both ends have not agreed yet
            return 0
        numbers = self._end.statistics()
        return numbers.consumed_rows + numbers.inbox_rows

    def _stop(self, attempt: TaskAttempt, reason: str) -> None:
        """Take no more from this attempt, which has sent nothing; from this moment on."""
        self.end_with(TaskRetryError(partition=attempt.partition, attempt=attempt.attempt, reason=reason))

    @property
    def _is_bare(self) -> bool:
        """Is this an attempt none of whose rows has come, so that nothing is missing if it breaks off?"""
        return self._sending is not None and not self._sending.rows

    def _end_attempt(self) -> None:
        """Note that all rows of the attempt are here; before the producer hears of it."""
        if self._sending is not None:
            self._sending.end()

    def leave(self) -> None:
        """Note that the stream is over."""
        self._end_attempt()
        super().leave()

    @abstractmethod
    async def _break(self, reason: str) -> None:
        """Break the channel: its rows are incomplete, or some stand twice."""

    @abstractmethod
    async def serve(self, put: Put, schema: pa.Schema) -> None:
        """Accept the producer, and take in its messages to the end.

        Raises:
            PermitflowError: the error to send to the producer.
        """

    @abstractmethod
    async def give_up(self, abort: Abort) -> None:
        """React to the producer's abort; called at once, even while one of its messages waits."""


class ConsumerStream(_Stream[C, RemoteSender]):
    """A consumer that has dialled."""

    direction = Direction.GET

    @abstractmethod
    async def serve(self, get: Get, schema: pa.Schema | None) -> None:
        """Accept the consumer, and send the rows it wants, to the end.

        Args:
            get: what it has dialled with.
            schema: the one that it requires; None: any.

        Raises:
            PermitflowError: the error to send to the consumer.
        """

    def cancel(self, reason: str) -> None:
        """React to a consumer that needs no more; ``serve`` was stopped.  By default, do nothing."""

    async def _meet(self, wanted: pa.Schema | None) -> pa.Schema:
        """Negotiate with the consumer, and wait for the channel's schema."""
        await self._end.meet()
        schema = await self._channel.known_schema()
        return schema if wanted is None else self._fit(schema, wanted)

    def _fit(self, schema: pa.Schema, wanted: pa.Schema) -> pa.Schema:
        """The schema of the stream, of the channel's and the one that the consumer requires.

        Raises:
            SchemaMismatchError: there is none.
        """
        require_equal_schemas(ours=schema, theirs=wanted, owners=OF_CONSUMER)
        return schema
