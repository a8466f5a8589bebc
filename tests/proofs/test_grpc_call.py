"""The four mistakes of the article break the clauses about them; and the numbers of a gRPC call."""

from dataclasses import replace

import pytest

from permitflow_model.grpc_call import SYSTEM, Defect, Parameters, State
from permitflow_proofs.grpc_call import INVARIANT, SUBJECT
from permitflow_proofs.kernel.arbitrary import any_parameters_of
from permitflow_proofs.kernel.induction import Subject
from permitflow_proofs.kernel.obligation import shortest_run
from tests.support.mistaken import is_kept

SMALL = Parameters(prefetch=2, batch=1, threshold=1, window=1, max_size=1, breaks=True, tags=6)


# The four of the article.


def with_defect(defect: Defect) -> Subject[State, Parameters]:
    return replace(SUBJECT, system=SYSTEM, any_parameters=lambda: any_parameters_of(Parameters, defect=defect))


@pytest.mark.parametrize(
    ("defect", "action", "clauses"),
    [
        ("keeps", "OnReady", {"AskedOnce", "NothingLost"}),
        ("closes", "Complete", {"NothingLost"}),
        ("looks", "ActLate", {"Woken"}),
        ("threads", "ActLate", {"EndSent"}),
    ],
)
def test_a_mistake_of_the_article_breaks_its_clauses(defect: Defect, action: str, clauses: set[str]) -> None:
    about = {name: INVARIANT[name] for name in clauses}
    assert {name for name in about if not is_kept(about[name], with_defect(defect), action)} == clauses


def test_a_message_that_was_sent_twice_is_consumed_twice() -> None:
    parameters = replace(SMALL, defect="keeps", breaks=False)
    run = shortest_run(SYSTEM, parameters, lambda state, here: not SYSTEM.invariants["InOrder"](state, here))
    assert run is not None
    assert [message.number for message in (*run.end.inbox, *run.end.wire, *run.end.local)] == [0, 1, 1]


# Others.


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


@pytest.mark.parametrize("name", ["prefetch", "batch", "threshold", "window", "max_size"])
def test_parameters_that_the_specification_refuses_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least 1"):
        replace(SMALL, **{name: 0})  # type: ignore[arg-type]  # they are numbers
    with pytest.raises(ValueError, match="tags must be 1 or above 1 \\+ threshold \\+ window \\+ prefetch = 5, not 5"):
        replace(SMALL, tags=5)
