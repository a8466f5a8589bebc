"""Messages pass the link whole and in order; a peer that is gone or lies, an interrupt and a fork are noticed."""

import asyncio
import random
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow.errors import TransportError, UndecodableDataError
from permitflow.transports.carrier import Conversation
from permitflow.transports.shared_memory.blocking_link import BlockingLink, Outgoing
from permitflow.transports.shared_memory.link import AsyncioLink, MessageSocket, NoteReader, inline_header, place_note
from permitflow.transports.shared_memory.ring import Place, RingReader, RingWriter
from tests.support.carriers import SMALL_RING_BYTES, MemoryEnds, memory_ends
from tests.support.interrupting import Interrupting, Peer, SignalError

MOST_BYTES = 8 << 20
Complete = Callable[[Coroutine[Any, Any, Any]], Any]


def content(number: int, size: int) -> bytes:
    return number.to_bytes(4, "little") + bytes([number % 251]) * size


class Link(Conversation):
    """A link, for tests that read and write."""

    def __init__(self, connection: socket.socket, ring: RingWriter | RingReader) -> None:
        self._link = AsyncioLink(connection, ring, most_bytes=MOST_BYTES)
        super().__init__(self._link)

    def close(self) -> None:
        self._link.close()


def asyncio_links(ends: MemoryEnds) -> tuple[Link, Link]:
    return Link(ends.writer_socket, ends.writer), Link(ends.reader_socket, ends.reader)


@pytest.mark.parametrize("seed", range(3))
async def test_messages_of_all_sizes_pass_in_order_while_some_are_held(ends: MemoryEnds, seed: int) -> None:
    """Below and above what goes through the ring, larger than the ring; held for random times, then compared."""
    chance = random.Random(seed)
    sizes = [chance.choice([10, 3_000, 20_000, 60_000, 2 * SMALL_RING_BYTES]) for _ in range(300)]

    writer, reader = asyncio_links(ends)

    async def write() -> None:
        for number, size in enumerate(sizes):
            await writer.write([content(number, 0), bytes([number % 251]) * size])
        writer.half_close()

    held: list[tuple[int, bytes | memoryview]] = []
    async with asyncio.TaskGroup() as group:
        group.create_task(write())
        number = 0
        while (message := await reader.read()) is not None:
            held.append((number, message))
            number += 1
            while len(held) > chance.randint(0, 8):
                kept, kept_message = held.pop(chance.randrange(len(held)))
                assert kept_message == content(kept, sizes[kept])
    assert number == len(sizes)
    writer.close()
    reader.close()


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


async def test_both_directions_carry_messages(ends: MemoryEnds) -> None:
    writer, reader = asyncio_links(ends)
    await reader.write([b"permits"])
    await writer.write([b"rows"])
    assert (await writer.read(), await reader.read()) == (b"permits", b"rows")
    writer.close()
    reader.close()


async def test_a_writer_whose_peer_is_gone_is_told(ends: MemoryEnds) -> None:
    writer, reader = asyncio_links(ends)
    reader.close()
    with pytest.raises(TransportError, match="Broken pipe"):
        await writer.write([b"y" * 1000])
    writer.close()


async def test_what_had_arrived_before_the_peer_was_gone_is_read(ends: MemoryEnds) -> None:
    writer, reader = asyncio_links(ends)
    messages = [content(1, 10), content(2, 50_000), content(3, 10)]
    for message in messages:
        await writer.write([message])
    writer.close()
    assert [await reader.read() for _ in range(4)] == [*messages, None]
    reader.close()


WRONG = [
    b"GET / HTTP/1.1\r\n",
    place_note(Place(SMALL_RING_BYTES - 10, 20, 20)),
    place_note(Place(2**32 - 1, 2**32 - 1, 2**32 - 1)),
    place_note(Place(0, 0, 0)),
    struct.pack("<4sIII", b"pf:m", MOST_BYTES + 1, 0, 0),
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
    ends.reader_socket.send(place_note(Place(0, 8, 8)))
    with pytest.raises(UndecodableDataError, match="writes into the ring"):
        await writer.read()
    writer.close()


@pytest.fixture
def blocking() -> Iterator[tuple[BlockingLink, BlockingLink]]:
    """A writer and a reader."""
    with memory_ends(offerer_writes=False) as ends:
        writer = BlockingLink(ends.writer_socket, ends.writer, most_bytes=MOST_BYTES)
        reader = BlockingLink(ends.reader_socket, ends.reader, most_bytes=MOST_BYTES)
        yield writer, reader
        writer.close()
        reader.close()


def read(reader: BlockingLink) -> bytes | memoryview | None:
    """The next message; None if the link has ended."""
    while (message := reader.read_nowait()) is None and not reader.has_ended:
        assert reader.wait(10.0), "nothing came"
    return message


def test_blocking_callers_pass_messages_of_all_sizes(blocking: tuple[BlockingLink, BlockingLink]) -> None:
    writer, reader = blocking
    sizes = [10, 20_000, 2 * SMALL_RING_BYTES, 0, 100_000] * 30

    def write() -> None:
        for number, size in enumerate(sizes):
            writer.write(Outgoing([content(number, size)]))
        writer.shut()

    thread = threading.Thread(target=write)
    thread.start()
    for number, size in enumerate(sizes):
        assert read(reader) == content(number, size)
    assert read(reader) is None
    thread.join()


def test_a_blocking_reader_waits_no_longer_than_it_said(blocking: tuple[BlockingLink, BlockingLink]) -> None:
    _, reader = blocking
    began = time.monotonic()
    assert not reader.wait(0.05)
    assert time.monotonic() - began >= 0.05


def test_an_interrupted_link_hands_out_what_is_here_and_ends(blocking: tuple[BlockingLink, BlockingLink]) -> None:
    writer, reader = blocking
    writer.write(Outgoing([b"last"]))
    reader.interrupt()
    assert (read(reader), read(reader)) == (b"last", None)
    assert reader.has_ended


def test_a_blocking_writer_is_interrupted_while_nobody_reads(blocking: tuple[BlockingLink, BlockingLink]) -> None:
    writer, _ = blocking
    timer = threading.Timer(0.1, writer.interrupt)
    timer.start()
    for _ in range(4):
        writer.write(Outgoing([b"x" * MOST_BYTES]))
    timer.join()


def test_another_thread_may_close_while_one_waits(blocking: tuple[BlockingLink, BlockingLink]) -> None:
    _, reader = blocking
    timer = threading.Timer(0.1, reader.close)
    timer.start()
    assert read(reader) is None
    timer.join()


def test_descriptors_are_not_inherited(ends: MemoryEnds) -> None:
    for end in (ends.writer_socket, ends.reader_socket):
        assert isinstance(end, socket.socket)
        assert not end.get_inheritable()


MOST_INTERRUPTED_BYTES = 1 << 20


@pytest.fixture
def links() -> Iterator[tuple[BlockingLink, BlockingLink]]:
    """A writer and a reader."""
    with memory_ends() as ends:
        writer = BlockingLink(ends.writer_socket, ends.writer, most_bytes=MOST_INTERRUPTED_BYTES)
        reader = BlockingLink(ends.reader_socket, ends.reader, most_bytes=MOST_INTERRUPTED_BYTES)
        yield writer, reader
        writer.close()
        reader.close()


def test_a_write_that_is_interrupted_while_it_waits_goes_on_where_it_was(
    links: tuple[BlockingLink, BlockingLink], monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, reader = links
    messages = [Outgoing([bytes([number]) * MOST_INTERRUPTED_BYTES]) for number in range(2)]
    seen: list[bytes] = []

    def interrupted(*_: object) -> bool:
        read_all(reader, seen)  # so that there is room when it goes on
        raise TimeoutError

    monkeypatch.setattr(writer, "_poll", interrupted)
    for message in messages:
        for _ in range(1_000):
            try:
                writer.write(message)
            except TimeoutError:
                assert not writer.is_cut
            else:
                break
    writer.write(messages[-1])  # has left already
    read_all(reader, seen)
    assert seen == [b"".join(message.pieces) for message in messages]


def test_a_write_that_is_interrupted_anywhere_leaves_whole_messages_or_says_that_the_link_is_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    messages = [
        bytes([number]) * size for number, size in enumerate((150_000, 100, 150_000, MOST_INTERRUPTED_BYTES, 150_000))
    ]
    cut = set[str]()
    for place in range(10_000):
        with memory_ends() as ends:
            writer = BlockingLink(ends.writer_socket, ends.writer, most_bytes=MOST_INTERRUPTED_BYTES)
            reader = BlockingLink(ends.reader_socket, ends.reader, most_bytes=MOST_INTERRUPTED_BYTES)
            interrupting = Interrupting(place, Peer())
            seen = list[bytes]()
            monkeypatch.setattr(writer, "_poll", room_made(reader, seen, interrupting.peer))
            is_whole = all(written(writer, Outgoing([message]), interrupting) for message in messages)
            read_all(reader, seen)
            writer.close()
            reader.close()
        if is_whole:
            assert seen == messages, interrupting.where
        else:
            cut.add(interrupting.where)
            assert seen == messages[: len(seen)], interrupting.where
        if not interrupting.where:
            break
    assert place > 50, "it was interrupted in too few places"
    assert not {"make_room: call", "make_room: c_return"} & cut


def written(writer: BlockingLink, message: Outgoing, interrupting: Interrupting) -> bool:
    """Write a message, again after an interrupt; false: the link was cut."""
    while not writer.is_cut:
        try:
            interrupting.call(lambda: writer.write(message))
        except SignalError:
            continue
        return True
    return False


def room_made(reader: BlockingLink, seen: list[bytes], peer: Peer) -> Callable[..., bool]:
    """In place of waiting for room: the other end makes some."""

    calls = count()

    def make_room(*_: object) -> bool:
        peer.is_at_work = True
        assert next(calls) < 1_000, "there will never be any"
        read_all(reader, seen)
        peer.is_at_work = False
        return True

    return make_room


def read_all(reader: BlockingLink, seen: list[bytes]) -> None:
    """All that is here."""
    while (message := reader.read_nowait()) is not None or reader.wait(0.001):
        seen.extend([] if message is None else [bytes(message)])


@pytest.mark.parametrize("error", [TimeoutError, KeyboardInterrupt])
def test_nothing_follows_a_message_of_which_nobody_knows_how_much_has_left(
    links: tuple[BlockingLink, BlockingLink], monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    writer, _ = links
    send = MessageSocket._send_now

    def interrupted(link: MessageSocket, pieces: list[bytes]) -> None:
        send(link, pieces)
        raise error

    monkeypatch.setattr(MessageSocket, "_send_now", interrupted)
    with pytest.raises(error):
        writer.write(Outgoing([b"half of it"]))
    assert writer.is_cut


MOST_NOTE_BYTES = 1 << 20


def encoded(message: bytes | Place) -> bytes:
    return place_note(message) if isinstance(message, Place) else inline_header(len(message)) + message


def read_notes(reader: NoteReader, data: bytes, most_at_once: int) -> list[bytes | Place]:
    messages: list[bytes | Place] = []
    while data:
        room = reader.room()
        count = min(len(room), most_at_once, len(data))
        room[:count] = data[:count]
        taken = reader.take(count)
        messages += [message if isinstance(message, Place) else bytes(message) for message in taken]
        data = data[count:]
    return messages


MESSAGES = st.lists(
    st.one_of(
        st.binary(max_size=40),
        st.integers(60_000, 300_000).map(lambda size: bytes([size % 251]) * size),
        st.builds(Place, *[st.integers(0, 2**32 - 1)] * 3),
    ),
    max_size=6,
)


@given(MESSAGES, st.sampled_from([1 << 20, 65_536, 4_099, 1_001]))
def test_messages_arrive_however_their_bytes_do(messages: list[bytes | Place], most_at_once: int) -> None:
    reader = NoteReader(MOST_NOTE_BYTES)
    assert read_notes(reader, b"".join(map(encoded, messages)), most_at_once) == messages
    assert reader.is_between_messages


def test_a_message_arrives_byte_by_byte() -> None:
    messages: list[bytes | Place] = [b"", b"ab", Place(1, 2, 3), b"c" * 100]
    assert read_notes(NoteReader(MOST_NOTE_BYTES), b"".join(map(encoded, messages)), 1) == messages


@pytest.mark.parametrize("wrong", [b"\0" * 16, b"pf:x" + b"\1" * 12, inline_header(MOST_NOTE_BYTES + 1)])
def test_what_is_no_message_is_refused(wrong: bytes) -> None:
    with pytest.raises(UndecodableDataError):
        read_notes(NoteReader(MOST_NOTE_BYTES), wrong, 16)


# In a process of its own: where gRPC runs, nobody must fork.
# Newer Pythons warn of what is tried here.
QUIET_FORK = ("-W", "ignore:This process:DeprecationWarning")
FORKING = """
import contextlib, os
import pyarrow as pa
from tests.support.carriers import memory_ends
from permitflow.transports.shared_memory.blocking_link import BlockingLink
from permitflow.transports.shared_memory.blocking_link import Outgoing

def open_files():
    files = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            files.add(os.readlink(f"/proc/self/fd/{name}"))
    return files

with memory_ends() as ends:
    writer = BlockingLink(ends.writer_socket, ends.writer, most_bytes=1 << 20)
    reader = BlockingLink(ends.reader_socket, ends.reader, most_bytes=1 << 20)
    def read():
        assert reader.wait(10.0)
        return reader.read_nowait()

    writer.write(Outgoing([b"x" * 50_000]))
    held = [pa.py_buffer(read())]
    inherited = {os.readlink(f"/proc/self/fd/{end.fileno()}") for end in (ends.writer_socket, ends.reader_socket)}
    assert inherited < open_files()
    child = os.fork()
    if child == 0:
        assert held.pop().to_pybytes() == b"x" * 50_000
        assert not inherited & open_files()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert not ends.writer.collect(), "the child has returned what the parent holds"
    writer.write(Outgoing([b"after the fork"]))
    assert read() == b"after the fork"
    held.clear()
    assert ends.writer.collect()
    writer.close()
    reader.close()
print("as it should be")
"""


def test_a_child_lets_go_without_a_word() -> None:
    done = subprocess.run([sys.executable, *QUIET_FORK, "-c", FORKING], capture_output=True, text=True, timeout=250)
    assert (done.stdout, done.stderr) == ("as it should be\n", "")
