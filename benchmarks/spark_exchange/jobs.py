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
    warm_up_rounds: int
    """That both have run before those that count; see ``benchmarks.spark_exchange.warming``."""
    is_warm: bool | None
    """Had both stopped becoming faster by then?  None if nobody asked, because a round takes seconds."""
    seconds: Series
    peer_seconds: Series

    @property
    def rounds(self) -> str:
        """How many count, and how many were run before."""
        told = {True: ", until it was warm", False: ", and it still became faster", None: ""}[self.is_warm]
        return f"{len(self.seconds.values)}, after {self.warm_up_rounds}{told}"
