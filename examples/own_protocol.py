"""A protocol of one's own, explored: a client makes all its calls before it reads a reply.  How many may it make?"""

from typing import NamedTuple

from permitflow_model.kernel.explore import explore
from permitflow_model.kernel.system import Action, System, require

ROOM = 2  # messages in each of the two streams


class State(NamedTuple):
    """How many messages are where."""

    sent: int = 0
    requests: int = 0
    replies: int = 0
    read: int = 0


def send(state: State, calls: int) -> State:
    """The client makes a call."""
    require(state.sent < calls)
    require(state.requests < ROOM)
    return state._replace(sent=state.sent + 1, requests=state.requests + 1)


def serve(state: State, calls: int) -> State:
    """The server takes a call and answers it, if there is room for the reply."""
    require(state.requests > 0)
    require(state.replies < ROOM)
    return state._replace(requests=state.requests - 1, replies=state.replies + 1)


def read(state: State, calls: int) -> State:
    """The client reads a reply, once it has made all its calls."""
    require(state.sent == calls)
    require(state.replies > 0)
    return state._replace(replies=state.replies - 1, read=state.read + 1)


CALLS = System(
    module="Calls",
    initial=lambda calls: State(),
    actions=tuple(Action(step.__name__, step) for step in (send, serve, read)),
    invariants={"NoneLost": lambda state, calls: state.sent == state.requests + state.replies + state.read},
    at_rest=lambda state, calls: state.read == calls,  # an intended end is no deadlock
)

for calls in (4, 5):
    found = explore(CALLS, calls)
    print(f"{calls} calls: {'stuck' if found.deadlock else 'live'}, violations: {found.violations}")
    if found.deadlock:
        print(found.deadlock)  # a shortest run that leads there
