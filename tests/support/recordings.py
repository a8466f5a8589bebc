"""Recordings in files, and what an audit finds in them."""

from collections.abc import Iterable
from pathlib import Path

from permitflow.flows.recording import ENDS
from permitflow.tracing import ChannelTrace, Event, Header
from permitflow.tracing.json_lines import JsonLinesWriter
from permitflow.tracing.parquet import ROW_GROUP_EVENTS, ParquetWriter
from permitflow_tools.audit import Audit, audit_files


def written(
    path: Path, headers: Iterable[Header], events: Iterable[Event] = (), *, row_group_events: int = ROW_GROUP_EVENTS
) -> Path:
    """A file of the kind that its name says."""
    is_text = path.suffix == ".jsonl"
    writer = JsonLinesWriter(path) if is_text else ParquetWriter(path, row_group_events=row_group_events)
    writer.write([*headers, *events])
    writer.close()
    return path


def headers_of(channel: ChannelTrace) -> list[Header]:
    return [Header(channel.channel, end, channel.table, channel.parameters) for end in ENDS]


def audited(channel: ChannelTrace, folder: Path) -> Audit:
    """What an audit finds in a recording of the channel, in parts of seven events."""
    events = (event for log in channel.logs for event in log)
    return audit_files(written(folder / "run.parquet", headers_of(channel), events, row_group_events=7))
