"""Which attempts at a batch count, written down before the first of several exchanges publishes its part of it.

A publication is all or nothing in one exchange.  With several exchanges, the first may have published its part when the
driver dies, and a batch that Spark runs again has other attempts, whose rows may lie elsewhere.  So this is two-phase
commit: every exchange prepares the attempts that count, then the driver writes them into the query's checkpoint, and
that is the moment at which the batch is published.  A driver that finds such a decision carries it out, however late,
and forgets it once every exchange has published.
"""

import json
import os
import re
from hashlib import blake2b
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from uuid import uuid4

from permitflow.errors import CheckpointError
from permitflow.stream.control import StagedPart

_FOLDER = "permitflow"
_SUFFIX = ".json"
_S3_OF_HADOOP = re.compile("^s3[an]:")
"""How Spark's checkpoints call S3."""


class Decision(NamedTuple):
    """The attempts at the partitions of a batch that count."""

    query: str
    batch: int
    parts: tuple[StagedPart, ...]
    channels: tuple[str, ...]
    """Of the whole stream: an exchange that has some of them, and none of the rows, learns of the batch as well."""

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.batch}-{blake2b(self.query.encode(), digest_size=8).hexdigest()}{_SUFFIX}"


class Decisions:
    """The decisions of a query that are not carried out yet, each a file in a folder of its checkpoint."""

    def __init__(self, checkpoint: str) -> None:
        """Use a path, or an address of a file system that PyArrow reaches, such as ``s3a://bucket/folder``.

        Raises:
            CheckpointError: there is no such file system.
        """
        from pyarrow import ArrowInvalid
        from pyarrow.fs import FileSystem, LocalFileSystem

        self._checkpoint = checkpoint
        try:
            if ":" in checkpoint.partition("/")[0]:
                self._files, folder = FileSystem.from_uri(re.sub(_S3_OF_HADOOP, "s3:", checkpoint))
            else:
                self._files, folder = LocalFileSystem(), checkpoint
        except (ArrowInvalid, OSError, ImportError) as error:
            raise self._failure(error) from error
        self._is_local = isinstance(self._files, LocalFileSystem)
        self._folder = PurePosixPath(folder) / _FOLDER

    def pending(self) -> list[Decision]:
        """The decisions that may not have been carried out everywhere, by query and batch.

        Raises:
            CheckpointError: they cannot be read.
        """
        from pyarrow.fs import FileSelector

        try:
            found = self._files.get_file_info(FileSelector(str(self._folder), allow_not_found=True))
            return sorted(self._read(each.path) for each in found if each.path.endswith(_SUFFIX))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise self._failure(error) from error

    def decide(self, decision: Decision) -> Decision:
        """Keep it, and return it; or the one that stands already for its batch.

        On a local file system it survives a crash of the machine from then on.

        If two drivers decide at the same moment, the first one counts on a local file system.  Elsewhere it may be the
        last one, so two must not run at once, which Spark forbids as well.

        Raises:
            CheckpointError: it cannot be written; nothing is decided.
        """
        path = str(self._folder / decision.name)
        draft = f"{path}.{uuid4().hex}"
        try:
            for earlier in self.pending():
                if earlier.name == decision.name:
                    return earlier
            self._files.create_dir(str(self._folder), recursive=True)
            with self._files.open_output_stream(draft) as file:
                file.write(json.dumps(decision._asdict()).encode())
            if not self._is_local:
                self._files.move(draft, path)
                return decision
            try:
                _flush(draft)
                os.link(draft, path)
            except FileExistsError:
                decision = self._read(path)
            finally:
                self._files.delete_file(draft)
            for folder in (self._folder, self._folder.parent):
                _flush(str(folder))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise self._failure(error) from error
        return decision

    def where(self, decision: Decision) -> str:
        """Its file, in words."""
        return f"{decision.name} in folder {_FOLDER} of {self._checkpoint}"

    def forget(self, decision: Decision) -> None:
        """It was carried out everywhere.

        Raises:
            CheckpointError: its file cannot be deleted.
        """
        try:
            self._files.delete_file(str(self._folder / decision.name))
        except FileNotFoundError:
            pass  # by another driver
        except OSError as error:
            raise self._failure(error) from error

    def _read(self, path: str) -> Decision:
        with self._files.open_input_stream(path) as file:
            found: dict[str, Any] = json.loads(file.read())
        parts = tuple(StagedPart(*part) for part in found["parts"])
        return Decision(found["query"], found["batch"], parts, tuple(found["channels"]))

    def _failure(self, error: Exception) -> CheckpointError:
        return CheckpointError(
            reason=f"at {self._checkpoint} cannot keep what several exchanges have to publish ({error})",
            hint="give option checkpointLocation a folder that this process can read and write",
        )


def _flush(path: str) -> None:
    """Let a file's contents, or the names in a folder, survive a crash of the machine."""
    is_folder = os.path.isdir(path)
    if is_folder and not hasattr(os, "O_DIRECTORY"):
        return  # this system cannot open folders
    number = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR)
    try:
        os.fsync(number)
    finally:
        os.close(number)
