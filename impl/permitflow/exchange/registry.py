"""The channels of an exchange by their names."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Literal, TypedDict, Unpack, overload

import pyarrow as pa

from permitflow.channels.interface import stream_channels
from permitflow.errors import InvalidParametersError, RetentionError, UnknownChannelError
from permitflow.exchange.bridge_channel import BridgeChannel
from permitflow.exchange.health import Readiness
from permitflow.exchange.replay_channel import ReplayChannel
from permitflow.exchange.staging import StagingAreas
from permitflow.exchange.statistics import BridgeStatistics
from permitflow.exchange.stores.store import Store
from permitflow.exchange.turns import Turns
from permitflow.protocol.compression import Compression, checked
from permitflow.protocol.flow import Parameters
from permitflow.protocol.names import require_name
from permitflow.protocol.permits import ChannelParameters, kept_parameters
from permitflow.protocol.recording import RecorderFactory
from permitflow.protocol.replay import DEFAULT_CONSUMER, DEFAULT_KEPT_ROWS, Retention, require_consumers
from permitflow.protocol.staging import DEFAULT_TIMEOUT_SECONDS, require_room
from permitflow.transports.arrow_compression import available_codecs
from permitflow.transports.same_host import SameHost
from permitflow.transports.texts import require_text

__all__ = ["Exchange", "Keeping", "stream_channels"]

# Of the rows that are kept: room for two batches, each twice as large.  One is read, one is written meanwhile.
STAGED_SHARE = 4


class Keeping(TypedDict, total=False):
    """Further arguments for channels that keep their rows: ``consumers``, ``kept_rows``, ``staging_rows``."""

    consumers: Sequence[str]
    """For whom rows are kept; by default for one, ``default``.  A channel that is read once has one without a name."""
    kept_rows: int | None
    """The most rows that are kept before producers wait; by default the window of the flow, or 1,048,576."""
    staging_rows: int | None
    """The most rows that are staged, or published beyond the kept rows; by default four times as many as these."""


class Exchange:
    """Named channels, each between producers and consumers.  For one event loop."""

    def __init__(
        self,
        *,
        parameters: Parameters | None = None,
        record: RecorderFactory | None = None,
        same_host: SameHost = SameHost.AUTO,
        compression: Compression = Compression.AUTO,
        checksums: bool = True,
        store: Store | None = None,
        staging_timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    ) -> None:
        """Start without channels.

        Args:
            parameters: of channels that are added without parameters of their own, of any flow; by default those of
                ``ChannelParameters()``, or of ``kept_parameters()`` for channels that keep their rows.
            record: opens the recorders of all ends inside the exchange: the two of each channel, and one of each
                stream that a producer or consumer opens.
            same_host: whether to share memory with those that run on this host.
            compression: of chunks on their way to and from others, if they agree; ``auto``: if they ask for it.
            checksums: does each message of a stream over a network carry one?  Questions and orders always do.
            store: where channels keep rows that can be read again; by default in memory.  It stays the caller's.
            staging_timeout_seconds: what is staged by a query of which nothing was heard for so long is forgotten.

        Raises:
            InvalidParametersError: this end cannot compress like that.
        """
        self._parameters = parameters
        self._channels: dict[str, BridgeChannel | ReplayChannel] = {}
        self._store = store or Store()
        self.turns = Turns()
        """In which long work is done."""
        self.staging = StagingAreas(self._store, staging_timeout_seconds, turns=self.turns)
        """Rows that are not published yet."""
        self.record = record
        self.same_host = same_host
        self.compression = checked(compression, available_codecs())
        self.checksums = checksums
        self.readiness = Readiness()

    @property
    def names(self) -> Collection[str]:
        """Of all channels, in the order in which they were added."""
        return self._channels.keys()

    @property
    def is_durable(self) -> bool:
        """Do rows that are kept survive the exchange?"""
        return self._store.is_durable

    @overload
    def add_channel(
        self,
        name: str,
        parameters: Parameters | None = None,
        schema: pa.Schema | None = None,
        *,
        retention: Literal[Retention.ONCE] = Retention.ONCE,
    ) -> BridgeChannel: ...

    @overload
    def add_channel(
        self,
        name: str,
        parameters: Parameters | None = None,
        schema: pa.Schema | None = None,
        *,
        retention: Literal[Retention.REPLAY],
        **keeping: Unpack[Keeping],
    ) -> ReplayChannel: ...

    @overload
    def add_channel(
        self,
        name: str,
        parameters: Parameters | None = None,
        schema: pa.Schema | None = None,
        *,
        retention: Retention,
        **keeping: Unpack[Keeping],
    ) -> BridgeChannel | ReplayChannel: ...

    def add_channel(
        self,
        name: str,
        parameters: Parameters | None = None,
        schema: pa.Schema | None = None,
        *,
        retention: Retention = Retention.ONCE,
        **keeping: Unpack[Keeping],
    ) -> BridgeChannel | ReplayChannel:
        """Add a channel.

        Args:
            name: unique among the channels of this exchange.
            parameters: of the channel, and the most that is granted to each stream of it; of any flow.
            schema: of its chunks; by default that of the first producer.
            retention: whether rows are gone once they were read, or kept until they are acknowledged.
            keeping: of a channel that keeps its rows, see ``Keeping``.

        Raises:
            InvalidParametersError: the name is empty, taken, or no text that UTF-8 can hold; consumers that are none;
                room for no row.
            SchemaMismatchError: the store has kept the channel with another schema.
            StoreError: the store has kept it otherwise, or cannot be read.
        """
        (channel,) = self.add_channels([name], parameters, schema, retention=retention, **keeping)
        return channel

    def add_channels(
        self,
        names: Sequence[str],
        parameters: Parameters | None = None,
        schema: pa.Schema | None = None,
        *,
        retention: Retention = Retention.ONCE,
        **keeping: Unpack[Keeping],
    ) -> Sequence[BridgeChannel | ReplayChannel]:
        """Add channels that are alike, all or none; a store on disk is flushed once for all of them.

        Args and errors are those of ``add_channel``.
        """
        self._require_free(names)
        chosen = parameters or self._parameters
        consumers = keeping.get("consumers", (DEFAULT_CONSUMER,))
        if retention is Retention.ONCE:
            if tuple(consumers) != (DEFAULT_CONSUMER,):
                rule = "are named for channels with retention 'replay' only"
                raise InvalidParametersError(name="consumers", value=tuple(consumers), rule=rule)
            chosen = chosen or ChannelParameters()
            bridges = [BridgeChannel(name, chosen, schema, self.record) for name in names]
            self._channels.update(zip(names, bridges, strict=True))
            return bridges
        chosen = chosen or kept_parameters()
        kept_rows, staging_rows = keeping.get("kept_rows"), keeping.get("staging_rows")
        limit_rows = (chosen.window_rows or DEFAULT_KEPT_ROWS) if kept_rows is None else kept_rows
        staging_rows = STAGED_SHARE * limit_rows if staging_rows is None else staging_rows
        # Before the store is asked: what it has written down would be in the way of the next try.
        require_consumers(consumers)
        for consumer in consumers:
            require_text("consumers", consumer)
        require_room(kept_rows=limit_rows, staging_rows=staging_rows)
        places = self._store.open_channels(names, parameters=chosen, consumers=consumers, schema=schema)
        keepers = [
            ReplayChannel(name, chosen, schema, place, consumers, limit_rows)
            for name, place in zip(names, places, strict=True)
        ]
        for channel in keepers:
            self.staging.add_channel(channel, staging_rows)
            self._channels[channel.name] = channel
        return keepers

    def _require_free(self, names: Sequence[str]) -> None:
        seen: set[str] = set()
        for name in names:
            if not name:
                raise InvalidParametersError(name="channel", value=name, rule="must not be empty")
            require_text("channel", name)
            if name in self._channels or name in seen:
                raise InvalidParametersError(name="channel", value=name, rule="must be a name that is not in use")
            seen.add(name)

    def remove_channel(self, name: str) -> None:
        """Forget a channel, so that its name is free; producers and consumers that are connected get an error.

        Raises:
            UnknownChannelError: there is none of this name.
        """
        channel = self.served(name)
        channel.remove()
        if isinstance(channel, ReplayChannel):
            self.staging.remove_channel(name)
        del self._channels[name]

    def channel(self, name: str) -> BridgeChannel:
        """The channel of this name, which is read once.

        Raises:
            UnknownChannelError: there is none.
            RetentionError: it keeps its rows, and has no ends inside this process.
        """
        channel = self.served(name)
        if isinstance(channel, BridgeChannel):
            return channel
        rule = "has no ends inside the exchange: append and read"
        raise RetentionError(channel=name, retention=Retention.REPLAY.value, rule=rule)

    def replay_channel(self, name: str) -> ReplayChannel:
        """The channel of this name, which keeps its rows.

        Raises:
            UnknownChannelError: there is none.
            RetentionError: it does not keep them.
        """
        channel = self.served(name)
        if isinstance(channel, ReplayChannel):
            return channel
        rule = "keeps no rows: nothing can be acknowledged, published or asked"
        raise RetentionError(channel=name, retention=Retention.ONCE.value, rule=rule)

    def served(self, name: str) -> BridgeChannel | ReplayChannel:
        """The channel of this name, whatever it does with its rows.

        Raises:
            UnknownChannelError: there is none.
            InvalidParametersError: nor could there be one: the name is too long.
        """
        try:
            return self._channels[name]
        except KeyError:
            require_name("channel", name)
            raise UnknownChannelError(channel=name, known=tuple(self._channels)) from None

    def statistics(self, names: Sequence[str] = ()) -> tuple[BridgeStatistics, ...]:
        """What has happened so far, channel by channel: of these, or of all in the order in which they were added.

        Raises:
            UnknownChannelError: there is no such channel.
        """
        return tuple(self.each_statistics(names))

    def each_statistics(self, names: Sequence[str] = ()) -> Iterator[BridgeStatistics]:
        """As ``statistics``, one by one; channels may come and go meanwhile."""
        channels = [self.served(name) for name in names] if names else [*self._channels.values()]
        for channel in channels:
            if names or channel.name in self._channels:
                yield self._statistics_of(self.served(channel.name))

    def _statistics_of(self, channel: BridgeChannel | ReplayChannel) -> BridgeStatistics:
        if isinstance(channel, BridgeChannel):
            return channel.statistics()
        return replace(channel.statistics(), staging=self.staging.statistics(channel.name))
