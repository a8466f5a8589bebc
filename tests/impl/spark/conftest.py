"""One Spark session and one exchange for all tests of this folder, each in a process of its own."""

import importlib.util
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar

import pyspark
import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from permitflow.spark.local_session import FAST_START
from tests.support.process import reserved_address
from tests.support.served_exchange import ServedExchange, served_exchange

T = TypeVar("T")

KEEPING = ("--retention", "replay", "--drain-seconds", "0.1")
LONGEST_JOB_SECONDS = 200.0
LONGEST_END_SECONDS = 120.0
DRIVER = Path(__file__).with_name("spark_driver.py")
CHECKOUT = Path(__file__).parents[3]
SPARK = Path(pyspark.__file__).parent
CONNECT_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


class JobFailedError(Exception):
    """A job raised; the message is the traceback as the driver saw it."""


class Driver:
    """Runs functions in the process that has the Spark session."""

    def __init__(self, connection: Connection, log: Path) -> None:
        self._connection = connection
        self.folder = log.parent
        """Where the session writes."""
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


@contextmanager
def running_driver(work_dir: Path, *master: str, more_packages: str = "") -> Iterator[Driver]:
    """A process with a session, of this machine or another ``master``, which finds ``more_packages`` in that folder."""
    log = work_dir / "driver.log"
    # Jobs name what stands in tests.support; Spark hands the path on to its workers.
    folders = os.pathsep.join(filter(None, (more_packages, str(CHECKOUT), os.environ.get("PYTHONPATH"))))
    ours, theirs = socket.socketpair()
    with log.open("wb") as output, ours:
        with theirs:
            process = subprocess.Popen(
                [sys.executable, str(DRIVER), str(theirs.fileno()), str(work_dir), *master],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, "PYTHONPATH": folders},
            )
        connection = Connection(ours.detach())
        try:
            yield Driver(connection, log)
        finally:
            connection.close()
            try:
                process.wait(LONGEST_END_SECONDS)
            finally:
                process.kill()
                process.wait()


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with running_driver(tmp_path_factory.mktemp("spark")) as running:
        yield running


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """The driver of a cluster whose only executor is a process of its own."""
    with running_driver(tmp_path_factory.mktemp("cluster"), "local-cluster[1,1,1024]") as running:
        yield running


@pytest.fixture(scope="session")
def exchange() -> Iterator[ServedExchange]:
    """One exchange for all tests; each takes streams of its own."""
    with served_exchange() as served:
        yield served


@pytest.fixture(scope="session")
def kept() -> Iterator[ServedExchange]:
    """One exchange whose channels keep their rows for the consumer ``default``; each test takes streams of its own."""
    with served_exchange(more=KEEPING) as served:
        yield served


def options_of(exchange: ServedExchange, **more: str) -> dict[str, str]:
    """Options of the data source for a new stream of two channels."""
    stream = {"address": exchange.address, "stream": exchange.stream(), "channels": "2", "timeout_seconds": "60"}
    return {**stream, **more}


@pytest.fixture
def options(exchange: ServedExchange) -> dict[str, str]:
    """Options of the data source for a new stream of two channels."""
    return options_of(exchange)


@pytest.fixture
def replay_options(kept: ServedExchange) -> dict[str, str]:
    """The same, and the channels keep their rows."""
    return options_of(kept)


@pytest.fixture
def address() -> Iterator[str]:
    """Where an exchange is found again."""
    with reserved_address() as reserved:
        yield reserved


@pytest.fixture(scope="module")
def connected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    # Made for this interpreter's releases; others cannot be mixed with it.
    packages = Path(sys.prefix) / "connect"
    if importlib.util.find_spec("grpc_status") is None and not packages.is_dir():
        pytest.skip("needs what clients of Spark Connect need: make test-all, or pip install 'permitflow[connect]'")
    work_dir = tmp_path_factory.mktemp("connect")
    with connect_server(work_dir) as address, running_driver(work_dir, address, more_packages=str(packages)) as client:
        yield client


@contextmanager
def connect_server(work_dir: Path) -> Iterator[str]:
    """A Spark Connect server, started as ``configure`` says it must be; its address."""
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.extraJavaOptions": FAST_START,
        "spark.local.dir": str(work_dir),
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(work_dir / "warehouse"),
        "spark.ui.enabled": "false",
    }
    stated = [word for setting in settings.items() for word in ("--conf", "=".join(setting))]
    command = [str(SPARK / "bin/spark-submit"), "--class", CONNECT_SERVER, "--master", "local[4]", *stated]
    environment = {"SPARK_HOME": str(SPARK), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    # Its workers import what stands in tests.support, too.
    folders = os.pathsep.join(filter(None, (str(CHECKOUT), os.environ.get("PYTHONPATH"))))
    log = work_dir / "server.log"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [*command, "spark-internal"],
            cwd=work_dir,
            env={**os.environ, **environment, "PYTHONPATH": folders},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        ) as server,
    ):
        try:
            yield address_of(server, log)
        finally:
            server.kill()


def address_of(server: "subprocess.Popen[bytes]", log: Path) -> str:
    """Wait until the server's log says where it listens."""
    while server.poll() is None:
        if found := re.search(r"Spark Connect server started at: \S+:(\d+)", log.read_text()):
            return f"sc://127.0.0.1:{found[1]}"
        time.sleep(0.05)
    pytest.fail(f"the Connect server has ended; the end of its log:\n{log.read_text()[-3000:]}")
