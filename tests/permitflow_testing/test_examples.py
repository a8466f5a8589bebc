"""What the kit says of its examples: our own channels keep every rule, other people's break the ones that are listed.

The tables of docs/guides/conformance-kit.md say the same.
"""

import asyncio
from collections.abc import Callable

import pytest

from permitflow import ChannelParameters, Kind, RecorderFactory
from permitflow_testing import ChannelAdapter, ChannelKit, PairAdapter, PairKit, ReceivedMessage, judge_pair
from permitflow_testing.examples.our_channels import ExchangeChannel, LocalChannel, make_core_pair
from permitflow_testing.examples.queues import CountedQueue, QueueChannel, SemaphoreChannel
from permitflow_testing.judging import ChannelJudge
from permitflow_testing.outside import Seen
from permitflow_testing.rulebooks.table import rulebook_of
from permitflow_testing.rules import Outcome
from tests.support.memory_streams import CountedStream, StreamChannel
from tools import conformance_table

JudgeOf = Callable[[type[ChannelAdapter]], ChannelJudge]

# Enough to see that the runs are led; what they find is found by the other rules already.
RANDOM_RUNS = 15


@pytest.fixture(scope="module")
def judge_of(run: asyncio.Runner) -> JudgeOf:
    """One judge for each adapter: its verdicts serve all tests here."""
    judges: dict[type[ChannelAdapter], ChannelJudge] = {}

    def judge(adapter: type[ChannelAdapter]) -> ChannelJudge:
        if adapter not in judges:
            judges[adapter] = ChannelJudge(adapter, runner=run, random_runs=RANDOM_RUNS)
        return judges[adapter]

    return judge


class TestLocalChannel(ChannelKit):
    adapter: type[ChannelAdapter] = LocalChannel

    @pytest.fixture(autouse=True)
    def _judge(self, judge_of: JudgeOf) -> None:
        type(self).judge = judge_of(self.adapter)


class TestExchange(TestLocalChannel):
    adapter = ExchangeChannel


class TestCore(PairKit):
    random_runs = 15

    def make_pair(self, parameters: ChannelParameters, tags: int, record: RecorderFactory | None) -> PairAdapter:
        return make_core_pair(parameters, tags, record)


def test_nothing_is_left_unchecked_of_the_local_channel(judge_of: JudgeOf) -> None:
    report = judge_of(LocalChannel).report()
    assert report.held == tuple(rule.id for rule in rulebook_of("permits").rules)
    assert report["every-edge"].finding == "1,962 of 1,962 edges walked, in 412 states"


DEMAND = rulebook_of("demand")


def test_the_local_channel_and_the_core_keep_the_rules_of_demand(run: asyncio.Runner) -> None:
    report = ChannelJudge(LocalChannel, flow="demand", runner=run, random_runs=RANDOM_RUNS).report()
    assert report.held == tuple(rule.id for rule in DEMAND.rules)
    core = judge_pair(make_core_pair, flow="demand", name="core", random_runs=RANDOM_RUNS)
    assert core.held == tuple(rule.id for rule in DEMAND.pair_rules)


@pytest.mark.long
def test_an_exchange_keeps_the_rules_of_demand(run: asyncio.Runner) -> None:
    report = ChannelJudge(ExchangeChannel, flow="demand", runner=run, random_runs=RANDOM_RUNS).report()
    assert report.held == tuple(rule.id for rule in DEMAND.rules if rule.id != "observed-run")


def test_a_run_of_an_exchange_that_stops_midway_warns_of_nothing(
    run: asyncio.Runner, caplog: pytest.LogCaptureFixture
) -> None:
    assert ChannelJudge(ExchangeChannel, runner=run).report(only=["whole-window"]).conforms
    assert not caplog.records


def test_only_the_onlooker_of_a_chain_is_left_out(judge_of: JudgeOf) -> None:
    report = judge_of(ExchangeChannel).report()
    assert report.not_checked == ("observed-run",)
    assert report["observed-run"].outcome is Outcome.NOT_APPLICABLE
    assert "of 3 streams, at rest in the end" in report["recorded-run"].finding


WHOLE_RUNS = {"every-edge": "does something else than the model", "observed-run": "does what no behaviour explains"}

BROKEN = {
    QueueChannel: {
        "cost-is-rows": "counts chunks instead of rows",
        "returned-when-consumed": "returns permits when a message is handed over",
        "batched": "returns the permits of each chunk at once",
        **WHOLE_RUNS,
    },
    CountedQueue: {},
    StreamChannel: {
        "cost-is-rows": "counts chunks instead of rows",
        "batched": "returns the permits of each chunk at once",
        **WHOLE_RUNS,
        "cancelled-send": "has sent a chunk although its send was cancelled",
        "cancelled-receive": "loses a message",
        "end-comes-last": "ends before everything was received",
    },
    CountedStream: {
        "cancelled-send": "has sent a chunk although its send was cancelled",
        "cancelled-receive": "loses a message",
        "end-comes-last": "ends before everything was received",
    },
    SemaphoreChannel: {
        "empty-costs-one": "lets empty chunks pass for nothing",
        "returned-when-consumed": "returns permits when a message is handed over",
        "every-edge": "does something else than the model",
        "cancelled-send": "loses permits",
        "observed-run": "stands still after",
    },
}


@pytest.mark.parametrize("adapter", BROKEN, ids=lambda adapter: adapter.__name__)
def test_exactly_these_rules_are_broken(adapter: type[ChannelAdapter], judge_of: JudgeOf) -> None:
    report, expected = judge_of(adapter).report(), BROKEN[adapter]
    found = {rule: report[rule].finding for rule in report.broken}
    assert set(found) == set(expected)
    assert [finding for rule, finding in found.items() if not finding.startswith(expected[rule])] == []


def test_each_rule_names_the_feature_that_a_queue_lacks(judge_of: JudgeOf) -> None:
    report = judge_of(CountedQueue).report()
    assert "lacks batching; rules not checked: batched, batch-in-time, residue-returned" in "\n".join(report.lacking())
    assert (
        "lacks acknowledgement; not asked: whether it returns permits when a message is handed over" in report.lacking()
    )
    assert report["barriers-bounded"].finding == "lacks barriers"
    assert report["recorded-run"].finding == "it recorded nothing"
    assert report.conforms


def test_a_mistake_does_not_make_other_rules_look_broken(judge_of: JudgeOf) -> None:
    report = judge_of(QueueChannel).report()

    # Chunks overtake in its run because all chunks cost the same, not because the order is wrong.
    assert report["oldest-leaves-first"].finding == "what else is seen comes from mistakes against other rules"
    assert "oldest-leaves-first" in report.held


def test_a_counterexample_is_short_and_names_the_clause(judge_of: JudgeOf) -> None:
    verdict = judge_of(QueueChannel).report()["cost-is-rows"]
    assert verdict.rule.clause.startswith("PermitChannel.tla:")
    assert verdict.counterexample == (
        "1. OfferChunk(2): done, nobody waits",
        "2. OfferChunk(2): done, nobody waits",
        "   expected: done, chunk 1 waits",
    )


def test_a_run_that_is_not_explained_says_what_was_expected(judge_of: JudgeOf) -> None:
    head, *_, last, expected = judge_of(QueueChannel).report()["observed-run"].counterexample
    assert head.split() == ["event", "chunk", "rows"]
    assert last.split(maxsplit=2) == ["left", "2", "<- not explained"]
    assert expected == "expected: chunk 2 waits"


def test_a_view_is_told_in_whole_sentences() -> None:
    taken = ReceivedMessage(Kind.CHUNK, 0, 1)
    assert str(Seen(taken, ("chunk 2", "chunk 3"))) == "chunk 0 of 1 row is taken, chunk 2 and chunk 3 wait"


def test_anyios_stream_breaks_two_cancellation_rules(judge_of: JudgeOf) -> None:
    report = judge_of(CountedStream).report()
    for what, then in {
        "send": "a withdrawn chunk of 1 row is taken, nobody waits",
        "receive": "nothing is here, nobody waits",
    }.items():
        when, *run, _ = report[f"cancelled-{what}"].counterexample
        assert when == f"a {what} is cancelled at its await number 2, after it was woken, before it ran"
        assert run[-1].endswith(then)


def test_cancellations_meet_each_state(judge_of: JudgeOf) -> None:
    local, exchange = (judge_of(adapter).report() for adapter in (LocalChannel, ExchangeChannel))
    for report in local, exchange:
        assert report["cancelled-send"].finding == "10 cancellations at each of 1 await: 6 asleep, 4 woken"
        assert report["cancelled-barrier"].finding == "4 cancellations at each of 1 await: 2 asleep, 2 woken"
        assert report["cancelled-receive"].finding == "4 cancellations at each of 1 await: 2 asleep, 2 woken"
    assert local["cancelled-end"].finding == "an end never waits: there is nothing to cancel"
    assert exchange["cancelled-end"].finding == "4 cancellations at each of 3 awaits: 1 asleep, 3 woken"


def test_the_tables_of_the_document_are_up_to_date(judge_of: JudgeOf) -> None:
    reports = {conformance_table.CORE: judge_pair(make_core_pair, name=conformance_table.CORE, random_runs=5)}
    reports |= {name: judge_of(adapter).report(name) for name, adapter in conformance_table.ADAPTERS.items()}
    document = conformance_table.DOCUMENT.read_text(encoding="utf-8")
    assert conformance_table.with_tables(document, reports) == document, "run `make docs`"
    assert document.count("**breaks**") >= 20
