"""Publishing in the books of staged rows, at once; the exchange writes down what was planned before it goes on."""

from collections.abc import Sequence

from permitflow.client import StagedPart
from permitflow.exchange.books.staging import Publication, StagingBooks


def publish(books: StagingBooks, query: str, batch: int, parts: Sequence[StagedPart], now: float) -> Publication:
    """Plan it, and carry it out."""
    planned = books.planning(query, batch, parts)
    return planned if planned.was_published else books.carry_out(query, batch, planned, now)
