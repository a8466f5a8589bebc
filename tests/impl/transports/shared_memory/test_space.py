"""No byte that somebody looks at is ever given to another message, and every byte comes back."""

import itertools
import threading
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow.errors import UndecodableDataError
from permitflow.transports.shared_memory.ring import ALIGNMENT_BYTES, HeldSpace, Place, Tenure, WriterSpace

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
        """Nobody looks at a message any more."""
        self.looked_at.remove(tenure)
        self.reader.end(tenure)

    def hear(self) -> None:
        """What was returned arrives at the writer."""
        self.writer.give_back(self.on_way_back)
        self.on_way_back = 0

    def overlapping(self) -> list[tuple[Place, Place]]:
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
def test_what_is_looked_at_is_never_given_away_and_every_byte_comes_back(steps: list[tuple[str, int, int]]) -> None:
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


def test_an_empty_ring_is_used_from_its_beginning() -> None:
    pair = Pair()
    for _ in range(5):
        tenure = pair.send(300)
        assert tenure is not None
        assert tenure.place.offset == 0
        pair.drop(tenure)
        pair.hear()


def test_no_more_of_the_ring_is_used_than_was_needed_at_once() -> None:
    pair = Pair(1 << 20)
    held = deque(filter(None, (pair.send(100) for _ in range(4))))
    reached = 0
    for _ in range(1000):
        pair.drop(held.popleft())
        pair.hear()
        tenure = pair.send(100)
        assert tenure is not None
        held.append(tenure)
        reached = max(reached, tenure.place.offset + tenure.place.size)
    assert reached <= 2 * 5 * 128


def test_a_ring_that_was_gone_around_too_early_is_used_further_the_next_time() -> None:
    pair = Pair(1 << 20)
    held = deque(filter(None, (pair.send(100) for _ in range(3))))

    def drop_oldest() -> None:
        pair.drop(held.popleft())
        pair.hear()

    drop_oldest()
    refused = reached = 0
    for _ in range(100):
        # Goes around where two are looked at, and needs more while three are.
        while len(held) < 4 and refused <= 3:
            if (tenure := pair.send(100)) is None:
                refused += 1
                drop_oldest()
                continue
            held.append(tenure)
            reached = max(reached, tenure.place.offset + tenure.place.size)
        drop_oldest()
        drop_oldest()
    assert 1 <= refused <= 3
    assert reached <= 2 * 6 * 128


def test_space_comes_back_in_the_order_of_the_messages() -> None:
    pair = Pair()
    first, second = pair.send(128), pair.send(128)
    assert first is not None
    assert second is not None
    pair.drop(second)
    assert pair.on_way_back == 0
    pair.drop(first)
    assert pair.on_way_back == 256


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
        Place(CAPACITY, 1, 1),
        Place(0, CAPACITY + 1, CAPACITY + 1),
        Place(512, 0, 0),
        Place(512, 64, 63),
        Place(100, 64, 64),
        Place(900, 124, 252),
    ],
)
def test_a_note_that_is_outside_or_overwrites_is_refused(wrong: Place) -> None:
    reader = HeldSpace(CAPACITY, lambda _: None)
    reader.hold(Place(64, 64, 64))
    reader.hold(Place(896, 64, 832))
    with pytest.raises(UndecodableDataError):
        reader.hold(wrong)


def test_more_cannot_be_returned_than_was_taken() -> None:
    writer = WriterSpace(CAPACITY)
    assert writer.take(100) is not None
    with pytest.raises(UndecodableDataError, match="101 bytes were returned, but only 100"):
        writer.give_back(101)
