"""A model as a user writes it: calls over two streams, which get stuck if there are too many."""

from typing import NamedTuple

from permitflow_model.kernel.system import Action, LeadsTo, System, require


class Service(NamedTuple):
    """How many calls there are, and what the two streams hold."""

    calls: int
    requests: int = 2
    replies: int = 2


class State(NamedTuple):
    """Messages by place."""

    sent: int = 0
    requests: int = 0
    at_work: int = 0
    replies: int = 0
    read: int = 0


def send(state: State, service: Service) -> State:
    """The client sends a call."""
    require(state.sent < service.calls)
    require(state.requests < service.requests)
    return state._replace(sent=state.sent + 1, requests=state.requests + 1)


def take(state: State, _service: Service) -> State:
    """The server begins with a call."""
    require(state.requests > 0)
    require(state.at_work == 0)
    return state._replace(requests=state.requests - 1, at_work=1)


def reply(state: State, service: Service) -> State:
    """The server answers."""
    require(state.at_work == 1)
    require(state.replies < service.replies)
    return state._replace(at_work=0, replies=state.replies + 1)


def read(state: State, service: Service) -> State:
    """The client reads a reply when it has sent all calls."""
    require(state.sent == service.calls)
    require(state.replies > 0)
    return state._replace(replies=state.replies - 1, read=state.read + 1)


def hang_up(state: State, _service: Service) -> State:
    """The client begins again."""
    require(state.sent > 0)
    return State()


CALLS = System[State, Service](
    module="Calls",
    initial=lambda _service: State(),
    actions=(
        *(Action(step.__name__, step, is_fair=True) for step in (send, take, reply, read)),
        Action("hang_up", hang_up, is_environment=True),
    ),
    invariants={"Bounded": lambda state, service: state.requests <= service.requests},
    at_rest=lambda state, service: state.read == service.calls,
)
ENDLESS = System[State, Service](
    module="Endless",
    initial=CALLS.initial,
    actions=CALLS.actions,
    invariants={},
    at_rest=CALLS.at_rest,
    leads_to={"Read": LeadsTo(lambda state, _: state.sent > 0, lambda state, service: state.read == service.calls)},
)
FIVE, SIX = Service(5), Service(6)
