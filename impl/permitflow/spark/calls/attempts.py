"""An attempt at a task that calls a service: who it is, and whether it may call.

A job draws a name where it is planned.  Each call states job, partition and Spark's ``taskAttemptId`` as metadata, so
that a service can tell attempts apart.  If the call is not repeatable, the task first asks a coordinator beside the
driver (``coordinator.py``), which lets one attempt at each task call.
"""

import fcntl
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from pyspark import TaskContext

from permitflow.errors import RepeatedCallError
from permitflow.spark.calls import coordinator
from permitflow.spark.calls.metadata import Metadata
from permitflow.spark.calls.options import CallOptions

JOB, PARTITION, ATTEMPT = "permitflow-job", "permitflow-partition", "permitflow-attempt"
"""The metadata of a call: no two attempts at a task of a job have the same ``permitflow-attempt``."""

# One action may run several of Spark's jobs; another action of the same DataFrame is meant to call again.
_ACTION_PROPERTY = "spark.sql.execution.id"

_ROUTE_PORT = 9  # nothing is sent there


@dataclass(frozen=True)
class Coordinator:
    """Where the driver's coordinator is; picklable."""

    hosts: tuple[str, ...]
    """Names of the driver's host, of which tasks on other hosts may know only some."""
    port: int
    secret: bytes

    def __repr__(self) -> str:
        return f"Coordinator({', '.join(self.hosts)}; port {self.port})"

    def ask(self, job: str, partition: int, attempt: int) -> str:
        """Ask at each of the driver's addresses.

        Raises:
            OSError: there is no answer at the last of them.
        """
        for host in self.hosts[:-1]:
            try:
                return coordinator.ask((host, self.port), self.secret, job, partition, attempt)
            except OSError:
                continue
        return coordinator.ask((self.hosts[-1], self.port), self.secret, job, partition, attempt)


@dataclass(frozen=True)
class Attempts:
    """The attempts at the tasks of a job.  Drawn where the job is planned, pickled, and used in the workers."""

    call: CallOptions
    job: str
    coordinator: Coordinator | None
    """None: the call is repeatable."""

    @classmethod
    def drawn(cls, call: CallOptions, driver: int | None = None) -> "Attempts":
        """Draw a job's name, once per job.

        Args:
            call: how the job calls.
            driver: the process with which the coordinator ends; None: this is a planning process, and its parent it is.

        Raises:
            RepeatedCallError: the call is not repeatable, and no coordinator can be started.
        """
        return cls(call, uuid4().hex, None if call.repeatable else _coordinator(call, driver or os.getppid()))

    def begin(self, context: TaskContext, partition: int) -> Metadata:
        """The metadata of this attempt's call, if it may call.

        Args:
            context: of the task.
            partition: which of the job's calls.

        Raises:
            RepeatedCallError: this call was made before, or may have been; and it is not repeatable.
        """
        action = context.getLocalProperty(_ACTION_PROPERTY) or ""
        job, attempt = f"{self.job}-{action}", context.taskAttemptId()
        if self.coordinator is not None:
            self._claim(self.coordinator, job, partition, attempt)
        return ((JOB, job), (PARTITION, str(partition)), (ATTEMPT, str(attempt)))

    def _claim(self, driver: Coordinator, job: str, partition: int, attempt: int) -> None:
        hint = (
            "set option 'repeatable' to true if the service answers the same again, or takes the same rows again; or "
            "run the whole job again, and without speculation"
        )
        try:
            answer = driver.ask(job, partition, attempt)
        except OSError as error:
            where = f"{' or '.join(driver.hosts)}, port {driver.port}"
            reason = (
                f"may have been called before: only the coordinator beside the driver knows, and it does not answer at "
                f"{where} ({error}). Let executors connect to the driver; or {hint}"
            )
            raise RepeatedCallError(method=self.call.method, reason=reason) from error
        if answer != coordinator.GRANTED:
            reason = f"would be called again by task attempt {attempt} at partition {partition}: {answer}; {hint}"
            raise RepeatedCallError(method=self.call.method, reason=reason)


def _coordinator(call: CallOptions, driver: int) -> Coordinator:
    """This driver's coordinator: the one of an earlier job, or a new one."""
    try:
        folder = Path(tempfile.gettempdir()) / f"permitflow-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.stat().st_uid != os.getuid():
            folder = Path(tempfile.mkdtemp(prefix="permitflow-"))
        with os.fdopen(os.open(folder / f"coordinator-{driver}", os.O_RDWR | os.O_CREAT, 0o600), "r+") as known:
            fcntl.flock(known, fcntl.LOCK_EX)
            found = _known(known.read(), call)
            if found is None:
                found = _started(driver, call)
                known.seek(0)
                known.truncate()
                json.dump({"port": found.port, "secret": found.secret.hex()}, known)
            return found
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        reason = (
            f"cannot be called once only: no coordinator can be started beside the driver ({error}); see to that, or "
            "set option 'repeatable' to true if the service answers the same again"
        )
        raise RepeatedCallError(method=call.method, reason=reason) from error


def _known(text: str, call: CallOptions) -> Coordinator | None:
    """The coordinator that a file names, if it is still there."""
    if not text:
        return None
    stated = json.loads(text)
    found = Coordinator(_hosts(call), stated["port"], bytes.fromhex(stated["secret"]))
    try:
        found.ask("is anybody there?", 0, 0)
    except OSError:
        return None
    return found


def _started(driver: int, call: CallOptions) -> Coordinator:
    secret = secrets.token_bytes(32)
    command = [sys.executable, "-I", "-S", coordinator.__file__, str(driver)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(f"{secret.hex()}\n")
        process.stdin.close()
        line = process.stdout.readline()
        if not line.strip().isdecimal():
            raise OSError(process.stderr.read().strip()[-200:] or "it has ended at once")
    return Coordinator(_hosts(call), int(line), secret)


def _hosts(call: CallOptions) -> tuple[str, ...]:
    """Names of this host, those first by which executors most likely reach it."""
    service = call.address.rpartition(":")[0].strip("[]")
    named = (os.environ.get("SPARK_LOCAL_HOSTNAME"), os.environ.get("SPARK_LOCAL_IP"))
    found = (*named, _address_towards(service), socket.gethostname(), "127.0.0.1")
    return tuple(dict.fromkeys(host for host in found if host))


def _address_towards(host: str) -> str | None:
    """This host's address on its way to another one."""
    try:
        family, *_, place = socket.getaddrinfo(host, _ROUTE_PORT, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(place)
            return str(probe.getsockname()[0])
    except OSError:
        return None
