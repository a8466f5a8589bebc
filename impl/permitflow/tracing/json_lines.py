"""Trace files of JSON lines: readable up to the moment at which their writer was killed."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

from permitflow.protocol.recording import COUNTERS
from permitflow.tracing.events import FORMAT_VERSION, Event, Header

__all__ = ["JsonLinesWriter"]


class JsonLinesWriter:
    """Writes a header for each end of a channel, a line for each event, and at the end how many there were."""

    def __init__(self, path: Path) -> None:
        """Create the file, or empty it.

        Raises:
            OSError: it cannot be created.
        """
        # Unbuffered: the trace's own buffer is the only one, so that a failed write is noticed where it happens.
        self._file: BinaryIO = open(path, "wb", buffering=0)  # noqa: SIM115 - closed by `close`
        self._prefixes: dict[tuple[str, str], str] = {}
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
        """Say that this is all, and close the file.

        Raises:
            OSError: not everything could be written.
        """
        try:
            self._write(json.dumps({"permitflow_trace_events": self._events - len(self._prefixes)}) + "\n")
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close the file as it is, without a word."""
        self._file.close()

    def _write(self, text: str) -> None:
        rest = memoryview(text.encode())
        while rest:
            rest = rest[self._file.write(rest) :]

    def _header(self, header: Header) -> str:
        channel, end, parameters = header
        self._prefixes[channel, end] = f'{{"channel": {json.dumps(channel)}, "end": "{end}", "sequence": '
        content = {
            "permitflow_trace": FORMAT_VERSION,
            "channel": channel,
            "end": end,
            "parameters": asdict(parameters),
            "counters": COUNTERS[end],
        }
        return json.dumps(content) + "\n"

    def _event(self, event: Event) -> str:
        channel, end, sequence, action, rows, (of_rows, of_barriers, of_watermarks), seconds, counters = event
        time = "" if seconds is None else f', "time_seconds": {seconds:.6f}'
        counted = "" if counters is None else f', "counters": [{counters[0]}, {counters[1]}, {counters[2]}]'
        return (
            f'{self._prefixes[channel, end]}{sequence}, "action": "{action}", "rows": {rows}, '
            f'"permits": [{of_rows}, {of_barriers}, {of_watermarks}]{time}{counted}}}\n'
        )
