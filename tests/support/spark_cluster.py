"""A standalone cluster of Spark on two of this machine's addresses, whose workers can be killed."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic, sleep

import pyspark

from permitflow.spark.local_session import FAST_START

CHECKOUT = Path(__file__).parents[2]
SPARK = Path(pyspark.__file__).parent
MASTER, WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
# Spark makes a second attempt at a slow task on another host only; loopback has many addresses.
HOSTS = ("127.0.0.1", "127.0.0.2")
START_SECONDS = 120.0


class StandaloneCluster:
    """A master, and a worker with two slots on each host."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        """Start; all ends with ``stack``."""
        self._folder, self._stack = folder, stack
        paths = os.pathsep.join(filter(None, (str(CHECKOUT), os.environ.get("PYTHONPATH"))))
        # An application is not given up whose executors are killed again and again.
        options = f"{FAST_START} -Dspark.deploy.maxExecutorRetries=-1"
        self._environment = {
            **os.environ,
            "SPARK_HOME": str(SPARK),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": options,
            "PYTHONPATH": paths,
        }
        _, log = self._started("master", MASTER, "--host", HOSTS[0])
        self.address = _said(log, r"Starting Spark master at (spark://\S+)")
        """Of the master."""
        self.workers = {host: self._worker(host) for host in HOSTS}
        """Their processes, by host."""

    def _started(self, name: str, *words: str, **more: str) -> "tuple[subprocess.Popen[bytes], Path]":
        log = self._folder / f"{name}.log"
        command = [str(SPARK / "bin/spark-class"), *words, "--port", "0", "--webui-port", "0"]
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**self._environment, **more},
            )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process, log

    def _worker(self, host: str) -> "subprocess.Popen[bytes]":
        work = ("--work-dir", str(self._folder / f"work-{host}"), "--cores", "2", "--memory", "1g")
        process, log = self._started(f"worker-{host}", WORKER, self.address, "--host", host, *work, SPARK_LOCAL_IP=host)
        _said(log, r"Successfully registered with master (\S+)")
        return process

    def kill_worker(self, host: str) -> None:
        """Kill a worker; its executors end when they notice.  Another one takes its place."""
        self.workers[host].kill()
        self.workers[host].wait()
        self.workers[host] = self._worker(host)


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[StandaloneCluster]:
    """A running cluster, which writes below ``folder``."""
    with ExitStack() as stack:
        yield StandaloneCluster(folder, stack)


def _said(log: Path, pattern: str) -> str:
    """Wait until a log has a line, and return what the pattern's group has found."""
    until = monotonic() + START_SECONDS
    while (found := re.search(pattern, log.read_text(errors="replace"))) is None:
        if monotonic() > until:
            raise RuntimeError(f"{log.name} does not say {pattern!r}: {log.read_text()[-2000:]}")
        sleep(0.05)
    return found[1]
