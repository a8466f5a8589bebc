"""A run of messages leaves the same ledger, and the same record, as its messages one by one."""

import weakref
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow import ChannelParameters, Kind, Message, Oversize, Permits
from permitflow.errors import (
    InvalidParametersError,
    LocalProtocolError,
    OversizeChunkError,
    OverspendError,
    UnexpectedFrameError,
)
from permitflow.flows.permits.core import PermitReceiver, PermitSender
from permitflow.flows.seam import Totals


class Event(NamedTuple):
    """What a recorder hears, counters included."""

    action: str
    arguments: tuple[int, ...]
    counters: tuple[int, ...]


class Pair:
    """Both ends; many messages one by one."""

    def __init__(self, parameters: ChannelParameters, *, is_recorded: bool) -> None:
        self.events: list[Event] = []
        record = (lambda *event: self.events.append(Event(*event))) if is_recorded else None
        self.sender: PermitSender[int] = PermitSender(parameters, record=record)
        self.receiver: PermitReceiver[int] = PermitReceiver(parameters, record=record)

    def send(self, rows: list[int]) -> int:
        sent: list[Message[int]] = []
        for serial, of_chunk in enumerate(rows):
            if self.sender.parameters.cost_of(of_chunk) > self.sender.permits.rows:
                break
            self.sender.offer(Kind.CHUNK, serial, of_chunk)
            sent.append(self.sender.send_oldest())
        for message in sent:
            self.receiver.deliver(message)
        return len(sent)

    def mark(self) -> None:
        self.sender.offer_watermark(-1)
        self.sender.offer(Kind.BARRIER, -2)
        for message in self.sender.take_sendable():
            self.receiver.deliver(message)

    def take(self, most: int) -> list[Message[int]]:
        return [self.receiver.take() for _ in range(min(most, self.receiver.untaken))]

    def consume(self, count: int) -> Permits:
        due: list[Permits | None] = []
        for _ in range(min(count, len(self.receiver.inbox) - self.receiver.untaken)):
            self.receiver.consume_many(1)
            due.append(self.receiver.take_feedback(residue=False))
        return total(*due)

    def receive(self, most: int) -> list[Message[int]]:
        messages: list[Message[int]] = []
        while len(messages) < most and (message := self.receiver.try_receive()) is not None:
            messages.append(message)
        self.give_back()
        return messages

    def give_back(self, permits: Permits | None = None) -> None:
        if any(returned := total(permits, self.receiver.take_feedback())):
            self.sender.on_feedback(returned)

    def books(self) -> tuple[object, ...]:
        sender, receiver = self.sender, self.receiver
        return (
            sender.permits,
            sender.peak_rows_held,
            sender.totals,
            receiver.totals,
            receiver.granted,
            receiver.unreturned,
            receiver.inbox,
            receiver.untaken,
            receiver.inbox_rows,
            receiver.peak_inbox_rows,
            receiver.consumed_chunks,
            receiver.consumed_rows,
            receiver.urgency > 0,
        )


class PairOfRuns(Pair):
    """The same in runs."""

    def send(self, rows: list[int]) -> int:
        payloads = list(range(len(rows)))
        count = self.sender.send_now(rows)
        self.receiver.deliver_many(payloads[:count], rows[:count])
        return count

    def take(self, most: int) -> list[Message[int]]:
        return self.receiver.take_many(most)

    def consume(self, count: int) -> Permits:
        self.receiver.consume_many(min(count, len(self.receiver.inbox) - self.receiver.untaken))
        return total(self.receiver.take_feedback(residue=False))

    def receive(self, most: int) -> list[Message[int]]:
        messages = self.receiver.receive_many(most)
        self.give_back()
        return messages


def total(*permits: Permits | None) -> Permits:
    """All of them together."""
    some = [increment for increment in permits if increment is not None]
    return Permits(*map(sum, zip(*some, strict=True))) if some else Permits()


moves = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.lists(st.integers(0, 4), max_size=6)),
        st.tuples(st.just("send"), st.lists(st.integers(1, 2), max_size=16)),
        st.just(("mark",)),
        st.tuples(st.just("receive"), st.integers(1, 20)),
        st.tuples(st.just("take"), st.integers(1, 20)),
        st.tuples(st.just("consume"), st.integers(0, 20)),
    ),
    max_size=30,
)


@pytest.mark.parametrize("is_recorded", [False, True], ids=["unrecorded", "recorded"])
@given(moves=moves, window=st.tuples(st.integers(3, 30), st.integers(1, 12)))
def test_a_train_leaves_the_books_as_its_messages_one_by_one(
    is_recorded: bool, moves: list[tuple[str, object]], window: tuple[int, int]
) -> None:
    parameters = ChannelParameters(
        row_permits=window[0], permit_batch=min(window[1], window[0] - 1), barrier_permits=40, oversize=Oversize.WHOLE
    )
    one_by_one = Pair(parameters, is_recorded=is_recorded)
    runs = PairOfRuns(parameters, is_recorded=is_recorded)
    for name, *arguments in moves:
        if name == "receive" and one_by_one.receiver.untaken < len(one_by_one.receiver.inbox):
            continue  # the two ways to receive are not mixed
        returned = [getattr(pair, name)(*arguments) for pair in (one_by_one, runs)]
        assert returned[0] == returned[1], name
        if name == "consume":
            one_by_one.give_back(returned[0])
            runs.give_back(returned[1])
        assert one_by_one.books() == runs.books(), name
    assert one_by_one.events == runs.events
    assert is_recorded or not runs.events


def test_a_chunk_that_has_to_be_split_does_not_leave_in_a_train() -> None:
    sender: PermitSender[str] = PermitSender(ChannelParameters(row_permits=20, permit_batch=12))
    assert sender.send_now([1, 0, 9, 1]) == 2
    with pytest.raises(InvalidParametersError, match="rows must not be negative, not -1"):
        sender.send_now([1, -1, 1])
    assert (sender.permits.rows, sender.totals) == (18, Totals(2, 1, 0))


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ([4, 7], OverspendError),
        ([7, 0, 3], OverspendError),
        ([9, 0], OversizeChunkError),
        ([9, -2], UnexpectedFrameError),
        ([-1], UnexpectedFrameError),
    ],
)
def test_a_train_that_its_sender_may_not_send_is_refused_as_a_whole(rows: list[int], error: type[Exception]) -> None:
    receiver: PermitReceiver[str] = PermitReceiver(ChannelParameters(row_permits=10, permit_batch=2))
    with pytest.raises(error):
        receiver.deliver_many(["a", "b", "c"][: len(rows)], rows)
    assert not receiver.unconsumed
    assert (receiver.granted.rows, receiver.totals) == (10, Totals(0, 0, 0))


@pytest.mark.parametrize("count", [1, 2])
def test_held_messages_are_not_passed_by(count: int) -> None:
    receiver: PermitReceiver[str] = PermitReceiver(ChannelParameters(row_permits=10, permit_batch=2))
    receiver.deliver_many(["a", "b", "c"], [1, 1, 1])
    receiver.take_many(1)
    with pytest.raises(LocalProtocolError, match="1 messages were taken"):
        receiver.consume_oldest(count)
    assert (receiver.inbox_rows, receiver.untaken, receiver.consumed_chunks) == (3, 2, 0)


class Payload:
    """Something that can be seen to be gone."""


@pytest.mark.parametrize(
    ("read", "most"), [("try_receive", ()), ("receive_many", (1,)), ("consume_oldest", (1,)), ("take", ())]
)
def test_a_run_keeps_only_what_was_not_handed_over(read: str, most: tuple[int, ...]) -> None:
    receiver: PermitReceiver[Payload] = PermitReceiver(ChannelParameters(row_permits=10, permit_batch=2))
    run = [Payload() for _ in range(3)]
    receiver.deliver_many(run, [1, 1, 1])
    seen = [weakref.ref(payload) for payload in run]
    run.clear()
    getattr(receiver, read)(*most)
    receiver.consume_many(receiver.unconsumed - receiver.untaken)
    assert [payload() is None for payload in seen] == [True, False, False]
    assert [message.payload for message in receiver.receive_many(2)] == [payload() for payload in seen[1:]]
