"""All ways choose window and batch by the same rule, among windows that are large enough, and that bind."""

import asyncio
from dataclasses import replace

import pytest

from benchmarks.field import KEPT, WINDOWS_THAT_BIND, candidates, fastest
from benchmarks.jobs import PAYLOADS, Job

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


@pytest.mark.parametrize("payload", PAYLOADS)
def test_the_default_window_is_always_tried_with_the_job_that_all_have(payload: str) -> None:
    job = job_of(payload)
    assert job in candidates(job, most_chunks=0)


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

    async def by_rank(pilot: Job) -> float:
        numbers = [(each.row_permits, each.permit_batch) for each in ranked]
        tried.append(numbers.index((pilot.row_permits, pilot.permit_batch)))
        return 1.0 / (1 + tried[-1])

    assert asyncio.run(fastest(competing, by_rank)) == ranked[0]
    assert [tried.count(rank) for rank in range(6)] == [3, 3, 2, 2, 1, 1]
    assert len(tried) == len(competing) + sum(KEPT)


def test_one_lucky_pilot_is_not_enough() -> None:
    steady, lucky = replace(job_of("64"), chunks=400), replace(job_of("64"), chunks=800)
    of_lucky = iter([11.0, 1.0, 1.0])

    async def rate(pilot: Job) -> float:
        return 10.0 if pilot.chunks == 100 else next(of_lucky)

    assert asyncio.run(fastest([lucky, steady], rate)) == steady
