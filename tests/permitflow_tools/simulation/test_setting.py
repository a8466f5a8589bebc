"""What two configurations come to, and distributions of chunk sizes that are what they say."""

from itertools import product
from random import Random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow.errors import InvalidParametersError, ParameterMismatchError
from permitflow.flows.permits.parameters import StatedParameters
from permitflow.flows.seam import Wishes
from permitflow_tools.simulation.chunk_sizes import ChunkSizes, UniformSizes, WeightedSizes
from permitflow_tools.simulation.setting import (
    Axis,
    EndParameters,
    SimulationSetting,
    agreement,
    combinations,
    costs_of,
    disagreements,
    largest_cost,
    most_outstanding,
    varied,
)

ALL = [
    WeightedSizes([7]),
    WeightedSizes([64, 1, 8], [1, 2, 1]),
    UniformSizes(3, 9),
]


def drawn(sizes: ChunkSizes, count: int = 20_000) -> list[int]:
    random = Random(1)
    return [sizes.draw(random) for _ in range(count)]


@pytest.mark.parametrize("sizes", ALL, ids=str)
def test_the_mean_is_what_it_says(sizes: ChunkSizes) -> None:
    assert fmean(drawn(sizes)) == pytest.approx(sizes.mean, rel=0.05)


@pytest.mark.parametrize("sizes", ALL, ids=str)
def test_only_possible_sizes_are_drawn_and_all_of_a_few(sizes: ChunkSizes) -> None:
    assert set(drawn(sizes)) == set(sizes.possible)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: WeightedSizes([]), "rows must name at least one size"),
        (lambda: WeightedSizes([0]), "rows must name a size above 0"),
        (lambda: WeightedSizes([1, -2]), "rows must not be negative, not -2"),
        (lambda: WeightedSizes([1, 2], [1]), "weights must have 2 values, one for each size"),
        (lambda: WeightedSizes([1, 2], [1, 0]), "weights must all be above 0"),
        (lambda: UniformSizes(5, 4), "most must be at least 5, not 4"),
        (lambda: UniformSizes(0, 0), "most must be at least 1, not 0"),
    ],
)
def test_impossible_distributions_are_refused(make: type[ChunkSizes], complaint: str) -> None:
    with pytest.raises(InvalidParametersError, match=complaint):
        make()


def ends(chunks: ChunkSizes, up: Wishes, down: Wishes | None = None) -> SimulationSetting:
    return SimulationSetting(upstream=up, downstream=down or StatedParameters(), chunks=chunks)


SMALL = StatedParameters(row_permits=100, permit_batch=20)


def test_the_upstreams_numbers_are_the_downstreams_defaults() -> None:
    setting = ends(WeightedSizes([1]), SMALL, StatedParameters(permit_batch=30))
    assert setting.receiver == EndParameters(row_permits=100, permit_batch=30, max_chunk_cost=70)
    assert [found.name for found in disagreements(setting)] == ["permit_batch", "max_chunk_cost"]


def test_the_handshake_refuses_what_cannot_be_reconciled() -> None:
    whole = agreement(ends(WeightedSizes([1]), SMALL, StatedParameters(oversize="whole")))
    assert isinstance(whole, ParameterMismatchError)
    stuck = agreement(ends(WeightedSizes([1]), StatedParameters(row_permits=8, permit_batch=3, max_chunk_cost=7)))
    assert isinstance(stuck, InvalidParametersError)


@pytest.mark.parametrize(
    ("chunks", "costs", "largest"),
    [
        (WeightedSizes([30]), (30,), 30),
        (WeightedSizes([200]), (40, 80), 80),
        (WeightedSizes([80 * 10**12 + 3]), (3, 80), 80),
        (WeightedSizes([0, 30]), (1, 30), 30),
        (UniformSizes(1, 50), None, 50),
        (UniformSizes(48, 50), (48, 49, 50), 50),
        (UniformSizes(0, 5_000), None, 80),
        (UniformSizes(2, 10**9), None, 80),
    ],
    ids=str,
)
def test_costs_are_those_of_the_slices(chunks: ChunkSizes, costs: tuple[int, ...] | None, largest: int) -> None:
    assert (costs_of(ends(chunks, SMALL)), largest_cost(ends(chunks, SMALL))) == (costs, largest)


@given(st.sets(st.integers(2, 9), min_size=1, max_size=3), st.integers(1, 30))
def test_the_most_that_is_outstanding_is_the_largest_sum_that_fits(sizes: set[int], window: int) -> None:
    stated = StatedParameters(row_permits=window, permit_batch=1, max_chunk_cost=10)
    sums = {
        sum(size * count for size, count in zip(sizes, counts, strict=True))
        for counts in product(range(window + 1), repeat=len(sizes))
    }
    expected = max(total for total in sums if total <= window)
    assert most_outstanding(ends(WeightedSizes(sorted(sizes)), stated)) == expected


def test_few_sizes_are_summed_exactly_in_a_window_of_many_bytes() -> None:
    stated = StatedParameters(row_permits=10**12, permit_batch=1, max_chunk_cost=10**12)
    assert most_outstanding(ends(WeightedSizes([6 * 10**11, 7 * 10**11]), stated)) == 7 * 10**11


def test_a_batch_that_leaves_no_room_is_refused() -> None:
    with pytest.raises(InvalidParametersError, match="permit_batch must be below row_permits = 8"):
        ends(WeightedSizes([1]), StatedParameters(row_permits=8, permit_batch=8))


def test_a_sweep_is_every_combination_at_both_ends() -> None:
    setting = ends(WeightedSizes([1]), SMALL, StatedParameters(permit_batch=5))
    axes = [Axis("row_permits", [50, 100]), Axis("permit_batch", [1, 2]), Axis("rtt", [0.5])]
    swept = [varied(setting, values) for values in combinations(axes)]
    assert [(one.sender.row_permits, one.receiver.permit_batch) for one in swept] == [
        (50, 1),
        (50, 2),
        (100, 1),
        (100, 2),
    ]
    assert {one.rtt_seconds for one in swept} == {0.5}
