"""Processes that play one end of a channel, killed after the test; and stores."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from permitflow.exchange import PostgresStore, SqliteStore, Store
from tests.support.postgres import PostgresServer, shared_server

ROOT = Path(__file__).resolve().parents[3]


class Endpoint:
    def __init__(self, role: str, *arguments: str | int | float) -> None:
        self.role = role
        command = [sys.executable, "-m", "tests.support.endpoints", role, *map(str, arguments)]
        # What gRPC notes by the way is no error.
        environment = {**os.environ, "GRPC_VERBOSITY": "ERROR"}
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdout=pipe, stderr=pipe, env=environment, text=True, cwd=ROOT)
        self.watch = psutil.Process(self._process.pid)

    def hears(self, event: str) -> dict[str, Any]:
        """Wait for the next line; it must be this event."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"{self.role} ended: {self._process.communicate()[1]}"
        told: dict[str, Any] = json.loads(line)
        assert told["event"] == event, told
        return told

    def ends(self, within_seconds: float) -> dict[str, Any]:
        """Wait until it has ended by itself; what it said last.  Nothing may be said on the error output."""
        output, errors = self._process.communicate(timeout=within_seconds)
        assert errors == ""
        told: dict[str, Any] = json.loads(output.splitlines()[-1])
        return told

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def discard(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def start() -> Iterator[Callable[..., Endpoint]]:
    """Start an endpoint; with ``ready=True`` wait until it stands."""
    started: list[Endpoint] = []

    def start_one(role: str, *arguments: str | int | float) -> Endpoint:
        started.append(Endpoint(role, *arguments))
        return started[-1]

    yield start_one
    for endpoint in started:
        endpoint.discard()


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """A server of PostgreSQL for all tests; each makes schemas of its own."""
    base = tmp_path_factory.getbasetemp()
    with shared_server((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "postgres") as server:
        yield server


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Every store that there is."""
    opened = Store()
    if request.param == "sqlite":
        opened = SqliteStore(tmp_path / "store")
    elif request.param == "postgres":
        opened = PostgresStore(request.getfixturevalue("postgres").new_address())
    yield opened
    opened.close()
