"""The cost of the exchange for a Spark job: source, sink and a whole query, each beside the same without it."""

from dataclasses import dataclass

from benchmarks.results import Record, Series

SOURCE, SINK, QUERY = "source", "sink", "TPC-H query 12"


@dataclass(frozen=True)
class SparkJob(Record):
    """One kind of job, with the exchange and without."""

    job: str
    peer: str
    warm_up_rounds: int
    """Jobs of both that run before those that count."""
    seconds: Series
    peer_seconds: Series
