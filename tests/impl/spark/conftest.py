"""One Spark session and one exchange for all tests of this folder, each in a process of its own."""

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from permitflow.testing.served_exchange import ServedExchange, served_exchange

T = TypeVar("T")

LONGEST_JOB_SECONDS = 200.0
DRIVER = Path(__file__).with_name("spark_driver.py")


class JobFailedError(Exception):
    """A job raised; the message is the traceback as the driver saw it."""


class Driver:
    """Runs functions in the process that has the Spark session."""

    def __init__(self, connection: Connection, log: Path) -> None:
        self._connection = connection
        self._log = log

    def run(self, job: Callable[[SparkSession], T]) -> T:
        """Run a function of a test module there, and return what it returns."""
        cloudpickle.register_pickle_by_value(sys.modules[job.__module__])  # type: ignore[no-untyped-call]  # as it is
        self._connection.send_bytes(cloudpickle.dumps(job))  # type: ignore[no-untyped-call]  # as it is
        if not self._connection.poll(LONGEST_JOB_SECONDS):
            pytest.fail(f"the job hangs; the end of the driver's log:\n{self._log.read_text()[-3000:]}")
        went_well, result = cloudpickle.loads(self._connection.recv_bytes())
        if not went_well:
            raise JobFailedError(result)
        answer: T = result
        return answer

    def failure(self, job: Callable[[SparkSession], object]) -> str:
        """Run a function that must raise; return the traceback."""
        with pytest.raises(JobFailedError) as caught:
            self.run(job)
        return str(caught.value)


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    work_dir = tmp_path_factory.mktemp("spark")
    log = work_dir / "driver.log"
    ours, theirs = socket.socketpair()
    with log.open("wb") as output, ours:
        with theirs:
            process = subprocess.Popen(
                [sys.executable, str(DRIVER), str(theirs.fileno()), str(work_dir)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        connection = Connection(ours.detach())
        try:
            yield Driver(connection, log)
        finally:
            connection.close()
            try:
                process.wait(30)
            finally:
                process.kill()
                process.wait()


@pytest.fixture(scope="session")
def exchange() -> Iterator[ServedExchange]:
    """One exchange for all tests; each takes streams of its own."""
    with served_exchange() as served:
        yield served


@pytest.fixture(scope="session")
def kept() -> Iterator[ServedExchange]:
    """One exchange whose channels keep their rows for the consumer ``default``."""
    with served_exchange(more=["--retention", "replay", "--drain-seconds", "0.1"]) as served:
        yield served


@pytest.fixture
def options(exchange: ServedExchange) -> dict[str, str]:
    """Options of the data source for a stream of two channels that nobody has used."""
    return {"address": exchange.address, "stream": exchange.stream(), "channels": "2", "timeout_seconds": "60"}


@pytest.fixture(scope="session")
def replaying() -> Iterator[ServedExchange]:
    """One exchange whose channels keep their rows, for all tests; each takes streams of its own."""
    with served_exchange(more=("--retention", "replay", "--drain-seconds", "0")) as served:
        yield served


@pytest.fixture
def replay_options(replaying: ServedExchange) -> dict[str, str]:
    """Options of the data source for a stream of two channels that keep their rows."""
    return {"address": replaying.address, "stream": replaying.stream(), "channels": "2", "timeout_seconds": "60"}
