"""Ctrl-C while models are checked waits for none of them, and leaves no TLC."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from permitflow_model.tlc import TlcError
from permitflow_model.tlc.run import TlcProcesses

# In a process of its own: in this one, TLC may be at work for other tests, and nobody is to interrupt that.
CHECKING = """
import sys, tempfile, threading
from pathlib import Path
import psutil
from permitflow_model.tlc.check import run_manifest

tempfile.tempdir, specification = sys.argv[1:]
try:
    next(run_manifest(engine="tlc", names=["live"], spec_directory=Path(specification)))
except KeyboardInterrupt:
    print("interrupted; children:", psutil.Process().children())
for thread in [thread for thread in threading.enumerate() if thread.name.startswith("tlc")]:
    thread.join()  # if it was just being started, nobody else waits for it
"""


def test_ctrl_c_ends_what_tlc_does_for_us(tmp_path: Path, spec_directory: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text('#!/bin/sh\nkill -INT "$PPID"\nexec sleep 1000\n')
    java.chmod(0o755)
    folders = tmp_path / "folders"
    folders.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", CHECKING, str(folders), str(spec_directory)],
        env={**os.environ, "JAVA_HOME": str(tmp_path), "TLA2TOOLS_JAR": str(java)},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted; children: []\n", "")
    assert [*folders.iterdir()] == []


def test_nothing_begins_once_the_processes_were_ended(tmp_path: Path) -> None:
    processes = TlcProcesses()
    processes.end()
    with pytest.raises(TlcError, match="before it began"):
        processes.run(["sleep", "1000"], tmp_path, timeout_seconds=60)
