"""What was measured of Spark jobs."""

from dataclasses import dataclass

from benchmarks.records import Record
from benchmarks.series import Series

__all__ = ["QUERY", "SINK", "SOURCE", "SparkJob"]

SOURCE, SINK, QUERY = "source", "sink", "TPC-H query 12"


@dataclass(frozen=True)
class SparkJob(Record):
    """One kind of job, with the exchange and without."""

    job: str
    rows: int
    """That pass the exchange; 0: as many as the query needs."""
    peer: str
    seconds: Series
    peer_seconds: Series
