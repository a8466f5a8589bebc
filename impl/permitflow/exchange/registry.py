"""The channels of an exchange by their names."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Literal, Protocol, TypedDict, Unpack, overload

import pyarrow as pa

from permitflow.carriers.same_host import SameHost
from permitflow.carriers.security import Security
from permitflow.chunks import DEFAULT_KEPT_ROWS
from permitflow.client.remote_end import AcceptorTerms
from permitflow.errors import (
    ChannelRemovedError,
    ChannelResetError,
    InvalidParametersError,
    MovedError,
    PermitflowError,
    RetentionError,
    StoreError,
    UnknownChannelError,
)
from permitflow.exchange.access import Access
from permitflow.exchange.admission import Admission, Slot, limit_reached
from permitflow.exchange.books.attempts import AttemptBooks
from permitflow.exchange.books.replay import DEFAULT_CONSUMER, require_consumers
from permitflow.exchange.books.staging import DEFAULT_TIMEOUT_SECONDS, require_room
from permitflow.exchange.certificate_watch import CertificateWatch, Validity
from permitflow.exchange.channels.bridge_channel import BridgeChannel
from permitflow.exchange.channels.replay_channel import ReplayChannel, settled
from permitflow.exchange.channels.staging import StagingAreas
from permitflow.exchange.health import Readiness
from permitflow.exchange.limits import Limits
from permitflow.exchange.stores.store import Store, require_expiry
from permitflow.exchange.turns import Turns
from permitflow.flows.adaptive_window import require_latency
from permitflow.flows.byte_window import DEFAULT_BYTE_WINDOW, ByteWindow, require_byte_window
from permitflow.flows.permits.agreement import PERMITS
from permitflow.flows.permits.parameters import KEPT_PARAMETERS, ONCE_PARAMETERS
from permitflow.flows.recording import RecorderFactory
from permitflow.flows.seam import Parameters
from permitflow.names import require_name, require_no_further
from permitflow.stream.compression import Compression, checked
from permitflow.stream.control import ControlReply, ControlRequest, Retention
from permitflow.stream.traffic import ChannelTraffic
from permitflow.wire.arrow import MAX_CHUNK_BYTES
from permitflow.wire.arrow_compression import available_codecs
from permitflow.wire.schemas import read_schema
from permitflow.wire.texts import require_text

# Default staging room per kept row: two batches, one read and one written, each twice as large as the kept rows.
STAGED_SHARE = 4
# Of some hundred fields: it is read at once.
_SHORT_SCHEMA_BYTES = 16 << 10


class Elsewhere(Protocol):
    """The channels of an exchange that other processes have."""

    @property
    def known(self) -> Collection[str]:
        """The names of those that this process knows of, also if their process is lost."""
        ...

    def missing(self, channel: str) -> PermitflowError:
        """Why this process does not serve a channel: ``MovedError`` where another one does."""
        ...

    async def carry_out(self, request: ControlRequest, access: Access) -> ControlReply[pa.Schema]:
        """Carry out an allowed control request for all processes, or say why not."""
        ...


class Keeping(TypedDict, total=False):
    """Further arguments for channels that keep rows."""

    consumers: Sequence[str]
    """The consumers to keep rows for; by default one, ``default``.  A channel that is read once has an unnamed one."""
    kept_rows: int | None
    """The most rows to keep before producers wait; by default the window of the flow, or 1,048,576."""
    staging_rows: int | None
    """The most rows to stage, or to publish beyond ``kept_rows``; by default four times ``kept_rows``."""
    expire_seconds: float | None
    """Rows are dropped after so long, acknowledged or not; by default they never are."""
    expire_bytes: int | None
    """The oldest rows are dropped above this many bytes in memory, acknowledged or not; by default they never are."""


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
        limits: Limits | None = None,
        byte_window: int = DEFAULT_BYTE_WINDOW,
        target_latency_seconds: float | None = None,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        """Start without channels.

        Args:
            parameters: the default for added channels, of any flow; without it permits with 131,072 rows of window,
                or 1,048,576 for channels that keep their rows.
            record: opens the recorders of all ends inside the exchange: two for each channel, and one for each
                stream of a producer or consumer.
            same_host: whether to share memory with peers on this host.
            compression: of chunks to and from peers that agree; ``auto``: if the peer asks for it.
            checksums: whether each message of a stream over a network carries one; control messages always do.
            store: keeps the rows that can be read again; by default in memory.  The caller closes it.
            staging_timeout_seconds: staged rows of a query are dropped after this many seconds without its requests.
            limits: what is served at most; by default ``Limits()``.
            byte_window: the default for added channels.
            target_latency_seconds: likewise, for channels of permits that are read once.
            elsewhere: other processes that have channels of this exchange; None: there are none.

        Raises:
            InvalidParametersError: the codec for ``compression`` is not available, ``byte_window`` is not a whole
                number of at least 1, or ``target_latency_seconds`` is out of its range or given beside ``record``.
        """
        if target_latency_seconds is not None:
            require_latency(target_latency_seconds)
            if record is not None:
                rule = "must be None where channels are recorded: a recording cannot tell of a window that changes"
                raise InvalidParametersError(name="target_latency_seconds", value=target_latency_seconds, rule=rule)
        self._target_latency_seconds = target_latency_seconds
        self._byte_window = require_byte_window(byte_window)
        self._parameters = parameters
        self._channels: dict[str, BridgeChannel | ReplayChannel] = {}
        self._store = store or Store()
        self.turns = Turns()
        """Share the event loop between long pieces of work."""
        self.staging = StagingAreas(self._store, staging_timeout_seconds, turns=self.turns)
        """The rows that are not published yet."""
        self.attempts = AttemptBooks()
        """Which tasks of jobs have sent rows directly."""
        self.record = record
        self.terms = AcceptorTerms(same_host, checked(compression, available_codecs()), checksums)
        """Of all streams to and from peers."""
        self.elsewhere = elsewhere
        self.readiness = Readiness(lambda: self._store.is_own)
        self.admission = Admission(limits or Limits())
        """What is open, and may be."""
        self._memory: dict[str, Slot] = {}  # of channels
        self._servers = set[object]()
        self._certificates: dict[object, tuple[Security, CertificateWatch]] = {}  # by server
        self._past_lives = 0
        """How many channels were removed or reset: their names are not kept."""

    @property
    def names(self) -> Collection[str]:
        """The names of all channels, in the order of adding."""
        return self._channels.keys()

    async def read_schema(self, data: bytes) -> pa.Schema:
        """Decode a schema that a peer sent; a large one waits for its turn.

        Raises:
            UndecodableDataError: it is not a schema, or exceeds a limit.
        """
        if len(data) <= _SHORT_SCHEMA_BYTES:
            return read_schema(data)
        return await self.turns.run(partial(read_schema, data))

    @property
    def most_bytes(self) -> int | None:
        """The most bytes of chunks in all channels, with a producer and a consumer of each.

        None: some channel keeps its rows, of which only the number is bounded.
        """
        if self._keepers:
            return None
        return sum(3 * channel.stream_most_bytes for channel in self._channels.values())

    def begin_serving(self, server: object) -> None:
        """A server runs from now on: look each second for rows that expire."""
        self._servers.add(server)
        self.staging.go_on()
        for channel in self._keepers:
            channel.expiring.go_on()

    async def end_serving(self, server: object) -> None:
        """A server is over, or cannot begin.  With the last one, all background work ends: the store may be closed."""
        self._servers.discard(server)
        self._certificates.pop(server, None)
        if not self._servers:
            writing = self.staging.stop().union(*(channel.expiring.stop() for channel in self._keepers))
            if writing:
                await asyncio.wait(writing)

    def certificate_watch(self, server: object, security: Security) -> CertificateWatch:
        """That of a server: one for all that show the same certificate."""
        watches = (watch for shown, watch in self._certificates.values() if shown == security)
        watch = next(watches, None) or CertificateWatch(security)
        self._certificates[server] = security, watch
        return watch

    @property
    def certificate(self) -> Validity | None:
        """Of the certificates that its servers show, the one that expires first; None: they show none."""
        found = (watch.validity for _, watch in self._certificates.values())
        return min(filter(None, found), key=lambda each: each.ends_at, default=None)

    @property
    def _keepers(self) -> list[ReplayChannel]:
        return [channel for channel in self._channels.values() if isinstance(channel, ReplayChannel)]

    @property
    def is_durable(self) -> bool:
        """Do kept rows survive the exchange?"""
        return self._store.is_durable

    def require_own_store(self) -> None:
        """See ``Store.require_own``."""
        self._store.require_own()

    async def until_lost(self) -> StoreError:
        """Wait until another exchange has taken the store over; then end all servers, so that peers dial that one."""
        return await self._store.until_lost()

    @overload
    def add_channel(
        self,
        name: str,
        parameters: Parameters | None = None,
        schema: pa.Schema | None = None,
        *,
        retention: Literal[Retention.ONCE] = Retention.ONCE,
        byte_window: int | None = None,
        target_latency_seconds: float | None = None,
    ) -> BridgeChannel: ...

    @overload
    def add_channel(
        self,
        name: str,
        parameters: Parameters | None = None,
        schema: pa.Schema | None = None,
        *,
        retention: Literal[Retention.REPLAY],
        byte_window: int | None = None,
        target_latency_seconds: float | None = None,
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
        byte_window: int | None = None,
        target_latency_seconds: float | None = None,
        **keeping: Unpack[Keeping],
    ) -> BridgeChannel | ReplayChannel: ...

    def add_channel(
        self,
        name: str,
        parameters: Parameters | None = None,
        schema: pa.Schema | None = None,
        *,
        retention: Retention = Retention.ONCE,
        byte_window: int | None = None,
        target_latency_seconds: float | None = None,
        **keeping: Unpack[Keeping],
    ) -> BridgeChannel | ReplayChannel:
        """Add a channel.

        Args:
            name: unique among the channels of this exchange.
            parameters: for the channel, and the limit for each of its streams; of any flow.
            byte_window: the most bytes in the channel at once, and in each of its streams; a larger chunk passes while
                less than a quarter of it is there.  None: the default of the exchange.
            target_latency_seconds: let the windows of the channel and of its producers' streams adapt, so that rows
                wait about this long at the exchange; each consumer states its own beside it.  None: the default of the
                exchange.  Only for channels of permits that are read once.
            schema: of the chunks; by default the first producer's.
            retention: whether rows are read once, or kept until they are acknowledged.
            keeping: for a channel that keeps its rows, see ``Keeping``.

        Raises:
            InvalidParametersError: the name is empty, taken, or not valid UTF-8; the consumers are invalid; there is
                no room for a row; or the latency is out of its range, or no window of such a channel adapts.
            LimitReachedError: there are as many channels as there may be, or not enough memory for them.
            SchemaMismatchError: the store has the channel with another schema.
            StoreError: the store has the channel with other settings, or cannot be read.
        """
        (channel,) = self.add_channels(
            [name],
            parameters,
            schema,
            retention=retention,
            byte_window=byte_window,
            target_latency_seconds=target_latency_seconds,
            **keeping,
        )
        return channel

    def add_channels(
        self,
        names: Sequence[str],
        parameters: Parameters | None = None,
        schema: pa.Schema | None = None,
        *,
        retention: Retention = Retention.ONCE,
        byte_window: int | None = None,
        target_latency_seconds: float | None = None,
        **keeping: Unpack[Keeping],
    ) -> Sequence[BridgeChannel | ReplayChannel]:
        """Add several channels with the same settings, all or none, with a single flush of a store on disk.

        Args and errors are those of ``add_channel``.
        """
        self._require_free(names)
        if len(self._channels) + len(names) > (most := self.admission.limits.max_channels):
            raise limit_reached("max_channels", most)
        chosen = parameters or self._parameters
        consumers = keeping.get("consumers", (DEFAULT_CONSUMER,))
        window = ByteWindow(self._byte_window if byte_window is None else require_byte_window(byte_window))
        if retention is Retention.ONCE:
            if tuple(consumers) != (DEFAULT_CONSUMER,):
                rule = "are named for channels with retention 'replay' only"
                raise InvalidParametersError(name="consumers", value=tuple(consumers), rule=rule)
            chosen = chosen or ONCE_PARAMETERS
            with ExitStack() as taken:
                size_bytes = window.most_bytes(MAX_CHUNK_BYTES)
                memory = [taken.enter_context(self.admission.memory.take(size_bytes)) for _ in names]
                if target_latency_seconds is None and chosen.flow is PERMITS:
                    target_latency_seconds = self._target_latency_seconds
                bridges = [self._bridge(name, chosen, schema, window, target_latency_seconds) for name in names]
                taken.pop_all()
            self._memory.update(zip(names, memory, strict=True))
            self._channels.update(zip(names, bridges, strict=True))
            for name in names:
                self.attempts.open_channel(name)
            return bridges
        if target_latency_seconds is not None:
            rule = "must be None for channels with retention 'replay': their rows are kept, and each consumer states it"
            raise InvalidParametersError(name="target_latency_seconds", value=target_latency_seconds, rule=rule)
        chosen = chosen or KEPT_PARAMETERS
        kept_rows, staging_rows = keeping.get("kept_rows"), keeping.get("staging_rows")
        limit_rows = (chosen.window_rows or DEFAULT_KEPT_ROWS) if kept_rows is None else kept_rows
        staging_rows = STAGED_SHARE * limit_rows if staging_rows is None else staging_rows
        # Check before the store writes: its files would block a corrected call.
        require_consumers(consumers)
        for consumer in consumers:
            require_text("consumers", consumer)
        require_room(kept_rows=limit_rows, staging_rows=staging_rows)
        expiry = require_expiry(keeping.get("expire_seconds"), keeping.get("expire_bytes"))
        places = self._store.open_channels(names, parameters=chosen, consumers=consumers, schema=schema)
        keepers = [
            ReplayChannel(
                name,
                chosen,
                schema,
                place,
                consumers,
                limit_rows,
                self.attempts,
                self._told_name(name),
                window,
                expiry,
            )
            for name, place in zip(names, places, strict=True)
        ]
        for channel in keepers:
            self.staging.add_channel(channel, staging_rows)
            self._channels[channel.name] = channel
            books = channel.books
            self.attempts.open_channel(channel.name, found_rows=range(books.first_kept_row, books.next_row))
            if self._servers:
                channel.expiring.go_on()
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

    def _bridge(
        self,
        name: str,
        parameters: Parameters,
        schema: pa.Schema | None,
        window: ByteWindow,
        target_latency_seconds: float | None,
    ) -> BridgeChannel:
        return BridgeChannel(
            name,
            parameters,
            schema,
            self.record,
            self.attempts,
            self._told_name(name),
            window,
            target_latency_seconds,
        )

    def _told_name(self, name: str) -> str:
        """The name of a channel in recordings and in the names of its streams, which no other one ever has."""
        return f"{name}#{self._past_lives + 1}" if self._past_lives else name

    async def remove_channel(self, name: str) -> int:
        """Forget a channel, its rows and its name; return how many producers and consumers were connected.

        They get ``ChannelRemovedError``.

        Raises:
            UnknownChannelError: no channel has this name.
            StoreError: the store cannot write it; the channel stays as it was.
        """
        (ended,) = await self.remove_channels([name])
        return ended

    @settled
    async def remove_channels(self, names: Sequence[str], require: Callable[[], None] = lambda: None) -> list[int]:
        """As ``remove_channel``, several channels, all or none.

        Args:
            names: of the channels.
            require: called once nothing is written into them any more; raises if they are to stay.

        Raises:
            UnknownChannelError: no channel has one of these names; none was removed.
            StoreError: the store cannot write it; none was removed.
        """
        async with AsyncExitStack() as held:
            await held.enter_async_context(self.staging.ordering)
            for channel in [self.served(name) for name in names]:
                if isinstance(channel, ReplayChannel):
                    await held.enter_async_context(channel.at_rest())
            require()
            await self._store.remove(names)
            return [self._remove(name) for name in names]

    def _remove(self, name: str) -> int:
        channel = self.served(name)
        if isinstance(channel, ReplayChannel):
            ended = channel.remove()
            self.staging.remove_channel(name)
        else:
            ended = channel.retire(ChannelRemovedError)
        self._past_lives += 1
        self.attempts.remove_channel(name)
        del self._channels[name]
        if (place := self._memory.pop(name, None)) is not None:
            place.leave()
        return ended

    async def reset_channel(self, name: str) -> int:
        """Make a channel usable again that is spent, broken or ended; return how many streams were ended for it.

        They get ``ChannelResetError``.  A channel that is read once begins anew, without its messages, with its
        settings, at once.  One that keeps its rows is open again for producers, and has lost nothing.

        Raises:
            UnknownChannelError: no channel has this name.
            StoreError: the store cannot write it; the channel stays as it was.
        """
        channel = self.served(name)
        if isinstance(channel, ReplayChannel):
            return await self._reopen(channel)
        self.attempts.open_channel(name, reset_row=0)
        return self._begin_anew(channel, ChannelResetError)

    @settled
    async def _reopen(self, channel: ReplayChannel) -> int:
        await channel.reopen()
        self.attempts.open_channel(channel.name, reset_row=channel.books.next_row)
        return self._begin_anew(channel, ChannelResetError)

    def _begin_anew(self, channel: BridgeChannel | ReplayChannel, error: Callable[..., ChannelResetError]) -> int:
        """End the streams of a channel; how many."""
        name = channel.name
        if isinstance(channel, ReplayChannel):
            return channel.dismiss(error(channel=name))
        self._past_lives += 1
        self._channels[name] = self._bridge(
            name, channel.parameters, channel.declared_schema, channel.window, channel.target_latency_seconds
        )
        return channel.retire(error)

    def hear_failed(self, job: str, name: str, since_row: int | None = None) -> None:
        """Note that a job has failed; a channel without rows of it stays as it is: the caller must not break it.

        If no row at all has come into the channel, those who wait for the first one are told.  ``since_row``: the next
        row of its log when the job was planned; None: not known, or it has no log.

        Raises:
            ChannelResetError: no row of the job has come into the channel, or the channel was reset since.
            UnknownChannelError: no channel has this name.
        """
        channel = self.served(name)
        if self.attempts.fail(job, name, since_row):
            return
        reason = f"job {job!r} has failed before its first row here"
        if channel.is_untouched_but_for(job):
            self._begin_anew(channel, partial(ChannelResetError, reason=reason))
        raise ChannelResetError(channel=name, reason=reason)

    def channel(self, name: str) -> BridgeChannel:
        """The channel of this name, which must be read once.

        Raises:
            UnknownChannelError: no channel has this name.
            RetentionError: the channel keeps its rows, and has no ends inside this process.
        """
        channel = self.served(name)
        if isinstance(channel, BridgeChannel):
            return channel
        rule = "has no ends inside the exchange: append and read"
        raise RetentionError(channel=name, retention=Retention.REPLAY.value, rule=rule)

    def replay_channel(self, name: str) -> ReplayChannel:
        """The channel of this name, which must keep its rows.

        Raises:
            UnknownChannelError: no channel has this name.
            RetentionError: the channel keeps no rows.
        """
        channel = self.served(name)
        if isinstance(channel, ReplayChannel):
            return channel
        rule = "keeps no rows: nothing can be acknowledged, published or asked"
        raise RetentionError(channel=name, retention=Retention.ONCE.value, rule=rule)

    def served(self, name: str) -> BridgeChannel | ReplayChannel:
        """The channel of this name, with any retention.

        Raises:
            UnknownChannelError: no channel has this name.
            MovedError: another process of this exchange has it.
            InvalidParametersError: the name is too long.
        """
        try:
            return self._channels[name]
        except KeyError:
            require_name("channel", name)
            if self.elsewhere is not None:
                raise self.elsewhere.missing(name) from None
            raise UnknownChannelError(channel=name, known=tuple(self._channels)) from None

    def require_no_further(self, name: str, channels: int) -> None:
        """Require that the stream of this channel has no others than the first ``channels``.

        Raises:
            InvalidParametersError: it has, or the channel is not one of these.
        """
        known = chain(self._channels, () if self.elsewhere is None else self.elsewhere.known)
        require_no_further(name, known, channels)

    def require_known(self, names: Iterable[str]) -> None:
        """Require that the exchange has these channels, in whichever of its processes.

        Raises:
            UnknownChannelError: it lacks one.
            PeerGoneError: the process of one is lost.
        """
        for name in names:
            with suppress(MovedError):
                self.served(name)

    def statistics(self, names: Sequence[str] = ()) -> tuple[ChannelTraffic, ...]:
        """A snapshot of these channels, or of all in the order of adding.

        Raises:
            UnknownChannelError: no channel has one of these names.
        """
        return tuple(self.each_statistics(names))

    def each_statistics(self, names: Sequence[str] = ()) -> Iterator[ChannelTraffic]:
        """As ``statistics``, one by one; channels may be added and removed meanwhile."""
        channels = [self.served(name) for name in names] if names else [*self._channels.values()]
        for channel in channels:
            if names or channel.name in self._channels:
                yield self._statistics_of(self.served(channel.name))

    def _statistics_of(self, channel: BridgeChannel | ReplayChannel) -> ChannelTraffic:
        told = channel.statistics()
        if told.kept is None:
            return told
        staging, name = self.staging, channel.name
        staged_rows, in_doubt_rows = staging.area(name).staged_rows, staging.in_doubt_rows(name)
        return replace(told, kept=replace(told.kept, staged_rows=staged_rows, in_doubt_rows=in_doubt_rows))
