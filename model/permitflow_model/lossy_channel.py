"""``LossyChannel.tla``, action for action: a channel over a network that loses, doubles and reorders messages.

Numbered data, cumulative acknowledgements and limits, both sent again: docs/protocols/lossy-channel.md explains it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from permitflow_model.kernel.parameters import Bounded, Natural, Positive
from permitflow_model.kernel.queue import Fifo, Queue, larger
from permitflow_model.kernel.system import Action, System, require
from permitflow_model.registry import Registered


@dataclass(frozen=True, kw_only=True)
class Parameters(Bounded):
    """The constants of the specification."""

    window: Positive
    """Data that the receiver has places for."""

    total: Positive
    """Data that the application sends."""

    copies: Positive
    """The most copies in each direction of the network."""

    cumulative: bool = True
    """Does feedback tell a limit, of which the largest counts?  If not, permits to be added."""

    retransmits: bool = True
    """Are data sent again that are not acknowledged?"""

    reminds: bool = True
    """Is the last feedback sent again?"""

    losses: bool = True
    """Does the network lose copies?"""

    duplicates: bool = True
    """Does it double them?"""

    reorders: bool = True
    """Does it reorder them?"""

    reconnects: Natural = 0
    """How often the two ends make a new connection."""

    epochs: bool = True
    """Does a copy tell of which connection it is?  If not, those of an earlier one count."""


class Feedback(NamedTuple):
    """What the receiver tells."""

    ack: int
    """All data below this number have arrived."""

    limit: int
    """Data below this number may be sent; or this many permits are to be added."""


class State(NamedTuple):
    """The variables of the specification; data are their numbers."""

    sent: int
    acked: int
    limit: int
    data: Queue[int]
    feedback: Queue[Feedback]
    received: int
    inbox: Queue[int]
    consumed: int
    unreturned: int
    due: bool
    epoch: int


def initial(parameters: Parameters) -> State:
    """Nothing was sent yet, and a window may be."""
    return State(
        sent=0,
        acked=0,
        limit=parameters.window,
        data=Fifo(),
        feedback=Fifo(),
        received=0,
        inbox=Fifo(),
        consumed=0,
        unreturned=0,
        due=False,
        epoch=0,
    )


def told(state: State, parameters: Parameters) -> Feedback:
    """What the receiver tells now."""
    limit = state.consumed + parameters.window if parameters.cumulative else state.unreturned
    return Feedback(state.received, limit)


def raised(state: State, parameters: Parameters, feedback: Feedback) -> int:
    """The sender's limit after this feedback."""
    return larger(state.limit, feedback.limit) if parameters.cumulative else state.limit + feedback.limit


def is_news(state: State, parameters: Parameters, feedback: Feedback) -> bool:
    """Does it tell the sender anything?"""
    return feedback.ack > state.acked or raised(state, parameters, feedback) > state.limit


def done(state: State, parameters: Parameters) -> State:
    """Everything is consumed and acknowledged, and nothing is under way: the run has ended."""
    require(state.consumed == parameters.total)
    require(state.acked == parameters.total)
    require(state.data.is_empty())
    require(state.feedback.is_empty())
    require(not state.due)
    return state


def lose_data(state: State, parameters: Parameters) -> State:
    """The network loses its oldest copy of data."""
    require(parameters.losses)
    require(not state.data.is_empty())
    return state._replace(data=state.data.without_head())


def lose_feedback(state: State, parameters: Parameters) -> State:
    """The network loses its oldest copy of feedback."""
    require(parameters.losses)
    require(not state.feedback.is_empty())
    return state._replace(feedback=state.feedback.without_head())


def duplicate_data(state: State, parameters: Parameters) -> State:
    """The network doubles its oldest copy of data."""
    require(parameters.duplicates)
    require(not state.data.is_empty())
    require(state.data.size() < parameters.copies)
    return state._replace(data=state.data.push(state.data.head()))


def duplicate_feedback(state: State, parameters: Parameters) -> State:
    """The network doubles its oldest copy of feedback."""
    require(parameters.duplicates)
    require(not state.feedback.is_empty())
    require(state.feedback.size() < parameters.copies)
    return state._replace(feedback=state.feedback.push(state.feedback.head()))


def reorder_data(state: State, parameters: Parameters) -> State:
    """All other copies of data overtake the oldest one."""
    require(parameters.reorders)
    require(state.data.size() > 1)
    return state._replace(data=state.data.without_head().push(state.data.head()))


def reorder_feedback(state: State, parameters: Parameters) -> State:
    """All other copies of feedback overtake the oldest one."""
    require(parameters.reorders)
    require(state.feedback.size() > 1)
    return state._replace(feedback=state.feedback.without_head().push(state.feedback.head()))


def reconnect(state: State, parameters: Parameters) -> State:
    """The ends make a new connection, and begin anew: one of them has stopped, or has given the other one up.

    A copy of an earlier connection is dropped wherever it arrives; so it may as well be lost at once.
    """
    require(state.epoch < parameters.reconnects)
    anew = initial(parameters)._replace(epoch=state.epoch + 1)
    return anew if parameters.epochs else anew._replace(data=state.data, feedback=state.feedback)


def send(state: State, parameters: Parameters) -> State:
    """The next number leaves."""
    require(state.sent < state.limit)
    require(state.sent < parameters.total)
    require(state.data.size() < parameters.copies)
    return state._replace(data=state.data.push(state.sent), sent=state.sent + 1)


def retransmit(state: State, parameters: Parameters, behind: int = 0) -> State:
    """A number that is not acknowledged leaves again; behind 0, the oldest one."""
    require(parameters.retransmits)
    require(state.acked + behind < state.sent)
    require(state.data.size() < parameters.copies)
    return state._replace(data=state.data.push(state.acked + behind))


def deliver(state: State, _parameters: Parameters) -> State:
    """The number arrives that is due."""
    require(not state.data.is_empty())
    number = state.data.head()
    require(number == state.received)
    return state._replace(
        data=state.data.without_head(), inbox=state.inbox.push(number), received=state.received + 1, due=True
    )


def refuse(state: State, _parameters: Parameters) -> State:
    """Another number arrives: it is dropped, and what has arrived is acknowledged again."""
    require(not state.data.is_empty())
    require(state.data.head() != state.received)
    return state._replace(data=state.data.without_head(), due=True)


def consume(state: State, parameters: Parameters) -> State:
    """The application has consumed the oldest number."""
    require(not state.inbox.is_empty())
    return state._replace(
        inbox=state.inbox.without_head(),
        consumed=state.consumed + 1,
        unreturned=0 if parameters.cumulative else state.unreturned + 1,
        due=True,
    )


def acknowledge(state: State, parameters: Parameters) -> State:
    """The receiver tells what has arrived, and what may be sent."""
    require(state.due)
    require(state.feedback.size() < parameters.copies)
    return state._replace(feedback=state.feedback.push(told(state, parameters)), unreturned=0, due=False)


def remind(state: State, parameters: Parameters) -> State:
    """After a time-out the receiver tells it again: the last feedback may have been lost."""
    require(parameters.reminds)
    require(not state.due)
    return state._replace(due=True)


def hear(state: State, parameters: Parameters) -> State:
    """Feedback arrives that tells the sender something."""
    require(not state.feedback.is_empty())
    feedback = state.feedback.head()
    require(is_news(state, parameters, feedback))
    return state._replace(
        acked=larger(state.acked, feedback.ack),
        limit=raised(state, parameters, feedback),
        feedback=state.feedback.without_head(),
    )


def ignore(state: State, parameters: Parameters) -> State:
    """Feedback arrives that tells nothing: it is late, or doubled."""
    require(not state.feedback.is_empty())
    require(not is_news(state, parameters, state.feedback.head()))
    return state._replace(feedback=state.feedback.without_head())


def _behind(parameters: Parameters) -> Iterator[tuple[int]]:
    return ((behind,) for behind in range(parameters.window))


def after(number: int) -> int:
    """The number that follows; of all in a queue together, the number that none of them reaches."""
    return number + 1


def ack_of(feedback: Feedback) -> int:
    """What it acknowledges."""
    return feedback.ack


def limit_of(feedback: Feedback) -> int:
    """Its limit."""
    return feedback.limit


def is_natural(number: int, _parameters: Parameters) -> bool:
    """May it be the number of data?"""
    return number >= 0


def is_feedback(feedback: Feedback, _parameters: Parameters) -> bool:
    """Are its numbers in their range?"""
    return feedback.ack >= 0 and feedback.limit >= 0


OUT_OF_ORDER = -1
"""No data have this number: after one that is out of order, none is due."""


def due_after(due: int, number: int, _parameters: Parameters) -> int:
    """The number that is due after this one, or ``OUT_OF_ORDER`` if another one was due."""
    return number + 1 if number == due else OUT_OF_ORDER


def type_ok(state: State, parameters: Parameters) -> bool:
    """Every variable is in its range."""
    return (
        0 <= state.sent <= parameters.total
        and state.acked >= 0
        and state.limit >= 0
        and state.received >= 0
        and state.consumed >= 0
        and state.unreturned >= 0
        and 0 <= state.epoch <= parameters.reconnects
        and state.data.every(is_natural, parameters)
        and state.inbox.every(is_natural, parameters)
        and state.feedback.every(is_feedback, parameters)
    )


def nothing_invented(state: State, _parameters: Parameters) -> bool:
    """Nobody knows of data that were not sent, or of arrivals that did not happen."""
    return (
        state.acked <= state.received <= state.sent
        and state.data.sum_of(after, larger, 0) <= state.sent
        and state.feedback.sum_of(ack_of, larger, 0) <= state.received
    )


def limit_granted(state: State, parameters: Parameters) -> bool:
    """The sender never goes beyond its limit, and no limit beyond the receiver's places."""
    places = state.consumed + parameters.window
    return state.sent <= state.limit <= places and state.feedback.sum_of(limit_of, larger, 0) <= places


def in_order(state: State, parameters: Parameters) -> bool:
    """The inbox holds the numbers from consumed to received: none is lost, doubled or overtaken."""
    due = state.inbox.fold(due_after, state.consumed, parameters)
    return due == state.received and state.received == state.consumed + state.inbox.size()


def bounded(state: State, parameters: Parameters) -> bool:
    """Whatever may still arrive has a place."""
    return state.sent - state.consumed <= parameters.window


def never_starved(state: State, parameters: Parameters) -> bool:
    """A sender that may not send, and whose data are all consumed and acknowledged, will be told of more."""
    is_at_limit = state.sent == state.limit and state.acked == state.sent and state.consumed == state.sent
    is_network_empty = state.data.is_empty() and state.feedback.is_empty()
    if state.sent == parameters.total or not is_at_limit or not is_network_empty:
        return True
    return state.due or parameters.reminds if parameters.cumulative else state.unreturned > 0


_Step = Callable[..., State]


def _of_network(name: str, perform: _Step) -> Action[State, Parameters]:
    return Action(name, perform, is_environment=True)


SYSTEM: System[State, Parameters] = System(
    module="LossyChannel",
    initial=initial,
    actions=(
        _of_network("Done", done),
        _of_network("LoseData", lose_data),
        _of_network("LoseFeedback", lose_feedback),
        _of_network("DuplicateData", duplicate_data),
        _of_network("DuplicateFeedback", duplicate_feedback),
        _of_network("ReorderData", reorder_data),
        _of_network("ReorderFeedback", reorder_feedback),
        _of_network("Reconnect", reconnect),
        Action("Send", send, end="sender"),
        Action("Retransmit", retransmit, _behind, end="sender"),
        Action("Deliver", deliver, is_arrival=True, end="receiver"),
        Action("Refuse", refuse, is_arrival=True, end="receiver"),
        Action("Consume", consume, end="receiver"),
        Action("Acknowledge", acknowledge, end="receiver"),
        Action("Remind", remind, end="receiver"),
        Action("Hear", hear, is_arrival=True, end="sender"),
        Action("Ignore", ignore, is_arrival=True, end="sender"),
    ),
    invariants={
        "TypeOK": type_ok,
        "NothingInvented": nothing_invented,
        "LimitGranted": limit_granted,
        "InOrder": in_order,
        "Bounded": bounded,
        "NeverStarved": never_starved,
    },
    probes={
        "NoDuplicateProbe": lambda state, _: all(number >= state.received for number in state.data),
        "NoGapProbe": lambda state, _: state.data.is_empty() or state.data.head() <= state.received,
        "NoLateLimitProbe": lambda state, _: all(feedback.limit >= state.limit for feedback in state.feedback),
    },
    counters={
        "sender": lambda state: (state.sent, state.acked, state.limit),
        "receiver": lambda state: (state.received, state.consumed),
    },
)

REGISTERED = Registered(
    system=SYSTEM,
    parameters=Parameters,
    theorems="permitflow_proofs.lossy_channel:theorems",
)
