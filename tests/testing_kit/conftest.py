"""One judge for each adapter: its verdicts serve the tests of the adapter and the table of the document."""

import asyncio
from collections.abc import Callable

import pytest

from permitflow.testing.kit.adapter import ChannelAdapter
from permitflow.testing.kit.judging import ChannelJudge

JudgeOf = Callable[[type[ChannelAdapter]], ChannelJudge]

# Enough to see that the runs are led; what they find is found by the other rules already.
RANDOM_RUNS = 15


@pytest.fixture(scope="session")
def judge_of(run: asyncio.Runner) -> JudgeOf:
    """The judge of an adapter."""
    judges: dict[type[ChannelAdapter], ChannelJudge] = {}

    def judge(adapter: type[ChannelAdapter]) -> ChannelJudge:
        if adapter not in judges:
            judges[adapter] = ChannelJudge(adapter, runner=run, random_runs=RANDOM_RUNS)
        return judges[adapter]

    return judge
