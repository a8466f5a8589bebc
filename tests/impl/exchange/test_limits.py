"""Beyond a limit a peer gets a typed refusal; what it has, and what others have, stays."""

import asyncio
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from time import thread_time
from typing import Any

import pytest

from permitflow.carriers.byte_stream import FRAMES_BYTES, StreamMessageKind
from permitflow.carriers.connection import GET_STREAM, HARD_METADATA_BYTES, MOST_PENDING
from permitflow.carriers.framing import header
from permitflow.client import SameHost, control, get, put
from permitflow.errors import (
    InvalidParametersError,
    LimitReachedError,
    PermitflowError,
    ResumeRefusedError,
    UndecodableDataError,
)
from permitflow.exchange import Exchange, Limits, Retention
from permitflow.exchange.admission import Admission, Suspended, peer_key
from permitflow.exchange.limits import OPTIONS
from permitflow.wire.arrow import MAX_MESSAGE_BYTES
from tests.impl.exchange.test_deadlines import connected_to, hears, status_in
from tests.support.certificates import Certificates
from tests.support.number_streams import SCHEMA, batch
from tests.support.peers_by_hand import dialling
from tests.support.served import served
from tests.support.turns import until

LISTEN = {"gRPC": "127.0.0.1:0", "TCP": "tcp://127.0.0.1:0", "UDP": "udp://127.0.0.1:0"}
everywhere = pytest.mark.parametrize("listen", LISTEN.values(), ids=LISTEN)


@asynccontextmanager
async def limited(listen: str, **limits: int) -> AsyncIterator[tuple[Exchange, str]]:
    """An exchange with a channel that is in use, whose neighbours must not notice anything."""
    taken = served("c", "d", schema=SCHEMA, retention=Retention.REPLAY, listen=listen, limits=Limits(**limits))
    async with taken as (exchange, address), neighbour(address):
        yield exchange, address


@asynccontextmanager
async def neighbour(address: str) -> AsyncIterator[None]:
    """A producer and a consumer; before the block and after it they do their work."""
    never = SameHost.NEVER
    async with put(address, "c", SCHEMA, same_host=never) as sender, get(address, "c", same_host=never) as receiver:
        for number in range(2):
            await sender.send(batch(number))
            assert (await receiver.receive()).payload.equals(batch(number))
            if not number:
                yield


@asynccontextmanager
async def another(address: str) -> AsyncIterator[None]:
    async with put(address, "d", SCHEMA, same_host=SameHost.NEVER) as sender:
        yield
        await sender.end(closes_channel=False)


async def refusal(address: str) -> LimitReachedError:
    with pytest.raises(LimitReachedError) as caught:
        async with another(address):
            pass
    return caught.value


STREAMS = {"max_streams": "streams", "max_streams_per_peer": "streams of one peer"}


@everywhere
@pytest.mark.parametrize("limit", STREAMS)
async def test_a_stream_too_many_is_refused_until_another_one_is_over(listen: str, limit: str) -> None:
    async with limited(listen, **{limit: 3}) as (exchange, address):
        async with another(address):
            error = await refusal(address)
            assert error.facts == {"what": STREAMS[limit], "most": 3, "option": f"--{limit.replace('_', '-')}"}
            with pytest.raises(LimitReachedError):
                async with control(address) as orders:
                    await orders.statistics()
        await until(lambda: exchange.admission.streams == 2)  # it hears of the end a moment later
        async with another(address):
            pass


CONNECTIONS = {"max_connections": "connections", "max_connections_per_peer": "connections of one peer"}


@pytest.mark.parametrize("limit", CONNECTIONS)
@pytest.mark.parametrize("listen", [LISTEN["TCP"], LISTEN["UDP"]], ids=["TCP", "UDP"])
async def test_a_connection_too_many_is_refused_unheard(listen: str, limit: str) -> None:
    async with limited(listen, **{limit: 2}) as (exchange, address):
        error = await refusal(address)
        assert error.what == CONNECTIONS[limit]
        assert exchange.admission.connections == 2


async def test_a_grpc_connection_too_many_is_hung_up_on() -> None:
    async with limited(LISTEN["gRPC"], max_connections_per_peer=2) as (exchange, address):
        await until(lambda: exchange.admission.connections == 2)
        async with connected_to(address) as third:
            await hears(third)


async def test_a_peer_that_is_often_wrong_is_not_heard_for_a_while() -> None:
    """Five times the limit at once, and then one a second: who would wait for longer than a handshake."""
    limits, of_server = Limits(max_failures_per_peer=1), {"handshake_seconds": 1.5}
    taken = served("c", schema=SCHEMA, listen=LISTEN["TCP"], limits=limits, of_server=of_server)
    async with taken as (_, address), neighbour(address), AsyncExitStack() as stack:
        connections = [await stack.enter_async_context(connected_to(address)) for _ in range(12)]
        for connection in connections:
            connection.send(b"GET / HTTP/1.1\r\n\r\n")
        heard = await asyncio.gather(*map(hears, connections))
    assert isinstance(status_in(heard[0]), UndecodableDataError)
    assert heard[-1] == b""


def test_a_peer_is_shut_out_for_four_seconds_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("permitflow.exchange.admission.monotonic", lambda: now)
    admission, peer = Admission(Limits(max_failures_per_peer=1)), "tcp:10.0.0.1:1"
    assert admission.noise(peer, 5 * 8_192) == 0.0
    assert admission.noise(peer, 2 * 8_192) == 2.0
    assert admission.noise(peer, 1 << 30) == 4.0
    assert admission.noise(peer, -8_192) == 3.0
    now += 3.0
    assert admission.attempt(peer).seconds == 1.0


def test_a_stream_that_is_lost_after_a_while_has_not_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("permitflow.exchange.admission.monotonic", lambda: now)
    admission = Admission(Limits(max_failures_per_peer=1))
    attempts = [admission.attempt("tcp:10.0.0.1:1") for _ in range(5)]
    assert admission.attempt("tcp:10.0.0.2:1").seconds == 0
    for attempt in attempts:
        attempt.has_become_stream(is_new=True)
    attempts[0].has_failed()
    now += 2.0
    for attempt in attempts[1:]:
        attempt.has_failed()
    waits = [admission.attempt("tcp:10.0.0.1:1").seconds for _ in range(7)]
    assert waits == [0, 0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(("is_new", "seconds"), [(True, 1), (False, 0)])
def test_a_lost_stream_costs_less_if_it_only_goes_on(is_new: bool, seconds: int) -> None:
    admission = Admission(Limits(max_failures_per_peer=1))
    attempt = admission.attempt("tcp:10.0.0.1:1")
    attempt.has_become_stream(is_new)
    attempt.has_failed()
    assert admission.attempt("tcp:10.0.0.1:2").seconds == pytest.approx(seconds, abs=0.5)


def test_who_is_hung_up_on_waits_no_longer_because_of_it() -> None:
    admission = Admission(Limits(max_failures_per_peer=1))
    for _ in range(20):
        admission.attempt("tcp:10.0.0.1:1").is_not_heard()
    assert admission.attempt("tcp:10.0.0.1:1").seconds == 0


def test_who_has_failed_is_remembered_among_thousands_of_peers() -> None:
    admission = Admission(Limits(max_failures_per_peer=1))
    for _ in range(20):
        admission.attempt("tcp:10.0.0.1:1")
    for number in range(2_000):
        admission.attempt(f"tcp:10.1.{number // 250}.{number % 250}:1")
    assert admission.attempt("tcp:10.0.0.1:1").seconds > 10


async def test_who_is_refused_and_stays_makes_others_hear_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("permitflow.exchange.admission.MOST_REFUSED", 1)
    async with limited(LISTEN["TCP"], max_connections=2) as (_, address), AsyncExitStack() as stack:
        first, second = [await stack.enter_async_context(connected_to(address)) for _ in range(2)]
        assert await hears(second) == b""
        assert isinstance(status_in(await hears(first)), LimitReachedError)


def test_who_has_heard_its_refusal_lets_another_hear_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("permitflow.exchange.admission.MOST_REFUSED", 1)
    admission = Admission(Limits())
    staying = admission.refusal()
    assert staying is not None
    assert admission.refusal() is None
    staying.leave()
    assert admission.refusal() is not None


@pytest.mark.parametrize("limit", ["max_handshakes", "max_handshakes_per_peer"])
async def test_the_oldest_that_says_nothing_makes_room(limit: str) -> None:
    async with limited(LISTEN["TCP"], **{limit: 2}) as (exchange, address), AsyncExitStack() as stack:
        silent = [await stack.enter_async_context(connected_to(address)) for _ in range(3)]
        silent[1].send(header(StreamMessageKind.GET))  # says what it calls, but not which channel
        assert isinstance(status_in(await hears(silent[0])), LimitReachedError)
        async with another(address):
            pass
        assert exchange.admission.handshakes <= 2


def test_the_oldest_handshake_of_the_same_peer_makes_room() -> None:
    admission, given_up = Admission(Limits(max_handshakes_per_peer=1)), list[PermitflowError]()
    with (
        admission.handshake("tcp:10.0.0.1:1", lambda _: pytest.fail("it is the only one of its peer")),
        admission.handshake("tcp:10.0.0.2:1", given_up.append),
        admission.handshake("tcp:10.0.0.2:2", lambda _: pytest.fail("it is the newest")),
    ):
        assert (len(given_up), admission.handshakes) == (1, 2)


async def test_a_tls_handshake_over_grpc_makes_room_too(certificates: Certificates) -> None:
    limits, of_server = Limits(max_handshakes=2), {"security": certificates.server}
    taken = served("c", schema=SCHEMA, listen=LISTEN["gRPC"], limits=limits, of_server=of_server)
    async with taken as (exchange, address), AsyncExitStack() as stack:
        silent = [await stack.enter_async_context(connected_to(address)) for _ in range(3)]
        ends = [asyncio.create_task(hears(connection)) for connection in silent]
        gone, kept = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        assert (len(gone), exchange.admission.handshakes) == (1, 2)
        for end in kept:
            end.cancel()


async def test_a_call_that_says_nothing_makes_room_too() -> None:
    async with (
        limited(LISTEN["gRPC"], max_handshakes=1) as (exchange, address),
        dialling(address, GET_STREAM) as silent,
    ):
        reading = asyncio.create_task(silent.read())
        await until(lambda: exchange.admission.handshakes == 1)
        async with another(address):
            pass
        with pytest.raises(LimitReachedError):
            await reading


def test_a_channel_too_many_is_refused_and_all_that_came_with_it() -> None:
    exchange = Exchange(limits=Limits(max_channels=2))
    exchange.add_channel("a")
    with pytest.raises(LimitReachedError, match="at most 2 channels"):
        exchange.add_channels(["b", "c"])
    assert [*exchange.names] == ["a"]
    exchange.add_channel("b")


@pytest.mark.parametrize("end", ["producer", "consumer"])
async def test_a_stream_beyond_the_memory_is_refused_until_another_is_over(end: str) -> None:
    least = Admission(Limits()).memory.reserved_bytes
    one = Exchange()
    channel = one.add_channel("c", retention=Retention.REPLAY)
    streams = 3 * (channel.stream_most_bytes + MAX_MESSAGE_BYTES)
    async with limited(LISTEN["TCP"], max_memory=least + streams) as (exchange, address):
        async with another(address) if end == "producer" else get(address, "d", same_host=SameHost.NEVER):
            error = await refusal(address)
            words = "bytes of memory (948.0 MiB)"
            assert error.facts == {"what": words, "most": least + streams, "option": "--max-memory"}
        await until(lambda: exchange.admission.streams == 2)
        async with another(address):
            pass


def test_calls_that_wait_in_grpc_count_as_memory() -> None:
    limits = Limits(max_handshakes=1, max_suspended_bytes=1)
    assert Admission(limits).memory.before_streams_bytes >= MOST_PENDING * HARD_METADATA_BYTES + FRAMES_BYTES


def test_a_peer_has_no_more_memory_than_its_share() -> None:
    memory = Admission(Limits(max_memory_per_peer=2 * MAX_MESSAGE_BYTES)).memory
    with memory.take_stream(0, "tcp:10.0.0.1:1"), memory.take_stream(0, "tcp:10.0.0.1:2"):
        with pytest.raises(LimitReachedError, match="max-memory-per-peer"):
            memory.take_stream(0, "tcp:10.0.0.1:3")
        memory.take_stream(0, "tcp:10.0.0.2:1").leave()
    memory.take_stream(0, "tcp:10.0.0.1:3").leave()


async def test_channels_beyond_the_memory_are_refused_together() -> None:
    least = Admission(Limits()).memory.reserved_bytes
    window = Exchange().add_channel("c").stream_most_bytes
    exchange = Exchange(limits=Limits(max_memory=least + 2 * window))
    exchange.add_channel("a")
    with pytest.raises(LimitReachedError, match="memory"):
        exchange.add_channels(["b", "c"])
    exchange.add_channel("b")
    await exchange.remove_channel("a")
    exchange.add_channel("c")


def test_less_memory_than_handshakes_may_take_is_refused() -> None:
    with pytest.raises(InvalidParametersError, match="for 512 handshakes"):
        Exchange(limits=Limits(max_memory=1 << 20))
    Exchange(limits=Limits(max_memory=12 << 20, max_handshakes=2, max_suspended_bytes=1 << 20))


class GivenUp:
    """Streams that wait, by their tokens, and which of them were given up."""

    def __init__(self, **limits: int) -> None:
        self.suspended = Suspended(Limits(**limits))
        self.over: list[bytes] = []

    def add(self, token: bytes, peer: str, size_bytes: int = 1) -> None:
        def give_up(error: PermitflowError) -> None:
            assert isinstance(error, ResumeRefusedError)
            self.over.append(token)

        self.suspended.add(token, peer, size_bytes, give_up)


def test_who_lets_many_streams_wait_does_not_cost_others_theirs() -> None:
    waiting = GivenUp(max_suspended=4)
    waiting.add(b"neighbour", "tcp:10.0.0.1:1")
    for number in range(8):
        waiting.add(bytes([number]), f"tcp:10.0.0.2:{number}")
    assert waiting.over == [bytes([number]) for number in range(5)]
    assert len(waiting.suspended) == 4


def test_who_lets_many_bytes_wait_loses_its_own() -> None:
    waiting = GivenUp(max_suspended_bytes=100)
    for number in range(3):
        waiting.add(bytes([number]), f"tcp:10.0.0.{number}:1", 30)
    waiting.add(b"large", "tcp:10.0.0.9:1", 50)
    assert waiting.over == [b"large"]


def test_a_stream_that_is_cut_again_waits_once() -> None:
    waiting = GivenUp(max_suspended_bytes=100)
    for size_bytes in (60, 70, 80):
        waiting.add(b"often", "tcp:10.0.0.1:1", size_bytes)
    assert waiting.over == []


@pytest.mark.parametrize(
    ("peer", "key"),
    [
        ("tcp:203.0.113.5:4242", "203.0.113.5"),
        ("ipv4:203.0.113.5:4242", "203.0.113.5"),
        ("udp:2001:db8::1:4242", "2001:db8::/64"),
        ("ipv6:[2001:db8:0:0:1:2:3:4]:4242", "2001:db8::/64"),
        ("ipv6:[::ffff:203.0.113.5]:4242", "203.0.113.5"),
        ("tcp:fe80::1%eth0:4242", "fe80::/64"),
        ("unix:", "unix"),
        ("memory", "memory"),
    ],
)
def test_a_peer_is_a_host_or_a_network_of_ipv6(peer: str, key: str) -> None:
    assert peer_key(peer) == key


def test_places_are_counted_once_however_often_they_are_left() -> None:
    admission = Admission(Limits(max_streams=1))
    place = admission.stream("memory")
    place.leave()
    place.leave()
    assert admission.streams == 0
    with admission.stream("memory"), pytest.raises(LimitReachedError):
        admission.stream("memory")


def test_who_has_an_identity_is_counted_by_it_wherever_it_is() -> None:
    admission = Admission(Limits(max_streams_per_peer=1))
    for identity in ("a", "b"):
        admission.stream("tcp:10.0.0.1:1", identity)
    with pytest.raises(LimitReachedError, match="of one peer"):
        admission.stream("tcp:10.0.0.2:1", "a")


def test_a_peer_keeps_its_failures_while_many_others_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("permitflow.exchange.admission.monotonic", lambda: 100.0)
    admission = Admission(Limits(max_failures_per_peer=1))
    for _ in range(5):
        assert admission.attempt("tcp:10.0.0.1:1").seconds == 0
    for number in range(2_000):
        admission.attempt(f"tcp:10.1.{number >> 8}.{number & 255}:1")
    assert admission.attempt("tcp:10.0.0.1:1").seconds == 1


def test_thousands_of_new_peers_cost_little_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("permitflow.exchange.admission.monotonic", lambda: 100.0)
    admission, began = Admission(Limits()), thread_time()
    for number in range(20_000):
        admission.attempt(f"tcp:10.0.{number >> 8}.{number & 255}:1")
    assert thread_time() - began < 5.0  # a second, and not a minute, on a slow machine


def test_peers_that_have_gone_take_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("permitflow.exchange.admission.monotonic", lambda: now)
    admission = Admission(Limits(max_memory_per_peer=1 << 40))

    def come_and_go(number: int) -> None:
        nonlocal now
        now += 1.0
        peer = f"tcp:10.{number >> 16}.{number >> 8 & 255}.{number & 255}:1"
        admission.attempt(peer)
        admission.suspended.add(b"token", peer, 1, lambda _: None)
        with admission.connection(peer), admission.handshake(peer, lambda _: None), admission.stream(peer):
            admission.memory.take_stream(1, peer).leave()

    def traced_bytes() -> int:
        for number in range(4_000):
            come_and_go(number + first)
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        first = 0
        before_bytes = traced_bytes()
        first = 100_000
        assert traced_bytes() < before_bytes + 20_000
    finally:
        tracemalloc.stop()


def test_there_are_no_more_connections_than_descriptors_suffice_for() -> None:
    fitted = Limits().within(1_024)
    assert (fitted.max_connections, fitted.max_connections_per_peer) == (960, 480)
    assert Limits().within(1 << 20) == Limits()


@pytest.mark.parametrize("name", [limit.name for limit in OPTIONS])
@pytest.mark.parametrize("value", [0, -1, True, "8", 1.5])
def test_a_limit_that_is_no_number_of_things_is_refused(name: str, value: Any) -> None:
    with pytest.raises(InvalidParametersError, match=name):
        Limits(**{name: value})
