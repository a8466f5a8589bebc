"""What came of the pipeline, and whether all of it is as it should be."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from permitflow.demo.query12 import ShippingMode

__all__ = ["ChannelNumbers", "Counted", "PipelineReport", "RecordedRun"]


@dataclass(frozen=True, kw_only=True)
class ChannelNumbers:
    """One channel of the exchange, over all its lives."""

    channel: str
    rows: int
    peak_kept_rows: int
    """The most rows that were kept at once: handed over by a producer, and not acknowledged by the consumer."""
    bound: int
    """``row_permits``: ``peak_kept_rows`` may never be above it."""


@dataclass(frozen=True, kw_only=True)
class RecordedRun:
    """What the models said about the recordings: of the exchange, one for each of its lives, and of the query."""

    lives: int
    silent_lives: int
    """Besides these: lives that were killed before they had recorded anything."""
    streams: int
    events: int
    cut_streams: int
    """Streams of lives that were killed: what is recorded of them is valid so far, the last steps may be missing."""
    query_events: int
    """Steps of the streaming query, over all its lives and channels: of its source, its tasks and its checkpoint."""
    refused: Sequence[str]
    """Descriptions of runs that are no behaviours of the specification, or break its invariants."""


@dataclass(frozen=True, kw_only=True)
class Counted:
    """What the consumer has, beside what the batch query says that it must have."""

    expected: int
    """Late line items in the files."""
    lost: int
    """Of these, what never came."""
    duplicated: int
    """Times that a line item came after the first time."""
    foreign: int
    """Line items that came and are not late."""


@dataclass(frozen=True, kw_only=True)
class PipelineReport:
    """Everything."""

    scale: float
    seed: int
    kills: Mapping[str, int]
    """How often each part was killed."""
    missed_kills: int
    """Kills whose victim had done its work already."""
    starts: Mapping[str, int]
    """How often each part was started."""
    failures: Mapping[str, int]
    """How often each part ended by itself before its work was done, because a neighbour was gone."""
    line_items: int
    """Rows that the producer has."""
    counted: Counted
    answer: tuple[ShippingMode, ...]
    """Query 12 from the consumer's aggregate."""
    direct_answer: tuple[ShippingMode, ...]
    """The same query by Spark alone."""
    channels: Sequence[ChannelNumbers]
    looks: int
    """How often all channels were looked at."""
    seen_problems: Sequence[str]
    """What was seen then, and must not be."""
    recorded: RecordedRun
    seconds: Mapping[str, float]
    total_seconds: float

    def problems(self) -> Sequence[str]:
        """What is not as it should be."""
        counted = self.counted
        found = [*self.seen_problems]
        if counted.lost or counted.duplicated or counted.foreign:
            found.append(
                f"{counted.lost} rows were lost, {counted.duplicated} duplicated, {counted.foreign} are from elsewhere"
            )
        if self.answer != self.direct_answer:
            found.append(f"the answer of the pipeline is {self.answer}, the direct one {self.direct_answer}")
        if not self.answer or not counted.expected:
            found.append("the query found nothing")
        for channel in self.channels:
            if channel.peak_kept_rows > channel.bound:
                found.append(f"{channel.channel}: {channel.peak_kept_rows} rows kept, {channel.bound} may be")
        if self.recorded.refused or not self.recorded.events or not self.recorded.query_events:
            found.append("the recorded run is not one that the specification allows")
        if self.missed_kills:
            found.append(f"{self.missed_kills} kills came too late: take a larger scale or fewer kills")
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
        }
