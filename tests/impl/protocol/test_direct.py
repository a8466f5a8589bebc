"""Ends without a wire between them do exactly what the two ends' own methods do one after the other."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow.errors import LocalProtocolError
from permitflow.protocol.direct import open_ends, receive_all_directly, return_directly, send_directly
from permitflow.protocol.messages import Message, Permits
from permitflow.protocol.parameters import ChannelParameters, Oversize
from permitflow.protocol.receiver import PermitReceiver
from permitflow.protocol.recording import Recorder
from permitflow.protocol.sender import PermitSender


class Pair:
    """Both ends, moved step by step."""

    def __init__(self, parameters: ChannelParameters, *, is_recorded: bool) -> None:
        self.events: list[tuple[str, int, Permits]] = []
        self.open(parameters, (lambda *event: self.events.append(event[:3])) if is_recorded else None)
        self.serial = itertools.count()

    def open(self, parameters: ChannelParameters, record: Recorder | None) -> None:
        self.sender: PermitSender[int] = PermitSender(parameters, record=record)
        self.receiver: PermitReceiver[int] = PermitReceiver(parameters, record=record)

    def send(self, rows: int) -> bool:
        try:
            offered = self.sender.offer_chunk(next(self.serial), rows)
        except LocalProtocolError:
            return False
        if self.sender.sendable_chunks() < len(self.sender.waiting_chunks):
            self.sender.withdraw(offered)
            return False
        self.pump()
        return True

    def wait(self, rows: int) -> None:
        """A chunk is offered that may have to wait."""
        if rows <= self.sender.parameters.max_chunk_cost:
            self.sender.offer_chunk(next(self.serial), rows)
            self.pump()

    def mark(self, is_barrier: bool) -> None:
        if is_barrier:
            self.sender.offer_barrier(next(self.serial))
        else:
            self.sender.offer_watermark(next(self.serial))
        self.pump()

    def receive(self) -> Message[int] | None:
        if self.receiver.is_empty:
            return None
        message = self.receiver.take()
        returned = self.receiver.consume()
        if returned is not None:
            self.sender.add_permits(returned)
        residue = self.receiver.flush()
        if residue is not None:
            self.sender.add_permits(residue)
        self.pump()
        return message

    def pump(self) -> None:
        for message in self.sender.take_sendable():
            self.receiver.deliver(message)

    def books(self) -> tuple[object, ...]:
        sender, receiver = self.sender, self.receiver
        return (
            sender.permits,
            sender.least_row_permits,
            sender.sent_chunks,
            sender.sent_rows,
            receiver.granted,
            receiver.unreturned,
            receiver.inbox,
            receiver.inbox_rows,
            receiver.peak_inbox_rows,
            receiver.consumed_chunks,
            receiver.consumed_rows,
        )


class DirectPair(Pair):
    """The same by the short ways, where the receiver looks up what the sender counts for both."""

    def open(self, parameters: ChannelParameters, record: Recorder | None) -> None:
        self.sender, self.receiver = open_ends(parameters, of_sender=record, of_receiver=record)

    def send(self, rows: int) -> bool:
        return send_directly(self.sender, self.receiver, next(self.serial), rows)

    def receive(self) -> Message[int] | None:
        message = self.receiver.try_receive()
        if self.receiver.has_returns:
            return_directly(self.sender, self.receiver)
        self.pump()
        return message


moves = st.one_of(
    st.tuples(st.just(Pair.send), st.integers(0, 9)),
    st.tuples(st.just(Pair.send), st.integers(1, 3)),
    st.tuples(st.just(Pair.wait), st.integers(0, 6)),
    st.tuples(st.just(Pair.mark), st.booleans()),
    st.just((Pair.receive,)),
    st.just((Pair.receive,)),
)


@pytest.mark.parametrize("is_recorded", [False, True], ids=["unrecorded", "recorded"])
@pytest.mark.parametrize("oversize", list(Oversize))
@given(data=st.data())
def test_the_short_ways_lead_to_the_same_books(is_recorded: bool, oversize: Oversize, data: st.DataObject) -> None:
    row_permits = data.draw(st.integers(3, 9))
    batch = data.draw(st.integers(1, row_permits - 1))
    clamp = data.draw(st.integers(1, row_permits - batch + 1))
    parameters = ChannelParameters(
        row_permits=row_permits, permit_batch=batch, max_chunk_cost=clamp, barrier_permits=2, oversize=oversize
    )
    by_steps, direct = Pair(parameters, is_recorded=is_recorded), DirectPair(parameters, is_recorded=is_recorded)
    for move, *arguments in data.draw(st.lists(moves, max_size=40)):
        done = getattr(direct, move.__name__)(*arguments)
        expected = move(by_steps, *arguments)
        described = f"{move.__name__}{tuple(arguments)}"
        assert done == expected, described
        assert direct.books() == by_steps.books(), described
    assert heard(direct) == heard(by_steps)
    assert bool(direct.events) <= is_recorded


def test_what_was_dropped_does_not_count_as_consumed() -> None:
    sender: PermitSender[int]
    receiver: PermitReceiver[int]
    sender, receiver = open_ends(ChannelParameters(row_permits=8, permit_batch=2))
    for serial in range(3):
        send_directly(sender, receiver, serial, 2)
    sender.offer_barrier(-1)
    receiver.deliver(sender.send_barrier())
    receiver.try_receive()
    return_directly(sender, receiver)
    before = receiver.consumed_chunks, receiver.consumed_rows
    receiver.drop()

    assert before == (receiver.consumed_chunks, receiver.consumed_rows) == (1, 2)
    assert receiver.inbox_rows == 0
    assert receiver.peak_inbox_rows == 6


def heard(pair: Pair) -> list[tuple[str, int, Permits]]:
    """What was recorded, but for offers that were withdrawn: the short way does not make them."""
    return [event for event in pair.events if event[0] not in {"OfferChunk", "WithdrawChunk"}]


def test_the_most_that_was_out_is_known_although_all_of_it_was_received_at_once() -> None:
    sender: PermitSender[str]
    receiver: PermitReceiver[str]
    sender, receiver = open_ends(ChannelParameters(row_permits=8, permit_batch=2))
    for rows in (3, 2):
        assert send_directly(sender, receiver, "x", rows)
    assert len(receive_all_directly(sender, receiver)) == 2
    assert sender.permits.rows == 8
    assert sender.least_row_permits == 3
