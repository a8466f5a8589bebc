"""Reads trace files: what each channel did, as one log per process that saw it."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from permitflow.errors import (
    InvalidParametersError,
    TraceMismatchError,
    TraceTruncatedError,
    TraceUnreadableError,
)
from permitflow.protocol.messages import Permits
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.recording import RECEIVER_ACTIONS, SENDER_ACTIONS, End
from permitflow.tracing.events import FORMAT_VERSION, Event, Header

__all__ = ["ChannelTrace", "Trace", "assemble", "read_trace"]

Recording: TypeAlias = tuple[str, Sequence[Header], Sequence[Event]]
"""What one process wrote: its name for messages, headers, events."""

ACTIONS_OF: dict[End, frozenset[str]] = {"sender": SENDER_ACTIONS, "receiver": RECEIVER_ACTIONS}


@dataclass(frozen=True)
class ChannelTrace:
    """The recorded run of one channel."""

    channel: str
    parameters: ChannelParameters
    ends: frozenset[End]
    """The ends that were recorded."""

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
    """Was every file closed in good order?  If not, the last events of a process may be missing."""


def read_trace(*paths: str | os.PathLike[str], allow_truncated: bool = False) -> Trace:
    """Read trace files, and all ``*.jsonl`` files of folders, as one recording.

    With ``allow_truncated`` a half-written last line is left out, as if its writer had been killed a moment earlier.

    Raises:
        TraceUnreadableError: a file is missing or holds something else.
        TraceTruncatedError: the last line of a file is half written.
        TraceMismatchError: recordings of a channel do not belong together, or do not begin at its beginning.
    """
    files = [file for path in paths for file in _files(Path(path))]
    is_complete = True
    recordings: list[Recording] = []
    for file in files:
        reading = _Reading(file, allow_truncated=allow_truncated)
        recordings.append((str(file), reading.headers, reading.events))
        is_complete = is_complete and reading.is_closed
    return assemble(recordings, is_complete=is_complete)


def assemble(recordings: Iterable[Recording], *, is_complete: bool) -> Trace:
    """Put the recordings of several processes together, channel by channel.

    Raises:
        TraceMismatchError: they do not belong together.
    """
    headers: dict[str, list[tuple[str, Header]]] = {}
    logs: dict[str, list[tuple[Event, ...]]] = {}
    for source, opened, events in recordings:
        for header in opened:
            headers.setdefault(header.channel, []).append((source, header))
        of_channel: dict[str, list[Event]] = {header.channel: [] for header in opened}
        for event in events:
            of_channel[event.channel].append(event)
        for channel, log in of_channel.items():
            logs.setdefault(channel, []).append(tuple(log))
    channels = {channel: _channel(channel, headers[channel], logs[channel]) for channel in headers}
    return Trace(channels=channels, is_complete=is_complete)


def _channel(channel: str, opened: list[tuple[str, Header]], logs: list[tuple[Event, ...]]) -> ChannelTrace:
    first_source, first = opened[0]
    seen: dict[End, str] = {}
    for source, header in opened:
        if header.parameters != first.parameters:
            raise TraceMismatchError(
                channel=channel,
                reason=f"{first_source} has {first.parameters}, {source} has {header.parameters}",
            )
        if header.end in seen:
            raise TraceMismatchError(
                channel=channel, reason=f"{seen[header.end]} and {source} both hold its {header.end}"
            )
        seen[header.end] = source
    for log in logs:
        _check_sequence(channel, log)
    return ChannelTrace(channel, first.parameters, frozenset(seen), tuple(logs))


def _check_sequence(channel: str, log: tuple[Event, ...]) -> None:
    due: dict[End, int] = {"sender": 1, "receiver": 1}
    for event in log:
        if event.sequence != due[event.end]:
            raise TraceMismatchError(
                channel=channel,
                reason=f"event {due[event.end]} of the {event.end} is missing, event {event.sequence} comes instead",
            )
        due[event.end] += 1


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(path.glob("*.jsonl"))
    if not files:
        raise TraceUnreadableError(path=str(path), line=0, reason="the folder holds no *.jsonl file")
    return files


class _Reading:
    """One file, line by line."""

    def __init__(self, path: Path, *, allow_truncated: bool) -> None:
        self.headers: list[Header] = []
        self.events: list[Event] = []
        self.is_closed = False
        self._path = path
        self._opened: set[tuple[str, str]] = set()
        # json makes a new string for every value; one for each name is enough.
        self._names: dict[str, str] = {}
        for number, line in self._lines(allow_truncated):
            try:
                self._take(json.loads(line))
            except (ValueError, KeyError, TypeError) as error:
                what = f"no {error} in it" if isinstance(error, KeyError) else str(error)
                raise TraceUnreadableError(
                    path=str(path), line=number, reason=f"is not a line of a permitflow trace ({what}): {line[:80]!r}"
                ) from error

    def _lines(self, allow_truncated: bool) -> Iterator[tuple[int, str]]:
        number = 0
        try:
            with open(self._path, encoding="utf-8") as file:
                for number, line in enumerate(file, start=1):
                    if line.endswith("\n"):
                        yield number, line
                    elif not allow_truncated:
                        raise TraceTruncatedError(
                            path=str(self._path),
                            line=number,
                            reason="the last line is half written: its writer was killed or the disk was full; "
                            "what comes before can be read with allow_truncated",
                        )
        except OSError as error:
            raise TraceUnreadableError(path=str(self._path), line=0, reason=error.strerror or str(error)) from error
        except UnicodeDecodeError as error:
            raise TraceUnreadableError(path=str(self._path), line=number + 1, reason="is not UTF-8 text") from error

    def _take(self, content: dict[str, object]) -> None:
        if self.is_closed:
            raise ValueError("it comes after the closing line")
        if "action" in content:
            self._take_event(content)
        elif "permitflow_trace" in content:
            self._take_header(content)
        elif content["permitflow_trace_events"] == len(self.events):
            self.is_closed = True
        else:
            raise ValueError(f"{content['permitflow_trace_events']} events were written, {len(self.events)} are here")

    def _take_header(self, content: dict[str, object]) -> None:
        if content["permitflow_trace"] != FORMAT_VERSION:
            raise ValueError(f"format version {content['permitflow_trace']!r}, known is {FORMAT_VERSION}")
        parameters = content["parameters"]
        if not isinstance(parameters, dict):
            raise TypeError("parameters must be an object")
        try:
            read = ChannelParameters(**parameters)
        except InvalidParametersError as error:
            raise ValueError(str(error)) from error
        header = Header(_text(content["channel"]), _end(content["end"]), read)
        self.headers.append(header)
        self._opened.add(header[:2])

    def _take_event(self, content: dict[str, object]) -> None:
        channel, end, action = (self._names.setdefault(_text(content[key]), _text(content[key])) for key in _NAMED)
        if (channel, end) not in self._opened:
            raise ValueError(f"no header opened the {end} of channel {channel!r}")
        if action not in ACTIONS_OF[_end(end)]:
            raise ValueError(f"the {end} has no action {action!r}")
        permits = content["permits"]
        if not isinstance(permits, list):
            raise TypeError("permits must be a list")
        rows, sequence, *counts = (_number(value) for value in (content["rows"], content["sequence"], *permits))
        if len(counts) != len(Permits._fields):
            raise ValueError(f"permits must be {len(Permits._fields)} numbers")
        self.events.append(Event(channel, _end(end), sequence, action, rows, Permits(*counts)))


_NAMED = ("channel", "end", "action")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} must be a string")
    return value


def _end(value: object) -> End:
    if value == "sender" or value == "receiver":
        return value
    raise ValueError(f"end must be sender or receiver, not {value!r}")


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{value!r} must be a whole number")
    return value
