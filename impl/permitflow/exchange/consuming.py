"""A consumer that has dialled: the channel that it names is bridged into its stream."""

import asyncio

from permitflow.exchange.bridge import Forwarding, carrying, words
from permitflow.exchange.bridge_channel import BridgeChannel, Stream
from permitflow.exchange.registry import Exchange
from permitflow.exchange.statistics import Direction
from permitflow.protocol.frames import Get, Put
from permitflow.protocol.handshake import require_version
from permitflow.protocol.session import UpstreamSession
from permitflow.transports.arrow import read_schema, require_equal_schemas
from permitflow.transports.carrier import Carrier
from permitflow.transports.remote_sender import RemoteSender

__all__ = ["serve_get"]


async def serve_get(exchange: Exchange, carrier: Carrier, *, peer: str, stopping: asyncio.Event) -> None:
    """Serve one GetStream.  A consumer that leaves after its first message breaks its channel.

    Args:
        exchange: whose channels are meant.
        carrier: of the stream.
        peer: the consumer's address.
        stopping: set when the exchange is to be stopped.

    Raises:
        PermitflowError: what the consumer must be told.
    """
    session: UpstreamSession[object] = UpstreamSession(peer=f"the consumer at {peer}", record=exchange.record)
    consumer = _Consumer(exchange, RemoteSender(session, carrier), peer)
    try:
        async with carrying(consumer.end, stopping):
            await consumer.serve()
    except BaseException as error:
        consumer.fail(words(error, consumer.end))
        raise
    finally:
        consumer.leave()


class _Consumer:
    """A consumer's stream and its channel."""

    def __init__(self, exchange: Exchange, end: RemoteSender, peer: str) -> None:
        self.end = end
        self._exchange = exchange
        self._peer = peer
        self._channel: BridgeChannel | None = None
        self._holds_channel = False
        self._stream: Stream | None = None
        self._forwarding: Forwarding | None = None

    async def serve(self) -> None:
        get = await self.end.dialled()
        require_version(get.protocol_version)
        channel = self._exchange.channel(get.address.name)
        if isinstance(get, Get) and get.probe:
            await self._accept(get, channel)
            await self.end.end(closes_channel=False)
            return
        channel.claim(self._peer)
        self._channel, self._holds_channel = channel, True
        self._stream = await self._accept(get, channel)
        channel.open_stream(self._stream)
        self._forwarding = Forwarding(channel.receiver, self.end)
        aborted = await self._forwarding.run()
        if aborted is not None:
            self.end.abort(aborted.reason)
            channel.release()
        else:
            await self.end.end(closes_channel=False)
            channel.spend()
        self._holds_channel = False

    async def _accept(self, get: Get | Put, channel: BridgeChannel) -> Stream:
        schema = await channel.schema()
        if get.schema is not None:
            require_equal_schemas(ours=schema, theirs=read_schema(get.schema))
        await self.end.meet(self._exchange.same_host)
        name = channel.name_stream(Direction.GET)
        self.end.accept(channel.parameters, schema=schema, stream=name)
        return Stream(name, self._peer, Direction.GET, self.end)

    def fail(self, reason: str) -> None:
        """The consumer has left; what it had taken is lost."""
        if self._channel is None or not self._holds_channel:
            return
        if self._forwarding is not None and self._forwarding.taken:
            self._channel.lose_consumer(reason)
        else:
            self._channel.release()

    def leave(self) -> None:
        """The stream is over."""
        if self._channel is not None and self._stream is not None:
            self._channel.close_stream(self._stream)
