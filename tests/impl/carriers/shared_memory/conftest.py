"""Two ends of a ring, both in this process."""

from collections.abc import Iterator

import pytest

from tests.support.carriers import MemoryEnds, memory_ends


@pytest.fixture
def ends() -> Iterator[MemoryEnds]:
    with memory_ends() as both:
        yield both
