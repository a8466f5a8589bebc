"""Lets Python's own ``sqlite3`` keep its databases on simulated disks.

SQLite asks for a "virtual file system"; this one is registered with the very library that ``sqlite3`` calls.
Reference: https://www.sqlite.org/c3ref/vfs.html, https://www.sqlite.org/c3ref/io_methods.html.
"""

import _sqlite3
import errno
import os
import sqlite3
from collections.abc import Callable
from ctypes import (
    CDLL,
    CFUNCTYPE,
    POINTER,
    Structure,
    byref,
    c_char_p,
    c_double,
    c_int,
    c_int64,
    c_void_p,
    cast,
    memmove,
    memset,
    pointer,
    sizeof,
    string_at,
)
from functools import wraps
from typing import Any, Final

from tests.simulator.disk import Crashed, File, SimulatedDisk

_NAME: Final = "simulated"

_SHORT_READ: Final = sqlite3.SQLITE_IOERR_SHORT_READ
_CODES: Final = {
    errno.ENOSPC: sqlite3.SQLITE_FULL,
    errno.EROFS: sqlite3.SQLITE_READONLY,
}
_IS_POWERSAFE_OVERWRITE: Final = 0x1000
_EXISTS, _READ_WRITE, _READ = 0, 1, 2
_CREATE, _DELETES_ON_CLOSE = 0x4, 0x8
_JOURNALS_AND_LOGS: Final = 0x800 | 0x4000 | 0x80000
_LOCK_SHARED, _LOCK_NONE = 1, 0
_GET_LOCK_STATE, _SIZE_HINT = 1, 5


class _OpenFile:
    """One opening of a file."""

    __slots__ = ("deletes", "disk", "file", "flushes_names", "has_lock", "name")

    def __init__(self, disk: SimulatedDisk, file: File, name: str, flags: int) -> None:
        self.disk, self.file, self.name = disk, file, name
        self.deletes = bool(flags & _DELETES_ON_CLOSE)
        # As SQLite does on Unix, which asks who may make the file, not who has: a killed process may have made it.
        self.flushes_names = bool(flags & _CREATE and flags & _JOURNALS_AND_LOGS)
        self.has_lock = False


class _Struct(Structure):
    """``sqlite3_file``, and our number of the opening."""

    _fields_ = (("methods", c_void_p), ("number", c_int64))


_NUMBER_AT: Final = _Struct.number.offset

_Method = CFUNCTYPE(c_int, c_void_p)
_Transfer = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_WithSize = CFUNCTYPE(c_int, c_void_p, c_int64)
_WithInt = CFUNCTYPE(c_int, c_void_p, c_int)
_WithPointer = CFUNCTYPE(c_int, c_void_p, c_void_p)
_Control = CFUNCTYPE(c_int, c_void_p, c_int, c_void_p)


class _Methods(Structure):
    """``sqlite3_io_methods``, version 1: without shared memory, so a log needs the file for itself."""

    _fields_ = (
        ("version", c_int),
        ("close", _Method),
        ("read", _Transfer),
        ("write", _Transfer),
        ("truncate", _WithSize),
        ("sync", _WithInt),
        ("file_size", _WithPointer),
        ("lock", _WithInt),
        ("unlock", _WithInt),
        ("check_reserved_lock", _WithPointer),
        ("file_control", _Control),
        ("sector_size", _Method),
        ("device_characteristics", _Method),
    )


_Open = CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p, c_int, POINTER(c_int))
_Delete = CFUNCTYPE(c_int, c_void_p, c_char_p, c_int)
_Access = CFUNCTYPE(c_int, c_void_p, c_char_p, c_int, POINTER(c_int))
_FullPath = CFUNCTYPE(c_int, c_void_p, c_char_p, c_int, c_void_p)
_Randomness = CFUNCTYPE(c_int, c_void_p, c_int, c_void_p)
_CurrentTime = CFUNCTYPE(c_int, c_void_p, POINTER(c_double))


class _System(Structure):
    """``sqlite3_vfs``, version 1."""

    _fields_ = (
        ("version", c_int),
        ("file_bytes", c_int),
        ("longest_path", c_int),
        ("next", c_void_p),
        ("name", c_char_p),
        ("data", c_void_p),
        ("open", _Open),
        ("delete", _Delete),
        ("access", _Access),
        ("full_path", _FullPath),
        ("open_library", c_void_p),
        ("library_error", c_void_p),
        ("library_symbol", c_void_p),
        ("close_library", c_void_p),
        ("randomness", _Randomness),
        ("sleep", _WithInt),
        ("current_time", _CurrentTime),
        ("last_error", c_void_p),
    )


_disks: dict[str, SimulatedDisk] = {}
_open: dict[int, _OpenFile] = {}
_last_number = 0


def mount(root: str, disk: SimulatedDisk) -> None:
    """Let paths that begin with this folder, of the root folder, be on this disk."""
    _disks[root] = disk


def unmount(root: str) -> None:
    """Undo ``mount``."""
    _disks.pop(root, None)


def connect(path: str) -> sqlite3.Connection:
    """Open a database on a simulated disk, as the store opens one."""
    return sqlite3.connect(
        f"file:{path}?vfs={_NAME}", uri=True, timeout=0, isolation_level=None, check_same_thread=False
    )


def _disk_of(name: str) -> SimulatedDisk:
    return _disks[name.split("/", 2)[1]]


def _coded(failed: int) -> Callable[[Callable[..., int | None]], Callable[..., int]]:
    """Let a callback return the code of its error; SQLite would never see an exception."""

    def decorate(do: Callable[..., int | None]) -> Callable[..., int]:
        @wraps(do)
        def answer(*arguments: Any) -> int:
            try:
                return do(*arguments) or sqlite3.SQLITE_OK
            except OSError as error:
                return _CODES.get(error.errno or 0, failed)
            except Crashed:
                return failed

        return answer

    return decorate


def _of(pointer: int) -> _OpenFile:
    return _open[c_int64.from_address(pointer + _NUMBER_AT).value]


@_coded(sqlite3.SQLITE_CANTOPEN)
def _on_open(_: int, name: bytes | None, pointer: int, flags: int, out_flags: Any) -> int | None:
    global _last_number
    struct = _Struct.from_address(pointer)
    struct.methods = None
    if name is None:  # temporary
        raise OSError(errno.ENOTSUP, "temporary files are not simulated: SQLite keeps them in memory")
    path = name.decode()
    disk = _disk_of(path)
    file = disk.find(path)
    if file is None:
        if not flags & _CREATE:
            return sqlite3.SQLITE_CANTOPEN
        file = disk.make(path)
    if out_flags:
        out_flags[0] = flags
    _last_number += 1
    _open[_last_number] = _OpenFile(disk, file, path, flags)
    struct.number = _last_number
    struct.methods = cast(byref(_METHODS), c_void_p)
    return None


@_coded(sqlite3.SQLITE_IOERR_CLOSE)
def _on_close(pointer: int) -> int | None:
    opened = _open.pop(c_int64.from_address(pointer + _NUMBER_AT).value)
    if opened.has_lock and opened.file.locked_by is opened:
        opened.file.locked_by = None
    if opened.deletes:
        opened.disk.remove(opened.name)
    return None


@_coded(sqlite3.SQLITE_IOERR_READ)
def _on_read(pointer: int, to: int, size: int, at: int) -> int | None:
    opened = _of(pointer)
    if opened.disk.is_dead:
        return sqlite3.SQLITE_IOERR_READ
    data = bytes(opened.file.content[at : at + size])
    memmove(to, data, len(data))
    if len(data) < size:
        memset(to + len(data), 0, size - len(data))
        return _SHORT_READ
    return None


@_coded(sqlite3.SQLITE_IOERR_WRITE)
def _on_write(pointer: int, data: int, size: int, at: int) -> int | None:
    opened = _of(pointer)
    opened.disk.write(opened.file, at, string_at(data, size))
    return None


@_coded(sqlite3.SQLITE_IOERR_TRUNCATE)
def _on_truncate(pointer: int, size: int) -> int | None:
    opened = _of(pointer)
    opened.disk.cut(opened.file, size)
    return None


@_coded(sqlite3.SQLITE_IOERR_FSYNC)
def _on_sync(pointer: int, _: int) -> int | None:
    opened = _of(pointer)
    opened.disk.flush(opened.file)
    if opened.flushes_names:
        opened.disk.flush_names()
        opened.flushes_names = False
    return None


@_coded(sqlite3.SQLITE_IOERR_FSTAT)
def _on_file_size(pointer: int, size: int) -> int | None:
    c_int64.from_address(size).value = _of(pointer).file.size_bytes
    return None


@_coded(sqlite3.SQLITE_IOERR_LOCK)
def _on_lock(pointer: int, level: int) -> int | None:
    opened = _of(pointer)
    if opened.file.locked_by not in (None, opened):
        return sqlite3.SQLITE_BUSY
    if level > _LOCK_SHARED:
        opened.file.locked_by, opened.has_lock = opened, True
    return None


@_coded(sqlite3.SQLITE_IOERR_UNLOCK)
def _on_unlock(pointer: int, level: int) -> int | None:
    opened = _of(pointer)
    if opened.has_lock and level <= _LOCK_SHARED:
        opened.file.locked_by, opened.has_lock = None, False
    return None


@_coded(sqlite3.SQLITE_IOERR_CHECKRESERVEDLOCK)
def _on_check_reserved_lock(pointer: int, result: int) -> int | None:
    c_int.from_address(result).value = _of(pointer).file.locked_by is not None
    return None


def _on_file_control(_: int, __: int, ___: int) -> int:
    return sqlite3.SQLITE_NOTFOUND


def _on_sector_size(_: int) -> int:
    return 4096


def _on_device_characteristics(_: int) -> int:
    return _IS_POWERSAFE_OVERWRITE


@_coded(sqlite3.SQLITE_IOERR_DELETE)
def _on_delete(_: int, name: bytes, flushes_folder: int) -> int | None:
    path = name.decode()
    disk = _disk_of(path)
    if disk.find(path) is None:
        return sqlite3.SQLITE_IOERR_DELETE_NOENT
    disk.remove(path)
    if flushes_folder:
        disk.flush_names()
    return None


@_coded(sqlite3.SQLITE_IOERR_ACCESS)
def _on_access(_: int, name: bytes, what: int, result: Any) -> int | None:
    path = name.decode()
    disk = _disk_of(path)
    file = disk.find(path)
    # As on Unix, an empty journal does not exist.
    result[0] = file is not None and (what != _EXISTS or file.size_bytes > 0)
    if what == _READ_WRITE and disk.faults.is_read_only:
        result[0] = 0
    return None


def _on_full_path(_: int, name: bytes, size: int, to: int) -> int:
    memmove(to, name + b"\0", min(size, len(name) + 1))
    return sqlite3.SQLITE_OK


def _on_randomness(_: int, size: int, to: int) -> int:
    memmove(to, os.urandom(size), size)
    return size


def _on_sleep(_: int, microseconds: int) -> int:
    return microseconds


def _on_current_time(_: int, result: Any) -> int:
    result[0] = 2460000.5
    return sqlite3.SQLITE_OK


_METHODS = _Methods(
    1,
    _Method(_on_close),
    _Transfer(_on_read),
    _Transfer(_on_write),
    _WithSize(_on_truncate),
    _WithInt(_on_sync),
    _WithPointer(_on_file_size),
    _WithInt(_on_lock),
    _WithInt(_on_unlock),
    _WithPointer(_on_check_reserved_lock),
    _Control(_on_file_control),
    _Method(_on_sector_size),
    _Method(_on_device_characteristics),
)
_SYSTEM = _System(
    1,
    sizeof(_Struct),
    512,
    None,
    _NAME.encode(),
    None,
    _Open(_on_open),
    _Delete(_on_delete),
    _Access(_on_access),
    _FullPath(_on_full_path),
    None,
    None,
    None,
    None,
    _Randomness(_on_randomness),
    _WithInt(_on_sleep),
    _CurrentTime(_on_current_time),
    None,
)
# Its symbols are those that Python's own module calls, whichever library has them.
_LIBRARY = CDLL(_sqlite3.__file__)
_LIBRARY.sqlite3_vfs_register.argtypes = [c_void_p, c_int]
_LIBRARY.sqlite3_vfs_register(pointer(_SYSTEM), 0)
