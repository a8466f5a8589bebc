"""What a schedule does to the machine of a process: its wall clock jumps, its disk is full.

Clocks jump by a small library of ours, ``clock.c``, which each process has loaded from its start; ``libfaketime`` reads
its settings without a lock, and ends processes of several threads.  Monotonic clocks go on, as on a real machine.  A
small disk is a ``tmpfs`` in a mount namespace of its own: no other process sees it, and it vanishes with its keeper.
"""

import atexit
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

DISK_BYTES = 24 << 20
"""A store keeps four of these in reserve."""
BLOCK_BYTES = 4_096
SOURCE = Path(__file__).with_name("clock.c")


@cache
def clock_environment() -> dict[str, str]:
    """For a process that is to be started, so that its children may obey a clock; empty where that is not possible."""
    folder = tempfile.mkdtemp(prefix="permitflow-clock-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    library = f"{folder}/clock.so"
    command = ["cc", "-shared", "-fPIC", "-O2", "-o", library, str(SOURCE), "-ldl"]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return {}
    return {"LD_PRELOAD": library}


def obey_clock(file: Path) -> bool:
    """Let the wall clock of this process follow a file; has it been started so that it can?"""
    set_clock(file, 0)
    obey = getattr(ctypes.CDLL(None), "permitflow_obey_clock", None)
    return obey is not None and obey(os.fsencode(file)) == 0


def set_clock(file: Path, ahead_seconds: int) -> None:
    """Let the wall clock of the process that obeys this file jump: so far ahead of the true time, or behind it."""
    # In place: the process has it mapped.
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT, 0o600)
    os.write(descriptor, ahead_seconds.to_bytes(8, sys.byteorder, signed=True))
    os.close(descriptor)


class SmallDisk:
    """A file system of ``DISK_BYTES`` on a folder, for processes that enter it."""

    def __init__(self, folder: Path) -> None:
        """Make it.

        Raises:
            OSError: this machine does not allow it.
        """
        mount = f'mount -t tmpfs -o size={DISK_BYTES} tmpfs "$0" && echo mounted && exec cat'
        command = ["unshare", "--map-root-user", "--mount", "sh", "-c", mount, str(folder)]
        self._keeper = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self._keeper.stdout is not None
        assert self._keeper.stderr is not None
        if self._keeper.stdout.readline() != b"mounted\n":
            reason = self._keeper.stderr.read().decode(errors="replace").strip()
            self.close()
            raise OSError(f"no small disk can be made here: {reason}")
        self.pid = self._keeper.pid
        self._ballast = Path(f"/proc/{self.pid}/root{folder.resolve()}/ballast")

    def fill(self) -> None:
        """Take what is free, as another program would."""
        with open(self._ballast, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(BLOCK_BYTES))
            except OSError:
                pass

    def free(self) -> None:
        """Give it back."""
        self._ballast.unlink(missing_ok=True)

    def close(self) -> None:
        """End it, with all that is on it, once the processes that have entered it are over."""
        assert self._keeper.stdin is not None
        self._keeper.stdin.close()
        self._keeper.wait()
        for pipe in (self._keeper.stdout, self._keeper.stderr):
            if pipe is not None:
                pipe.close()


def enter(pid: int) -> None:
    """See the disks that a process sees.  Only before the first thread is started.

    Raises:
        OSError: it may not be done.
    """
    # Python has `os.setns` since 3.12.
    library = ctypes.CDLL(None, use_errno=True)
    # Its rights come first: they allow the change of disks.
    for kind in ("user", "mnt"):
        descriptor = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY)
        try:
            if library.setns(descriptor, 0):
                raise OSError(ctypes.get_errno(), f"process {os.getpid()} may not enter the disks of {pid}")
        finally:
            os.close(descriptor)


@cache
def has_small_disks() -> bool:
    """Does this machine allow them?"""
    with tempfile.TemporaryDirectory() as folder:
        try:
            SmallDisk(Path(folder)).close()
        except OSError:
            return False
    return True


@cache
def has_clocks() -> bool:
    """Can clocks be set here?"""
    return bool(clock_environment())
