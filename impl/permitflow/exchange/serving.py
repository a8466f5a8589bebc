"""Serves a peer that has dialled, over any carrier: a producer, a consumer, or a client that asks and orders.

The channel that a producer names takes in what it sends; the one that a consumer names sends what is wanted.  Of
questions and orders about channels, each gets one reply, in order.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from time import monotonic
from typing import TypeVar

import pyarrow as pa

from permitflow.errors import InvalidParametersError, PeerGoneError
from permitflow.exchange.bridge import breaking_first, carrying
from permitflow.exchange.health import Phase
from permitflow.exchange.registry import Exchange
from permitflow.exchange.replay_channel import ReplayChannel
from permitflow.exchange.staging import StagedProducer
from permitflow.exchange.statistics import traffic_of
from permitflow.exchange.streams import ConsumerStream, ProducerStream
from permitflow.protocol.control import (
    Acknowledge,
    AskPositions,
    AskStatistics,
    Close,
    ControlReply,
    ControlRequest,
    Discard,
    Discarded,
    Positions,
    Publish,
    Published,
)
from permitflow.protocol.frames import Get, Put
from permitflow.protocol.handshake import agree, require_version
from permitflow.protocol.replay import DEFAULT_CONSUMER
from permitflow.protocol.session import DownstreamSession, UpstreamSession
from permitflow.protocol.traffic import Statistics
from permitflow.transports.arrow import read_schema
from permitflow.transports.carrier import Carrier
from permitflow.transports.connection import CONTROL, GET_STREAM, PUT_STREAM
from permitflow.transports.control_codec import decode_request, reply_pieces
from permitflow.transports.remote_receiver import RemoteReceiver
from permitflow.transports.remote_sender import RemoteSender

__all__ = ["METHODS", "carry_out", "in_turns", "traffic_through"]

T = TypeVar("T")

# A reply about many channels takes long; others are served in between.
_TURN_SECONDS = 0.005


async def serve_put(exchange: Exchange, carrier: Carrier, *, peer: str, stopping: asyncio.Event) -> None:
    """Serve one PutStream.

    Args:
        exchange: whose channels are meant.
        carrier: of the stream.
        peer: the producer's address.
        stopping: set when the exchange is to be stopped.

    Raises:
        PermitflowError: what the producer must be told.
    """
    session: DownstreamSession[object] = DownstreamSession(peer=f"the producer at {peer}", record=exchange.record)
    producer = _Producer(exchange, RemoteReceiver(session, carrier, compression=exchange.compression), peer)
    try:
        async with carrying(producer.end, stopping, producer.heed_abort(), producer.heed_draining()):
            with breaking_first(producer, producer.end):
                await producer.serve()
    finally:
        producer.leave()


class _Producer:
    """A producer, of which nothing is known before its first frame."""

    def __init__(self, exchange: Exchange, end: RemoteReceiver, peer: str) -> None:
        self.end = end
        end.defer_outcome()
        self._exchange = exchange
        self._peer = peer
        self._stream: ProducerStream | None = None
        self._may_come_again = False

    async def serve(self) -> None:
        put = await self.end.dialled()
        require_version(put.protocol_version)
        self._exchange.readiness.require(Phase.READY)
        if isinstance(put, Get) or put.schema is None:
            raise InvalidParametersError(name="schema", value=None, rule="must be stated by a producer")
        schema = read_schema(put.schema)
        self._may_come_again = bool(put.producer)
        self._stream = self._stream_of(put)
        await self._stream.serve(put, schema)

    def _stream_of(self, put: Put) -> ProducerStream:
        exchange, name = self._exchange, put.channel
        if put.staging is None:
            served = exchange.served(name)
            agree(served.parameters, put)
            return served.producing(self.end, self._peer, exchange.same_host)
        channel = exchange.replay_channel(name)
        agree(channel.parameters, put)
        return StagedProducer(channel, exchange.staging, self.end, self._peer, exchange.same_host)

    async def heed_abort(self) -> None:
        """Let the channel know as soon as the producer gives up, also while a message of it waits to be taken in."""
        abort = await self.end.aborted()
        if self._stream is not None:
            await self._stream.give_up(abort)

    async def heed_draining(self) -> None:
        """Send a producer away that can go on elsewhere or later, as soon as the exchange is to be stopped.

        One without a name cannot know what was kept of its rows: it may come to its end while there is time.
        """
        await self._exchange.readiness.until(Phase.DRAINING)
        whereabouts = "; what it has taken over is on disk" if self._exchange.is_durable else ""
        error = PeerGoneError(who="the exchange", reason=f"{Phase.DRAINING.value}{whereabouts}")
        if self._may_come_again and not self.end.break_off(error):
            raise error

    def fail(self, reason: str) -> None:
        if self._stream is not None:
            self._stream.fail(reason)

    def leave(self) -> None:
        """The stream is over, and what it has not passed on is of no use to anybody."""
        if self._stream is not None:
            self._stream.leave()
        self.end.close()


async def serve_get(exchange: Exchange, carrier: Carrier, *, peer: str, stopping: asyncio.Event) -> None:
    """Serve one GetStream.

    Args:
        exchange: whose channels are meant.
        carrier: of the stream.
        peer: the consumer's address.
        stopping: set when the exchange is to be stopped.

    Raises:
        PermitflowError: what the consumer must be told.
    """
    session: UpstreamSession[object] = UpstreamSession(peer=f"the consumer at {peer}", record=exchange.record)
    end = RemoteSender(session, carrier, compression=exchange.compression)
    stream: ConsumerStream | None = None
    try:
        async with carrying(end, stopping):
            get = await end.dialled()
            require_version(get.protocol_version)
            channel = exchange.served(get.channel)
            # What is wrong whatever a producer will state is refused before anybody waits for one.
            agree(channel.parameters, get)
            if get.schema is not None:
                read_schema(get.schema)
            stream = channel.consuming(end, peer, exchange.same_host)
            assert isinstance(get, Get), "the session has refused everything else"
            with breaking_first(stream, end):
                await stream.serve(get)
    finally:
        if stream is not None:
            stream.leave()


async def serve_control(exchange: Exchange, carrier: Carrier, *, peer: str, stopping: asyncio.Event) -> None:
    """Serve one Control stream, until the client has no more to say.

    Args:
        exchange: whose channels are meant.
        carrier: of the stream.
        peer: the client's address.
        stopping: set when the exchange is to be stopped.

    Raises:
        PermitflowError: why an order could not be carried out; see ``carry_out``.
    """
    try:
        async with asyncio.TaskGroup() as group:
            watch = group.create_task(_until_stopped(stopping))
            while (message := await carrier.read()) is not None:
                reply = await carry_out(exchange, decode_request(message))
                await carrier.write(await in_turns(reply_pieces(reply)))
            watch.cancel()
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from several.exceptions[0].__cause__
    await carrier.half_close()


async def _until_stopped(stopping: asyncio.Event) -> None:
    await stopping.wait()
    raise PeerGoneError(who="the exchange", reason="it is being stopped")


async def carry_out(exchange: Exchange, request: ControlRequest) -> ControlReply[pa.Schema]:
    """Do what is asked for; see the protocol definition.

    All that can be refused is refused before anything is done.  What is to be written for several channels is written
    at the same time, so that they share a flush.

    Raises:
        UnknownChannelError: there is no such channel.
        InvalidParametersError: a channel is named twice.
        RetentionError: one of them does not keep its rows.
        ReplayError, StagingError, ChannelError: it cannot be done, and nothing of it was.
        StoreError: it could not be written: a publication for none of its channels; of those that are acknowledged or
            closed, each by itself was written as a whole or not at all, and the order may be repeated.
    """
    match request:
        case AskPositions():
            return _positions(_channels(exchange, request.channels), request.consumer)
        case Acknowledge():
            return await _acknowledge(exchange, request)
        case Close():
            channels = _channels(exchange, request.channels)
            _positions(channels, request.consumer)  # refuses an unknown consumer before anything is closed
            await _together(channel.end() for channel in channels)
            return _positions(channels, request.consumer)
        case Publish():
            for part in request.parts:
                exchange.replay_channel(part.channel)
            return Published(await exchange.staging.publish(request.query, request.batch, request.parts))
        case Discard():
            return Discarded(await exchange.staging.discard(request.query, request.batch, request.parts))
        case AskStatistics():
            return await traffic_through(exchange, tuple(_once_each(request.channels, exchange.served)))


async def traffic_through(exchange: Exchange, names: Sequence[str] = ()) -> Statistics:
    """What has flowed through these channels, or through all, one after the other, while others are served as well.

    Raises:
        UnknownChannelError: there is no such channel.
    """
    started = monotonic()
    return Statistics(started, tuple(await in_turns(map(traffic_of, exchange.each_statistics(names)))))


def _channels(exchange: Exchange, names: Iterable[str]) -> list[ReplayChannel]:
    return list(_once_each(names, exchange.replay_channel).values())


def _once_each(names: Iterable[str], find: Callable[[str], T]) -> dict[str, T]:
    """What has these names; refuses the first one that is unknown, or was there before, and looks at no more."""
    found: dict[str, T] = {}
    for name in names:
        if name in found:
            raise InvalidParametersError(name="channels", value=name, rule="must not name one twice")
        found[name] = find(name)
    return found


async def in_turns(items: Iterable[T]) -> list[T]:
    """All of them, while others are served as well."""
    made, since = [], monotonic()
    for item in items:
        made.append(item)
        if monotonic() - since > _TURN_SECONDS:
            await asyncio.sleep(0)
            since = monotonic()
    return made


def _positions(channels: Sequence[ReplayChannel], consumer: str) -> Positions[pa.Schema]:
    return Positions(tuple(channel.position(consumer) for channel in channels))


async def _acknowledge(exchange: Exchange, request: Acknowledge) -> Positions[pa.Schema]:
    consumer = request.consumer or DEFAULT_CONSUMER
    channels = _channels(exchange, [row.channel for row in request.rows])
    for channel, (_, row, log_id) in zip(channels, request.rows, strict=True):
        channel.log.require_acknowledgeable(consumer, row, log_id)
    rows = zip(channels, request.rows, strict=True)
    await _together(channel.acknowledge(row, consumer, log_id) for channel, (_, row, log_id) in rows)
    return _positions(channels, consumer)


async def _together(writing: Iterable[Coroutine[object, object, None]]) -> None:
    """Have all of it written, as far as it can be; raise the first error once nothing of it is under way any more."""
    outcomes = await asyncio.gather(*writing, return_exceptions=True)
    if errors := [outcome for outcome in outcomes if outcome is not None]:
        raise errors[0]


METHODS: Mapping[str, Callable[..., Awaitable[None]]] = {
    GET_STREAM: serve_get,
    PUT_STREAM: serve_put,
    CONTROL: serve_control,
}
"""By the names under which they are called; the same over every carrier."""
