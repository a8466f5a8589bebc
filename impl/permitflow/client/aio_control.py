"""Questions and orders to one exchange or several: positions, acknowledgements, publications, administration."""

import asyncio
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from itertools import chain, starmap
from time import monotonic
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa

from permitflow.cancelling import cancel_all
from permitflow.carriers.addresses import ranked, several
from permitflow.carriers.calling import calling
from permitflow.carriers.connection import CONTROL
from permitflow.carriers.deadlines import SILENCE_SECONDS
from permitflow.carriers.reaching import Destination
from permitflow.carriers.security import Security
from permitflow.client.control_line import ControlLine
from permitflow.client.finding import Timing, not_found, resume_seconds_of
from permitflow.client.survey import Survey, require_one_place, surveyed
from permitflow.errors import (
    ChannelClosedError,
    InvalidParametersError,
    PeerGoneError,
    PeerTimeoutError,
    PermitflowError,
    SecurityError,
    UnknownChannelError,
)
from permitflow.flows.seam import Parameters
from permitflow.names import require_no_further
from permitflow.patience import patience
from permitflow.stream.control import (
    MOST_CHANNELS,
    Acknowledge,
    AddStream,
    AskChannels,
    AskPositions,
    AskStatistics,
    Changed,
    ChangedChannel,
    ChannelPosition,
    ChannelRow,
    Channels,
    Close,
    ControlReply,
    ControlRequest,
    Discard,
    Discarded,
    ListedChannel,
    Peek,
    Peeked,
    Positions,
    Prepare,
    Publish,
    Published,
    Purge,
    RemoveChannels,
    ResetChannels,
    Retention,
    Rollback,
    StagedPart,
)
from permitflow.stream.divided_control import about, merged
from permitflow.stream.traffic import ChannelTraffic, Statistics
from permitflow.wire.arrow import BatchCodec
from permitflow.wire.buffers import Received
from permitflow.wire.control_codec import encode_request, read_answer, require_short
from permitflow.wire.wire_errors import SILENT

R = TypeVar("R", bound=ControlReply[pa.Schema])
L = TypeVar("L", Statistics, Channels[pa.Schema])
T = TypeVar("T")

# For each of several exchanges.
_DIAL_SECONDS = 1.0
# For their answers to the question whether two of them have a channel.
_SURVEY_SECONDS = 5.0

Listed: TypeAlias = tuple[ListedChannel[pa.Schema], ...]
"""Channels with their counts and connections, in the order of the request, or of adding."""

Where: TypeAlias = tuple[ChannelPosition[pa.Schema], ...]
"""The channels' positions, in the order of the request."""


class AioControl:
    """One stream of questions and orders.  Tasks that share it take turns.

    Unless it is a publication, an order about more than 1,000 channels or attempts is sent as several requests; if one
    of them fails, those before it were carried out.

    An order that fails ends the stream: call ``control`` again for the next one.  An unanswered or cancelled order may
    or may not have been carried out.  After a lost connection it is repeated over another one, for at most
    ``resume_seconds``, except those that change the channels themselves (``add_stream``, ``remove``, ``reset``,
    ``purge``): repeated, they would do something else, so they fail, and ``channels`` tells what was done.
    """

    def __init__(self, line: ControlLine, address: str, who: str, timeout_seconds: float) -> None:
        """Use ``control``."""
        self._line = line
        self._address = address
        self._who = who
        self._timeout_seconds = timeout_seconds
        self._turn = asyncio.Lock()
        self._is_closed = False
        self._survey = Survey()

    async def positions(self, channels: Sequence[str], *, consumer: str = "") -> Where:
        """Ask for the positions of channels, in this order.

        Args:
            channels: names.
            consumer: the one whose position is wanted; empty: the consumer ``default``.

        Raises:
            UnknownChannelError: the exchange has no such channel.
            RetentionError: one of them does not keep its rows.
            UnknownConsumerError: one of them keeps no rows for this consumer.
            ChannelClosedError: an order has failed before, or the block was left.
            PeerTimeoutError: no reply in time.
            PeerGoneError: the exchange has gone.
        """
        return await self._where(partial(AskPositions, consumer=consumer), names_of(channels))

    async def acknowledge(self, rows: Mapping[str, int] | Sequence[ChannelRow], *, consumer: str = "") -> Where:
        """Acknowledge all rows before these for a consumer; an earlier row than before changes nothing.

        Args:
            rows: by channel: the first row that is still needed; or the same with the log in which it was counted.
            consumer: empty: the consumer ``default``.

        Raises:
            RowsNotThereError: the channel does not have one of these rows yet; nothing was acknowledged.
            LogReplacedError: the log of these rows was lost; nothing was acknowledged.
            StoreWriteError: the exchange could not write; some of the channels may be acknowledged.
            PermitflowError: as ``positions``.
        """
        named = tuple(starmap(ChannelRow, rows.items()) if isinstance(rows, Mapping) else rows)
        return await self._where(partial(Acknowledge, consumer=consumer), named)

    async def close_channels(self, channels: Sequence[str], *, consumer: str = "") -> Where:
        """Close these channels to all producers.  Ended channels stay as they are.

        Raises:
            PreparedRowsError: rows of one of them are prepared, and wait to be published; none was closed.
            StoreWriteError: the exchange could not write; some of the channels may be closed.
            PermitflowError: as ``positions``.
        """
        return await self._where(partial(Close, consumer=consumer), names_of(channels))

    async def prepare(self, query: str, batch: int, parts: Sequence[StagedPart]) -> Published:
        """Keep attempts until the batch is published, however long that takes, all or none.

        Of a batch that lies at several exchanges, prepare all of it before you publish at the first one.

        Raises:
            UndecodableDataError: the exchange is older, and does not know this order.
            PermitflowError: as ``publish``.
        """
        return await self._ask(Prepare(query, batch, tuple(parts)), Published)

    async def publish(self, query: str, batch: int, parts: Sequence[StagedPart]) -> Published:
        """Make one attempt at each partition of a batch part of its channel, all or none.

        Raises:
            StagingError: an attempt is not staged; nothing was published.
            PermitflowError: as ``positions``.
        """
        return await self._ask(Publish(query, batch, tuple(parts)), Published)

    async def discard(self, query: str, batch: int, parts: Sequence[StagedPart]) -> Discarded:
        """Discard these attempts at a batch, unless they are published; other attempts stay.

        Raises:
            PermitflowError: as ``positions``.
        """
        found = [await self._ask(Discard(query, batch, some), Discarded) for some in _portions(tuple(parts))]
        return Discarded(sum(each.rows for each in found))

    async def statistics(self, channels: Sequence[str] = (), *, partial: bool = False) -> Statistics:
        """Ask for the traffic counts of channels of any kind.

        Args:
            channels: names, in the order of the answer; none: all that the exchange has.
            partial: of several exchanges, also if only some answer, or two have the same channel: see ``survey``.

        Raises:
            UnknownChannelError: the exchange has no such channel.
            InvalidParametersError: two exchanges have the same channel.
            PermitflowError: as ``positions``.
        """
        found = await self._told(AskStatistics, Statistics, names_of(channels))
        return Statistics(found[0].at_seconds, tuple(chain.from_iterable(each.channels for each in found)))

    # Administration.

    async def channels(self, channels: Sequence[str] = (), *, partial: bool = False) -> Listed:
        """Ask what channels there are: their state, schema and parameters, their counts, and who is connected.

        Args:
            channels: names, in the order of the answer; none: all that the exchange has.
            partial: as for ``statistics``.

        Raises:
            UnknownChannelError: the exchange has no such channel.
            InvalidParametersError: two exchanges have the same channel.
            PermitflowError: as ``positions``.
        """
        found = await self._told(AskChannels, Channels, names_of(channels))
        return tuple(chain.from_iterable(each.channels for each in found))

    async def _told(
        self, ask: type[AskStatistics] | type[AskChannels], kind: type[L], names: tuple[str, ...]
    ) -> list[L]:
        """The replies about these channels, or about all."""
        if names:
            return [await self._ask(ask(some), kind) for some in _portions(names)]
        found = [await self._ask(ask(), kind)]
        while len(found[-1].channels) == MOST_CHANNELS:
            found.append(await self._ask(ask(first=len(found) * MOST_CHANNELS), kind))
        return found

    async def add_stream(
        self,
        stream: str,
        channels: int = 1,
        parameters: Parameters | None = None,
        *,
        schema: pa.Schema | None = None,
        retention: Retention = Retention.ONCE,
        consumers: Sequence[str] = (),
        kept_rows: int | None = None,
        staging_rows: int | None = None,
        expire_seconds: float | None = None,
        expire_bytes: int | None = None,
        byte_window: int | None = None,
        target_latency_seconds: float | None = None,
    ) -> Listed:
        """Add the channels ``stream/0``, ``stream/1`` and so on, all or none.

        Args:
            stream: its name.
            channels: how many, at most 1,000.
            parameters: of any flow, for each channel; None: those of the exchange.
            schema: of the chunks; None: the first producer's.
            retention: whether rows are read once, or kept until they are acknowledged.
            consumers: for whom rows are kept; none: for one, ``default``.
            kept_rows: the most rows of a channel that are kept before producers wait; None: its window.
            staging_rows: the most rows of a channel that may be staged; None: four times ``kept_rows``.
            expire_seconds: kept rows are dropped after so long, needed or not; None: never.
            expire_bytes: the oldest kept rows are dropped above this many bytes; None: never.
            byte_window: the most bytes in a channel at once; None: that of the exchange.
            target_latency_seconds: how long rows may wait at the exchange, where the windows of a channel and of its
                producers' streams adapt to it; None: that of the exchange.

        Raises:
            InvalidParametersError: a name is taken, or an option does not fit the others; nothing was added.
            SchemaMismatchError, StoreError: the store of the exchange has such channels with other settings.
            PermitflowError: as ``positions``.
        """
        request = AddStream(
            stream,
            channels,
            parameters,
            retention,
            names_of(consumers),
            kept_rows=kept_rows,
            staging_rows=staging_rows,
            expire_seconds=expire_seconds,
            expire_bytes=expire_bytes,
            byte_window=byte_window,
            target_latency_seconds=target_latency_seconds,
            schema=schema,
        )
        return (await self._ask(request, Channels)).channels

    async def remove(self, channels: Sequence[str], *, force: bool = False) -> tuple[ChangedChannel, ...]:
        """Remove channels, with all rows that they keep, also on disk; their names are free then.

        Args:
            channels: names.
            force: also while they are used: their streams end with ``ChannelRemovedError``, and rows that wait, are
                staged or prepared are dropped.

        Raises:
            ChannelInUseError: streams are open, or rows wait; nothing was removed.
            PreparedRowsError: rows are prepared, and other exchanges may publish the rest of their batch; nothing was
                removed.
            PermitflowError: as ``positions``.
        """
        return await self._change(partial(RemoveChannels, force=force), channels)

    async def reset(self, channels: Sequence[str], *, force: bool = False) -> tuple[ChangedChannel, ...]:
        """Make channels usable again that are spent, broken or ended.

        One that is read once begins anew: what waits in it is dropped.  One that keeps its rows is open again for
        producers; its rows, their numbers, and the positions of consumers and of named producers stay.

        Args:
            channels: names.
            force: also while they are used: their streams end with ``ChannelResetError``, also those that have lost
                their connection and come again.

        Raises:
            ChannelInUseError: streams are open, or rows wait that would be dropped; nothing was reset.
            PermitflowError: as ``positions``.
        """
        return await self._change(partial(ResetChannels, force=force), channels)

    async def _change(
        self, order: Callable[[tuple[str, ...]], ControlRequest], channels: Sequence[str]
    ) -> tuple[ChangedChannel, ...]:
        found = [await self._ask(order(names), Changed) for names in _portions(names_of(channels))]
        return tuple(chain.from_iterable(each.channels for each in found))

    async def purge(self, channels: Sequence[str], *, consumer: str = "") -> tuple[ChangedChannel, ...]:
        """Drop the rows and barriers that wait in channels; their permits return, and streams go on.

        A channel that is read once loses what is in it, but not what its consumer's stream has taken on.  If a channel
        keeps its rows, all that are there are acknowledged, and a stream that was to read them gets
        ``RowsForgottenError``.

        Args:
            channels: names.
            consumer: of channels that keep their rows: whose rows; empty: those of all consumers.

        Raises:
            ChannelInUseError: a message waits for room with the consumer; this channel was not purged.
            UnknownConsumerError: one of them keeps no rows for this consumer; nothing was purged.
            PermitflowError: as ``positions``.
        """
        return await self._change(partial(Purge, consumer=consumer), channels)

    async def rollback(self, channels: Sequence[str]) -> tuple[ChangedChannel, ...]:
        """Forget attempts that are in doubt: prepared, of queries of which nothing was heard for long.

        If their query comes again, its batch cannot be published as a whole, and it says so.

        Raises:
            RetentionError: one of the channels does not keep its rows; nothing was rolled back.
            StoreError: the exchange could not write its store; repeat the order once it can.
            PermitflowError: as ``positions``.
        """
        return await self._change(Rollback, channels)

    async def peek(self, channel: str, rows: int = 10, *, consumer: str = "") -> pa.Table:
        """The first rows that wait in a channel; they stay there.

        Args:
            channel: its name.
            rows: the most, up to 10,000; fewer come if they take more than 8 MiB.
            consumer: of a channel that keeps its rows: whose rows; empty: those of the consumer ``default``.

        Returns:
            A table; without columns if no producer has stated the schema yet.

        Raises:
            UnknownConsumerError: the channel keeps no rows for this consumer.
            UndecodableDataError: the rows cannot be decoded.
            PermitflowError: as ``positions``.
        """
        found: Peeked[pa.Schema] = await self._ask(Peek(channel, rows, consumer), Peeked)
        if found.schema is None:
            return pa.table({})
        codec = BatchCodec(found.schema)
        batches = [codec.decode(each.data, [each.rows]) for each in found.batches]
        return pa.Table.from_batches(batches, found.schema)

    async def _where(self, ask: Callable[[tuple[T, ...]], ControlRequest], items: tuple[T, ...]) -> Where:
        found = [await self._ask(ask(some), Positions) for some in _portions(items)]
        return tuple(chain.from_iterable(each.channels for each in found))

    async def _ask(self, request: ControlRequest, kind: type[R]) -> R:
        message = encode_request(request)
        require_short(request, message)
        async with self._one_order():
            reply = await self._reply_to(message, is_repeatable=request.is_repeatable)
            return read_answer(reply, kind, [*request.named])

    @asynccontextmanager
    async def _one_order(self) -> AsyncIterator[None]:
        """An order in its turn; after a failure none follows, because a late reply would be taken for that to it."""
        async with self._turn:
            if self._is_closed:
                raise ChannelClosedError(end="control stream")
            self._is_closed = True
            yield
            self._is_closed = False

    async def _reply_to(self, message: bytes, *, is_repeatable: bool) -> Received:
        try:
            async with patience(self._timeout_seconds):
                reply = await self._line.ask(message, is_repeatable=is_repeatable)
        except PermitflowError:  # some are TimeoutErrors
            raise
        except TimeoutError:
            reason = f"no reply within {self._timeout_seconds:g} s; {SILENT}"
            raise PeerTimeoutError(who=self._who, reason=reason) from None
        if reply is None:
            raise PeerGoneError(who=self._who, reason="it closed the stream without a reply")
        return reply

    async def by_exchange(self, channels: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Which exchange has which of these channels, by its address; with a single address, all are there.

        Raises:
            UnknownChannelError: none of several exchanges has one of them.
            PermitflowError: as ``positions``.
        """
        return {self._address: names_of(channels)}

    @property
    def survey(self) -> Survey:
        """Where the channels are of which several exchanges were asked, and what was amiss when all were."""
        return self._survey

    @property
    def is_closed(self) -> bool:
        """Does it take no more orders?"""
        return self._is_closed

    def close(self) -> None:
        """Accept no more orders."""
        self._is_closed = True

    async def hang_up(self) -> None:
        """Accept no more orders, and let go of the connection."""
        self.close()
        await self._line.close()


class _ControlOfSeveral(AioControl):
    """Questions and orders about channels that several exchanges have: each gets those about its own."""

    def __init__(self, addresses: Sequence[str], dial: Callable[[str], Awaitable[AioControl]]) -> None:
        self._addresses, self._dial = addresses, dial
        self._turn = asyncio.Lock()
        self._is_closed = False
        self._survey = Survey()
        self._lines: dict[str, AioControl] = {}
        self._found: dict[str, str] = {}

    async def by_exchange(self, channels: Sequence[str]) -> dict[str, tuple[str, ...]]:
        async with self._turn:
            return await self._divided(names_of(channels))

    async def _ask(self, request: ControlRequest, kind: type[R]) -> R:
        if isinstance(request, AddStream):
            rule = "must be that of a single exchange, where the stream is to be added"
            raise InvalidParametersError(name="address", value=", ".join(self._addresses), rule=rule)
        async with self._one_order():
            reply = await self._of_each(request, kind)
        assert isinstance(reply, kind), "each exchange has answered so"
        return reply

    async def statistics(self, channels: Sequence[str] = (), *, partial: bool = False) -> Statistics:
        if channels:
            return await super().statistics(channels)
        told = await self._of_all(_statistics_of, lambda each: each.channel, partial=partial)
        return Statistics(monotonic(), tuple(told))

    async def channels(self, channels: Sequence[str] = (), *, partial: bool = False) -> Listed:
        if channels:
            return await super().channels(channels)
        return tuple(await self._of_all(AioControl.channels, lambda each: each.traffic.channel, partial=partial))

    async def _of_all(
        self, ask: Callable[[AioControl], Awaitable[Sequence[T]]], name_of: Callable[[T], str], *, partial: bool
    ) -> list[T]:
        async with self._one_order():
            found, self._survey = surveyed(await self._answers(ask), name_of, partial=partial)
            return found

    async def _answers(
        self, ask: Callable[[AioControl], Awaitable[Sequence[T]]]
    ) -> dict[str, Sequence[T] | PeerGoneError]:
        """What each exchange answers, by address."""

        async def answer(address: str) -> Sequence[T] | PeerGoneError:
            try:
                return await ask(await self._line_to(address))
            except PeerGoneError as error:
                return error

        return dict(zip(self._addresses, await _together(map(answer, self._addresses)), strict=True))

    async def _of_each(self, request: ControlRequest, kind: type[R]) -> ControlReply[pa.Schema]:
        parts = await self._divided(request.named)
        if isinstance(request, Publish) and len(parts) > 1:
            rule = "must be of one exchange, so that all or none is published: publish the parts of each by themselves"
            raise InvalidParametersError(name="parts", value=[*request.named], rule=rule)

        async def answer(address: str, names: Collection[str]) -> R:
            return await (await self._line_to(address))._ask(about(request, names), kind)

        replies = await _together(answer(address, {*names}) for address, names in parts.items())
        return merged(replies, request.named, monotonic())

    async def _divided(self, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        await self._locate([name for name in dict.fromkeys(names) if name not in self._found])
        parts: dict[str, list[str]] = {}
        for name in dict.fromkeys(names):
            parts.setdefault(self._found[name], []).append(name)
        return {address: tuple(some) for address, some in parts.items()}

    async def _locate(self, names: Sequence[str]) -> None:
        """Find out which exchange has each channel: all are asked at once, so that one that two have is noticed.

        Raises:
            UnknownChannelError: no exchange has a channel.
            InvalidParametersError: two exchanges that answer have one.
            PeerGoneError: no exchange that answers has one, and others do not answer.
        """
        if not names:
            return
        answers = await self._answers(_statistics_of)
        gone = {address: answer for address, answer in answers.items() if isinstance(answer, PeerGoneError)}
        listed = {
            address: {each.channel for each in answer}
            for address, answer in answers.items()
            if not isinstance(answer, PeerGoneError)
        }
        for name in names:
            holders = [each for each in ranked(self._addresses, name) if name in listed.get(each, ())]
            require_one_place(name, holders)
            if not holders:
                lacking = {at: UnknownChannelError(channel=name, known=tuple(its)) for at, its in listed.items()}
                raise not_found(name, {**gone, **lacking})
            self._found[name] = holders[0]
        self._survey = replace(self._survey, places={**self._found})

    async def _line_to(self, address: str) -> AioControl:
        line = self._lines.get(address)
        if line is not None and line.is_closed:
            await line.hang_up()  # others follow it, until the block is left
            line = None
        if line is None:
            line = self._lines[address] = await self._dial(address)
        return line


async def _statistics_of(line: AioControl) -> Sequence[ChannelTraffic]:
    return (await line.statistics()).channels


async def _together(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """What they return; the first error of one ends the others."""
    # Not a TaskGroup: after an error, that of Python 3.11 leaves the task that has waited marked as cancelled.
    tasks = [asyncio.create_task(call) for call in calls]
    try:
        return await asyncio.gather(*tasks)
    finally:
        await cancel_all(*tasks)


async def require_single_places(
    address: str, channels: Sequence[str], *, spread_over: int = 0, security: Security | None = None
) -> tuple[ChannelTraffic, ...]:
    """Refuse channels that two of several exchanges have, or none; who does not answer within seconds does not count.

    ``get`` and ``put`` do not ask: each start would wait for the slowest of all exchanges.  Ask once, before a stream's
    first channel is opened: the other place may have half of the rows.

    Args:
        address: as for ``get``; a single exchange is not asked.
        channels: names.
        spread_over: as for ``put``: refuse also a stream of which one of the exchanges has a further channel.
        security: as for ``get``.

    Returns:
        What those that have answered tell of the channels.

    Raises:
        InvalidParametersError: two of them have the same channel, or the stream has further ones; or ``channels`` is a
            single name, or empty.
        UnknownChannelError: all have answered, and none has a channel.
    """
    names = names_of(channels)
    if not names:
        raise InvalidParametersError(name="channels", value=names, rule="must be at least one name")
    if len(several(address)) == 1:
        return ()
    asking = control(
        address,
        connect_timeout_seconds=None,
        reply_timeout_seconds=_SURVEY_SECONDS,
        resume_seconds=0,
        security=security,
    )
    try:
        async with asking as orders:
            told = await orders.statistics(partial=True)
    except (PeerGoneError, SecurityError):  # a stream will tell
        return ()
    known = dict.fromkeys(each.channel for each in told.channels)
    for name in names:
        require_one_place(name, orders.survey.twice.get(name, ()))
        if name not in known and not orders.survey.unanswered:
            raise UnknownChannelError(channel=name, known=tuple(known))
    if spread_over:
        require_no_further(names[0], known, spread_over)
    return tuple(each for each in told.channels if each.channel in {*names})


@asynccontextmanager
async def control(
    address: str,
    *,
    connect_timeout_seconds: float | None = 10.0,
    reply_timeout_seconds: float = 60.0,
    silence_seconds: float = SILENCE_SECONDS,
    resume_seconds: float | None = None,
    security: Security | None = None,
) -> AsyncIterator[AioControl]:
    """Ask and order about channels of an exchange; see ``AioControl``.

    Args:
        address: as for ``get``.
        connect_timeout_seconds: how long to wait for the connection; None: fail if no server listens there yet.
        reply_timeout_seconds: how long to wait for each reply, and at most for the connection.
        silence_seconds: an exchange that gives no sign of life for longer is gone.
        resume_seconds: how long to try to reach the exchange again if the connection is lost; as for ``get``.
        security: as for ``get``.

    Raises:
        SecurityError: as for ``get``; a request that is forbidden raises it, too.
        PeerTimeoutError: no server answers at this address.
    """
    seconds, addresses = await resume_seconds_of(address, resume_seconds), several(address)
    retries = connect_timeout_seconds is not None
    connect_seconds = Timing(addresses[0], connect_timeout_seconds, reply_timeout_seconds).connect_seconds
    if len(addresses) > 1:
        connect_seconds = min(_DIAL_SECONDS, _DIAL_SECONDS if connect_seconds is None else connect_seconds)

    @asynccontextmanager
    async def at(address: str) -> AsyncIterator[AioControl]:
        who = f"the exchange at {address}"
        to = Destination(address, CONTROL, who, connect_seconds, silence_seconds, security, retries)
        line = ControlLine(partial(calling, to), who, seconds)
        orders = AioControl(line, address, who, reply_timeout_seconds)
        try:
            await line.open()
            yield orders
        finally:
            await orders.hang_up()

    if len(addresses) == 1:
        async with at(address) as orders:
            yield orders
        return
    async with AsyncExitStack() as stack:
        several_orders = _ControlOfSeveral(addresses, lambda each: stack.enter_async_context(at(each)))
        stack.callback(several_orders.close)
        yield several_orders


def _portions(items: tuple[T, ...]) -> Iterator[tuple[T, ...]]:
    """One at least, each as large as a request may be."""
    return (items[start : start + MOST_CHANNELS] for start in range(0, max(1, len(items)), MOST_CHANNELS))


def names_of(channels: Sequence[str]) -> tuple[str, ...]:
    """Check that these are several names, not the letters of one.

    Raises:
        InvalidParametersError: it is a single name.
    """
    if isinstance(channels, str):
        raise InvalidParametersError(name="channels", value=channels, rule="must be names, not one name")
    return tuple(channels)
