"""How many row permits keep a pipe full: the formula against bisection over simulated runs, on a grid."""

import math
from dataclasses import replace
from itertools import product

import pytest

from permitflow.flows.permits.parameters import StatedParameters
from permitflow_tools.simulation.chunk_sizes import ChunkSizes, UniformSizes, WeightedSizes
from permitflow_tools.simulation.run import RunLength, run_length, simulate
from permitflow_tools.simulation.setting import SimulationSetting
from permitflow_tools.simulation.window import (
    Window,
    enough_bytes,
    enough_rows,
    exact_terms,
    smallest_window,
    with_row_permits,
)

UNLIMITED = math.inf
# Producer, consumer, link; each of them is the slowest somewhere, and two of them together.
RATES = [
    (UNLIMITED, 1000.0, UNLIMITED),
    (1000.0, UNLIMITED, UNLIMITED),
    (1000.0, 1000.0, UNLIMITED),
    (1000.0, 3000.0, UNLIMITED),
    (2000.0, 1000.0, 3000.0),
    (2000.0, 3000.0, 1000.0),
]
GRID = [*product([1, 7], [1, 5, 16], [0.037], RATES, [False, True]), *product([7], [16], [0.1], RATES, [False, True])]


def setting(
    chunks: ChunkSizes, permit_batch: int, rtt: float, rates: tuple[float, float, float], *, flush: bool
) -> SimulationSetting:
    producer, consumer, link = rates
    return SimulationSetting(
        upstream=StatedParameters(row_permits=10_000, permit_batch=permit_batch),
        chunks=chunks,
        flush_idle=flush,
        forward_seconds=rtt / 2,
        return_seconds=rtt / 2,
        producer_rate=producer,
        consumer_rate=consumer,
        link_rate=link,
    )


def found(channel: SimulationSetting, **options: float) -> Window:
    window = smallest_window(channel, **options)  # type: ignore[arg-type]  # one of its options
    assert window is not None
    return window


# Each rate with each batch and size, half of them with a flush; the other half takes as long.
@pytest.mark.parametrize("half", [0, pytest.param(1, marks=pytest.mark.long)])
def test_the_formula_is_exact_for_equal_chunks_at_steady_rates(half: int) -> None:
    differences = [
        (point, window.smallest, window.exact)
        for place, point in enumerate(GRID)
        if (place // 2 + place) % 2 == half
        if (window := found(setting(WeightedSizes([point[0]]), *point[1:4], flush=point[4]))).smallest != window.exact
    ]
    assert differences == []


@pytest.mark.parametrize("point", [(7, 5, 0.1, RATES[0], False), (7, 16, 0.037, RATES[3], True)], ids=str)
def test_one_chunk_less_is_slower(point: tuple[int, int, float, tuple[float, float, float], bool]) -> None:
    channel = setting(WeightedSizes([point[0]]), *point[1:4], flush=point[4])
    terms = exact_terms(channel)
    assert terms is not None
    full, less = (with_row_permits(channel, sum(terms) - missing) for missing in (0, point[0]))
    length = run_length(full)
    rates = [found.throughput for one in (full, less) if (found := simulate(one, length=length).figures)]
    assert rates[0] == pytest.approx(1000, rel=1e-6)
    assert rates[1] < 0.99 * 1000


def test_the_clamp_needs_room_for_a_chunk() -> None:
    window = found(setting(WeightedSizes([1]), 40, 0.01, RATES[1], flush=True))
    assert window.terms is not None
    assert (window.smallest, window.terms.room) == (41, 41 - 10)


# Each kind of sizes with each rate, half of them with a flush.
@pytest.mark.parametrize(
    ("chunks", "rates", "flush"),
    [
        pytest.param(chunks, rates, flush, marks=() if (kind + place) % 2 == flush else pytest.mark.long)
        for kind, chunks in enumerate([UniformSizes(1, 40), WeightedSizes([1, 13, 64], [1, 5, 2])])
        for place, rates in enumerate(RATES)
        for flush in (False, True)
    ],
    ids=str,
)
def test_the_safe_window_is_enough_for_chunks_of_any_sizes(
    chunks: ChunkSizes, rates: tuple[float, float, float], *, flush: bool
) -> None:
    channel = setting(chunks, 16, 0.1, rates, flush=flush)
    rows = enough_rows(channel)
    assert rows is not None
    tight, generous = with_row_permits(channel, rows), with_row_permits(channel, 10 * rows)
    length = run_length(generous)
    carried, most = (simulate(one, length=length).figures for one in (tight, generous))
    assert carried is not None
    assert most is not None
    assert carried.throughput == pytest.approx(most.throughput, rel=1e-9)


def test_where_nothing_is_slow_no_window_is_enough() -> None:
    assert smallest_window(setting(WeightedSizes([1]), 5, 0.1, (UNLIMITED,) * 3, flush=False)) is None


def throughput(channel: SimulationSetting) -> float:
    figures = simulate(channel, length=RunLength(warm_up_rows=1_600, measured_rows=3_200)).figures
    assert figures is not None
    return figures.throughput


@pytest.mark.parametrize("rates", RATES, ids=str)
def test_a_byte_window_by_the_rule_of_thumb_is_enough(rates: tuple[float, float, float]) -> None:
    without = setting(WeightedSizes([16]), 16, 0.1, rates, flush=False)
    counted = replace(without, row_bytes=100)
    enough = enough_bytes(counted)
    assert enough is not None
    assert math.isclose(throughput(replace(counted, byte_window=enough)), throughput(without), rel_tol=1e-6)
    assert throughput(replace(counted, byte_window=enough // 2)) < 0.9 * throughput(without)
