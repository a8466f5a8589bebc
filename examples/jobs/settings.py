"""What the processes of the example are told on their command lines."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..child_process import ChildSettings
from .metrics import MetricsSettings


@dataclass(frozen=True, kw_only=True)
class ProcessSettings(ChildSettings):
    """The settings of each."""

    metrics: MetricsSettings = field(default_factory=MetricsSettings)

    @classmethod
    def _values(cls, found: dict[str, Any]) -> dict[str, Any]:
        return found | {"metrics": MetricsSettings(**found.get("metrics", {}))}


@dataclass(frozen=True, kw_only=True)
class MasterSettings(ProcessSettings):
    """The settings of the master."""

    queue_capacity: int
    """Jobs that wait at most; the oldest gives way."""
    workers: Sequence[str]
    """Their names."""
    most_open: int = 1_000
    """Jobs of a client that the master knows, until they are confirmed; beyond, new ones are refused."""
    listen: str = "127.0.0.1:0"
    """Where clients connect."""
    workers_listen: str = "127.0.0.1:0"
    """Where workers pull, over gRPC."""


@dataclass(frozen=True, kw_only=True)
class ClientSettings(ProcessSettings):
    """The settings of a client: its jobs come at a rate, whether they are finished or not."""

    name: str
    """Unique among all starts of all clients."""
    master: str
    phases: Sequence[tuple[int, float]]
    """This many jobs a second, for this many seconds; the last rate stays until the client is told to end."""
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
