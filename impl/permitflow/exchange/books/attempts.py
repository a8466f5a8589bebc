"""The books of attempts whose rows are delivered as they come: a second attempt at a task is never taken for the first.

A scheduler such as Spark's runs a task again whose rows may have been read already, and numbers its attempts from 0
again where a whole stage runs again.  So an attempt is known by its job, its task's partition, and a number that the
scheduler gives to one attempt only.  The first attempt at a task is its only one.  At its end the job says how many
rows count; if others were taken, some of them stand twice, or are missing.

A channel that is reset begins anew, and jobs that have put into it before are over there: what they still say comes too
late.

Memory is bounded: beyond ``MOST_TASKS`` tasks, whole jobs are forgotten, first the one that began first and has no
open stream.  A forgotten job cannot end well any more.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from permitflow.errors import (
    ChannelResetError,
    InvalidParametersError,
    JobTotalError,
    TaskRetryError,
    TooManyTasksError,
)
from permitflow.names import require_name
from permitflow.stream.frames import JobTotal, TaskAttempt

MOST_TASKS = 131_072
"""Tasks that an exchange remembers, each once for each of its channels; that takes some two hundred bytes."""


@dataclass(slots=True, eq=False)
class Sending:
    """The only attempt at a task, as far as it goes into one channel."""

    channel: str
    rows_now: Callable[[], int] | None
    """The rows that it has sent, while its stream is open."""
    job: "_Job"
    _rows: int = 0

    @property
    def rows(self) -> int:
        """The rows that it has sent."""
        return self._rows if self.rows_now is None else self.rows_now()

    def end(self) -> None:
        """Note that no more rows will come; no effect the second time."""
        if self.rows_now is None:
            return
        self._rows, self.rows_now = self.rows_now(), None
        del self.job.open[self]
        self.job.rows[self.channel] = self.job.rows.get(self.channel, 0) + self._rows


@dataclass(slots=True, eq=False)
class _Task:
    attempt: int
    sendings: dict[str, Sending] = field(default_factory=dict)
    """By channel."""


@dataclass(slots=True, eq=False)
class _Job:
    tasks: dict[int, _Task] = field(default_factory=dict)
    """By partition."""
    open: dict[Sending, None] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    """The rows of attempts that are over, by channel."""
    done: set[str] = field(default_factory=set)
    """Channels for which it has said its total."""
    failed: set[str] = field(default_factory=set)
    """Channels for which it has said that it has failed; their rows are still parts until its abort has come, too."""
    entered: dict[str, int] = field(default_factory=dict)
    """When its first attempt began in each channel, in ticks."""

    def is_over(self, channel: str) -> bool:
        """Does it send no more into the channel?"""
        return channel in self.done or channel in self.failed


class AttemptBooks:
    """The attempts at the tasks of all jobs that put into an exchange.  Not thread-safe; does no I/O."""

    def __init__(self, most_tasks: int = MOST_TASKS) -> None:
        """Nothing has begun."""
        self._most_tasks = most_tasks
        self._jobs: dict[str, _Job] = {}
        """In the order in which they began."""
        self._tasks = 0
        self._ticks = count(1)
        self._opened: dict[str, int] = {}
        """When each channel was added or last reset, in ticks."""
        self._unsure = set[str]()
        """Channels that may have rows of jobs which are forgotten."""

    def __len__(self) -> int:
        return self._tasks

    def begin(self, attempt: TaskAttempt, channel: str, rows_now: Callable[[], int]) -> Sending:
        """Begin the first attempt at a task, in one of the channels of its rows.

        Args:
            attempt: whose job, partition and number.
            channel: where its rows go.
            rows_now: tells how many rows have come, until ``Sending.end``.

        Raises:
            InvalidParametersError: the job has no name or too long a one, or the partition is below 0.
            ChannelResetError: the channel was reset since the job began in it.
            TaskRetryError: another attempt at this task has begun before, or this one in this channel, or the job is
                over.
            TooManyTasksError: the job has more tasks than can be remembered.
        """
        _require_job(attempt.job)
        if attempt.partition < 0:
            raise InvalidParametersError(name="partition", value=attempt.partition, rule="must be at least 0")
        job = self._jobs.get(attempt.job)
        self._require_entered(job, channel)
        task = None if job is None else job.tasks.get(attempt.partition)
        is_another = task is not None and (task.attempt != attempt.attempt or channel in task.sendings)
        if is_another or (job is not None and job.is_over(channel)):
            raise TaskRetryError(partition=attempt.partition, attempt=attempt.attempt)
        self._make_room(attempt.job)
        job = self._jobs.setdefault(attempt.job, _Job())
        job.entered.setdefault(channel, next(self._ticks))
        task = job.tasks.setdefault(attempt.partition, _Task(attempt.attempt))
        sending = task.sendings[channel] = Sending(channel, rows_now, job)
        job.open[sending] = None
        self._tasks += 1
        return sending

    def spoils(self, attempt: TaskAttempt) -> bool:
        """Has another attempt at this task sent rows whose job is not over, so that nobody knows whether they count?"""
        job = self._jobs.get(attempt.job)
        first = None if job is None else job.tasks.get(attempt.partition)
        if job is None or first is None:
            return False
        return any(each.rows > 0 and not job.is_over(each.channel) for each in first.sendings.values())

    def require_total(self, total: JobTotal, channel: str) -> None:
        """Compare what a job says that counts with what has come; the job is over then.

        Raises:
            InvalidParametersError: the job has no name or too long a one.
            ChannelResetError: the channel was reset since the job began in it.
            JobTotalError: other rows have come, or some still may.
        """
        _require_job(total.job)
        job = self._jobs.get(total.job)
        self._require_entered(job, channel)
        sending = [] if job is None else [each for each in job.open if each.channel == channel]
        taken = 0 if job is None else job.rows.get(channel, 0) + sum(each.rows for each in sending)
        if sending or taken != total.rows:
            raise JobTotalError(job=total.job, channel=channel, rows=total.rows, taken=taken, sending=len(sending))
        self._ensured_job(total.job).done.add(channel)

    def fail(self, job: str, channel: str) -> bool:
        """Note that a job has failed, and is over in this channel; return whether rows of it may be there.

        Raises:
            InvalidParametersError: the job has no name or too long a one.
            ChannelResetError: the channel was reset since the job began in it.
            TooManyTasksError: the jobs that still send are more than can be remembered.
        """
        _require_job(job)
        self._require_entered(self._jobs.get(job), channel)
        failed = self._ensured_job(job)
        failed.failed.add(channel)
        failed.done.discard(channel)
        return channel in failed.entered or channel in self._unsure

    def unfinished(self, channel: str) -> str:
        """A job that has rows in the channel, or an open attempt, and has not said its total there; or ""."""
        opened = self._opened.get(channel, 0)
        for name, job in self._jobs.items():
            if job.entered.get(channel, -1) < opened or channel in job.done:
                continue
            if job.rows.get(channel) or any(each.channel == channel for each in job.open):
                return name
        return ""

    def open_channel(self, channel: str, *, is_used: bool = False) -> None:
        """Note that a channel was added, or begins anew; ``is_used``: it has rows of jobs before this exchange."""
        self._opened[channel] = next(self._ticks)
        self._unsure.discard(channel)
        if is_used:
            self._unsure.add(channel)

    def remove_channel(self, channel: str) -> None:
        """Forget a channel."""
        del self._opened[channel]
        self._unsure.discard(channel)

    def _require_entered(self, job: _Job | None, channel: str) -> None:
        if job is not None and channel in job.entered and job.entered[channel] < self._opened.get(channel, 0):
            raise ChannelResetError(channel=channel)

    def _ensured_job(self, name: str) -> _Job:
        """The job, also one without tasks, which takes memory, too."""
        if name not in self._jobs:
            self._make_room(name)
            self._jobs[name] = _Job()
            self._tasks += 1
        return self._jobs[name]

    def _make_room(self, asking: str) -> None:
        while self._tasks >= self._most_tasks:
            idle = next((name for name, job in self._jobs.items() if name != asking and not job.open), None)
            if idle is None:
                raise TooManyTasksError(job=asking, limit=self._most_tasks)
            forgotten = self._jobs.pop(idle)
            self._unsure |= (forgotten.entered.keys() - forgotten.done) & self._opened.keys()
            self._tasks -= max(1, sum(len(task.sendings) for task in forgotten.tasks.values()))


def _require_job(job: str) -> None:
    if not job:
        raise InvalidParametersError(name="job", value=job, rule="must not be empty")
    require_name("job", job)
