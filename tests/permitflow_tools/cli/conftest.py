"""The command line, run inside the test's process or as a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest
from typer.testing import CliRunner

from permitflow_tools.cli.application import app
from tests.support import serving as support

Answer = tuple[int, str, str]
"""Exit code, standard output, standard error."""
Command = Callable[..., Answer]
Report = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run a command in this process: ``command("check", "--row-permits", "8")``."""
    monkeypatch.setenv("COLUMNS", "140")

    def run(*arguments: str) -> Answer:
        result = CliRunner().invoke(app, list(arguments))
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.stdout, result.stderr

    return run


@pytest.fixture
def report(command: Command) -> Report:
    def run(*arguments: str) -> tuple[int, dict[str, Any]]:
        code, stdout, _stderr = command(*arguments, "--json")
        document = json.loads(stdout)
        assert isinstance(document, dict)
        return code, document

    return run


@pytest.fixture
def process() -> Command:
    """Run a command as a process of its own, as a user's shell does; or a program in its place."""

    def run(*arguments: str, program: str | None = None, environment: Mapping[str, str] | None = None) -> Answer:
        what = ["-m", "permitflow_tools.cli"] if program is None else ["-c", program]
        done = subprocess.run(
            [sys.executable, *what, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=250,
            check=False,
            # Not a user's setting, but what importing the library has set here.
            env={name: value for name, value in os.environ.items() if name != "GRPC_VERBOSITY"}
            | dict(environment or {}),
        )
        return done.returncode, done.stdout, done.stderr

    return run


serving = partial(support.serving, errors=subprocess.PIPE)
"""An exchange whose error output can be read."""
