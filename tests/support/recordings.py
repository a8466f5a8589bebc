"""Recordings in files, and short runs to be recorded."""

from collections.abc import Iterable
from pathlib import Path

from permitflow import ChannelParameters, RecorderFactory
from permitflow.tracing import Event, Header
from permitflow.tracing.json_lines import JsonLinesWriter
from permitflow.tracing.parquet import ROW_GROUP_EVENTS, ParquetWriter
from permitflow_testing.subjects.permits import CorePair


def written(
    path: Path, headers: Iterable[Header], events: Iterable[Event] = (), *, row_group_events: int = ROW_GROUP_EVENTS
) -> Path:
    """A file of the kind that its name says."""
    is_text = path.suffix == ".jsonl"
    writer = JsonLinesWriter(path) if is_text else ParquetWriter(path, row_group_events=row_group_events)
    writer.write([*headers, *events])
    writer.close()
    return path


AGREED = ChannelParameters(row_permits=30, permit_batch=2, max_chunk_cost=10)
UNEQUAL_CHUNKS = "234234dddccca3dddccaa"
"""Two returns arrive while others are on their way, and everything comes home in the end."""


class LostOnTheWay(CorePair):
    """The second return of permits never arrives."""

    returns = 0

    def add_permits(self) -> None:
        self.returns += 1
        if self.returns == 2:
            self.grants.popleft()
        super().add_permits()


def run_pair(record: RecorderFactory, moves: str, pair_type: type[CorePair] = CorePair) -> None:
    """Let a pair make moves: a digit offers and sends a chunk of that size; d, c, a: deliver, consume, add permits."""
    pair = pair_type(AGREED, record=record)
    steps = {"d": pair.deliver, "c": pair.consume, "a": pair.add_permits}
    for move in moves:
        if move.isdigit():
            pair.offer_chunk(int(move))
            pair.send_chunk()
        else:
            steps[move]()
