"""Where barriers stand in a log, who has passed them, and when they are forgotten."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow.errors import RetentionError, WouldBlock
from permitflow.exchange.books.kept_barriers import MOST_BARRIERS, KeptBarriers
from permitflow.stream.control import KeptBarrier


def barriers(*places: tuple[int, int], consumers: tuple[str, ...] = ("etl",)) -> KeptBarriers:
    """A ledger to which these barriers have come: number and row of each."""
    ledger = KeptBarriers(dict.fromkeys(consumers, 0), channel="orders")
    for place in places:
        ledger.keep(KeptBarrier(*place))
    return ledger


def numbers(ledger: KeptBarriers, consumer: str = "etl") -> list[int]:
    return [barrier.number for barrier in ledger.needed_by(consumer)]


def test_a_barrier_without_a_number_gets_the_next_one() -> None:
    ledger = barriers((7, 10))
    assert (ledger.number_of(None), ledger.number_of(3)) == (8, 3)


@pytest.mark.parametrize("payload", ["epoch 1", 0, -1, True, 1.0, 2**63 - 1])
def test_other_payloads_than_numbers_from_1_on_are_refused(payload: object) -> None:
    with pytest.raises(RetentionError, match=r"channel 'orders'.* keeps of a barrier its number only"):
        barriers().number_of(payload)


def test_a_repeated_barrier_is_void_also_after_it_was_forgotten() -> None:
    ledger = barriers((7, 10))
    ledger.acknowledge("etl", 20)
    assert ledger.kept == ()
    assert [ledger.is_void(number) for number in (6, 7, 8)] == [True, True, False]


def test_an_acknowledged_row_passes_the_barriers_up_to_it() -> None:
    ledger = barriers((1, 10), (2, 20), (3, 20), (4, 30))
    assert not ledger.passes("etl", 9)
    assert ledger.passes("etl", 20)
    assert ledger.acknowledge("etl", 20)
    assert numbers(ledger) == [4]
    assert not ledger.passes("etl", 20)


def test_a_consumer_that_names_the_next_barrier_passes_no_empty_epoch() -> None:
    ledger = barriers((1, 10), (2, 20), (3, 20), (4, 30))
    ledger.acknowledge("etl", 20, next_barrier=3)
    assert numbers(ledger) == [3, 4]
    ledger.acknowledge("etl", 20, next_barrier=4)
    assert numbers(ledger) == [4]


def test_a_barrier_is_kept_until_all_consumers_have_passed_it() -> None:
    ledger = barriers((1, 10), (2, 20), consumers=("etl", "audit"))
    assert not ledger.acknowledge("etl", 20)
    assert (numbers(ledger), numbers(ledger, "audit"), len(ledger.kept)) == ([], [1, 2], 2)
    assert ledger.needed_after("audit", 10) == 2
    assert ledger.acknowledge("audit", 10)
    assert [barrier.number for barrier in ledger.kept] == [2]


def test_the_store_keeps_the_newest_barrier_for_its_number() -> None:
    assert barriers((1, 10), (2, 20)).needed_after("etl", 30) == 2
    assert barriers().needed_after("etl", 30) == 0


def test_barriers_wait_for_room_and_acknowledging_makes_it() -> None:
    ledger = barriers(*((number, number) for number in range(1, MOST_BARRIERS + 1)))
    assert not ledger.has_room()
    with pytest.raises(WouldBlock):
        ledger.keep(KeptBarrier(MOST_BARRIERS + 1, MOST_BARRIERS + 1))
    assert ledger.acknowledge("etl", 1)
    assert ledger.has_room()


ROWS = st.integers(0, 6)


@given(
    st.lists(ROWS, max_size=8).map(sorted),
    st.lists(st.tuples(st.sampled_from(["etl", "audit"]), ROWS, st.integers(0, 9)), max_size=8),
)
def test_a_restored_ledger_needs_each_barrier_that_it_needed(
    places: list[int], acknowledged: list[tuple[str, int, int]]
) -> None:
    ledger = barriers(*enumerate(places, 1), consumers=("etl", "audit"))
    rows, stored = {"etl": 0, "audit": 0}, [KeptBarrier(*place) for place in enumerate(places, 1)]
    for consumer, row, next_barrier in acknowledged:
        needed = ledger.needed_after(consumer, row, next_barrier)
        ledger.acknowledge(consumer, row, next_barrier)
        rows[consumer] = max(rows[consumer], row)
        stored = [barrier for barrier in stored if barrier.number >= needed]
    again = KeptBarriers(rows, kept=stored)
    assert again.newest == ledger.newest
    for consumer, row in rows.items():
        assert set(ledger.needed_by(consumer)) <= set(again.needed_by(consumer))
        # Acknowledged once more, as a query does when it starts again, nothing else is needed than before.
        assert all(barrier.row >= row for barrier in again.needed_by(consumer))


def test_barriers_before_expired_rows_are_forgotten() -> None:
    ledger = barriers((1, 10), (2, 20), (3, 30), consumers=("etl", "audit"))
    ledger.acknowledge("etl", 30)
    assert ledger.needed_after_expiry(20) == 2
    ledger.expire(20)
    assert (numbers(ledger), numbers(ledger, "audit")) == ([], [2, 3])
    assert ledger.needed_after_expiry(40) == 3
    ledger.expire(40)
    assert (ledger.kept, ledger.newest) == ((), 3)
