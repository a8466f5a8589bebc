"""The model of a graph says what the library's stages do: event by event, in graphs of all shapes."""

from itertools import product
from random import Random

import pytest

from tests.graphs.generated import SHAPES, generated
from tests.graphs.stepping import Stepping

MOVES = 150
ROUNDS = 8
"""So many graphs begin with each shape."""


@pytest.mark.parametrize("shape", range(len(SHAPES) - 2), ids=[name for name, _ in SHAPES[:-2]])
def test_real_stages_take_each_step_of_their_model(shape: int) -> None:
    for seed in range(shape, ROUNDS * len(SHAPES), len(SHAPES)):
        for greed, leaves_after in product((0.3, 0.8), (-1, 20)):
            _, blueprint = generated(seed)
            Stepping(blueprint).moves_by_chance(Random(seed), MOVES, greed, leaves_after=leaves_after)
