"""The instruments of benchmarks: tuning, warming up, deadlines, the meter of waiting, and the proxy that delays."""

import asyncio
import time
from dataclasses import replace

import pytest

from benchmarks import delay_proxy, imbalance
from benchmarks.field import KEPT, WINDOWS_THAT_BIND, candidates, fastest
from benchmarks.harness import Partner
from benchmarks.imbalance import CHUNK_ROWS, SETUPS, Imbalance, Meter, Work, filtered_chunk
from benchmarks.jobs import PAYLOADS, Job
from benchmarks.results import Results, Series
from benchmarks.spark_exchange import QUERY, SparkJob
from benchmarks.tables import TABLES
from benchmarks.targets import judge

ANY_NUMBER = 1 << 30


def job_of(payload: str, chunks: int = 4_000) -> Job:
    row_permits = PAYLOADS[payload].row_permits
    return Job(payload=payload, chunks=chunks, row_permits=row_permits, permit_batch=row_permits // 8)


def windows(job: Job, most_chunks: int = ANY_NUMBER) -> list[int]:
    return sorted({each.row_permits for each in candidates(job, most_chunks)})


@pytest.mark.parametrize(
    ("payload", "tried"),
    [
        ("64", [16_384, 32_768, 65_536, 262_144]),
        ("4,096", [32_768, 65_536, 262_144]),
        ("65,536", [524_288]),
        ("wide", [16_384, 32_768]),
    ],
)
def test_a_window_holds_eight_chunks_and_no_more_bytes_than_carriers(payload: str, tried: list[int]) -> None:
    assert windows(job_of(payload)) == tried


def test_a_larger_window_is_filled_several_times_or_not_tried() -> None:
    job = job_of("64", chunks=1)
    for each in candidates(job, ANY_NUMBER):
        if each.row_permits > job.row_permits:
            assert each.chunks * each.shape.rows >= WINDOWS_THAT_BIND * each.row_permits
    assert windows(job, most_chunks=WINDOWS_THAT_BIND * 65_536 // 64) == [16_384, 32_768, 65_536]


def test_the_fastest_is_chosen_and_only_those_in_front_are_tried_again() -> None:
    competing = candidates(job_of("64"), ANY_NUMBER)
    ranked = competing[5:] + competing[:5]
    tried: list[int] = []

    def by_rank(pilot: Job) -> float:
        numbers = [(each.row_permits, each.permit_batch) for each in ranked]
        tried.append(numbers.index((pilot.row_permits, pilot.permit_batch)))
        return 1.0 / (1 + tried[-1])

    assert fastest(competing, by_rank) == ranked[0]
    assert [tried.count(rank) for rank in range(6)] == [3, 3, 2, 2, 1, 1]
    assert len(tried) == len(competing) + sum(KEPT)


def test_one_lucky_pilot_is_not_enough() -> None:
    steady, lucky = replace(job_of("64"), chunks=400), replace(job_of("64"), chunks=800)
    of_lucky = iter([11.0, 1.0, 1.0])

    def rate(pilot: Job) -> float:
        return 10.0 if pilot.chunks == 100 else next(of_lucky)

    assert fastest([lucky, steady], rate) == steady


def test_the_rounds_stand_beside_what_was_measured() -> None:
    job = SparkJob(QUERY, "files", 12, seconds=Series.of([1.2, 1.3, 1.4]), peer_seconds=Series.of([1.0, 1.0, 1.0]))
    results = Results(machine={}, settings={"rounds": 5, "seed": 1})
    results.put("spark", [job], seconds=1.0)
    assert TABLES["spark"](results).endswith("| 3, after 12 |")
    (verdict,) = judge(results)
    assert (verdict.found.median, verdict.told) == (1.3, "met")


class Clock:
    """Time that passes only asleep, and then a little longer than asked for."""

    def __init__(self, oversleeps: float = 0.0) -> None:
        self.now = 100.0
        self._oversleeps = oversleeps

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds + (self._oversleeps if seconds else 0.0)


def install(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Clock:
    monkeypatch.setattr(imbalance, "time", clock)
    return clock


def test_later_sleeps_make_up_for_a_sleep_that_was_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = install(monkeypatch, Clock(oversleeps=0.3))
    pieces = Work(1.0)
    pieces.begin()
    for _ in range(10):
        pieces.do()
    assert clock.now == pytest.approx(110.3)


def test_work_missed_while_waiting_is_not_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = install(monkeypatch, Clock())
    pieces = Work(1.0)
    pieces.begin()
    clock.sleep(50.0)
    pieces.begin()
    pieces.do()
    assert clock.now == pytest.approx(151.0)


def test_the_back_pressure_rate_is_the_share_of_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = install(monkeypatch, Clock())
    meter = Meter()
    clock.sleep(6.0)
    with meter:
        clock.sleep(2.0)
    assert meter.rate() == pytest.approx(0.25)


def test_a_wait_that_is_going_on_counts_from_the_beginning_of_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = install(monkeypatch, Clock())
    meter = Meter()
    with meter:
        clock.sleep(5.0)
        meter.reset()
        clock.sleep(3.0)
        assert meter.rate() == pytest.approx(1.0)
    clock.sleep(1.0)
    assert meter.rate() == pytest.approx(0.75)


@pytest.mark.parametrize("row_bytes", [20, 500])
def test_the_filter_leaves_five_percent(row_bytes: int) -> None:
    chunk = filtered_chunk(row_bytes)
    assert chunk.num_rows == CHUNK_ROWS == 51
    assert chunk.column(0).type.byte_width == row_bytes


def test_setups_have_names_of_their_own() -> None:
    assert len({setup.name for setup in SETUPS}) == len(SETUPS)


@pytest.mark.parametrize(("local", "told"), [(3.0, "met"), (2.9, "not met"), (1 / 3.1, "met")])
def test_an_imbalance_is_one_whichever_upstream_starves(local: float, told: str) -> None:
    rate = Series.of([0.5])
    measured = Results(machine={}, settings={"rounds": 1})
    measured.put(
        "imbalance", [Imbalance(SETUPS[0].name, Series.of([local]), Series.of([1.0]), rate, rate)], seconds=1.0
    )
    (verdict,) = judge(measured)
    assert verdict.told == told


DELAY_SECONDS = 0.05
SENT = [bytes([number]) * 1_000 for number in range(50)]


def test_bytes_come_back_in_order_and_not_too_soon() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while content := await reader.read(1 << 16):
            writer.write(content)
        writer.close()
        await writer.wait_closed()

    async def through(address: str) -> tuple[bytes, float]:
        reader, writer = await asyncio.open_connection(*address.split(":"))
        began = time.monotonic()
        writer.writelines(SENT)
        content = await reader.readexactly(1)
        seconds = time.monotonic() - began
        writer.write_eof()
        content += await reader.read()
        writer.close()
        await writer.wait_closed()
        return content, seconds

    async def run() -> tuple[bytes, float]:
        async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
            host, port = server.sockets[0].getsockname()
            with Partner(delay_proxy.serve, f"{host}:{port}", DELAY_SECONDS) as proxy:
                return await through(proxy.hears())

    content, seconds = asyncio.run(run())
    assert content == b"".join(SENT)
    assert seconds >= 2 * DELAY_SECONDS
