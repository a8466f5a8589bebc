"""What is measured is checked, and judged as it is."""

from dataclasses import replace

import pyarrow as pa
import pytest

from benchmarks.curves import Stalled
from benchmarks.idle_channels import IdleChannels
from benchmarks.jobs import PAYLOADS, Job, Tally
from benchmarks.results import Record, Results, Series
from benchmarks.stages import CHUNK, FILTER, StageCost, further
from benchmarks.tables import TABLES
from benchmarks.targets import judge
from benchmarks.throughput import Cell

JOB = Job(payload="64", chunks=40, row_permits=32_768, permit_batch=4_096)
PEER, OURS = "Flight DoExchange, permits by hand", "permitflow, gRPC"


def taken(job: Job, chunks: list[pa.RecordBatch]) -> Tally:
    tally = Tally(job)
    for chunk in chunks:
        tally.take(chunk)
    return tally


@pytest.mark.parametrize("payload", ["1", "64", "wide"])
def test_a_tally_accepts_what_was_sent(payload: str) -> None:
    job = replace(JOB, payload=payload)
    outcome = taken(job, list(job.feed())).outcome()
    assert outcome.chunks == job.chunks - job.chunks // 10
    assert outcome.seconds > 0


def test_a_tally_notices_a_lost_chunk() -> None:
    with pytest.raises(AssertionError, match="39 of 40 chunks"):
        taken(JOB, list(JOB.feed())[1:]).outcome()


def test_a_tally_notices_other_content() -> None:
    chunks = list(JOB.feed())
    with pytest.raises(AssertionError, match="differs from the sent one"):
        taken(JOB, [*chunks[:-1], *PAYLOADS["64"].stamped(chunks[-1:], lambda: 1)]).outcome()


def cell(way: str, rates: list[float], *, is_tuned: bool = True) -> Cell:
    rate = Series.of(rates)
    return Cell(way, "1,024", is_tuned, 32_768, 4_096, 100, rate, rate, rate)


def results(**parts: list[Record]) -> Results:
    found = Results(machine={"cores": "2"}, settings={"rounds": 3, "seed": 1})
    for part, records in parts.items():
        found.put(part, records)
    return found


@pytest.mark.parametrize(("ours", "told"), [([12.0, 13.0, 11.0], "met"), ([11.9, 13.0, 11.0], "not met")])
def test_a_promise_is_judged_by_the_median_of_the_ratios(ours: list[float], told: str) -> None:
    (verdict,) = judge(results(throughput=[cell(PEER, [10.0, 10.0, 10.0]), cell(OURS, ours)]))
    assert (verdict.target, verdict.told) == (1.2, told)


def test_ways_are_compared_with_their_best_numbers() -> None:
    cells: list[Record] = [cell(PEER, [10.0]), cell(OURS, [12.0]), cell(OURS, [5.0], is_tuned=False)]
    for order in (cells, cells[::-1]):
        (verdict,) = judge(results(throughput=order))
        assert verdict.found == Series.of([1.2])
    assert "| permitflow, gRPC, defaults | 5 (5 to 5) |" in TABLES["throughput"](results(throughput=cells))


def test_memory_of_a_stopped_consumer_is_judged_by_its_growth_with_the_window() -> None:
    grown: list[Record] = [Stalled(OURS, rows, Series.of([200e6 + 1.2 * 500 * rows, 9e9])) for rows in (524_288, 8_192)]
    (verdict,) = judge(results(stalled=grown))
    assert (round(verdict.found.median, 6), verdict.told) == (1.2, "met")


def test_idle_channels_are_judged_without_what_they_share() -> None:
    # Two thousand more cost a million bytes each, and a tenth of a processor together.
    one, many = IdleChannels("gRPC", 1, 9e9, 0.5), IdleChannels("gRPC", 2_001, 11e9 / 2_001, 0.6 / 2_001)
    memory, processors = judge(results(channels=[many, one]))
    assert (round(memory.found.median, 3), memory.told) == (round(1e9 / 2**30, 3), "met")
    assert (round(processors.found.median, 3), processors.told) == (0.05, "met")


def cost(steps: int, by_hand: list[float], by_stages: list[float], *, element: str = CHUNK) -> StageCost:
    return StageCost(element, FILTER, steps, Series.of(by_hand), Series.of(by_stages))


@pytest.mark.parametrize(("by_stages", "told"), [([12.0, 20.0, 11.0], "met"), ([12.1, 20.0, 11.0], "not met")])
def test_a_stage_is_judged_on_chunks_whose_rows_are_worked_on(by_stages: list[float], told: str) -> None:
    costs: list[Record] = [cost(1, [10.0] * 3, by_stages), cost(1, [1.0] * 3, [9.0] * 3, element="single element")]
    (verdict,) = judge(results(stages=costs))
    assert (verdict.target, verdict.told) == (1.2, told)


def test_a_further_step_costs_what_four_cost_more_than_one() -> None:
    costs = [cost(1, [10.0, 20.0], [14.0, 28.0]), cost(4, [40.0, 80.0], [50.0, 100.0])]
    assert further(costs, costs[0]) is None
    assert further(costs, costs[1]) == Series.of([36 / 30, 72 / 60])
