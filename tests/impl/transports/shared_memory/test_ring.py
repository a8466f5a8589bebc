"""A message in the ring lasts as long as anybody looks at it, and not longer."""

import gc
import os
import random
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from permitflow.errors import UndecodableDataError
from permitflow.transports.shared_memory.ring import Place, RingWriter
from tests.support.carriers import MemoryEnds, memory_ends
from tests.support.process import nothing_stays_open, open_descriptors, ring_mappings


def put(writer: RingWriter, content: bytes) -> Place | None:
    return writer.put([content], len(content))


@pytest.mark.parametrize("seed", range(5))
def test_a_reader_that_holds_messages_keeps_their_bytes_while_the_writer_goes_around(
    ends: MemoryEnds, seed: int
) -> None:
    """Random sizes, random times of holding; what is held is compared again and again, and when it is let go."""
    chance = random.Random(seed)
    _, writer, _, reader = ends
    held: list[tuple[pa.Buffer, bytes]] = []
    refused = rounds = 0
    for number in range(4_000):
        content = bytes([number % 251]) * chance.randint(1, 20_000)
        place = put(writer, content)
        if place is None:
            refused += 1
        else:
            rounds += place.offset == 0
            held.append((pa.py_buffer(reader.view(place)[: chance.randint(1, len(content))]), content))
        while held and (place is None or chance.random() < 0.5):
            # Mostly the oldest, sometimes another one: space comes back in order all the same.
            buffer, expected = held.pop(0 if chance.random() < 0.8 else chance.randrange(len(held)))
            assert buffer.to_pybytes() == expected[: buffer.size]
            del buffer
            if place is None and chance.random() < 0.5:
                break
    assert rounds > 50
    assert refused > 50
    assert all(buffer.to_pybytes() == expected[: buffer.size] for buffer, expected in held)


def test_a_batch_is_read_where_it_lies_and_holds_its_space(ends: MemoryEnds) -> None:
    _, writer, _, reader = ends
    sent = pa.record_batch({"number": pa.array(range(1000)), "text": pa.array([str(n) for n in range(1000)])})
    place = put(writer, sent.serialize().to_pybytes())
    assert place is not None
    view = reader.view(place)
    batch = pa.ipc.read_record_batch(pa.py_buffer(view), sent.schema)
    base = pa.py_buffer(view).address
    assert all(base <= part.address < base + place.size for part in batch["text"].buffers() if part is not None)
    del view
    part = batch.column("number").slice(500)
    del batch
    gc.collect()
    assert not writer.collect()
    assert part.to_pylist() == list(range(500, 1000))
    del part
    assert writer.collect()


def test_messages_may_be_let_go_of_in_any_thread(ends: MemoryEnds) -> None:
    _, writer, _, reader = ends
    views: deque[memoryview] = deque()
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5_000):
            while (place := put(writer, b"x" * 1000)) is None:
                pool.submit(views.clear).result()
            views.append(reader.view(place))
            if len(views) > 20:
                for _ in range(10):
                    pool.submit(views.popleft)
    views.clear()
    writer.collect()
    assert writer.put([b"y" * writer.capacity_bytes], writer.capacity_bytes) is not None


def test_views_outlive_both_ends_and_nothing_stays_open() -> None:
    threads = set(threading.enumerate())
    with nothing_stays_open():
        with memory_ends() as ends:
            place = put(ends.writer, b"still here")
            assert place is not None
            view = ends.reader.view(place)
        del ends
        assert bytes(view) == b"still here"
        del view
    assert not set(threading.enumerate()) - threads


def test_ends_that_are_closed_keep_neither_memory_nor_descriptors_though_they_are_kept() -> None:
    before, rings = open_descriptors(), ring_mappings()
    with nothing_stays_open(), memory_ends() as ends:
        assert len(open_descriptors() - before) >= len(ends)
        assert len(ring_mappings() - rings) == 2
    ends.close()


def test_more_space_than_was_taken_is_refused(ends: MemoryEnds) -> None:
    _, writer, _, _ = ends
    put(writer, b"x" * 100)
    os.eventfd_write(writer.counter, 101)
    with pytest.raises(UndecodableDataError, match="101 bytes were returned"):
        writer.collect()
