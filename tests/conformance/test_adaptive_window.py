"""A permit channel whose receiver changes its window takes every step of the model, and refuses every other one."""

from collections import deque
from dataclasses import replace
from typing import Any

import pytest

from permitflow import ChannelParameters
from permitflow.errors import InvalidParametersError
from permitflow.flows.messages import Kind, Message, Offered
from permitflow.flows.permits.parameters import Permits
from permitflow_model.adaptive_window import SYSTEM, Parameters, State
from permitflow_model.kernel.queue import Fifo
from permitflow_testing.moves import ActionRefused, require, walk

SMALL = Parameters(row_permits=3, permit_batch=2, room=1, row_costs=(1, 2), withdrawals=True)
PARAMETERS = {"any target": SMALL, "a larger window": replace(SMALL, row_costs=(1, 3), row_permits=4)}


class DrivenChannel:
    """Both ends, and what is between them."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        agreed = ChannelParameters(
            row_permits=parameters.row_permits,
            permit_batch=parameters.permit_batch,
            max_chunk_cost=max(parameters.row_costs),
        )
        self.sender: Any = agreed.flow.outbound(agreed)
        self.receiver: Any = agreed.flow.inbound(agreed)
        self.line: list[Offered[int]] = []
        self.wire: deque[Message[int]] = deque()
        self.returned, self.batch = 0, parameters.permit_batch

    def offer(self, rows: int) -> None:
        require(len(self.line) < self.parameters.waiters)
        self.line.append(self.sender.offer(Kind.CHUNK, rows, rows))

    def withdraw(self) -> None:
        require(self.parameters.withdrawals and bool(self.line))
        assert self.sender.withdraw(self.line.pop())

    def resize(self, target: int, batch: int) -> None:
        require((target, batch) != (self.receiver.aimed_rows, self.batch))
        try:
            self.receiver.resize(target, batch)
        except InvalidParametersError:
            raise ActionRefused from None
        self.batch = batch
        self._hear(residue=False)

    def send(self) -> None:
        self.wire.append(self.sender.send_oldest())
        del self.line[0]

    def deliver(self) -> None:
        require(bool(self.wire))
        self.receiver.deliver(self.wire.popleft())

    def consume(self) -> None:
        require(bool(self.receiver.inbox))
        self.receiver.take()
        self.receiver.consume_many(1)
        self._hear(residue=False)

    def flush(self) -> None:
        require(self._hear(residue=True))

    def add_permits(self, rows: int) -> None:
        require(rows <= self.returned)
        self.sender.on_feedback(Permits(rows))
        self.returned -= rows

    def _hear(self, *, residue: bool) -> bool:
        permits = self.receiver.take_feedback(residue=residue)
        if permits is not None:
            assert permits.rows > 0
            self.returned += permits.rows
        return permits is not None

    def observe(self) -> State:
        waiting, wire, inbox = (
            Fifo(message.payload for message in place)
            for place in (self.sender.waiting, self.wire, self.receiver.inbox)
        )
        return State(
            waiting=waiting,
            permits=self.sender.permits.rows,
            wire=wire,
            inbox=inbox,
            unreturned=self.receiver.unreturned,
            withheld=self.receiver.withheld,
            returned=self.returned,
            target=self.receiver.aimed_rows,
            batch=self.batch,
        )


@pytest.mark.parametrize("name", ["any target", pytest.param("a larger window", marks=pytest.mark.long)])
def test_a_channel_takes_every_step_of_the_model_and_no_other(name: str) -> None:
    done = walk(SYSTEM, DrivenChannel(PARAMETERS[name]), PARAMETERS[name])
    assert min(done.states, done.edges, done.refusals) > 300
