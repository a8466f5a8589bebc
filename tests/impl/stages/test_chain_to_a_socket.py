"""A chain of loops into a TCP peer: it holds no more than its loops admit, and the source stops with the peer."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from permitflow import Demand, Kind, LocalReceiver, LocalSender, open_channel
from permitflow.stages import Source

CHUNK_BYTES = 16_384
KERNEL_BYTES = 65_536
"""Asked of each socket's buffer; the kernel takes twice as much for its own books."""
PACKET_BYTES = 65_536
"""The largest packet of the loopback; the kernel may hold one above the size of each buffer."""


def chunk(number: int) -> bytes:
    return number.to_bytes(8) * (CHUNK_BYTES // 8)


def small_socket() -> socket.socket:
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KERNEL_BYTES)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, KERNEL_BYTES)
    return made


@asynccontextmanager
async def tcp_ends() -> AsyncIterator[tuple[asyncio.StreamWriter, socket.socket]]:
    """A writer to a peer, and the peer's socket, which nobody reads."""
    listening = small_socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    ours = small_socket()
    ours.connect(listening.getsockname())
    peer, _ = listening.accept()
    listening.close()
    _, writer = await asyncio.open_connection(sock=ours)
    with peer:
        try:
            yield writer, peer
        finally:
            writer.close()


def loops(
    size: int, next_size: int
) -> tuple[LocalSender[Any], LocalReceiver[Any], LocalSender[Any], LocalReceiver[Any]]:
    """The ends of two channels, one behind the other."""
    return (*open_channel(Demand(size=size)), *open_channel(Demand(size=next_size)))


async def write_out(receiver: LocalReceiver[bytes], writer: asyncio.StreamWriter) -> None:
    """As in docs/guides/chains.md; ends the socket's stream with the channel."""
    writer.transport.set_write_buffer_limits(high=0)
    async for message in Source.receive(receiver):
        if message.kind is Kind.CHUNK:
            writer.write(message.payload)
            await writer.drain()
    writer.write_eof()


async def settled(counted: "list[int]") -> None:
    """Wait until a number has not grown for many turns of the loop, while the kernel had time to move bytes."""
    quiet, last = 0, -1
    while quiet < 50:
        await asyncio.sleep(0.002)
        quiet, last = (quiet + 1, last) if counted[0] == last else (0, counted[0])


async def test_the_source_stops_with_a_peer_that_stops_reading() -> None:
    to_b, from_a, to_sink, from_b = loops(16, 1)
    sent = [0]

    async def produce() -> None:
        for number in count():
            await to_b.send(chunk(number))
            sent[0] += 1

    async with tcp_ends() as (writer, peer):
        buffers = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        buffers += peer.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        producing = asyncio.create_task(produce())
        stages = [
            asyncio.create_task(Source.receive(from_a).run_to(to_sink)),
            asyncio.create_task(write_out(from_b, writer)),
        ]
        await settled(sent)

        assert to_b.statistics().waiting_sends == 1
        written = from_b.statistics().consumed_chunks
        assert 0 < written * CHUNK_BYTES <= buffers + 2 * PACKET_BYTES
        assert sent[0] - written <= 16 + 1
        # The stage in between holds what it cannot send on; the first loop lacks fewer than a batch of eight.
        assert sent[0] - written > 16 + 1 - 8

        peer.setblocking(False)  # the standard library's
        read = bytearray()
        while len(read) < 100 * CHUNK_BYTES:
            read += await asyncio.get_running_loop().sock_recv(peer, 1 << 16)
        assert bytes(read[: 100 * CHUNK_BYTES]) == b"".join(map(chunk, range(100)))
        assert sent[0] >= 100
        for task in (producing, *stages):
            task.cancel()
        await asyncio.gather(producing, *stages, return_exceptions=True)


async def test_the_end_passes_through_the_chain() -> None:
    to_b, from_a, to_sink, from_b = loops(2, 1)
    async with tcp_ends() as (writer, peer), asyncio.TaskGroup() as group:
        group.create_task(Source.receive(from_a).run_to(to_sink))
        group.create_task(write_out(from_b, writer))
        for text in (b"all", b"of", b"it"):
            await to_b.send(text)
        await to_b.send_barrier("epoch")
        to_b.send_watermark("nothing older")
        await to_b.end()
        peer.setblocking(False)  # the standard library's
        read = b""
        while part := await asyncio.get_running_loop().sock_recv(peer, 1_024):
            read += part
        assert read == b"allofit"
