"""Streams over UDP: whatever the network does, all comes once and in order; strangers do no harm."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

import pyarrow as pa
import pytest

from permitflow import ChannelParameters, Kind
from permitflow.carriers.addresses import parsed
from permitflow.carriers.carrier import Conversation
from permitflow.carriers.connection import PUT_STREAM
from permitflow.carriers.datagrams import udp
from permitflow.carriers.datagrams.link import LinkFeedback
from permitflow.carriers.datagrams.link_pipe import LinkPipe
from permitflow.carriers.datagrams.packets import (
    COOKIE_BYTES,
    Accept,
    Challenge,
    Data,
    Gone,
    Hello,
    Open,
    Packet,
    decode,
    encode,
    encode_data,
)
from permitflow.carriers.datagrams.udp import UdpAcceptor, UdpStream
from permitflow.carriers.reaching import Destination
from permitflow.client import RemoteReceiver, RemoteSender, SameHost, control, describe, get, put
from permitflow.errors import (
    FalsePositionError,
    OverspendError,
    PeerGoneError,
    PeerTimeoutError,
    PermitflowError,
    PermitOverrunError,
    UnknownChannelError,
)
from permitflow.exchange import Exchange, ExchangeServer
from tests.support.lossy_socket import Faults, LossySocket, lossy_network
from tests.support.served import served
from tests.support.served_exchange import numbers, served_exchange, sink_of, source_of_first
from tests.support.simulated_time import in_simulated_time, simulated

SCHEMA = pa.schema([("n", pa.int64())])
CHUNKS, CHUNK_ROWS = 60, 5_000
PARAMETERS = ChannelParameters(row_permits=4 * CHUNK_ROWS)
HANG_SECONDS = 1_000.0
"""Of simulated time."""
LISTEN = "udp://127.0.0.1:0"

# Over a network.


def chunk(number: int) -> pa.RecordBatch:
    return pa.record_batch({"n": range(number * CHUNK_ROWS, (number + 1) * CHUNK_ROWS)}, schema=SCHEMA)


async def send_all(sender: RemoteSender) -> None:
    for number in range(CHUNKS):
        await sender.send(chunk(number))
        if number % 10 == 0:
            await sender.send_barrier(number)
    await sender.end()


async def receive_all(receiver: RemoteReceiver) -> list[object]:
    """The first and the last row of each chunk, and the barriers."""
    return [
        (message.payload["n"][0].as_py(), message.payload["n"][-1].as_py())
        if message.kind is Kind.CHUNK
        else message.payload
        async for message in receiver
    ]


def everything() -> list[object]:
    """What ``receive_all`` returns."""
    expected = list[object]()
    for number in range(CHUNKS):
        expected.append((number * CHUNK_ROWS, (number + 1) * CHUNK_ROWS - 1))
        if number % 10 == 0:
            expected.append(number)
    return expected


@asynccontextmanager
async def both_ends() -> AsyncIterator[tuple[RemoteSender, RemoteReceiver]]:
    async with (
        served("c", parameters=PARAMETERS, listen=LISTEN) as (_, address),
        put(address, "c", SCHEMA, same_host=SameHost.NEVER) as sender,
        get(address, "c", same_host=SameHost.NEVER) as receiver,
    ):
        yield sender, receiver


async def carried() -> list[object]:
    """A channel from its beginning to its end, through an exchange."""
    async with asyncio.timeout(HANG_SECONDS), both_ends() as (sender, receiver), asyncio.TaskGroup() as group:
        group.create_task(send_all(sender))
        return await receive_all(receiver)


NETWORKS = {
    "1 % lost": Faults(lost=0.01),
    "10 % lost": Faults(lost=0.1),
    "30 % lost": Faults(lost=0.3),
    "a third doubled": Faults(doubled=0.3),
    "a third overtaken": Faults(overtaken=0.3),
    "a tenth altered": Faults(altered=0.1),
    "all of it": Faults(lost=0.3, doubled=0.2, overtaken=0.2, altered=0.05),
}


@pytest.mark.parametrize("network", NETWORKS)
def test_everything_comes_once_and_in_order(network: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(udp, "LOOPBACK_DATAGRAM_BYTES", 4_000)
    with lossy_network(NETWORKS[network], seed=0):
        assert in_simulated_time(carried()) == everything()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(200))
def test_everything_comes_once_and_in_order_for_any_seed(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(udp, "LOOPBACK_DATAGRAM_BYTES", [600, udp.DATAGRAM_BYTES, 4_000][seed % 3])
    with lossy_network(NETWORKS["all of it"], seed=1_000 + 100 * seed):
        assert in_simulated_time(carried()) == everything()


def test_orders_are_answered_over_a_lossy_network() -> None:
    async def ask() -> list[str]:
        async with served("a", "b", parameters=PARAMETERS, listen=LISTEN) as (_, address), control(address) as orders:
            return [channel.channel for _ in range(20) for channel in (await orders.statistics()).channels]

    with lossy_network(NETWORKS["all of it"], seed=1):
        assert in_simulated_time(ask()) == ["a", "b"] * 20


def test_a_refusal_comes_over_a_lossy_network() -> None:
    async def ask() -> None:
        async with ExchangeServer(Exchange(), LISTEN) as server:
            await describe(server.address, "none")

    with lossy_network(NETWORKS["all of it"], seed=2), pytest.raises(UnknownChannelError):
        in_simulated_time(ask())


def test_an_outage_that_is_shorter_than_the_silence_is_bridged() -> None:
    async def run(made: list[LossySocket]) -> list[object]:
        async with both_ends() as (sender, receiver), asyncio.TaskGroup() as group:
            group.create_task(send_all(sender))
            await receiver.receive()
            cut(made)
            await asyncio.sleep(15.0)
            for each in made:
                each.faults = Faults()
            return await receive_all(receiver)

    with lossy_network(Faults(), seed=0) as made:
        assert in_simulated_time(run(made)) == everything()[1:]


def cut(made: list[LossySocket]) -> None:
    """From now on everything is lost."""
    for each in made:
        each.faults = Faults(lost=1.0)


def test_a_peer_beyond_a_cut_cable_is_gone_after_the_silence() -> None:
    async def run(made: list[LossySocket]) -> float:
        async with both_ends() as (sender, receiver):
            await sender.send(chunk(0))
            await receiver.receive()
            cut(made)
            at_seconds = asyncio.get_running_loop().time()
            with pytest.raises(PeerGoneError, match=r"no sign of life for 2[01] s"):
                await receiver.receive()
            return asyncio.get_running_loop().time() - at_seconds

    with lossy_network(Faults(), seed=0) as made:
        assert 20 <= in_simulated_time(run(made)) <= 22


def test_nobody_is_dialled_for_longer_than_the_deadline() -> None:
    async def run() -> None:
        async with ExchangeServer(Exchange(), LISTEN) as server:
            await describe(server.address, "none", connect_timeout_seconds=3.0)

    with lossy_network(Faults(lost=1.0), seed=0), pytest.raises(PeerTimeoutError, match="no connection within 3 s"):
        in_simulated_time(run())


# The ends.


async def test_a_consumer_that_stands_still_bounds_what_the_sender_keeps() -> None:
    async with streams() as (dialler, acceptor):
        acceptor.listen(Conversation(acceptor))
        acceptor.pause()
        taken = 0
        while taken < 10_000 and dialler.write([bytes(10_000)]):
            taken += 1
            await asyncio.sleep(0)
        assert 10_000 * taken <= 2 * udp.LOOPBACK_DATAGRAM_BYTES * 512


@asynccontextmanager
async def streams() -> AsyncIterator[tuple[UdpStream, UdpStream]]:
    """A dialler and an acceptor."""
    async with (
        acceptor_at() as (acceptor, pipes),
        udp.calling(Destination(f"udp://127.0.0.1:{acceptor.port}", PUT_STREAM, "the acceptor", 10.0)) as dialler,
    ):
        far = UdpStream(pipes[0], who="the dialler", is_acceptor=True)
        assert await far.method() == PUT_STREAM
        yield dialler, far
        far.close()


@asynccontextmanager
async def acceptor_at(port: int = 0, most_connections: int = 8) -> AsyncIterator[tuple[UdpAcceptor, list[LinkPipe]]]:
    """An acceptor, and the connections that it has made."""
    pipes = list[LinkPipe]()
    acceptor = UdpAcceptor(
        parsed(f"udp://127.0.0.1:{port}", least_port=0),
        lambda pipe, _: pipes.append(pipe),
        most_connections=most_connections,
    )
    yield acceptor, pipes
    await acceptor.close()


async def test_the_peer_of_a_killed_process_is_told_by_its_host() -> None:
    async with acceptor_at() as (acceptor, pipes):
        with stranger_to(acceptor) as dialler:
            await opened(dialler)
        stream = UdpStream(pipes[0], who="the dialler", is_acceptor=True)
        waiting = asyncio.create_task(stream.method())
        while not waiting.done():  # what is written is refused
            stream.write([b"?"])
            await asyncio.sleep(0.001)
        assert isinstance(waiting.exception(), PeerGoneError)
        stream.close()


@simulated
async def test_a_refused_packet_does_not_keep_the_loop_busy() -> None:
    async with acceptor_at() as (acceptor, pipes):
        with stranger_to(acceptor) as dialler:
            await opened(dialler)
        for _ in range(3):  # the second and the third write are told that the one before was refused
            pipes[0].send([b"x"])
        await asyncio.sleep(3600)  # simulated time stands still while a socket is readable
        assert pipes[0].over.is_set() or pipes[0].receive_into(memoryview(bytearray(1))) == 0


async def test_a_restarted_acceptor_knows_no_old_connection() -> None:
    async with acceptor_at() as (old, pipes):
        port = old.port
        dialling = udp.calling(Destination(f"udp://127.0.0.1:{port}", PUT_STREAM, "the acceptor", 10.0))
        async with dialling as dialler:
            for pipe in pipes:
                pipe.take_gone()  # the process is killed: it says nothing more
            await old.close()
            async with acceptor_at(port):
                dialler.write([b"?"])
                with pytest.raises(PeerGoneError, match="closed before the end"):
                    await Conversation(dialler).read()


# Strangers.


@contextmanager
def stranger_to(acceptor: UdpAcceptor) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.connect(("127.0.0.1", acceptor.port))
        made.setblocking(False)
        yield made


async def answer(stranger: socket.socket, *datagrams: bytes) -> Packet | None:
    """What an acceptor answers to these; None if it answers nothing until it has answered a HELLO behind them."""
    for datagram in (*datagrams, encode(Hello(0))):
        stranger.send(datagram)
    first = decode(await asyncio.get_running_loop().sock_recv(stranger, 2_000))
    if isinstance(first, Challenge) and first.token == 0:
        return None
    while decode(await asyncio.get_running_loop().sock_recv(stranger, 2_000)) != first:
        return first
    return first


async def opened(stranger: socket.socket, token: int = 7) -> Accept:
    """A connection by hand."""
    challenge = await answer(stranger, encode(Hello(token)))
    assert isinstance(challenge, Challenge)
    accept = await answer(stranger, encode(Open(token, challenge.cookie, 16)))
    assert isinstance(accept, Accept)
    return accept


async def test_without_the_cookie_nothing_is_opened() -> None:
    async with acceptor_at() as (acceptor, pipes):
        with stranger_to(acceptor) as stranger, stranger_to(acceptor) as other:
            assert await answer(stranger, encode(Open(7, bytes(COOKIE_BYTES), 16))) is None
            challenge = await answer(stranger, encode(Hello(7)))
            assert isinstance(challenge, Challenge)
            # A cookie is good for the address and the token for which it was baked.
            assert await answer(other, encode(Open(7, challenge.cookie, 16))) is None
            assert await answer(stranger, encode(Open(8, challenge.cookie, 16))) is None
        assert pipes == []


async def test_a_repeated_opening_makes_one_connection() -> None:
    async with acceptor_at() as (acceptor, pipes):
        with stranger_to(acceptor) as stranger:
            challenge = await answer(stranger, encode(Hello(7)))
            assert isinstance(challenge, Challenge)
            opening = encode(Open(7, challenge.cookie, 16))
            assert await answer(stranger, opening) == await answer(stranger, opening)
            assert len(pipes) == 1
            pipes[0].abandon()
            assert isinstance(await answer(stranger), Gone)
            assert await answer(stranger, opening) is None
            assert len(pipes) == 1


async def test_what_a_stranger_sends_changes_nothing() -> None:
    async with acceptor_at() as (acceptor, pipes):
        with stranger_to(acceptor) as dialler, stranger_to(acceptor) as stranger:
            accept = await opened(dialler)
            feedback = LinkFeedback(accept.connection, 0, 16)
            # Another address, another number: the answer is that there is no such connection.
            assert await answer(stranger, encode(feedback)) == Gone(accept.connection)
            assert await answer(dialler, encode(feedback._replace(epoch=1))) == Gone(1)
            assert await answer(stranger, encode(Gone(accept.connection)), b"", b"pd", bytes(2_000)) is None
            assert not pipes[0].over.is_set()
            assert acceptor.dropped["of no connection"] == 3
            assert acceptor.dropped["malformed"] == 3


WRONG: dict[str, tuple[Callable[[int], Packet], type[PermitflowError]]] = {
    "data beyond the window": (lambda c: Data(1_000, LinkFeedback(c, 0, 16), b"x"), OverspendError),
    "what was not sent is acknowledged": (lambda c: LinkFeedback(c, 1, 16), FalsePositionError),
    "a limit beyond the window": (lambda c: LinkFeedback(c, 0, 17), PermitOverrunError),
    "a range that was not sent": (lambda c: LinkFeedback(c, 0, 16, ((1, 3),)), FalsePositionError),
}


@pytest.mark.parametrize("what", WRONG)
async def test_a_peer_that_breaks_the_rules_fails_its_own_stream(what: str) -> None:
    packet_of, kind = WRONG[what]
    async with acceptor_at() as (acceptor, pipes):
        with stranger_to(acceptor) as dialler:
            accept = await opened(dialler)
            stream = UdpStream(pipes[0], who="the dialler", is_acceptor=True)
            packet = packet_of(accept.connection)
            dialler.send(b"".join(encode_data(*packet)) if isinstance(packet, Data) else encode(packet))
            with pytest.raises(kind):
                await stream.method()
            stream.close()


async def test_a_full_acceptor_answers_nobody_further() -> None:
    async with acceptor_at(most_connections=1) as (acceptor, pipes):
        with stranger_to(acceptor) as dialler:
            await opened(dialler)
            challenge = await answer(dialler, encode(Hello(8)))
            assert isinstance(challenge, Challenge)
            assert await answer(dialler, encode(Open(8, challenge.cookie, 16))) is None
            assert len(pipes) == 1


# Processes.


def test_blocking_clients_use_a_served_exchange_until_it_is_killed() -> None:
    with (
        served_exchange(address=LISTEN, same_host=SameHost.NEVER) as exchange,
        suppress(PeerGoneError),  # at the end of the sink's block
        sink_of(exchange, channel := exchange.channel()) as sink,
        source_of_first(exchange, channel, sink) as source,
    ):
        assert exchange.address.startswith("udp://")
        assert source.receive().payload == numbers(0, 64)
        exchange.signal(signal.SIGKILL)
        with pytest.raises(PeerGoneError):
            source.receive()
