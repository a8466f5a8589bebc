"""Reads trace files: the actions of each channel, as one log per recording process."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from permitflow.errors import TraceMismatchError, TraceUnreadableError
from permitflow.protocol.recording import ActionTable, End, ParameterValue
from permitflow.tracing.events import Event, Header
from permitflow.tracing.json_lines import JsonLinesReading


class Recording(NamedTuple):
    """The recording of one process."""

    source: str
    """Its name, for messages."""
    headers: Sequence[Header]
    events: Sequence[Event]
    is_closed: bool = True
    """Does it have its closing record?  If not, its last events may be missing."""


@dataclass(frozen=True)
class ChannelTrace:
    """The recorded run of one channel."""

    channel: str
    table: ActionTable
    """The recorded protocol, with the names of its events' numbers."""
    parameters: Mapping[str, ParameterValue]
    ends: frozenset[End]
    """The ends that were recorded."""
    logs: tuple[tuple[Event, ...], ...]
    """One for each process that recorded an end; both ends in one process share a log, whose order is real."""
    cut_ends: frozenset[End] = frozenset()
    """Ends whose last events may be missing, because their file was not closed."""

    @property
    def logs_by_end(self) -> tuple[tuple[Event, ...], ...]:
        """One log for each end, as if the two had never shared a process."""
        merged = [event for log in self.logs for event in log]
        return tuple(tuple(event for event in merged if event.end == end) for end in ("sender", "receiver"))


@dataclass(frozen=True)
class Trace:
    """Everything that was recorded."""

    channels: dict[str, ChannelTrace]
    """By name, in the order in which the recordings mention them."""
    is_complete: bool
    """Was every file closed?  If not, the last events of a process may be missing."""


def read_trace(*paths: str | os.PathLike[str], allow_truncated: bool = False) -> Trace:
    """Read trace files, and all trace files of folders (``*.jsonl``, ``*.parquet``), as one recording.

    With ``allow_truncated`` it ignores a half-written last line.

    Raises:
        TraceUnreadableError: a file is missing or holds something else.
        TraceTruncatedError: the last line of a file is half written.
        TraceMismatchError: recordings of a channel do not belong together, or do not begin at its beginning.
    """
    files = [file for path in paths for file in trace_files(Path(path))]
    return assemble([_recording(file, allow_truncated) for file in files])


def assemble(recordings: Iterable[Recording]) -> Trace:
    """Put the recordings of several processes together, channel by channel.

    Raises:
        TraceMismatchError: they do not belong together.
    """
    headers: dict[str, list[tuple[Recording, Header]]] = {}
    logs: dict[str, list[tuple[Event, ...]]] = {}
    is_complete = True
    for recording in recordings:
        is_complete = is_complete and recording.is_closed
        for header in recording.headers:
            headers.setdefault(header.channel, []).append((recording, header))
        of_channel: dict[str, list[Event]] = {header.channel: [] for header in recording.headers}
        for event in recording.events:
            of_channel[event.channel].append(event)
        for channel, log in of_channel.items():
            logs.setdefault(channel, []).append(tuple(log))
    channels = {channel: _channel(channel, headers[channel], logs[channel]) for channel in headers}
    return Trace(channels=channels, is_complete=is_complete)


def _channel(channel: str, opened: list[tuple[Recording, Header]], logs: list[tuple[Event, ...]]) -> ChannelTrace:
    first_source, first = opened[0][0].source, opened[0][1]
    seen: dict[End, str] = {}
    for recording, header in opened:
        source = recording.source
        if header[2:] != first[2:]:
            raise TraceMismatchError(
                channel=channel, reason=f"{first_source} has {in_words(first)}, {source} has {in_words(header)}"
            )
        if header.end in seen:
            raise TraceMismatchError(
                channel=channel, reason=f"{seen[header.end]} and {source} both hold its {header.end}"
            )
        seen[header.end] = source
    for log in logs:
        _check_sequence(channel, log)
    cut = frozenset(header.end for recording, header in opened if not recording.is_closed)
    return ChannelTrace(channel, first.table, first.parameters, frozenset(seen), tuple(logs), cut)


def in_words(header: Header) -> str:
    """A channel's protocol and parameters, for messages."""
    return f"{header.table.flow} with {', '.join(f'{name}={value}' for name, value in header.parameters.items())}"


def _check_sequence(channel: str, log: tuple[Event, ...]) -> None:
    due: dict[End, int] = {"sender": 1, "receiver": 1}
    for event in log:
        if event.sequence != due[event.end]:
            raise TraceMismatchError(
                channel=channel,
                reason=f"event {due[event.end]} of the {event.end} is missing, event {event.sequence} comes instead",
            )
        due[event.end] += 1


def trace_files(path: Path) -> list[Path]:
    """A file itself, or all trace files of a folder.

    Raises:
        TraceUnreadableError: a folder without any.
    """
    if not path.is_dir():
        return [path]
    files = sorted(file for pattern in ("*.jsonl", "*.parquet") for file in path.glob(pattern))
    if not files:
        raise TraceUnreadableError(path=str(path), line=0, reason="the folder holds no *.jsonl or *.parquet file")
    return files


def _recording(path: Path, allow_truncated: bool) -> Recording:
    if path.suffix == ".parquet":
        return _from_parquet(path)
    reading = JsonLinesReading(path, allow_truncated=allow_truncated)
    return Recording(str(path), reading.headers, reading.events, reading.is_closed)


def _from_parquet(path: Path) -> Recording:
    from permitflow.tracing.parquet import read_parquet

    try:
        headers, events = read_parquet(path)
    except OSError as error:
        raise TraceUnreadableError(path=str(path), line=0, reason=error.strerror or str(error)) from error
    except (ValueError, KeyError, TypeError) as error:
        raise TraceUnreadableError(path=str(path), line=0, reason=str(error)) from error
    opened = {header[:2] for header in headers}
    for number, event in enumerate(events, start=1):
        if event[:2] not in opened:
            reason = f"no header opened the {event.end} of channel {event.channel!r} (row {number})"
            raise TraceUnreadableError(path=str(path), line=0, reason=reason)
    return Recording(str(path), headers, events)
