"""A disk whose faults are drawn: it loses what was not flushed, tears writes, is full, cannot be written to, or lies.

A file has two contents: what programs see, and what would be there after a power failure.  Between them are the writes
since the last flush; a power failure keeps any of them, and of each one any run of sectors.  Names are as file systems
with a log keep them: some of the changes since the folder was flushed are lost, from the newest on.
"""

import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final, TypeAlias

__all__ = ["Crashed", "File", "SimulatedDisk"]

SECTOR_BYTES: Final = 512

NEVER: Final = 1 << 62


class Crashed(BaseException):
    """The process is dead: nothing of it runs any more."""


_Write: TypeAlias = tuple[int, bytes | None]
"""Where, and what; None: the file ends there."""

_Change: TypeAlias = tuple[tuple[str, "File | None"], ...]
"""Names that files get together; None: no file has the name."""


def _apply(content: bytearray, write: _Write) -> None:
    at, data = write
    if len(content) < at:
        content.extend(bytes(at - len(content)))
    if data is None:
        del content[at:]
    else:
        content[at : at + len(data)] = data


@dataclass(slots=True, eq=False)
class File:
    """The contents of a file, which may have names, and be open."""

    content: bytearray = field(default_factory=bytearray)
    """What programs see."""
    kept: bytearray = field(default_factory=bytearray)
    """What was there when it was flushed."""
    written: list[_Write] = field(default_factory=list)
    """Since then."""
    filled_bytes: int = 0
    """Its size, if it only takes up space."""
    name: str = ""
    """That it was made with."""
    locked_by: object = None
    """The connection that has it for itself."""

    @property
    def size_bytes(self) -> int:
        """As programs see it."""
        return self.filled_bytes or len(self.content)


@dataclass(slots=True)
class Faults:
    """What can go wrong with a disk, besides crashes."""

    capacity_bytes: int = NEVER
    """It is full from there on."""
    is_read_only: bool = False
    becoming_read_only: float = 0.0
    """The share of writes and changes of names at which it becomes read-only, as file systems do after an error."""
    failing_flushes: float = 0.0
    """The share of flushes that fail; what was to be flushed is lost, and later flushes do not tell (as Linux)."""
    fails_next_flush: bool = False
    """The same once."""
    failing_writes: float = 0.0
    """The share of writes that fail, and change nothing."""
    lying_flushes: float = 0.0
    """The share of flushes that do nothing, and say that they have."""
    lying_about: str = ""
    """In the names of the files whose flushes lie."""


class SimulatedDisk:
    """The files of one machine, by their paths.  What a process does on it after its death raises ``Crashed``."""

    def __init__(self, random: Random) -> None:
        """Empty, and without faults."""
        self.random = random
        self.faults = Faults()
        self.operations = 0
        """How many writes, flushes and changes of names were begun."""
        self.crashes_at = NEVER
        """The operation at which the process that uses the disk dies."""
        self.on_crash: Callable[[], object] = lambda: None
        self.is_dead = False
        """Has the process that used it died?"""
        self.failed_flushes = self.lies = 0
        """How many flushes said that they had flushed something, and had not."""
        self._names: dict[str, File] = {}
        self._kept_names: dict[str, File] = {}
        self._renamings: list[_Change] = []
        """Changes of names since the folder was flushed."""

    def take_over(self, other: "SimulatedDisk", root: str) -> None:
        """Begin with a copy of the files of a disk, whose paths begin with this folder from now on."""
        for path, file in other._names.items():
            _, _, rest = path.split("/", 2)
            copied = File(
                bytearray(file.content), bytearray(file.content), filled_bytes=file.filled_bytes, name=file.name
            )
            self._names[f"/{root}/{rest}"] = self._kept_names[f"/{root}/{rest}"] = copied

    # Crashes.

    def crash(self) -> None:
        """The process that uses the disk dies now."""
        if not self.is_dead:
            self.is_dead = True
            self.on_crash()

    def go_on(self, *, had_power: bool) -> None:
        """Another process begins to use the disk.

        Args:
            had_power: only the process died, so that nothing that it wrote is lost.
        """
        if not had_power:
            self.lose_power()
        for file in self._names.values():
            file.locked_by = None
        self.is_dead = False
        self.crashes_at = NEVER

    def lose_power(self) -> None:
        """Lose some of what was not flushed."""
        draw = self.random
        kept = dict(self._kept_names)
        for change in self._renamings[: draw.randint(0, len(self._renamings))]:
            _rename(kept, change)
        self._names, self._kept_names = kept, dict(kept)
        self._renamings.clear()
        share = draw.choice((0.0, 0.5, 1.0))
        for file in dict.fromkeys(kept.values()):
            for write in file.written:
                if share == 1.0 or draw.random() < share:
                    _apply(file.kept, self._torn(write))
            file.written.clear()
            file.content = bytearray(file.kept)

    def _torn(self, write: _Write) -> _Write:
        at, data = write
        if data is None or len(data) <= SECTOR_BYTES or self.random.random() < 0.5:
            return write
        sectors = -(-len(data) // SECTOR_BYTES)
        first = self.random.randint(0, sectors)
        last = self.random.randint(first, sectors)
        return at + first * SECTOR_BYTES, data[first * SECTOR_BYTES : last * SECTOR_BYTES]

    def _operate(self) -> None:
        if self.is_dead:
            raise Crashed
        self.operations += 1
        if self.operations >= self.crashes_at:
            self.crash()
            raise Crashed

    # Files.

    def find(self, name: str) -> File | None:
        """The file of this name, if it is there."""
        if self.is_dead:
            raise Crashed
        return self._names.get(name)

    def content_of(self, name: str) -> bytes | None:
        """What is in a file now, for who judges; None: it is not there."""
        file = self._names.get(name)
        return None if file is None else bytes(file.content)

    def contents(self, *, flushed: bool) -> dict[str, bytes]:
        """What is in all files, as programs see it, or as it was flushed, for who judges."""
        names = self._kept_names if flushed else self._names
        return {name: bytes(file.kept if flushed else file.content) for name, file in names.items()}

    def leave(self, name: str, content: bytes | None) -> None:
        """Let a file have this content, flushed, whatever was written; None: it is not there."""
        file = None if content is None else File(bytearray(content), bytearray(content), name=name)
        self._name(name, file)
        self.flush_names()

    def make(self, name: str) -> File:
        """An empty file of this name.

        Raises:
            OSError: the disk is read-only.
        """
        self._require_writable()
        self._operate()
        file = File(name=name)
        self._name(name, file)
        return file

    def write(self, file: File, at: int, data: bytes) -> None:
        """Write to a file.

        Raises:
            OSError: the disk is full, read-only, or fails.
        """
        self._require_writable()
        self._operate()
        if self.faults.failing_writes and self.random.random() < self.faults.failing_writes:
            raise OSError(errno.EIO, "Input/output error")
        if self.faults.capacity_bytes != NEVER:
            grown = at + len(data) - len(file.content)
            if grown > 0 and grown > self.free_bytes():
                raise OSError(errno.ENOSPC, "No space left on device")
        _apply(file.content, (at, data))
        file.written.append((at, data))

    def cut(self, file: File, size_bytes: int) -> None:
        """Let a file end there."""
        self._require_writable()
        self._operate()
        _apply(file.content, (size_bytes, None))
        file.written.append((size_bytes, None))

    def fill(self, name: str, size_bytes: int) -> None:
        """Make a file that takes up so much space.

        Raises:
            OSError: there is not so much.
        """
        file = self.make(name)
        if size_bytes > self.free_bytes():
            raise OSError(errno.ENOSPC, "No space left on device")
        file.filled_bytes = size_bytes

    def flush(self, file: File) -> None:
        """Let the contents of a file survive a power failure.

        Raises:
            OSError: it failed.
        """
        self._operate()
        faults, draw = self.faults, self.random.random
        if faults.lying_flushes and faults.lying_about in file.name and file.written and draw() < faults.lying_flushes:
            self.lies += 1
            return
        if faults.fails_next_flush or (faults.failing_flushes and draw() < faults.failing_flushes):
            faults.fails_next_flush = False
            self.failed_flushes += 1
            file.written.clear()
            raise OSError(errno.EIO, "Input/output error")
        for write in file.written:
            _apply(file.kept, write)
        file.written.clear()

    def flush_names(self) -> None:
        """Let the names of files survive a power failure."""
        self._operate()
        for change in self._renamings:
            _rename(self._kept_names, change)
        self._renamings.clear()

    def name(self, name: str, file: File) -> None:
        """Give a file a name as well, which another one may have had."""
        self._require_writable()
        self._operate()
        self._name(name, file)

    def rename(self, old: str, new: str) -> None:
        """Rename a file, at once: after a power failure it has one of the names.

        Raises:
            OSError: there is none.
        """
        file = self.find(old)
        if file is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", old)
        self._require_writable()
        self._operate()
        self._change(((old, None), (new, file)))

    def remove(self, name: str) -> None:
        """Take a name away, if it is there."""
        self._require_writable()
        self._operate()
        self._name(name, None)

    def used_bytes(self) -> int:
        """By all files."""
        return sum(file.size_bytes for file in dict.fromkeys(self._names.values()))

    def free_bytes(self) -> int:
        """How much can still be written."""
        return max(0, self.faults.capacity_bytes - self.used_bytes())

    def _name(self, name: str, file: File | None) -> None:
        self._change(((name, file),))

    def _change(self, change: _Change) -> None:
        _rename(self._names, change)
        self._renamings.append(change)

    def _require_writable(self) -> None:
        faults = self.faults
        if faults.becoming_read_only and self.random.random() < faults.becoming_read_only:
            faults.is_read_only = True
        if faults.is_read_only:
            raise OSError(errno.EROFS, "Read-only file system")


def _rename(names: dict[str, File], change: _Change) -> None:
    for name, file in change:
        if file is None:
            names.pop(name, None)
        else:
            names[name] = file
