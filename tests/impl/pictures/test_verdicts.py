"""What is said about a run is true: the model is asked again."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from permitflow.pictures.run import Verdict, in_words, live_run, stuck_run
from permitflow_model.kernel.system import Step
from permitflow_model.permit_channel import SYSTEM, Parameters, State

STUCK = Parameters(row_count=4, batch=3, clamp=3, sizes=(1, 2, 3))
Search = Callable[[Parameters], list[Step[State]]]


def test_the_sentence_of_a_stuck_run_tells_its_last_state(shortest_stuck: Search) -> None:
    run = stuck_run(STUCK, SYSTEM.initial(STUCK), shortest_stuck(STUCK), advice=["a batch of 2"])
    kept = run.end.unreturned
    assert run.verdict is Verdict.STUCK
    assert run.sentence == (
        f"After {len(run.steps)} steps a chunk that needs 3 permits waits, {4 - kept} are at the sender, "
        f"the receiver keeps {kept} until it holds 3, and nothing can move."
    )
    assert run.conclusions[0].items == ("a batch of 2",)
    assert stuck_run(STUCK, run.start, run.steps).conclusions == ()


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


def test_a_window_of_too_many_chunks_is_refused() -> None:
    with pytest.raises(ValueError, match="takes 100,000 chunks to fill, if they cost at most 1; a run to look at has"):
        live_run(replace(STUCK, row_count=100_000, clamp=1))
