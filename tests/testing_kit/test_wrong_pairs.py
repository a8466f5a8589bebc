"""Pairs of ends that are wrong, and sabotaged streams, break the right rule."""

import subprocess
import sys

import pytest

from permitflow.testing import judge_pair
from permitflow.testing.core_pair import CorePair
from permitflow.testing.kit.judging import pair_rules
from permitflow.testing.kit.report import Report


class GrantsOnArrival(CorePair):
    """Returns permits when a message arrives, and again when it is consumed."""

    def deliver(self) -> None:
        super().deliver()
        self.grants.append(self.receiver.inbox[-1].held())


class StackedWire(CorePair):
    """Delivers the newest message first."""

    def deliver(self) -> None:
        self.wire.reverse()
        super().deliver()
        self.wire.reverse()


class LosesMessages(CorePair):
    """Loses every message, but not its permits."""

    def deliver(self) -> None:
        if self.wire:
            self.grants.append(self.wire.popleft().held())
        else:
            super().deliver()


class NeverFlushes(CorePair):
    """Keeps the residue."""

    def flush(self) -> None:
        self.receiver.flush()


def judged(wrong: type[CorePair], only: str) -> Report:
    return judge_pair(lambda agreed, tags, record: wrong(agreed, tags=tags, record=record), name="wrong", only=[only])


@pytest.mark.parametrize(
    ("wrong", "rule", "finding"),
    [
        (GrantsOnArrival, "returned-when-consumed", "returns permits when a message arrives"),
        (LosesMessages, "exactly-once", "does something else than the model"),
        (StackedWire, "oldest-arrives-first", "does something else than the model"),
        (NeverFlushes, "residue-returned", "does something else than the model"),
        (NeverFlushes, "every-edge", "does something else than the model"),
    ],
)
def test_a_wrong_pair_breaks_the_rule(wrong: type[CorePair], rule: str, finding: str) -> None:
    report = judged(wrong, rule)

    assert report.broken == (rule,)
    assert report[rule].finding.startswith(finding)
    assert report[rule].counterexample


def test_a_rule_that_cannot_be_told_behind_another_mistake_is_not_called_broken() -> None:
    report = judged(GrantsOnArrival, "none-lost")

    assert report.broken == ()
    assert report["none-lost"].finding == (
        "cannot be told: before it comes to that, it returns permits when a message arrives"
    )


def test_a_right_pair_keeps_all_rules_that_do_not_need_long_runs() -> None:
    only = [rule.id for rule in pair_rules() if rule.mistakes]

    report = judge_pair(lambda agreed, tags, record: CorePair(agreed, tags=tags, record=record), name="core", only=only)

    assert report.held == tuple(only)


SABOTAGED = """
import sys
from unittest.mock import ANY
from permitflow.testing import judge_adapter, sabotage
from permitflow.testing.kit.examples.our_channels import ExchangeChannel
sabotage.RETURN = ANY  # every return of permits, not only one
sabotage.SABOTAGES[sys.argv[1]]()
ExchangeChannel.timeout_seconds = 0.3
report = judge_adapter(ExchangeChannel, only=[sys.argv[2]])
print(report)
sys.exit(report.broken != (sys.argv[2],))
"""


@pytest.mark.parametrize(
    ("sabotage", "rule"),
    [
        ("lost", "none-lost"),
        ("twice", "none-created"),
        ("on-receipt", "returned-when-consumed"),
        ("on-receipt", "recorded-run"),
    ],
)
def test_a_sabotaged_stream_breaks_the_right_rule(sabotage: str, rule: str) -> None:
    # Sabotage lasts as long as its process.
    command = [sys.executable, "-c", SABOTAGED, sabotage, rule]

    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"breaks rule '{rule}'" in done.stdout
