"""Messages pass the link whole and in order; a peer that is gone or lies, an interrupt and a fork are noticed."""

import asyncio
import itertools
import socket
import subprocess
import sys

import pytest

from permitflow.carriers.carrier import Conversation
from permitflow.carriers.shared_memory.link import AsyncioLink, inline_header, place_note
from permitflow.carriers.shared_memory.ring import RingReader, RingSlot, RingWriter
from permitflow.errors import UndecodableDataError
from tests.support.carriers import SMALL_RING_BYTES, MemoryEnds
from tests.support.turns import turns

MOST_BYTES = 8 << 20


def content(number: int, size: int) -> bytes:
    return number.to_bytes(4, "little") + bytes([number % 251]) * size


class Link(Conversation):
    def __init__(self, connection: socket.socket, ring: RingWriter | RingReader) -> None:
        self._link = AsyncioLink(connection, ring, most_bytes=MOST_BYTES)
        super().__init__(self._link)

    def close(self) -> None:
        self._link.close()


def asyncio_links(ends: MemoryEnds) -> tuple[Link, Link]:
    return Link(ends.writer_socket, ends.writer), Link(ends.reader_socket, ends.reader)


async def test_a_reader_that_keeps_everything_does_not_stop_the_writer(ends: MemoryEnds) -> None:
    """What it keeps is more than the ring: from then on messages go over the socket."""

    writer, reader = asyncio_links(ends)
    kept = []
    for number in range(40):
        await writer.write([content(number, 20_000)])
        kept.append(await reader.read())
    assert kept == [content(number, 20_000) for number in range(40)]
    in_ring = sum(isinstance(message, memoryview) for message in kept)
    assert 5 < in_ring < 20
    # Once space comes back, the ring is used again.
    kept.clear()
    await writer.write([content(1, 20_000)])
    assert isinstance(await reader.read(), memoryview)
    writer.close()
    reader.close()


async def test_messages_that_arrive_in_parts_are_put_together(ends: MemoryEnds) -> None:
    reader = Link(ends.reader_socket, ends.reader)
    said = inline_header(3) + b"abc" + inline_header(70_000) + bytes(70_000) + inline_header(2) + b"hi"
    for start, stop in itertools.pairwise((0, 25, 100, 40_000, len(said) - 1, len(said))):
        await asyncio.get_running_loop().sock_sendall(ends.writer_socket, said[start:stop])
        await turns()
    assert [await reader.read() for _ in range(3)] == [b"abc", bytes(70_000), b"hi"]
    reader.close()


WRONG = [
    b"GET / HTTP/1.1\r\n",
    place_note(RingSlot(SMALL_RING_BYTES - 10, 20, 20)),
    place_note(RingSlot(2**32 - 1, 2**32 - 1, 2**32 - 1)),
    place_note(RingSlot(0, 0, 0)),
    inline_header(MOST_BYTES + 1),
]


@pytest.mark.parametrize("wrong", WRONG)
async def test_nonsense_is_an_error_of_its_own(ends: MemoryEnds, wrong: bytes) -> None:
    reader = Link(ends.reader_socket, ends.reader)
    ends.writer_socket.send(wrong)
    with pytest.raises(UndecodableDataError):
        await reader.read()
    reader.close()


async def test_a_reader_does_not_write_into_the_ring(ends: MemoryEnds) -> None:
    writer = Link(ends.writer_socket, ends.writer)
    ends.reader_socket.send(place_note(RingSlot(0, 8, 8)))
    with pytest.raises(UndecodableDataError, match="writes the ring"):
        await writer.read()
    writer.close()


# In a process of its own: where gRPC runs, nobody must fork.
# Newer Pythons warn of what is tried here.
QUIET_FORK = ("-W", "ignore:This process:DeprecationWarning")
FORKING = """
import asyncio, contextlib, os
import pyarrow as pa
from tests.support.carriers import memory_ends
from permitflow.wire.buffers import Buffer
from permitflow.carriers.carrier import Conversation, Ear
from permitflow.carriers.same_host import SHARED_MEMORY, HostCarrier, Meeting
from permitflow.carriers.shared_memory.link import AsyncioLink

def open_files():
    files = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            files.add(os.readlink(f"/proc/self/fd/{name}"))
    return files

async def main(ends):
    both = (ends.writer_socket, ends.writer), (ends.reader_socket, ends.reader)
    links = [AsyncioLink(*end, most_bytes=1 << 20) for end in both]
    writer, reader = map(Conversation, links)
    await writer.write([b"x" * 50_000])
    held = [pa.py_buffer(await reader.read())]
    inherited = {os.readlink(f"/proc/self/fd/{end.fileno()}") for end in (ends.writer_socket, ends.reader_socket)}
    assert inherited < open_files()
    child = os.fork()
    if child == 0:
        assert held.pop().to_pybytes() == b"x" * 50_000
        assert not inherited & open_files()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert not ends.writer.collect(), "the child has returned what the parent holds"
    await writer.write([b"after the fork"])
    assert await reader.read() == b"after the fork"
    held.clear()
    assert ends.writer.collect()
    for link in links:
        link.close()

with memory_ends() as ends:
    asyncio.run(main(ends))
print("as it should be")
"""


def test_a_child_lets_go_without_a_word() -> None:
    done = subprocess.run([sys.executable, *QUIET_FORK, "-c", FORKING], capture_output=True, text=True, timeout=250)
    assert (done.stdout, done.stderr) == ("as it should be\n", "")
