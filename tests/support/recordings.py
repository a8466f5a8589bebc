"""Recordings in files."""

from collections.abc import Iterable
from pathlib import Path

from permitflow.tracing import Event, Header
from permitflow.tracing.json_lines import JsonLinesWriter
from permitflow.tracing.parquet import ROW_GROUP_EVENTS, ParquetWriter


def written(
    path: Path, headers: Iterable[Header], events: Iterable[Event] = (), *, row_group_events: int = ROW_GROUP_EVENTS
) -> Path:
    """A file of the kind that its name says."""
    is_text = path.suffix == ".jsonl"
    writer = JsonLinesWriter(path) if is_text else ParquetWriter(path, row_group_events=row_group_events)
    writer.write([*headers, *events])
    writer.close()
    return path
