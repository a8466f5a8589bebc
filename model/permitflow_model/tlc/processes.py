"""Processes of TLC, which whoever waits for several of them can end together."""

import os
import subprocess
import threading
from pathlib import Path

from permitflow_model.tlc.output import TlcError

__all__ = ["TlcProcesses"]


class TlcProcesses:
    """Runs commands for several threads, until it is told to end them."""

    def __init__(self) -> None:
        """Nothing runs yet."""
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._has_ended = False

    def run(self, command: list[str], folder: Path, timeout_seconds: float) -> str:
        """What a command writes, run in this folder.

        Raises:
            TlcError: it took too long, or all were ended.
        """
        process = self._start(command, folder)
        try:
            with process:
                output = _output_of(process, timeout_seconds)
        except subprocess.TimeoutExpired:
            raise TlcError(f"TLC did not finish within {timeout_seconds:g} s; choose smaller constants") from None
        finally:
            self._running.discard(process)
        if self._has_ended:
            raise TlcError("TLC was ended before it came to a verdict")
        return output

    def end(self) -> None:
        """Kill what runs, and let nothing else begin; nothing runs any more when this returns."""
        with self._lock:
            self._has_ended = True
            running = list(self._running)
        for process in running:
            process.kill()
        for process in running:
            process.wait()

    def _start(self, command: list[str], folder: Path) -> "subprocess.Popen[str]":
        with self._lock:
            if self._has_ended:
                raise TlcError("TLC was ended before it began")
            process = subprocess.Popen(
                command,
                cwd=folder,
                # A copy: without it a thread that changes the environment meanwhile can make the start fail.
                env=dict(os.environ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
            )
            self._running.add(process)
            return process


def _output_of(process: "subprocess.Popen[str]", timeout_seconds: float) -> str:
    try:
        output, _ = process.communicate(timeout=timeout_seconds)
    except BaseException:
        process.kill()
        raise
    return output
