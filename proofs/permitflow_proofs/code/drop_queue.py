"""``DropQueue`` refines the model of that name: what gives way when a job comes, and which job is served.

The model follows one watched job among any number of others; so does the stand-in for the deque.
"""

from functools import partial
from typing import Any

from permitflow.errors import BufferOverflowError
from permitflow.stages.core import drop_queue as core
from permitflow.stages.core import parameters as checks
from permitflow.stages.core.drop_queue import Overflow
from permitflow_model.drop_queue import SYSTEM, State
from permitflow_proofs.code.refinement import Outcome, attempt, put
from permitflow_proofs.code.stand_ins import standing_in
from permitflow_proofs.drop_queue import SUBJECT
from permitflow_proofs.kernel.chapter import claim
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.symbols import all_of, assume, equal, implies, natural, negated
from permitflow_proofs.kernel.theorem import Theorem

STRATEGIES = {
    "oldest": Overflow.DROP_OLDEST,
    "youngest": Overflow.DROP_YOUNGEST_BUFFERED,
    "incoming": Overflow.DROP_INCOMING,
}


class Jobs:
    """A deque of any number of jobs, one of which may be watched: ``ahead`` of them are before it."""

    def __init__(self, size: int, ahead: int, *, watched: bool) -> None:
        """``ahead`` is read only if one is watched."""
        self._size, self.ahead, self.watched = size, ahead, watched

    def size(self) -> int:
        """How many jobs there are."""
        return self._size

    def __bool__(self) -> bool:
        return bool(self._size > 0)

    def append(self, job: str) -> None:
        """As a deque's."""
        if job == "watched":
            self.watched, self.ahead = True, self._size
        self._size = self._size + 1

    def popleft(self) -> str:
        """As a deque's."""
        self._require()
        self._size = self._size - 1
        if self.watched and self.ahead <= 0:
            self.watched = False
            return "watched"
        self.ahead = self.ahead - 1
        return "another"

    def pop(self) -> str:
        """As a deque's."""
        self._require()
        self._size = self._size - 1
        if self.watched and self.ahead >= self._size:
            self.watched = False
            return "watched"
        return "another"

    def _require(self) -> None:
        if not self:
            raise IndexError("pop from an empty deque")


def _queue(state: State, capacity: int, overflow: Overflow) -> tuple[Any, list[str]]:
    """The queue in this state, and the list of the jobs that give way."""
    dropped: list[str] = []
    queue: Any = core.DropQueue(1, overflow, when_dropped=dropped.append)
    jobs = Jobs(state.size, state.ahead, watched=bool(state.watched))
    return put(queue, {"capacity": capacity, "_elements": jobs, "dropped": natural("dropped")}), dropped


def _begins(wrong: int) -> bool:
    """Init."""
    made = SUBJECT.any_parameters()
    with standing_in([core, checks]):
        queue: Any = core.DropQueue(made.capacity, Overflow.BLOCK)
    put(queue, {"_elements": Jobs(len(queue), 0, watched=False)})
    is_as_made = equal((queue.capacity, queue.dropped), (made.capacity, 0))
    return is_as_made and _stands_for(queue, SYSTEM.initial(made), wrong)


def _call(queue: Any, call: str, *arguments: str) -> Outcome:
    with standing_in([core]):
        return attempt(queue, lambda queue: getattr(queue, call)(*arguments))


def _stands_for(queue: Any, after: State, wrong: int) -> bool:
    jobs: Jobs = getattr(queue, "_elements")  # noqa: B009  # a private field
    if jobs.watched != bool(after.watched):
        return False
    return all_of([equal(jobs.size(), after.size + wrong), implies(after.watched, equal(jobs.ahead, after.ahead))])


def _arrives(overflow: Overflow, drops: str, wrong: int, *, watched: bool) -> bool:
    """A job comes: Arrive, or ArriveWatched if it is the one to be watched from here on."""
    state, made = SUBJECT.any_case()
    assume(made.drops == drops)
    queue, dropped = _queue(state, made.capacity, overflow)
    before, is_full = queue.dropped, bool(state.size >= made.capacity)
    if not SYSTEM.is_enabled("Arrive", state, made):
        return True
    is_let_in = not is_full or drops != "incoming"
    if watched and not SYSTEM.is_enabled("ArriveWatched", state, made):
        return True
    after = SYSTEM.perform("ArriveWatched" if watched else "Arrive", state, made)
    outcome = _call(queue, "offer", "watched" if watched else "another")
    is_lost = bool(state.watched) and not watched and not after.watched
    return (
        outcome.refusal is None
        and outcome.result is is_let_in
        and len(dropped) == is_full
        and ("watched" in dropped) is is_lost
        and bool(equal(queue.dropped, before + len(dropped)))
        and _stands_for(queue, after, wrong)
    )


def _is_full_where_it_is(wrong: int) -> bool:
    state, made = SUBJECT.any_case()
    queue, _ = _queue(state, made.capacity, Overflow.BLOCK)
    with standing_in([core]):
        return bool(queue.is_full) == bool(state.size + wrong >= made.capacity)


def _is_served(wrong: int) -> bool:
    """Serve: the oldest; IndexError where none waits."""
    state, made = SUBJECT.any_case()
    queue, dropped = _queue(state, made.capacity, Overflow.BLOCK)
    if not state.size > 0:
        try:
            _call(queue, "take")
        except IndexError:
            return True
        return False
    if not SYSTEM.is_enabled("Serve", state, made):
        return True
    after = SYSTEM.perform("Serve", state, made)
    is_watched = bool(state.watched) and not after.watched
    outcome = _call(queue, "take")
    is_it = outcome.result == "watched"
    return is_it is is_watched and not dropped and _stands_for(queue, after, wrong)


def _few(number: int, overflow: Overflow) -> tuple[Any, list[str], State]:
    """A full queue of this many, none of which is watched."""
    state, _ = SUBJECT.any_case()
    assume(equal(state.size, number))
    assume(negated(state.watched))
    queue, dropped = _queue(state, number, overflow)
    return queue, dropped, state


def _is_blocked(wrong: int) -> bool:
    """BLOCK: the model's sender does not come before there is room."""
    state, made = SUBJECT.any_case()
    assume(state.size >= made.capacity)
    queue, dropped = _queue(state, made.capacity, Overflow.BLOCK)
    outcome = _call(queue, "offer", "another")
    return outcome.result is False and not dropped and _stands_for(queue, state, wrong)


def _gives_way(number: int, overflow: Overflow, wrong: int) -> bool:
    """CLEAR and FAIL: all that are buffered give way."""
    queue, dropped, state = _few(number, overflow)
    before = queue.dropped
    outcome = _call(queue, "offer", "another")
    fails = overflow is Overflow.FAIL
    gone = number + fails
    if isinstance(outcome.refusal, BufferOverflowError) is not fails or len(dropped) != gone:
        return False
    after = state._replace(size=0 if fails else 1)
    return bool(equal(queue.dropped, before + gone)) and _stands_for(queue, after, wrong)


OBLIGATIONS: tuple[SymbolicObligation, ...] = (
    claim("it begins", _begins, "there is one more"),
    *(
        claim(
            f"{'the watched job' if watched else 'a job'} comes; {drops} gives way",
            partial(_arrives, overflow, drops, watched=watched),
            "there is one more",
        )
        for drops, overflow in STRATEGIES.items()
        for watched in (False, True)
    ),
    claim("it is full where no more is let in", _is_full_where_it_is, "one earlier"),
    claim("the oldest is served", _is_served, "there is one more"),
    claim("none is let in", _is_blocked, "there is one more"),
    *(
        claim(f"all {number} give way, {overflow.value}", partial(_gives_way, number, overflow), "there is one more")
        for number in (1, 2)
        for overflow in (Overflow.CLEAR, Overflow.FAIL)
    ),
)


def theorems() -> tuple[Theorem, ...]:
    """The claims about the queue."""
    return (
        Theorem(
            id="code-drop-queue",
            statement=(
                "The running DropQueue begins as its model does, drops the jobs that its model drops, whichever job is "
                "watched, and serves the oldest; where it clears itself, with one job or two."
            ),
            module="DropQueue",
            operator="Next",
            obligations=OBLIGATIONS,
        ),
    )
