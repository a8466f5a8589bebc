"""Permits of a consumer of a group: only what was consumed is committed, and a full window mutes."""

from permitflow.kafka.ledger import Ledger, Partition, Record

LEFT, RIGHT = Partition("orders", 0), Partition("orders", 1)


def record(partition: Partition, offset: int) -> Record:
    return Record(*partition, offset, -1, None, b"")


def delivered(ledger: Ledger, partition: Partition, *offsets: int) -> list[Record]:
    records = [record(partition, offset) for offset in offsets]
    assert all(map(ledger.deliver, records))
    return records


def ledger_of(window: int = 10, batch: int = 2) -> Ledger:
    ledger = Ledger(window, batch)
    ledger.assign([LEFT, RIGHT])
    return ledger


def test_an_offset_is_due_when_all_before_it_are_consumed() -> None:
    ledger = ledger_of()
    first, second, after_a_gap = delivered(ledger, LEFT, 4, 5, 9)
    ledger.consume(second)
    assert (ledger.take_due(), ledger.out) == ({}, 3)
    ledger.consume(first)
    assert (ledger.take_due(), ledger.out) == ({LEFT: 6}, 1)
    ledger.consume(after_a_gap)
    assert (ledger.take_due(), ledger.out) == ({LEFT: 10}, 0)


def test_a_record_counts_once() -> None:
    ledger = ledger_of()
    first, second = delivered(ledger, LEFT, 0, 1)
    assert ledger.consume(second)
    assert not ledger.consume(second)
    assert ledger.consume(first)
    assert not ledger.consume(first)
    assert ledger.out == 0


def test_a_refused_offset_is_due_again_unless_a_later_one_is() -> None:
    ledger = ledger_of()
    first, second = delivered(ledger, LEFT, 0, 1)
    ledger.consume(first)
    assert ledger.take_due() == {LEFT: 1}
    assert ledger.take_due() == {}
    ledger.was_not_committed(LEFT, 1)
    assert ledger.take_due() == {LEFT: 1}
    ledger.consume(second)
    assert ledger.take_due() == {LEFT: 2}
    ledger.was_not_committed(LEFT, 1)
    assert ledger.take_due() == {}


def test_a_full_window_mutes_until_a_batch_is_back() -> None:
    ledger = ledger_of(window=3, batch=2)
    records = delivered(ledger, LEFT, 0, 1) + delivered(ledger, RIGHT, 0)
    assert [ledger.mutes(), ledger.mutes(), ledger.is_muted] == [True, False, True]
    ledger.consume(records[2])
    assert [ledger.unmutes(), ledger.is_muted] == [False, True]
    ledger.consume(records[0])
    assert [ledger.unmutes(), ledger.unmutes(), ledger.is_muted] == [True, False, False]


def test_a_revoked_partition_gives_its_permits_back() -> None:
    ledger = ledger_of()
    (kept,), lost = delivered(ledger, LEFT, 0), delivered(ledger, RIGHT, 0, 1)
    ledger.consume(lost[0])
    assert ledger.take_due([RIGHT]) == {RIGHT: 1}
    ledger.revoke([RIGHT])
    assert (ledger.out, ledger.is_ours(kept), ledger.is_ours(lost[1])) == (1, True, False)
    assert not ledger.deliver(record(RIGHT, 2))
    ledger.assign([RIGHT])
    (again,) = delivered(ledger, RIGHT, 1)
    assert not ledger.consume(lost[0])
    assert ledger.consume(again)
    assert ledger.take_due([RIGHT]) == {RIGHT: 2}


def test_the_oldest_record_of_the_longest_wait_is_named() -> None:
    ledger = ledger_of()
    assert ledger.oldest is None
    delivered(ledger, LEFT, 7)
    first, _ = delivered(ledger, RIGHT, 3, 4)
    assert ledger.oldest is first
