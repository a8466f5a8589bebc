"""A producer that has dialled: the channel that it names takes in what it sends."""

import asyncio

from permitflow.errors import InvalidParametersError, PeerGoneError
from permitflow.exchange.bridge import breaking_first, carrying
from permitflow.exchange.readiness import Phase
from permitflow.exchange.registry import Exchange
from permitflow.exchange.staged_producing import StagedProducer
from permitflow.exchange.streams import ProducerStream
from permitflow.protocol.frames import Get, Put
from permitflow.protocol.handshake import agree, require_version
from permitflow.protocol.session import DownstreamSession
from permitflow.transports.arrow import read_schema
from permitflow.transports.carrier import Carrier
from permitflow.transports.remote_receiver import RemoteReceiver

__all__ = ["serve_put"]


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
        exchange, name = self._exchange, put.address.name
        if put.staging is None:
            served = exchange.served(name)
            agree(served.parameters, put.wanted)
            return served.producing(self.end, self._peer, exchange.same_host)
        channel = exchange.replay_channel(name)
        agree(channel.parameters, put.wanted)
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
