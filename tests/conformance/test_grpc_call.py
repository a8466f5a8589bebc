"""The model leads what reads ahead of a consumer, through all states: the same requests at the same moments."""

import pytest

from permitflow.stages.core.boundary import InputBoundary
from permitflow.testing.moves import ActionRefused, Divergence, walk
from permitflow_model.grpc_call import SYSTEM, Message, Parameters, State
from permitflow_model.kernel.queue import Fifo
from permitflow_model.kernel.system import Disabled

NOT_LED = {action.name for action in SYSTEM.actions} - {"Push", "Ask", "Transmit", "Deliver", "Emit"}


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

    def ask(self) -> None:
        self._by_the_model("Ask")

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
def test_a_receiver_that_reads_ahead_takes_every_edge_and_refuses_everything_else(prefetch: int) -> None:
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
