"""The numbers of a gRPC call."""

from dataclasses import replace

import pytest

from permitflow_model.grpc_call import SYSTEM, Parameters
from permitflow_model.mistakes import mistaken, mistakes_in
from permitflow_proofs.kernel.obligation import shortest_run

SMALL = Parameters(prefetch=2, batch=1, threshold=1, window=1, max_size=1, breaks=True, tags=6)


def test_a_message_that_was_sent_twice_is_consumed_twice() -> None:
    wrong = mistaken(SYSTEM, mistakes_in("GrpcCall")["OnReadyAndKeep"])
    parameters = replace(SMALL, breaks=False)
    run = shortest_run(wrong, parameters, lambda state, here: not SYSTEM.invariants["InOrder"](state, here))
    assert run is not None
    assert [message.number for message in (*run.end.inbox, *run.end.wire, *run.end.local)] == [0, 1, 1]


# Numbers.


def requests(prefetch: int, batch: int, elements: int) -> list[int]:
    """How many messages are requested at a time, while so many are consumed as soon as they come."""
    parameters = Parameters(prefetch=prefetch, batch=batch, threshold=1, window=1, max_size=1)
    state = SYSTEM.initial(parameters)
    made = [state.requested]
    for _ in range(elements):
        for step in ("Push", "Pull", "Transmit", "Deliver"):
            state = SYSTEM.perform(step, state, parameters, *([1] if step == "Push" else []))
        before, state = state.requested, SYSTEM.perform("Emit", state, parameters)
        made += [more] if (more := state.requested - before) else []
    return made


@pytest.mark.parametrize(
    ("prefetch", "batch", "elements", "made"),
    [
        (512, 341, 1024, [512, 341, 341, 341]),
        (512, 341, 24, [512]),
        (16, 8, 24, [16, 8, 8, 8]),
        (1, 1, 3, [1, 1, 1, 1]),
    ],
)
def test_a_batch_is_requested_when_as_many_were_taken(
    prefetch: int, batch: int, elements: int, made: list[int]
) -> None:
    assert requests(prefetch, batch, elements) == made


@pytest.mark.parametrize(
    ("threshold", "sizes", "ready"), [(10, [100], [False]), (10, [9, 1], [True, False]), (32 * 1024, [7], [True])]
)
def test_a_call_is_ready_while_fewer_bytes_wait_than_the_threshold(
    threshold: int, sizes: list[int], ready: list[bool]
) -> None:
    """A stage that finds the call full holds the next message; the edge comes with the byte that makes it ready."""
    parameters = Parameters(prefetch=1, batch=1, threshold=threshold, window=1, max_size=100)
    state, found = SYSTEM.initial(parameters), []
    for size in sizes:
        state = SYSTEM.perform("Push", state, parameters, size)
        found.append(SYSTEM.perform("Push", state, parameters, 1).hand.is_empty())
    assert found == ready
    assert SYSTEM.perform("Transmit", state, parameters).edge is (not ready[-1])


def test_parameters_that_the_specification_refuses_are_refused() -> None:
    with pytest.raises(ValueError, match="tags must be 1 or above 1 \\+ threshold \\+ window \\+ prefetch = 5, not 5"):
        replace(SMALL, tags=5)
