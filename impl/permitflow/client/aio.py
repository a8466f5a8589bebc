"""The exchange's clients for asyncio: ``get`` reads a channel, ``put`` feeds one, ``control`` asks and orders.

    async with get("localhost:5600", "orders/0") as receiver:
        async for message in receiver: ...

Consumers that read many small chunks at once ask for ``JoinedChunks``: ``await receiver.receive_joined()``.

gRPC's own flow control stays active underneath; it bounds bytes in flight, permits bound rows until they are consumed.
Reading never waits for the application, so that a slow consumer holds its permits and not the connection.
"""

import asyncio
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, closing
from functools import partial
from itertools import chain, starmap
from time import monotonic
from typing import Any, NamedTuple, TypeAlias, TypeVar

import pyarrow as pa

from permitflow.carriers.addresses import parsed, ranked, several, written
from permitflow.carriers.calling import calling, is_of_this_host, reached_again
from permitflow.carriers.carrier import Carrier, Conversation
from permitflow.carriers.connection import CONTROL, GET_STREAM, PUT_STREAM
from permitflow.carriers.deadlines import HANDSHAKE_SECONDS, RESUME_SECONDS, SILENCE_SECONDS, require_seconds
from permitflow.carriers.patience import Limit, patience
from permitflow.carriers.resuming import calling_again
from permitflow.carriers.same_host import Offer, SameHost
from permitflow.carriers.security import Security
from permitflow.channels.interface import require_no_further
from permitflow.client.remote_receiver import RemoteReceiver
from permitflow.client.remote_sender import RemoteSender
from permitflow.client.survey import Survey, require_one_place, surveyed
from permitflow.errors import (
    ChannelClosedError,
    InvalidParametersError,
    MovedError,
    PeerGoneError,
    PeerTimeoutError,
    PermitflowError,
    ProtocolError,
    SecurityError,
    UnknownChannelError,
)
from permitflow.flows.adaptive_window import require_latency
from permitflow.flows.byte_window import require_byte_window
from permitflow.flows.recording import RecorderFactory
from permitflow.flows.seam import Group, Parameters
from permitflow.stream.compression import Compression, offered
from permitflow.stream.control import (
    MOST_CHANNELS,
    Acknowledge,
    AddStream,
    AskChannels,
    AskPositions,
    AskStatistics,
    Changed,
    ChangedChannel,
    ChannelPosition,
    ChannelRow,
    Channels,
    Close,
    ControlReply,
    ControlRequest,
    Discard,
    Discarded,
    ListedChannel,
    Peek,
    Peeked,
    Positions,
    Publish,
    Published,
    Purge,
    RemoveChannels,
    ResetChannels,
    Retention,
    StagedPart,
)
from permitflow.stream.divided_control import about, merged
from permitflow.stream.frames import EndOutcome, Get, JobTotal, Put, Staging, TaskAttempt
from permitflow.stream.handshake import PROTOCOL_VERSION, stated
from permitflow.stream.resuming import ResumeOffer
from permitflow.stream.session import DownstreamSession, UpstreamSession
from permitflow.stream.traffic import ChannelTraffic, Statistics
from permitflow.wire.arrow import BatchCodec
from permitflow.wire.arrow_compression import available_codecs
from permitflow.wire.buffers import Received
from permitflow.wire.control_codec import encode_request, read_answer
from permitflow.wire.wire_errors import SILENT

__all__ = [
    "AioControl",
    "ChannelDescription",
    "Compression",
    "EndOutcome",
    "SameHost",
    "control",
    "describe",
    "get",
    "put",
    "require_single_places",
]

R = TypeVar("R", bound=ControlReply[pa.Schema])
T = TypeVar("T")

Listed: TypeAlias = tuple[ListedChannel[pa.Schema], ...]
"""Channels with their counts and connections, in the order of the request, or of adding."""

Where: TypeAlias = tuple[ChannelPosition[pa.Schema], ...]
"""The channels' positions, in the order of the request."""


class AioControl:
    """One stream of questions and orders.  Tasks that share it take turns.

    Unless it is a publication, an order about more than 1,000 channels or attempts is sent as several requests; if one
    of them fails, those before it were carried out.

    An order that fails ends the stream: call ``control`` again for the next one.  An unanswered or cancelled order may
    or may not have been carried out.  After a lost connection it is repeated over another one, for at most
    ``resume_seconds``, except those that change the channels themselves (``add_stream``, ``remove``, ``reset``,
    ``purge``): repeated, they would do something else, so they fail, and ``channels`` tells what was done.
    """

    def __init__(self, line: "_Line", address: str, who: str, timeout_seconds: float) -> None:
        """Use ``control``."""
        self._line = line
        self._address = address
        self._who = who
        self._timeout_seconds = timeout_seconds
        self._turn = asyncio.Lock()
        self._is_closed = False
        self._survey = Survey()

    async def positions(self, channels: Sequence[str], *, consumer: str = "") -> Where:
        """Ask for the positions of channels, in this order.

        Args:
            channels: names.
            consumer: the one whose position is wanted; empty: the consumer ``default``.

        Raises:
            UnknownChannelError: the exchange has no such channel.
            RetentionError: one of them does not keep its rows.
            UnknownConsumerError: one of them keeps no rows for this consumer.
            ChannelClosedError: an order has failed before, or the block was left.
            PeerTimeoutError: no reply in time.
            PeerGoneError: the exchange has gone.
        """
        found = [await self._where(AskPositions(names, consumer), names) for names in _portions(names_of(channels))]
        return tuple(chain.from_iterable(found))

    async def acknowledge(self, rows: Mapping[str, int] | Sequence[ChannelRow], *, consumer: str = "") -> Where:
        """Acknowledge all rows before these for a consumer; an earlier row than before changes nothing.

        Args:
            rows: by channel: the first row that is still needed; or the same with the log in which it was counted.
            consumer: empty: the consumer ``default``.

        Raises:
            RowsNotThereError: the channel does not have one of these rows yet; nothing was acknowledged.
            LogReplacedError: the log of these rows was lost; nothing was acknowledged.
            StoreWriteError: the exchange could not write; some of the channels may be acknowledged.
            PermitflowError: as ``positions``.
        """
        named = tuple(starmap(ChannelRow, rows.items()) if isinstance(rows, Mapping) else rows)
        found = [
            await self._where(Acknowledge(some, consumer), [asked.channel for asked in some])
            for some in _portions(named)
        ]
        return tuple(chain.from_iterable(found))

    async def close_channels(self, channels: Sequence[str], *, consumer: str = "") -> Where:
        """Close these channels to all producers.  Ended channels stay as they are.

        Raises:
            StoreWriteError: the exchange could not write; some of the channels may be closed.
            PermitflowError: as ``positions``.
        """
        found = [await self._where(Close(names, consumer), names) for names in _portions(names_of(channels))]
        return tuple(chain.from_iterable(found))

    async def publish(self, query: str, batch: int, parts: Sequence[StagedPart]) -> Published:
        """Make one attempt at each partition of a batch part of its channel, all or none.

        Raises:
            StagingError: an attempt is not staged; nothing was published.
            PermitflowError: as ``positions``.
        """
        return await self._ask(Publish(query, batch, tuple(parts)), Published)

    async def discard(self, query: str, batch: int, parts: Sequence[StagedPart]) -> Discarded:
        """Discard these attempts at a batch, unless they are published; other attempts stay.

        Raises:
            PermitflowError: as ``positions``.
        """
        found = [await self._ask(Discard(query, batch, some), Discarded) for some in _portions(tuple(parts))]
        return Discarded(sum(each.rows for each in found))

    async def statistics(self, channels: Sequence[str] = (), *, partial: bool = False) -> Statistics:
        """Ask for the traffic counts of channels of any kind.

        Args:
            channels: names, in the order of the answer; none: all that the exchange has.
            partial: of several exchanges, also if only some answer, or two have the same channel: see ``survey``.

        Raises:
            UnknownChannelError: the exchange has no such channel.
            InvalidParametersError: two exchanges have the same channel.
            PermitflowError: as ``positions``.
        """
        if channels:
            found = [await self._ask(AskStatistics(names), Statistics) for names in _portions(names_of(channels))]
        else:
            found = [await self._ask(AskStatistics(), Statistics)]
            while len(found[-1].channels) == MOST_CHANNELS:
                found.append(await self._ask(AskStatistics(first=len(found) * MOST_CHANNELS), Statistics))
        return Statistics(found[0].at_seconds, tuple(chain.from_iterable(each.channels for each in found)))

    # Administration.

    async def channels(self, channels: Sequence[str] = (), *, partial: bool = False) -> Listed:
        """Ask what channels there are: their state, schema and parameters, their counts, and who is connected.

        Args:
            channels: names, in the order of the answer; none: all that the exchange has.
            partial: as for ``statistics``.

        Raises:
            UnknownChannelError: the exchange has no such channel.
            InvalidParametersError: two exchanges have the same channel.
            PermitflowError: as ``positions``.
        """
        if channels:
            found = [await self._ask(AskChannels(names), Channels) for names in _portions(names_of(channels))]
        else:
            found = [await self._ask(AskChannels(), Channels)]
            while len(found[-1].channels) == MOST_CHANNELS:
                found.append(await self._ask(AskChannels(first=len(found) * MOST_CHANNELS), Channels))
        return tuple(chain.from_iterable(each.channels for each in found))

    async def add_stream(
        self,
        stream: str,
        channels: int = 1,
        parameters: Parameters | None = None,
        *,
        schema: pa.Schema | None = None,
        retention: Retention = Retention.ONCE,
        consumers: Sequence[str] = (),
        kept_rows: int | None = None,
        staging_rows: int | None = None,
        byte_window: int | None = None,
        target_latency_seconds: float | None = None,
    ) -> Listed:
        """Add the channels ``stream/0``, ``stream/1`` and so on, all or none.

        Args:
            stream: its name.
            channels: how many, at most 1,000.
            parameters: of any flow, for each channel; None: those of the exchange.
            schema: of the chunks; None: the first producer's.
            retention: whether rows are read once, or kept until they are acknowledged.
            consumers: for whom rows are kept; none: for one, ``default``.
            kept_rows: the most rows of a channel that are kept before producers wait; None: its window.
            staging_rows: the most rows of a channel that may be staged; None: four times ``kept_rows``.
            byte_window: the most bytes in a channel at once; None: that of the exchange.
            target_latency_seconds: how long rows may wait at the exchange, where the windows of a channel and of its
                producers' streams adapt to it; None: that of the exchange.

        Raises:
            InvalidParametersError: a name is taken, or an option does not fit the others; nothing was added.
            SchemaMismatchError, StoreError: the store of the exchange has such channels with other settings.
            PermitflowError: as ``positions``.
        """
        request = AddStream(
            stream,
            channels,
            parameters,
            retention,
            names_of(consumers),
            kept_rows=kept_rows,
            staging_rows=staging_rows,
            byte_window=byte_window,
            target_latency_seconds=target_latency_seconds,
            schema=schema,
        )
        return (await self._ask(request, Channels)).channels

    async def remove(self, channels: Sequence[str], *, force: bool = False) -> tuple[ChangedChannel, ...]:
        """Remove channels, with all rows that they keep, also on disk; their names are free then.

        Args:
            channels: names.
            force: also while they are used: their streams end with ``ChannelRemovedError``.

        Raises:
            ChannelInUseError: streams are open, or rows wait; nothing was removed.
            PermitflowError: as ``positions``.
        """
        return await self._change(RemoveChannels, channels, force)

    async def reset(self, channels: Sequence[str], *, force: bool = False) -> tuple[ChangedChannel, ...]:
        """Make channels usable again that are spent, broken or ended.

        One that is read once begins anew: what waits in it is dropped.  One that keeps its rows is open again for
        producers; its rows, their numbers, and the positions of consumers and of named producers stay.

        Args:
            channels: names.
            force: also while they are used: their streams end with ``ChannelResetError``, also those that have lost
                their connection and come again.

        Raises:
            ChannelInUseError: streams are open, or rows wait that would be dropped; nothing was reset.
            PermitflowError: as ``positions``.
        """
        return await self._change(ResetChannels, channels, force)

    async def _change(
        self, kind: type[RemoveChannels] | type[ResetChannels], channels: Sequence[str], force: bool
    ) -> tuple[ChangedChannel, ...]:
        found = [await self._ask(kind(names, force), Changed) for names in _portions(names_of(channels))]
        return tuple(chain.from_iterable(each.channels for each in found))

    async def purge(self, channels: Sequence[str], *, consumer: str = "") -> tuple[ChangedChannel, ...]:
        """Drop the rows and barriers that wait in channels; their permits return, and streams go on.

        Of a channel that is read once: what is in it; not what its consumer's stream has taken on.  Of one that keeps
        its rows: all that are there are acknowledged, and a stream that was to read them gets ``RowsForgottenError``.

        Args:
            channels: names.
            consumer: of channels that keep their rows: whose rows; empty: those of all consumers.

        Raises:
            ChannelInUseError: a message waits for room with the consumer; this channel was not purged.
            UnknownConsumerError: one of them keeps no rows for this consumer; nothing was purged.
            PermitflowError: as ``positions``.
        """
        found = [await self._ask(Purge(names, consumer), Changed) for names in _portions(names_of(channels))]
        return tuple(chain.from_iterable(each.channels for each in found))

    async def peek(self, channel: str, rows: int = 10, *, consumer: str = "") -> pa.Table:
        """The first rows that wait in a channel; they stay there.

        Args:
            channel: its name.
            rows: the most, up to 10,000; fewer come if they take more than 8 MiB.
            consumer: of a channel that keeps its rows: whose rows; empty: those of the consumer ``default``.

        Returns:
            A table; without columns if no producer has stated the schema yet.

        Raises:
            UnknownConsumerError: the channel keeps no rows for this consumer.
            UndecodableDataError: the rows cannot be decoded.
            PermitflowError: as ``positions``.
        """
        found: Peeked[pa.Schema] = await self._ask(Peek(channel, rows, consumer), Peeked)
        if found.schema is None:
            return pa.table({})
        codec = BatchCodec(found.schema)
        batches = [codec.decode(each.data, [each.rows]) for each in found.batches]
        return pa.Table.from_batches(batches, found.schema)

    async def _where(self, request: ControlRequest, channels: Sequence[str]) -> Where:
        return (await self._ask(request, Positions, [*channels])).channels

    async def _ask(self, request: ControlRequest, kind: type[R], channels: Sequence[str] | None = None) -> R:
        message = encode_request(request)
        async with self._turn:
            if self._is_closed:
                raise ChannelClosedError(end="control stream")
            # After a failure, a late reply would be taken for the reply to the next request.
            self._is_closed = True
            reply = read_answer(await self._reply_to(message, is_repeatable=request.is_repeatable), kind, channels)
            self._is_closed = False
            return reply

    async def _reply_to(self, message: bytes, *, is_repeatable: bool) -> Received:
        try:
            async with patience(self._timeout_seconds):
                reply = await self._line.ask(message, is_repeatable=is_repeatable)
        except PermitflowError:  # some are TimeoutErrors
            raise
        except TimeoutError:
            reason = f"no reply within {self._timeout_seconds:g} s; {SILENT}"
            raise PeerTimeoutError(who=self._who, reason=reason) from None
        if reply is None:
            raise PeerGoneError(who=self._who, reason="it closed the stream without a reply")
        return reply

    async def by_exchange(self, channels: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Which exchange has which of these channels, by its address; with a single address, all are there.

        Raises:
            UnknownChannelError: none of several exchanges has one of them.
            PermitflowError: as ``positions``.
        """
        return {self._address: names_of(channels)}

    @property
    def survey(self) -> Survey:
        """What was amiss when several exchanges were last asked for all their channels."""
        return self._survey

    @property
    def is_closed(self) -> bool:
        """Does it take no more orders?"""
        return self._is_closed

    def close(self) -> None:
        """Accept no more orders."""
        self._is_closed = True


class _ControlOfSeveral(AioControl):
    """Questions and orders about channels that several exchanges have: each gets those about its own."""

    def __init__(self, addresses: Sequence[str], dial: Callable[[str], Awaitable[AioControl]]) -> None:
        self._addresses, self._dial = addresses, dial
        self._turn = asyncio.Lock()
        self._is_closed = False
        self._survey = Survey()
        self._lines: dict[str, AioControl] = {}
        self._found: dict[str, str] = {}

    async def by_exchange(self, channels: Sequence[str]) -> dict[str, tuple[str, ...]]:
        async with self._turn:
            return await self._divided(names_of(channels))

    async def _ask(self, request: ControlRequest, kind: type[R], channels: Sequence[str] | None = None) -> R:
        if isinstance(request, AddStream):
            rule = "must be that of a single exchange, where the stream is to be added"
            raise InvalidParametersError(name="address", value=", ".join(self._addresses), rule=rule)
        async with self._turn:
            if self._is_closed:
                raise ChannelClosedError(end="control stream")
            self._is_closed = True
            reply = await self._of_each(request, kind, channels)
            self._is_closed = False
        assert isinstance(reply, kind), "each exchange has answered so"
        return reply

    async def statistics(self, channels: Sequence[str] = (), *, partial: bool = False) -> Statistics:
        if channels:
            return await super().statistics(channels)
        told = await self._of_all(_statistics_of, lambda each: each.channel, partial=partial)
        return Statistics(monotonic(), tuple(told))

    async def channels(self, channels: Sequence[str] = (), *, partial: bool = False) -> Listed:
        if channels:
            return await super().channels(channels)
        return tuple(await self._of_all(AioControl.channels, lambda each: each.traffic.channel, partial=partial))

    async def _of_all(
        self, ask: Callable[[AioControl], Awaitable[Sequence[T]]], name_of: Callable[[T], str], *, partial: bool
    ) -> list[T]:
        async with self._turn:
            if self._is_closed:
                raise ChannelClosedError(end="control stream")
            self._is_closed = True
            found, self._survey = surveyed(await self._answers(ask), name_of, partial=partial)
            self._is_closed = False
            return found

    async def _answers(
        self, ask: Callable[[AioControl], Awaitable[Sequence[T]]]
    ) -> dict[str, Sequence[T] | PeerGoneError]:
        """What each exchange answers, by address."""

        async def answer(address: str) -> Sequence[T] | PeerGoneError:
            try:
                return await ask(await self._line_to(address))
            except PeerGoneError as error:
                return error

        return dict(zip(self._addresses, await _together(map(answer, self._addresses)), strict=True))

    async def _of_each(
        self, request: ControlRequest, kind: type[R], channels: Sequence[str] | None
    ) -> ControlReply[pa.Schema]:
        parts = await self._divided(request.named)
        if isinstance(request, Publish) and len(parts) > 1:
            rule = "must be of one exchange, so that all or none is published: publish the parts of each by themselves"
            raise InvalidParametersError(name="parts", value=[*request.named], rule=rule)

        async def answer(address: str, names: Collection[str]) -> R:
            line = await self._line_to(address)
            order = None if channels is None else [name for name in channels if name in names]
            return await line._ask(about(request, names), kind, order)

        replies = await _together(answer(address, {*names}) for address, names in parts.items())
        return merged(replies, request.named if channels is None else channels, monotonic())

    async def _divided(self, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        await self._locate([name for name in dict.fromkeys(names) if name not in self._found])
        parts: dict[str, list[str]] = {}
        for name in dict.fromkeys(names):
            parts.setdefault(self._found[name], []).append(name)
        return {address: tuple(some) for address, some in parts.items()}

    async def _locate(self, names: Sequence[str]) -> None:
        """Find out which exchange has each channel: all are asked at once, so that one that two have is noticed.

        Raises:
            UnknownChannelError: none of them has it.
            InvalidParametersError: two of those that answer have it.
            PeerGoneError: none that answers has it.
        """
        if not names:
            return
        answers = await self._answers(_statistics_of)
        gone = {address: answer for address, answer in answers.items() if isinstance(answer, PeerGoneError)}
        listed = {
            address: {each.channel for each in answer}
            for address, answer in answers.items()
            if not isinstance(answer, PeerGoneError)
        }
        for name in names:
            holders = [each for each in ranked(self._addresses, name) if name in listed.get(each, ())]
            require_one_place(name, holders)
            if not holders:
                lacking = {at: UnknownChannelError(channel=name, known=tuple(its)) for at, its in listed.items()}
                raise _not_found(name, {**gone, **lacking})
            self._found[name] = holders[0]

    async def _line_to(self, address: str) -> AioControl:
        line = self._lines.get(address)
        if line is None or line.is_closed:
            line = self._lines[address] = await self._dial(address)
        return line


async def _statistics_of(line: AioControl) -> Sequence[ChannelTraffic]:
    return (await line.statistics()).channels


async def _together(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """What they return; the first error of one ends the others."""
    # Not a TaskGroup: after an error, that of Python 3.11 leaves the task that has waited marked as cancelled.
    tasks = [asyncio.create_task(call) for call in calls]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


class _Line:
    """A conversation, and those that follow it after lost connections."""

    def __init__(
        self, dial: Callable[[], AbstractAsyncContextManager[Carrier]], who: str, resume_seconds: float
    ) -> None:
        self._dial, self._who, self._resume_seconds = dial, who, resume_seconds
        self._connection = AsyncExitStack()

    async def open(self) -> None:
        """Dial.

        Raises:
            PeerGoneError: no server answers.
        """
        await self._connection.aclose()
        self._carrier = await self._connection.enter_async_context(self._dial())
        self._conversation = Conversation(self._carrier)

    async def ask(self, message: bytes, *, is_repeatable: bool = True) -> Received | None:
        """The reply to a message; None: the exchange ends the stream.  It may be repeated if the connection is lost.

        Raises:
            ResumeTimeoutError: the exchange could not be reached again.
            PermitflowError: the stream is over; the type says why.
        """
        try:
            return await self._ask_once(message)
        except PeerGoneError as lost:
            if not self._resume_seconds or not self._carrier.is_cut:
                raise
            if not is_repeatable:
                reason = f"{lost.reason}; the order may or may not have been carried out: see (permitflow channel list)"
                raise PeerGoneError(who=self._who, reason=reason) from lost
            reason = str(lost.reason)
        answer, _ = await reached_again(
            partial(self._ask_again, message), who=self._who, reason=reason, seconds=self._resume_seconds
        )
        if isinstance(answer.outcome, PermitflowError):
            raise answer.outcome
        return answer.outcome

    async def _ask_again(self, message: bytes) -> "_Answer | None":
        await self.open()
        try:
            return _Answer(await self._ask_once(message))
        except PermitflowError as error:
            if not self._carrier.is_cut:
                return _Answer(error)
            if isinstance(error, PeerGoneError):
                raise  # in vain as well, and it says why
            return None

    async def _ask_once(self, message: bytes) -> Received | None:
        await self._conversation.write([message])
        return await self._conversation.read()

    async def close(self) -> None:
        """Hang up."""
        await self._connection.aclose()


class _Answer(NamedTuple):
    outcome: Received | PermitflowError | None


# Long enough for a last message on a slow network, short enough for a user at a prompt.
LINGER_SECONDS = 2.0
# To the door of an exchange and from there to the right process, and one more for a channel that was made anew.
_MOST_MOVES = 3
# One of several exchanges may be away: how long each is dialled at first and later, the pause before they are tried
# again at first and later, and for how long if the caller does not wait for a server that is about to start.
_FIRST_DIAL_SECONDS, _LONGEST_DIAL_SECONDS = 0.5, 3.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 1.0
_SEARCH_SECONDS = 2.0
# For questions and orders.
_DIAL_SECONDS = 1.0
# For the question whether an exchange has the same channel, too.
_SURVEY_SECONDS = 5.0

E = TypeVar("E", RemoteReceiver, RemoteSender)


class ChannelDescription(NamedTuple):
    """A channel's schema and parameters, as the exchange states them."""

    schema: pa.Schema
    parameters: Parameters


@asynccontextmanager
async def get(
    address: str,
    channel: str,
    *,
    wanted: Parameters | None = None,
    schema: pa.Schema | None = None,
    connect_timeout_seconds: float | None = 10.0,
    agreement_timeout_seconds: float = 60.0,
    silence_seconds: float = SILENCE_SECONDS,
    record: RecorderFactory | None = None,
    same_host: SameHost = SameHost.AUTO,
    compression: Compression = Compression.AUTO,
    consumer: str = "",
    from_row: int | None = None,
    to_row: int | None = None,
    log_id: str = "",
    columns: Sequence[str] = (),
    group: Group | None = None,
    resume_seconds: float | None = None,
    security: Security | None = None,
    byte_window: int | None = None,
    target_latency_seconds: float | None = None,
) -> AsyncIterator[RemoteReceiver]:
    """Read a channel of an exchange.  Leaving the block before the end of the stream breaks the channel.

    A channel that keeps its rows does not break; any range of it can be read any number of times, and reading
    acknowledges nothing.

    Args:
        address: host and port of the exchange, as in ``localhost:5600``, or ``tcp://localhost:5600`` or
            ``udp://localhost:5600`` if it serves that; or those of several exchanges, with commas between them, of
            which one has the channel: each is asked in turn, for at most ``connect_timeout_seconds``.
        channel: its name.
        wanted: the most that this end wants; by default what the exchange has.
        schema: the required schema of the chunks; by default any.
        connect_timeout_seconds: how long to wait for the connection; None: fail if no server listens there yet.
        agreement_timeout_seconds: how long to wait in all, for the connection too; a producer may bring the schema.
        silence_seconds: an exchange that gives no sign of life for longer is gone.
        record: opens the recorder of this end.
        same_host: whether to share memory with an exchange on this host.
        compression: of chunks on a slow network, if the exchange agrees; ``auto``: if the exchange asks for it.
            Nothing is compressed in shared memory.
        consumer: of a channel that keeps its rows: the consumer that reads; empty: the consumer ``default``.
        from_row: the first row to read; None: the first one that the consumer has not acknowledged.
        to_row: the row before which reading stops; None: read to the channel's end.
        log_id: the log in which these rows were counted, as in ``ChannelPosition``; empty: any.
        columns: of a channel that keeps its rows: names of those columns that are enough; none: all.  The receiver's
            schema tells which come: all, if the channel lacks one of these, or an older exchange does not choose.
        group: of receivers that share something, such as those of a gate.
        resume_seconds: how long to wait for another connection after one was lost: the stream goes on with it where it
            stopped, without shared memory; 0: not at all.  By default 30 s, and 0 with an exchange on this host: a
            connection there ends only when one of the two processes has.
        security: TLS and a token; see ``Security``.
        byte_window: the most bytes in the stream at once, beside ``wanted``; by default what the exchange has.  A
            larger chunk passes while less than a quarter of it is out.
        target_latency_seconds: let the window adapt, so that rows wait in this stream about this long, by what this
            receiver was measured to consume; at most the agreed window.  None: the window stays.  A flow other than
            permits cannot, and a recorded stream cannot.

    Raises:
        TlsError: one of the two ends does not trust the other, or only one speaks TLS.
        UnauthenticatedError, ForbiddenError: the exchange does not know this client, or does not allow it this, or not
            any more.
        InvalidParametersError: this end does not have that codec, or the channel's flow is not that of the group.
        PeerTimeoutError: no server answers at this address, or the channel's schema did not become known.
        PeerGoneError: the exchange has gone.
        ResumeTimeoutError, ResumeRefusedError: the connection was lost, and the stream could not go on.
        SameHostError: shared memory is required, and impossible.
        HandshakeError: the exchange refused: unknown channel, busy or spent, schemas or parameters that differ.
        ReplayError: the channel keeps no rows, or not these, or none for this consumer.
    """
    _require_name(channel)
    encoded = None if schema is None else schema.serialize().to_pybytes()
    seconds = await _resume_seconds(address, resume_seconds, same_host)
    same_host = SameHost.NEVER if resume_seconds else same_host
    timing = _Timing(address, connect_timeout_seconds, agreement_timeout_seconds)

    @asynccontextmanager
    async def at(address: str) -> AsyncIterator[RemoteReceiver]:
        who = f"the exchange at {address} (channel {channel!r})"
        connecting = timing.calling(address, GET_STREAM, who, silence_seconds, seconds, security)
        async with connecting as (call, resume):
            with closing(Offer(same_host, writes=False, who=who)) as offer:
                first = Get(
                    PROTOCOL_VERSION,
                    channel,
                    schema=encoded,
                    same_host=offer.frame,
                    from_row=from_row,
                    to_row=to_row,
                    consumer=consumer,
                    log_id=log_id,
                    columns=(*columns,),
                    compression=offered(compression, available_codecs()),
                    resume=resume,
                    byte_window=0 if byte_window is None else require_byte_window(byte_window),
                    **stated(wanted),
                )
                session: DownstreamSession[object] = DownstreamSession(first, peer=who, record=record, group=group)
                end = RemoteReceiver(session, call, schema=schema, offer=offer)
                if target_latency_seconds is not None:
                    end.aim_at(require_latency(target_latency_seconds))
                async with _running(end, who, timing) as receiver:
                    yield receiver

    async with timing, _wherever(address, channel, timing, at) as found:
        yield found


@asynccontextmanager
async def put(
    address: str,
    channel: str,
    schema: pa.Schema,
    *,
    wanted: Parameters | None = None,
    connect_timeout_seconds: float | None = 10.0,
    agreement_timeout_seconds: float = HANDSHAKE_SECONDS,
    silence_seconds: float = SILENCE_SECONDS,
    record: RecorderFactory | None = None,
    same_host: SameHost = SameHost.AUTO,
    compression: Compression = Compression.AUTO,
    producer: str = "",
    staging: Staging | None = None,
    attempt: TaskAttempt | None = None,
    total: JobTotal | None = None,
    spread_over: int = 0,
    resume_seconds: float | None = None,
    security: Security | None = None,
    byte_window: int | None = None,
) -> AsyncIterator[RemoteSender]:
    """Feed a channel of an exchange.  Leaving the block without ``end`` aborts the channel.

    A named producer only disconnects then: it can reconnect and continue.

    Args:
        address: host and port of the exchange, as in ``localhost:5600``, or ``tcp://localhost:5600`` or
            ``udp://localhost:5600`` if it serves that; or those of several exchanges, with commas between them, of
            which one has the channel: each is asked in turn, for at most ``connect_timeout_seconds``.
        channel: its name.
        schema: of the chunks that will be sent.
        wanted: the most that this end wants; by default what the exchange has.
        connect_timeout_seconds: how long to wait for the connection; None: fail if no server listens there yet.
        agreement_timeout_seconds: how long to wait in all for the exchange's answer, for the connection too.
        silence_seconds: an exchange that gives no sign of life for longer is gone.
        record: opens the recorder of this end.
        same_host: whether to share memory with an exchange on this host.
        compression: of chunks on a slow network, if the exchange agrees; ``auto``: if the exchange asks for it.
            Nothing is compressed in shared memory.
        producer: of a channel that keeps its rows: this producer's unique name.  After a reconnect, ``first_row`` says
            how many of its rows are kept, and it sends those that follow.  An older stream under this name is
            broken off.
        staging: of a channel that keeps its rows: sent rows stay invisible until they are published.
        attempt: at a task of a job: the exchange refuses a second one.
        total: of a job whose tasks are done: the rows that count; the exchange compares those that it has taken.
        spread_over: of a stream whose rows are spread by a key: over so many channels, of which this is one; the
            exchange refuses if the stream has more.  0: rows are not spread.
        resume_seconds: how long to wait for another connection after one was lost: the stream goes on with it where it
            stopped, without shared memory; 0: not at all.  By default 30 s, and 0 with an exchange on this host: a
            connection there ends only when one of the two processes has.
        security: TLS and a token; see ``Security``.
        byte_window: the most bytes in the stream at once, beside ``wanted``; by default what the exchange has.  A
            larger chunk passes while less than a quarter of it is out.

    Raises:
        TlsError: one of the two ends does not trust the other, or only one speaks TLS.
        UnauthenticatedError, ForbiddenError: the exchange does not know this client, or does not allow it this, or not
            any more.
        InvalidParametersError: this end does not have that codec.
        PeerTimeoutError: no server answers at this address.
        PeerGoneError: the exchange has gone, or the channel's consumer has.
        ResumeTimeoutError, ResumeRefusedError: the connection was lost, and the stream could not go on.
        RetentionError: the channel does not keep its rows, and knows neither producers' names nor staging.
        SameHostError: shared memory is required, and impossible.
        TaskRetryError: another attempt at the same task has begun before.
        HandshakeError: the exchange refused: unknown channel, schemas or parameters that differ.
    """
    _require_name(channel)
    encoded = schema.serialize().to_pybytes()
    seconds = await _resume_seconds(address, resume_seconds, same_host)
    same_host = SameHost.NEVER if resume_seconds else same_host
    timing = _Timing(address, connect_timeout_seconds, agreement_timeout_seconds)

    @asynccontextmanager
    async def at(address: str) -> AsyncIterator[RemoteSender]:
        who = f"the exchange at {address} (channel {channel!r})"
        connecting = timing.calling(address, PUT_STREAM, who, silence_seconds, seconds, security)
        async with connecting as (call, resume):
            with closing(Offer(same_host, writes=True, who=who)) as offer:
                able = offered(compression, available_codecs())
                first = Put(
                    PROTOCOL_VERSION,
                    channel,
                    schema=encoded,
                    same_host=offer.frame,
                    producer=producer,
                    staging=staging,
                    attempt=attempt,
                    total=total,
                    spread_over=spread_over,
                    compression=able,
                    resume=resume,
                    byte_window=0 if byte_window is None else require_byte_window(byte_window),
                    **stated(wanted),
                )
                session: UpstreamSession[object] = UpstreamSession(first, peer=who, record=record)
                end = RemoteSender(session, call, schema=schema, offer=offer)
                async with _running(end, who, timing) as sender:
                    if producer:
                        yield sender
                        return
                    async with _aborting(sender):
                        yield sender

    async with timing, _wherever(address, channel, timing, at) as found:
        yield found


@asynccontextmanager
async def _wherever(
    address: str, channel: str, timing: "_Timing", at: Callable[[str], AbstractAsyncContextManager[T]]
) -> AsyncIterator[T]:
    """Begin a stream at the exchange that has its channel: one of these addresses."""
    addresses = ranked(several(address), channel)
    async with AsyncExitStack() as stack:
        if len(addresses) == 1:
            yield await _followed(addresses[0], at, stack)
            return
        while True:
            failures: dict[str, PermitflowError] = {}
            for each in addresses:
                try:
                    found = await _followed(each, at, stack)
                    break
                except (UnknownChannelError, PeerGoneError) as error:
                    if isinstance(error, PeerTimeoutError) and timing.has_no_answer:
                        raise  # it has the channel
                    failures[each] = error
            else:
                if timing.is_over or not any(isinstance(error, PeerGoneError) for error in failures.values()):
                    raise _not_found(channel, failures)
                await asyncio.sleep(timing.pause_seconds)
                timing.be_more_patient()
                continue
            break
        yield found


async def _followed(address: str, at: Callable[[str], AbstractAsyncContextManager[T]], stack: AsyncExitStack) -> T:
    """Begin a stream at an exchange: the process that was dialled may name another one of the same exchange.

    Only its port is taken from the answer: an exchange cannot send its clients, or their tokens, to another host.
    """
    for _ in range(_MOST_MOVES):
        try:
            return await stack.enter_async_context(at(address))
        except MovedError as moved:
            address = written(parsed(address)._replace(port=moved.port))
    return await stack.enter_async_context(at(address))


def _not_found(channel: str, failures: Mapping[str, PermitflowError]) -> PermitflowError:
    """The error about a channel that none of several exchanges serves."""
    known = [name for error in failures.values() if isinstance(error, UnknownChannelError) for name in error.known]
    gone = [error for error in failures.values() if not isinstance(error, UnknownChannelError)]
    if not gone:
        return UnknownChannelError(channel=channel, known=tuple(dict.fromkeys(known)))
    words = (
        f"{address}: {'it is not there' if isinstance(error, UnknownChannelError) else error}"
        for address, error in failures.items()
    )
    return PeerGoneError(who=f"the exchange that has channel {channel!r}", reason="; ".join(words))


async def _resume_seconds(address: str, asked: float | None, same_host: SameHost = SameHost.NEVER) -> float:
    """How long a stream waits for another connection.

    Raises:
        InvalidParametersError: the time cannot work, or shared memory forbids it.
    """
    require_seconds(resume_seconds=asked)
    if asked is None:
        if same_host is SameHost.REQUIRE:
            return 0.0
        near = [await is_of_this_host(each) for each in several(address)]
        return 0.0 if all(near) else RESUME_SECONDS
    if asked and same_host is SameHost.REQUIRE:
        rule = "must be 0 where shared memory is required, which no stream survives"
        raise InvalidParametersError(name="resume_seconds", value=asked, rule=rule)
    return asked


@asynccontextmanager
async def _aborting(sender: RemoteSender) -> AsyncIterator[None]:
    """Abort the stream if the producer leaves without having ended it."""
    try:
        yield
    except BaseException as error:
        sender.abort(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
        raise
    # No effect on an ended stream.
    sender.abort("its producer left without ending it")


async def describe(
    address: str,
    channel: str,
    *,
    connect_timeout_seconds: float | None = 10.0,
    agreement_timeout_seconds: float = 60.0,
    silence_seconds: float = SILENCE_SECONDS,
    resume_seconds: float | None = None,
    security: Security | None = None,
) -> ChannelDescription:
    """Ask for a channel's schema and parameters.  The channel keeps its data.

    Args:
        address: as for ``get``.
        channel: its name.
        connect_timeout_seconds: how long to wait for the connection; None: fail if no server listens there yet.
        agreement_timeout_seconds: how long to wait in all, for the connection too; a producer may bring the schema.
        silence_seconds: an exchange that gives no sign of life for longer is gone.
        resume_seconds: as for ``get``.
        security: as for ``get``.

    Raises:
        SecurityError: as for ``get``.
        PeerTimeoutError: no server answers at this address, or the channel's schema did not become known.
        PeerGoneError: the exchange has gone.
        UnknownChannelError: there is no such channel.
        InvalidParametersError: two of several exchanges have it.
    """
    _require_name(channel)
    seconds = await _resume_seconds(address, resume_seconds)
    timing = _Timing(address, connect_timeout_seconds, agreement_timeout_seconds)

    @asynccontextmanager
    async def at(address: str) -> AsyncIterator[ChannelDescription]:
        who = f"the exchange at {address} (channel {channel!r})"
        connecting = timing.calling(address, GET_STREAM, who, silence_seconds, seconds, security)
        async with connecting as (call, resume):
            first = Get(PROTOCOL_VERSION, channel, probe=True, resume=resume)
            session: DownstreamSession[object] = DownstreamSession(first, peer=who)
            async with _running(RemoteReceiver(session, call), who, timing) as receiver:
                async for _ in receiver:
                    raise ProtocolError(f"{who} sent data though none were asked for")
                yield ChannelDescription(receiver.schema, receiver.parameters)

    async with timing:
        await require_single_places(address, [channel], security=security)
        async with _wherever(address, channel, timing, at) as found:
            return found


async def require_single_places(
    address: str, channels: Sequence[str], *, spread_over: int = 0, security: Security | None = None
) -> None:
    """Refuse channels that two of several exchanges have; exchanges that do not answer within seconds do not count.

    ``get`` and ``put`` do not ask: each start would wait for the slowest of all exchanges.  Ask once, before a stream's
    first channel is opened: the other place may have half of the rows.

    Args:
        address: as for ``get``; a single exchange is not asked.
        channels: names.
        spread_over: as for ``put``: refuse also a stream of which one of the exchanges has a further channel.
        security: as for ``get``.

    Raises:
        InvalidParametersError: two of them have the same channel, or the stream has further ones.
    """
    if len(several(address)) == 1:
        return
    asking = control(
        address,
        connect_timeout_seconds=None,
        reply_timeout_seconds=_SURVEY_SECONDS,
        resume_seconds=0,
        security=security,
    )
    try:
        async with asking as orders:
            told = await orders.statistics(partial=True)
    except (PeerGoneError, SecurityError):  # a stream will tell
        return
    for name in channels:
        require_one_place(name, orders.survey.twice.get(name, ()))
    if spread_over:
        require_no_further(channels[0], (each.channel for each in told.channels), spread_over)


@asynccontextmanager
async def control(
    address: str,
    *,
    connect_timeout_seconds: float | None = 10.0,
    reply_timeout_seconds: float = 60.0,
    silence_seconds: float = SILENCE_SECONDS,
    resume_seconds: float | None = None,
    security: Security | None = None,
) -> AsyncIterator[AioControl]:
    """Ask and order about channels of an exchange; see ``AioControl``.

    Args:
        address: as for ``get``.
        connect_timeout_seconds: how long to wait for the connection; None: fail if no server listens there yet.
        reply_timeout_seconds: how long to wait for each reply, and at most for the connection.
        silence_seconds: an exchange that gives no sign of life for longer is gone.
        resume_seconds: how long to try to reach the exchange again if the connection is lost; as for ``get``.
        security: as for ``get``.

    Raises:
        SecurityError: as for ``get``; a request that is forbidden raises it, too.
        PeerTimeoutError: no server answers at this address.
    """
    seconds, addresses = await _resume_seconds(address, resume_seconds), several(address)
    retries = connect_timeout_seconds is not None
    connect_seconds = _Timing(addresses[0], connect_timeout_seconds, reply_timeout_seconds).connect_seconds
    if len(addresses) > 1:
        connect_seconds = min(_DIAL_SECONDS, _DIAL_SECONDS if connect_seconds is None else connect_seconds)

    @asynccontextmanager
    async def at(address: str) -> AsyncIterator[AioControl]:
        who = f"the exchange at {address}"
        dial = partial(calling, address, CONTROL, who, connect_seconds, silence_seconds, security, retries=retries)
        line = _Line(dial, who, seconds)
        orders = AioControl(line, address, who, reply_timeout_seconds)
        try:
            await line.open()
            yield orders
        finally:
            orders.close()
            await line.close()

    if len(addresses) == 1:
        async with at(address) as orders:
            yield orders
        return
    async with AsyncExitStack() as stack:
        several_orders = _ControlOfSeveral(addresses, lambda each: stack.enter_async_context(at(each)))
        stack.callback(several_orders.close)
        yield several_orders


def _portions(items: tuple[T, ...]) -> Iterator[tuple[T, ...]]:
    """One at least, each as large as a request may be."""
    return (items[start : start + MOST_CHANNELS] for start in range(0, max(1, len(items)), MOST_CHANNELS))


def names_of(channels: Sequence[str]) -> tuple[str, ...]:
    """Check that these are several names, not the letters of one.

    Raises:
        InvalidParametersError: it is a single name.
    """
    if isinstance(channels, str):
        raise InvalidParametersError(name="channels", value=channels, rule="must be names, not one name")
    return tuple(channels)


def _require_name(channel: str) -> None:
    if not channel:
        raise InvalidParametersError(name="channel", value=channel, rule="must not be empty")


class _Timing:
    """The time-outs of one call: the whole wait, for the connection too, is no longer than the one for the answer.

    It begins when the block is entered.
    """

    def __init__(self, address: str, connect_seconds: float | None, answer_seconds: float) -> None:
        self.connect_seconds = None if connect_seconds is None else min(connect_seconds, answer_seconds)
        self.answer_seconds = answer_seconds
        self._is_search = len(several(address)) > 1
        self.pause_seconds = _FIRST_PAUSE_SECONDS
        """Before all of several exchanges are tried again."""
        if self._is_search:
            self._search_seconds = _SEARCH_SECONDS if self.connect_seconds is None else self.connect_seconds
            self.connect_seconds = _FIRST_DIAL_SECONDS

    def calling(
        self,
        address: str,
        method: str,
        who: str,
        silence_seconds: float,
        resume_seconds: float,
        security: Security | None,
    ) -> AbstractAsyncContextManager[tuple[Carrier, ResumeOffer | None]]:
        """Dial an exchange; one of several that is not there is not waited for: the channel may be at another one."""
        dial = partial(calling_again, address, method, who, self.connect_seconds, silence_seconds, resume_seconds)
        return dial(security, retries=not self._is_search)

    @property
    def is_over(self) -> bool:
        """Has the time passed in which one of several exchanges is looked for?"""
        return monotonic() - self._began >= self._search_seconds

    @property
    def has_no_answer(self) -> bool:
        """Has the time passed in which an answer must come?"""
        return monotonic() - self._began >= self.answer_seconds

    def be_more_patient(self) -> None:
        """Dial each of them for longer: it may be far away, or busy."""
        assert self.connect_seconds is not None, "there are several"
        self.connect_seconds = min(2 * self.connect_seconds, _LONGEST_DIAL_SECONDS)
        self.pause_seconds = min(2 * self.pause_seconds, _LONGEST_PAUSE_SECONDS)

    async def __aenter__(self) -> None:
        self._began = monotonic()
        self.limit = Limit(self.answer_seconds)

    async def __aexit__(self, *_: object) -> None:
        self.limit.end()


@asynccontextmanager
async def _running(end: E, who: str, timing: _Timing) -> AsyncIterator[E]:
    """Let an end run beside the block; its errors reach the block through the end's methods."""
    task = asyncio.create_task(_run_quietly(end), name=f"{end.END} of {who}")
    try:
        try:
            async with timing.limit.over_wait():
                await end.agreed()
        except PermitflowError:  # some are TimeoutErrors
            raise
        except TimeoutError:
            reason = f"no agreement within {timing.answer_seconds:g} s; has a producer announced the channel's schema?"
            raise PeerTimeoutError(who=who, reason=reason) from None
        yield end
    except BaseException:
        await _lingered(end, task)
        raise
    else:
        await _lingered(end, task)
        _raise_untold(end, task)
    finally:
        end.close()
        task.cancel()
        await asyncio.wait({task})


async def _run_quietly(end: RemoteReceiver | RemoteSender) -> PermitflowError | None:
    try:
        await end.run()
    except PermitflowError as error:
        return error
    return None


async def _lingered(end: RemoteReceiver | RemoteSender, task: asyncio.Task[PermitflowError | None]) -> None:
    """Wait until the last messages of an ended or broken stream have arrived."""
    if end.is_finished or end.is_breaking_off:
        await asyncio.wait({task}, timeout=LINGER_SECONDS)


def _raise_untold(end: RemoteReceiver | RemoteSender, task: asyncio.Task[PermitflowError | None]) -> None:
    error = task.result() if task.done() and not task.cancelled() else None
    # A peer lost after all was consumed and compared loses nothing.
    if error is not None and not end.has_told_failure and not isinstance(error, PeerGoneError):
        raise error
