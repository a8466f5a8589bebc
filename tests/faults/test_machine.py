"""A set clock and a full disk are felt by the process that they are meant for, and by no other."""

import errno
import multiprocessing
import os
import time
from multiprocessing.connection import Connection
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.faults.machine import (
    SmallDisk,
    clock_environment,
    enter,
    has_clocks,
    has_small_disks,
    obey_clock,
    set_clock,
)

SPAWNING = multiprocessing.get_context("spawn")
DAY_SECONDS = 86_400


def tell_times(pipe: Connection, file: Path) -> None:
    pipe.send(obey_clock(file))
    while pipe.recv():
        pipe.send((time.time(), time.monotonic()))


@pytest.mark.skipif(not has_clocks(), reason="no C compiler, or its library cannot be loaded")
def test_a_wall_clock_jumps_and_the_monotonic_one_does_not(tmp_path: Path) -> None:
    pipe, theirs = SPAWNING.Pipe()
    process = SPAWNING.Process(target=tell_times, args=(theirs, tmp_path / "clock"))
    with patch.dict(os.environ, clock_environment()):
        process.start()
    assert pipe.recv(), "the process has no such clock"
    for days in (2, -2, 0):
        set_clock(tmp_path / "clock", days * DAY_SECONDS)
        before = time.time(), time.monotonic()
        pipe.send(True)
        wall, monotonic = pipe.recv()
        after = time.time(), time.monotonic()
        assert before[0] <= wall - days * DAY_SECONDS <= after[0]
        assert before[1] <= monotonic <= after[1]
    pipe.send(False)
    process.join()


def write_when_told(pipe: Connection, pid: int, folder: Path) -> None:
    enter(pid)
    while pipe.recv():
        try:
            (folder / "file").write_bytes(bytes(100_000))
        except OSError as error:
            pipe.send(error.errno)
        else:
            pipe.send(0)


@pytest.mark.skipif(not has_small_disks(), reason="this user may not mount a file system in a namespace")
def test_a_full_disk_takes_nothing_until_there_is_room(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path)
    pipe, theirs = SPAWNING.Pipe()
    process = SPAWNING.Process(target=write_when_told, args=(theirs, disk.pid, tmp_path))
    process.start()
    disk.fill()
    for expected in (errno.ENOSPC, 0):
        pipe.send(True)
        assert pipe.recv() == expected
        disk.free()
    assert not any(tmp_path.iterdir()), "this process sees its own disk"
    pipe.send(False)
    process.join()
    disk.close()
