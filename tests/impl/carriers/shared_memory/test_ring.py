"""Bytes of the ring: none that are looked at go to another message, all come back, one end only writes."""

import fcntl
import gc
import itertools
import mmap
import os
import threading
from collections import deque
from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow.carriers.shared_memory.region import create_region, open_region
from permitflow.carriers.shared_memory.ring import ALIGNMENT_BYTES, HeldSpace, RingSlot, RingWriter, Tenure, WriterSpace
from permitflow.errors import UndecodableDataError
from tests.support.carriers import MemoryEnds, memory_ends
from tests.support.process import nothing_stays_open


def put(writer: RingWriter, content: bytes) -> RingSlot | None:
    return writer.put([content], len(content))


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


CAPACITY = 1024


class Pair:
    """Both views of one ring, with nothing between them."""

    def __init__(self, capacity_bytes: int = CAPACITY) -> None:
        self.on_way_back = 0
        self.writer = WriterSpace(capacity_bytes)
        self.reader = HeldSpace(capacity_bytes, self._give_back)
        self.looked_at: list[Tenure] = []

    def _give_back(self, space: int) -> None:
        self.on_way_back += space

    def send(self, size: int, lead: int = 0) -> Tenure | None:
        """Take space and announce the message; None if there is no room."""
        place = self.writer.take(size, lead)
        if place is None:
            return None
        tenure = self.reader.hold(place)
        self.looked_at.append(tenure)
        return tenure

    def drop(self, tenure: Tenure) -> None:
        self.looked_at.remove(tenure)
        self.reader.end(tenure)

    def hear(self) -> None:
        self.writer.give_back(self.on_way_back)
        self.on_way_back = 0

    def overlapping(self) -> list[tuple[RingSlot, RingSlot]]:
        """Messages that are being looked at and share bytes."""
        places = sorted(tenure.place for tenure in self.looked_at)
        return [(a, b) for a, b in itertools.pairwise(places) if a.offset + a.size > b.offset]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(1, CAPACITY), st.integers(0, 100)),
        st.tuples(st.just("drop"), st.integers(0, 30), st.just(0)),
        st.tuples(st.just("hear"), st.just(0), st.just(0)),
    ),
    max_size=60,
)


@given(STEPS)
def test_bytes_in_use_are_never_given_away_and_every_byte_comes_back(steps: list[tuple[str, int, int]]) -> None:
    pair = Pair()
    for step, number, lead in steps:
        if step == "send":
            tenure = pair.send(number, lead)
            assert tenure is None or (tenure.place.offset + lead) % ALIGNMENT_BYTES == 0
        elif step == "drop" and pair.looked_at:
            pair.drop(pair.looked_at[number % len(pair.looked_at)])
        elif step == "hear":
            pair.hear()
        assert pair.overlapping() == []
        assert pair.writer.taken_bytes <= CAPACITY
    while pair.looked_at:
        pair.drop(pair.looked_at[-1])
    pair.hear()
    assert pair.writer.taken_bytes == 0
    assert pair.send(CAPACITY) is not None


def test_tenures_that_end_in_many_threads_return_every_byte() -> None:
    pair = Pair(1 << 20)
    tenures = deque(filter(None, (pair.send(64) for _ in range(16_000))))
    count = len(tenures)

    def end_some() -> None:
        while True:
            try:
                pair.reader.end(tenures.pop() if threading.get_ident() % 2 else tenures.popleft())
            except IndexError:
                return

    threads = [threading.Thread(target=end_some) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pair.hear()
    assert count == 16_000
    assert pair.writer.taken_bytes == 0


@pytest.mark.parametrize(
    "wrong",
    [
        RingSlot(CAPACITY, 1, 1),
        RingSlot(0, CAPACITY + 1, CAPACITY + 1),
        RingSlot(512, 0, 0),
        RingSlot(512, 64, 63),
        RingSlot(100, 64, 64),
        RingSlot(900, 124, 252),
    ],
)
def test_a_note_that_is_outside_or_overwrites_is_refused(wrong: RingSlot) -> None:
    reader = HeldSpace(CAPACITY, lambda _: None)
    reader.hold(RingSlot(64, 64, 64))
    reader.hold(RingSlot(896, 64, 832))
    with pytest.raises(UndecodableDataError):
        reader.hold(wrong)


REGION_BYTES = 64 << 10


@pytest.mark.parametrize("creator_writes", [True, False])
def test_shared_memory_cannot_be_shortened_or_written_to_by_others(creator_writes: bool) -> None:
    _, descriptor = create_region(REGION_BYTES, writable=creator_writes)
    open_region(descriptor, writable=not creator_writes)
    with pytest.raises(PermissionError):
        os.ftruncate(descriptor, 4096)
    with pytest.raises(PermissionError):
        os.pwrite(descriptor, b"x", 0)
    with pytest.raises(PermissionError):
        mmap.mmap(descriptor, 4096)
    os.close(descriptor)


def unsealed() -> int:
    descriptor = os.memfd_create("unsealed", os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, REGION_BYTES + 4096)
    return descriptor


def too_small() -> int:
    return os.memfd_create("small", os.MFD_ALLOW_SEALING)


def somebody_elses() -> int:
    descriptor = unsealed()
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    return descriptor


def a_pipe() -> int:
    reader, writer = os.pipe()
    os.close(writer)
    return reader


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (unsealed, "the peer could shorten it"),
        (too_small, "it has 0 bytes"),
        (somebody_elses, "it begins with "),
        (a_pipe, "it has 0 bytes"),
    ],
)
def test_other_memory_is_refused(wrong: Callable[[], int], reason: str) -> None:
    descriptor = wrong()
    with pytest.raises(UndecodableDataError, match=f"the shared memory that the peer offers .*: {reason}"):
        open_region(descriptor, writable=False)
    os.close(descriptor)


def test_more_space_than_was_taken_is_refused(ends: MemoryEnds) -> None:
    _, writer, _, _ = ends
    put(writer, b"x" * 100)
    os.eventfd_write(writer.counter, 101)
    with pytest.raises(UndecodableDataError, match="it returned 101 bytes, but had only 100"):
        writer.collect()
