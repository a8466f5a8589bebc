"""Questions and orders about channels that keep their rows: each request gets one reply, in order."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from time import monotonic
from typing import TypeVar

import pyarrow as pa

from permitflow.errors import InvalidParametersError, PeerGoneError
from permitflow.exchange.registry import Exchange
from permitflow.exchange.replay_channel import ReplayChannel
from permitflow.exchange.traffic import traffic_of
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
from permitflow.protocol.traffic import Statistics
from permitflow.transports.carrier import Carrier
from permitflow.transports.control_codec import decode_request, reply_pieces

__all__ = ["carry_out", "serve_control"]

T = TypeVar("T")

# A reply about many channels takes long; others are served in between.
_TURN_SECONDS = 0.005


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
                await carrier.write(await _in_turns(reply_pieces(reply)))
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
            names = tuple(_once_each(request.channels, exchange.served))
            started = monotonic()
            return Statistics(started, tuple(await _in_turns(map(traffic_of, exchange.each_statistics(names)))))


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


async def _in_turns(items: Iterable[T]) -> list[T]:
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
