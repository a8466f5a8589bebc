"""The peers of a gRPC server: who is hung up on, and how soon."""

import asyncio
import errno
import socket
import sys
import tracemalloc
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager, suppress
from time import thread_time
from typing import Any

import grpc
import pyarrow as pa
import pytest

from permitflow.carriers.byte_stream import FRAMES_BYTES
from permitflow.carriers.connection import CONTROL, MOST_CALLS, MOST_UNREAD_BYTES, PUT_STREAM
from permitflow.carriers.deadlines import SILENCE_SECONDS
from permitflow.carriers.grpc_connections import GrpcConnections, Look, Name, Traffic
from permitflow.client import EndOutcome, SameHost, put
from permitflow.exchange import Exchange, ExchangeServer, admission, grpc_peers, server
from permitflow.exchange.admission import Admission
from permitflow.exchange.grpc_peers import GrpcPeers
from permitflow.exchange.health import HEALTH
from permitflow.exchange.limits import Limits
from permitflow.wire.arrow import MAX_MESSAGE_BYTES
from permitflow.wire.control_codec import MOST_REQUEST_BYTES
from tests.hostile.byte_grammar import CONTINUATION, DATA, HEADERS, PING, PREFACE, SETTINGS, call_of, frame, message
from tests.support.simulated_time import simulated
from tests.support.turns import turns, until

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell how much has come")
PEER = Name("127.0.0.1", 4_242)
OF_STREAM_BYTES = MOST_UNREAD_BYTES + MAX_MESSAGE_BYTES
BURST_BYTES = 3 << 20
"""Less than a peer may send at once, beside messages."""
ESTABLISHED, SYN_SENT = b"\1", b"\2"
CALLER = f"ipv4:{PEER.host}:{PEER.port}"


class Call:
    """One of which nothing has come yet."""

    received_bytes = received_messages = 0
    has_written = True


class OneConnection(GrpcConnections):
    """One that comes between two looks."""

    def __init__(self, *, is_here: bool = False) -> None:
        super().__init__(0)
        self.is_here = is_here
        self.is_seen = self.is_hung_up = self.is_blind = False
        self.came_bytes = self.taken_bytes = self.looks = self.measures = self.failures = 0
        self.dropped: tuple[str, ...] = ()
        self.can_drop = True

    def look(self) -> Look:
        self.looks += 1
        if self.is_blind:
            return Look([], [], is_whole=False)
        come = [PEER] if self.is_here and not self.is_seen else []
        gone = [PEER] if self.is_seen and not self.is_here else []
        self.is_seen = self.is_here
        return Look(come, gone)

    def traffic(self, name: Name) -> Traffic | None:
        self.measures += 1
        return Traffic(self.came_bytes, self.taken_bytes) if self.is_seen and name == PEER else None

    def drop_from(self, networks: Sequence[str]) -> bool:
        if self.can_drop:
            self.dropped = tuple(networks)
        self.failures += not self.can_drop
        return self.can_drop

    def hang_up(self, name: Name) -> bool:
        self.is_hung_up |= self.is_seen and name == PEER
        return self.is_hung_up

    async def measured(self) -> None:
        """Wait until its bytes were compared."""
        before = self.measures
        await until(lambda: self.measures > before + 1)

    async def stays(self) -> None:
        await self.measured()
        assert not self.is_hung_up

    async def goes(self) -> None:
        await until(lambda: self.is_hung_up)


@contextmanager
def begun(peers: GrpcPeers, call: Call | None = None, *, is_stream: bool = True) -> Iterator[None]:
    """A call of the peer that has said what it wants."""
    with peers.call(CALLER, call or Call(), is_stream=is_stream) as begin:
        begin()
        yield


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks follow each other quickly."""
    monkeypatch.setattr(grpc_peers, "_BETWEEN_LOOKS_SECONDS", 0.01)


@asynccontextmanager
async def looked_at(
    connections: OneConnection, admission: Admission | None = None, handshake_seconds: float = 30.0
) -> AsyncIterator[GrpcPeers]:
    peers = GrpcPeers(admission or Admission(Limits()), connections, handshake_seconds)
    following = asyncio.create_task(peers.follow())
    await turns()
    yield peers
    following.cancel()
    await asyncio.wait({following})


def dialled(host: str, port: int, source: str) -> socket.socket:
    """Over the loopback, a connection is made at once, or not at all."""
    made = socket.socket()
    made.setblocking(False)
    made.bind((source, 0))
    assert made.connect_ex((host, port)) == errno.EINPROGRESS
    return made


async def written_on(made: socket.socket, first: bytes, then: bytes) -> None:
    """Until the other end hangs up."""
    loop = asyncio.get_running_loop()
    with suppress(ConnectionError):
        await loop.sock_sendall(made, first)
        while True:
            await loop.sock_sendall(made, then)


async def test_headers_that_are_too_long_once_are_told_and_no_more() -> None:
    async with looked_at(connections := OneConnection(is_here=True)) as peers:
        peers.note_excess(CALLER)
        assert not connections.is_hung_up
        peers.note_excess(CALLER)
        assert connections.is_hung_up


async def test_a_connection_with_too_long_headers_is_looked_for_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_peers, "_BETWEEN_LOOKS_SECONDS", 3_600.0)
    async with looked_at(connections := OneConnection()) as peers:
        connections.is_here = True
        for _ in range(2):
            peers.note_excess(CALLER)
        await connections.goes()
        looks = connections.looks
        await asyncio.sleep(0.02)
        assert connections.looks == looks, "once"


@needs_linux
@pytest.mark.parametrize("method", [PUT_STREAM, f"/{HEALTH}/Check", f"/{HEALTH}/Watch"])
async def test_a_first_message_that_grows_too_long_is_hung_up_on(method: str) -> None:
    begin = PREFACE + frame(SETTINGS, b"") + frame(SETTINGS, b"", 1) + frame(HEADERS, call_of(method), 4, 1)
    part = frame(DATA, message(bytes(10_000), MAX_MESSAGE_BYTES)[:10_000], 0, 1)
    async with ExchangeServer(Exchange(), "127.0.0.1:0") as serving, asyncio.timeout(20.0):
        reader, writer = await asyncio.open_connection(*serving.address.split(":"))
        with closing(writer), suppress(ConnectionError):
            writer.write(begin + part + frame(DATA, bytes(10_000), 0, 1) * (2 * FRAMES_BYTES // 10_000))
            while await reader.read(1 << 16):
                pass


@needs_linux
@pytest.mark.parametrize("method", [PUT_STREAM, f"/{HEALTH}/Check"])
async def test_a_peer_whose_headers_are_too_long_is_hung_up_on(method: str) -> None:
    """One that has not acknowledged how long they may be."""
    block = call_of(method, **{f"x-{number}": b"x" * 4_000 for number in range(6)})
    async with ExchangeServer(Exchange(), "127.0.0.1:0") as serving, asyncio.timeout(20.0):
        reader, writer = await asyncio.open_connection(*serving.address.split(":"))
        with closing(writer), suppress(ConnectionError):
            writer.write(PREFACE + frame(SETTINGS, b""))
            for stream in range(1, 81, 2):
                writer.write(frame(HEADERS, block[:16_000], 1, stream) + frame(CONTINUATION, block[16_000:], 4, stream))
            while await reader.read(1 << 16):
                pass


@needs_linux
@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("scheme", ["", "tcp://"])
async def test_streams_at_its_port_of_another_address_are_not_judged(scheme: str) -> None:
    exchange, batch = Exchange(), pa.record_batch({"text": [bytes(FRAMES_BYTES)]})
    exchange.add_channel("a")
    async with ExchangeServer(exchange, "127.0.0.1:0") as first:
        port = first.address.rpartition(":")[2]
        async with (
            ExchangeServer(exchange, f"{scheme}127.0.0.2:{port}") as second,
            put(second.address, "a", batch.schema, resume_seconds=0, same_host=SameHost.NEVER) as sender,
        ):
            for _ in range(10):
                await sender.send(batch)
                await asyncio.sleep(0.02)
            await sender.end(until=EndOutcome.ACCEPTED)


async def test_messages_of_its_streams_are_not_of_a_first_one() -> None:
    connections, stream = OneConnection(is_here=True), Call()
    async with looked_at(connections) as peers:
        with begun(peers, stream):
            stream.received_bytes = connections.came_bytes = 1 << 30
            with peers.call(CALLER, Call()):
                stream.received_bytes += 1 << 30
                connections.came_bytes += 1 << 30
                await connections.stays()
                connections.came_bytes += 1 << 30
                await connections.goes()


async def test_what_its_streams_have_not_read_is_not_of_a_first_one() -> None:
    async with looked_at(connections := OneConnection(is_here=True)) as peers:
        with begun(peers), peers.call(CALLER, Call()):
            connections.came_bytes = MAX_MESSAGE_BYTES
            await connections.stays()


async def test_before_its_first_call_a_peer_sends_no_more_than_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """While others begin calls, it is measured as often as they are."""
    monkeypatch.setattr(grpc_peers, "_BETWEEN_LOOKS_SECONDS", 3_600.0)
    async with looked_at(connections := OneConnection(is_here=True)) as peers:
        with peers.call("ipv4:127.0.0.1:4243", Call()):
            connections.came_bytes = FRAMES_BYTES
            await connections.stays()
            connections.came_bytes += 1
            await connections.goes()


async def test_a_connection_is_sought_while_its_first_message_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_peers, "_BETWEEN_LOOKS_SECONDS", 3_600.0)
    async with looked_at(connections := OneConnection()) as peers:
        with peers.call(CALLER, Call()):
            connections.is_here, connections.came_bytes = True, FRAMES_BYTES + 1
            await connections.goes()


async def test_who_was_hung_up_on_leaves_its_place_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_peers, "_BETWEEN_LOOKS_SECONDS", 3_600.0)
    admission, connections = Admission(Limits()), OneConnection(is_here=True)
    async with looked_at(connections, admission) as peers:
        with peers.call(CALLER, Call()):
            connections.came_bytes = FRAMES_BYTES + 1
            await connections.goes()
            connections.is_here = False
            await until(lambda: admission.connections == 0)


async def test_who_has_called_before_a_look_is_admitted_before_newcomers() -> None:
    class TwoConnections(OneConnection):
        def look(self) -> Look:
            come, gone, *_ = super().look()
            return Look([Name(PEER.host, 4_243) for _ in come] + come, gone)

    async with looked_at(connections := TwoConnections(), Admission(Limits(max_connections=1))) as peers:
        with peers.call(CALLER, Call()):
            connections.is_here = True
            await connections.measured()
            assert connections.measures
            assert not connections.is_hung_up


@pytest.mark.parametrize("calls", [False, True])
@pytest.mark.usefixtures("often")
async def test_a_handshake_is_over_with_a_call_or_with_its_time(calls: bool) -> None:
    admission, connections = Admission(Limits()), OneConnection()
    async with looked_at(connections, admission, handshake_seconds=30.0 if calls else 0.05) as peers:
        if calls:
            with peers.call(CALLER, Call()):
                await asyncio.sleep(0.05)
                connections.is_here = True
                await until(lambda: admission.connections == 1)
                assert admission.handshakes == 0
        else:
            connections.is_here = True
            await until(lambda: admission.handshakes == 1)
            await until(lambda: admission.handshakes == 0)
            assert admission.connections == 1


async def test_who_looks_no_more_gives_all_places_back() -> None:
    admission = Admission(Limits())
    async with looked_at(OneConnection(is_here=True), admission):
        assert (admission.connections, admission.handshakes) == (1, 1)
    assert (admission.connections, admission.handshakes) == (0, 0)


@pytest.mark.usefixtures("often")
async def test_calls_of_who_came_and_went_between_looks_take_no_memory() -> None:
    heard = Call()
    heard.received_messages = 1
    async with looked_at(connections := OneConnection()) as peers:
        tracemalloc.start()
        try:
            for port in range(2_000):
                with peers.call(f"ipv4:10.0.0.1:{port}", heard):
                    pass
            connections.is_here = True
            await until(lambda: connections.is_seen)
            assert tracemalloc.get_traced_memory()[0] < 200_000
        finally:
            tracemalloc.stop()


async def test_streams_that_are_over_take_little_memory() -> None:
    peers = GrpcPeers(Admission(Limits()), OneConnection(), 30.0)
    with peers.call(CALLER, Call()):
        tracemalloc.start()
        try:
            for _ in range(5_000):
                with begun(peers):
                    pass
            assert tracemalloc.get_traced_memory()[0] < 100_000
        finally:
            tracemalloc.stop()


async def test_what_came_before_a_call_is_not_of_its_message() -> None:
    connections, former = OneConnection(is_here=True), Call()
    async with looked_at(connections) as peers:
        with peers.call(CALLER, former):
            former.received_bytes = 1
        connections.came_bytes = 2 * FRAMES_BYTES  # pings, in a long time
        with peers.call(CALLER, Call()):
            await connections.stays()
            connections.came_bytes += FRAMES_BYTES + 1
            await connections.goes()


async def test_pings_beside_a_silent_call_are_not_of_the_next_one() -> None:
    async with looked_at(connections := OneConnection(is_here=True)) as peers:
        with begun(peers, is_stream=False):
            connections.came_bytes = MOST_REQUEST_BYTES + BURST_BYTES  # in days
            with peers.call(CALLER, Call()):
                await connections.stays()


async def test_what_came_before_older_calls_is_not_of_a_message() -> None:
    """A proxy makes calls for many clients: one of them is always beginning."""
    connections, former = OneConnection(is_here=True), Call()
    async with looked_at(connections) as peers:
        with peers.call(CALLER, former):
            former.received_bytes = 1
        last = ExitStack()
        for _ in range(5):
            with last:
                last = ExitStack()
                last.enter_context(peers.call(CALLER, Call()))
            connections.came_bytes += FRAMES_BYTES // 2
            await connections.measured()
        last.close()
        assert not connections.is_hung_up


async def test_what_came_before_its_first_call_is_of_its_message() -> None:
    """The exchange hears of the call later than the kernel of its bytes."""
    async with looked_at(connections := OneConnection(is_here=True)) as peers:
        connections.came_bytes = FRAMES_BYTES + 1
        with peers.call(CALLER, Call()):
            await connections.goes()


@pytest.mark.usefixtures("often")
async def test_calls_that_began_before_a_look_are_counted() -> None:
    connections, stream = OneConnection(), Call()
    async with looked_at(connections) as peers:
        with begun(peers, stream):
            await until(lambda: connections.looks > 2)
            connections.is_here = True
            stream.received_bytes = connections.came_bytes = 1 << 30
            await connections.stays()


@pytest.mark.usefixtures("often")
async def test_a_handshake_of_tls_is_no_noise() -> None:
    connections = OneConnection(is_here=True)
    async with looked_at(connections, Admission(Limits(max_failures_per_peer=1))):
        connections.came_bytes = 60 << 10  # with a chain of certificates
        await connections.stays()


@pytest.mark.usefixtures("often")
async def test_who_sends_what_is_no_message_is_shut_out() -> None:
    async with looked_at(connections := OneConnection(is_here=True)) as peers:
        with begun(peers):
            connections.came_bytes = OF_STREAM_BYTES + BURST_BYTES
            await connections.stays()
            connections.came_bytes += 2 * BURST_BYTES
            await connections.goes()
            assert connections.dropped == (PEER.host,)
        # One that the kernel had already let in.
        connections.came_bytes, connections.is_seen, connections.is_hung_up = 0, False, False
        await connections.goes()


@simulated
async def test_who_floods_on_many_short_connections_is_shut_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_peers, "thread_time", lambda: 0.0)

    class Short(OneConnection):
        """Each is there for a tenth of a second."""

        here: tuple[Name, ...] = ()

        def look(self) -> Look:
            former, self.here = self.here, (Name(PEER.host, int(10 * asyncio.get_running_loop().time())),)
            return Look([*{*self.here} - {*former}], [*{*former} - {*self.here}])

        def traffic(self, name: Name) -> Traffic | None:
            return Traffic(400_000, 0)

    async with looked_at(connections := Short()):
        await asyncio.sleep(3.0)
        assert connections.dropped == (PEER.host,)


@simulated
async def test_who_floods_from_the_port_of_another_one_is_shut_out() -> None:
    class Twins(OneConnection):
        """Another one comes again and again, at another address."""

        twin_bytes = 60 << 10  # with a chain of certificates

        def look(self) -> Look:
            return super().look()._replace(twins=((PEER, self.twin_bytes),))

    async with looked_at(connections := Twins(is_here=True), Admission(Limits(max_failures_per_peer=1))):
        await asyncio.sleep(10.0)
        assert not connections.dropped
        connections.twin_bytes = BURST_BYTES
        await until(lambda: connections.dropped == (PEER.host,))
        assert not connections.is_hung_up


@pytest.mark.usefixtures("often")
async def test_an_open_stream_goes_on_though_its_peer_is_shut_out() -> None:
    async with looked_at(connections := OneConnection(is_here=True)) as peers:
        connections.came_bytes = 1 << 30
        await connections.goes()
        connections.is_here = False
        await until(lambda: not connections.is_seen)
        connections.came_bytes, connections.is_hung_up = 0, False
        with begun(peers):
            connections.is_here = True
            await connections.stays()


@pytest.mark.usefixtures("often")
async def test_a_peer_is_let_in_again_though_a_look_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "_MOST_SHUT_OUT_SECONDS", 0.05)
    async with looked_at(connections := OneConnection(is_here=True)):
        connections.came_bytes = 1 << 30
        await until(lambda: bool(connections.dropped))
        connections.can_drop = connections.is_here = False
        await until(lambda: connections.failures > 0)
        connections.can_drop = True
        await until(lambda: connections.dropped == ())


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize(("is_stream", "has_written"), [(False, True), (True, False)])
async def test_calls_that_cost_nothing_allow_no_noise(is_stream: bool, has_written: bool) -> None:
    async with looked_at(connections := OneConnection(is_here=True)) as peers:
        for _ in range(3):
            call = Call()
            call.has_written = has_written
            with begun(peers, call, is_stream=is_stream):
                connections.came_bytes += BURST_BYTES
                await connections.measured()
        await connections.goes()


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize(("is_stream", "has_written"), [(False, True), (True, False)])
async def test_open_calls_that_cost_nothing_allow_little_noise(is_stream: bool, has_written: bool) -> None:
    connections, call = OneConnection(is_here=True), Call()
    call.has_written = has_written
    async with looked_at(connections) as peers:
        with begun(peers, call, is_stream=is_stream):
            connections.came_bytes = MOST_REQUEST_BYTES + 2 * BURST_BYTES
            await connections.goes()


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("is_stream", [False, True])
async def test_many_open_calls_that_cost_nothing_allow_little_noise(is_stream: bool) -> None:
    async with looked_at(connections := OneConnection(is_here=True)) as peers:
        with ExitStack() as stack:
            for _ in range(MOST_CALLS):
                call = Call()
                call.has_written = not is_stream
                stack.enter_context(begun(peers, call, is_stream=is_stream))
            connections.came_bytes = MOST_UNREAD_BYTES + 2 * BURST_BYTES
            await connections.goes()


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_request_or_a_first_message_that_waits_is_no_noise(is_stream: bool) -> None:
    connections, call = OneConnection(is_here=True), Call()
    call.has_written = not is_stream
    async with looked_at(connections) as peers:
        with begun(peers, call, is_stream=is_stream):
            connections.came_bytes = BURST_BYTES + (FRAMES_BYTES if is_stream else MOST_REQUEST_BYTES)
            await connections.stays()


@simulated
async def test_requests_that_come_slowly_are_bounded_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also beside those that come whole, of another call."""
    monkeypatch.setattr(grpc_peers, "_MOST_WAITING_BYTES", 2 << 20)
    connections, other = OneConnection(is_here=True), Call()
    async with looked_at(connections) as peers:
        with (
            peers.call(CALLER, Call(), is_stream=False) as begin,
            peers.call(CALLER, other, is_stream=False) as begin_other,
        ):
            begin()
            begin_other()
            for _ in range(40):
                connections.came_bytes += 50 << 10
                other.received_messages += 1
                await asyncio.sleep(1.0)
            assert not connections.is_hung_up
            for _ in range(4):
                connections.came_bytes += 50 << 10
                await asyncio.sleep(1.0)
            assert connections.is_hung_up
            assert connections.dropped == ()


@simulated
@pytest.mark.parametrize("what", ["whole", "room", "headers", "stream", "former"])
async def test_what_is_of_no_request_does_not_wait(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_peers, "_MOST_WAITING_BYTES", 2 << 20)
    connections, call, other = OneConnection(is_here=True), Call(), Call()
    other.received_messages = 1
    async with looked_at(connections) as peers:
        with ExitStack() as stack:
            if what == "former":
                with begun(peers, other, is_stream=False):
                    connections.came_bytes = 1 << 20
                    await asyncio.sleep(1.0)
            if what == "stream":
                stack.enter_context(begun(peers))
            stack.enter_context(begun(peers, call, is_stream=False))
            for _ in range(80):
                await asyncio.sleep(1.0)
                connections.came_bytes += (20 << 10) if what == "former" else 50 << 10
                connections.taken_bytes += (50 << 18) if what == "room" else 0
                call.received_messages += what == "whole"
                for _ in range(100 if what == "headers" else 0):
                    with peers.call(CALLER, other):
                        pass
            assert not connections.is_hung_up


class Several(OneConnection):
    """Connections of as many hosts."""

    def __init__(self, number: int) -> None:
        super().__init__(is_here=True)
        self.came = {Name(f"10.0.0.{each}", 1): 0 for each in range(number)}
        self.hung_up = set[Name]()

    def look(self) -> Look:
        come, gone, *_ = super().look()
        return Look([*self.came] if come else [], gone)

    def traffic(self, name: Name) -> Traffic | None:
        return Traffic(self.came[name], 0)

    def hang_up(self, name: Name) -> bool:
        self.hung_up.add(name)
        return True


@simulated
async def test_of_requests_that_wait_the_longest_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_peers, "_MOST_WAITING_BYTES", 3 << 20)
    async with looked_at(connections := Several(4)) as peers:
        with ExitStack() as stack:
            for name, size in zip(connections.came, (1 << 20, 2 << 20, 3 << 20, 1 << 20), strict=True):
                stack.enter_context(peers.call(f"ipv4:{name.host}:1", Call(), is_stream=False))()
                connections.came[name] = size
            await asyncio.sleep(2.0)
    assert {name.host for name in connections.hung_up} == {"10.0.0.1", "10.0.0.2"}


@pytest.mark.usefixtures("often")
async def test_framing_of_many_short_messages_is_no_noise() -> None:
    connections, stream = OneConnection(is_here=True), Call()
    async with looked_at(connections) as peers:
        with begun(peers, stream):
            stream.received_messages = 2 << 20
            stream.received_bytes = stream.received_messages * 300
            connections.came_bytes = stream.received_messages * 336
            await connections.measured()
            connections.came_bytes += MOST_UNREAD_BYTES
            await connections.stays()


@pytest.mark.usefixtures("often")
async def test_slow_feedback_leaves_streams_what_they_may_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    async with looked_at(connections := OneConnection(is_here=True)) as peers:
        with begun(peers), monkeypatch.context() as patch:
            patch.setattr(grpc_peers, "_QUIET_BYTES_PER_SECOND", 1 << 40)  # hours in a moment
            connections.came_bytes = OF_STREAM_BYTES
            await connections.measured()
            patch.undo()
            connections.came_bytes += MOST_UNREAD_BYTES
            await connections.stays()


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("is_late", [False, True])
async def test_what_is_under_way_when_a_stream_ends_is_no_noise(is_late: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_peers, "_UNDER_WAY_SECONDS", 3_600.0 if is_late else 0.0)
    async with looked_at(connections := OneConnection(is_here=True)) as peers:
        with begun(peers):
            pass
        if is_late:
            await connections.measured()
        connections.came_bytes = MOST_UNREAD_BYTES
        await connections.stays()
        connections.came_bytes += OF_STREAM_BYTES + 2 * BURST_BYTES
        await connections.goes()


@simulated
async def test_what_comes_of_an_ended_stream_after_a_silence_is_no_noise() -> None:
    async with looked_at(connections := OneConnection(is_here=True)) as peers:
        with begun(peers):
            pass
        await asyncio.sleep(2 * SILENCE_SECONDS)
        connections.came_bytes = MOST_UNREAD_BYTES
        await asyncio.sleep(2 * SILENCE_SECONDS)
        assert not connections.is_hung_up


@simulated
async def test_room_that_a_fast_consumer_gives_back_is_no_noise() -> None:
    async with looked_at(connections := OneConnection(is_here=True)) as peers:
        with begun(peers):
            for _ in range(600):
                connections.taken_bytes += 1 << 30
                connections.came_bytes += 1 << 22
                await asyncio.sleep(1.0)
            connections.came_bytes += OF_STREAM_BYTES + BURST_BYTES
            await asyncio.sleep(1.0)
            assert not connections.is_hung_up
            connections.came_bytes += 2 * BURST_BYTES
            await connections.goes()


@pytest.mark.usefixtures("often")
async def test_what_an_ended_stream_left_takes_no_room_of_others() -> None:
    async with looked_at(connections := OneConnection(is_here=True)) as peers:
        with peers.call(CALLER, Call()) as begin_other, pytest.MonkeyPatch.context() as patch:
            begin_other()
            patch.setattr(grpc_peers, "_UNDER_WAY_SECONDS", 0.0)
            with begun(peers):
                connections.came_bytes = MOST_UNREAD_BYTES
                await connections.measured()
            await connections.measured()
            connections.came_bytes += MOST_UNREAD_BYTES
            await connections.stays()


@pytest.mark.usefixtures("often")
async def test_an_ended_stream_leaves_no_more_than_it_may_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_peers, "_UNDER_WAY_SECONDS", 0.0)
    async with looked_at(connections := OneConnection(is_here=True)) as peers:
        with begun(peers):
            pass
        connections.came_bytes = OF_STREAM_BYTES + 2 * BURST_BYTES
        await connections.goes()


async def test_what_an_ended_stream_left_is_not_of_a_first_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_peers, "_UNDER_WAY_SECONDS", 0.0)
    async with looked_at(connections := OneConnection(is_here=True)) as peers:
        with ExitStack() as stack:
            stream = stack.enter_context(ExitStack())
            stream.enter_context(begun(peers))
            stack.enter_context(peers.call(CALLER, Call()))
            connections.came_bytes = MOST_UNREAD_BYTES
            await connections.measured()
            stream.close()
            await connections.stays()


@pytest.mark.usefixtures("often")
async def test_calls_of_who_cannot_be_seen_yet_are_counted() -> None:
    """No descriptor is free to look with."""
    connections, call = OneConnection(), Call()
    connections.is_blind = True
    async with looked_at(connections) as peers:
        with begun(peers, call):
            call.received_bytes = connections.came_bytes = 2 * FRAMES_BYTES
        looks = connections.looks
        await until(lambda: connections.looks > looks)
        connections.is_blind, connections.is_here = False, True
        await connections.stays()


@pytest.mark.usefixtures("often")
async def test_looks_that_take_long_are_seldom() -> None:
    class Many(OneConnection):
        def look(self) -> Look:
            until_seconds = thread_time() + 0.005
            while thread_time() < until_seconds:
                pass
            return super().look()

    async with looked_at(connections := Many()):
        await asyncio.sleep(0.1)
        assert connections.looks == 1


class Again(OneConnection):
    """One connection goes, and another one comes from the same port."""

    is_again = False
    is_measurable = True

    def __init__(self, *others: Name) -> None:
        super().__init__(is_here=True)
        self._others = others

    def look(self) -> Look:
        found = super().look()
        is_again, self.is_again = self.is_again, False
        return Look([*self._others, PEER], [PEER]) if is_again else found

    def traffic(self, name: Name) -> Traffic | None:
        found = super().traffic(name)
        return found if self.is_measurable else None


@pytest.mark.usefixtures("often")
async def test_calls_of_a_name_that_has_come_again_are_counted() -> None:
    connections, stream = Again(), Call()
    async with looked_at(connections) as peers:
        with begun(peers, stream):
            connections.is_again = True
            await connections.measured()
            stream.received_bytes = connections.came_bytes = 1 << 30
            await connections.stays()


@pytest.mark.usefixtures("often")
async def test_a_call_is_counted_that_ended_before_its_name_was_seen_again() -> None:
    connections, stream = Again(), Call()
    async with looked_at(connections) as peers:
        with begun(peers, stream):
            stream.received_bytes = connections.came_bytes = 1 << 30
        connections.is_again = True
        await connections.stays()


@pytest.mark.usefixtures("often")
async def test_noise_is_not_forgiven_to_who_dials_again_from_its_port() -> None:
    async with looked_at(connections := Again()) as peers:
        for _ in range(2):
            with begun(peers, is_stream=False):
                connections.came_bytes = MOST_REQUEST_BYTES + BURST_BYTES
                await connections.measured()
                connections.is_again, connections.came_bytes = True, 0
                await connections.measured()
        assert connections.is_hung_up


@simulated
@pytest.mark.parametrize("what", ["waited", "headers"])
async def test_what_waited_of_the_former_connection_excuses_nothing(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_peers, "_MOST_WAITING_BYTES", 1 << 20)
    connections, heard = Again(), Call()
    heard.received_messages = 1
    async with looked_at(connections) as peers:
        connections.came_bytes = (1 << 20) if what == "waited" else 0
        await asyncio.sleep(1.0)
        for _ in range(4_000 if what == "headers" else 0):
            with peers.call(CALLER, heard):
                pass
        with begun(peers, is_stream=False):
            connections.is_again, connections.came_bytes = True, 0
            await asyncio.sleep(1.0)
            connections.came_bytes = 3 << 19
            await asyncio.sleep(1.0)
            assert connections.is_hung_up
            assert connections.dropped == ()


@pytest.mark.usefixtures("often")
async def test_messages_are_counted_of_who_came_again_twice_unmeasured() -> None:
    connections, stream = Again(), Call()
    async with looked_at(connections) as peers:
        with begun(peers, stream):
            stream.received_bytes = connections.came_bytes = 1 << 30
            await connections.measured()
            connections.is_measurable = False
            for _ in range(2):
                connections.is_again = True
                await until(lambda: not connections.is_again)
            stream.received_bytes += connections.came_bytes
            connections.is_measurable = True
            await connections.stays()


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("is_open", [True, False])
async def test_messages_of_the_former_connection_excuse_no_noise(is_open: bool) -> None:
    connections, stream = Again(), Call()
    async with looked_at(connections) as peers:
        with ExitStack() as stack:
            stack.enter_context(begun(peers, stream))
            stream.received_bytes = connections.came_bytes = 1 << 30
            await connections.measured()
            if not is_open:
                stack.close()
            connections.is_again, connections.came_bytes = True, 0
            await connections.measured()
            connections.came_bytes = OF_STREAM_BYTES + 2 * BURST_BYTES
            await connections.goes()


@pytest.mark.usefixtures("often")
async def test_who_comes_again_without_a_call_is_held_to_a_handshake() -> None:
    async with looked_at(connections := Again()) as peers:
        with begun(peers):
            await connections.measured()
        connections.is_again = True
        await connections.measured()
        connections.came_bytes = 2 * FRAMES_BYTES
        await connections.goes()


@pytest.mark.usefixtures("often")
async def test_what_the_former_connection_took_is_no_noise_of_the_next() -> None:
    async with looked_at(connections := Again()) as peers:
        with begun(peers, is_stream=False):
            connections.taken_bytes = 1 << 40
            await connections.measured()
            connections.is_again, connections.taken_bytes = True, 0
            await connections.stays()


@pytest.mark.usefixtures("often")
async def test_a_name_that_comes_again_and_is_refused_is_no_fault() -> None:
    connections = Again(Name("127.0.0.2", 1))
    peers = GrpcPeers(Admission(Limits(max_connections=1)), connections, 30.0)
    following = asyncio.create_task(peers.follow())
    await turns()
    with peers.call(CALLER, Call()), peers.call("ipv4:127.0.0.2:1", Call()):
        connections.is_again = True
        await connections.goes()
        before = connections.measures
        await until(lambda: following.done() or connections.measures > before + 10)
        assert not following.done()
    following.cancel()
    await asyncio.wait({following})


@pytest.mark.usefixtures("often")
async def test_messages_and_what_streams_leave_unread_are_no_noise() -> None:
    connections, stream = OneConnection(is_here=True), Call()
    async with looked_at(connections) as peers:
        with begun(peers, stream):
            connections.came_bytes = 1 << 30
            stream.received_bytes = connections.came_bytes * 99 // 100
            connections.came_bytes += OF_STREAM_BYTES
            await connections.measured()
        await connections.stays()


async def test_a_slow_connection_stays_though_its_peer_is_shut_out(monkeypatch: pytest.MonkeyPatch) -> None:
    most_bytes_per_second, time = 1 << 34, asyncio.get_running_loop().time
    monkeypatch.setattr(grpc_peers, "_QUIET_BYTES_PER_SECOND", most_bytes_per_second)
    monkeypatch.setattr(grpc_peers, "_MOST_WAITING_BYTES", 1 << 60)
    monkeypatch.setattr(grpc_peers, "_BETWEEN_LOOKS_SECONDS", 0.1)

    class Slow(OneConnection):
        """From the first look on, a little more comes than what never counts."""

        began = 0.0

        def traffic(self, name: Name) -> Traffic | None:
            self.began = self.began or time()
            self.came_bytes = int(1.05 * most_bytes_per_second * (time() - self.began))
            return super().traffic(name)

    connections, admission = Slow(is_here=True), Admission(Limits())
    async with looked_at(connections, admission) as peers:
        with begun(peers, is_stream=False):
            admission.noise(CALLER, 1 << 30)
            for _ in range(2):
                await connections.stays()


@pytest.mark.usefixtures("often")
async def test_a_quiet_time_allows_no_noise_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async with looked_at(connections := OneConnection(is_here=True)) as peers:
        with begun(peers, is_stream=False), monkeypatch.context() as patch:
            patch.setattr(grpc_peers, "_QUIET_BYTES_PER_SECOND", 1 << 40)  # hours in a moment
            await connections.measured()
            patch.undo()
            connections.came_bytes = 1 << 30
            await connections.goes()


async def test_a_peer_is_let_in_in_time_though_looks_are_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_peers, "_BETWEEN_LOOKS_SECONDS", 3_600.0)
    monkeypatch.setattr(admission, "_MOST_SHUT_OUT_SECONDS", 0.05)
    async with looked_at(connections := OneConnection(is_here=True)) as peers:
        with peers.call(CALLER, Call()):
            connections.came_bytes = 1 << 30
            await until(lambda: bool(connections.dropped))
        await until(lambda: connections.dropped == ())


def failing_in(limits: Limits, monkeypatch: pytest.MonkeyPatch) -> Admission:
    """Counts failures in the time of the loop."""
    time = asyncio.get_running_loop().time
    monkeypatch.setattr("permitflow.exchange.admission.monotonic", lambda: 1_000.0 + time())
    return Admission(limits)


def end_unheard(peers: GrpcPeers, number: int) -> None:
    for _ in range(number):
        with peers.call(CALLER, Call()):
            pass


@simulated
async def test_who_makes_many_calls_that_say_nothing_is_shut_out(monkeypatch: pytest.MonkeyPatch) -> None:
    connections = OneConnection(is_here=True)
    admission = failing_in(Limits(max_failures_per_peer=100), monkeypatch)
    async with looked_at(connections, admission) as peers:
        end_unheard(peers, 500)
        assert not connections.is_hung_up
        end_unheard(peers, 1)
        assert connections.is_hung_up
        assert connections.dropped == (PEER.host,)
        await asyncio.sleep(0.9)
        assert connections.dropped == (PEER.host,), "for a second at least"
        await asyncio.sleep(0.11)
        assert not connections.dropped


@simulated
async def test_unheard_calls_at_the_limit_are_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    admission = failing_in(Limits(max_failures_per_peer=100), monkeypatch)
    async with looked_at(connections := OneConnection(is_here=True), admission) as peers:
        for _ in range(30):
            end_unheard(peers, 99)
            await asyncio.sleep(1.0)
        assert not connections.is_hung_up


@simulated
async def test_who_goes_on_with_unheard_calls_is_shut_out_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    admission = failing_in(Limits(max_failures_per_peer=1), monkeypatch)
    async with looked_at(connections := OneConnection(is_here=True), admission) as peers:
        end_unheard(peers, 6)
        end_unheard(peers, 2)
        await asyncio.sleep(2.99)
        assert connections.dropped == (PEER.host,)
        await asyncio.sleep(0.02)
        assert not connections.dropped


@simulated
async def test_calls_that_were_heard_and_refused_are_no_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    connections, refused = OneConnection(is_here=True), Call()
    refused.received_messages = 1
    async with looked_at(connections, failing_in(Limits(max_failures_per_peer=1), monkeypatch)) as peers:
        for _ in range(100):
            with peers.call(CALLER, refused):
                pass
        assert not connections.is_hung_up


@simulated
async def test_calls_of_connections_beyond_a_limit_are_no_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a thousand clients that start at once, most are hung up on, and then their calls come."""
    connections = OneConnection(is_here=True)
    admission = failing_in(Limits(max_failures_per_peer=1, max_handshakes=1, max_handshakes_per_peer=1), monkeypatch)
    async with looked_at(connections, admission) as peers:
        with admission.handshake(f"tcp:{PEER.host}:1", lambda _: None):
            assert connections.is_hung_up
            end_unheard(peers, 100)
            assert not connections.dropped
        await asyncio.sleep(31.0)
        end_unheard(peers, 6)
        assert connections.dropped == (PEER.host,), "it is another connection by now"


@needs_linux
async def test_probes_of_health_are_no_failures() -> None:
    limits = Limits(max_failures_per_peer=1)
    async with (
        ExchangeServer(Exchange(limits=limits), "127.0.0.1:0") as serving,
        asyncio.timeout(20.0),
        grpc.aio.insecure_channel(serving.address) as channel,
    ):
        check: Any = channel.unary_unary(f"/{HEALTH}/Check")
        for _ in range(20):
            await check(b"")


@needs_linux
@pytest.mark.parametrize("method", [PUT_STREAM, CONTROL, f"/{HEALTH}/Check"])
async def test_a_connection_whose_calls_say_nothing_is_hung_up_on(method: str) -> None:
    limits = Limits(max_failures_per_peer=1)
    async with ExchangeServer(Exchange(limits=limits), "127.0.0.1:0") as serving, asyncio.timeout(20.0):
        reader, writer = await asyncio.open_connection(*serving.address.split(":"))
        with closing(writer), suppress(ConnectionError):
            writer.write(PREFACE + frame(SETTINGS, b"") + frame(SETTINGS, b"", 1))
            for stream in range(1, 41, 2):
                writer.write(frame(HEADERS, call_of(method), 5, stream))
                await asyncio.sleep(0.02)
            while await reader.read(1 << 16):
                pass


@needs_linux
async def test_an_answer_about_health_that_goes_on_allows_no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    noise_bytes = 0

    class Noisy(GrpcConnections):
        def traffic(self, name: Name) -> Traffic | None:
            found = super().traffic(name)
            return None if found is None else found._replace(received_bytes=found.received_bytes + noise_bytes)

    monkeypatch.setattr(server, "GrpcConnections", Noisy)
    async with (
        ExchangeServer(Exchange(), "127.0.0.1:0") as serving,
        asyncio.timeout(20.0),
        grpc.aio.insecure_channel(serving.address) as channel,
    ):
        method: Any = channel.unary_stream(f"/{HEALTH}/Watch")
        watch = aiter(method(b""))
        await anext(watch)
        noise_bytes = 2 * BURST_BYTES
        with pytest.raises(grpc.aio.AioRpcError):
            await anext(watch)


@needs_linux
async def test_who_pings_on_and_on_is_not_let_in_and_others_are() -> None:
    async with ExchangeServer(Exchange(), "127.0.0.1:0") as serving, asyncio.timeout(20.0):
        host, port = serving.address.split(":")
        while True:
            with closing(dialled(host, int(port), "127.0.0.66")) as attacking:
                with closing(dialled(host, int(port), "127.0.0.1")) as other:
                    assert other.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1) == ESTABLISHED
                if attacking.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1) == SYN_SENT:
                    break
                await written_on(attacking, PREFACE + frame(SETTINGS, b""), frame(PING, bytes(8)) * 4_000)
