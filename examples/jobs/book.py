"""The master's book of jobs: which wait, which worker has which, which are finished and not confirmed; no I/O.

``examples.jobs.life`` is the model of it.  A job is known by its client and its number.  It waits, or a worker has it,
or it is finished.  A dropped job is forgotten, because its client sends it again.  A confirmed job is forgotten,
because its client does not send it again.  So the book has no more jobs than fit into the queue and the workers, and
of each client no more than it may have open, however long the master runs.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from permitflow.errors import InvalidParametersError
from permitflow.stages import DropQueue, Overflow


class JobId(NamedTuple):
    """A job of a client."""

    client: str
    number: int


@dataclass(eq=False)
class Job:
    """A job that is not finished."""

    id: JobId
    work: int
    since: float
    """When it came."""
    served_before: int
    """Jobs that had left the queue by then."""
    worker: str = ""
    """Who has it; empty: it waits."""


class Submitted(Enum):
    """What became of a job that a client has sent."""

    QUEUED = "queued"
    KNOWN = "known"
    """It waits, or a worker has it."""
    FINISHED = "finished"
    """Its result is on its way again."""
    REFUSED = "refused"
    """Its client has too many open: it does not confirm results, as a rule.  It will come again."""


@dataclass
class _Client:
    results: dict[int, int] = field(default_factory=dict)
    """The results of jobs that it has not confirmed."""
    unfinished: int = 0

    @property
    def open(self) -> int:
        return self.unfinished + len(self.results)


class JobBook:
    """All jobs of all clients."""

    def __init__(self, capacity: int, most_open: int) -> None:
        """Empty.

        Args:
            capacity: jobs that wait at most, besides those of dead workers.
            most_open: jobs of a client, until it has confirmed them.

        Raises:
            InvalidParametersError: a number is below 1.
        """
        if most_open < 1:
            raise InvalidParametersError(name="most_open", value=most_open, rule="must be at least 1")
        self.counts: Counter[str] = Counter()
        """What has happened so far."""
        self.peak_queued = self.peak_entries = 0
        self.longest_wait = 0.0
        """In the queue, of a job that was taken from it."""
        self.finished_work = 0
        """The sum of the results of all finished jobs."""
        self._queue: DropQueue[Job] = DropQueue(capacity, Overflow.DROP_OLDEST, when_dropped=self._drop)
        self._served = 0
        self._most_open = most_open
        self._taken_back: dict[JobId, Job] = {}
        self._jobs: dict[JobId, Job] = {}
        self._clients: dict[str, _Client] = {}
        self._workers: dict[str, Job | None] = {}

    @property
    def queued(self) -> int:
        """Jobs in the queue; those of dead workers are not, and come before them."""
        return len(self._queue)

    @property
    def entries(self) -> int:
        """Everything that the book remembers."""
        return len(self._jobs) + sum(len(client.results) for client in self._clients.values())

    @property
    def clients(self) -> Collection[str]:
        """The clients that it knows."""
        return self._clients.keys()

    # Clients.

    def submit(self, id: JobId, work: int, now: float) -> Submitted:  # noqa: A002
        """Take a job that a client has sent, perhaps again."""
        client = self._clients.setdefault(id.client, _Client())
        if id.number in client.results:
            return Submitted.FINISHED
        if id in self._jobs:
            self._note_again(self._jobs[id])
            return Submitted.KNOWN
        if client.open >= self._most_open:
            self.counts["refused"] += 1
            return Submitted.REFUSED
        self.counts["queued"] += 1
        client.unfinished += 1
        self._jobs[id] = job = Job(id, work, now, self._served)
        self._queue.offer(job)
        self._note_peaks()
        return Submitted.QUEUED

    def unconfirmed(self, client: str) -> Mapping[int, int]:
        """The results of a client's finished jobs, by number, which it has not confirmed."""
        return self._clients[client].results if client in self._clients else {}

    def confirm(self, id: JobId) -> None:  # noqa: A002
        """Forget a finished job, because its client has its result and does not send it any more."""
        client = self._clients.get(id.client)
        if client is not None and client.results.pop(id.number, None) is not None:
            self.counts["confirmed"] += 1

    def forget(self, client: str) -> None:
        """Forget a client that will not come again, and its results; also those that are still to come."""
        self._clients.pop(client, None)

    # Workers.

    def join(self, worker: str) -> None:
        """A worker is there: it may have one job at a time."""
        self._workers.setdefault(worker, None)

    @property
    def workers(self) -> int:
        """The number of workers that are there."""
        return len(self._workers)

    def take(self, worker: str, now: float) -> Job | None:
        """The next job for a worker; None if none waits, or it has one."""
        if worker not in self._workers or self.has_job(worker):
            return None
        if self._taken_back:
            job = self._taken_back.pop(next(iter(self._taken_back)))
        elif len(self._queue):
            job = self._queue.take()
            self._served += 1
            self.longest_wait = max(self.longest_wait, now - job.since)
        else:
            return None
        job.worker = worker
        self._workers[worker] = job
        self.counts["pulled"] += 1
        return job

    def has_job(self, worker: str) -> bool:
        """Is it at work?"""
        return self._workers.get(worker) is not None

    def finish(self, id: JobId, result: int) -> bool:  # noqa: A002
        """Take the result of a job from the worker that has it, or had it and was taken for dead.

        False: nobody has it, because it was finished before.
        """
        job = self._jobs.get(id)
        if job is None or not (job.worker or id in self._taken_back):
            self.counts["repeated"] += 1
            return False
        del self._jobs[id]
        if job.worker:
            self._workers[job.worker] = None
        else:
            del self._taken_back[id]
        self.counts["finished"] += 1
        self.finished_work += result
        if client := self._closed(id):
            client.results[id.number] = result
        self._note_peaks()
        return True

    def lose(self, worker: str) -> None:
        """A worker is gone: another one gets its job, before those that wait."""
        if (job := self._workers.pop(worker, None)) is not None:
            job.worker = ""
            self._taken_back[job.id] = job
            self.counts["given_again"] += 1

    def oldest_since(self) -> float | None:
        """When the job came that waits longest; None if none waits."""
        # In the order of coming, except for the few that workers have or had.
        return next((job.since for job in self._jobs.values() if not job.worker), None)

    def _drop(self, job: Job) -> None:
        del self._jobs[job.id]
        self._closed(job.id)
        self.counts["dropped"] += 1

    def _closed(self, id: JobId) -> _Client | None:  # noqa: A002
        """A job is not unfinished any more; its client, if that was not forgotten."""
        client = self._clients.get(id.client)
        if client is not None:
            # Those that it had submitted before it was forgotten were not counted.
            client.unfinished = max(0, client.unfinished - 1)
        return client

    def _note_again(self, job: Job) -> None:
        """A job has come again.  If it still waits, the workers were slower than was assumed; or it was passed over."""
        if job.worker or job.id in self._taken_back:
            return
        self.counts["resent_too_early"] += 1
        if self._served - job.served_before >= self._queue.capacity:
            self.counts["passed_over"] += 1

    def _note_peaks(self) -> None:
        self.peak_queued = max(self.peak_queued, len(self._queue))
        self.peak_entries = max(self.peak_entries, self.entries)
