"""Reads trace files: the actions of each channel, as one log per recording process."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from permitflow.errors import TraceMismatchError, TraceUnreadableError
from permitflow.flows.recording import ActionTable, End, ParameterValue
from permitflow.tracing.events import Event, Header, Recording
from permitflow.tracing.json_lines import read_json_lines


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
    recordings = list(recordings)
    opened = headers_by_channel((recording.source, recording.headers) for recording in recordings)
    logs: dict[str, list[tuple[Event, ...]]] = {}
    for recording in recordings:
        of_channel: dict[str, list[Event]] = {header.channel: [] for header in recording.headers}
        for event in recording.events:
            of_channel[event.channel].append(event)
        for channel, log in of_channel.items():
            _check_sequence(channel, log)
            logs.setdefault(channel, []).append(tuple(log))
    is_complete = all(recording.is_closed for recording in recordings)
    unclosed = {header[:2] for recording in recordings if not recording.is_closed for header in recording.headers}
    channels = {}
    for channel, ends in opened.items():
        *_, table, parameters = next(iter(ends.values()))
        cut = frozenset(end for end in ends if (channel, end) in unclosed)
        channels[channel] = ChannelTrace(channel, table, parameters, frozenset(ends), tuple(logs[channel]), cut)
    return Trace(channels=channels, is_complete=is_complete)


def headers_by_channel(recordings: Iterable[tuple[str, Iterable[Header]]]) -> dict[str, dict[End, Header]]:
    """The headers of several recordings, which are given with their sources' names.

    Raises:
        TraceMismatchError: they do not belong together.
    """
    opened: dict[str, dict[End, Header]] = {}
    sources: dict[tuple[str, End], str] = {}
    for source, headers in recordings:
        for header in headers:
            channel, end, *_ = header
            ends = opened.setdefault(channel, {})
            first = next(iter(ends.values()), header)
            there = sources.get((channel, first.end), source)
            if header[2:] != first[2:]:
                reason = f"{there} has {_in_words(first)}, {source} has {_in_words(header)}"
                raise TraceMismatchError(channel=channel, reason=reason)
            if end in ends:
                reason = f"{sources[channel, end]} and {source} both hold its {end}"
                raise TraceMismatchError(channel=channel, reason=reason)
            ends[end], sources[channel, end] = header, source
    return opened


def _in_words(header: Header) -> str:
    """A channel's protocol and parameters, for messages."""
    return f"{header.table.flow} with {', '.join(f'{name}={value}' for name, value in header.parameters.items())}"


def _check_sequence(channel: str, log: Iterable[Event]) -> None:
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
        TraceUnreadableError: a folder without any, or a file of another kind.
    """
    if path.suffix.lower() == ".toml":
        reason = "this is TOML, the description of a channel: check, simulate and explain read it"
        raise TraceUnreadableError(path=str(path), line=0, reason=reason)
    if not path.is_dir():
        return [path]
    files = sorted(file for pattern in ("*.jsonl", "*.parquet") for file in path.glob(pattern))
    if not files:
        raise TraceUnreadableError(path=str(path), line=0, reason="the folder holds no *.jsonl or *.parquet file")
    return files


def _recording(path: Path, allow_truncated: bool) -> Recording:
    if path.suffix != ".parquet":
        return read_json_lines(path, allow_truncated=allow_truncated)
    from permitflow.tracing.parquet import read_parquet

    return read_parquet(path)
