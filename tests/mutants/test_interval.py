"""Notices some mistakes in ``interval.py``, and one that never ends."""

from tests.mutants.interval import overlap


def test_overlap() -> None:
    assert overlap(range(0, 5), range(3, 9)) == 2
    assert overlap(range(0, 2), range(3, 9)) == 0
