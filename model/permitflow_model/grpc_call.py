"""``GrpcCall.tla``, action for action: a gRPC call between two stages, with pull and push at both ends.

docs/protocols/grpc-call.md explains it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from operator import add
from typing import Literal, NamedTuple

from permitflow_model.kernel.parameters import Bounded, Positive
from permitflow_model.kernel.queue import Fifo, Queue
from permitflow_model.kernel.system import Action, System, require
from permitflow_model.registry import Registered

Producer = Literal["open", "completed", "failed", "cancelled"]
Consumer = Literal["open", "completed", "failed", "cancelled"]


@dataclass(frozen=True, kw_only=True)
class Parameters(Bounded):
    """The constants of the specification."""

    prefetch: Positive
    """Messages that the receiver requests at first."""

    batch: Positive
    """Messages that the consumer takes before as many more are requested."""

    threshold: Positive
    """The call is ready while fewer bytes than this wait in its local queue."""

    window: Positive
    """Bytes that may be on their way; a larger message goes alone."""

    max_size: Positive
    """Bytes of the largest message."""

    breaks: bool = False
    """May the producer fail, and the consumer cancel?"""

    tags: int = 1
    """Numbers of messages are taken modulo this; 1: they are anonymous."""

    def __post_init__(self) -> None:
        """Refuse what the specification's ASSUME refuses.

        Raises:
            ValueError: a parameter is out of its range.
        """
        super().__post_init__()
        if self.tags != 1 and self.tags <= 1 + self.threshold + self.window + self.prefetch:
            least = 1 + self.threshold + self.window + self.prefetch
            raise ValueError(f"tags must be 1 or above 1 + threshold + window + prefetch = {least}, not {self.tags}")


class Message(NamedTuple):
    """A message: its number and its bytes."""

    number: int
    size: int


class State(NamedTuple):
    """The variables of the specification."""

    offered: int
    consumed: int
    producer: Producer
    asked: int
    hand: Queue[Message]
    closed: bool
    local: Queue[Message]
    edge: bool
    wire: Queue[Message]
    requested: int
    inbox: Queue[Message]
    unrequested: int
    wanted: bool
    consumer: Consumer


def successor(number: int, parameters: Parameters) -> int:
    """The number of the next message."""
    return (number + 1) % parameters.tags


def size_of(message: Message) -> int:
    """Its bytes."""
    return message.size


def bytes_of(queue: Queue[Message]) -> int:
    """The bytes of all messages of a queue."""
    return queue.sum_of(size_of, add, 0)


def is_ready(state: State, parameters: Parameters) -> bool:
    """Does the call take a message without letting its local queue grow further?"""
    return bytes_of(state.local) < parameters.threshold


def fits(message: Message, state: State, parameters: Parameters) -> bool:
    """May the message enter the window?"""
    return state.wire.is_empty() or bytes_of(state.wire) + message.size <= parameters.window


def initial(parameters: Parameters) -> State:
    """The producer is asked for its first message, and the receiver has requested the first ones."""
    return State(
        offered=0,
        consumed=0,
        producer="open",
        asked=1,
        hand=Fifo(),
        closed=False,
        local=Fifo(),
        edge=False,
        wire=Fifo(),
        requested=parameters.prefetch,
        inbox=Fifo(),
        unrequested=0,
        wanted=False,
        consumer="open",
    )


# The environment: producer and consumer, and what a call may do.


def push(state: State, parameters: Parameters, size: int) -> State:
    """The producer answers with a message.  The stage gives it to the call and asks for another one, or holds it."""
    require(state.producer == "open")
    require(state.asked > 0)
    message = Message(state.offered, size)
    after = state._replace(offered=successor(state.offered, parameters))
    if is_ready(state, parameters):
        return after._replace(local=state.local.push(message))
    return after._replace(asked=state.asked - 1, hand=Fifo((message,)))


def complete(state: State, _parameters: Parameters) -> State:
    """The producer has no more.  A message that the stage holds leaves first."""
    require(state.producer == "open")
    return state._replace(producer="completed", closed=state.hand.is_empty())


def fail(state: State, parameters: Parameters) -> State:
    """The producer fails: the call is broken off, and messages that have not left are dropped."""
    require(parameters.breaks)
    require(state.producer == "open")
    return state._replace(producer="failed", hand=Fifo(), local=Fifo())


def pull(state: State, _parameters: Parameters) -> State:
    """The consumer asks for a message."""
    require(state.consumer == "open")
    require(not state.wanted)
    return state._replace(wanted=True)


def cancel(state: State, parameters: Parameters) -> State:
    """The consumer wants no more: the call is cancelled, and messages on their way are dropped."""
    require(parameters.breaks)
    require(state.consumer == "open")
    return state._replace(consumer="cancelled", wire=Fifo(), inbox=Fifo(), wanted=False)


def spurious_ready(state: State, _parameters: Parameters) -> State:
    """A call may say that it is ready although it did not become so."""
    require(not state.edge)
    return state._replace(edge=True)


# The sender's stage and the call.


def on_ready(state: State, parameters: Parameters) -> State:
    """The stage is told that the call has become ready.  (Meanwhile it may be full again.)

    It gives the message that it holds to the call, and asks for another one, or half-closes the call.
    """
    require(state.edge)
    after = state._replace(edge=False)
    if state.hand.is_empty() or not is_ready(state, parameters):
        return after
    is_over = state.producer == "completed"
    return after._replace(
        local=state.local.push(state.hand.head()),
        hand=state.hand.without_head(),
        asked=state.asked if is_over else state.asked + 1,
        closed=state.closed or is_over,
    )


def transmit(state: State, parameters: Parameters) -> State:
    """The oldest message enters the window.  If that makes the call ready, the stage will be told."""
    require(not state.local.is_empty())
    require(state.consumer == "open")
    require(fits(state.local.head(), state, parameters))
    after = state._replace(wire=state.wire.push(state.local.head()), local=state.local.without_head())
    has_become_ready = not is_ready(state, parameters) and is_ready(after, parameters)
    return after._replace(edge=state.edge or has_become_ready)


def on_cancel(state: State, _parameters: Parameters) -> State:
    """The sender hears that the call was cancelled: what waits is dropped."""
    require(state.consumer == "cancelled")
    require(state.producer == "open" or state.producer == "completed")
    return state._replace(producer="cancelled", hand=Fifo(), local=Fifo())


# The receiver's stage.


def deliver(state: State, _parameters: Parameters) -> State:
    """The call hands a message over that was requested: its bytes leave the window."""
    require(not state.wire.is_empty())
    require(state.requested > 0)
    message, rest = state.wire.head(), state.wire.without_head()
    return state._replace(inbox=state.inbox.push(message), wire=rest, requested=state.requested - 1)


def emit(state: State, parameters: Parameters) -> State:
    """The consumer gets the message that it has asked for.  A whole batch of them is requested again."""
    require(state.wanted)
    require(not state.inbox.is_empty())
    unrequested = state.unrequested + 1
    is_batch = unrequested >= parameters.batch
    return state._replace(
        wanted=False,
        inbox=state.inbox.without_head(),
        consumed=successor(state.consumed, parameters),
        requested=state.requested + unrequested if is_batch else state.requested,
        unrequested=0 if is_batch else unrequested,
    )


def on_complete(state: State, _parameters: Parameters) -> State:
    """The half-close arrives, behind all messages."""
    require(state.consumer == "open")
    require(state.closed)
    require(state.producer == "completed")
    require(state.local.is_empty())
    require(state.wire.is_empty())
    require(state.inbox.is_empty())
    return state._replace(consumer="completed", wanted=False)


def on_error(state: State, _parameters: Parameters) -> State:
    """The failure arrives, behind the messages that were handed over; others are dropped."""
    require(state.consumer == "open")
    require(state.producer == "failed")
    require(state.inbox.is_empty())
    return state._replace(consumer="failed", wire=Fifo(), wanted=False)


def _sizes(parameters: Parameters) -> Iterator[tuple[int]]:
    return ((size,) for size in range(1, parameters.max_size + 1))


OUT_OF_ORDER = -1
"""No message has this number: after one that is out of order, none is due."""


def due_after(due: int, message: Message, parameters: Parameters) -> int:
    """The number that is due after a message, or ``OUT_OF_ORDER`` if another message was due."""
    return successor(due, parameters) if message.number == due else OUT_OF_ORDER


def is_message(message: Message, parameters: Parameters) -> bool:
    """Is it one that a producer may push?"""
    return 0 <= message.number < parameters.tags and 1 <= message.size <= parameters.max_size


def type_ok(state: State, parameters: Parameters) -> bool:
    """Every variable is in its range."""
    return (
        0 <= state.offered < parameters.tags
        and 0 <= state.consumed < parameters.tags
        and state.asked >= 0
        and state.requested >= 0
        and state.unrequested >= 0
        and all(queue.every(is_message, parameters) for queue in (state.hand, state.local, state.wire, state.inbox))
        and (not state.wanted or state.consumer == "open")
    )


def asked_once(state: State, _parameters: Parameters) -> bool:
    """The producer is asked for one message, or the stage holds one: it never holds two."""
    both = state.asked + state.hand.size()
    return both == 1 if state.producer == "open" else both <= 1


def conservation(state: State, parameters: Parameters) -> bool:
    """The receiver has requested prefetch messages: each may come, is here, or was taken and is not requested again."""
    if state.consumer == "cancelled":
        return True
    return state.requested + state.inbox.size() + state.unrequested == parameters.prefetch


def requests_batched(state: State, parameters: Parameters) -> bool:
    """Fewer than a batch of messages that were taken wait for their request."""
    return state.unrequested < parameters.batch


def larger(parameters: Parameters) -> int:
    """The window, or the largest message."""
    return parameters.max_size if parameters.window < parameters.max_size else parameters.window


def bounded(state: State, parameters: Parameters) -> bool:
    """What may be where: the sender gets no further ahead of the consumer."""
    return (
        state.hand.size() <= 1
        and bytes_of(state.local) <= parameters.threshold - 1 + parameters.max_size
        and bytes_of(state.wire) <= larger(parameters)
        and state.inbox.size() <= parameters.prefetch
    )


def woken(state: State, parameters: Parameters) -> bool:
    """A held message for which the call is ready leaves: the stage will be told.  No wake-up is lost."""
    return state.hand.is_empty() or state.edge or not is_ready(state, parameters)


def _due_after_all(state: State, parameters: Parameters) -> int:
    """The number that is due after all messages that were sent."""
    due = state.consumed
    for queue in (state.inbox, state.wire, state.local):
        due = queue.fold(due_after, due, parameters)
    return due


def in_order(state: State, parameters: Parameters) -> bool:
    """What is on its way to a consumer is in order, each message once."""
    return state.consumer == "cancelled" or _due_after_all(state, parameters) != OUT_OF_ORDER


def nothing_lost(state: State, parameters: Parameters) -> bool:
    """Unless the call was broken off, everything that the producer has pushed was consumed, or is on its way."""
    if state.producer == "failed" or state.producer == "cancelled" or state.consumer == "cancelled":
        return True
    return state.hand.fold(due_after, _due_after_all(state, parameters), parameters) == state.offered


def end_sent(state: State, _parameters: Parameters) -> bool:
    """A stage that has ended half-closes the call as soon as it holds nothing, and not before."""
    if state.producer == "completed":
        return state.closed == state.hand.is_empty()
    return not state.closed or state.producer == "cancelled"


def all_received(state: State, _parameters: Parameters) -> bool:
    """Where the stream has completed for the consumer, it has for the producer, and everything has come."""
    return state.consumer != "completed" or (state.producer == "completed" and state.consumed == state.offered)


def ends_match(state: State, _parameters: Parameters) -> bool:
    """What each end hears, the other one did.  What is dropped stays dropped."""
    is_received = state.wire.is_empty() and state.inbox.is_empty()
    is_dropped = state.hand.is_empty() and state.local.is_empty()
    if state.consumer == "completed":
        return state.producer == "completed" and state.closed and state.local.is_empty() and is_received
    if state.consumer == "failed":
        return state.producer == "failed" and is_received and is_dropped
    if state.consumer == "cancelled" and not is_received:
        return False
    if state.producer == "cancelled":
        return state.consumer == "cancelled" and is_dropped
    return state.producer != "failed" or is_dropped


def never_stuck(state: State, parameters: Parameters) -> bool:
    """A consumer that asks is served, or the producer is asked; needs a batch of at most the prefetch."""
    if not state.wanted or (state.producer == "open" and state.asked > 0):
        return True
    return SYSTEM.can_move(state, parameters)


def _is_not_full(state: State, parameters: Parameters) -> bool:
    return (
        state.hand.is_empty()
        or bytes_of(state.local) < parameters.threshold - 1 + parameters.max_size
        or bytes_of(state.wire) < larger(parameters)
        or state.inbox.size() < parameters.prefetch
    )


SYSTEM: System[State, Parameters] = System(
    module="GrpcCall",
    initial=initial,
    actions=(
        Action("Push", push, _sizes, is_environment=True),
        Action("Complete", complete, is_environment=True),
        Action("Fail", fail, is_environment=True),
        Action("Pull", pull, is_environment=True),
        Action("Cancel", cancel, is_environment=True),
        Action("SpuriousReady", spurious_ready, is_environment=True),
        Action("OnReady", on_ready),
        Action("Transmit", transmit),
        Action("OnCancel", on_cancel),
        Action("Deliver", deliver),
        Action("Emit", emit),
        Action("OnComplete", on_complete),
        Action("OnError", on_error),
    ),
    invariants={
        "TypeOK": type_ok,
        "AskedOnce": asked_once,
        "Conservation": conservation,
        "RequestsBatched": requests_batched,
        "Bounded": bounded,
        "Woken": woken,
        "InOrder": in_order,
        "NothingLost": nothing_lost,
        "EndSent": end_sent,
        "AllReceived": all_received,
        "EndsMatch": ends_match,
        "NeverStuck": never_stuck,
    },
    probes={
        "NeverFullProbe": _is_not_full,
        "ReadyMeansRequestedProbe": lambda state, parameters: not is_ready(state, parameters) or state.requested > 0,
        "ClosedAtOnceProbe": lambda state, _: state.producer != "completed" or state.closed,
    },
)

REGISTERED = Registered(system=SYSTEM, parameters=Parameters, theorems="permitflow_proofs.grpc_call:theorems")
