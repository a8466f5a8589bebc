"""A producer that has dialled: its stream is bridged into the channel that it names."""

import asyncio

from permitflow.errors import ChannelError, InvalidParametersError
from permitflow.exchange.bridge import Forwarding, carrying, words
from permitflow.exchange.bridge_channel import BridgeChannel, Stream
from permitflow.exchange.registry import Exchange
from permitflow.exchange.statistics import Direction
from permitflow.protocol.frames import Abort, End, Get, Put
from permitflow.protocol.handshake import require_version
from permitflow.protocol.session import DownstreamSession
from permitflow.transports.arrow import read_schema
from permitflow.transports.carrier import Carrier
from permitflow.transports.remote_receiver import RemoteReceiver

__all__ = ["serve_put"]


async def serve_put(exchange: Exchange, carrier: Carrier, *, peer: str, stopping: asyncio.Event) -> None:
    """Serve one PutStream.  A producer that leaves without End breaks its channel.

    Args:
        exchange: whose channels are meant.
        carrier: of the stream.
        peer: the producer's address.
        stopping: set when the exchange is to be stopped.

    Raises:
        PermitflowError: what the producer must be told.
    """
    session: DownstreamSession[object] = DownstreamSession(peer=f"the producer at {peer}", record=exchange.record)
    producer = _Producer(exchange, RemoteReceiver(session, carrier), peer)
    try:
        async with carrying(producer.end, stopping, producer.heed_abort()):
            await producer.serve()
    except BaseException as error:
        producer.fail(words(error, producer.end))
        raise
    finally:
        producer.leave()


class _Producer:
    """A producer's stream and its channel."""

    def __init__(self, exchange: Exchange, end: RemoteReceiver, peer: str) -> None:
        self.end = end
        self._exchange = exchange
        self._peer = peer
        self._channel: BridgeChannel | None = None
        self._stream: Stream | None = None
        self._has_finished = False

    async def serve(self) -> None:
        channel = await self._accept(await self.end.dialled())
        try:
            await Forwarding(self.end, channel.sender).run()
        except ChannelError as error:
            if channel.is_producible:
                raise
            if not isinstance(self.end.ended_with, Abort):
                raise channel.refusal() from error
        self._has_finished = True
        match self.end.ended_with:
            case Abort() as abort:
                self._give_up(abort)
            case End(closes_channel=True):
                channel.end()

    async def heed_abort(self) -> None:
        """Break the channel as soon as the producer gives up, also while a message of it waits to be passed on."""
        self._give_up(await self.end.aborted())

    def _give_up(self, abort: Abort) -> None:
        if self._channel is not None:
            self._channel.abort(f"the producer at {self._peer} gave up: {abort.reason}")

    async def _accept(self, put: Get | Put) -> BridgeChannel:
        require_version(put.protocol_version)
        if put.schema is None:
            raise InvalidParametersError(name="schema", value=None, rule="must be stated by a producer")
        schema = read_schema(put.schema)
        channel = self._exchange.channel(put.address.name)
        channel.require_producible(schema)
        await self.end.meet(self._exchange.same_host)
        # Others may have come, or ended the channel, meanwhile.
        channel.require_producible(schema)
        name = channel.name_stream(Direction.PUT)
        self.end.accept(channel.parameters, schema=schema, stream=name)
        channel.announce(schema)
        self._channel, self._stream = channel, Stream(name, self._peer, Direction.PUT, self.end)
        channel.open_stream(self._stream)
        return channel

    def fail(self, reason: str) -> None:
        """What came of this stream is incomplete, and so is its channel."""
        if self._channel is not None and not self._has_finished:
            self._channel.abort(f"the producer at {self._peer} is gone: {reason}")

    def leave(self) -> None:
        """The stream is over, and what it has not passed on is of no use to anybody."""
        if self._channel is not None and self._stream is not None:
            self._channel.close_stream(self._stream)
        self.end.close()
