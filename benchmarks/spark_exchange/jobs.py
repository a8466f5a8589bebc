"""What was measured of Spark jobs, and when two sessions are warm.

Java compiles what is done again and again, and so they become faster for many rounds.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from benchmarks.results import Record, Series

__all__ = ["FOR_LONG_JOBS", "QUERY", "SINK", "SOURCE", "UNTIL_WARM", "SparkJob", "WarmUp"]

SOURCE, SINK, QUERY = "source", "sink", "TPC-H query 12"


@dataclass(frozen=True)
class SparkJob(Record):
    """One kind of job, with the exchange and without."""

    job: str
    rows: int
    """That pass the exchange; 0: as many as the query needs."""
    peer: str
    warm_up_rounds: int
    """That both have run before those that count; see ``benchmarks.spark_exchange.jobs``."""
    is_warm: bool | None
    """Had both stopped becoming faster by then?  None if that was not looked at, because a round takes seconds."""
    seconds: Series
    peer_seconds: Series

    @property
    def rounds(self) -> str:
        """How many count, and how many were run before."""
        told = {True: ", until it was warm", False: ", and it still became faster", None: ""}[self.is_warm]
        return f"{len(self.seconds.values)}, after {self.warm_up_rounds}{told}"


# Two medians of so many rounds, one after the other, are compared.
ROUNDS_IN_A_MEDIAN = 5
# Less than this share below the median before it, and a job no longer becomes faster.
STILL_FASTER = 0.03


class WarmUp(NamedTuple):
    """How many rounds are run and not counted."""

    least: int
    most: int

    def is_warm(self, *seconds: Sequence[float]) -> bool | None:
        """Have all jobs stopped becoming faster?  None if the number of rounds is fixed."""
        return all(map(has_settled, seconds)) if self.least < self.most else None

    def is_over(self, *seconds: Sequence[float]) -> bool:
        """Are these jobs, of which each has taken so many seconds in the rounds so far, as fast as they will be?

        They are when for each of them the median of the last five rounds is no more than 3% below that of the five
        before; not before the least number of rounds, and in any case after the most.
        """
        rounds = len(seconds[0])
        if rounds < self.least:
            return False
        return rounds >= self.most or bool(self.is_warm(*seconds))


def has_settled(seconds: Sequence[float]) -> bool:
    """Has this job stopped becoming faster?  False while there are too few rounds to know."""
    if len(seconds) < 2 * ROUNDS_IN_A_MEDIAN:
        return False
    before = statistics.median(seconds[-2 * ROUNDS_IN_A_MEDIAN : -ROUNDS_IN_A_MEDIAN])
    return statistics.median(seconds[-ROUNDS_IN_A_MEDIAN:]) >= (1 - STILL_FASTER) * before


UNTIL_WARM = WarmUp(least=2 * ROUNDS_IN_A_MEDIAN, most=40)
# Their rounds take seconds, nearly all of it in loops that are compiled within the first: workers have to be forked.
FOR_LONG_JOBS = WarmUp(least=2, most=2)
