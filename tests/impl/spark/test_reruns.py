"""Spark runs tasks and stages again, and each row comes once, or the job fails."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tests.impl.spark.conftest import Driver
from tests.reruns import running
from tests.reruns.running import Result
from tests.reruns.trials import ORDER, Harm, Job, Trial, draw
from tests.support.served_exchange import ServedExchange

SEED = 5


@pytest.fixture(scope="module", params=Harm)
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Harm, Callable[[Trial], Result]]]:
    """Where trials with one kind of harm run."""
    with running.place(request.param, tmp_path_factory.mktemp("reruns")) as run_one:
        yield request.param, run_one


def trial_of(harm: Harm, job: Job) -> Trial:
    return draw(SEED, len(Job) * ORDER.index(harm) + [*Job].index(job))


@pytest.mark.long
@pytest.mark.parametrize("job", Job)
def test_each_row_comes_once_or_the_job_fails(place: tuple[Harm, Callable[[Trial], Result]], job: Job) -> None:
    harm, run_one = place
    result = run_one(trial_of(harm, job))
    assert result.broken == [], str(result)
    assert result.has_come, str(result)
    if job is Job.STAGED:
        assert result.found.failure == "", "staged writing survives"


def test_a_direct_job_fails_whose_stage_is_run_again(
    driver: Driver, exchange: ServedExchange, kept: ServedExchange
) -> None:
    # The files go at the first row of the first task, and more tasks need them than there are slots.
    trial = replace(trial_of(Harm.FILES, Job.DIRECT), at_partition=0, at_row=1, after=8)
    result = running.run(trial, driver, exchange, kept, driver.folder)
    assert (result.broken, result.has_come) == ([], True), str(result)
