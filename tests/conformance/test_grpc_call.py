"""The model leads what reads ahead of a consumer through all states, and explains what real calls do."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from permitflow.stages import Source, calls
from permitflow.stages.core.boundary import InputBoundary
from permitflow_model.grpc_call import SYSTEM, Message, Parameters, State
from permitflow_model.kernel.queue import Fifo
from permitflow_model.kernel.system import Disabled
from permitflow_testing import ActionRefused, Divergence
from permitflow_testing.moves import walk
from tests.support.numbers_service import number, serving
from tests.support.turns import until

NOT_LED = {action.name for action in SYSTEM.actions} - {"Push", "Pull", "Transmit", "Deliver", "Emit"}


def reading(prefetch: int) -> Parameters:
    """A call whose receiver reads so far ahead, with batches of half."""
    return Parameters(
        prefetch=prefetch, batch=max(1, prefetch // 2), threshold=1, window=1, max_size=1, tags=prefetch + 4
    )


class Receiver:
    """The receiver's stage is the implementation; what is ahead of it is the model's."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self._state = SYSTEM.initial(parameters)
        self._boundary: InputBoundary[Message] = InputBoundary(parameters.prefetch)
        self._requested = self._boundary.first_request()

    def _by_the_model(self, action: str, *arguments: int) -> None:
        try:
            self._state = SYSTEM.perform(action, self._state, self._parameters, *arguments)
        except Disabled as error:
            raise ActionRefused from error

    def push(self, size: int) -> None:
        self._by_the_model("Push", size)

    def pull(self) -> None:
        self._by_the_model("Pull")

    def transmit(self) -> None:
        self._by_the_model("Transmit")

    def deliver(self) -> None:
        if self._state.wire.is_empty() or self._requested == 0:
            raise ActionRefused
        self._boundary.arrive(self._state.wire.head())
        self._requested -= 1
        self._state = self._state._replace(wire=self._state.wire.without_head())

    def emit(self) -> None:
        if not self._state.wanted or not self._boundary:
            raise ActionRefused
        message, request = self._boundary.take()
        self._requested += request
        self._state = self._state._replace(wanted=False, consumed=(message.number + 1) % self._parameters.tags)

    def observe(self) -> State:
        return self._state._replace(
            requested=self._requested,
            inbox=Fifo(self._boundary._elements),
            unrequested=self._parameters.batch - self._boundary._left_of_batch,
        )


@pytest.mark.parametrize("prefetch", [1, 2, 4])
def test_a_receiver_that_reads_ahead_takes_every_edge_only(prefetch: int) -> None:
    done = walk(SYSTEM, Receiver(reading(prefetch)), reading(prefetch), never=NOT_LED)
    assert min(done.states, done.edges, done.refusals) > 100


class RequestsItsRoom(Receiver):
    """Requests what it has room for, although a part of it was requested before."""

    def emit(self) -> None:
        super().emit()
        self._requested = max(self._requested, self._parameters.prefetch - len(self._boundary))


def test_a_receiver_that_requests_too_much_is_found_out() -> None:
    with pytest.raises(Divergence, match="requested: expected 3, found 4"):
        walk(SYSTEM, RequestsItsRoom(reading(4)), reading(4), never=NOT_LED)


# Real calls.


@dataclass
class Explained(calls.CallCounts):
    """Counts of both ends of a call, one after another, as steps of the model; each message counts as one byte.

    gRPC in Python has no ``isReady``: a write is awaited.  So the local queue has one message, and the stage asks its
    producer when it is empty: nothing is ever held.
    """

    model: Parameters = field(kw_only=True)

    def __post_init__(self) -> None:
        self.state = SYSTEM.initial(self.model)

    def __setattr__(self, name: str, value: Any) -> None:
        is_count = "state" in self.__dict__ and name in ("pulled", "sent", "received", "consumed")
        super().__setattr__(name, value)
        if is_count:
            getattr(self, f"_explain_{name}")()
            assert not SYSTEM.broken_invariants(self.state, self.model)

    def step(self, action: str, *arguments: int) -> None:
        self.state = SYSTEM.perform(action, self.state, self.model, *arguments)

    def _explain_pulled(self) -> None:
        self.step("Push", 1)
        assert self.state.hand.is_empty()

    def _explain_sent(self) -> None:
        # The message may have been read before its writer was woken.
        if not self.state.local.is_empty():
            self.step("Transmit")

    def _explain_received(self) -> None:
        if self.state.wire.is_empty():
            self.step("Transmit")
        self.step("Deliver")

    def _explain_consumed(self) -> None:
        self.step("Pull")
        self.step("Emit")


SIZE = 1_000
WINDOW = calls.Window(5 * SIZE)


def calling(prefetch: int, window: int) -> Parameters:
    ahead = max(prefetch, 1)
    return Parameters(
        prefetch=ahead, batch=max(1, ahead // 2), threshold=1, window=window, max_size=1, tags=ahead + window + 3
    )


async def counted(explained: Explained, prefetch: int, elements: int = 60) -> list[int]:
    """Both ends of a call are counted in this process; the consumer sometimes waits until it is read ahead of."""

    async def count(request: Any, context: Any) -> None:
        numbers = Source(range(request.value)).map(lambda value: number(value, SIZE))
        await calls.respond(context, numbers, counts=explained)

    # A batch is not requested before all of it was taken; what the model does not allow ends the call.
    read_ahead = min(prefetch - prefetch // 2, explained.model.prefetch + 1)
    async with serving(responses=WINDOW, Count=count) as stub:
        got = []
        async for message in calls.source(stub.Count, number(elements), prefetch=prefetch, counts=explained):
            got.append(message.value)
            if message.value % 20 == 0:
                await until(lambda: explained.in_hand >= read_ahead)
    return got


@pytest.mark.parametrize("prefetch", [0, 1, 8])
def test_what_a_real_call_does_is_a_behaviour_of_the_model(prefetch: int) -> None:
    explained = Explained(model=calling(prefetch, WINDOW.most_unread(SIZE)))
    assert asyncio.run(counted(explained, prefetch)) == list(range(60))
    explained.step("Complete")
    explained.step("OnComplete")
    assert explained.state.consumed == explained.state.offered


def test_a_call_that_reads_further_ahead_than_the_model_is_found_out() -> None:
    explained = Explained(model=calling(2, WINDOW.most_unread(SIZE)))
    with pytest.raises(Disabled):
        asyncio.run(counted(explained, prefetch=8))
