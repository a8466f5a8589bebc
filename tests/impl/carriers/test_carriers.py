"""Whatever carries messages keeps the same promises: whole, in order, full and writable again, ended or broken."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from permitflow.carriers.addresses import parsed
from permitflow.carriers.carrier import Carrier, Conversation, Ear
from permitflow.carriers.connection import GET_STREAM
from permitflow.carriers.datagrams import udp
from permitflow.carriers.datagrams.link_pipe import LinkPipe
from permitflow.carriers.datagrams.udp import UdpAcceptor, UdpStream
from permitflow.carriers.grpc_calls import Context, ServerCall, calling
from permitflow.carriers.reaching import Destination
from permitflow.carriers.shared_memory.link import AsyncioLink
from permitflow.errors import PeerGoneError, PermitflowError
from permitflow.flows.byte_window import DEFAULT_BYTE_WINDOW
from permitflow.wire.buffers import Received
from tests.support.carriers import answering_grpc, connected, memory_ends
from tests.support.turns import turns, until

MOST_BYTES = 8 << 20
Ends = tuple[Carrier, Carrier]


@asynccontextmanager
async def over_tcp() -> AsyncIterator[Ends]:
    async with connected() as (dialler, acceptor):
        heard: list[Received] = []
        dialler.listen(Ear(lambda message, _: heard.append(message), lambda: None, lambda: None, fail))
        await until(lambda: bool(heard))  # the agreement
        yield dialler, acceptor


@asynccontextmanager
async def over_udp() -> AsyncIterator[Ends]:
    serving: asyncio.Future[UdpStream] = asyncio.get_running_loop().create_future()

    def serve(pipe: LinkPipe, _: object) -> None:
        serving.set_result(UdpStream(pipe, who="the client", is_acceptor=True))

    acceptor = UdpAcceptor(parsed("udp://127.0.0.1:0", least_port=0), serve, most_connections=1)
    async with udp.calling(Destination(f"udp://127.0.0.1:{acceptor.port}", GET_STREAM, "the exchange", 10.0)) as client:
        far = await serving
        await far.method()
        yield client, far
        far.close()
    await acceptor.close()


def fail(error: PermitflowError) -> None:
    raise error


@asynccontextmanager
async def in_shared_memory() -> AsyncIterator[Ends]:
    with memory_ends() as ends:
        writer = AsyncioLink(ends.writer_socket, ends.writer, most_bytes=MOST_BYTES)
        reader = AsyncioLink(ends.reader_socket, ends.reader, most_bytes=MOST_BYTES)
        yield writer, reader
        writer.close()
        reader.close()


@asynccontextmanager
async def over_grpc() -> AsyncIterator[Ends]:
    serving: asyncio.Future[ServerCall] = asyncio.get_running_loop().create_future()
    is_over = asyncio.Event()

    async def serve(_: str, context: Context) -> None:
        await context.send_initial_metadata(())
        call = ServerCall(context, "the client")
        serving.set_result(call)
        await is_over.wait()
        await call.stop()

    async with (
        answering_grpc(serve) as address,
        calling(Destination(address, GET_STREAM, "the exchange", 10.0)) as client,
    ):
        yield client, await serving
        is_over.set()


@pytest.fixture(params=[over_tcp, over_udp, in_shared_memory, over_grpc], ids=lambda over: over.__name__)
def carriers(request: pytest.FixtureRequest) -> Callable[[], AbstractAsyncContextManager[Ends]]:
    """Both ends of a carrier; the first one has dialled."""
    made: Callable[[], AbstractAsyncContextManager[Ends]] = request.param
    return made


async def test_messages_of_all_sizes_arrive_whole_and_in_order(
    carriers: Callable[[], AbstractAsyncContextManager[Ends]],
) -> None:
    chance = random.Random(1)
    contents = [chance.randbytes(chance.choice([1, 55, 5_000, 16_384, 70_000, 1_000_000])) for _ in range(60)]

    async def write(near: Conversation) -> None:
        for content in contents:
            cut = chance.randrange(len(content) + 1)
            await near.write([content[:cut], memoryview(content)[cut:]])
        near.half_close()

    async with carriers() as (dialler, acceptor):
        far = Conversation(acceptor)
        writing = asyncio.create_task(write(Conversation(dialler)))
        for content in contents:
            assert await far.read() == content
        assert await far.read() is None
        await writing


@pytest.mark.parametrize("carriers", [over_tcp, over_udp, in_shared_memory])
async def test_other_tasks_run_while_many_messages_are_delivered(
    carriers: Callable[[], AbstractAsyncContextManager[Ends]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("byte_stream", "shared_memory.link"):
        monkeypatch.setattr(f"permitflow.carriers.{module}.DELIVERY_SECONDS", 0.0)
    heard: list[tuple[Received, int]] = []
    rounds = 0

    async def count_rounds() -> None:
        nonlocal rounds
        while True:
            rounds += 1
            await asyncio.sleep(0)

    async with carriers() as (dialler, acceptor):
        acceptor.listen(Ear(lambda message, _: heard.append((message, rounds)), lambda: None, lambda: None, fail))
        acceptor.pause()
        near = Conversation(dialler)
        for number in range(3):
            await near.write([b"%d" % number])
        counting = asyncio.create_task(count_rounds())
        acceptor.resume()
        await until(lambda: len(heard) == 3)
        counting.cancel()
    assert [bytes(message) for message, _ in heard] == [b"0", b"1", b"2"]
    assert len({round_ for _, round_ in heard}) == 3


async def test_a_full_carrier_says_when_it_takes_more(
    carriers: Callable[[], AbstractAsyncContextManager[Ends]],
) -> None:
    is_within_call = False
    room = asyncio.Event()

    def hear(*_: object) -> None:
        assert not is_within_call

    def note_room() -> None:
        assert not is_within_call
        room.set()

    async with carriers() as (dialler, acceptor):
        far = Conversation(acceptor)
        is_within_call = True
        dialler.listen(Ear(hear, note_room, hear, hear))
        written = 0
        while dialler.write([bytes(100_000)]):
            written += 1
        is_within_call = False
        for _ in range(written + 1):
            assert await far.read() == bytes(100_000)
        await room.wait()
        dialler.write([b"next"])
        assert await far.read() == b"next"


async def test_a_full_carrier_closes_its_half_behind_what_was_written(
    carriers: Callable[[], AbstractAsyncContextManager[Ends]],
) -> None:
    async with carriers() as (dialler, acceptor):
        far = Conversation(acceptor)
        Conversation(dialler)
        written = 1
        while dialler.write([bytes(100_000)]):
            written += 1
        dialler.half_close()
        for _ in range(written):
            assert await far.read() == bytes(100_000)
        assert await far.read() is None


async def test_a_writer_waits_for_a_reader_that_does_not_read(
    carriers: Callable[[], AbstractAsyncContextManager[Ends]],
) -> None:
    if carriers is over_grpc:
        pytest.skip("HTTP/2's window is 1 GiB, so that permits alone bind")
    written = 0

    async def write_for_ever(near: Conversation) -> None:
        nonlocal written
        while True:
            await near.write([bytes(100_000)])
            written += 1

    async def until_it_waits() -> int:
        before = -1
        while written > before:
            before = written
            await turns()
        return written

    async with carriers() as (dialler, acceptor):
        far = Conversation(acceptor)
        writing = asyncio.create_task(write_for_ever(Conversation(dialler)))
        first = await until_it_waits()
        for _ in range(first):
            assert await far.read() == bytes(100_000)
        assert await until_it_waits() > first
        writing.cancel()
        await asyncio.wait({writing})


async def test_both_ends_may_write_over_grpc_what_nobody_has_read() -> None:
    """A channel's windows alone bind; gRPC's would grow to a few MiB by themselves."""
    to_an_exchange, from_it = DEFAULT_BYTE_WINDOW >> 20, 64
    async with over_grpc() as (dialler, acceptor):
        near = Conversation(dialler)
        for _ in range(to_an_exchange):
            await near.write([bytes(1 << 20)])
        far = Conversation(acceptor)
        for _ in range(from_it):
            await far.write([bytes(1 << 20)])
        for _ in range(to_an_exchange):
            assert len(await far.read() or b"") == 1 << 20
        for _ in range(from_it):
            assert len(await near.read() or b"") == 1 << 20


async def test_an_acceptor_hears_that_the_dialler_left(
    carriers: Callable[[], AbstractAsyncContextManager[Ends]],
) -> None:
    async with carriers() as (dialler, acceptor):
        far = Conversation(acceptor)
        Conversation(dialler)
        await turns()
        await dialler.stop()
        if carriers in (in_shared_memory, over_grpc):
            # Why is said elsewhere: by the network's stream underneath, and by gRPC, which cancels its handler.
            assert await far.read() is None
        else:
            with pytest.raises(PeerGoneError):
                await far.read()
