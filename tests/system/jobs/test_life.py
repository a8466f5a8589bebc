"""A job of the example system is reported once in every run of the model, and the master's book follows the model."""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from examples.jobs.book import JobBook, JobId, Submitted
from examples.jobs.life import LIFE, State, hear_confirm, read, write
from permitflow_model.kernel.explore import explore
from permitflow_model.kernel.system import require

JOB, OTHER = JobId("c1", 0), "c2"
WORK, RESULT = 3, 7


def test_a_job_is_finished_and_reported_once_in_every_run() -> None:
    found = explore(LIFE, None)
    assert (found.violations, found.deadlock) == ([], None)


def hear_confirm_first(state: State, _: None) -> State:
    """What came on an old connection is read after what comes on the new one."""
    require("confirm" in state.up)
    rest = [*state.up]
    rest.remove("confirm")
    return hear_confirm(state._replace(up=("confirm", *rest)), None)


def write_and_forget(state: State, _: None) -> State:
    return write(state, None)._replace(known="no")


def finish_late_again(state: State, _: None) -> State:
    require(state.late)
    return state._replace(late=False, known="finished", unwritten=True, finished=min(state.finished + 1, 2))


def read_again(state: State, _: None) -> State:
    after = read(state, None)
    return after._replace(reported=min(state.reported + 1, 2))


@pytest.mark.parametrize(
    ("action", "mistake", "broken"),
    [
        ("HearConfirm", hear_confirm_first, "FinishedOnce"),
        ("Write", write_and_forget, "FinishedOnce"),
        ("FinishLate", finish_late_again, "FinishedOnce"),
        ("Read", read_again, "ReportedOnce"),
    ],
)
def test_a_mistake_of_master_or_client_breaks_it(
    action: str, mistake: Callable[[State, None], State], broken: str
) -> None:
    actions = tuple(replace(each, perform=mistake) if each.name == action else each for each in LIFE.actions)
    found = explore(replace(LIFE, actions=actions), None)
    assert broken in {violation.invariant for violation in found.violations}


def runs() -> Iterator[list[str]]:
    """For each step of the model: a shortest run that ends with it."""
    start = LIFE.initial(None)
    shortest: dict[State, list[str]] = {start: []}
    ahead = deque([start])
    while ahead:
        state = ahead.popleft()
        for step in LIFE.successors(state, None):
            run = [*shortest[state], step.action]
            yield run
            if step.state not in shortest:
                shortest[step.state] = run
                ahead.append(step.state)


class Led:
    """A book that is led by the model: what it answers must be what the model says."""

    def __init__(self) -> None:
        self.state = LIFE.initial(None)
        self.book = JobBook(capacity=1, most_open=9)
        self._others = 0

    def perform(self, action: str) -> None:
        before, after = self.state, LIFE.perform(action, self.state, None)
        match action:
            case "HearJob":
                expected = {"no": Submitted.QUEUED, "finished": Submitted.FINISHED}.get(before.known, Submitted.KNOWN)
                assert self.book.submit(JOB, WORK, 0.0) is expected
            case "HearConfirm":
                self.book.confirm(JOB)
            case "Drop":
                self._push_out()
            case "Pull":
                self.book.join("w")
                job = self.book.take("w", 0.0)
                assert job is not None
                assert (job.id, job.work) == (JOB, WORK)
            case "Kill" | "Abandon":
                assert self.book.has_job("w")
                self.book.lose("w")
            case "Finish" | "FinishLate":
                assert self.book.finish(JOB, RESULT) is (after.finished > before.finished)
        self.state = after
        assert (0 in self.book.unconfirmed("c1")) is (after.known == "finished")
        assert self.book.queued == (after.known == "waits")
        assert self.book.counts["finished"] - self._others == after.finished

    def _push_out(self) -> None:
        """Another job comes, and goes its way."""
        other = JobId(OTHER, self._others)
        self.book.submit(other, 0, 0.0)
        self.book.join("other worker")
        self.book.take("other worker", 0.0)
        self.book.finish(other, 0)
        self.book.confirm(other)
        self._others += 1


def test_the_book_follows_the_model_in_every_step() -> None:
    taken = 0
    for run in runs():
        led = Led()
        for action in run:
            led.perform(action)
        taken += 1
    assert taken > 300
