"""A permit channel with a byte window takes every step of the model, and refuses every other one.

Both ends are the real ones.  What a session does with them is done here by hand: it hands the bytes of a chunk over
with it, and returns a batch of bytes that is complete, or what is collected when permits return anyway.
"""

from collections import deque
from dataclasses import replace
from itertools import accumulate, product, takewhile
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from permitflow import ChannelParameters
from permitflow.errors import ByteOverspendError
from permitflow.flows.byte_window import ByteWindow, OutstandingBytes, UnreturnedBytes
from permitflow.flows.messages import Kind, Message, Offered
from permitflow.flows.permits.parameters import Permits
from permitflow_model.byte_window import SYSTEM, Chunk, Parameters, State, admits
from permitflow_model.kernel.queue import Fifo
from permitflow_testing.moves import require, walk

SMALL = Parameters(row_permits=3, permit_batch=2, window_bytes=3, batch_bytes=2, row_costs=(1, 2), byte_costs=(1, 5))
PARAMETERS = {
    "a large chunk": replace(SMALL, withdrawals=True),
    "expected to be larger": replace(SMALL, byte_costs=(1, 3), estimates=True, row_costs=(1,)),
    "two wait, the batch is the window": replace(
        SMALL, window_bytes=4, batch_bytes=4, byte_costs=(3, 5), row_costs=(1,), waiters=2
    ),
}
"""What a session does is together."""


class DrivenChannel:
    """Both ends, and what is between them."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        agreed = ChannelParameters(
            row_permits=parameters.row_permits,
            permit_batch=parameters.permit_batch,
            max_chunk_cost=max(parameters.row_costs),
        )
        window = ByteWindow(parameters.window_bytes, parameters.batch_bytes)
        self.sender: Any = agreed.flow.outbound(agreed)
        self.out = self.sender.limit_bytes(window, is_written_later=True)
        self.receiver: Any = agreed.flow.inbound(agreed)
        self.here = self.receiver.limit_bytes(window)
        self.line: list[Offered[Chunk]] = []
        self.wire: deque[Message[Chunk]] = deque()
        self.returned_rows = self.returned_bytes = 0

    # The application.

    def offer(self, rows: int, expected: int, size_bytes: int) -> None:
        exact = size_bytes == expected or (self.parameters.estimates and size_bytes < expected)
        require(exact and len(self.line) < self.parameters.waiters)
        self.line.append(self.sender.offer(Kind.CHUNK, Chunk(rows, expected, size_bytes), rows, expected))

    def withdraw(self) -> None:
        require(self.parameters.withdrawals and bool(self.line))
        assert self.sender.withdraw(self.line.pop())

    # The protocol.

    def send(self) -> None:
        message = self.sender.send_oldest()
        assert message.payload == self.line.pop(0).message.payload
        # It is encoded before the next one leaves: then its size is known.
        self.out.shorten(message.payload.expected - message.payload.bytes)
        self.out.write(message.payload.bytes)
        self.wire.append(message)

    def deliver(self) -> None:
        require(bool(self.wire))
        message = self.wire.popleft()
        self.receiver.deliver(message, message.payload.bytes)

    def consume(self) -> None:
        require(bool(self.receiver.inbox))
        self.receiver.take()
        self.receiver.consume_many(1)
        permits = self.receiver.take_feedback(residue=False)
        if permits is not None:
            self.returned_rows += permits.rows
        if permits is not None or self.here.is_due:
            self.returned_bytes += self.here.take()

    def return_rows(self, rows: int) -> None:
        require(rows <= self.returned_rows)
        self.sender.on_feedback(Permits(rows))
        self.returned_rows -= rows

    def return_bytes(self, size_bytes: int) -> None:
        require(size_bytes <= self.returned_bytes)
        self.out.on_return(size_bytes)
        self.returned_bytes -= size_bytes

    # What can be seen.

    def observe(self) -> State:
        waiting, wire, inbox = (
            Fifo(message.payload for message in place)
            for place in (self.sender.waiting, self.wire, self.receiver.inbox)
        )
        return State(
            waiting=waiting,
            permits=self.sender.permits.rows,
            outstanding=self.out.outstanding_bytes,
            wire=wire,
            inbox=inbox,
            unreturned_rows=self.receiver.unreturned,
            unreturned_bytes=self.here.unreturned_bytes,
            returned_rows=self.returned_rows,
            returned_bytes=self.returned_bytes,
        )


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if name.startswith("two wait") else ()) for name in PARAMETERS]
)
def test_a_channel_takes_every_step_of_the_model_and_no_other(name: str) -> None:
    done = walk(SYSTEM, DrivenChannel(PARAMETERS[name]), PARAMETERS[name])
    assert min(done.states, done.edges, done.refusals) > 300


@example(outstanding=4, sizes=[2, 2, 2, 2], window=(10, 1))
@given(
    outstanding=st.integers(0, 12),
    sizes=st.lists(st.integers(0, 12), max_size=6),
    window=st.integers(1, 10).flatmap(lambda most: st.tuples(st.just(most), st.integers(1, most))),
)
def test_chunks_that_leave_together_are_admitted_one_by_one(
    outstanding: int, sizes: list[int], window: tuple[int, int]
) -> None:
    window_bytes, batch_bytes = window
    ledger = OutstandingBytes(ByteWindow(window_bytes, batch_bytes))
    ledger.send(outstanding)
    parameters = replace(SMALL, window_bytes=window_bytes, batch_bytes=batch_bytes)
    sums = [*accumulate(sizes, initial=0)]
    admitted = takewhile(lambda at: admits(outstanding + sums[at], sizes[at], parameters), range(len(sizes)))
    assert ledger.fitting(sums, len(sizes)) == len([*admitted])


def test_a_receiver_refuses_what_the_rule_forbids_and_changes_nothing() -> None:
    for held, size_bytes in product(range(6), repeat=2):
        here = UnreturnedBytes(ByteWindow(SMALL.window_bytes, SMALL.batch_bytes))
        here.accept(held)
        if admits(held, size_bytes, SMALL):
            here.require_room(size_bytes)
        else:
            with pytest.raises(ByteOverspendError):
                here.require_room(size_bytes)
        assert here.held_bytes == held
