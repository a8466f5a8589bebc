"""The file of a recording: a new one, for what was recorded before may be the only evidence of it."""

import os
from pathlib import Path
from types import TracebackType
from typing import Self

from permitflow.cli.outcomes import unusable
from permitflow.cli.output import is_special
from permitflow.errors import TraceWriteError
from permitflow.tracing import FileTrace

__all__ = ["NewRecording"]

# A process that is killed takes so many events of its recording with it.
EVENTS_LOST_AT_MOST = 32


class NewRecording:
    """A trace in a file that was not there; a context manager that closes it.

    Of a run that has never begun it leaves nothing: the next one can take the same name.
    """

    def __init__(self, option: str, path: Path) -> None:
        """Make the file, or end the command: there is one, or none can be made."""
        self._made = _made(option, path)
        self._has_begun = False
        try:
            self.trace = _file_trace(path)
        except TraceWriteError as error:
            self._take_back()
            unusable(f"{option}: cannot write {path}: {error.reason}")

    def begin(self) -> None:
        """From now on there may be something to tell."""
        self._has_begun = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.trace.__exit__(kind, error, traceback)
        finally:
            if not self._has_begun:
                self._take_back()

    def _take_back(self) -> None:
        if self._made is not None:
            self._made.unlink(missing_ok=True)


def _made(option: str, path: Path) -> Path | None:
    """Make the file; what is none, as a pipe or what a caller has open, is written to as it is."""
    if is_special(path):
        return None
    place = Path(os.path.realpath(path))
    try:
        # In one step: of two that want the same name at the same time, one gets it.  So an empty file is none to take:
        # it may be that of a run that has not told anything yet.
        os.close(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    except FileExistsError:
        unusable(f"{option}: {path} is there already, and what was recorded is not written over: name a new file")
    except OSError as error:
        unusable(f"{option}: cannot write {path}: {error.strerror or error}")
    return place


def _file_trace(path: Path) -> FileTrace:
    if path.suffix == ".parquet":
        # Killed, it cannot be read anyway.
        return FileTrace(path)
    return FileTrace(path, buffered_events=EVENTS_LOST_AT_MOST)
