"""``permitflow serve`` as a process of its own."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


@contextmanager
def serving(*options: str, by: Sequence[str] = (), errors: int | None = None) -> "Iterator[subprocess.Popen[str]]":
    """The process, which is gone at the end of the block; it listens at a free port if no address is named.

    Args:
        options: of the command.
        by: the words of another program that starts it.
        errors: where its error output goes, as ``stderr`` of ``subprocess``.
    """
    address = () if "--address" in options else ("--address", "127.0.0.1:0")
    process = subprocess.Popen(
        [*by, sys.executable, "-m", "permitflow_tools.cli", "serve", *address, *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=errors,
        env={**os.environ, "GRPC_VERBOSITY": "ERROR"},  # what it notes by the way is no error
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def line_of(process: "subprocess.Popen[str]") -> str:
    """The next one that it says; empty: it has ended."""
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


def address_of(process: "subprocess.Popen[str]") -> str:
    """Where it listens: what it says first."""
    line = line_of(process)
    assert line.startswith("listening at ")
    return line.removeprefix("listening at ")
