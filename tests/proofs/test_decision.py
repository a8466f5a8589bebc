"""The decision for given numbers: what the explorer finds, a shortest run, and at any size at once."""

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest

from permitflow_model.permit_channel import SYSTEM, Parameters, is_stuck
from permitflow_proofs import Decision, catalogue, decide
from permitflow_proofs.kernel.obligation import shortest_run


def steps_to_deadlock(parameters: Parameters) -> int | None:
    """By exhaustive search: the fewest steps to a stuck state; None if there is none."""
    run = shortest_run(SYSTEM, parameters, is_stuck)
    return None if run is None else len(run.steps)


def decided_steps(decision: Decision) -> int | None:
    """Takes the steps of the run again, with the model, and counts them."""
    assert decision.is_live is (decision.run is None)
    if decision.run is None:
        return None
    run, state = decision.run, decision.run.start
    assert state == SYSTEM.initial(run.parameters)
    for step in run.steps:
        assert not is_stuck(state, run.parameters)
        state = SYSTEM.perform(step.action, state, run.parameters, *step.arguments)
        assert state == step.state
    assert is_stuck(state, run.parameters)
    return len(run.steps)


def costs_at_the_threshold(row_permits: int) -> Iterator[tuple[int, int, bool]]:
    """The smallest cost, the largest that is live, and the one above it."""
    for permit_batch in range(1, row_permits + 2):
        for flush_idle in (False, True):
            safe = row_permits if flush_idle else max(0, row_permits - permit_batch + 1)
            for max_chunk_cost in sorted({1, max(1, safe), safe + 1}):
                yield permit_batch, max_chunk_cost, flush_idle


@pytest.mark.parametrize("row_permits", [1, 2, pytest.param(3, marks=pytest.mark.long)])
def test_proofs_and_explorer_agree_on_both_sides_of_the_threshold(row_permits: int) -> None:
    for permit_batch, max_chunk_cost, flush_idle in costs_at_the_threshold(row_permits):
        parameters = Parameters(
            row_permits=row_permits,
            permit_batch=permit_batch,
            max_chunk_cost=max_chunk_cost,
            sizes=tuple(range(max_chunk_cost + 1)),
            flush_idle=flush_idle,
            # Barriers come and go meanwhile, and change nothing.
            barrier_permits=1,
        )
        decision = decide(row_permits, permit_batch, max_chunk_cost, flush_idle=flush_idle)
        assert decided_steps(decision) == steps_to_deadlock(parameters), parameters
        assert decision.is_live is (max_chunk_cost <= decision.safe_max_chunk_cost)


def some_sizes() -> Iterator[tuple[int, int, tuple[int, ...]]]:
    for row_permits in (2, 3):
        for permit_batch in range(2, row_permits + 1):
            for count in (1, 2):
                for sizes in combinations(range(row_permits + 2), count):
                    # Size 0 costs what size 1 does: only the small channel tries it.
                    if min(sizes) > 0 or row_permits == 2:
                        yield row_permits, permit_batch, sizes


def test_it_finds_what_the_explorer_finds_for_sets_of_sizes() -> None:
    verdicts = set()
    for row_permits, permit_batch, sizes in some_sizes():
        parameters = Parameters(
            row_permits=row_permits, permit_batch=permit_batch, max_chunk_cost=max(1, *sizes), sizes=sizes
        )
        decision = decide(row_permits, permit_batch, sizes=sizes)
        assert decided_steps(decision) == steps_to_deadlock(parameters), (row_permits, permit_batch, sizes)
        verdicts.add((decision.is_live, max(sizes) > row_permits - permit_batch + 1))
    # Some sets are live although their largest is beyond the threshold; none is stuck that is not.
    assert verdicts == {(True, False), (True, True), (False, True)}


def test_it_finds_what_the_explorer_finds_for_batches_that_differ() -> None:
    for row_permits in (2, 3):
        for permit_batch_up in range(row_permits):
            for permit_batch in range(1, row_permits + 1):
                max_chunk_cost = row_permits - permit_batch_up
                parameters = Parameters(
                    row_permits=row_permits,
                    permit_batch=permit_batch,
                    max_chunk_cost=max_chunk_cost,
                    sizes=tuple(range(1, row_permits + 1)),
                )
                decision = decide(row_permits, permit_batch, permit_batch_up=permit_batch_up)
                assert decided_steps(decision) == steps_to_deadlock(parameters)
                assert decision.is_live is (permit_batch <= permit_batch_up + 1)


@pytest.mark.parametrize(
    ("row_permits", "permit_batch", "max_chunk_cost", "is_live"),
    [
        (2048, 256, 1792, True),
        (2048, 256, 1793, True),
        (2048, 256, 1794, False),
        (2048, 256, 2048, False),
        (32768, 4096, 28672, True),
        (32768, 4096, 28673, True),
        (32768, 4096, 28674, False),
    ],
)
def test_real_numbers_are_decided_on_both_sides_of_the_threshold(
    row_permits: int, permit_batch: int, max_chunk_cost: int, is_live: bool
) -> None:
    decision = decide(row_permits, permit_batch, max_chunk_cost)
    assert decision.is_live is is_live
    assert (decided_steps(decision) is None) is is_live


def test_a_chunk_of_the_whole_window_is_stuck_behind_a_single_row() -> None:
    run = decide(2048, 256, 2048).run
    assert run is not None
    assert [(step.action, *step.arguments) for step in run.steps] == [
        ("OfferChunk", 1),
        ("SendChunk",),
        ("Deliver",),
        ("Consume",),
        ("OfferChunk", 2048),
    ]


def test_the_theorems_behind_a_verdict_are_in_the_catalogue() -> None:
    known = {theorem.id for theorem in catalogue()}
    for decision in (
        decide(8, 3, 4),
        decide(8, 3, 7),
        decide(8, 3, sizes=(2, 8)),
        decide(8, 3, flush_idle=True),
        decide(8, 3, permit_batch_up=5),
    ):
        assert decision.theorems
        assert set(decision.theorems) <= known


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"row_permits": 0, "permit_batch": 1}, "row_permits must be at least 1, not 0"),
        ({"row_permits": 8, "permit_batch": 0}, "permit_batch must be at least 1, not 0"),
        (
            {"row_permits": 8, "permit_batch": 1, "permit_batch_up": -1},
            "permit_batch_up must not be negative, but is -1",
        ),
        (
            {"row_permits": 8, "permit_batch": 8},
            "must be at least 1, not 0: row_permits 8 less permit_batch 8 leaves no room",
        ),
        (
            {"row_permits": 8, "permit_batch": 1, "permit_batch_up": 9},
            "must be at least 1, not -1: row_permits 8 less permit_batch 9",
        ),
        (
            {"row_permits": 8, "permit_batch": 1, "max_chunk_cost": 0},
            "the most a chunk costs must be at least 1, not 0",
        ),
        ({"row_permits": 8, "permit_batch": 1, "sizes": ()}, r"sizes must be one or more numbers .*, not \[\]"),
        ({"row_permits": 8, "permit_batch": 1, "sizes": (1, -2)}, r"not negative, not \[1, -2\]"),
    ],
    ids=[
        "row_permits",
        "permit_batch",
        "permit_batch_up",
        "no room",
        "no room up",
        "max_chunk_cost",
        "no sizes",
        "negative size",
    ],
)
def test_unusable_numbers_are_refused_by_name(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decide(**arguments)
