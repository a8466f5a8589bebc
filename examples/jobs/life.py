"""The life of one job, as a model: submitted, dropped, sent again, pulled, worked on, reported, confirmed, forgotten.

``permitflow explain examples.jobs.life:LIFE`` shows a run.  ``JobBook`` is what the master does here; a test lets the
model lead it.

The client and the master have a connection, with an order of its own in each direction.  It may break at any time, and
all that is under way is lost.  A worker may die; or be taken for dead, and its result comes late.
"""

from typing import Literal, NamedTuple

from permitflow_model.kernel.system import Action, System, require

UP = 3
"""Messages that may be under way from the client to the master."""

Known = Literal["no", "waits", "taken back", "given", "finished"]


class State(NamedTuple):
    """Where the job is."""

    client: Literal["idle", "waiting", "done"] = "idle"
    up: tuple[Literal["job", "confirm"], ...] = ()
    known: Known = "no"
    """What the master knows of it."""
    unwritten: bool = False
    """Is its result to be written to the client?"""
    down: bool = False
    """Is it on its way to the client?"""
    late: bool = False
    """Does a worker have it that was taken for dead?"""
    finished: int = 0
    """How often the master has taken it for finished."""
    reported: int = 0
    """How often the client has."""


def submit(state: State, _: None) -> State:
    """The client submits it."""
    require(state.client == "idle")
    return state._replace(client="waiting", up=(*state.up, "job"))


def resend(state: State, _: None) -> State:
    """It was not reported in time, and the client sends it again."""
    require(state.client == "waiting")
    require(len(state.up) < UP)
    return state._replace(up=(*state.up, "job"))


def hear_job(state: State, _: None) -> State:
    """The master reads a job: it queues one that it does not know, and tells the result of one that is finished."""
    require(state.up[:1] == ("job",))
    after = state._replace(up=state.up[1:])
    if state.known == "no":
        return after._replace(known="waits")
    return after._replace(unwritten=True) if state.known == "finished" else after


def hear_confirm(state: State, _: None) -> State:
    """The master reads a confirmation, and forgets the job."""
    require(state.up[:1] == ("confirm",))
    after = state._replace(up=state.up[1:])
    return after._replace(known="no", unwritten=False) if state.known == "finished" else after


def drop(state: State, _: None) -> State:
    """Others come, the queue is full, and it gives way; the master forgets it."""
    require(state.known == "waits")
    return state._replace(known="no")


def pull(state: State, _: None) -> State:
    """A worker pulls it."""
    require(state.known in ("waits", "taken back"))
    return state._replace(known="given")


def kill(state: State, _: None) -> State:
    """The worker dies, and the master takes the job back; it is no longer in the queue that drops."""
    require(state.known == "given")
    return state._replace(known="taken back")


def abandon(state: State, _: None) -> State:
    """The worker is taken for dead, and is not."""
    require(state.known == "given")
    require(not state.late)
    return state._replace(known="taken back", late=True)


def finish(state: State, _: None) -> State:
    """The worker's result comes."""
    require(state.known == "given")
    return _finished(state)


def finish_late(state: State, _: None) -> State:
    """The result of a worker comes that was taken for dead."""
    require(state.late)
    after = state._replace(late=False)
    return _finished(after) if state.known in ("taken back", "given") else after


def _finished(state: State) -> State:
    # Twice is wrong, and more often is not counted.
    return state._replace(known="finished", unwritten=True, finished=min(state.finished + 1, 2))


def write(state: State, _: None) -> State:
    """The master writes the result, if the client reads."""
    require(state.unwritten)
    require(not state.down)
    return state._replace(unwritten=False, down=True)


def read(state: State, _: None) -> State:
    """The client reads the result, counts it if it is the first one, and confirms."""
    require(state.down)
    require(len(state.up) < UP)
    is_first = state.client == "waiting"
    return state._replace(
        client="done", up=(*state.up, "confirm"), down=False, reported=state.reported + (1 if is_first else 0)
    )


def reconnect(state: State, _: None) -> State:
    """The connection breaks, and a new one is made, on which the master tells what was not confirmed."""
    require(state.client != "idle")
    require(bool(state.up) or state.down)
    return state._replace(up=(), down=False, unwritten=state.known == "finished")


LIFE: System[State, None] = System(
    module="JobLife",
    initial=lambda _: State(),
    actions=(
        Action("Submit", submit, is_environment=True),
        Action("Resend", resend),
        Action("HearJob", hear_job),
        Action("HearConfirm", hear_confirm),
        Action("Drop", drop, is_environment=True),
        Action("Pull", pull),
        Action("Kill", kill, is_environment=True),
        Action("Abandon", abandon, is_environment=True),
        Action("Finish", finish),
        Action("FinishLate", finish_late),
        Action("Write", write),
        Action("Read", read),
        Action("Reconnect", reconnect, is_environment=True),
    ),
    invariants={
        "FinishedOnce": lambda state, _: state.finished <= 1,
        "ReportedOnce": lambda state, _: state.reported <= 1,
        "ReportedIfDone": lambda state, _: (state.reported == 1) == (state.client == "done"),
        # So a result is always for a job that a worker has or had, never for one that waits in the queue.
        "LateIsNotQueued": lambda state, _: not (state.late and state.known == "waits"),
        "NotLost": lambda state, _: state.client != "done" or state.finished == 1,
    },
    at_rest=lambda state, _: state.client == "idle" or (state.client == "done" and state.known == "no"),
)
