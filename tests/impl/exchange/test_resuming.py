"""Streams survive their connections: cut at every message, and whatever comes up while there is no connection."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from typing import Any, TypeAlias, cast

import pyarrow as pa
import pytest

from permitflow import ChannelParameters, Kind, open_channel
from permitflow.carriers import resumption
from permitflow.carriers.calling import calling
from permitflow.carriers.carrier import Conversation, Ear
from permitflow.carriers.connection import GET_STREAM
from permitflow.carriers.reaching import Destination
from permitflow.carriers.resuming import DialledCarrier
from permitflow.carriers.same_host import SameHost
from permitflow.channels.interface import BulkSend
from permitflow.channels.local import LocalReceiver, LocalSender
from permitflow.client import EndOutcome, RemoteReceiver, RemoteSender, get, put
from permitflow.errors import (
    AlteredMessageError,
    ChannelAbortedError,
    ChannelClosedError,
    ChannelInUseError,
    ChannelResetError,
    ChannelSpentError,
    EndOfStream,
    FalsePositionError,
    PeerGoneError,
    PeerTimeoutError,
    PermitflowError,
    ProtocolError,
    ResumeRefusedError,
    ResumeTimeoutError,
    TransportError,
    UndecodableDataError,
)
from permitflow.exchange import Exchange, Limits, Retention
from permitflow.exchange.channels.bridge import Bridge
from permitflow.exchange.channels.replay_channel import ReplayChannel
from permitflow.exchange.health import Phase
from permitflow.exchange.reception import Reception
from permitflow.exchange.serving import METHODS, carry_out
from permitflow.stream.control import ResetChannels
from permitflow.stream.resuming import Acknowledged, Resume, ResumeOffer
from permitflow.wire.buffers import Received
from permitflow.wire.checksum import with_checksum
from permitflow.wire.codec import FULL_MESSAGE_BYTES
from permitflow.wire.connection_frames import (
    CONNECTION_KEY,
    encode_connection_frame,
    parted,
)
from tests.support.cut_lines import ADDRESS, Line, Network
from tests.support.peers_by_hand import ByHand, encoded, get_frame
from tests.support.simulated_time import in_simulated_time, simulated
from tests.support.turns import turns

SCHEMA = pa.schema([("n", pa.int64())])
PARAMETERS = ChannelParameters(row_permits=8, permit_batch=2)
CHUNKS = [[0, 1, 2], [3], [4, 5, 6, 7], [8, 9], [10], [11, 12]]
Item: TypeAlias = list[int] | str


def batch(numbers: list[int]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(numbers, pa.int64())], schema=SCHEMA)


def one_channel() -> Exchange:
    exchange = Exchange()
    exchange.add_channel("c", PARAMETERS, SCHEMA)
    return exchange


def produced(resume_seconds: float = 30.0, producer: str = "") -> AbstractAsyncContextManager[RemoteSender]:
    return put(ADDRESS, "c", SCHEMA, resume_seconds=resume_seconds, producer=producer)


def consumed(resume_seconds: float = 30.0) -> AbstractAsyncContextManager[RemoteReceiver]:
    return get(ADDRESS, "c", resume_seconds=resume_seconds, same_host=SameHost.NEVER)


async def send_all() -> EndOutcome:
    async with produced() as sender:
        for number, chunk in enumerate(CHUNKS):
            await sender.send(batch(chunk))
            if number == 2:
                await sender.send_barrier(7)
        return await sender.end()


async def read(receiver: RemoteReceiver) -> list[Item]:
    items: list[Item] = []
    try:
        while True:
            message = await receiver.receive()
            if message.kind is Kind.BARRIER:
                items.append(f"barrier {message.payload}")
            else:
                items.append(message.payload.column(0).to_pylist())
    except EndOfStream:
        return items


async def read_all() -> list[Item]:
    async with consumed() as receiver:
        return await read(receiver)


EVERYTHING = [*CHUNKS[:3], "barrier 7", *CHUNKS[3:]]


async def passed_through(network: Network) -> None:
    """Everything arrives once, in order, and the producer learns of it; no stream is left over."""
    await everything_arrives()
    admission = network.reception.exchange.admission
    assert (len(admission.suspended), admission.streams) == (0, 0)


async def everything_arrives() -> None:
    async with asyncio.timeout(600):
        outcome, items = await asyncio.gather(send_all(), read_all())
    assert items == EVERYTHING
    assert outcome is EndOutcome.CONSUMED


async def messages_without_cuts() -> int:
    async with Network(one_channel()).opened() as network:
        await passed_through(network)
        assert network.connections == 2
        return network.messages


@pytest.fixture
def told_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Acknowledgements come in a short stream, too: along with permits, and alone."""
    monkeypatch.setattr(resumption, "MOST_UNTOLD", 3)


@pytest.mark.usefixtures("told_often")
@pytest.mark.parametrize("is_noticed", [True, False], ids=["noticed by both", "noticed by the client"])
@pytest.mark.parametrize("is_narrow", [False, True], ids=["roomy", "always full"])
@pytest.mark.parametrize("loses", [True, False], ids=["the message is lost", "it has arrived"])
def test_a_cut_at_any_message_loses_and_doubles_nothing(loses: bool, is_narrow: bool, is_noticed: bool) -> None:
    async def run(number: int) -> None:
        async with Network(
            one_channel(), cuts={number}, loses=loses, is_narrow=is_narrow, is_noticed=is_noticed
        ).opened() as network:
            await passed_through(network)
            assert network.messages <= number or network.connections > 2

    for number in range(in_simulated_time(messages_without_cuts())):
        in_simulated_time(run(number))


def test_an_outage_at_any_message_is_survived() -> None:
    """It lasts longer than a settled stream waits for its end over a carrier with signs."""

    async def run(number: int) -> int:
        async with Network(one_channel(), cuts={number}, outage_seconds=25.0, sign_seconds=5.0).opened() as network:
            await everything_arrives()
            return network.messages

    number = 0
    while in_simulated_time(run(number)) > number:
        number += 1


@pytest.mark.parametrize("is_noticed", [True, False], ids=["noticed by both", "noticed by the client"])
def test_who_comes_too_late_hears_of_no_wrong_peer(is_noticed: bool) -> None:
    """The exchange notices a cut, or that nobody acknowledges its last message, and gives up before the client does."""

    async def run(number: int) -> int:
        async with SlowlyNoticingNetwork(one_channel(), cuts={number}, is_noticed=is_noticed).opened() as network:
            for outcome in await asyncio.gather(send_all(), read_all(), return_exceptions=True):
                assert not isinstance(outcome, ProtocolError), (number, outcome)
            return network.messages

    number = 0
    while in_simulated_time(run(number)) > number:
        number += 1


class SlowlyNoticingNetwork(Network):
    """Its clients notice each cut later than an exchange waits for them, and come while it remembers them."""

    def __init__(self, exchange: Exchange, **options: Any) -> None:
        super().__init__(exchange, resume_seconds=10.0, **options)

    def tell_of_cut(self, end: Line) -> None:
        if end.is_dialler:
            asyncio.get_running_loop().call_later(15.0, super().tell_of_cut, end)
        else:
            super().tell_of_cut(end)


class StoppingNetwork(Network):
    """From a message on, the exchange waits for no connection: it is being stopped, and lets its streams end.

    What clients write takes its time, so that it has to wait for their last acknowledgements.
    """

    def __init__(self, exchange: Exchange, stops_at: int) -> None:
        super().__init__(exchange)
        self._stops_at, self._arrives_at = stops_at, 0.0

    def carry(self, line: Line, message: bytes) -> None:
        if self.messages == self._stops_at:
            self.reception.refuse()
        if line.is_dialler:
            loop = asyncio.get_running_loop()
            self._arrives_at = max(self._arrives_at + 1e-6, loop.time() + 0.1)  # one after the other
            loop.call_at(self._arrives_at, super().carry, line, message)
        else:
            super().carry(line, message)


def test_connected_streams_end_well_while_the_exchange_stops() -> None:
    async def run(number: int) -> int:
        async with StoppingNetwork(one_channel(), number).opened() as network:
            await everything_arrives()
            return network.messages

    number = 4  # both have begun, and would survive their connections
    while in_simulated_time(run(number)) > number:
        number += 1


class NotingNetwork(Network):
    """It counts the frames of connections that come alone, and those that go along with a message."""

    def __init__(self, exchange: Exchange) -> None:
        super().__init__(exchange)
        self.alone = self.along = 0

    def carry(self, line: Line, message: bytes) -> None:
        if message[0] == CONNECTION_KEY:
            _, behind = parted(message)
            self.along += len(behind) > 0
            self.alone += len(behind) == 0
        super().carry(line, message)


@simulated
async def test_acknowledgements_go_along_with_messages() -> None:
    async with NotingNetwork(one_channel()).opened() as network, produced() as sender, consumed() as receiver:
        for number in range(300):
            await sender.send(batch([number]))
            await receiver.receive()
        assert network.along == 4 * (300 // 32)  # of each end's messages: those with permits are as many
        assert network.alone == 0
        assert await _ended(sender, receiver)


@pytest.mark.parametrize("every", [3, 5, 7])
@pytest.mark.parametrize("loses", [True, False], ids=["messages are lost", "they have arrived"])
def test_many_cuts_lose_and_double_nothing(every: int, loses: bool) -> None:
    async def run(first: int) -> None:
        async with Network(one_channel(), cuts=range(first, 40 * every, every), loses=loses).opened() as network:
            await passed_through(network)

    for first in range(every):
        in_simulated_time(run(first))


@pytest.mark.usefixtures("told_often")
@pytest.mark.parametrize("place", [-1, -9, 0, 1], ids=["sum", "key of the sum", "first byte", "second byte"])
def test_a_damaged_message_comes_again(place: int) -> None:
    async def run(number: int) -> None:
        async with Network(one_channel(), damages={number: place}).opened() as network:
            await passed_through(network)

    for number in range(in_simulated_time(messages_without_cuts())):
        in_simulated_time(run(number))


@simulated
async def test_one_damaged_message_after_the_other_comes_again() -> None:
    """Only one that is damaged again and again ends a stream."""
    network = Network(one_channel(), damages=dict.fromkeys(range(10, 1_000, 11), -1))
    async with network.opened(), produced() as sender, consumed() as receiver:
        for number in range(60):
            await sender.send(batch([number]))
            assert (await receiver.receive()).payload == batch([number])
        assert network.connections > 2 + 4 * 3  # of four ends
        assert len(network.reception.exchange.admission.suspended) == 0
        assert await _ended(sender, receiver)


class SpoilingNetwork(Network):
    """It alters every message of the exchange that has a barrier."""

    def carry(self, line: Line, message: bytes) -> None:
        if b"spoil me" in message:
            message = message.replace(b"spoil me", b"spoiled!")
        super().carry(line, message)


@simulated
async def test_a_message_that_never_comes_whole_ends_the_stream() -> None:
    async with SpoilingNetwork(one_channel()).opened() as network, produced() as sender, consumed() as receiver:
        await sender.send(batch([1]))
        assert (await receiver.receive()).payload.num_rows == 1
        with pytest.raises(AlteredMessageError):
            await asyncio.gather(sender.send_barrier("spoil me"), sender.end())
    assert network.connections == 2 + 3  # it may come whole the third time


class AlteringNetwork(Network):
    """What the next connections begin with is altered on the way: the exchange understands nothing of it."""

    altered = 0

    async def _serve(self, method: str, line: Line) -> None:
        if not self.altered:
            return await super()._serve(method, line)
        self.altered -= 1
        line.peer.give(UndecodableDataError(what="the first bytes", reason="they are another protocol's"))


@simulated
async def test_bytes_altered_in_front_of_a_resumption_end_nothing() -> None:
    async with AlteringNetwork(one_channel()).opened() as network, produced() as sender, consumed() as receiver:
        await sender.send(batch([1]))
        assert (await receiver.receive()).payload == batch([1])
        network.altered = 2
        network.cut_all()
        await sender.send(batch([2]))
        assert (await receiver.receive()).payload == batch([2])
        assert await _ended(sender, receiver)
    assert (network.connections, network.altered) == (2 + 2 + 2, 0)


class SleepingNetwork(Network):
    """Its exchange serves nobody before it is awake."""

    def __init__(self, exchange: Exchange) -> None:
        super().__init__(exchange)
        self.awake = asyncio.Event()

    async def _serve(self, method: str, line: Line) -> None:
        await self.awake.wait()
        await super()._serve(method, line)


@simulated
async def test_a_stream_begins_though_its_first_connection_is_displaced() -> None:
    """An exchange that was stopped for a while hears the first connection, its end, and the second one at once."""
    async with SleepingNetwork(one_channel()).opened() as network:
        passing = asyncio.create_task(passed_through(network))
        await asyncio.sleep(1)
        network.cut_all()
        await asyncio.sleep(1)
        network.awake.set()
        await passing
    assert network.connections == 4


@pytest.mark.parametrize("is_away", [False, True], ids=["in the first connection", "in the next one"])
@simulated
async def test_a_told_timeout_is_the_last_word(is_away: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object, **__: object) -> None:
        await asyncio.sleep(2 if is_away else 0)
        raise PeerTimeoutError(who="a producer", reason="no schema has come")

    monkeypatch.setitem(cast("dict[str, object]", METHODS), GET_STREAM, fail)
    async with Network(one_channel()).opened() as network:
        reading = asyncio.create_task(read_all())
        await asyncio.sleep(1)
        if is_away:
            network.let_down()
            await asyncio.sleep(2)
            network.is_down = False
        began = asyncio.get_running_loop().time()
        with pytest.raises(PeerTimeoutError, match="no schema has come"):
            await reading
        assert asyncio.get_running_loop().time() - began < 3


# Without a connection.


@simulated
async def test_a_consumer_that_stays_away_is_lost_after_its_time() -> None:
    async with Network(one_channel()).opened() as network, produced(100) as sender, consumed(5) as receiver:
        await sender.send(batch([1]))
        assert (await receiver.receive()).payload.num_rows == 1
        await asyncio.sleep(1)
        began = asyncio.get_running_loop().time()
        network.let_down()
        with pytest.raises(ResumeTimeoutError, match="5 s") as caught:
            await receiver.receive()
        assert caught.value.attempts > 1
        assert asyncio.get_running_loop().time() - began == pytest.approx(5, abs=0.1)
        await asyncio.sleep(1)
        assert len(network.reception.exchange.admission.suspended) == 0
        network.is_down = False
        with pytest.raises(PeerGoneError, match="left halfway"):
            await sender.end()


async def test_a_failure_to_dial_again_that_nobody_expects_ends_the_stream() -> None:
    async with Network(one_channel()).opened() as network, consumed() as receiver:
        network.let_down(ValueError("no such address family"))
        with pytest.raises(TransportError, match="again: no such address family"):
            await receiver.receive()


@simulated
async def test_both_ends_tell_how_long_they_had_no_connection() -> None:
    async with Network(one_channel()).opened() as network, produced() as sender, consumed() as receiver:
        await sender.send(batch([1]))
        await receiver.receive()
        network.let_down()
        await asyncio.sleep(3)
        assert receiver.suspended_since is not None
        assert network.reception.exchange.statistics()[0].suspended_streams == 2
        network.is_down = False
        await sender.send(batch([2]))
        assert (await receiver.receive()).payload.column(0).to_pylist() == [2]
        assert receiver.suspended_since is None
        for end in (sender, receiver):
            assert end.statistics().resumes == 1
            assert 3 <= end.statistics().suspended_seconds < 6
        channel = network.reception.exchange.statistics()[0]
        streams = network.reception.exchange.served(channel.channel).streams.statistics()
        assert [end.resumes for _, end in streams] == [1, 1]
        assert (channel.resumes, channel.suspended_streams) == (2, 0)
        assert await _ended(sender, receiver)


async def _ended(sender: RemoteSender, receiver: RemoteReceiver) -> bool:
    outcome, rest = await asyncio.gather(sender.end(), read(receiver))
    return outcome is EndOutcome.CONSUMED and rest == []


async def _cancelled(sender: RemoteSender, receiver: RemoteReceiver) -> None:
    await receiver.cancel("enough")
    assert await sender.end() is EndOutcome.CANCELLED


async def _aborted(sender: RemoteSender, receiver: RemoteReceiver) -> None:
    sender.abort("no more")
    with pytest.raises(ChannelAbortedError, match="no more"):
        await read(receiver)


@pytest.mark.parametrize("deed", [_cancelled, _aborted], ids=["cancelled", "aborted"])
@simulated
async def test_what_is_decided_without_a_connection_is_told_later(
    deed: Callable[[RemoteSender, RemoteReceiver], Awaitable[None]],
) -> None:
    async with Network(one_channel()).opened() as network, produced() as sender, consumed() as receiver:
        await sender.send(batch([1]))
        await receiver.receive()
        network.let_down()
        doing = asyncio.create_task(_done(deed, sender, receiver))
        await asyncio.sleep(1)
        network.is_down = False
        await doing


async def _done(
    deed: Callable[[RemoteSender, RemoteReceiver], Awaitable[None]], sender: RemoteSender, receiver: RemoteReceiver
) -> None:
    async with asyncio.timeout(60):
        await deed(sender, receiver)


@simulated
async def test_who_leaves_the_block_is_lost_at_once() -> None:
    """As without resumption: it has said so."""
    async with Network(one_channel()).opened(), produced() as sender:
        async with consumed() as receiver:
            await sender.send(batch([1]))
            await receiver.receive()
            await sender.send(batch([2]))
        began = asyncio.get_running_loop().time()
        with pytest.raises(PeerGoneError, match="it left before the end"):
            await sender.end()
        assert asyncio.get_running_loop().time() - began < 1


@simulated
async def test_a_new_consumer_displaces_one_without_a_connection() -> None:
    async with Network(one_channel()).opened() as network, produced() as sender, consumed() as former:
        await asyncio.sleep(0.1)
        network.let_down()
        await asyncio.sleep(1)
        network.is_down = False
        async with consumed() as latter:
            await sender.send(batch([1]))
            assert (await latter.receive()).payload.num_rows == 1
            with pytest.raises(PeerGoneError, match="came while its connection was lost"):
                await former.receive()
            assert await _ended(sender, latter)


@pytest.mark.parametrize("turns", range(6, 18))
@simulated
async def test_a_displaced_consumer_takes_no_row_with_it(turns: int) -> None:
    """A chunk comes while the newcomer takes its place: it gets that, or is told that one was lost before."""
    exchange = Exchange()
    here = exchange.add_channel("c", PARAMETERS, SCHEMA).sender
    async with Network(exchange).opened() as network, consumed():
        await asyncio.sleep(0.1)
        network.let_down()
        await asyncio.sleep(1)
        network.is_down = False
        newcomer = asyncio.create_task(read_all())
        for _ in range(turns):
            await asyncio.sleep(0)
        await here.send(batch([1]))
        await here.end()
        comes_after_turns = 10
        with suppress(*[ChannelSpentError] if turns < comes_after_turns else []):
            assert await newcomer == [[1]]


@simulated
async def test_after_a_message_the_channel_is_spent_for_a_newcomer() -> None:
    async with Network(one_channel()).opened() as network, produced() as sender, consumed() as former:
        await sender.send(batch([1]))
        await former.receive()
        network.cut_all()
        network.is_down = True
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        network.is_down = False
        with pytest.raises(ChannelSpentError, match="left halfway"):
            async with consumed():
                pass
        with pytest.raises(PeerGoneError):
            await sender.end()


@simulated
async def test_a_named_producer_replaces_its_suspended_stream() -> None:
    exchange = Exchange()
    exchange.add_channel("c", schema=SCHEMA, retention=Retention.REPLAY)
    async with Network(exchange).opened() as network, produced(producer="shop") as former:
        await former.send(batch([1]))
        await asyncio.sleep(1)
        network.let_down()
        await asyncio.sleep(1)
        network.is_down = False
        began = asyncio.get_running_loop().time()
        async with produced(producer="shop") as latter:
            assert latter.first_row == 1
            assert asyncio.get_running_loop().time() - began < 3
            await latter.end()
        with pytest.raises(PermitflowError):
            await former.end()


# A channel that keeps its rows, and breaks.


LARGE = pa.record_batch({"n": [bytes(FULL_MESSAGE_BYTES)]})


def kept_channel(schema: pa.Schema = SCHEMA) -> tuple[Exchange, ReplayChannel]:
    exchange = Exchange()
    return exchange, exchange.add_channel("c", PARAMETERS, schema, retention=Retention.REPLAY)


async def break_behind_rows(channel: ReplayChannel) -> None:
    for number in range(3):
        await channel.append(batch([number]))
    await channel.break_("no more paper")


async def read_until_broken(receiver: RemoteReceiver) -> list[Item]:
    items: list[Item] = []
    with pytest.raises(ChannelAbortedError, match="no more paper"):
        await take_all(receiver, items)
    return items


async def take_all(receiver: RemoteReceiver, items: list[Item]) -> None:
    async for message in receiver:
        items.append(message.payload.column(0).to_pylist())


@simulated
async def test_who_comes_behind_the_break_gets_the_rows_before_it() -> None:
    """The agreement, the rows and the error come together."""
    exchange, channel = kept_channel()
    await break_behind_rows(channel)
    async with Network(exchange).opened(), consumed() as receiver:
        assert await read_until_broken(receiver) == [[0], [1], [2]]


@simulated
async def test_who_was_away_at_the_break_gets_the_rows_before_it() -> None:
    exchange, channel = kept_channel()
    async with Network(exchange).opened() as network, consumed() as receiver:
        network.let_down()
        await asyncio.sleep(5)
        await break_behind_rows(channel)
        await asyncio.sleep(5)
        network.let_up()
        assert await read_until_broken(receiver) == [[0], [1], [2]]


@pytest.mark.parametrize("is_noticed", [True, False], ids=["noticed by both", "noticed by the client"])
@pytest.mark.parametrize("cut", range(12))
@simulated
async def test_a_cut_near_the_break_loses_no_row(cut: int, is_noticed: bool) -> None:
    exchange, channel = kept_channel()
    network = Network(exchange, cuts={cut}, is_noticed=is_noticed, outage_seconds=45, resume_seconds=60)
    async with network.opened(), consumed(60) as receiver:
        await break_behind_rows(channel)
        assert await read_until_broken(receiver) == [[0], [1], [2]]
    await turns()
    assert (len(exchange.admission.suspended), exchange.admission.streams) == (0, 0)


@pytest.mark.parametrize("resume_seconds", [0.0, 30.0], ids=["one connection", "it resumes"])
@simulated
async def test_a_slow_connection_has_the_rows_before_the_break(resume_seconds: float) -> None:
    exchange, channel = kept_channel()
    network = Network(exchange, is_narrow=True, answer_seconds=10)
    async with network.opened(), consumed(resume_seconds) as receiver:
        await break_behind_rows(channel)
        assert await read_until_broken(receiver) == [[0], [1], [2]]


async def break_behind_large_rows(receiver: RemoteReceiver, channel: ReplayChannel, rows: int = 3) -> None:
    """All come, each in a message of its own."""
    for _ in range(rows):
        await channel.append(LARGE)
    await channel.break_("no more paper")
    items: list[Item] = []
    with pytest.raises(ChannelAbortedError):
        await take_all(receiver, items)
    assert len(items) == rows


@simulated
async def test_an_answer_behind_the_break_is_heard() -> None:
    """Else a reader that is slow in answering would be taken for a silent one, before the last row."""
    exchange, channel = kept_channel(LARGE.schema)
    network = Network(exchange, is_narrow=True, answer_seconds=3, write_seconds=6, sign_seconds=1)
    async with network.opened(), consumed(0) as receiver:
        await asyncio.sleep(5)  # it was asked, and cannot answer yet
        await break_behind_large_rows(receiver, channel)


@simulated
async def test_rows_in_buffers_of_the_network_come_before_a_break() -> None:
    exchange, channel = kept_channel(LARGE.schema)
    async with Network(exchange, arrival_seconds=50).opened(), consumed(0) as receiver:
        await break_behind_large_rows(receiver, channel)


@simulated
async def test_a_reader_that_gets_on_is_waited_for_behind_a_break() -> None:
    """However often its connections are distrusted, because a message takes longer than it may."""
    exchange, channel = kept_channel(LARGE.schema)
    async with Network(exchange, arrival_seconds=4).opened(), consumed(5) as receiver:
        await break_behind_large_rows(receiver, channel, rows=8)


@simulated
async def test_who_stays_away_from_a_break_hears_that_it_was_away() -> None:
    """The rows before the break have not come: the reader is not told that it has them."""
    exchange, channel = kept_channel()
    async with Network(exchange).opened() as network, consumed(5) as receiver:
        network.let_down()
        await break_behind_rows(channel)
        with pytest.raises(ResumeTimeoutError):
            await receiver.receive()
        await asyncio.sleep(1)
        assert (len(exchange.admission.suspended), exchange.admission.streams) == (0, 0)


@pytest.mark.parametrize("is_away", [True, False], ids=["it is away", "it is slow"])
@simulated
async def test_a_stop_waits_for_no_reader_of_a_broken_channel(is_away: bool) -> None:
    exchange, channel = kept_channel()
    network = Network(exchange, is_narrow=True, answer_seconds=0 if is_away else 1000)
    async with network.opened(), consumed() as receiver:
        if is_away:
            network.let_down()
        await break_behind_rows(channel)
        await asyncio.sleep(5)
        began = asyncio.get_running_loop().time()
        network.let_up()
        network.reception.refuse()
        network.reception.stop()
        with pytest.raises(PeerGoneError, match="being stopped"):
            await take_all(receiver, [])
        assert asyncio.get_running_loop().time() - began < 3


@pytest.mark.parametrize("is_away", [True, False], ids=["it is away", "it is slow"])
@simulated
async def test_a_reader_behind_a_break_uses_the_channel(is_away: bool) -> None:
    """It is told of a reset, which it hinders unless that is forced."""
    exchange, channel = kept_channel()
    network = Network(exchange, is_narrow=True, answer_seconds=0 if is_away else 1000)
    async with network.opened(), consumed() as receiver:
        if is_away:
            network.let_down()
        await break_behind_rows(channel)
        await asyncio.sleep(5)
        assert channel.statistics().consumers == 1
        with pytest.raises(ChannelInUseError, match="1 consumer"):
            await carry_out(exchange, ResetChannels(("c",)))
        await carry_out(exchange, ResetChannels(("c",), force=True))
        network.let_up()
        with pytest.raises(ChannelResetError):
            await take_all(receiver, [])
        await asyncio.sleep(2)
        assert (channel.statistics().consumers, exchange.admission.streams) == (0, 0)


@pytest.mark.parametrize("resume_seconds", [None, 10.0], ids=["one connection", "it resumes"])
@simulated
async def test_a_reader_that_ignores_a_break_is_given_up(resume_seconds: float | None) -> None:
    """It stays connected, acknowledges nothing, and does not close its half."""
    exchange, channel = kept_channel()
    await break_behind_rows(channel)
    async with (
        Network(exchange).opened(),
        calling(Destination(ADDRESS, GET_STREAM, "the exchange", 1.0, 20.0)) as carrier,
    ):
        conversation = ByHand(carrier)
        offer = None if resume_seconds is None else ResumeOffer(b"x" * 16, resume_seconds)
        await conversation.write([encoded(GET_STREAM, get_frame(channel="c", resume=offer))])
        await asyncio.sleep(9)
        assert exchange.admission.streams == 1
        await asyncio.sleep(300)
        assert exchange.admission.streams == 0


async def coming_again(exchange: Exchange, stays_seconds: float) -> list[float]:
    """Read a broken channel, acknowledge nothing, and come again until that is no stream any more.

    Returns how long each connection has lived; the reader leaves after this time.
    """
    to, token, seconds = Destination(ADDRESS, GET_STREAM, "the exchange", 1.0, 20.0), b"x" * 16, list[float]()
    async with asyncio.timeout(1_000), Network(exchange).opened():
        while not seconds or exchange.admission.streams:
            async with calling(to) as carrier:
                conversation = Conversation(carrier)
                beginning = [encoded(GET_STREAM, get_frame(channel="c", resume=ResumeOffer(token, 10.0)))]
                again = encode_connection_frame(Resume(token, len(seconds), 0))
                await conversation.write(again if seconds else with_checksum(beginning))
                seconds.append(-asyncio.get_running_loop().time())
                with suppress(PeerGoneError, TimeoutError):
                    async with asyncio.timeout(stays_seconds):
                        while await conversation.read() is not None:
                            pass
                seconds[-1] += asyncio.get_running_loop().time()
            await turns()
    return seconds


@simulated
async def test_who_comes_again_and_acknowledges_nothing_is_given_up() -> None:
    """It has longer each time: a large message may be on its way."""
    exchange, channel = kept_channel()
    await break_behind_rows(channel)
    assert await coming_again(exchange, 1_000) == pytest.approx([10, 20, 30, 40])


@simulated
async def test_who_comes_again_early_wins_no_time_behind_a_break() -> None:
    exchange, channel = kept_channel()
    await break_behind_rows(channel)
    assert sum(await coming_again(exchange, 4)) == pytest.approx(100)


# An exchange that stops.


@pytest.mark.parametrize("comes_back", [True, False], ids=["the network comes back", "it does not"])
@simulated
async def test_a_stop_ends_streams_without_a_connection(comes_back: bool) -> None:
    async with Network(one_channel()).opened() as network, produced() as sender, consumed() as receiver:
        await sender.send(batch([1]))
        await receiver.receive()
        network.let_down()
        await asyncio.sleep(1)
        network.reception.refuse()
        network.is_down = not comes_back
        expected = "is being stopped" if comes_back else "30 s"
        with pytest.raises(PeerGoneError, match=expected):
            await receiver.receive()


@simulated
async def test_a_drain_ends_a_suspended_named_producer() -> None:
    exchange = Exchange()
    exchange.add_channel("c", schema=SCHEMA, retention=Retention.REPLAY)
    async with Network(exchange).opened() as network, produced(producer="shop") as sender:
        await sender.send(batch([1]))
        await asyncio.sleep(1)
        network.let_down()
        await asyncio.sleep(1)
        exchange.readiness.enter(Phase.DRAINING)
        await asyncio.sleep(0.1)
        assert len(network.reception.exchange.admission.suspended) == 0
        network.is_down = False
        with pytest.raises(PeerGoneError, match="being stopped"):
            await sender.end()


# Strangers, and many.


async def answer_to(frame: Resume) -> PermitflowError | None:
    """What an exchange says to a stranger who would go on with a stream."""
    async with calling(Destination(ADDRESS, GET_STREAM, "the exchange", 1.0, 20.0)) as carrier:
        conversation = Conversation(carrier)
        await conversation.write(encode_connection_frame(frame))
        try:
            await conversation.read()
        except PermitflowError as error:
            return error
        return None


@simulated
async def test_a_strangers_token_is_refused_and_changes_nothing() -> None:
    async with Network(one_channel()).opened() as network, produced() as sender, consumed() as receiver:
        await sender.send(batch([1]))
        await receiver.receive()
        for token in (b"", b"x" * 16, b"x" * 200):
            error = await answer_to(Resume(token, 1, 1))
            assert isinstance(error, ResumeRefusedError)
        assert await _ended(sender, receiver)
        assert len(network.reception.exchange.admission.suspended) == 0


@simulated
async def test_who_resumes_and_never_begins_is_refused_in_time() -> None:
    """It has heard nothing of its stream, so the exchange takes its beginning anew: but not whenever it likes."""
    async with (
        Network(one_channel()).opened(),
        calling(Destination(ADDRESS, GET_STREAM, "the exchange", 1.0, 20.0)) as carrier,
    ):
        conversation = Conversation(carrier)
        await conversation.write(encode_connection_frame(Resume(b"x" * 16, 1, 0)))
        assert await conversation.read() is not None
        async with asyncio.timeout(600):
            with pytest.raises(PeerTimeoutError, match="not said within 30 s"):
                await conversation.read()


@simulated
async def test_who_resumes_one_stream_and_begins_another_is_refused() -> None:
    async with (
        Network(one_channel()).opened(),
        calling(Destination(ADDRESS, GET_STREAM, "the exchange", 1.0, 20.0)) as carrier,
    ):
        conversation = Conversation(carrier)
        await conversation.write(encode_connection_frame(Resume(b"x" * 16, 1, 0)))
        assert await conversation.read() is not None
        beginning = get_frame(channel="c", resume=ResumeOffer(b"y" * 16, 10.0))
        await conversation.write(with_checksum([encoded(GET_STREAM, beginning)]))
        with pytest.raises(UndecodableDataError, match="another token than its Resume"):
            await conversation.read()


@pytest.mark.parametrize("position", [2**40, 0])
@simulated
async def test_a_position_that_cannot_be_ends_the_stream(position: int) -> None:
    async with Network(one_channel()).opened() as network, produced() as sender, consumed() as receiver:
        for number in range(100):
            await sender.send(batch([number]))
            await receiver.receive()
        token = next(token for token, stream in network.reception._streams.items() if stream.method == GET_STREAM)
        assert isinstance(await answer_to(Resume(token, 1_000, position)), FalsePositionError)
        with pytest.raises(FalsePositionError):
            await receiver.receive()


@simulated
async def test_an_exchange_started_again_has_forgotten_who_waits() -> None:
    """A consumer to which nothing has come yet: the first exchange has its first message, and the next one has not."""
    waiting = Exchange()
    waiting.add_channel("c", PARAMETERS)
    async with Network(waiting).opened() as network:
        reading = asyncio.create_task(read_all())
        for reception in (network.reception, Reception(one_channel(), resume_seconds=30.0)):
            await asyncio.sleep(1)
            network.reception = reception
            network.cut_all()
        with pytest.raises(ResumeRefusedError, match="was the exchange started again"):
            await reading


@pytest.mark.parametrize("streams", [20, pytest.param(1_000, marks=pytest.mark.long)])
@simulated
async def test_many_streams_wait_and_go_on(streams: int) -> None:
    async with Network(one_channel()).opened() as network:
        entered = asyncio.Barrier(streams + 1)
        entering = asyncio.Semaphore(100)  # an exchange bounds the handshakes of a peer

        async def feed(number: int) -> None:
            async with AsyncExitStack() as stack:
                async with entering:
                    sender = await stack.enter_async_context(produced())
                await entered.wait()
                await sender.send(batch([number]))
                await sender.end(closes_channel=False, until=EndOutcome.ACCEPTED)

        async with asyncio.TaskGroup() as group, consumed() as receiver:
            for number in range(streams):
                group.create_task(feed(number))
            await asyncio.sleep(1)
            network.let_down()
            await entered.wait()
            await asyncio.sleep(1)
            assert len(network.reception.exchange.admission.suspended) == streams + 1
            network.is_down = False
            found = [(await receiver.receive()).payload.column(0)[0].as_py() for _ in range(streams)]
            assert sorted(found) == list(range(streams))
        assert len(network.reception.exchange.admission.suspended) == 0


@simulated
async def test_beyond_the_most_the_longest_wait_is_given_up() -> None:
    exchange = Exchange(limits=Limits(max_suspended=2))
    exchange.add_channel("c", schema=SCHEMA, retention=Retention.REPLAY)
    one, two, three = (produced(producer=name) for name in ("one", "two", "three"))
    async with Network(exchange).opened() as network, one as first, two as second, three as third:
        await asyncio.sleep(1)
        network.let_down()
        await asyncio.sleep(1)
        assert len(network.reception.exchange.admission.suspended) == 2
        network.is_down = False
        with pytest.raises(ResumeRefusedError, match="too many"):
            await first.end(closes_channel=False)
        for other in (second, third):
            assert await other.end(closes_channel=False) is EndOutcome.ACCEPTED


class FullTarget:
    """Has no room; its end wakes those who wait for some."""

    sendable_rows = 0

    def __init__(self) -> None:
        self.is_over = asyncio.Event()

    def send_at_once(self, *_: object) -> int:
        return 0

    async def until_room(self, *_: object) -> bool:
        await self.is_over.wait()
        return False


async def test_a_stopped_bridge_leaves_its_source_to_the_next_reader() -> None:
    sender: LocalSender[pa.RecordBatch]
    source: LocalReceiver[pa.RecordBatch]
    sender, source = open_channel(ChannelParameters(row_permits=4, permit_batch=1))
    sender.send_nowait(batch([1, 2, 3]))
    target = FullTarget()
    bridge = Bridge(source, cast("BulkSend[pa.RecordBatch]", target))
    running = asyncio.create_task(bridge.run())
    await turns()

    bridge.stop()
    target.is_over.set()

    with pytest.raises(ChannelClosedError):
        await running
    assert source.receive_nowait().payload == batch([1, 2, 3])


async def test_without_resuming_nothing_behind_the_agreement_is_lost() -> None:
    """The exchange does not resume; its agreement and the first chunks come together."""
    async with Network(one_channel()).opened() as network:
        near, far = Line(network, is_dialler=True), Line(network, is_dialler=False)
        near.peer, far.peer = far, near
        carrier = DialledCarrier(
            near, AsyncExitStack(), lambda: pytest.fail("dials"), who="the exchange", token=bytes(16), seconds=1.0
        )
        heard = list[bytes]()

        def on_message(message: Received, _has_more: bool) -> None:
            heard.append(bytes(message))
            carrier.survive(0.0)

        sent = [b"the agreement", *(b"chunk %d" % number for number in range(4))]
        for message in sent:
            near.give(message)
        carrier.listen(Ear(on_message, lambda: None, lambda: None, lambda _: None))
        await turns()
        assert heard == sent


async def test_a_message_behind_an_acknowledgement_is_announced() -> None:
    """Else the one before it would be answered alone."""
    async with Network(one_channel()).opened() as network:
        near, far = Line(network, is_dialler=True), Line(network, is_dialler=False)
        near.peer, far.peer = far, near
        carrier = DialledCarrier(
            near, AsyncExitStack(), lambda: pytest.fail("dials"), who="the exchange", token=bytes(16), seconds=1.0
        )
        heard = list[tuple[bytes, bool]]()
        acknowledgement = b"".join(encode_connection_frame(Acknowledged(0)))
        for message in (b"1", acknowledgement + b"2", acknowledgement):
            near.give(message)
        carrier.listen(Ear(lambda *told: heard.append(told), lambda: None, lambda: None, lambda _: None))
        await turns()
        assert heard == [(b"1", True), (b"2", False)]


async def test_a_first_message_that_crosses_a_stop_is_dropped(unhandled: list[dict[str, Any]]) -> None:
    async with (
        Network(one_channel()).opened() as network,
        calling(Destination(ADDRESS, GET_STREAM, "the exchange", 10.0)) as connection,
    ):
        conversation = Conversation(connection)
        await turns()
        network.reception.stop()
        await conversation.write([b"late"])
        with pytest.raises(PeerGoneError, match="is being stopped"):
            await conversation.read()
    assert not unhandled
