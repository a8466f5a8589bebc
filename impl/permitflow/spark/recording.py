"""What a task's streams did, for those who ask for it: actions and statistics, in files of the task's own."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from permitflow.channels.statistics import ChannelStatistics
from permitflow.errors import TraceWriteError
from permitflow.protocol.recording import RecorderFactory
from permitflow.tracing import FileTrace

__all__ = ["StreamRecording", "recording"]


class _Stream(Protocol):
    def statistics(self) -> ChannelStatistics: ...


class StreamRecording:
    """The streams of one task."""

    def __init__(self, record: RecorderFactory | None) -> None:
        """Without a ``record`` nothing is kept."""
        self.record = record
        self._streams: list[tuple[_Stream, Callable[[], Mapping[str, object]]]] = []

    def add(self, stream: _Stream, beside: Callable[[], Mapping[str, object]] = dict) -> None:
        """Have the statistics of a stream written at the end, and what is known beside them."""
        self._streams.append((stream, beside))

    def as_json(self) -> str:
        """The numbers of all streams."""
        return json.dumps([{**stream.statistics().as_json(), **beside()} for stream, beside in self._streams])


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
    with FileTrace.in_directory(trace_dir, name) as trace:
        streams = StreamRecording(trace.recorder)
        place = trace.path.with_suffix(".statistics.json")
        try:
            yield streams
        except BaseException:
            with suppress(TraceWriteError):  # what the task died of says more
                _write_whole(place, streams.as_json())
            raise
        _write_whole(place, streams.as_json())


def _write_whole(path: Path, text: str) -> None:
    # Whoever looks into the folder meanwhile must not see half a file.
    partial = path.with_suffix(".partial")
    try:
        partial.write_text(text)
        os.replace(partial, path)
    except OSError as error:
        raise TraceWriteError(path=str(path), reason=error.strerror or str(error)) from error
