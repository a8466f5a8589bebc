"""Keeps how far a recording was judged in a file, so that an interrupted judgement goes on where it was."""

import hashlib
import io
import json
import os
import pickle
from collections.abc import Sequence
from dataclasses import is_dataclass
from importlib.metadata import version
from pathlib import Path
from tempfile import NamedTemporaryFile
from time import monotonic
from typing import Any

from permitflow.errors import TraceUnreadableError
from permitflow.tracing.events import Recording
from permitflow_model.kernel.queue import SummedFifo

_FORMAT = 2
# A whole checkpoint of a thousand channels is some megabytes.
_BETWEEN_SECONDS = 5.0
_EDGE_BYTES = 1 << 16
_PLAIN = ("collections.Counter", "collections.deque", "builtins.set", "builtins.frozenset")


class Checkpoint:
    """A file beside a recording; it is replaced as a whole, so that a crash leaves the one before."""

    def __init__(
        self, path: Path, files: Sequence[Recording], channels: Sequence[str], *, allow_truncated: bool
    ) -> None:
        """It belongs to these channels of these files; they may lie elsewhere when it is used again."""
        self.path = path
        self._belongs = {
            "permitflow_checkpoint": _FORMAT,
            "permitflow": version("permitflow"),
            "recording": [_marks_of(Path(file.source)) for file in files],
            "channels": list(channels),
            "allow_truncated": allow_truncated,
        }
        self._parts: dict[int, bytes] = {}
        self._written_at = monotonic()

    def read(self) -> list[Any]:
        """What was kept; empty: nothing was.

        Raises:
            TraceUnreadableError: it is not a checkpoint, belongs to something else, or is damaged.
        """
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from error
        head, _, body = content.partition(b"\n")
        try:
            told = json.loads(head)
            digest = told.pop("sha256")
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
            raise self._unusable("is not a checkpoint of `permitflow trace validate`") from error
        for key, what in (
            ("permitflow_checkpoint", "is of another format"),
            ("permitflow", "was written by another version of permitflow"),
            ("recording", "belongs to another recording, or the files have changed"),
            ("channels", "is about other channels"),
            ("allow_truncated", "was begun with another --allow-truncated"),
        ):
            if told.get(key) != self._belongs[key]:
                raise self._unusable(what)
        if hashlib.sha256(body).hexdigest() != digest:
            raise self._unusable("is damaged")
        try:
            parts = _Reader(io.BytesIO(body)).load()
            kept = [_Reader(io.BytesIO(part)).load() for part in parts]
        except (
            pickle.UnpicklingError,
            AttributeError,
            EOFError,
            ImportError,
            LookupError,
            TypeError,
            ValueError,
        ) as error:
            raise self._unusable(f"holds something else ({error})") from error
        self._parts = dict(enumerate(parts))
        return kept

    def keep(self, number: int, part: object, of: Sequence[object]) -> None:
        """Remember one of several parts; from time to time, write all of them.

        Raises:
            TraceUnreadableError: it cannot be written.
        """
        for other, unchanged in enumerate(of):
            if other not in self._parts:
                self._parts[other] = pickle.dumps(unchanged)
        self._parts[number] = pickle.dumps(part)
        if monotonic() - self._written_at >= _BETWEEN_SECONDS:
            self.write()

    def write(self) -> None:
        """Write what was kept last.

        Raises:
            TraceUnreadableError: it cannot be written.
        """
        if not self._parts:
            return
        body = pickle.dumps([self._parts[number] for number in range(len(self._parts))])
        head = json.dumps({**self._belongs, "sha256": hashlib.sha256(body).hexdigest()}).encode()
        try:
            with NamedTemporaryFile(dir=self.path.parent, prefix=self.path.name, delete=False) as file:
                try:
                    file.write(head + b"\n" + body)
                    file.flush()
                    os.fsync(file.fileno())
                    os.replace(file.name, self.path)
                except BaseException:
                    os.unlink(file.name)
                    raise
        except OSError as error:
            raise self._unusable(f"cannot be written: {error.strerror or error}") from error
        self._written_at = monotonic()

    def remove(self) -> None:
        """It has served its purpose."""
        self.path.unlink(missing_ok=True)

    def _unusable(self, what: str) -> TraceUnreadableError:
        reason = f"the checkpoint {what}; delete it to begin anew, or name another file"
        return TraceUnreadableError(path=str(self.path), line=0, reason=reason)


def _marks_of(path: Path) -> list[object]:
    """Name, size, and a hash of both ends: what files of gigabytes can be told apart by."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        edges = hashlib.sha256(file.read(_EDGE_BYTES))
        file.seek(max(0, size - _EDGE_BYTES))
        edges.update(file.read(_EDGE_BYTES))
    return [path.name, size, edges.hexdigest()]


class _Reader(pickle.Unpickler):
    """Makes plain values and records only: a checkpoint may come from anywhere, and must not run anything."""

    def find_class(self, module: str, name: str) -> Any:
        """A class of records, or of a few collections."""
        found = (
            super().find_class(module, name) if module.startswith(("permitflow", "collections", "builtins")) else None
        )
        is_record = isinstance(found, type) and (issubclass(found, tuple | SummedFifo) or is_dataclass(found))
        if f"{module}.{name}" in _PLAIN or is_record:
            return found
        raise pickle.UnpicklingError(f"{module}.{name} is nothing that a checkpoint holds")
