"""Reads one trace file of JSON lines, strictly: a line that is none of ours is an error that names it."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from permitflow.errors import TraceTruncatedError, TraceUnreadableError
from permitflow.tracing.content import event_of, header_of
from permitflow.tracing.events import FORMAT_VERSION, Event, Header

__all__ = ["JsonLinesReading"]

# A file may hold anything, and a device has no end.
_MOST_CHARACTERS = 1 << 20


class JsonLinesReading:
    """One file, line by line."""

    def __init__(self, path: Path, *, allow_truncated: bool) -> None:
        """Read it all.

        Raises:
            TraceUnreadableError: the file is missing or holds something else.
            TraceTruncatedError: the last line is half written, and ``allow_truncated`` is false.
        """
        self.headers: list[Header] = []
        self.events: list[Event] = []
        self.is_closed = False
        """Does it end with its closing line?"""
        self._path = path
        self._opened: set[tuple[str, str]] = set()
        self._names: dict[str, str] = {}
        for number, line in self._lines(allow_truncated):
            try:
                self._take(json.loads(line))
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                what = f"no {error} in it" if isinstance(error, KeyError) else str(error)
                raise TraceUnreadableError(
                    path=str(path), line=number, reason=f"is not a line of a permitflow trace ({what}): {line[:80]!r}"
                ) from error

    def _lines(self, allow_truncated: bool) -> Iterator[tuple[int, str]]:
        number = 0
        try:
            with open(self._path, encoding="utf-8") as file:
                for number, line in enumerate(iter(partial(file.readline, _MOST_CHARACTERS), ""), start=1):
                    if line.endswith("\n"):
                        yield number, line
                    elif len(line) == _MOST_CHARACTERS:
                        reason = f"has more than {_MOST_CHARACTERS:,} characters: no line of a permitflow trace has"
                        raise TraceUnreadableError(path=str(self._path), line=number, reason=reason)
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

    def _take(self, content: object) -> None:
        if not isinstance(content, dict):
            raise TypeError("it must be an object")
        if self.is_closed:
            raise ValueError("it comes after the closing line")
        if "action" in content:
            event = event_of(content, self._names)
            if event[:2] not in self._opened:
                raise ValueError(f"no header opened the {event.end} of channel {event.channel!r}")
            self.events.append(event)
        elif "permitflow_trace" in content:
            self._take_header(content)
        elif content["permitflow_trace_events"] == len(self.events):
            self.is_closed = True
        else:
            raise ValueError(f"{content['permitflow_trace_events']} events were written, {len(self.events)} are here")

    def _take_header(self, content: dict[str, object]) -> None:
        if content["permitflow_trace"] != FORMAT_VERSION:
            raise ValueError(f"format version {content['permitflow_trace']!r}, known is {FORMAT_VERSION}")
        header = header_of(content)
        self.headers.append(header)
        self._opened.add(header[:2])
