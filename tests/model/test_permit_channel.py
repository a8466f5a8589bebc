"""The model says what the specification says, name by name, and its invariants can fail."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from permitflow_model.exploration import SYSTEMS, explore_model, is_explorable
from permitflow_model.kernel.queue import Fifo
from permitflow_model.manifest import Model, read_manifest
from permitflow_model.permit_channel import PROBES, SYSTEM, Message, Parameters, Permits, State
from permitflow_model.tla_values import camel_case

SPEC = Path(__file__).parents[2] / "spec"
MODELS = read_manifest(SPEC)


# Names.


@pytest.fixture(scope="module")
def specification() -> str:
    return (SPEC / "PermitChannel.tla").read_text()


def section(text: str, start: str, end: str) -> str:
    """What stands between two lines that begin so."""
    found = re.search(rf"^{start}(.*?)^{end}", text, re.MULTILINE | re.DOTALL)
    assert found is not None, f"nothing between {start!r} and {end!r}"
    return found[1]


def declared(block: str) -> list[str]:
    """The names that a block declares: one per line, with a comment each."""
    return re.findall(r"^ +(\w+),? +\\\*", block, re.MULTILINE)


def test_constants_have_the_same_names_in_the_same_order(specification: str) -> None:
    names = ["".join(part.capitalize() for part in field.name.split("_")) for field in fields(Parameters)]
    assert declared(section(specification, "CONSTANTS", "ASSUME")) == [*names, "Fair"]


def test_variables_have_the_same_names_in_the_same_order(specification: str) -> None:
    assert declared(section(specification, "VARIABLES", "vars ==")) == [camel_case(name) for name in State._fields]


def test_actions_have_the_same_names_in_the_same_order(specification: str) -> None:
    environment = re.findall(r"\b[A-Z]\w+", section(specification, "Environment ==", "Protocol =="))
    protocol = re.findall(r"\b[A-Z]\w+", section(specification, "Protocol ==", "Next =="))
    assert [name for name in environment if name != "Sizes"] == [
        action.name for action in SYSTEM.actions if action.is_environment
    ]
    assert protocol == [action.name for action in SYSTEM.actions if not action.is_environment]


def test_invariants_are_defined_in_the_specification_and_checked_by_default(specification: str) -> None:
    assert set(SYSTEM.invariants) <= set(re.findall(r"^(\w+) ==", specification, re.MULTILINE))
    # Only for numbered chunks; most models have anonymous ones.
    assert {*MODELS["published"].invariants, "ExactlyOnceInOrder"} == set(SYSTEM.invariants)


def test_probes_have_the_same_names_in_the_same_order() -> None:
    probes = re.findall(r"^(\w+Probe) ==", (SPEC / "PermitChannelProbes.tla").read_text(), re.MULTILINE)
    assert [name for name in PROBES.invariants if name not in SYSTEM.invariants] == probes


# Numbers.


@pytest.mark.parametrize(
    "model", [model for model in MODELS.values() if model.module in SYSTEMS], ids=lambda model: model.name
)
def test_the_explorer_finds_what_the_manifest_records(model: Model) -> None:
    found = explore_model(model)
    assert (found.states, found.depth) == (model.states, model.depth)
    if is_explorable(model):
        assert found.verdict == model.expect


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

NUMBERED = Parameters(row_count=4, batch=2, clamp=2, sizes=(1, 2), barrier_permits=1, watermarks=True, tags=7)
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
    flushing = Parameters(row_count=4, batch=2, clamp=4, sizes=(1,), flush_idle=True)
    lost_one = SYSTEM.initial(flushing)._replace(permits=Permits(3, 0, 1))
    assert "WholeWhenIdle" in SYSTEM.broken_invariants(lost_one, flushing)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"row_count": 0}, "row_count must be at least 1, not 0"),
        ({"batch": 0}, "batch must be at least 1, not 0"),
        ({"clamp": 0}, "clamp must be at least 1, not 0"),
        ({"waiters": 0}, "waiters must be at least 1, not 0"),
        ({"barrier_permits": -1}, "barrier_permits must not be negative, but is -1"),
        ({"sizes": (1, -2)}, r"a chunk size must not be negative, but sizes are \(1, -2\)"),
        ({"tags": 5}, r"tags must be 1 or above row_count \+ barrier_permits \+ waiters = 5, not 5"),
    ],
)
def test_parameters_that_the_specification_refuses_are_refused(change: dict[str, int], message: str) -> None:
    numbers = {"row_count": 4, "batch": 2, "clamp": 2, "sizes": (1,), **change}
    with pytest.raises(ValueError, match=message):
        Parameters(**numbers)  # type: ignore[arg-type]  # one of them is wrong on purpose
