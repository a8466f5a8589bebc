"""What the processes of the example are told on their command lines, and how they report."""

import asyncio
import json
import signal
import sys
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from permitflow.carriers.addresses import parsed
from permitflow.errors import InvalidOptionError, InvalidParametersError, PermitflowError

from .metrics import MetricsSettings

Address = tuple[str, int]


def report(event: str, **details: object) -> None:
    """Print an event for the process that has started this one."""
    print(json.dumps({"event": event, **details}), flush=True)


def address_of(text: str) -> Address:
    """The address in ``host:port``.

    Raises:
        InvalidOptionError: it is none.
    """
    try:
        is_tcp, host, port = parsed(text, least_port=0)
    except InvalidParametersError as error:
        raise InvalidOptionError(option="address", value=text, reason=error.rule) from None
    if is_tcp:
        raise InvalidOptionError(option="address", value=text, reason="must be host:port, without tcp://")
    return host, port


@dataclass(frozen=True, kw_only=True)
class ProcessSettings:
    """Settings that travel as JSON."""

    metrics: MetricsSettings = field(default_factory=MetricsSettings)

    def to_json(self) -> str:
        """For the command line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """From the command line.

        Raises:
            InvalidOptionError: it is not what ``to_json`` makes.
        """
        try:
            found: dict[str, Any] = json.loads(text)
            return cls(**found | {"metrics": MetricsSettings(**found.get("metrics", {}))})
        except (TypeError, ValueError, AttributeError) as error:
            if isinstance(error, InvalidOptionError):
                raise
            raise InvalidOptionError(option="SETTINGS", value=text, reason=f"are no settings ({error})") from error

    @classmethod
    def from_command_line(cls) -> Self:
        """The settings of this process, its only argument; ends the process if there is no such argument."""
        if len(sys.argv) != 2:
            sys.exit(f"{sys.argv[0]}: needs its settings as JSON, and nothing else")
        return cls.from_json(sys.argv[1])


@dataclass(frozen=True, kw_only=True)
class MasterSettings(ProcessSettings):
    """The settings of the master."""

    queue_capacity: int
    """Jobs that wait at most; the oldest gives way."""
    workers: Mapping[str, int]
    """By name: the jobs that a worker may have at a time.  1: it pulls one job after the other, over gRPC.  More: it is
    a streaming query, whose jobs are kept until it has committed them."""
    most_open: int = 1_000
    """Jobs of a client that the master knows, until they are confirmed; beyond, new ones are refused."""
    listen: str = "127.0.0.1:0"
    """Where clients connect."""
    workers_listen: str = "127.0.0.1:0"
    """Where workers pull, over gRPC."""
    lease_seconds: float = 10.0
    """A streaming query that finishes nothing for so long has its jobs given to others."""


@dataclass(frozen=True, kw_only=True)
class ClientSettings(ProcessSettings):
    """The settings of a client: its jobs come at a rate, whether they are finished or not."""

    name: str
    """Unique among all starts of all clients."""
    master: str
    phases: Sequence[tuple[int, float]]
    """So many jobs a second, for so many seconds; the last rate stays until the client is told to end."""
    resend_seconds: float
    """A job that was not reported for so long is sent again."""
    resends_per_second: int = 1_000
    """At most; a client with many unfinished jobs would else press the harder, the slower they are finished."""
    seed: int = 1


@dataclass(frozen=True, kw_only=True)
class WorkerSettings(ProcessSettings):
    """The settings of a worker."""

    name: str
    start: int = 1
    """How often it was started, with this time."""
    master: str
    """Where it pulls jobs."""
    job_seconds: float
    """How long a job takes."""
    give_up_seconds: float = 20.0
    """It ends if it does not reach the master for so long."""

    @property
    def incarnation(self) -> str:
        """The name of this start."""
        return f"{self.name}#{self.start}"


@dataclass(frozen=True, kw_only=True)
class SparkWorkerSettings(WorkerSettings):
    """The settings of the worker that is a streaming query."""

    work_dir: str
    """For its checkpoint and Spark's files."""


@contextmanager
def asked_to_end() -> Iterator[asyncio.Event]:
    """An event that SIGTERM and SIGINT set while the block runs; a second signal cancels the block."""
    ending, loop, task = asyncio.Event(), asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None  # this is one

    def end() -> None:
        if ending.is_set():
            task.cancel()
        ending.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    yield ending


def run_process(main: Coroutine[object, object, None]) -> None:
    """Run a process to its end; an error of the library becomes one line on its standard error."""
    try:
        asyncio.run(main)
    except PermitflowError as error:
        sys.exit(f"permitflow.errors.{type(error).__name__}: {error}")
    except asyncio.CancelledError:
        sys.exit("it was told twice to end, and has ended at once")
