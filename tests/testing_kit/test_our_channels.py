"""Our own channels and our core, in the hands of the kit that is for everybody: every rule is a test."""

from collections.abc import Callable

import pytest

from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.recording import RecorderFactory
from permitflow.testing import ChannelAdapter, ChannelKit, PairAdapter, PairKit
from permitflow.testing.kit.examples.our_channels import ExchangeChannel, LocalChannel, make_core_pair
from permitflow.testing.kit.judging import ChannelJudge
from permitflow.testing.kit.report import Outcome
from permitflow.testing.kit.rules import all_rules

JudgeOf = Callable[[type[ChannelAdapter]], ChannelJudge]


class TestLocalChannel(ChannelKit):
    adapter = LocalChannel

    @pytest.fixture(autouse=True)
    def _judge(self, judge_of: JudgeOf) -> None:
        type(self).judge = judge_of(LocalChannel)


class TestExchange(ChannelKit):
    adapter = ExchangeChannel

    @pytest.fixture(autouse=True)
    def _judge(self, judge_of: JudgeOf) -> None:
        type(self).judge = judge_of(ExchangeChannel)


class TestCore(PairKit):
    random_runs = 15

    def make_pair(self, parameters: ChannelParameters, tags: int, record: RecorderFactory | None) -> PairAdapter:
        return make_core_pair(parameters, tags, record)


def test_nothing_is_left_unchecked_of_the_local_channel(judge_of: JudgeOf) -> None:
    report = judge_of(LocalChannel).report()

    assert report.held == tuple(rule.id for rule in all_rules())
    assert report["every-edge"].finding == "1,867 of 1,867 edges walked, in 381 states"


def test_of_a_chain_only_the_onlooker_is_left_out(judge_of: JudgeOf) -> None:
    report = judge_of(ExchangeChannel).report()

    assert report.not_checked == ("observed-run",)
    assert report["observed-run"].outcome is Outcome.NOT_APPLICABLE
    assert "of 3 streams, at rest in the end" in report["recorded-run"].finding
