"""``WithdrawingGate.tla``, action for action: a gate whose senders take back what waits, and return credit for it.

Each action but these is the one of the gate, ``input_gate.py``; a credit that returns is one more kind of message.
docs/protocols/gate.md explains it.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from permitflow_model.input_gate import (
    CHANNEL_CLAUSES,
    GATE_CLAUSES,
    ChannelClause,
    bounded,
    data_here,
    needs_to_move,
    valid_credit,
)
from permitflow_model.input_gate import SYSTEM as GATE
from permitflow_model.input_gate_alignment import epoch_after
from permitflow_model.input_gate_credit import (
    Channel,
    Item,
    Parameters,
    State,
    content_in,
    deliver,
    starts,
    with_changes,
)
from permitflow_model.input_gate_queues import promise_in
from permitflow_model.kernel.queue import Queue
from permitflow_model.kernel.system import Action, System, require
from permitflow_model.registry import Registered


def withdraw_data(state: State, _parameters: Parameters, name: int) -> State:
    """The application takes back its newest message, which is data: no credit was taken for it."""
    channel = state.channels.get(name)
    require(not channel.waiting.is_empty())
    require(channel.waiting.last().kind == "data")
    return with_changes(state, name, waiting=channel.waiting.without_last())


def withdraw_barrier(state: State, parameters: Parameters, name: int) -> State:
    """... or a barrier: the epoch goes on that it would have ended."""
    channel = state.channels.get(name)
    require(not channel.waiting.is_empty())
    require(channel.waiting.last().kind == "barrier")
    left = channel.waiting.without_last()
    return with_changes(state, name, waiting=left, epoch=_due_behind(left, channel.sent, parameters))


def _due_behind(waiting: Queue[Item], sent: int, parameters: Parameters) -> int:
    if waiting.is_empty():
        return sent
    last = waiting.last()
    return last.epoch if last.kind == "data" else epoch_after(last.epoch, parameters)


def send_and_tell(state: State, parameters: Parameters, name: int) -> State:
    """Data costs a credit; by it the gate knows that less waits, but still believes in what was taken back."""
    channel = state.channels.get(name)
    require(starts(channel.waiting, "data"))
    require(not channel.stopped)
    require(channel.credit > 0)
    told = max(content_in(channel.waiting).data, channel.announced) - 1
    wire = channel.wire.push(Item("data", channel.waiting.head().epoch, told))
    return with_changes(
        state, name, waiting=channel.waiting.without_head(), credit=channel.credit - 1, announced=told, wire=wire
    )


def return_credit(state: State, parameters: Parameters, name: int) -> State:
    """A sender that has more credit than its own and than waits gives one back, and tells what waits."""
    channel = state.channels.get(name)
    require(not channel.stopped)
    require(not channel.over)
    backlog = content_in(channel.waiting).data
    require(channel.credit > parameters.exclusive + backlog)
    wire = channel.wire.push(Item("return", channel.sent, backlog))
    return with_changes(state, name, credit=channel.credit - 1, announced=backlog, wire=wire)


def deliver_or_return(state: State, parameters: Parameters, name: int) -> State:
    """A message arrives at the gate; a credit that comes back was lent, and goes home."""
    channel = state.channels.get(name)
    require(not channel.wire.is_empty())
    message = channel.wire.head()
    if message.kind != "return":
        return deliver(state, parameters, name)
    home = with_changes(
        state, name, wire=channel.wire.without_head(), required=message.backlog, borrowed=channel.borrowed - 1
    )
    return home._replace(pool=state.pool + 1)


def done(state: State, parameters: Parameters) -> State:
    """The gate has failed, or all inputs have ended."""
    return GATE.perform("Done", state, parameters)


# Clauses.


class Returning(NamedTuple):
    """Credit that returns, and lent buffers that are needed until the last of it has arrived."""

    returns: int
    held: int
    """All that is data or returns."""
    needed: int
    """... up to the last that returns; 0: none does."""


def returning_by(message: Item) -> Returning:
    """That of one message."""
    if message.kind == "return":
        return Returning(1, 1, 1)
    return Returning(0, 1, 0) if message.kind == "data" else Returning(0, 0, 0)


def _and_then(earlier: Returning, later: Returning) -> Returning:
    needed = earlier.held + later.needed if later.needed > 0 else earlier.needed
    return Returning(earlier.returns + later.returns, earlier.held + later.held, needed)


def returning_in(messages: Any) -> Returning:
    """That of a queue, or of what a proof knows of one."""
    found: Returning = messages.sum_of(returning_by, _and_then, Returning(0, 0, 0))
    return found


def _channel_conserves(channel: Channel, parameters: Parameters, _epoch: int, _failed: bool) -> bool:
    """Each buffer of a channel is granted, holds data, is free, or comes back."""
    held = data_here(channel) + channel.free + returning_in(channel.wire).returns
    own = 0 if channel.over else parameters.exclusive
    return valid_credit(channel) + held == own + channel.borrowed


def _channel_returns_what_is_lent(channel: Channel, _parameters: Parameters, _epoch: int, _failed: bool) -> bool:
    """Whatever comes back is still lent when it arrives: all data before it holds a buffer that is lent, too."""
    data, needed = content_in(channel.inbox).data, returning_in(channel.wire).needed
    return needed <= 0 or data + needed <= channel.borrowed


def _channel_backlog_told(channel: Channel, _parameters: Parameters, _epoch: int, _failed: bool) -> bool:
    """The gate will know what the sender has told."""
    promise = promise_in(channel.wire)
    return channel.announced == (promise.last if promise.last >= 0 else channel.required)


_AS_OF_GATE = ("StoppedByBarrier", "NothingBehind", "NothingAfterEnd", "InEpoch", "ReleasedByBarrier", "LossFrees")

CLAUSES: Mapping[str, ChannelClause] = {
    "TypeOK": CHANNEL_CLAUSES["TypeOK"],
    "Conservation": _channel_conserves,
    "ReturnsAreLent": _channel_returns_what_is_lent,
    "BacklogTold": _channel_backlog_told,
    **{name: CHANNEL_CLAUSES[name] for name in _AS_OF_GATE},
}
"""What the invariants of these names say of each channel."""


def _everywhere(name: str) -> Callable[[State, Parameters], bool]:
    of_channel, of_gate = CLAUSES[name], GATE_CLAUSES.get(name)

    def holds(state: State, parameters: Parameters) -> bool:
        # The gate first: a fact about all channels must not depend on one of them.
        if of_gate is not None and not of_gate(state, parameters):
            return False
        return state.channels.every(of_channel, parameters, state.epoch, state.failed)

    return holds


def _crosses_nothing(channel: Channel) -> bool:
    return returning_in(channel.wire).returns == 0 or channel.grants.is_empty()


def _tells_the_truth(channel: Channel) -> bool:
    return channel.announced <= content_in(channel.waiting).data


def _like(name: str, of: str, perform: Callable[..., State]) -> Action[State, Parameters]:
    """An action of its own, with the same arguments and at the same end as one of the gate."""
    return replace(GATE.action(of), name=name, perform=perform)


_OWN = {
    "Done": _like("Done", "Done", done),
    "SendData": _like("SendAndTell", "SendData", send_and_tell),
    "Deliver": _like("DeliverOrReturn", "Deliver", deliver_or_return),
}
"""In the place of the gate's."""

SYSTEM: System[State, Parameters] = System(
    module="WithdrawingGate",
    initial=GATE.initial,
    actions=(
        *(_OWN.get(action.name, action) for action in GATE.actions if action.is_environment),
        _like("WithdrawData", "OfferData", withdraw_data),
        _like("WithdrawBarrier", "OfferBarrier", withdraw_barrier),
        *(_OWN.get(action.name, action) for action in GATE.actions if not action.is_environment),
        _like("ReturnCredit", "AnnounceBacklog", return_credit),
    ),
    invariants={**{name: _everywhere(name) for name in CLAUSES}, "Bounded": bounded},
    must_move=lambda state, _: needs_to_move(state),
    probes={
        "NothingCrossesProbe": lambda state, _: state.channels.every(_crosses_nothing),
        "BacklogTrueProbe": lambda state, _: state.channels.every(_tells_the_truth),
    },
)

REGISTERED = Registered(
    system=SYSTEM,
    parameters=Parameters,
    theorems="permitflow_proofs.withdrawing_gate:theorems",
)
