"""The kit finds every fault that is planted in this project's channel, and names the rule.

Mistakes that a model can make are in test_mistakes.py.
"""

import asyncio

import pytest

from permitflow_testing import judge_adapter
from permitflow_testing.rulebooks.table import rulebook_of
from tests.support.planted_faults import FAULTS, Fault, GateChannel

# These rules ask everything at once, and name nothing; without them a fault is found in a fraction of the time.
NAMELESS = {"every-edge", "random-runs", "observed-run", "recorded-run"}
RULES = [rule.id for rule in rulebook_of("permits").rules if rule.id not in NAMELESS]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_breaks_its_rule(run: asyncio.Runner, fault: Fault) -> None:
    report = judge_adapter(fault.adapter, only=RULES, runner=run)
    assert fault.rule in report.broken
    assert report[fault.rule].finding == fault.finding


def test_a_gate_with_one_input_keeps_the_rules(run: asyncio.Runner) -> None:
    report = judge_adapter(GateChannel, runner=run, random_runs=10)
    assert report.broken == ()
    assert "a second receive at the same time is refused: another task" in report["cancelled-receive"].finding
