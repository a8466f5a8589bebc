"""Trace files of JSON lines, readable even if their writer was killed.

They are read strictly: any other line is an error that names the line.
"""

import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn

from permitflow.errors import TraceTruncatedError, TraceUnreadableError
from permitflow.flows.recording import ActionTable, End, fields_of
from permitflow.tracing.events import (
    FORMAT_VERSION,
    Event,
    Header,
    Recording,
    Shape,
    content_of,
    event_of,
    header_of,
    shape_of,
)

_decode: Callable[[str], Any]
try:
    from msgspec.json import decode as _decode  # permitflow[traces]
except ImportError:
    _decode = json.loads

# A limit, because a file may hold anything, and a device has no end.
_MOST_CHARACTERS = 1 << 20

_BLOCK_BYTES = 1 << 20


class JsonLinesWriter:
    """Writes a header for each end of a channel, a line for each event, and at the end the number of events."""

    def __init__(self, path: Path) -> None:
        """Create the file, or empty it.

        Raises:
            OSError: it cannot be created.
        """
        # Unbuffered: only the trace buffers, so that a failed write is noticed at once.
        self._file: BinaryIO = open(path, "wb", buffering=0)  # noqa: SIM115 - closed by `close`
        self._known: set[str] = set()
        self._opened: dict[tuple[str, End], tuple[str, Mapping[str, tuple[str, ...]]]] = {}
        self._events = 0

    def write(self, records: Iterable[Header | Event]) -> None:
        """Append records.

        Raises:
            OSError: not all of them could be written; the last line may be half written.
        """
        lines = [self._header(record) if isinstance(record, Header) else self._event(record) for record in records]
        self._write("".join(lines))
        self._events += len(lines)

    def close(self) -> None:
        """Write the closing line, and close the file.

        Raises:
            OSError: not everything could be written.
        """
        try:
            self._write(json.dumps({"permitflow_trace_events": self._events - len(self._opened)}) + "\n")
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close the file without a closing line."""
        self._file.close()

    def _write(self, text: str) -> None:
        rest = memoryview(text.encode())
        while rest:
            rest = rest[self._file.write(rest) :]

    def _header(self, header: Header) -> str:
        channel, end, table, _ = header
        prefix = f'{{"channel": {json.dumps(channel)}, "end": "{end}", "sequence": '
        self._opened[channel, end] = prefix, table.actions[end]
        return json.dumps({"permitflow_trace": FORMAT_VERSION, **content_of(header, self._known)}) + "\n"

    def _event(self, event: Event) -> str:
        channel, end, sequence, action, arguments, seconds, counters = event
        prefix, actions = self._opened[channel, end]
        numbers = (*arguments, *counters) if seconds is None else (*arguments, seconds, *counters)
        return f"{prefix}{sequence}{_rest_of(action, actions[action], seconds is not None, len(counters)) % numbers}"


def arguments_as_json(table: ActionTable, event: Event) -> dict[str, int | list[int]]:
    """The arguments of an event by name, as in its line."""
    told: dict[str, int | list[int]] = {}
    start = 0
    for name, parts in fields_of(table.actions[event.end][event.action]):
        told[name] = list(event.arguments[start : start + parts]) if parts else event.arguments[start]
        start += parts or 1
    return told


@cache
def _rest_of(action: str, names: tuple[str, ...], has_time: bool, counters: int) -> str:
    """A template for the part of a line from its action on."""
    fields = [f'"{name}": {_list_of(parts) if parts else "%d"}' for name, parts in fields_of(names)]
    if has_time:
        fields.append('"time_seconds": %.6f')
    if counters:
        fields.append(f'"counters": {_list_of(counters)}')
    return ", ".join((f', "action": "{action}"', *fields)) + "}\n"


def _list_of(count: int) -> str:
    return f"[{', '.join(['%d'] * count)}]"


class LinePosition(NamedTuple):
    """A place between two lines of a file."""

    offset: int = 0
    line: int = 0
    events: int = 0
    """Lines and events before it."""


def read_json_lines(path: Path, *, allow_truncated: bool) -> Recording:
    """One file, line by line.

    Raises:
        TraceUnreadableError: the file is missing or holds something else.
        TraceTruncatedError: the last line is half written, and ``allow_truncated`` is false.
    """
    reading = _Reading()
    events = [event for _, block in _read(path, reading, LinePosition(), allow_truncated) for event in block]
    return Recording(str(path), reading.headers, events, reading.is_closed)


def scan_json_lines(path: Path, *, allow_truncated: bool) -> Recording:
    """The headers of a file, wherever in it they are, without the events: at little cost.

    Raises:
        TraceUnreadableError: the file is missing, or a header is malformed.
        TraceTruncatedError: the last line is half written, and ``allow_truncated`` is false.
    """
    reading = _Reading()
    for place, lines in _blocks(path, LinePosition(), allow_truncated):
        for line, text in enumerate(lines, start=place.line + 1):
            # The first line tells a recording from anything else.
            if line == 1 or (_MARK in text and '"action"' not in text):
                _take(reading, str(path), line, text, is_scan=True)
    return Recording(str(path), reading.headers, (), reading.is_closed)


def read_blocks(
    scanned: Recording, channels: Container[str], start: LinePosition | None, *, allow_truncated: bool
) -> Iterator[tuple[LinePosition, list[Event]]]:
    """The events of some channels of a scanned file, block by block, each with the place behind it.

    It begins at ``start``, or at the beginning.

    Raises:
        TraceUnreadableError: a line of theirs is malformed.
        TraceTruncatedError: as above.
    """
    start = start or LinePosition()
    reading = _Reading(scanned.headers, start.events)
    others = {json.dumps(header.channel)[1:-1] for header in scanned.headers if header.channel not in channels}
    yield from _read(Path(scanned.source), reading, start, allow_truncated, others)


# Only a header and the closing line have it, or a channel with a strange name.
_MARK = '"permitflow_trace'

_CHANNEL = '{"channel": "'
"""Our writer begins the line of an event so."""


def _read(
    path: Path, reading: "_Reading", start: LinePosition, allow_truncated: bool, others: Container[str] = ()
) -> Iterator[tuple[LinePosition, list[Event]]]:
    """The events of each block, and the place behind it; lines of the ``others`` are only counted."""
    for place, lines in _blocks(path, start, allow_truncated):
        events: list[Event] = []
        for line, text in enumerate(lines, start=place.line + 1):
            if others and text.startswith(_CHANNEL) and text[13 : text.find('"', 13)] in others:
                reading.events += 1
            elif event := _take(reading, str(path), line, text):
                events.append(event)
        size = sum(len(text) if text.isascii() else len(text.encode()) for text in lines) + len(lines)
        yield LinePosition(place.offset + size, place.line + len(lines), reading.events), events


def _take(reading: "_Reading", path: str, line: int, text: str, *, is_scan: bool = False) -> Event | None:
    try:
        return reading.take(_value_of(text), is_scan=is_scan)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        what = f"no {error} in it" if isinstance(error, KeyError) else str(error)
        reason = f"is not a line of a permitflow trace ({what}): {text[:80]!r}"
        raise TraceUnreadableError(path=path, line=line, reason=reason) from error


def _value_of(line: str) -> Any:
    try:
        return _decode(line)
    except Exception:  # of msgspec's releases, each has another base
        # So errors are the same with either decoder.  Some editors begin a file with a byte order mark.
        return json.loads(line.removeprefix("\ufeff"))


def _blocks(path: Path, start: LinePosition, allow_truncated: bool) -> Iterator[tuple[LinePosition, list[str]]]:
    """Whole lines, without their ends, in blocks of about the same size; each with the place before it."""
    offset, line, rest = start.offset, start.line, b""
    try:
        with open(path, "rb") as file:
            file.seek(offset)
            while block := file.read(_BLOCK_BYTES):
                whole, end, rest = (rest + block).rpartition(b"\n")
                if len(rest) > _MOST_CHARACTERS or len(whole) > 2 * _BLOCK_BYTES:
                    _refuse_long(path, line + (whole.count(b"\n") + 1 if end else 0) + 1)
                if not end:
                    continue
                lines = _decoded(path, line, whole).split("\n")
                if (longest := max(map(len, lines))) > _MOST_CHARACTERS:
                    _refuse_long(path, line + 1 + [len(text) for text in lines].index(longest))
                yield LinePosition(offset, line), lines
                offset, line = offset + len(whole) + 1, line + len(lines)
    except OSError as error:
        raise TraceUnreadableError(path=str(path), line=0, reason=error.strerror or str(error)) from error
    if rest and _is_whole(rest):
        yield LinePosition(offset, line), [_decoded(path, line, rest)]
    elif rest and not allow_truncated:
        raise TraceTruncatedError(
            path=str(path),
            line=line + 1,
            reason="the last line is half written: its writer was killed or the disk was full; "
            "what comes before can be read with allow_truncated",
        )


def _is_whole(line: bytes) -> bool:
    """Is a line without an end a whole one?  No beginning of an object is an object."""
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _refuse_long(path: Path, line: int) -> NoReturn:
    reason = f"has more than {_MOST_CHARACTERS:,} characters: no line of a permitflow trace has"
    raise TraceUnreadableError(path=str(path), line=line, reason=reason)


def _decoded(path: Path, line: int, text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        at = line + 1 + text.count(b"\n", 0, error.start)
        raise TraceUnreadableError(path=str(path), line=at, reason="is not UTF-8 text") from error


class _Reading:
    """The lines of a file so far."""

    def __init__(self, headers: Iterable[Header] = (), events: int = 0) -> None:
        """Go on after these headers, and this many events."""
        self.headers = list(headers)
        self.events = events
        self.is_closed = False
        self._tables: dict[str, ActionTable] = {}
        self._opened = {(header.channel, header.end): header.table for header in headers}
        self._shapes: dict[tuple[object, object, object], Shape] = {}

    def take(self, content: Any, *, is_scan: bool = False) -> Event | None:
        """A line; the event, if it is one.  A scan has not counted the events."""
        if not isinstance(content, dict):
            raise TypeError("it must be an object")
        if self.is_closed:
            raise ValueError("it comes after the closing line")
        if "action" in content:
            self.events += 1
            return event_of(content, self._shape(content))
        if "permitflow_trace" in content:
            if content["permitflow_trace"] != FORMAT_VERSION:
                raise ValueError(f"format version {content['permitflow_trace']!r}, known is {FORMAT_VERSION}")
            header = header_of(content, self._tables)
            self.headers.append(header)
            self._opened[header.channel, header.end] = header.table
        elif content["permitflow_trace_events"] == self.events or is_scan:
            self.is_closed = True
        else:
            raise ValueError(f"{content['permitflow_trace_events']} events were written, {self.events} are here")
        return None

    def _shape(self, content: dict[str, Any]) -> Shape:
        key = content["channel"], content["end"], content["action"]
        shape = self._shapes.get(key)
        if shape is None:
            table = self._opened.get(key[:2])
            if table is None:
                raise ValueError(f"no header opened the {content['end']} of channel {content['channel']!r}")
            shape = self._shapes[key] = shape_of(content, table)
        return shape
