"""Which batch each query has published last: what makes publishing again harmless, for as long as it is remembered."""

from collections.abc import Mapping
from itertools import islice

__all__ = ["MOST_QUERIES", "PublishedBatches"]

MOST_QUERIES = 65_536
"""Each batch job without a key of its own is a query, so there must be an end to remembering."""


class PublishedBatches:
    """Of so many queries, of those that have published last, the last published batch."""

    def __init__(self, most_queries: int = MOST_QUERIES) -> None:
        """Nothing was published."""
        self._most_queries = most_queries
        self._batches: dict[str, int] = {}

    @property
    def batches(self) -> Mapping[str, int]:
        """By query; who has published last comes last."""
        return self._batches

    def has(self, query: str, batch: int) -> bool:
        """Was this batch published, or a later one?"""
        return batch <= self._batches.get(query, -1)

    def displaced_by(self, query: str) -> tuple[str, ...]:
        """Those that have not published for longest, and must make room when this query publishes."""
        excess = len(self._batches) + (query not in self._batches) - self._most_queries
        others = (other for other in self._batches if other != query)
        return tuple(islice(others, max(0, excess)))

    def note(self, query: str, batch: int) -> None:
        """The query has published this batch."""
        for displaced in self.displaced_by(query):
            del self._batches[displaced]
        # At the end, though it may have been there before.
        self._batches.pop(query, None)
        self._batches[query] = batch

    def restore(self, batches: Mapping[str, int]) -> None:
        """Go on with what was remembered before."""
        self._batches.update(batches)
