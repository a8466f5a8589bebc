"""Ctrl-C while models are checked waits for none of them, and leaves no TLC."""

import tempfile
import threading
from pathlib import Path

import psutil
import pytest

from permitflow_model.tlc import TlcError
from permitflow_model.tlc.check import run_manifest
from permitflow_model.tlc.processes import TlcProcesses


def test_ctrl_c_ends_what_tlc_does_for_us(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec_directory: Path
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text('#!/bin/sh\nkill -INT "$PPID"\nexec sleep 1000\n')
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("TLA2TOOLS_JAR", str(java))
    folders = tmp_path / "folders"
    folders.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folders))
    before = set(psutil.Process().children())
    with pytest.raises(KeyboardInterrupt):
        next(run_manifest(engine="tlc", names=["live"], spec_directory=spec_directory))
    assert set(psutil.Process().children()) <= before
    for thread in [thread for thread in threading.enumerate() if thread.name.startswith("tlc")]:
        thread.join()  # if it was just being started, nobody else waits for it
    assert [*folders.iterdir()] == []


def test_nothing_begins_once_the_processes_were_ended(tmp_path: Path) -> None:
    processes = TlcProcesses()
    processes.end()
    with pytest.raises(TlcError, match="before it began"):
        processes.run(["sleep", "1000"], tmp_path, timeout_seconds=60)
