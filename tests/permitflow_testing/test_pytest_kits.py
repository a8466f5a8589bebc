"""What pytest makes of a test class of the kit."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from typing import ClassVar

import pytest

from permitflow import ChannelParameters, RecorderFactory
from permitflow.errors import InvalidParametersError
from permitflow_testing import ChannelAdapter, ChannelKit, PairKit, RuleBroken, judge_adapter
from permitflow_testing.examples.queues import QueueChannel
from permitflow_testing.judging import ChannelJudge
from permitflow_testing.rulebooks.table import rulebook_of
from permitflow_testing.rules import selected

RULES = rulebook_of("permits").rules


class Kit(ChannelKit):
    """Not collected: its name does not begin with Test."""

    adapter = QueueChannel
    known_breaks: ClassVar[Mapping[str, str]] = {"batched": "it has no batches", "window": "a mistake in this list"}


@pytest.fixture
def kit(run: asyncio.Runner) -> Kit:
    Kit.judge = ChannelJudge(QueueChannel, runner=run)
    return Kit()


def check(kit: ChannelKit, rule: str) -> None:
    kit.check(*selected(RULES, [rule]))


@pytest.mark.parametrize("base", [ChannelKit, PairKit])
@pytest.mark.parametrize("flow", ["demand", "permits"])
def test_there_is_a_test_for_every_rule_and_its_docstring_says_it(base: type[ChannelKit | PairKit], flow: str) -> None:
    class OfPermits(base):  # type: ignore[valid-type,misc]
        pass

    of_flow = type("OfFlow", (OfPermits,), {"flow": flow})

    book = rulebook_of(flow)
    tests = {
        f"test_{rule.id.replace('-', '_')}": f"{rule.statement} ({rule.clause})"
        for rule in (book.rules if base is ChannelKit else book.pair_rules)
    }
    found = {name: getattr(of_flow, name) for name in dir(of_flow) if name.startswith("test_")}
    assert {name: test.__doc__ for name, test in found.items() if test is not None} == tests


def test_a_broken_rule_fails_with_the_rule_the_clause_and_the_run(kit: Kit) -> None:
    with pytest.raises(RuleBroken) as caught:
        check(kit, "cost-is-rows")
    lines = str(caught.value).splitlines()
    assert lines[0] == "breaks rule 'cost-is-rows': A chunk costs as many permits as it has rows."
    assert lines[1].startswith("(PermitChannel.tla:")
    assert lines[2] == "It counts chunks instead of rows."
    assert lines[-1] == "   expected: done, chunk 1 waits"


def test_what_is_known_and_what_is_lacking_is_told_apart(kit: Kit) -> None:
    check(kit, "none-lost")
    with pytest.raises(pytest.skip.Exception, match="not applicable: lacks barriers"):
        check(kit, "barriers-bounded")
    with pytest.raises(pytest.xfail.Exception, match=r"it has no batches \(it returns the permits of each chunk"):
        check(kit, "batched")
    with pytest.raises(RuleBroken, match="'window' is listed in known_breaks"):
        check(kit, "window")


def test_without_a_judge_or_a_loop_the_kit_makes_its_own() -> None:
    class Alone(ChannelKit):
        adapter = QueueChannel

    check_alone = Alone().check
    check_alone(*selected(RULES, ["whole-window"]))
    runner = Alone.runner
    assert runner is not None
    Alone.teardown_class()
    with pytest.raises(RuntimeError, match="closed"):
        runner.get_loop()


@pytest.mark.parametrize("module", ["permitflow_testing", "permitflow_testing.judging", "permitflow_testing.traces"])
def test_the_kit_needs_neither_hypothesis_nor_pytest_for_runs(module: str) -> None:
    code = f"import sys, {module}; sys.exit(bool({{'hypothesis', 'pytest', 'anyio', 'grpc'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=250).returncode == 0


@pytest.mark.parametrize("breaks", [{"cost-is-row": "it counts messages"}, ["cost-is-rows"]], ids=["typo", "list"])
def test_breaks_that_name_no_rule_are_refused(breaks: object) -> None:
    with pytest.raises(InvalidParametersError, match=r"known_breaks must have reasons by the names of rules, as in"):
        type("Kit", (ChannelKit,), {"adapter": QueueChannel, "known_breaks": breaks})


class Raising(QueueChannel):
    def consume(self) -> None:
        raise ZeroDivisionError("of all things")


def test_a_channel_that_raises_is_named_with_what_it_raised() -> None:
    verdict = judge_adapter(Raising, only=["none-lost"])["none-lost"]

    assert verdict.finding == "raises ZeroDivisionError: of all things"
    assert "4. Receive(): ZeroDivisionError was raised: of all things" in verdict.counterexample
    assert verdict.counterexample[-2].strip() == 'raise ZeroDivisionError("of all things")'


def test_an_exception_of_the_adapter_is_told_once() -> None:
    report = judge_adapter(Raising, only=["none-lost", "none-created", "exactly-once", "random-runs", "observed-run"])

    assert report.broken == ("none-lost",)
    again = "cannot be told: raises ZeroDivisionError: of all things, as under 'none-lost'"
    assert {report[rule].finding for rule in ("none-created", "exactly-once", "observed-run")} == {again}


class Unreachable(QueueChannel):
    async def open(self, parameters: ChannelParameters, record: RecorderFactory) -> None:
        raise OSError("no such host")


def test_an_adapter_that_cannot_be_opened_is_one_sentence() -> None:
    report = judge_adapter(Unreachable)

    assert not report.conforms
    said = r"Unreachable cannot be opened: it raises OSError: no such host \(.*\.py:\d+, in open\); no rule was checked"
    assert re.fullmatch(said, str(report).strip())
    assert json.loads(json.dumps(report.as_json()))["unusable"].startswith("cannot be opened")


def test_an_adapter_that_cannot_be_opened_fails_one_test() -> None:
    class Closed(ChannelKit):
        adapter = Unreachable

    with pytest.raises(RuleBroken, match="It cannot be opened: it raises OSError: no such host"):
        check(Closed(), "window")
    with pytest.raises(pytest.skip.Exception, match="not run, because the adapter cannot be opened"):
        check(Closed(), "none-lost")
    Closed.teardown_class()


def test_a_fault_beside_the_rules_fails_one_test() -> None:
    class Leaking(QueueChannel):
        async def close(self) -> None:
            raise OSError("still in use")

    class OfLeaking(ChannelKit):
        adapter = Leaking

    with pytest.raises(RuleBroken, match="your close raises OSError: still in use"):
        check(OfLeaking(), "window")
    check(OfLeaking(), "none-lost")
    OfLeaking.teardown_class()


def test_an_adapter_without_the_methods_that_are_needed_is_refused() -> None:
    with pytest.raises(InvalidParametersError, match="must have a method open"):
        judge_adapter(ChannelAdapter)


def test_a_rule_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InvalidParametersError, match="must be a rule: window, whole-window"):
        judge_adapter(QueueChannel, only=["bogus"])
