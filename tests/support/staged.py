"""Publishing in the books of staged rows, at once; the exchange writes down what was planned before it goes on."""

from collections.abc import Sequence

from permitflow.protocol.control import StagedPart
from permitflow.protocol.staging import Publication, StagingBooks


def publish(books: StagingBooks, query: str, batch: int, parts: Sequence[StagedPart], now: float) -> Publication:
    """Plan it, and carry it out."""
    steps = books.planning(query, batch, parts)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            planned: Publication = end.value
            return planned if planned.was_published else books.carry_out(query, batch, planned, now)
