"""A consumer that has dialled: the channel that it names sends what is wanted."""

import asyncio

from permitflow.exchange.bridge import breaking_first, carrying
from permitflow.exchange.registry import Exchange
from permitflow.exchange.streams import ConsumerStream
from permitflow.protocol.frames import Get
from permitflow.protocol.handshake import agree, require_version
from permitflow.protocol.session import UpstreamSession
from permitflow.transports.arrow import read_schema
from permitflow.transports.carrier import Carrier
from permitflow.transports.remote_sender import RemoteSender

__all__ = ["serve_get"]


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
            channel = exchange.served(get.address.name)
            # What is wrong whatever a producer will state is refused before anybody waits for one.
            agree(channel.parameters, get.wanted)
            if get.schema is not None:
                read_schema(get.schema)
            stream = channel.consuming(end, peer, exchange.same_host)
            assert isinstance(get, Get), "the session has refused everything else"
            with breaking_first(stream, end):
                await stream.serve(get)
    finally:
        if stream is not None:
            stream.leave()
