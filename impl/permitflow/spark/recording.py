"""Records, if asked to, the actions of a task's streams and of a streaming query, in files.

Each task writes the actions and the statistics of its streams into files of its own.

A query records the actions of ``SparkMicroBatch.tla``.  The source's process and each task write one file each, with a
line of JSON for each event.  Spark's checkpoint has the two steps that they do not see: ``offsets/`` has
``WriteOffsetLog``, and ``commits/`` has ``WriteCommitLog``.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol, TextIO

from pyspark import TaskContext

from permitflow.channels.statistics import ChannelStatistics
from permitflow.errors import RowsLostError, TraceWriteError
from permitflow.flows.recording import RecorderFactory
from permitflow.spark.stream_planning import Position, Positions, RowRange, StreamOffset

EVENTS_SUFFIX = ".query.ndjson"
"""Differs from the ending of stream traces, which may lie in the same folder."""

_BATCH_ID = "streaming.sql.batchId"


class _Stream(Protocol):
    def statistics(self) -> ChannelStatistics: ...


class StreamRecording:
    """Records the streams of one task."""

    def __init__(self, record: RecorderFactory | None) -> None:
        """It keeps nothing if there is no ``record``."""
        self.record = record
        self._streams: list[_Stream] = []

    def add(self, stream: _Stream) -> None:
        """Write the statistics of a stream at the end."""
        self._streams.append(stream)

    def as_json(self) -> str:
        """The numbers of all streams."""
        return json.dumps([stream.statistics().as_json() for stream in self._streams])


@contextmanager
def recording(trace_dir: str | None, name: str) -> Iterator[StreamRecording]:
    """Record the streams that are opened in the block into ``trace_dir``; None records nothing.

    Files appear as ``<name>-<process>-<number>.jsonl``, and beside each the statistics as ``.statistics.json``.

    Raises:
        TraceWriteError: the folder cannot be written.
    """
    if trace_dir is None:
        yield StreamRecording(None)
        return
    # Loaded only to record: each worker imports this module.
    from permitflow.tracing import FileTrace

    with FileTrace.in_directory(trace_dir, name) as trace:
        streams = StreamRecording(trace.recorder)
        place = trace.path.with_suffix(".statistics.json")
        try:
            yield streams
        except BaseException:
            with suppress(TraceWriteError):  # the task's own error says more
                _write_whole(place, streams.as_json())
            raise
        _write_whole(place, streams.as_json())


def _write_whole(path: Path, text: str) -> None:
    # Renamed at the end: a reader of the folder must not see half a file.
    partial = path.with_suffix(".partial")
    try:
        partial.write_text(text)
        os.replace(partial, path)
    except OSError as error:
        raise TraceWriteError(path=str(path), reason=error.strerror or str(error)) from error


class QueryRecorder:
    """Writes events to a file of its own; each event is in the file when the call returns."""

    def __init__(self, folder: str | None, name: str) -> None:
        """It keeps nothing if there is no folder; the file appears with the first event."""
        self._folder = folder
        self._name = name
        self._file: TextIO | None = None

    @property
    def is_on(self) -> bool:
        """Does it record?"""
        return self._folder is not None

    @property
    def is_empty(self) -> bool:
        """Has nothing been noted yet?"""
        return self._file is None

    def note(self, action: str, channel: str, **facts: int | str | None) -> None:
        """Note that an action of the specification has happened.

        Raises:
            TraceWriteError: the file cannot be written.
        """
        if self._folder is None:
            return
        line = json.dumps({"action": action, "channel": channel, **facts})
        try:
            self._opened(Path(self._folder)).write(line + "\n")
        except OSError as error:
            raise TraceWriteError(path=self._folder, reason=str(error)) from error

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _opened(self, folder: Path) -> TextIO:
        if self._file is None:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = _new_file(folder, self._name)
        return self._file


class SourceRecorder(QueryRecorder):
    """Records the process beside the driver that plans batches: one file for each run of the query."""

    def __init__(self, folder: str | None, consumer: str) -> None:
        super().__init__(folder, file_name_of("source", consumer))
        self._seen: dict[str, tuple[int, int, int]] = {}

    def restarted(self, positions: Positions, cap: Callable[[Position], int]) -> None:
        """The query runs, for the first time or again.

        Spec: Restart of SparkMicroBatch.
        """
        for channel, position in positions.items():
            row, limit_rows = position.acknowledged_row, position.limit_rows
            self.note("Restart", channel, row=row, row_permits=limit_rows, batch_cap=cap(position))

    def acknowledged(self, start: StreamOffset, before: Positions, after: Positions) -> None:
        """Rows were acknowledged; only a change of the exchange's positions is noted.

        Spec: Acknowledge of SparkMicroBatch.
        """
        for channel, row in start.rows.items():
            there = _rows_of(after[channel])
            if self._seen.get(channel) != (row, *there.values()):
                self._seen[channel] = (row, there["produced"], there["expired"])
                self.note("Acknowledge", channel, row=row, before=before[channel].acknowledged_row, **there)

    def planned(self, start: StreamOffset, end: StreamOffset, positions: Positions) -> None:
        """A batch was planned.

        Spec: PlanBatch of SparkMicroBatch.
        """
        for channel, to_row in end.rows.items():
            from_row = start.rows.get(channel, to_row)
            if to_row > from_row:
                self.note("PlanBatch", channel, start=from_row, end=to_row, **_rows_of(positions[channel]))

    def lost(self, error: RowsLostError, positions: Positions) -> None:
        """The query cannot go on; ``positions`` are the exchange's last ones.

        Spec: ReportLoss of SparkMicroBatch.
        """
        there = _rows_of(positions[error.channel]) if error.channel in positions else {}
        self.note("ReportLoss", error.channel, row=error.wanted_row, **there)


def _rows_of(position: Position) -> dict[str, int]:
    """What the exchange has had of a channel, and what of it has expired."""
    return {"produced": position.next_row, "expired": position.expired_row}


@contextmanager
def recorded_task(folder: str | None, consumer: str, rows: RowRange) -> Iterator[None]:
    """Note that an attempt at a task begins, and at the end of the block that it has read all its rows, or failed.

    Spec: RunTask, Stage, FailTask of SparkMicroBatch.
    """
    recorder, context = QueryRecorder(folder, file_name_of("task", consumer)), TaskContext.get()
    batch = context.getLocalProperty(_BATCH_ID) if context is not None else None
    facts = {"start": rows.from_row, "end": rows.to_row, "batch": batch and int(batch)}
    try:
        recorder.note("RunTask", rows.channel, **facts)
        yield
        recorder.note("Stage", rows.channel, **facts)
    except BaseException:
        with suppress(TraceWriteError):  # the task's own error says more
            recorder.note("FailTask", rows.channel, **facts)
        raise
    finally:
        recorder.close()


def _new_file(folder: Path, name: str) -> TextIO:
    """Open the file with the first free number, so that file names sort in the order of a query's runs."""
    number = sum(1 for _ in folder.glob(f"{name}-*{EVENTS_SUFFIX}"))
    while True:
        try:
            return (folder / f"{name}-{number:06}{EVENTS_SUFFIX}").open("x", buffering=1, encoding="utf-8")
        except FileExistsError:
            number += 1


def file_name_of(kind: str, consumer: str) -> str:
    """The start of the file names that the source ("source") and its tasks ("task") write."""
    return f"{kind}-{''.join(letter if letter.isalnum() else '_' for letter in consumer)}"
