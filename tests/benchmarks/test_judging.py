"""What is measured is checked, and judged as it is."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from benchmarks.jobs import PAYLOADS, Job, Tally
from benchmarks.results import Results, Row, Series
from benchmarks.stages import CHUNK, FILTER, SINGLE, rows_of
from benchmarks.tables import TABLES
from benchmarks.targets import judge

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


def cell(way: str, rates: list[float], *, is_tuned: bool = True) -> Row:
    return {"_way": way, "_payload": "1,024", "_is_tuned": is_tuned, "chunks/s": Series.of(rates)}


def results(**parts: list[Row]) -> Results:
    found = Results(machine={"cores": "2"}, settings={"rounds": 3})
    for part, rows in parts.items():
        found.put(part, rows)
    return found


@pytest.mark.parametrize(("ours", "told"), [([12.0, 13.0, 11.0], "met"), ([11.9, 13.0, 11.0], "not met")])
def test_a_promise_is_judged_by_the_median_of_the_ratios(ours: list[float], told: str) -> None:
    (verdict,) = judge(results(throughput=[cell(PEER, [10.0, 10.0, 10.0]), cell(OURS, ours)]))
    assert (verdict.target, verdict.told) == (1.2, told)


def test_ways_are_compared_with_their_best_numbers() -> None:
    cells = [cell(PEER, [10.0]), cell(OURS, [12.0]), cell(OURS, [5.0], is_tuned=False)]
    for order in (cells, cells[::-1]):
        (verdict,) = judge(results(throughput=order))
        assert verdict.found == Series.of([1.2])
    assert "| permitflow, gRPC, defaults | 5 (5 to 5) |" in TABLES["throughput"](results(throughput=cells))


def test_memory_of_a_stopped_consumer_is_judged_by_window_growth() -> None:
    grown = [
        {
            "rows of 500 bytes": OURS,
            "row_permits": mebibytes,
            "_window_mebibytes": mebibytes,
            "MiB of both processes": Series.of([200 + 1.2 * mebibytes, 9e9]),
        }
        for mebibytes in (256, 4)
    ]
    (verdict,) = judge(results(stalled=grown))
    assert (round(verdict.found.median, 6), verdict.told) == (1.2, "met")


def test_idle_channels_are_judged_without_what_they_share() -> None:
    # Two thousand more cost a MiB each, and a tenth of a processor together.
    def idle(number: int, mebibytes: float, cores: float) -> Row:
        each = {"KiB each": Series.of([1024 * mebibytes / number]), "of a core, each": Series.of([cores / number])}
        return {"idle channels": "gRPC", "number": number, **each}

    memory, processors = judge(results(channels=[idle(2_001, 11_000, 0.6), idle(1, 9_000, 0.5)]))
    assert (round(memory.found.median, 3), memory.told) == (round(1_000 / 1024, 3), "met")
    assert (round(processors.found.median, 3), processors.told) == (0.05, "met")


@pytest.mark.parametrize(("ratio", "told"), [(0.5, "met"), (0.49, "not met")])
def test_a_lossy_stream_keeps_half_of_its_rate(ratio: float, told: str) -> None:
    (verdict,) = judge(results(lossy=[{"chunks per second": "64 rows", "ratio": Series.of([ratio, 0.1, 9.0])}]))
    assert verdict.told == told


@pytest.mark.parametrize(("by_stages", "told"), [([12.0, 20.0, 11.0], "met"), ([12.1, 20.0, 11.0], "not met")])
def test_a_stage_is_judged_on_chunks_whose_rows_are_worked_on(by_stages: list[float], told: str) -> None:
    found = {(CHUNK, FILTER, 1, False): [10.0] * 3, (CHUNK, FILTER, 1, True): by_stages}
    found |= {(SINGLE, FILTER, 1, False): [1.0] * 3, (SINGLE, FILTER, 1, True): [9.0] * 3}
    (verdict,) = judge(results(stages=rows_of(found)))
    assert (verdict.target, verdict.told) == (1.2, told)


def test_a_further_step_costs_what_four_cost_more_than_one() -> None:
    found = {(CHUNK, FILTER, 1, False): [10.0, 20.0], (CHUNK, FILTER, 1, True): [14.0, 28.0]}
    found |= {(CHUNK, FILTER, 4, False): [40.0, 80.0], (CHUNK, FILTER, 4, True): [50.0, 100.0]}
    one, four = rows_of(found)
    assert one["ratio of a further step"] is None
    assert four["ratio of a further step"] == Series.of([36 / 30, 72 / 60])


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    written = results(throughput=[cell(OURS, [1.0, 2.0])])
    written.write(tmp_path)
    assert Results.read(tmp_path) == written
