"""Serves a peer that has dialled, over any carrier: a producer, a consumer, or a control client.

The named channel takes in a producer's messages, or sends a consumer the rows it wants.  Each control request gets one
reply, in order.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from itertools import compress
from time import monotonic
from typing import Any, TypeVar

import pyarrow as pa

from permitflow.cancelling import cancel_all
from permitflow.carriers.carrier import Carrier, Conversation, FirstMessage
from permitflow.carriers.connection import CONTROL, GET_STREAM, PUT_STREAM
from permitflow.client.remote_receiver import RemoteReceiver
from permitflow.client.remote_sender import RemoteSender
from permitflow.errors import (
    ChannelCancelledError,
    ChannelResetError,
    InvalidParametersError,
    PeerGoneError,
    SecurityError,
)
from permitflow.exchange import administration
from permitflow.exchange.access import ANYBODY, Access, Hold
from permitflow.exchange.admission import Slot
from permitflow.exchange.books.attempts import AttemptBooks
from permitflow.exchange.channels.bridge import breaking_first, carrying
from permitflow.exchange.channels.replay_channel import ReplayChannel
from permitflow.exchange.channels.staging import StagedProducer
from permitflow.exchange.channels.streams import ConsumerStream, ProducerStream
from permitflow.exchange.health import Phase
from permitflow.exchange.registry import Exchange
from permitflow.names import require_once_each
from permitflow.stream.control import (
    MOST_CHANNELS,
    Acknowledge,
    AddStream,
    AskChannels,
    AskPositions,
    AskStatistics,
    ChannelState,
    Close,
    ControlReply,
    ControlRequest,
    Discard,
    Discarded,
    Peek,
    Positions,
    Prepare,
    Publish,
    Published,
    Purge,
    RemoveChannels,
    ResetChannels,
    Right,
    Rollback,
)
from permitflow.stream.frames import Cancel, Get, Put
from permitflow.stream.handshake import agree
from permitflow.stream.session import DownstreamSession, UpstreamSession
from permitflow.stream.traffic import Statistics
from permitflow.wire.buffers import Buffer, Received
from permitflow.wire.checksum import with_checksum
from permitflow.wire.control_codec import decode_request, reply_pieces

T = TypeVar("T")

# A client that has sent more requests than these ahead of their replies shares its time with others that do so.
_MOST_AHEAD = 8
# A shorter request is decoded without waiting for a turn.
_SHORT_REQUEST_BYTES = 4 << 10
_OTHER_LOG = "it was removed and added, or its rows were lost with their exchange, since the job was planned"


async def _serve_put(
    exchange: Exchange,
    carrier: Carrier,
    *,
    peer: str,
    stopping: asyncio.Event,
    first: FirstMessage | None = None,
    access: Access = ANYBODY,
) -> None:
    session: DownstreamSession[object] = DownstreamSession(peer=f"the producer at {peer}", record=exchange.record)
    end = RemoteReceiver(session, carrier, terms=exchange.terms, first=first)
    hold = access.hold()
    producer = _Producer(exchange, end, peer, access, hold)
    watches = producer.heed_abort(), producer.heed_draining(), _until_revoked(end, hold)
    try:
        async with carrying(producer.end, stopping, *watches):
            with breaking_first(producer, producer.end):
                await producer.serve()
    finally:
        hold.leave()
        producer.leave()


class _Producer:
    """A producer whose channel is unknown until its first frame."""

    def __init__(self, exchange: Exchange, end: RemoteReceiver, peer: str, access: Access, hold: Hold) -> None:
        self._access, self._hold = access, hold
        self.end = end
        end.defer_outcome()
        self._exchange = exchange
        self._peer = peer
        self._stream: ProducerStream[Any] | None = None
        self._memory: Slot | None = None
        self._may_come_again = False

    async def serve(self) -> None:
        put = await self.end.dialled()
        self._hold.begin(Right.PRODUCE, put.channel)
        self._exchange.readiness.require(Phase.READY)
        self._exchange.require_own_store()
        if isinstance(put, Get) or put.schema is None:
            raise InvalidParametersError(name="schema", value=None, rule="must be stated by a producer")
        schema = await self._exchange.read_schema(put.schema)
        self._may_come_again = bool(put.producer)
        with self._access.hiding():
            self._stream = self._stream_of(put)
        if put.failed_job and put.staging is None:
            self._exchange.hear_failed(put.failed_job, put.channel, put.job_since_row)
        await self._stream.serve(put, schema)

    def _stream_of(self, put: Put) -> ProducerStream[Any]:
        exchange, name = self._exchange, put.channel
        if put.spread_over:
            exchange.require_no_further(name, put.spread_over)
        if not put.failed_job:
            exchange.require_known(filter(self._access.sees, put.job_channels[:MOST_CHANNELS]))
        channel = exchange.served(name) if put.staging is None else exchange.replay_channel(name)
        if put.staging is None:
            _require_current(put, channel.log_id, exchange.attempts)
        agree(channel.parameters, put)
        self._memory = exchange.admission.memory.take_stream(channel.stream_most_bytes, self._peer)
        if put.staging is not None and isinstance(channel, ReplayChannel):
            return StagedProducer(channel, exchange.staging, self.end, self._peer)
        return channel.producing(self.end, self._peer)

    async def heed_abort(self) -> None:
        """Pass the producer's abort on at once, even while one of its messages waits."""
        abort = await self.end.aborted()
        if self._stream is not None:
            await self._stream.give_up(abort)

    async def heed_draining(self) -> None:
        """Send a named producer away once the exchange drains: it can continue elsewhere or later.

        An unnamed producer cannot know how many of its rows were kept: it may finish until the timeout.
        """
        await self._exchange.readiness.until_not(Phase.READY)
        whereabouts = "; what it has taken over is on disk" if self._exchange.is_durable else ""
        error = PeerGoneError(who="the exchange", reason=f"{Phase.DRAINING.value}{whereabouts}")
        if self._may_come_again and not self.end.break_off(error):
            raise error

    def fail(self, reason: str) -> None:
        if self._stream is not None:
            self._stream.fail(reason)

    def leave(self) -> None:
        """Note that the stream is over, and drop the messages that it has not passed on."""
        if self._stream is not None:
            self._stream.leave()
        self.end.close()
        if self._memory is not None:
            self._memory.leave()


def _require_current(put: Put, log_id: str, books: AttemptBooks) -> None:
    """Require that a channel is still that of the job that is stated, before anything of it changes the channel.

    Raises:
        ChannelResetError: it has another log than the job was planned with, or was reset since.
    """
    stated = put.attempt or put.total
    job = put.failed_job if stated is None else stated.job
    if job and put.job_log_id not in ("", log_id):
        raise ChannelResetError(channel=put.channel, reason=_OTHER_LOG)
    if job:
        books.require_entered(job, put.channel, put.job_since_row)


async def _serve_get(
    exchange: Exchange,
    carrier: Carrier,
    *,
    peer: str,
    stopping: asyncio.Event,
    first: FirstMessage | None = None,
    access: Access = ANYBODY,
) -> None:
    session: UpstreamSession[object] = UpstreamSession(peer=f"the consumer at {peer}", record=exchange.record)
    end = RemoteSender(session, carrier, terms=exchange.terms, first=first)
    stream: ConsumerStream[Any] | None = None
    memory: Slot | None = None
    hold = access.hold()
    try:
        async with carrying(end, stopping, _until_revoked(end, hold)):
            get = await end.dialled()
            exchange.require_own_store()
            assert isinstance(get, Get), "the session has refused everything else"
            if get.probe:
                access.require(None, get.channel)
            else:
                hold.begin(Right.CONSUME, get.channel)
            with access.hiding():
                channel = exchange.served(get.channel)
            if channel.schema is None:  # a probe would wait for the producer of rows that are not for its client
                access.require(Right.CONSUME, get.channel)
            # Refuse errors that depend on no producer before waiting for a producer's schema.
            agree(channel.parameters, get)
            wanted = None if get.schema is None else await exchange.read_schema(get.schema)
            memory = exchange.admission.memory.take_stream(channel.stream_most_bytes, peer)
            stream = channel.consuming(end, peer)
            with breaking_first(stream, end):
                if (cancel := await _served_until_cancel(stream.serve(get, wanted), end)) is not None:
                    stream.cancel(cancel.reason)
    finally:
        hold.leave()
        if stream is not None:
            stream.leave()
        if memory is not None:
            memory.leave()


async def _served_until_cancel(serve: Coroutine[Any, Any, None], end: RemoteSender) -> Cancel | None:
    """Serve a consumer; stop at once when it cancels, whatever it waits for, and return its ``Cancel``."""
    serving, watch = asyncio.create_task(serve), asyncio.create_task(end.cancelled())
    try:
        await asyncio.wait((serving, watch), return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel_all(serving, watch)
    try:
        serving.result()
    except (asyncio.CancelledError, ChannelCancelledError):
        if end.cancel is None:
            raise
    return end.cancel


async def _until_revoked(end: RemoteReceiver | RemoteSender, hold: Hold) -> None:
    try:
        await hold.until_revoked()
    except SecurityError as error:
        if not end.break_off(error):
            raise


async def _serve_control(
    exchange: Exchange, carrier: Carrier, *, peer: str, stopping: asyncio.Event, access: Access = ANYBODY
) -> None:
    conversation = Conversation(carrier)
    try:
        async with asyncio.TaskGroup() as group:
            watch = group.create_task(_until_stopped(stopping))
            while (message := await conversation.read()) is not None:
                answer = partial(_reply_to, message, exchange, access)
                has_many = conversation.ahead > _MOST_AHEAD
                await conversation.write(await (exchange.turns.of_many(answer) if has_many else answer()))
            watch.cancel()
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from several.exceptions[0].__cause__
    conversation.half_close()


async def _reply_to(message: Received, exchange: Exchange, access: Access) -> Sequence[Buffer]:
    decode = partial(decode_request, message)
    request = decode() if len(message) <= _SHORT_REQUEST_BYTES else await exchange.turns.run(decode)
    access.require_all(request)
    exchange.require_own_store()
    with access.hiding():
        other = exchange.elsewhere
        carrying_out = partial(carry_out, exchange) if other is None else other.carry_out
        reply = await carrying_out(request, access)
    return with_checksum(await exchange.turns.all(reply_pieces(reply)))


async def _until_stopped(stopping: asyncio.Event) -> None:
    await stopping.wait()
    raise PeerGoneError(who="the exchange", reason="it is being stopped")


async def carry_out(exchange: Exchange, request: ControlRequest, access: Access = ANYBODY) -> ControlReply[pa.Schema]:
    """Carry out a control request; see the protocol definition.

    All checks come before the first change.  Writes for several channels run concurrently, so that they share a
    flush.  Other peers are served meanwhile: positions and statistics are read some channels after others.
    Publishing changes all channels at one moment.

    Raises:
        UnknownChannelError: no channel has one of the names.
        InvalidParametersError: a channel is named twice.
        RetentionError: one of the channels does not keep its rows.
        ReplayError, StagingError, ChannelError: the request was refused as a whole; of a purge, see there.
        StoreError: a write failed.  A publication then changed no channel; an acknowledgement or close was written
            for each channel fully or not at all, and the request may be repeated.
    """
    match request:
        case AskPositions():
            return await _positions(exchange, _channels(exchange, request.channels), request.consumer)
        case Acknowledge():
            return await _acknowledge(exchange, request)
        case Close():
            channels = _channels(exchange, request.channels)
            await _positions(exchange, channels, request.consumer)  # refuses an unknown consumer before closing
            async with exchange.staging.ordering:
                ending = [each for each in channels if each.state is ChannelState.OPEN]
                for each in ending:
                    each.require_endable()
                await _together(each.end() for each in ending)
            return await _positions(exchange, channels, request.consumer)
        case Prepare() | Publish():
            for name in {part.channel for part in request.parts}:
                exchange.replay_channel(name)
            staging = exchange.staging
            order = staging.publish if isinstance(request, Publish) else staging.prepare
            was_published = await order(request.query, request.batch, request.parts)
            last_batch = exchange.staging.books.published_batches.get(request.query, request.batch)
            return Published(was_published, last_batch)
        case Discard():
            return Discarded(await exchange.staging.discard(request.query, request.batch, request.parts))
        case AskStatistics():
            require_once_each(request.channels)
            names = request.channels or request.portion_of(await _known(exchange, access.sees, access))
            return await traffic_through(exchange, names) if names else Statistics(monotonic(), ())
        case AskChannels():
            require_once_each(request.channels)
            known = await _known(exchange, partial(access.allows, Right.ADMINISTER), access)
            return await administration.list_channels(exchange, request.channels or request.portion_of(known))
        case AddStream():
            return await administration.add_stream(exchange, request)
        case RemoveChannels():
            return await administration.remove(exchange, request)
        case ResetChannels():
            return await administration.reset(exchange, request)
        case Purge():
            return await administration.purge(exchange, request)
        case Rollback():
            return await administration.rollback(exchange, request)
        case Peek():
            return await administration.peek(exchange, request)


async def _known(exchange: Exchange, holds: Callable[[str], bool], access: Access) -> Collection[str]:
    """The channels of which a client may know so much."""
    if access.is_open:
        return exchange.names
    names = await exchange.turns.all(name if holds(name) else None for name in tuple(exchange.names))
    return [name for name in names if name is not None and name in exchange.names]  # some may be removed meanwhile


async def traffic_through(exchange: Exchange, names: Sequence[str] = ()) -> Statistics:
    """The statistics of these channels, or of all, some after others; other peers are served meanwhile.

    Raises:
        UnknownChannelError: no channel has one of these names.
    """
    started = monotonic()
    return Statistics(started, tuple(await exchange.turns.all(exchange.each_statistics(names))))


def _channels(exchange: Exchange, names: Sequence[str]) -> list[ReplayChannel]:
    require_once_each(names)
    return [exchange.replay_channel(name) for name in names]


async def _positions(exchange: Exchange, channels: Iterable[ReplayChannel], consumer: str) -> Positions[pa.Schema]:
    return Positions(tuple(await exchange.turns.all(channel.position(consumer) for channel in channels)))


async def _acknowledge(exchange: Exchange, request: Acknowledge) -> Positions[pa.Schema]:
    consumer = request.consumer
    channels = _channels(exchange, [row.channel for row in request.rows])
    named = [*zip(channels, request.rows, strict=True)]
    # Refuse invalid acknowledgements before writing any.
    asked = (
        channel.require_acknowledgeable(each.row, consumer, each.log_id, each.next_barrier) for channel, each in named
    )
    are_new = await exchange.turns.all(asked)
    new = compress(named, are_new)
    acknowledging = (channel.acknowledge(each.row, consumer, each.log_id, each.next_barrier) for channel, each in new)
    await _together(acknowledging)
    return await _positions(exchange, channels, consumer)


async def _together(writing: Iterable[Coroutine[object, object, None]]) -> None:
    """Run all writes, even after errors; once none is running, raise the first error."""
    for outcome in await asyncio.gather(*writing, return_exceptions=True):
        if outcome is not None:
            raise outcome


METHODS: Mapping[str, Callable[..., Awaitable[None]]] = {
    GET_STREAM: _serve_get,
    PUT_STREAM: _serve_put,
    CONTROL: _serve_control,
}
"""The methods of the server by name; the same over every carrier.

Each takes an exchange, a carrier, and as keywords ``peer``, its address, ``stopping``, an event that is set when the
exchange stops, and ``access``, what the peer may do; those of streams also ``first``, the first message, if it was
taken out of the carrier.  It raises a ``PermitflowError`` for the peer.
"""
