"""The books of attempts whose rows are delivered as they come: those of one attempt at a task, and of no other.

A scheduler such as Spark's runs a task again whose rows may have been read already, and numbers its attempts from 0
again where a whole stage runs again.  So an attempt is known by its job, its task's partition, and a number that the
scheduler gives to one attempt only, higher ones to later ones.  A later attempt takes the place of one that has sent
nothing: what that one still sends is not taken.  Once rows of an attempt have come, it is the only one.  At its end the
job says how many rows count; if others were taken, some of them stand twice, or are missing.

A channel that is reset begins anew, and jobs that have put into it before are over there: what they still say comes too
late.  A channel that keeps its rows may have some of jobs that this exchange has never known, because it was started
again: such jobs are told by the row at which they were planned.

Memory is bounded: beyond ``MOST_TASKS`` tasks, whole jobs are forgotten, first the one that began first and has no
open stream.  A forgotten job cannot end well any more.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from sys import maxsize

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

LATE = "a later attempt has taken its place, and sends all rows of the task"
"""Why an attempt is over that has sent nothing."""


@dataclass(slots=True, eq=False)
class Sending:
    """The only attempt at a task, as far as it goes into one channel."""

    channel: str
    rows_now: Callable[[], int] | None
    """The rows that it has sent, while its stream is open."""
    stop: Callable[[str], None]
    """End its stream for this reason: nothing more of it is taken."""
    job: "_Job"
    _rows: int = 0

    @property
    def rows(self) -> int:
        """The rows that it has sent."""
        return self._rows if self.rows_now is None else self.rows_now()

    def end(self) -> None:
        """Note that no more rows will come; no effect the second time.

        Spec: EndSending, NoticeSending of DirectTask.
        """
        if self.rows_now is None:
            return
        self._rows, self.rows_now = self.rows_now(), None
        del self.job.open[self]
        self.job.rows[self.channel] = self.job.rows.get(self.channel, 0) + self._rows

    def fence(self, reason: str) -> None:
        """Take nothing from now on from an attempt that has sent nothing, though rows of it may be on their way."""
        if self.rows_now is not None:
            self.end()
            self.stop(reason)


@dataclass(slots=True, eq=False)
class _Task:
    attempt: int
    sendings: dict[str, Sending] = field(default_factory=dict)
    """By channel."""

    @property
    def has_rows(self) -> bool:
        """Have rows of it come?"""
        return any(each.rows > 0 for each in self.sendings.values())


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
    sendings: int = 0
    """Of the attempts at its tasks."""

    @property
    def size(self) -> int:
        """As how many tasks it counts: it takes memory without one, too."""
        return max(1, self.sendings)

    def is_in(self, channel: str) -> bool:
        """Has it rows in the channel, or an open attempt?"""
        return bool(self.rows.get(channel)) or any(each.channel == channel for each in self.open)

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
        self._reset_rows: dict[str, int] = {}
        """... and before which row of its log, if it keeps its rows and was reset."""
        self._found_rows: dict[str, range] = {}
        """The rows that channels keep from before this exchange, up to the next row of the log then."""
        self._unsure = set[str]()
        """Channels that have rows of jobs which are forgotten."""

    def __len__(self) -> int:
        return self._tasks

    def begin(
        self,
        attempt: TaskAttempt,
        channel: str,
        rows_now: Callable[[], int],
        stop: Callable[[str], None],
        since_row: int | None = None,
    ) -> Sending:
        """Begin an attempt at a task, in one of the channels of its rows; an older one that has sent nothing is over.

        Args:
            attempt: whose job, partition and number.
            channel: where its rows go.
            rows_now: tells how many rows have come, until ``Sending.end``.
            stop: ends its stream for a reason; called when a later attempt takes its place, or its job has failed.
            since_row: the next row of the channel's log when the job was planned; None: not known, or it has no log.

        Raises:
            InvalidParametersError: the job has no name or too long a one, or the partition is below 0.
            ChannelResetError: the channel was reset since the job began in it.
            TaskRetryError: another attempt at this task has sent rows, or may have, or is a later one; or this one has
                begun in this channel before, or the job is over.
            TooManyTasksError: the job has more tasks than can be remembered.

        Spec: BeginAttempt, RefuseAttempt of DirectTask.
        """
        _require_job(attempt.job)
        if attempt.partition < 0:
            raise InvalidParametersError(name="partition", value=attempt.partition, rule="must be at least 0")
        job = self._jobs.get(attempt.job)
        self.require_entered(attempt.job, channel, since_row)
        task = None if job is None else job.tasks.get(attempt.partition)
        if task is not None and attempt.attempt < task.attempt:
            raise TaskRetryError(partition=attempt.partition, attempt=attempt.attempt, reason=LATE)
        is_another = task is not None and task.attempt != attempt.attempt
        is_taken = task is not None and (task.has_rows if is_another else channel in task.sendings)
        may_be_taken = attempt.is_retry and self._may_have_rows(channel, since_row or 0)
        if is_taken or may_be_taken or (job is not None and job.is_over(channel)):
            raise TaskRetryError(partition=attempt.partition, attempt=attempt.attempt)
        if not is_another:
            self._make_room(attempt.job)
        job = self._ensured_job(attempt.job)
        size = job.size
        if task is not None and is_another:
            for each in task.sendings.values():
                each.fence(LATE)
            job.sendings -= len(task.sendings)
        if task is None or is_another:
            task = job.tasks[attempt.partition] = _Task(attempt.attempt)
        job.sendings += 1
        self._tasks += job.size - size
        job.entered.setdefault(channel, next(self._ticks))
        sending = task.sendings[channel] = Sending(channel, rows_now, stop, job)
        job.open[sending] = None
        return sending

    def require_entered(self, job: str, channel: str, since_row: int | None) -> None:
        """Require that a channel was not reset since a job began in it; ``since_row``: as for ``begin``.

        Raises:
            ChannelResetError: it was.
        """
        known = self._jobs.get(job)
        is_older = known is not None and known.entered.get(channel, maxsize) < self._opened.get(channel, 0)
        if is_older or (since_row is not None and since_row < self._reset_rows.get(channel, 0)):
            raise ChannelResetError(channel=channel)

    def spoils(self, attempt: TaskAttempt) -> bool:
        """Has an earlier attempt at this task sent rows whose job is not over, which may count or not?"""
        job = self._jobs.get(attempt.job)
        first = None if job is None else job.tasks.get(attempt.partition)
        if job is None or first is None or attempt.attempt < first.attempt:
            return False
        return any(each.rows > 0 and not job.is_over(each.channel) for each in first.sendings.values())

    def require_total(self, total: JobTotal, channel: str, since_row: int | None = None) -> None:
        """Compare what a job says that counts with what has come; the job is over then.

        ``since_row``: as for ``begin``.

        Raises:
            InvalidParametersError: the job has no name or too long a one.
            ChannelResetError: the channel was reset since the job began in it.
            JobTotalError: other rows have come, or some still may, or may have come before this exchange.

        Spec: CommitJob of DirectTask.
        """
        _require_job(total.job)
        job = self._jobs.get(total.job)
        self.require_entered(total.job, channel, since_row)
        sending = [] if job is None else [each for each in job.open if each.channel == channel]
        taken = 0 if job is None else job.rows.get(channel, 0) + sum(each.rows for each in sending)
        is_unsure = since_row is not None and self._has_found(channel, since_row)
        if sending or is_unsure or taken != total.rows:
            raise JobTotalError(job=total.job, channel=channel, rows=total.rows, taken=taken, sending=len(sending))
        self._ensured_job(total.job).done.add(channel)

    def fail(self, job: str, channel: str, since_row: int | None = None) -> bool:
        """Note that a job has failed, and is over in this channel; return whether rows of it may be there.

        Its attempts that have sent nothing are over.  ``since_row``: as for ``begin``.

        Raises:
            InvalidParametersError: the job has no name or too long a one.
            ChannelResetError: the channel was reset since the job began in it.
            TooManyTasksError: the jobs that still send are more than can be remembered.

        Spec: GiveUpJob of DirectTask.
        """
        _require_job(job)
        self.require_entered(job, channel, since_row)
        failed = self._ensured_job(job)
        failed.failed.add(channel)
        failed.done.discard(channel)
        for each in [each for each in failed.open if each.channel == channel and not each.rows]:
            each.fence("its job has failed")
        return failed.is_in(channel) or self._may_have_rows(channel, since_row)

    def unfinished(self, channel: str) -> str:
        """A job that has rows in the channel, or an open attempt, and has not said its total there; or ""."""
        opened = self._opened.get(channel, 0)
        for name, job in self._jobs.items():
            if job.entered.get(channel, -1) < opened or channel in job.done:
                continue
            if job.is_in(channel):
                return name
        return ""

    def open_channel(self, channel: str, *, found_rows: range = range(0), reset_row: int = 0) -> None:
        """Note that a channel was added, or begins anew.

        Args:
            channel: its name.
            found_rows: that it keeps, from before this exchange, up to the next row of its log.
            reset_row: the next row of its log, if it was reset; jobs that were planned before are over.
        """
        self._opened[channel] = next(self._ticks)
        self._reset_rows[channel] = reset_row
        found = self._found_rows.get(channel)  # a reset keeps rows; that a job fails does not matter to them any more
        self._found_rows[channel] = found_rows if found is None else range(found.stop, found.stop)
        self._unsure.discard(channel)

    def remove_channel(self, channel: str) -> None:
        """Forget a channel."""
        del self._opened[channel], self._reset_rows[channel], self._found_rows[channel]
        self._unsure.discard(channel)

    def _has_found(self, channel: str, since_row: int) -> bool:
        """May rows from before this exchange be of a job that was planned at this row?"""
        return since_row < self._found_rows.get(channel, range(0)).stop

    def _may_have_rows(self, channel: str, since_row: int | None) -> bool:
        """May the channel have rows of a job that is not known?"""
        is_kept = bool(self._found_rows.get(channel)) if since_row is None else self._has_found(channel, since_row)
        return is_kept or channel in self._unsure

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
            for channel, rows in forgotten.rows.items():
                is_over = channel in forgotten.done or forgotten.entered[channel] < self._opened.get(channel, maxsize)
                if rows and not is_over:
                    self._unsure.add(channel)
            self._tasks -= forgotten.size


def _require_job(job: str) -> None:
    if not job:
        raise InvalidParametersError(name="job", value=job, rule="must not be empty")
    require_name("job", job)
