"""Administration of a running exchange: what channels there are, adding, removing, resetting, purging and peeking.

Every order about several channels is checked at all of them before the first one is changed.
"""

from collections.abc import Sequence
from typing import TypeAlias

import pyarrow as pa

from permitflow.channels.local import Purged
from permitflow.errors import ChannelInUseError, InvalidParametersError
from permitflow.exchange.channels.bridge_channel import BridgeChannel
from permitflow.exchange.channels.replay_channel import ReplayChannel, settled
from permitflow.exchange.channels.streams import Direction
from permitflow.exchange.registry import Exchange, Keeping
from permitflow.names import require_once_each, stream_channels
from permitflow.stream.control import (
    MOST_CHANNELS,
    MOST_PEEKED,
    AddStream,
    Changed,
    ChangedChannel,
    Channels,
    ListedChannel,
    Peek,
    Peeked,
    PeekedBatch,
    Purge,
    RemoveChannels,
    ResetChannels,
    Retention,
    Rollback,
)
from permitflow.wire.arrow import BatchCodec

Change: TypeAlias = RemoveChannels | ResetChannels | Purge
"""An order that changes channels, of any kind."""

MOST_PEEKED_BYTES = 8 << 20
"""The most bytes of rows that a peek shows, unless the first chunk alone takes more."""

_BY_FORCE = "; with force they are dropped, and their query fails if it comes again"

# A message that is just leaving for a consumer.
_PURGE_SECONDS = 5.0


async def list_channels(exchange: Exchange, names: Sequence[str]) -> Channels[pa.Schema]:
    """These channels, read in groups: other peers are served in between.

    Raises:
        UnknownChannelError: no channel has one of these names.
    """
    for name in names:
        exchange.served(name)
    listed = (_listed(exchange, name) for name in names if name in exchange.names)  # some may be removed meanwhile
    return Channels(tuple(await exchange.turns.all(listed)))


def _listed(exchange: Exchange, name: str) -> ListedChannel[pa.Schema]:
    channel, (traffic,) = exchange.served(name), exchange.statistics([name])
    is_kept = isinstance(channel, ReplayChannel)
    return ListedChannel(
        traffic=traffic,
        retention=Retention.REPLAY if is_kept else Retention.ONCE,
        parameters=channel.parameters,
        schema=channel.schema,
        connections=channel.streams.connections(),
        limit_rows=channel.books.limit_rows if isinstance(channel, ReplayChannel) else 0,
        is_durable=is_kept and exchange.is_durable,
    )


async def add_stream(exchange: Exchange, request: AddStream[pa.Schema]) -> Channels[pa.Schema]:
    """Add the channels of a stream, all or none; they can be used at once.

    Raises:
        InvalidParametersError: a name is taken, there are too many channels, or an option does not fit the retention.
        SchemaMismatchError, StoreError: the store has such a channel with other settings.
    """
    if not 1 <= request.channels <= MOST_CHANNELS:
        rule = f"must be 1 to {MOST_CHANNELS:,} in a request"
        raise InvalidParametersError(name="channels", value=request.channels, rule=rule)
    if not request.stream:
        raise InvalidParametersError(name="stream", value=request.stream, rule="must not be empty")
    keeping: Keeping = {
        "kept_rows": request.kept_rows,
        "staging_rows": request.staging_rows,
        "expire_seconds": request.expire_seconds,
        "expire_bytes": request.expire_bytes,
    }
    if request.consumers:
        keeping["consumers"] = request.consumers
    if request.retention is Retention.ONCE:
        for name, value in keeping.items():
            if value is not None:
                rule = "is for channels with retention 'replay' only"
                raise InvalidParametersError(name=name, value=value, rule=rule)
    names = stream_channels(request.stream, request.channels)
    exchange.add_channels(
        names,
        request.parameters,
        request.schema,
        retention=request.retention,
        byte_window=request.byte_window,
        target_latency_seconds=request.target_latency_seconds,
        **keeping,
    )
    return await list_channels(exchange, names)


def require_possible(exchange: Exchange, request: Change) -> Sequence[BridgeChannel | ReplayChannel]:
    """The channels of an order that can be carried out now.

    Raises:
        PermitflowError: one of them refuses it.
    """
    channels = _channels(exchange, request.channels)
    for channel in channels:
        match request:
            case Purge():
                _require_consumer(channel, request.consumer)
            case _ if request.force:
                pass
            case RemoveChannels():
                if isinstance(channel, ReplayChannel):
                    exchange.staging.require_none_prepared(channel.name, "removed", _BY_FORCE)
                _require_unused(channel, "removed", drops_rows=True)
            case ResetChannels():
                _require_unused(channel, "reset", drops_rows=isinstance(channel, BridgeChannel))
    return channels


async def remove(exchange: Exchange, request: RemoveChannels) -> Changed:
    """Forget channels, with their rows; their streams get ``ChannelRemovedError``.

    Raises:
        UnknownChannelError: no channel has one of these names.
        ChannelInUseError: streams of one of them are open, or rows wait in it; none was removed.
        PreparedRowsError: rows of one of them are prepared; none was removed.
        StoreError: the write failed; none was removed.
    """
    counted: list[tuple[Purged, int]] = []

    def require() -> None:
        for channel in require_possible(exchange, request):
            counted.append((channel.backlog, _staged_rows(exchange, channel)))

    _channels(exchange, request.channels)
    ended = await exchange.remove_channels(request.channels, require)
    return Changed(
        tuple(
            ChangedChannel(name, was.rows + staged_rows, was.barriers, streams)
            for name, (was, staged_rows), streams in zip(request.channels, counted, ended, strict=True)
        )
    )


def _staged_rows(exchange: Exchange, channel: BridgeChannel | ReplayChannel) -> int:
    return exchange.staging.area(channel.name).staged_rows if isinstance(channel, ReplayChannel) else 0


@settled
async def reset(exchange: Exchange, request: ResetChannels) -> Changed:
    """Make channels usable again; their streams get ``ChannelResetError``.

    Raises:
        UnknownChannelError: no channel has one of these names.
        ChannelInUseError: streams of one of them are open, or rows wait in it that would be dropped; none was reset.
        StoreError: a write failed; the channels before this one were reset.
    """
    changed = []
    for channel in require_possible(exchange, request):
        rows = barriers = 0
        if isinstance(channel, BridgeChannel):
            _, rows, barriers = channel.backlog
        changed.append(ChangedChannel(channel.name, rows, barriers, await exchange.reset_channel(channel.name)))
    return Changed(tuple(changed))


@settled
async def purge(exchange: Exchange, request: Purge) -> Changed:
    """Drop the rows and barriers that wait; streams go on.

    Raises:
        UnknownChannelError: no channel has one of these names.
        UnknownConsumerError, InvalidParametersError: one of them has no such consumer; none was purged.
        ChannelInUseError: a message is just leaving, and cannot; the channels before this one were purged.
        StoreError: a write failed; the channels before this one were purged.
    """
    changed = []
    for channel in require_possible(exchange, request):
        if isinstance(channel, ReplayChannel):
            dropped = await channel.purge(request.consumer)
        else:
            dropped = await channel.purge(_PURGE_SECONDS)
        changed.append(ChangedChannel(channel.name, dropped.rows, dropped.barriers, 0))
    return Changed(tuple(changed))


async def rollback(exchange: Exchange, request: Rollback) -> Changed:
    """Forget what is in doubt: prepared attempts of queries of which nothing was heard for long.

    An order that fails may be repeated: some of the channels may have nothing in doubt any more.

    Raises:
        StoreError: the write failed.
        UnknownChannelError: no channel has one of these names.
        RetentionError: one of them does not keep its rows.
    """
    channels = [exchange.replay_channel(channel.name) for channel in _channels(exchange, request.channels)]
    rows = await exchange.staging.rollback([channel.name for channel in channels])
    return Changed(tuple(ChangedChannel(each.name, gone, 0, 0) for each, gone in zip(channels, rows, strict=True)))


async def peek(exchange: Exchange, request: Peek) -> Peeked[pa.Schema]:
    """The first rows that wait in a channel; they stay there.

    Raises:
        UnknownChannelError: no channel has this name.
        UnknownConsumerError, InvalidParametersError: it has no such consumer, or too many rows are asked for.
        StoreError: the rows cannot be read.
    """
    if not 1 <= request.rows <= MOST_PEEKED:
        raise InvalidParametersError(name="rows", value=request.rows, rule=f"must be 1 to {MOST_PEEKED:,}")
    channel = exchange.served(request.channel)
    _require_consumer(channel, request.consumer)
    if isinstance(channel, ReplayChannel):
        batches = await channel.peek(request.rows, request.consumer)
    else:
        batches = channel.peek(request.rows)
    schema = channel.schema
    if schema is None:
        return Peeked(None, ())
    return Peeked(schema, tuple(await exchange.turns.run(lambda: _encoded(BatchCodec(schema), batches))))


def _encoded(codec: BatchCodec, batches: Sequence[pa.RecordBatch]) -> list[PeekedBatch]:
    found, size = list[PeekedBatch](), 0
    for batch in batches:
        data = b"".join(codec.encode([batch]))
        size += len(data)
        if found and size > MOST_PEEKED_BYTES:
            break
        found.append(PeekedBatch(batch.num_rows, data))
    return found


def _channels(exchange: Exchange, names: Sequence[str]) -> list[BridgeChannel | ReplayChannel]:
    if not names:
        raise InvalidParametersError(name="channels", value=names, rule="must be at least one name")
    require_once_each(names)
    return [exchange.served(name) for name in names]


def _require_consumer(channel: BridgeChannel | ReplayChannel, consumer: str) -> None:
    if isinstance(channel, ReplayChannel):
        if consumer:
            channel.books.acknowledged_by(consumer)
    elif consumer:
        rule = f"must be empty: channel {channel.name!r} is read once, and knows no consumers by name"
        raise InvalidParametersError(name="consumer", value=consumer, rule=rule)


def _require_unused(channel: BridgeChannel | ReplayChannel, deed: str, *, drops_rows: bool) -> None:
    uses = []
    for direction, words in ((Direction.PUT, "producer"), (Direction.GET, "consumer")):
        users = [user for user in channel.users if user.direction is direction]
        if users:
            suspended = sum(user.is_suspended for user in users)
            waits = f" ({suspended} without a connection, which may come again)" if suspended else ""
            uses.append(f"{len(users)} {words}{'s' * (len(users) > 1)} at {_listed_peers(users)}{waits}")
    if drops_rows and (waiting := channel.backlog).messages:
        uses.append(f"{waiting.rows:,} rows and {waiting.messages:,} messages wait")
    if uses:
        raise ChannelInUseError(channel=channel.name, deed=deed, uses="; ".join(uses))


def _listed_peers(users: Sequence[object]) -> str:
    peers = [str(getattr(user, "peer", "")) for user in users]
    return ", ".join(peers[:3]) + (", …" if len(peers) > 3 else "")
