"""Records into a file, JSON lines or, where the name ends in ``.parquet``, Parquet; or into memory.

A recorder never raises and never waits for anything but the operating system's page cache: it is called in the
middle of a change of state, where an exception would lose a message.  When the disk is full, the recording stops,
the channel goes on, and ``close`` raises ``TraceWriteError``.  Then, as after a kill, the last line may be half
written and the closing line is missing, which the reader reports.  (A Parquet file is unreadable then.)
"""

import atexit
import logging
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Container, Mapping
from itertools import count
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from permitflow.errors import InvalidParametersError, TraceWriteError
from permitflow.flows.recording import ActionTable, End, ParameterValue, Recorder
from permitflow.tracing.events import Event, Header, Recording
from permitflow.tracing.json_lines import JsonLinesWriter
from permitflow.tracing.reader import Trace, assemble

if TYPE_CHECKING:
    from permitflow.tracing.parquet import ParquetWriter

_log = logging.getLogger(__name__)

# About 800 kB of text: one write per some ten milliseconds at full speed.
BUFFERED_EVENTS = 4096


class FileTrace:
    """A trace file that is being written; the recorders it hands out may be used from several threads.

    Events are buffered; they reach the file when ``buffered_events`` have come together, on ``flush``, on ``close``
    and when the interpreter exits.  A process that is killed takes the buffer with it.  A forked child does not
    write into its parent's file: it opens its own.  Recorders drop events after ``close``.

    Use it as a context manager, or close it.
    """

    def __init__(self, path: str | os.PathLike[str], *, buffered_events: int = BUFFERED_EVENTS) -> None:
        """Create the file, or empty it.

        Raises:
            InvalidParametersError: ``buffered_events`` is not positive.
            TraceWriteError: the file cannot be created.
        """
        if buffered_events < 1:
            raise InvalidParametersError(name="buffered_events", value=buffered_events, rule="must be at least 1")
        self.path = Path(path)
        self._buffered_events = buffered_events
        self._records: deque[Header | Event] = deque()
        self._opened: set[tuple[str, End]] = set()
        self._tables: dict[str, ActionTable] = {}
        self._lock = threading.Lock()
        self._failure: TraceWriteError | None = None
        try:
            self._writer: JsonLinesWriter | ParquetWriter | None = _writer_for(self.path)
        except OSError as error:
            raise _write_error(self.path, error) from error
        _open_traces.add(self)

    @classmethod
    def in_directory(cls, directory: str | os.PathLike[str], name: str) -> "FileTrace":
        """Create ``name-<process id>-<number>.jsonl``, so that several processes may share a folder.

        Raises:
            TraceWriteError: the file cannot be created.
        """
        folder = Path(directory)
        safe_name = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in name)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _write_error(folder, error) from error
        number = 0
        while (path := folder / f"{safe_name}-{os.getpid()}-{number}.jsonl").exists():
            number += 1
        return cls(path)

    @property
    def failure(self) -> TraceWriteError | None:
        """Why the recording stopped, if it did."""
        return self._failure

    def recorder(
        self, channel: str, end: End, table: ActionTable, parameters: Mapping[str, ParameterValue]
    ) -> Recorder:
        """Open one end of a channel; a ``RecorderFactory``.

        Raises:
            InvalidParametersError: this end of this channel was opened before, the trace is closed, or the channel is
                of another protocol than those before it and the file is Parquet, which has one set of columns.
        """
        header = Header(channel, end, table, parameters)
        with self._lock:
            if self._writer is None:
                raise InvalidParametersError(name="channel", value=channel, rule="needs a trace that is open")
            _require_new(header, self._opened)
            self._require_fitting(table)
            self._opened.add((channel, end))
            self._records.append(header)
        return _recorder(channel, end, self._append)

    def flush(self) -> None:
        """Write the buffered events.  ``close`` reports a failure."""
        with self._lock:
            self._drain()

    def close(self) -> None:
        """Write everything and close the file.  Closing twice is harmless.

        Raises:
            TraceWriteError: not everything could be written.
        """
        with self._lock:
            if self._writer is None:
                return
            self._drain()
            writer, self._writer = self._writer, None
            try:
                (writer.close if self._failure is None else writer.abandon)()
            except OSError as error:
                self._fail(error)
        _open_traces.discard(self)
        if self._failure is not None:
            raise self._failure

    def __enter__(self) -> "FileTrace":
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        """Close; an exception of the block hides one of the recording."""
        try:
            self.close()
        except TraceWriteError as failure:
            if error is None:
                raise
            error.add_note(str(failure))

    def _require_fitting(self, table: ActionTable) -> None:
        known = self._tables.setdefault(table.flow, table)
        if known != table:
            raise InvalidParametersError(name="table", value=table.flow, rule="must be that of its flow until now")
        if len(self._tables) > 1 and self.path.suffix == ".parquet":
            del self._tables[table.flow]
            rule = f"must be {next(iter(self._tables))!r} in this Parquet file; JSON lines hold several"
            raise InvalidParametersError(name="flow", value=table.flow, rule=rule)

    def _append(self, event: Event) -> None:
        records = self._records
        records.append(event)
        if len(records) >= self._buffered_events:
            self.flush()

    def _drain(self) -> None:
        records = self._records
        # Another thread may append meanwhile: take only the present events, and never replace the deque.
        block = [records.popleft() for _ in range(len(records))]
        if self._writer is None or self._failure is not None or not block:
            return
        try:
            self._writer.write(block)
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        if self._failure is None:
            self._failure = _write_error(self.path, error)
            self._failure.__cause__ = error
            _log.error("%s", self._failure)  # the end of the run may be far away

    def _abandon_in_child(self) -> None:
        self._lock = threading.Lock()
        self._records.clear()
        if self._writer is not None:
            self._writer.abandon()
            self._writer = None
        self._failure = TraceWriteError(path=str(self.path), reason="a forked process must open its own trace")


def _writer_for(path: Path) -> "JsonLinesWriter | ParquetWriter":
    if path.suffix != ".parquet":
        return JsonLinesWriter(path)
    from permitflow.tracing.parquet import ParquetWriter

    return ParquetWriter(path)


def _write_error(path: Path, error: OSError) -> TraceWriteError:
    return TraceWriteError(path=str(path), reason=error.strerror or str(error))


_open_traces: weakref.WeakSet[FileTrace] = weakref.WeakSet()


def _close_all() -> None:
    for trace in list(_open_traces):
        try:
            trace.close()
        except TraceWriteError as error:
            print(f"permitflow: {error}", file=sys.stderr)


def _abandon_all() -> None:
    for trace in list(_open_traces):
        trace._abandon_in_child()
    _open_traces.clear()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_abandon_all)


def _require_new(header: Header, opened: Container[tuple[str, End]]) -> None:
    if header[:2] in opened:
        rule = f"must be new to the trace ({header.end} is recorded)"
        raise InvalidParametersError(name="channel", value=header.channel, rule=rule)


def _recorder(channel: str, end: End, take: Callable[[Event], None]) -> Recorder:
    sequences = count(1)

    def record(action: str, arguments: tuple[int, ...], counters: tuple[int, ...]) -> None:
        take(Event(channel, end, next(sequences), action, arguments, monotonic(), counters))

    return record


class MemoryTrace:
    """A bounded ring of events: the newest ``limit`` of them are kept, of all channels together."""

    def __init__(self, *, limit: int = 1_000_000) -> None:
        """Start empty.

        Raises:
            InvalidParametersError: ``limit`` is not positive.
        """
        if limit < 1:
            raise InvalidParametersError(name="limit", value=limit, rule="must be at least 1")
        self._headers: list[Header] = []
        self._ring: deque[Event] = deque(maxlen=limit)
        self._recorded = 0

    @property
    def events(self) -> tuple[Event, ...]:
        """The kept events, in the order in which this process performed them."""
        return tuple(self._ring)

    @property
    def dropped(self) -> int:
        """Number of events that the ring has dropped."""
        return self._recorded - len(self._ring)

    def recorder(
        self, channel: str, end: End, table: ActionTable, parameters: Mapping[str, ParameterValue]
    ) -> Recorder:
        """Open one end of a channel; a ``RecorderFactory``.

        Raises:
            InvalidParametersError: this end of this channel was opened before.
        """
        header = Header(channel, end, table, parameters)
        _require_new(header, {header[:2] for header in self._headers})
        self._headers.append(header)
        return _recorder(channel, end, self._keep)

    def _keep(self, event: Event) -> None:
        self._ring.append(event)
        self._recorded += 1

    def trace(self) -> Trace:
        """The recording so far, as if it had been read from a file."""
        return assemble([Recording("memory", self._headers, self.events)])
