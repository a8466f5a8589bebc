"""What the trial of a cluster draws, and that its judge sees what is wrong."""

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.cluster.__main__ import KINDS, drawn, kept
from tests.cluster.clients import first_number, opened
from tests.cluster.running import lost_or_doubled


def test_fifty_kills_are_of_each_kind_as_often_as_stated() -> None:
    kills = drawn(50, random.Random(1))
    assert Counter(kills) == {kind: often for kind, (often, _) in KINDS.items()}
    assert set(drawn(len(KINDS), random.Random(1))) == set(KINDS)
    assert sum(int(times) for _, times in kept(1, kills, 1.0, 0, is_wrong=False).rows) == 50


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ([0, 1, 2, 3], ""),
        ([0, 1, 3], "1 rows are lost, 0 came more than once, 0 were never sent"),
        ([0, 1, 1, 2], "1 rows are lost, 1 came more than once, 0 were never sent"),
        ([0, 1, 2, 3, 9], "0 rows are lost, 0 came more than once, 1 were never sent"),
    ],
)
def test_the_judge_counts_lost_doubled_and_strange_rows(numbers: list[int], words: str, tmp_path: Path) -> None:
    paths = [tmp_path / "out-0", tmp_path / "out-1"]
    for path, some in zip(paths, (numbers[:2], numbers[2:]), strict=True):
        np.array(some, np.int64).tofile(path)
    assert lost_or_doubled(paths, 4) == words


def test_a_killed_consumer_goes_on_behind_its_last_whole_number(tmp_path: Path) -> None:
    path = tmp_path / "out-0"
    path.write_bytes(bytes(20))
    with opened(path) as file:
        assert file.tell() == 16
    assert first_number("in/3", 10) == 30
