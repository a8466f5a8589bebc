"""Questions and orders about channels that keep their rows: each request gets one reply, in order."""

import asyncio
from collections.abc import Coroutine, Iterable, Sequence

import pyarrow as pa

from permitflow.errors import PeerGoneError
from permitflow.exchange.registry import Exchange
from permitflow.exchange.replay_channel import ReplayChannel
from permitflow.exchange.traffic import statistics_of
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
from permitflow.protocol.replay import DEFAULT_CONSUMER
from permitflow.transports.carrier import Carrier
from permitflow.transports.control_codec import decode_request, encode_reply

__all__ = ["carry_out", "serve_control"]


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
                await carrier.write([encode_reply(reply)])
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
            _channels(exchange, [part.channel for part in request.parts])
            return Published(await exchange.staging.publish(request.query, request.batch, request.parts))
        case Discard():
            return Discarded(await exchange.staging.discard(request.query, request.batch, request.parts))
        case AskStatistics():
            return statistics_of(exchange, request.channels)


def _channels(exchange: Exchange, names: Sequence[str]) -> list[ReplayChannel]:
    return [exchange.replay_channel(name) for name in names]


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
