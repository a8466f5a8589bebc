"""The shortest deadlock of the permit channel, and its invariants: each can fail."""

import pytest

from permitflow_model.exploration import explore_model
from permitflow_model.kernel.queue import Fifo
from permitflow_model.permit_channel import SYSTEM, Message, Parameters, Permits, State
from tests.support.specification import MODELS


def test_all_invariants_are_checked_by_default() -> None:
    # Only for numbered chunks; most models have anonymous ones.
    assert {*MODELS["published"].invariants, "ExactlyOnceInOrder"} == set(SYSTEM.invariants)


def test_the_shortest_deadlock_reads_like_a_story() -> None:
    """One row stays with the receiver, which waits for a second one; the sender waits for all four."""
    counterexample = explore_model(MODELS["one-above-stuck"]).counterexample
    assert counterexample is not None
    assert [(step.action, *step.arguments) for step in counterexample.steps] == [
        ("OfferChunk", 1),
        ("SendChunk",),
        ("OfferChunk", 4),
        ("Deliver",),
        ("Consume",),
    ]
    stuck = counterexample.steps[-1].state
    assert (stuck.permits.rows, stuck.unreturned) == (3, 1)


# Each invariant can fail, and it alone notices.

NUMBERED = Parameters(
    row_permits=4, permit_batch=2, max_chunk_cost=2, sizes=(1, 2), barrier_permits=1, watermarks=True, tags=7
)
START = SYSTEM.initial(NUMBERED)


def chunk(number: int, rows: int) -> Message:
    return Message("chunk", number, rows, min(rows, 2))


BROKEN_STATES = {
    "a watermark stands behind a chunk that nobody offered": ("TypeOK", START._replace(watermark_pending=1)),
    "a permit is lost": ("Conservation", START._replace(permits=Permits(3, 1, 1))),
    "a permit is created": ("Conservation", START._replace(unreturned=1)),
    "a barrier permit turned into one for rows": ("Conservation", START._replace(permits=Permits(5, 0, 1))),
    "more rows than there are permits": (
        "Bounded",
        START._replace(consumed=0, offered=3, inbox=Fifo([chunk(0, 2), chunk(1, 2), chunk(2, 2)])),
    ),
    "messages that hold nothing": (
        "MessagesBounded",
        START._replace(grants=Fifo([Permits(0, 0, 0)] * 7)),
    ),
    "a chunk weighs more than it pays for": (
        "RowBound",
        START._replace(offered=1, wire=Fifo([Message("chunk", 0, 5, 2)]), permits=Permits(2, 1, 1)),
    ),
    "two chunks overtook each other": (
        "ExactlyOnceInOrder",
        START._replace(offered=2, inbox=Fifo([chunk(1, 1), chunk(0, 1)]), permits=Permits(2, 1, 1)),
    ),
    "a chunk is lost": (
        "ExactlyOnceInOrder",
        START._replace(offered=2, inbox=Fifo([chunk(0, 1)]), permits=Permits(3, 1, 1)),
    ),
    "a chunk is delivered twice": (
        "ExactlyOnceInOrder",
        START._replace(offered=1, inbox=Fifo([chunk(0, 1), chunk(0, 1)]), permits=Permits(2, 1, 1)),
    ),
    "a barrier has left its place": (
        "ExactlyOnceInOrder",
        START._replace(
            offered=1,
            inbox=Fifo([Message("barrier", 1, 0, 1), chunk(0, 1)]),
            permits=Permits(3, 0, 1),
        ),
    ),
    "two barriers overtook each other": (
        "ExactlyOnceInOrder",
        START._replace(offered=2, waiting=Fifo([Message("barrier", 1, 0, 1), Message("barrier", 0, 0, 1)])),
    ),
    "a pending watermark is dropped": ("NewestWatermarkKept", START._replace(newest_watermark="pending")),
    "an older watermark is taken for the newest": ("NewestWatermarkKept", START._replace(watermark_pending=0)),
    "a watermark that was sent is nowhere": ("NewestWatermarkKept", START._replace(newest_watermark="sent")),
    "a residue of a whole batch": ("GrantsBatched", START._replace(unreturned=2, permits=Permits(2, 1, 1))),
    "a grant below the batch": (
        "GrantsBatched",
        START._replace(grants=Fifo([Permits(1, 0, 0)]), permits=Permits(3, 1, 1)),
    ),
    "a chunk waits for what never comes": (
        "NeverStuck",
        START._replace(offered=1, waiting=Fifo([chunk(0, 2)]), unreturned=1, permits=Permits(1, 1, 1)),
    ),
}


@pytest.mark.parametrize(("invariant", "state"), BROKEN_STATES.values(), ids=BROKEN_STATES)
def test_an_invariant_notices(invariant: str, state: State) -> None:
    assert invariant in SYSTEM.broken_invariants(state, NUMBERED)
    assert SYSTEM.broken_invariants(START, NUMBERED) == []


def test_an_idle_channel_that_keeps_a_permit_is_not_whole() -> None:
    flushing = Parameters(row_permits=4, permit_batch=2, max_chunk_cost=4, sizes=(1,), flush_idle=True)
    lost_one = SYSTEM.initial(flushing)._replace(permits=Permits(3, 0, 1))
    assert "WholeWhenIdle" in SYSTEM.broken_invariants(lost_one, flushing)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sizes": (1, -2)}, r"a chunk size must not be negative, but sizes are \(1, -2\)"),
        ({"tags": 5}, r"tags must be 1 or above row_permits \+ barrier_permits \+ waiters = 5, not 5"),
    ],
)
def test_parameters_that_the_specification_refuses_are_refused(change: dict[str, int], message: str) -> None:
    numbers = {"row_permits": 4, "permit_batch": 2, "max_chunk_cost": 2, "sizes": (1,), **change}
    with pytest.raises(ValueError, match=message):
        Parameters(**numbers)  # type: ignore[arg-type]  # one of them is wrong on purpose
