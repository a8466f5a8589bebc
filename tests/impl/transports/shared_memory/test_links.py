"""Messages pass the link whole and in order, whatever their size; whoever is gone or talks nonsense is noticed."""

import asyncio
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from permitflow.errors import UndecodableDataError
from permitflow.transports.shared_memory.blocking_link import BlockingLink, Outgoing
from permitflow.transports.shared_memory.link import AsyncioLink, place_note
from permitflow.transports.shared_memory.ring import Place
from tests.support.carriers import SMALL_RING_BYTES, MemoryEnds, memory_ends

MOST_BYTES = 8 << 20
Complete = Callable[[Coroutine[Any, Any, Any]], Any]


def content(number: int, size: int) -> bytes:
    return number.to_bytes(4, "little") + bytes([number % 251]) * size


def asyncio_links(ends: MemoryEnds) -> tuple[AsyncioLink, AsyncioLink]:
    writer = AsyncioLink(ends.writer_socket, ends.writer, most_bytes=MOST_BYTES)
    return writer, AsyncioLink(ends.reader_socket, ends.reader, most_bytes=MOST_BYTES)


@pytest.mark.parametrize("seed", range(3))
def test_messages_of_all_sizes_pass_in_order_while_some_are_held(
    ends: MemoryEnds, complete: Complete, seed: int
) -> None:
    """Below and above what goes through the ring, larger than the ring; held for random times, then compared."""
    chance = random.Random(seed)
    sizes = [chance.choice([10, 3_000, 20_000, 60_000, 2 * SMALL_RING_BYTES]) for _ in range(300)]

    async def test() -> None:
        writer, reader = asyncio_links(ends)

        async def write() -> None:
            for number, size in enumerate(sizes):
                await writer.write([content(number, 0), bytes([number % 251]) * size])
            writer.shut()

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

    complete(test())


def test_a_reader_that_keeps_everything_does_not_stop_the_writer(ends: MemoryEnds, complete: Complete) -> None:
    """What it keeps is more than the ring: from then on messages go over the socket."""

    async def test() -> None:
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

    complete(test())


def test_both_directions_carry_messages(ends: MemoryEnds, complete: Complete) -> None:
    async def test() -> None:
        writer, reader = asyncio_links(ends)
        await reader.write([b"permits"])
        await writer.write([b"rows"])
        assert (await writer.read(), await reader.read()) == (b"permits", b"rows")
        writer.close()
        reader.close()

    complete(test())


def test_a_writer_whose_peer_is_gone_is_told(ends: MemoryEnds, complete: Complete) -> None:
    async def test() -> None:
        writer, reader = asyncio_links(ends)
        reader.close()
        with pytest.raises(OSError, match="Broken pipe"):
            await writer.write([b"y" * 1000])
        assert await writer.read() is None
        writer.close()

    complete(test())


def test_what_had_arrived_before_the_peer_was_gone_is_read(ends: MemoryEnds, complete: Complete) -> None:
    async def test() -> None:
        writer, reader = asyncio_links(ends)
        messages = [content(1, 10), content(2, 50_000), content(3, 10)]
        for message in messages:
            await writer.write([message])
        writer.close()
        assert [await reader.read() for _ in range(4)] == [*messages, None]
        reader.close()

    complete(test())


WRONG = [
    b"GET / HTTP/1.1\r\n",
    place_note(Place(SMALL_RING_BYTES - 10, 20, 20)),
    place_note(Place(2**32 - 1, 2**32 - 1, 2**32 - 1)),
    place_note(Place(0, 0, 0)),
    struct.pack("<4sIII", b"pf:m", MOST_BYTES + 1, 0, 0),
]


@pytest.mark.parametrize("wrong", WRONG)
def test_nonsense_is_an_error_of_its_own(ends: MemoryEnds, complete: Complete, wrong: bytes) -> None:
    async def test() -> None:
        reader = AsyncioLink(ends.reader_socket, ends.reader, most_bytes=MOST_BYTES)
        ends.writer_socket.send(wrong)
        with pytest.raises(UndecodableDataError):
            await reader.read()
        reader.close()

    complete(test())


def test_a_reader_does_not_write_into_the_ring(ends: MemoryEnds, complete: Complete) -> None:
    async def test() -> None:
        writer = AsyncioLink(ends.writer_socket, ends.writer, most_bytes=MOST_BYTES)
        ends.reader_socket.send(place_note(Place(0, 8, 8)))
        with pytest.raises(UndecodableDataError, match="writes into the ring"):
            await writer.read()
        writer.close()

    complete(test())


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


def test_what_is_left_by_a_taker_that_is_interrupted_is_read(ends: MemoryEnds, complete: Complete) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    async def test() -> None:
        writer, reader = asyncio_links(ends)
        reader.hand_to(interrupt)
        reading = asyncio.create_task(reader.read())
        await asyncio.sleep(0)
        for message in (b"1", b"2"):
            await writer.write([message])
        with pytest.raises(KeyboardInterrupt):
            reader._on_readable()

        assert await reading == b"2"
        writer.close()
        reader.close()

    complete(test())
