"""What the demo found out, and whether all of it is as it should be."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from permitflow.demo.query12 import ShippingMode

__all__ = ["PARTS", "DemoReport", "Evidence", "Hop", "StreamNumbers", "TraceVerdict"]

PARTS = {
    "checks": "model checks and proofs",
    "tables": "TPC-H tables",
    "jobs": "an exchange and two Spark jobs, with their start",
    "direct": "the same queries by Spark alone, from the files",
    "pipeline": "producer, exchange, Spark and consumer, with their start",
    "query_through_exchange": "  of these, query 12 through the exchange",
    "query_directly": "  of these, query 12 directly",
    "replay": "replay of the recorded run",
}
"""What is timed, and how people call it."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What ``permitflow check`` or ``permitflow prove`` said."""

    name: str
    """What was judged, and by whom."""
    holds: bool
    count: int
    """How many were judged."""


@dataclass(frozen=True, kw_only=True)
class StreamNumbers:
    """One stream over one hop, as its sender saw it."""

    stream: str
    rows: int
    chunks: int
    peak_rows: int
    """The most rows that were ever in flight: sent, and not yet consumed and returned."""
    bound: int
    """``row_permits`` of the agreement: ``peak_rows`` may never be above it."""
    back_pressure_rate: float
    """The share of its time in which the sender waited for permits."""


@dataclass(frozen=True, kw_only=True)
class Hop:
    """One control loop of the way: Spark to the exchange, or the exchange to Spark."""

    name: str
    streams: tuple[StreamNumbers, ...]

    @property
    def rows(self) -> int:
        """Rows of all streams."""
        return sum(stream.rows for stream in self.streams)

    @property
    def chunks(self) -> int:
        """Chunks of all streams."""
        return sum(stream.chunks for stream in self.streams)

    @property
    def is_within_bounds(self) -> bool:
        """Did no stream ever hold more rows than it may?"""
        return all(stream.peak_rows <= stream.bound for stream in self.streams)


@dataclass(frozen=True, kw_only=True)
class TraceVerdict:
    """What the model said about the recorded run."""

    streams: int
    events: int
    is_complete: bool
    """Was everything recorded until the end?"""
    is_at_rest: bool
    """Were all permits back at their senders at the end?"""
    refused: tuple[str, ...]
    """Descriptions of runs that are no behaviours of the specification, or break its invariants."""

    @property
    def is_valid(self) -> bool:
        """Is every step a step of the model, with conservation of permits after each?"""
        return self.is_complete and self.is_at_rest and not self.refused and self.events > 0


@dataclass(frozen=True, kw_only=True)
class DemoReport:
    """Everything."""

    scale: float
    row_permits: int
    """The window of every stream, in rows."""
    evidence: tuple[Evidence, ...]
    answer: tuple[ShippingMode, ...]
    """Through the exchange."""
    direct_answer: tuple[ShippingMode, ...]
    """The same query by Spark alone."""
    hops: tuple[Hop, ...]
    trace: TraceVerdict
    seconds: dict[str, float]
    """How long each part took, in the order in which they began."""
    total_seconds: float

    def problems(self) -> Sequence[str]:
        """What is not as it should be."""
        found = [f"not all {evidence.name}, are as they should be" for evidence in self.evidence if not evidence.holds]
        if self.answer != self.direct_answer:
            found.append(f"the answer through the exchange is {self.answer}, the direct one {self.direct_answer}")
        if not self.answer:
            found.append("the query found nothing")
        late = sum(mode.high_line_count + mode.low_line_count for mode in self.answer)
        for hop in self.hops:
            if hop.rows != late:
                found.append(f"{hop.name}: {hop.rows} rows moved, {late} are in the answer")
            if not hop.is_within_bounds:
                found.append(f"{hop.name}: more rows in flight than permits")
        if not self.trace.is_valid:
            found.append("the recorded run is not one that the specification allows")
        return found

    @property
    def holds(self) -> bool:
        """Is everything as it should be?"""
        return not self.problems()

    def as_json(self) -> dict[str, object]:
        """All of it, ready for JSON."""
        return {
            "holds": self.holds,
            "problems": list(self.problems()),
            **asdict(self),
            "answer": [mode._asdict() for mode in self.answer],
            "direct_answer": [mode._asdict() for mode in self.direct_answer],
            "hops": [
                {**asdict(hop), "rows": hop.rows, "chunks": hop.chunks, "within_bounds": hop.is_within_bounds}
                for hop in self.hops
            ],
            "trace": {**asdict(self.trace), "valid": self.trace.is_valid},
        }
