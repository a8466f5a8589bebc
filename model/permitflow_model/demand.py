"""``Demand.tla``, action for action: the receiver asks for messages, a batch at a time."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from permitflow_model.kernel.numbered import (
    deliver,
    exactly_once_in_order,
    is_in_range,
    offer,
    successor,
    withdraw,
)
from permitflow_model.kernel.parameters import Bounded, Positive
from permitflow_model.kernel.queue import Fifo, Queue
from permitflow_model.kernel.system import Action, System, require
from permitflow_model.registry import Registered


@dataclass(frozen=True, kw_only=True)
class Parameters(Bounded):
    """The constants of the specification."""

    size: Positive
    """Messages that may be out at once."""

    batch: Positive
    """The receiver requests more once it has consumed this many."""

    initial: int
    """Messages that may be sent before any request; the receiver withholds the others."""

    waiters: Positive = 1
    """Messages that may wait at once."""

    withdrawals: bool = False
    """May the sender give up waiting?"""

    tags: int = 1
    """Numbers of messages are taken modulo this; 1: they are anonymous."""

    def __post_init__(self) -> None:
        """Refuse what the specification's ASSUME refuses.

        Raises:
            ValueError: a parameter is out of its range.
        """
        super().__post_init__()
        if not 0 <= self.initial <= self.size:
            raise ValueError(f"initial must be in 0 .. size = {self.size}, not {self.initial}")
        if self.tags != 1 and self.tags <= self.waiters + self.size:
            least = self.waiters + self.size
            raise ValueError(f"tags must be 1 or above waiters + size = {least}, not {self.tags}")


class State(NamedTuple):
    """The variables of the specification; messages are their numbers."""

    offered: int
    consumed: int
    waiting: Queue[int]
    credit: int
    wire: Queue[int]
    inbox: Queue[int]
    unrequested: int
    withheld: int
    requests: int


def initial(parameters: Parameters) -> State:
    """Nothing was offered yet."""
    return State(
        offered=0,
        consumed=0,
        waiting=Fifo(),
        credit=parameters.initial,
        wire=Fifo(),
        inbox=Fifo(),
        unrequested=0,
        withheld=parameters.size - parameters.initial,
        requests=0,
    )


def send(state: State, _parameters: Parameters) -> State:
    """A message was asked for: the oldest one leaves."""
    require(not state.waiting.is_empty())
    require(state.credit > 0)
    message, rest = state.waiting.head(), state.waiting.without_head()
    return state._replace(credit=state.credit - 1, wire=state.wire.push(message), waiting=rest)


def consume(state: State, parameters: Parameters) -> State:
    """The application has consumed a message: a whole batch of them is requested again."""
    require(not state.inbox.is_empty())
    unrequested = state.unrequested + 1
    is_batch = unrequested >= parameters.batch
    return state._replace(
        inbox=state.inbox.without_head(),
        consumed=successor(state.consumed, parameters),
        requests=state.requests + unrequested if is_batch else state.requests,
        unrequested=0 if is_batch else unrequested,
    )


def request_withheld(state: State, _parameters: Parameters) -> State:
    """The application asks for a message for the first time: what was withheld is requested."""
    require(state.withheld > 0)
    return state._replace(requests=state.requests + state.withheld, withheld=0)


def request(state: State, _parameters: Parameters, count: int = 1) -> State:
    """A request for this many messages arrives at the sender; requests may be put together, or come in parts."""
    require(count <= state.requests)
    return state._replace(requests=state.requests - count, credit=state.credit + count)


def _counts(parameters: Parameters) -> Iterator[tuple[int]]:
    return ((count,) for count in range(1, parameters.size + 1))


def type_ok(state: State, parameters: Parameters) -> bool:
    """Every variable is in its range."""
    return (
        is_in_range(state, parameters)
        and state.credit >= 0
        and state.unrequested >= 0
        and state.withheld >= 0
        and state.requests >= 0
    )


def conservation(state: State, parameters: Parameters) -> bool:
    """Size messages may be out: each may leave at once, is in the channel, was consumed, or is being asked for."""
    here = state.credit + state.wire.size() + state.inbox.size()
    return here + state.unrequested + state.requests + state.withheld == parameters.size


def bounded(state: State, parameters: Parameters) -> bool:
    """The receiver never holds more messages than it has room for, and these include what its application holds."""
    return state.wire.size() + state.inbox.size() <= parameters.size


def requests_batched(state: State, parameters: Parameters) -> bool:
    """Fewer than a batch of consumed messages wait for their request."""
    return state.unrequested < parameters.batch


def never_stuck(state: State, parameters: Parameters) -> bool:
    """A message that waits can still be served; needs a batch of at most the size."""
    return state.waiting.is_empty() or SYSTEM.can_move(state, parameters)


def _here(state: State) -> int:
    return state.credit + state.wire.size() + state.inbox.size()


SYSTEM: System[State, Parameters] = System(
    module="Demand",
    initial=initial,
    actions=(
        Action("Offer", offer, is_environment=True, end="sender"),
        Action("Withdraw", withdraw, is_environment=True, end="sender"),
        Action("Send", send, end="sender"),
        Action("Deliver", deliver, is_arrival=True, end="receiver"),
        Action("Consume", consume, end="receiver"),
        Action("RequestWithheld", request_withheld, end="receiver"),
        Action("Request", request, _counts, is_arrival=True, end="sender"),
    ),
    invariants={
        "TypeOK": type_ok,
        "Conservation": conservation,
        "Bounded": bounded,
        "RequestsBatched": requests_batched,
        "NeverStuck": never_stuck,
        "ExactlyOnceInOrder": exactly_once_in_order,
    },
    probes={
        "MessageNeverWaitsProbe": lambda state, _: state.waiting.is_empty() or state.credit > 0,
        "ChannelNeverIdleProbe": lambda state, _: state.waiting.is_empty() or state.requests == 0 or _here(state) > 0,
        "NobodyHasToAskProbe": lambda state, _: (
            state.waiting.is_empty() or _here(state) + state.unrequested + state.requests > 0
        ),
    },
    counters={
        "sender": lambda state: (state.credit,),
        "receiver": lambda state: (state.inbox.size(), state.unrequested, state.withheld),
    },
)

REGISTERED = Registered(
    system=SYSTEM,
    parameters=Parameters,
    theorems="permitflow_proofs.demand:theorems",
    flow="demand",
)
