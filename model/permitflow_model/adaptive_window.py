"""``AdaptiveWindow.tla``, action for action: a permit channel whose receiver changes the window while it runs.

docs/protocols/adaptive-window.md explains it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from operator import add
from typing import NamedTuple

from permitflow_model.kernel.parameters import Bounded, Positive
from permitflow_model.kernel.queue import Fifo, Queue
from permitflow_model.kernel.system import Action, System, require
from permitflow_model.registry import Registered


@dataclass(frozen=True, kw_only=True)
class Parameters(Bounded):
    """The constants of the specification."""

    row_permits: Positive
    """Row permits of the channel: the agreed window, and the largest target."""

    permit_batch: Positive
    """The agreed batch, and the largest."""

    room: int
    """A target leaves room for a chunk of this cost beside what is collected."""

    row_costs: tuple[int, ...]
    """How many row permits a chunk may cost."""

    flush_idle: bool = True
    """Does an idle receiver return what it keeps?"""

    waiters: Positive = 1
    """Chunks that may wait at once."""

    withdrawals: bool = False
    """May the sender give up waiting?"""

    def __post_init__(self) -> None:
        """Refuse what the specification's ASSUME refuses.

        Raises:
            ValueError: a parameter is out of its range.
        """
        super().__post_init__()
        most = self.row_permits - self.permit_batch + 1
        if not 1 <= self.room <= most:
            raise ValueError(f"room must be in 1 .. row_permits - permit_batch + 1 = {most}, not {self.room}")
        if not self.row_costs or any(cost < 1 for cost in self.row_costs):
            raise ValueError(f"row_costs must be numbers of at least 1, not {self.row_costs}")


class State(NamedTuple):
    """The variables of the specification."""

    waiting: Queue[int]
    permits: int
    wire: Queue[int]
    inbox: Queue[int]
    unreturned: int
    withheld: int
    returned: int
    target: int
    batch: int


def initial(parameters: Parameters) -> State:
    """Nothing was offered or measured yet: the whole window is at the sender."""
    return State(
        waiting=Fifo(),
        permits=parameters.row_permits,
        wire=Fifo(),
        inbox=Fifo(),
        unreturned=0,
        withheld=0,
        returned=0,
        target=parameters.row_permits,
        batch=parameters.permit_batch,
    )


def _settle(state: State, parameters: Parameters, collected: int) -> State:
    """So much is collected: what is more than the target is withheld, the rest returns."""
    complete = collected if collected >= state.batch else 0
    kept = min(state.withheld + complete, parameters.row_permits - state.target)
    return state._replace(
        unreturned=collected - complete,
        withheld=kept,
        returned=state.returned + state.withheld + complete - kept,
    )


def offer(state: State, parameters: Parameters, rows: int) -> State:
    """The application wants to send a chunk."""
    require(state.waiting.size() < parameters.waiters)
    return state._replace(waiting=state.waiting.push(rows))


def withdraw(state: State, parameters: Parameters) -> State:
    """The application gives up waiting with its newest chunk."""
    require(parameters.withdrawals)
    require(not state.waiting.is_empty())
    return state._replace(waiting=state.waiting.without_last())


def is_aim(parameters: Parameters, target: int, batch: int) -> bool:
    """May this be the target, with this batch?"""
    return (
        target <= parameters.row_permits and batch <= parameters.permit_batch and parameters.room <= target - batch + 1
    )


def resize(state: State, parameters: Parameters, target: int, batch: int) -> State:
    """The receiver has measured: so much shall circulate, and return in batches of this size."""
    require(target != state.target or batch != state.batch)
    require(is_aim(parameters, target, batch))
    return _settle(state._replace(target=target, batch=batch), parameters, state.unreturned)


def send(state: State, _parameters: Parameters) -> State:
    """The oldest chunk has its permits: it leaves."""
    require(not state.waiting.is_empty())
    rows = state.waiting.head()
    require(rows <= state.permits)
    return state._replace(
        permits=state.permits - rows, wire=state.wire.push(rows), waiting=state.waiting.without_head()
    )


def deliver(state: State, _parameters: Parameters) -> State:
    """A chunk arrives at the receiver."""
    require(not state.wire.is_empty())
    return state._replace(inbox=state.inbox.push(state.wire.head()), wire=state.wire.without_head())


def consume(state: State, parameters: Parameters) -> State:
    """The application has consumed a chunk: a batch that is complete returns, but for what is withheld."""
    require(not state.inbox.is_empty())
    rows = state.inbox.head()
    return _settle(state._replace(inbox=state.inbox.without_head()), parameters, state.unreturned + rows)


def flush(state: State, parameters: Parameters) -> State:
    """An idle receiver returns what it has collected and what it withholds."""
    require(parameters.flush_idle)
    require(state.inbox.is_empty())
    kept = state.unreturned + state.withheld
    require(kept > 0)
    return state._replace(returned=state.returned + kept, unreturned=0, withheld=0)


def add_permits(state: State, _parameters: Parameters, rows: int = 1) -> State:
    """This many returned permits arrive at the sender."""
    require(rows <= state.returned)
    return state._replace(permits=state.permits + rows, returned=state.returned - rows)


def _costs(parameters: Parameters) -> Iterator[tuple[int]]:
    return ((rows,) for rows in parameters.row_costs)


def _aims(parameters: Parameters) -> Iterator[tuple[int, int]]:
    return product(range(1, parameters.row_permits + 1), range(1, parameters.permit_batch + 1))


def _rows(parameters: Parameters) -> Iterator[tuple[int]]:
    return ((rows,) for rows in range(1, parameters.row_permits + 1))


def is_cost(rows: int, parameters: Parameters) -> bool:
    """May a chunk cost this?"""
    return rows in parameters.row_costs


def type_ok(state: State, parameters: Parameters) -> bool:
    """Every variable is in its range."""
    return (
        state.waiting.size() <= parameters.waiters
        and all(queue.every(is_cost, parameters) for queue in (state.waiting, state.wire, state.inbox))
        and state.permits >= 0
        and state.unreturned >= 0
        and state.withheld >= 0
        and state.returned >= 0
    )


def aim_ok(state: State, parameters: Parameters) -> bool:
    """Whatever is measured, a chunk of ``room`` fits beside what is collected."""
    return state.batch >= 1 and is_aim(parameters, state.target, state.batch)


def cost_of(rows: int) -> int:
    """A chunk is what it costs."""
    return rows


def rows_in(state: State) -> int:
    """Row permits that chunks in the channel hold."""
    return state.wire.sum_of(cost_of, add, 0) + state.inbox.sum_of(cost_of, add, 0)


def conservation(state: State, parameters: Parameters) -> bool:
    """Row permits are at the sender, held by a chunk, collected, withheld, or on their way back."""
    elsewhere = rows_in(state) + state.unreturned + state.withheld + state.returned
    return state.permits + elsewhere == parameters.row_permits


def bounded(state: State, parameters: Parameters) -> bool:
    """No target lets more into the channel than was agreed."""
    return rows_in(state) <= parameters.row_permits


def batched(state: State, _parameters: Parameters) -> bool:
    """Less than a batch is collected, however the batch changes."""
    return state.unreturned < state.batch


def target_kept(state: State, parameters: Parameters) -> bool:
    """At least the target circulates: what is withheld is at most the window less the target."""
    return parameters.row_permits - state.withheld >= state.target


def target_bounds(state: State, parameters: Parameters) -> bool:
    """Once as much is withheld as shall be, the target is the bound."""
    return state.withheld != parameters.row_permits - state.target or rows_in(state) <= state.target


def never_stuck(state: State, parameters: Parameters) -> bool:
    """A chunk that waits can still be served: of costs up to ``room``, or with the flush up to ``row_permits``."""
    return state.waiting.is_empty() or SYSTEM.can_move(state, parameters)


def whole_when_idle(state: State, parameters: Parameters) -> bool:
    """With the flush, a channel in which nothing can move has the whole window again, whatever the target."""
    if not parameters.flush_idle or SYSTEM.can_move(state, parameters):
        return True
    return state.permits == parameters.row_permits


SYSTEM: System[State, Parameters] = System(
    module="AdaptiveWindow",
    initial=initial,
    actions=(
        Action("Offer", offer, _costs, is_environment=True, end="sender"),
        Action("Withdraw", withdraw, is_environment=True, end="sender"),
        Action("Resize", resize, _aims, is_environment=True, end="receiver"),
        Action("Send", send, end="sender"),
        Action("Deliver", deliver, is_arrival=True, end="receiver"),
        Action("Consume", consume, end="receiver"),
        Action("Flush", flush, end="receiver"),
        Action("AddPermits", add_permits, _rows, is_arrival=True, end="sender"),
    ),
    invariants={
        "TypeOK": type_ok,
        "AimOK": aim_ok,
        "Conservation": conservation,
        "Bounded": bounded,
        "Batched": batched,
        "TargetKept": target_kept,
        "TargetBounds": target_bounds,
        "NeverStuck": never_stuck,
        "WholeWhenIdle": whole_when_idle,
    },
    probes={
        "WithinTargetProbe": lambda state, _: rows_in(state) <= state.target,
        "TargetNotReachedProbe": lambda state, parameters: (
            state.target == parameters.row_permits or state.withheld < parameters.row_permits - state.target
        ),
        "StaysShrunkProbe": lambda state, parameters: (
            state.target == parameters.row_permits
            or state.waiting.is_empty()
            or state.permits != parameters.row_permits
            or state.returned > 0
        ),
    },
    counters={
        "sender": lambda state: (state.permits,),
        "receiver": lambda state: (state.inbox.size(), state.unreturned, state.withheld, state.target, state.batch),
    },
)

REGISTERED = Registered(
    system=SYSTEM,
    parameters=Parameters,
    theorems="permitflow_proofs.adaptive_window:theorems",
)
