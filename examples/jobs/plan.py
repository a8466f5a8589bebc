"""What the demo of the jobs starts, how much load it makes, and the numbers that follow from that."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from permitflow.errors import InvalidOptionError
from permitflow_model.drop_queue import Parameters, fresh_capacity

from ..child_process import address_of

JOB_SECONDS = 0.02
RESEND_SECONDS = 3
QUIET_SHARE = 0.3
"""Before the overload, of the capacity."""
TRICKLE_PER_SECOND = 5
"""After it, of each client."""
MOST_OPEN = 200
PACKETS_PER_SENDER = 50
LARGEST_NUMBER = 16


@dataclass(frozen=True, kw_only=True)
class JobsSettings:
    """What is started, and how hard it is pressed."""

    quiet_seconds: float = 2.0
    """Before the overload."""
    overload_seconds: float = 4.0
    overload_factor: int = 3
    """Jobs that come, for each that the workers can do."""
    kills: int = 1
    """Workers that are killed during the overload."""
    workers: int = 2
    clients: int = 2
    lose: float = 0.1
    """The share of packets with metrics that is lost on purpose."""
    page: str = "127.0.0.1:0"
    """Where the monitor serves its page."""
    seed: int = 1

    def __post_init__(self) -> None:
        """Refuse what shows nothing.

        Raises:
            InvalidOptionError: a number is out of its range.
        """
        if not 0 < self.overload_seconds < inf:  # NaN neither
            raise InvalidOptionError(
                option="--overload-seconds", value=self.overload_seconds, reason="must be above 0, and finite"
            )
        if not 0 <= self.lose < 1:
            raise InvalidOptionError(option="--lose", value=self.lose, reason="must be a share, from 0 to below 1")
        try:
            address_of(self.page)
        except InvalidOptionError as error:
            raise InvalidOptionError(option="--page", value=self.page, reason=error.reason) from None
        for name, least, most in (
            ("workers", 1, LARGEST_NUMBER),
            ("clients", 1, LARGEST_NUMBER),
            ("kills", 0, 100),
            ("overload_factor", 2, 20),
        ):
            if not least <= getattr(self, name) <= most:
                option = "--factor" if name == "overload_factor" else f"--{name}"
                raise InvalidOptionError(option=option, value=getattr(self, name), reason=f"must be {least} to {most}")

    @property
    def capacity_per_second(self) -> int:
        """Jobs that the workers can do."""
        return round(self.workers / JOB_SECONDS)

    @property
    def sure_per_second(self) -> int:
        """Jobs that are done even while a worker is dead, and if the others need twice as long as a job takes."""
        return round(max(1, self.workers - 1) / JOB_SECONDS / 2)

    @property
    def queue_capacity(self) -> int:
        """By the proved rule: no job is served that was sent again meanwhile, however many come."""
        # A tick is a second.
        rule = Parameters(capacity=1, arrivals=1, services=self.sure_per_second, resend=RESEND_SECONDS, drops="oldest")
        return fresh_capacity(rule)

    @property
    def phases(self) -> Sequence[tuple[int, float]]:
        """The phases of each client."""
        quiet = max(1, round(QUIET_SHARE * self.capacity_per_second / self.clients))
        overload = round(self.overload_factor * self.capacity_per_second / self.clients)
        return [(quiet, self.quiet_seconds), (overload, self.overload_seconds), (TRICKLE_PER_SECOND, 0)]

    @property
    def resends_per_second(self) -> int:
        """What each client sends again: together twice as much as the workers can do, so that the queue stays full."""
        return max(1, 2 * self.capacity_per_second // self.clients)

    @property
    def workers_names(self) -> Sequence[str]:
        """Their parts of the demo."""
        return [f"w{number}" for number in range(1, self.workers + 1)]

    @property
    def clients_names(self) -> Sequence[str]:
        """Their parts of the demo."""
        return [f"c{number}" for number in range(1, self.clients + 1)]

    @property
    def senders(self) -> int:
        """Processes that send metrics: all workers, and the master."""
        return self.workers + 1

    @property
    def packets_per_second(self) -> int:
        """What the monitor can take of all together."""
        return PACKETS_PER_SENDER * self.senders

    @property
    def most_entries(self) -> int:
        """Jobs and results that the master may remember at a time."""
        return self.clients * MOST_OPEN
