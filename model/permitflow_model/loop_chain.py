"""``LoopChain.tla``, action for action: what a stage consumes of one loop, it sends into the next one."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from permitflow_model.kernel.family import Family, family
from permitflow_model.kernel.parameters import Bounded, Positive
from permitflow_model.kernel.system import Action, System, require
from permitflow_model.registry import Registered


@dataclass(frozen=True, kw_only=True)
class Parameters(Bounded):
    """The constants of the specification."""

    loops: Positive
    """Loops of the chain."""

    size: Positive
    """Messages that may be out at once in each loop but the last."""

    batch: Positive
    """... the receiver requests more once it has consumed this many."""

    last_size: Positive
    """The same of the last loop."""

    last_batch: Positive
    """Likewise."""

    waiters: Positive = 1
    """Messages that may wait at the source."""


class Loop(NamedTuple):
    """One control loop: its size and batch, and where its messages are."""

    size: int
    batch: int
    credit: int
    wire: int
    inbox: int
    unrequested: int
    requests: int


class State(NamedTuple):
    """The variables of the specification."""

    waiting: int
    loops: Family[Loop]


def opened(size: int, batch: int) -> Loop:
    """A loop in which nothing was sent."""
    return Loop(size=size, batch=batch, credit=size, wire=0, inbox=0, unrequested=0, requests=0)


def initial(parameters: Parameters) -> State:
    """Nothing was offered yet."""
    loops = family(opened(parameters.size, parameters.batch), parameters.loops)
    last = opened(parameters.last_size, parameters.last_batch)
    return State(waiting=0, loops=loops.put(parameters.loops - 1, last))


def sent(loop: Loop) -> Loop:
    """The loop after a message has left."""
    return loop._replace(credit=loop.credit - 1, wire=loop.wire + 1)


def consumed(loop: Loop) -> Loop:
    """The loop after a message was consumed: a whole batch of them is requested again."""
    unrequested = loop.unrequested + 1
    is_batch = unrequested >= loop.batch
    return loop._replace(
        inbox=loop.inbox - 1,
        unrequested=0 if is_batch else unrequested,
        requests=loop.requests + unrequested if is_batch else loop.requests,
    )


def offer(state: State, parameters: Parameters) -> State:
    """The source has a message."""
    require(state.waiting < parameters.waiters)
    return state._replace(waiting=state.waiting + 1)


def send(state: State, _parameters: Parameters) -> State:
    """The source sends it into the first loop."""
    first = state.loops.get(0)
    require(state.waiting > 0)
    require(first.credit > 0)
    return State(waiting=state.waiting - 1, loops=state.loops.put(0, sent(first)))


def deliver(state: State, _parameters: Parameters, name: int) -> State:
    """A message arrives at the receiver of a loop."""
    loop = state.loops.get(name)
    require(loop.wire > 0)
    return state._replace(loops=state.loops.put(name, loop._replace(wire=loop.wire - 1, inbox=loop.inbox + 1)))


def hand_on(state: State, parameters: Parameters, name: int) -> State:
    """A stage consumes a message, because it can send it into the next loop."""
    require(name < parameters.loops - 1)
    loop, following = state.loops.get(name), state.loops.get(name + 1)
    require(loop.inbox > 0)
    require(following.credit > 0)
    return state._replace(loops=state.loops.put(name, consumed(loop)).put(name + 1, sent(following)))


def consume(state: State, parameters: Parameters) -> State:
    """The sink consumes a message."""
    last = parameters.loops - 1
    loop = state.loops.get(last)
    require(loop.inbox > 0)
    return state._replace(loops=state.loops.put(last, consumed(loop)))


def request(state: State, _parameters: Parameters, name: int) -> State:
    """A request for one message arrives at the sender of a loop."""
    loop = state.loops.get(name)
    require(loop.requests > 0)
    return state._replace(
        loops=state.loops.put(name, loop._replace(requests=loop.requests - 1, credit=loop.credit + 1))
    )


def loop_ok(loop: Loop) -> bool:
    """Is every part of a loop in its range?"""
    return (
        loop.credit >= 0
        and loop.wire >= 0
        and loop.inbox >= 0
        and 0 <= loop.unrequested < loop.batch
        and loop.requests >= 0
    )


def type_ok(state: State, parameters: Parameters) -> bool:
    """Every variable is in its range."""
    all_ok = state.loops.every(loop_ok)
    return all_ok and state.loops.size() == parameters.loops and 0 <= state.waiting <= parameters.waiters


def is_conserved(loop: Loop) -> bool:
    """Is each of the messages that may be out somewhere?"""
    return loop.credit + loop.wire + loop.inbox + loop.unrequested + loop.requests == loop.size


def conservation(state: State, _parameters: Parameters) -> bool:
    """In each loop the messages that may be out are conserved."""
    return state.loops.every(is_conserved)


def held(loop: Loop) -> int:
    """Messages in a loop."""
    return loop.wire + loop.inbox


def size(loop: Loop) -> int:
    """Messages that may be out in a loop."""
    return loop.size


def bounded(state: State, _parameters: Parameters) -> bool:
    """The chain holds no more than its loops together may."""
    most = state.loops.sum_of(size)
    return state.loops.sum_of(held) <= most


def _is_empty(loop: Loop) -> bool:
    return held(loop) == 0


def never_stuck(state: State, parameters: Parameters) -> bool:
    """As long as a message waits or is in the chain, something moves; needs batches of at most the sizes."""
    all_empty = state.loops.every(_is_empty)
    return (state.waiting == 0 and all_empty) or SYSTEM.can_move(state, parameters)


def _is_full(loop: Loop) -> bool:
    return loop.inbox >= loop.size


def _loops(state: State) -> Family[Loop]:
    return state.loops


def _names(parameters: Parameters) -> Iterator[tuple[int]]:
    return ((name,) for name in range(parameters.loops))


SYSTEM: System[State, Parameters] = System(
    module="LoopChain",
    initial=initial,
    actions=(
        Action("Offer", offer, is_environment=True),
        Action("Send", send),
        Action("Deliver", deliver, _names, members=_loops),
        Action("HandOn", hand_on, _names, members=_loops),
        Action("Consume", consume),
        Action("Request", request, _names, members=_loops),
    ),
    invariants={"TypeOK": type_ok, "Conservation": conservation, "Bounded": bounded, "NeverStuck": never_stuck},
    probes={
        "SourceNeverWaitsProbe": lambda state, _: state.waiting == 0 or state.loops.get(0).credit > 0,
        "ChainNeverFullProbe": lambda state, _: not state.loops.every(_is_full),
    },
)

REGISTERED = Registered(system=SYSTEM, parameters=Parameters, theorems="permitflow_proofs.loop_chain:theorems")
