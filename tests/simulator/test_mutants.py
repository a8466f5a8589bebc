"""The simulator finds mistakes in production code."""

import pytest

from tests.simulator.mutants import hunt, made, mutants

MUTANTS = {mutant.name: mutant for mutant in mutants()}
# Of each subject, some that few schedules find.
QUICK = (
    "the journal is not flushed",
    "the journal has one slot",
    "journal before the commit",
    "lost wake-up of readers",
    "position of a producer off by one",
    "a muter that is gone is not passed on",
    "lines are acknowledged when they have come",
)


@pytest.mark.parametrize("name", MUTANTS)
def test_mistakes_fit_the_code(name: str) -> None:
    with made(MUTANTS[name]):
        pass


@pytest.mark.parametrize("name", QUICK)
def test_mistakes_are_found_soon(name: str) -> None:
    assert hunt(MUTANTS[name], 30).broken


@pytest.mark.long
@pytest.mark.parametrize("name", MUTANTS)
def test_mistakes_are_found(name: str) -> None:
    assert hunt(MUTANTS[name]).broken
