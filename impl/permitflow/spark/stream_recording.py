"""What a streaming query did, for those who ask for it: the actions of ``SparkMicroBatch.tla``, in files.

The source's process and each task write a file of their own, a line of JSON for each event.  What they do not know,
Spark's checkpoint does: ``offsets/`` has the steps ``WriteOffsetLog``, and ``commits/`` the steps ``WriteCommitLog``.
"""

import json
from pathlib import Path
from typing import TextIO

from pyspark import TaskContext

from permitflow.errors import TraceWriteError
from permitflow.spark.stream_planning import Positions, RowRange

__all__ = ["EVENTS_SUFFIX", "QueryRecorder", "source_recorder", "task_recorder"]

EVENTS_SUFFIX = ".query.ndjson"
"""Not that of the traces of streams, which may lie in the same folder."""

_BATCH_ID = "streaming.sql.batchId"


class QueryRecorder:
    """Writes events to a file of its own; each is on disk when the call returns."""

    def __init__(self, folder: str | None, name: str) -> None:
        """Without a folder nothing is kept; the file appears with the first event."""
        self._folder = folder
        self._name = name
        self._file: TextIO | None = None
        self._seen: dict[str, tuple[int, int]] = {}

    @property
    def is_on(self) -> bool:
        """Is anything kept?"""
        return self._folder is not None

    def event(self, action: str, channel: str, **facts: int | str | None) -> None:
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

    def positions(self, action: str, rows: dict[str, int], positions: Positions) -> None:
        """Note an action for each channel, with what the exchange said after it, unless nothing has changed since."""
        for channel, row in rows.items():
            produced = positions[channel].next_row
            if self._seen.get(channel) != (row, produced):
                self._seen[channel] = (row, produced)
                self.event(action, channel, row=row, produced=produced)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _opened(self, folder: Path) -> TextIO:
        if self._file is None:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = _new_file(folder, self._name)
        return self._file


def source_recorder(folder: str | None, consumer: str) -> QueryRecorder:
    """Of the process in the driver that plans batches: one for each run of the query."""
    return QueryRecorder(folder, f"source-{_plain(consumer)}")


def task_recorder(folder: str | None, consumer: str, rows: RowRange) -> QueryRecorder:
    """Of an attempt at a task, with its first event.

    Spec: RunTask.
    """
    recorder = QueryRecorder(folder, f"task-{_plain(consumer)}")
    context = TaskContext.get()
    if recorder.is_on and context is not None:
        recorder.event(
            "RunTask",
            rows.channel,
            start=rows.from_row,
            end=rows.to_row,
            batch=int(context.getLocalProperty(_BATCH_ID) or -1),
            attempt=context.attemptNumber(),
        )
    return recorder


def _new_file(folder: Path, name: str) -> TextIO:
    """The first free number: so the files of a query's runs are in the order of these."""
    number = sum(1 for _ in folder.glob(f"{name}-*{EVENTS_SUFFIX}"))
    while True:
        try:
            return (folder / f"{name}-{number:06}{EVENTS_SUFFIX}").open("x", buffering=1, encoding="utf-8")
        except FileExistsError:
            number += 1


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name)
