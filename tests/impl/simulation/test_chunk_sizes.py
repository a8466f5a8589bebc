"""Distributions of chunk sizes are what they say."""

from collections import Counter
from random import Random
from statistics import fmean, variance

import pytest

from permitflow.errors import InvalidParametersError
from permitflow.simulation.chunk_sizes import (
    ChunkSizes,
    ConstantSize,
    GeometricSizes,
    PoissonSizes,
    UniformSizes,
    WeightedSizes,
)

ALL = [
    ConstantSize(7),
    WeightedSizes([64, 1, 8], [1, 2, 1]),
    UniformSizes(3, 9),
    GeometricSizes(5),
    PoissonSizes(4),
    PoissonSizes(2_000),
]


def drawn(sizes: ChunkSizes, count: int = 20_000) -> list[int]:
    random = Random(1)
    return [sizes.draw(random) for _ in range(count)]


@pytest.mark.parametrize("sizes", ALL, ids=str)
def test_the_mean_is_what_it_says(sizes: ChunkSizes) -> None:
    assert fmean(drawn(sizes)) == pytest.approx(sizes.mean, rel=0.05)


@pytest.mark.parametrize("sizes", ALL, ids=str)
def test_only_possible_sizes_are_drawn_and_all_of_a_few(sizes: ChunkSizes) -> None:
    if sizes.possible is not None:
        assert set(drawn(sizes)) == set(sizes.possible)
    assert min(drawn(sizes)) >= 0


def test_variances_are_those_of_the_distributions() -> None:
    assert variance(drawn(GeometricSizes(5))) == pytest.approx(5 * 4, rel=0.1)
    assert variance(drawn(PoissonSizes(2_000))) == pytest.approx(2_000, rel=0.1)


def test_weights_are_heeded_and_equal_sizes_taken_together() -> None:
    counts = Counter(drawn(WeightedSizes([1, 2, 1], [1, 2, 1])))
    assert counts[1] == pytest.approx(counts[2], rel=0.05)


def test_equal_seeds_draw_equal_sizes() -> None:
    assert drawn(GeometricSizes(300)) == drawn(GeometricSizes(300))


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: ConstantSize(0), "rows must be at least 1, not 0"),
        (lambda: WeightedSizes([]), "rows must name at least one size"),
        (lambda: WeightedSizes([0]), "rows must name a size above 0"),
        (lambda: WeightedSizes([1, -2]), "rows must not be negative, not -2"),
        (lambda: WeightedSizes([1, 2], [1]), "weights must be 2, one for each size"),
        (lambda: WeightedSizes([1, 2], [1, 0]), "weights must all be above 0"),
        (lambda: UniformSizes(5, 4), "most must be at least 5, not 4"),
        (lambda: UniformSizes(0, 0), "most must be at least 1, not 0"),
        (lambda: GeometricSizes(1), "mean must be above 1, not 1"),
        (lambda: PoissonSizes(0), "mean must be above 0"),
    ],
)
def test_what_cannot_be_is_refused(make: type[ChunkSizes], complaint: str) -> None:
    with pytest.raises(InvalidParametersError, match=complaint):
        make()
