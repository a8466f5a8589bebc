"""``StopAndWait.tla``, action for action: one message is out at a time, and consuming it lets the next one leave.

The textbook example of a protocol in this repository: docs/guides/adding-a-protocol.md.
"""

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

    waiters: Positive
    """Messages that may wait at once."""

    withdrawals: bool = False
    """May the sender give up waiting?"""

    tags: int = 1
    """Messages are numbered modulo this; with 1 they cannot be told apart."""

    def __post_init__(self) -> None:
        """Refuse what the specification's ASSUME refuses.

        Raises:
            ValueError: a parameter is out of its range.
        """
        super().__post_init__()
        if self.tags != 1 and self.tags <= self.waiters + 1:
            raise ValueError(f"tags must be 1 or above waiters + 1 = {self.waiters + 1}, not {self.tags}")


class State(NamedTuple):
    """The variables of the specification; messages are their numbers."""

    offered: int
    consumed: int
    waiting: Queue[int]
    free: int
    wire: Queue[int]
    inbox: Queue[int]
    answers: int


def initial(_parameters: Parameters) -> State:
    """Nothing was offered yet."""
    return State(offered=0, consumed=0, waiting=Fifo(), free=1, wire=Fifo(), inbox=Fifo(), answers=0)


def send(state: State, _parameters: Parameters) -> State:
    """No message is out: the oldest one leaves."""
    require(not state.waiting.is_empty())
    require(state.free > 0)
    message, rest = state.waiting.head(), state.waiting.without_head()
    return state._replace(free=state.free - 1, wire=state.wire.push(message), waiting=rest)


def consume(state: State, parameters: Parameters) -> State:
    """The application has consumed a message; it is answered now, and not when it arrives."""
    require(not state.inbox.is_empty())
    consumed = successor(state.consumed, parameters)
    return state._replace(inbox=state.inbox.without_head(), consumed=consumed, answers=state.answers + 1)


def answer(state: State, _parameters: Parameters) -> State:
    """An answer arrives at the sender."""
    require(state.answers > 0)
    return state._replace(answers=state.answers - 1, free=state.free + 1)


def type_ok(state: State, parameters: Parameters) -> bool:
    """Every variable is in its range."""
    return is_in_range(state, parameters) and state.free >= 0 and state.answers >= 0


def conservation(state: State, _parameters: Parameters) -> bool:
    """One message may be out: it is free to leave, in the channel, or being answered."""
    return state.free + state.wire.size() + state.inbox.size() + state.answers == 1


def bounded(state: State, _parameters: Parameters) -> bool:
    """The application never holds more than one message."""
    return state.wire.size() + state.inbox.size() <= 1


def never_stuck(state: State, parameters: Parameters) -> bool:
    """A message that waits can still be served."""
    return state.waiting.is_empty() or SYSTEM.can_move(state, parameters)


SYSTEM: System[State, Parameters] = System(
    module="StopAndWait",
    initial=initial,
    actions=(
        Action("Offer", offer, is_environment=True, end="sender"),
        Action("Withdraw", withdraw, is_environment=True, end="sender"),
        Action("Send", send, end="sender"),
        Action("Deliver", deliver, is_arrival=True, end="receiver"),
        Action("Consume", consume, end="receiver"),
        Action("Answer", answer, is_arrival=True, end="sender"),
    ),
    invariants={
        "TypeOK": type_ok,
        "Conservation": conservation,
        "Bounded": bounded,
        "NeverStuck": never_stuck,
        "ExactlyOnceInOrder": exactly_once_in_order,
    },
    probes={
        "MessageNeverWaitsProbe": lambda state, _: state.waiting.is_empty() or state.free > 0,
        "ChannelNeverIdleProbe": lambda state, _: (
            state.waiting.is_empty() or state.free > 0 or state.wire.size() + state.inbox.size() > 0
        ),
    },
    counters={"sender": lambda state: (state.free,), "receiver": lambda state: (state.inbox.size(),)},
)

REGISTERED = Registered(
    system=SYSTEM,
    parameters=Parameters,
    theorems="permitflow_proofs.stop_and_wait:theorems",
)
