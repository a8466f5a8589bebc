"""Trace files of JSON lines, readable even if their writer was killed.

They are read strictly: any other line is an error that names the line.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import BinaryIO

from permitflow.errors import TraceTruncatedError, TraceUnreadableError
from permitflow.flows.recording import ActionTable, End, fields_of
from permitflow.tracing.events import FORMAT_VERSION, Event, Header, Recording, content_of, event_of, header_of

# A limit, because a file may hold anything, and a device has no end.
_MOST_CHARACTERS = 1 << 20


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


def read_json_lines(path: Path, *, allow_truncated: bool) -> Recording:
    """One file, line by line.

    Raises:
        TraceUnreadableError: the file is missing or holds something else.
        TraceTruncatedError: the last line is half written, and ``allow_truncated`` is false.
    """
    reading = _Reading()
    for number, line in _lines(path, allow_truncated):
        try:
            reading.take(json.loads(line))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            what = f"no {error} in it" if isinstance(error, KeyError) else str(error)
            raise TraceUnreadableError(
                path=str(path), line=number, reason=f"is not a line of a permitflow trace ({what}): {line[:80]!r}"
            ) from error
    return Recording(str(path), reading.headers, reading.events, reading.is_closed)


def _lines(path: Path, allow_truncated: bool) -> Iterator[tuple[int, str]]:
    number = 0
    try:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(iter(partial(file.readline, _MOST_CHARACTERS), ""), start=1):
                if line.endswith("\n"):
                    yield number, line
                elif len(line) == _MOST_CHARACTERS:
                    reason = f"has more than {_MOST_CHARACTERS:,} characters: no line of a permitflow trace has"
                    raise TraceUnreadableError(path=str(path), line=number, reason=reason)
                elif not allow_truncated:
                    raise TraceTruncatedError(
                        path=str(path),
                        line=number,
                        reason="the last line is half written: its writer was killed or the disk was full; "
                        "what comes before can be read with allow_truncated",
                    )
    except OSError as error:
        raise TraceUnreadableError(path=str(path), line=0, reason=error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise TraceUnreadableError(path=str(path), line=number + 1, reason="is not UTF-8 text") from error


class _Reading:
    """The lines of a file so far."""

    def __init__(self) -> None:
        self.headers: list[Header] = []
        self.events: list[Event] = []
        self.is_closed = False
        self._tables: dict[str, ActionTable] = {}
        self._opened: dict[tuple[str, str], ActionTable] = {}
        self._names: dict[str, str] = {}

    def take(self, content: object) -> None:
        if not isinstance(content, dict):
            raise TypeError("it must be an object")
        if self.is_closed:
            raise ValueError("it comes after the closing line")
        if "action" in content:
            table = self._opened.get((content["channel"], content["end"]))
            if table is None:
                raise ValueError(f"no header opened the {content['end']} of channel {content['channel']!r}")
            self.events.append(event_of(content, table, self._names))
        elif "permitflow_trace" in content:
            if content["permitflow_trace"] != FORMAT_VERSION:
                raise ValueError(f"format version {content['permitflow_trace']!r}, known is {FORMAT_VERSION}")
            header = header_of(content, self._tables)
            self.headers.append(header)
            self._opened[header.channel, header.end] = header.table
        elif content["permitflow_trace_events"] == len(self.events):
            self.is_closed = True
        else:
            raise ValueError(f"{content['permitflow_trace_events']} events were written, {len(self.events)} are here")
