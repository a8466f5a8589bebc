"""The processes of the trial: exchanges, producers, consumers, the query's driver, Spark's workers, the database."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import psutil

from permitflow.names import stream_channels
from permitflow.spark.local_session import EXECUTOR_CLASS
from tests.cluster.clients import NUMBER_BYTES, result_of
from tests.support.postgres import PostgresServer, server_of_its_own
from tests.support.process import reserved_address
from tests.support.spark_cluster import StandaloneCluster, standalone_cluster

CHANNELS = 4
SEATS = ("a:2", "b:2", "c:2")
"""Of the three exchanges: each has a store, some of the channels, an owner and a standby."""


class Child:
    """A process that is started again whenever it was killed; what it says goes to a file."""

    def __init__(self, name: str, folder: Path, stack: ExitStack, *words: str) -> None:
        """Start it."""
        self.name, self.log = name, folder / f"{name}.log"
        self._words = words
        stack.callback(self.kill)
        self.start()

    def start(self) -> None:
        """Start it, again perhaps."""
        self._begin = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as output:
            self._process = psutil.Popen(
                [sys.executable, "-m", *self._words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            )

    @property
    def said(self) -> str:
        """Since it was started."""
        with self.log.open(errors="replace") as file:
            file.seek(self._begin)
            return file.read()

    @property
    def code(self) -> int | None:
        """With which it has ended; None: it runs."""
        code: int | None = self._process.poll()
        return code

    def kill(self) -> None:
        """Kill it, and the processes that it has started."""
        try:
            family = [self._process, *self._process.children(recursive=True)]
        except psutil.NoSuchProcess:
            family = []
        for process in family:
            process.kill()
        self._process.wait()


class Exchange(Child):
    """A process of one seat: it owns the seat's channels, or stands by."""

    @property
    def is_owner(self) -> bool:
        """Does it listen?"""
        return "listening at" in self.said and self.code is None


class System:
    """All of them, running."""

    def __init__(self, folder: Path, rows: int, stack: ExitStack) -> None:
        """Start everything.

        Args:
            folder: for logs and results.
            rows: of all channels together, as many of each.
            stack: ends it.
        """
        self.folder, self.rows, self._stack = folder, rows, stack
        self.database: PostgresServer = stack.enter_context(server_of_its_own())
        addresses = [f"tcp://{stack.enter_context(reserved_address())}" for _ in range(2 * len(SEATS))]
        self.address = ",".join(addresses)
        self.exchanges = [
            self._exchange(SEATS[position % len(SEATS)], address) for position, address in enumerate(addresses)
        ]
        self.producers = [*self._clients("produce", "in", 3, rows // CHANNELS)]
        self.consumers = [*self._clients("consume", "out", 2, 0)]
        self.cluster: StandaloneCluster = stack.enter_context(standalone_cluster(folder))
        query = (self.cluster.address, str(folder), self.address, str(CHANNELS), str(rows // 100))
        self.driver = Child("driver", folder, stack, "tests.cluster.query", *query)

    def _exchange(self, seat: str, address: str) -> Exchange:
        store = self.database.address(f"seat_{seat[0]}")
        kept = ("--retention", "replay", "--kept-rows", str(self.rows // 50), "--store", store, "--standby")
        own = ("--cluster", ",".join(SEATS), "--advertise", seat, "--address", address, "--quiet")
        streams = ("--stream", f"in:{CHANNELS}", "--stream", f"out:{CHANNELS}")
        name = f"exchange-{seat[0]}-{address.rpartition(':')[2]}"
        return Exchange(name, self.folder, self._stack, "permitflow_tools.cli", "serve", *streams, *kept, *own)

    def _clients(self, what: str, stream: str, processes: int, rows: int) -> Iterator[Child]:
        channels = stream_channels(stream, CHANNELS)
        for number in range(processes):
            words = (what, self.address, str(self.folder), str(rows), ",".join(channels[number::processes]))
            yield Child(f"{what}-{number}", self.folder, self._stack, "tests.cluster.clients", *words)

    @property
    def executors(self) -> Sequence[psutil.Process]:
        """Those that run."""
        found = []
        for worker in self.cluster.workers.values():
            for process in psutil.Process(worker.pid).children(recursive=True):
                try:
                    if EXECUTOR_CLASS in process.cmdline():
                        found.append(process)
                except psutil.NoSuchProcess:
                    continue
        return found

    @property
    def results(self) -> Sequence[Path]:
        """The files of the consumers."""
        return [result_of(self.folder, channel) for channel in stream_channels("out", CHANNELS)]

    @property
    def consumed(self) -> int:
        """Rows that have come to the consumers."""
        return sum(path.stat().st_size // NUMBER_BYTES for path in self.results if path.exists())

    def require_alive(self) -> None:
        """Nothing but the trial may end a process, or another exchange that has taken a store over.

        Raises:
            RuntimeError: an exchange, a consumer, or the driver has ended by itself, or a producer with an error.
        """
        for exchange in self.exchanges:
            if exchange.code and "has lost its store" in exchange.said:
                exchange.start()
        steady = [self.driver, *self.consumers, *self.exchanges]
        ended = [child for child in steady if child.code is not None]
        for child in [*ended, *(producer for producer in self.producers if producer.code)]:
            raise RuntimeError(f"{child.name} has ended with code {child.code}: {child.said[-2000:]}")


def lost_or_doubled(results: Sequence[Path], rows: int) -> str:
    """What is wrong with the numbers in these files, which are to be those below ``rows``; empty: nothing."""
    times = np.bincount(np.concatenate([np.fromfile(path, np.int64) for path in results]), minlength=rows)
    lost, doubled, strange = (times[:rows] == 0).sum(), (times[:rows] > 1).sum(), times[rows:].sum()
    if not (lost or doubled or strange):
        return ""
    return f"{lost:,} rows are lost, {doubled:,} came more than once, {strange:,} were never sent"


def load() -> float:
    """Processes that want to run, over the last minute."""
    return os.getloadavg()[0]
