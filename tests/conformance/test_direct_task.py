"""The model leads the books of attempts through its state graph: whose rows are taken, and what the job hears."""

from copy import deepcopy
from dataclasses import dataclass

import pytest

from permitflow.client import JobTotal, TaskAttempt
from permitflow.errors import JobTotalError, TaskRetryError
from permitflow.exchange.books.attempts import AttemptBooks, Sending
from permitflow_model.direct_task import SYSTEM, Attempt, Parameters, Phase, State, Verdict
from permitflow_model.kernel.family import Members
from permitflow_testing.moves import ActionRefused, Divergence, require, walk

RESTARTED = Parameters(attempts=2, rows=2, restarts=1)
THREE = Parameters(attempts=3, rows=1, restarts=1)
JOB, CHANNEL = "job", "orders"


@dataclass
class Running:
    """An attempt; its stream hands over what has come."""

    phase: Phase = "new"
    is_lost: bool = False
    way: int = 0
    handed_over: int = 0
    sending: Sending | None = None

    def rows_now(self) -> int:
        return self.handed_over

    def leave(self, phase: Phase) -> None:
        self.phase, self.is_lost, self.way = phase, False, 0

    def stop(self, _reason: str) -> None:
        self.leave("over")

    @property
    def taken(self) -> int:
        return 0 if self.sending is None else self.sending.rows


class DrivenTask:
    """The books decide who may send, whose stream ends, and whether the job ends well."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.current = self.found = self.restarts = 0
        self.verdict: Verdict = "none"
        self.attempts = [Running() for _ in range(parameters.attempts)]
        self.books = self.opened()

    def opened(self) -> AttemptBooks:
        books = AttemptBooks()
        books.open_channel(CHANNEL, found_rows=range(self.found))
        return books

    def running(self, name: int, *phases: Phase) -> Running:
        require(self.attempts[name].phase in phases)
        return self.attempts[name]

    # The scheduler, and what happens to attempts.

    def run_attempt(self, name: int) -> None:
        require(self.verdict == "none" and (name == 0 or self.attempts[name - 1].phase != "new"))
        self.running(name, "new").phase = "run"

    def lose_sending(self, name: int) -> None:
        one = self.running(name, "run", "open")
        require(not one.is_lost)
        one.is_lost = True

    def forget_attempts(self) -> None:
        require(self.verdict == "none" and self.restarts < self.parameters.restarts)
        self.current, self.restarts = 0, self.restarts + 1
        self.found += sum(one.taken for one in self.attempts)
        self.books = self.opened()
        for one in self.attempts:
            one.sending, one.handed_over = None, 0
            if one.phase == "open":
                one.leave("over")

    def give_up_job(self) -> None:
        require(self.verdict == "none")
        has_rows = self.found > 0 or any(one.taken for one in self.attempts)
        assert self.books.fail(JOB, CHANNEL, since_row=0) is has_rows
        self.verdict = "broken"

    def done(self) -> None:
        require(self.verdict != "none")

    # What the books decide.

    def begin_attempt(self, name: int) -> None:
        require(self.verdict == "none")
        one = self.running(name, "run")
        stated = TaskAttempt(JOB, 0, name + 1, is_retry=name > 0)
        try:
            one.sending = self.books.begin(stated, CHANNEL, one.rows_now, one.stop, since_row=0)
        except TaskRetryError as error:
            raise ActionRefused(str(error)) from error
        one.phase, self.current = "open", name + 1

    def refuse_attempt(self, name: int) -> None:
        require(self.verdict == "none")
        one = self.running(name, "run")
        try:
            deepcopy(self).begin_attempt(name)
        except ActionRefused:
            one.leave("over")
        else:
            raise ActionRefused("it may begin")

    def send_directly(self, name: int) -> None:
        one = self.running(name, "open")
        require(not one.is_lost and one.way + one.taken < self.parameters.rows)
        one.way += 1

    def take_directly(self, name: int) -> None:
        one = self.running(name, "open")
        require(self.verdict == "none" and one.way)
        one.way, one.handed_over = one.way - 1, one.handed_over + 1

    def end_sending(self, name: int) -> None:
        one = self.running(name, "open")
        require(not one.is_lost and one.taken == self.parameters.rows)
        self.ends(one, "ended")

    def notice_sending(self, name: int) -> None:
        one = self.attempts[name]
        require(one.is_lost)
        self.ends(one, "over")

    def ends(self, one: Running, phase: Phase) -> None:
        if one.sending is not None:
            one.sending.end()
        one.leave(phase)

    def commit_job(self, name: int) -> None:
        require(self.verdict == "none")
        self.running(name, "ended")
        try:
            self.books.require_total(JobTotal(JOB, self.parameters.rows), CHANNEL, since_row=0)
        except JobTotalError:
            self.verdict = "broken"
        else:
            self.verdict = "whole"

    def observe(self) -> State:
        attempts = Members(Attempt(one.phase, one.is_lost, one.way, one.taken) for one in self.attempts)
        return State(self.current, self.found, self.verdict, self.restarts, attempts)


@pytest.mark.parametrize("parameters", [RESTARTED, THREE], ids=["restarted", "three attempts"])
def test_the_books_take_every_step_of_the_model_and_no_other(parameters: Parameters) -> None:
    walk(SYSTEM, DrivenTask(parameters), parameters)


def test_rows_that_are_taken_beside_a_later_attempt_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of an attempt that is only slow, or of one whose loss is not noticed yet."""
    monkeypatch.setattr(Sending, "fence", lambda sending, reason: None)
    with pytest.raises(Divergence, match="after BeginAttempt"):
        walk(SYSTEM, DrivenTask(RESTARTED), RESTARTED, never={"GiveUpJob"})
