"""Reads trace files: the actions of each channel, as one log per recording process."""

import os
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from permitflow.errors import TraceMismatchError, TraceUnreadableError
from permitflow.flows.recording import ActionTable, End, ParameterValue
from permitflow.tracing import json_lines
from permitflow.tracing.events import Event, Header, Recording

_URL = re.compile(r"(\w+):/+(.*)")


@dataclass(frozen=True)
class RecordedChannel:
    """What the headers of a recording say of one channel."""

    channel: str
    table: ActionTable
    """The recorded protocol, with the names of its events' numbers."""
    parameters: Mapping[str, ParameterValue]
    ends: frozenset[End]
    """The ends that were recorded."""
    cut_ends: frozenset[End] = field(default=frozenset(), kw_only=True)
    """Ends whose last events may be missing, because their file was not closed."""


@dataclass(frozen=True)
class ChannelTrace(RecordedChannel):
    """The recorded run of one channel."""

    logs: tuple[tuple[Event, ...], ...]
    """One for each process that recorded an end; both ends in one process share a log, whose order is real."""

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
    files = [file for path in paths for file in trace_files(local_path(path))]
    return assemble([_recording(file, allow_truncated) for file in files])


@dataclass(frozen=True)
class ScannedTrace:
    """What the headers of some files say, as one recording whose events are still to be read."""

    files: tuple[Recording, ...]
    """The recordings, without their events."""
    channels: dict[str, RecordedChannel]
    """By name, in the order in which the recordings mention them."""
    files_of: dict[str, tuple[int, ...]]
    """The numbers of the files that hold a log of each channel."""


def scan_trace(*paths: str | os.PathLike[str], allow_truncated: bool = False) -> ScannedTrace:
    """Read the headers of trace files, as ``read_trace`` does; memory does not depend on their length.

    Raises:
        TraceUnreadableError: a file is missing or holds something else.
        TraceTruncatedError: the last line of a file is half written.
        TraceMismatchError: recordings of a channel do not belong together.
    """
    files = tuple(_scanned(file, allow_truncated) for path in paths for file in trace_files(local_path(path)))
    channels = channels_of(files)
    files_of: dict[str, list[int]] = {name: [] for name in channels}
    for number, file in enumerate(files):
        for name in dict.fromkeys(header.channel for header in file.headers):
            files_of[name].append(number)
    return ScannedTrace(files, channels, {name: tuple(numbers) for name, numbers in files_of.items()})


def channels_of(recordings: Iterable[Recording]) -> dict[str, RecordedChannel]:
    """What the headers of several recordings say together, by the channels' names.

    Raises:
        TraceMismatchError: they do not belong together.
    """
    recordings = list(recordings)
    opened = headers_by_channel((recording.source, recording.headers) for recording in recordings)
    unclosed = {header[:2] for recording in recordings if not recording.is_closed for header in recording.headers}
    channels = {}
    for channel, ends in opened.items():
        *_, table, parameters = next(iter(ends.values()))
        cut = frozenset(end for end in ends if (channel, end) in unclosed)
        channels[channel] = RecordedChannel(channel, table, parameters, frozenset(ends), cut_ends=cut)
    return channels


def assemble(recordings: Iterable[Recording]) -> Trace:
    """Put the recordings of several processes together, channel by channel.

    Raises:
        TraceMismatchError: they do not belong together.
    """
    recordings = list(recordings)
    opened = channels_of(recordings)
    logs: dict[str, list[tuple[Event, ...]]] = {}
    for recording in recordings:
        of_channel: dict[str, list[Event]] = {header.channel: [] for header in recording.headers}
        for event in recording.events:
            of_channel[event.channel].append(event)
        for channel, log in of_channel.items():
            check_sequence(channel, log, {})
            logs.setdefault(channel, []).append(tuple(log))
    channels = {
        name: ChannelTrace(of.channel, of.table, of.parameters, of.ends, tuple(logs[name]), cut_ends=of.cut_ends)
        for name, of in opened.items()
    }
    return Trace(channels=channels, is_complete=all(recording.is_closed for recording in recordings))


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


def check_sequence(channel: str, log: Iterable[Event], seen: dict[End, int]) -> None:
    """Count the events of each end, from the numbers that were ``seen`` last.

    Raises:
        TraceMismatchError: one is missing, or comes twice.
    """
    for event in log:
        due = seen.get(event.end, 0) + 1
        if event.sequence != due:
            reason = f"event {due} of the {event.end} is missing, event {event.sequence} comes instead"
            if 1 <= event.sequence < due:
                reason = f"event {event.sequence} of the {event.end} comes again, where event {due} is due"
            raise TraceMismatchError(channel=channel, reason=reason)
        seen[event.end] = due


def local_path(path: str | os.PathLike[str]) -> Path:
    """The local form of a path, which may be given as Spark writes it.

    Raises:
        TraceUnreadableError: it is a place that cannot be opened as a file.
    """
    text = os.fspath(path)
    if (url := _URL.fullmatch(text)) and not Path(text).exists():
        if url[1] != "file":
            reason = (
                f"files of {url[1]}:// cannot be opened; give a path at which this machine and all workers see them"
            )
            raise TraceUnreadableError(path=text, line=0, reason=reason)
        return Path(f"/{url[2]}")
    return Path(text)


_SUFFIXES = (".jsonl", ".parquet")
_COMPRESSED = frozenset({".bz2", ".gz", ".lz4", ".xz", ".zip", ".zst"})


def trace_files(path: Path) -> list[Path]:
    """A file itself, or all trace files of a folder.

    Raises:
        TraceUnreadableError: a folder without any, or a file of another kind, or one that is compressed.
    """
    if path.suffix.lower() == ".toml":
        reason = "this is TOML, the description of a channel: check, simulate and explain read it"
        raise TraceUnreadableError(path=str(path), line=0, reason=reason)
    is_folder = path.is_dir()
    inside = sorted(path.glob("*")) if is_folder else [path]
    for file in inside:
        if file.suffix.lower() in _COMPRESSED and (not is_folder or Path(file.stem).suffix in _SUFFIXES):
            raise TraceUnreadableError(path=str(file), line=0, reason="it is compressed: unpack it first")
    if not is_folder:
        return [path]
    files = [file for file in inside if file.suffix in _SUFFIXES]
    if not files:
        raise TraceUnreadableError(path=str(path), line=0, reason="the folder holds no *.jsonl or *.parquet file")
    return files


def blocks_of(
    file: Recording, channels: Container[str], start: Any, *, allow_truncated: bool
) -> Iterator[tuple[Any, list[Event]]]:
    """The events of some channels of a scanned file, block by block, each with the place behind it.

    It begins at ``start``, a place that it has told before, or with None at the beginning.

    Raises:
        TraceUnreadableError: the file cannot be read, or an event of theirs is malformed.
        TraceTruncatedError: its last line is half written.
    """
    if Path(file.source).suffix != ".parquet":
        return json_lines.read_blocks(file, channels, start, allow_truncated=allow_truncated)
    from permitflow.tracing import parquet

    return parquet.read_blocks(file, channels, start)


def _recording(path: Path, allow_truncated: bool) -> Recording:
    if path.suffix != ".parquet":
        return json_lines.read_json_lines(path, allow_truncated=allow_truncated)
    from permitflow.tracing.parquet import read_parquet

    return read_parquet(path)


def _scanned(path: Path, allow_truncated: bool) -> Recording:
    if path.suffix != ".parquet":
        return json_lines.scan_json_lines(path, allow_truncated=allow_truncated)
    from permitflow.tracing.parquet import scan_parquet

    return scan_parquet(path)
