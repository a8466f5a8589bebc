"""What is said about a run is true: the model is asked again."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from permitflow.pictures.run import Verdict
from permitflow.pictures.verdicts import in_words, live_run, stuck_run, what_would_help
from permitflow_model.kernel.explore import explore
from permitflow_model.kernel.system import Step
from permitflow_model.permit_channel import SYSTEM, Parameters, State

STUCK = Parameters(row_count=4, batch=3, clamp=3, sizes=(1, 2, 3))
Search = Callable[[Parameters], list[Step[State]]]


def is_live(parameters: Parameters) -> bool:
    invariants = {"NeverStuck": SYSTEM.invariants["NeverStuck"]}
    return not explore(SYSTEM, parameters, invariants=invariants, stop_at_violation=True).violations


def test_each_advice_helps_and_the_next_smaller_one_does_not() -> None:
    assert what_would_help(STUCK, is_live) == (
        "chunks that cost at most 2 permits instead of 3",
        "a batch of 2 instead of 3",
        "5 row permits instead of 4",
        "an idle receiver that returns what is below the batch (FlushIdle)",
    )
    assert is_live(replace(STUCK, clamp=2))
    assert is_live(replace(STUCK, batch=2))
    assert is_live(replace(STUCK, row_count=5))
    assert is_live(replace(STUCK, flush_idle=True))
    assert not is_live(STUCK)


def test_what_cannot_help_is_not_advised() -> None:
    """A chunk that costs more than all permits together: neither the batch nor an idle flush can help."""
    too_dear = Parameters(row_count=3, batch=1, clamp=5, sizes=(5,))
    assert what_would_help(too_dear, is_live) == (
        "chunks that cost at most 3 permits instead of 5",
        "5 row permits instead of 3",
    )


def test_the_sentence_of_a_stuck_run_tells_its_last_state(shortest_stuck: Search) -> None:
    run = stuck_run(STUCK, SYSTEM.initial(STUCK), shortest_stuck(STUCK), is_live=is_live)
    kept = run.end.unreturned
    assert run.verdict is Verdict.STUCK
    assert run.sentence == (
        f"After {len(run.steps)} steps a chunk that needs 3 permits waits, {4 - kept} are at the sender, "
        f"the receiver keeps {kept} until it holds 3, and nothing can move."
    )
    assert run.conclusions[0].items == what_would_help(STUCK, is_live)


def test_a_run_that_is_not_stuck_is_not_called_stuck(shortest_stuck: Search) -> None:
    steps = shortest_stuck(STUCK)
    with pytest.raises(ValueError, match="the channel is not stuck"):
        stuck_run(STUCK, SYSTEM.initial(STUCK), steps[:-1])


def test_a_barrier_that_waits_for_ever_is_told() -> None:
    parameters = replace(STUCK, barrier_permits=1)
    state = SYSTEM.perform("OfferBarrier", SYSTEM.initial(parameters), parameters)
    spent = state._replace(permits=state.permits._replace(barriers=0))
    assert in_words(spent, parameters) == "a barrier waits, and nothing can ever bring a barrier permit"


def test_the_run_of_a_live_channel_is_a_behaviour() -> None:
    parameters = replace(STUCK, batch=2)
    run = live_run(parameters)
    state = run.start
    for step in run.steps:
        state = SYSTEM.perform(step.action, state, parameters, *step.arguments)
        assert state == step.state
    assert run.verdict is Verdict.LIVE
