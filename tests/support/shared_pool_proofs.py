"""What holds of channels that share a pool, for any number of them: one page of proofs."""

from operator import add
from typing import cast

from permitflow_model.kernel.system import System
from permitflow_proofs.kernel.arbitrary import any_parameters_of, arbitrary, assume_all
from permitflow_proofs.kernel.family import SymbolicFamily
from permitflow_proofs.kernel.induction import Subject
from permitflow_proofs.kernel.queue import Sums, SymbolicQueue
from permitflow_proofs.kernel.symbols import assume, natural
from tests.support.shared_pool import SYSTEM, Channel, Message, Parameters, State, cost_of, order_in, waits

INVARIANT = {name: SYSTEM.invariants[name] for name in ("TypeOK", "Ends", "Conservation", "InEpoch")}


def any_parameters(**fixed: object) -> Parameters:
    return any_parameters_of(Parameters, **fixed)


def any_message(name: str) -> Message:
    return arbitrary(Message, f"{name}.")


def permits_held(messages: Sums) -> int:
    return messages.sum_of(cost_of, add, 0)


def order_kept(messages: Sums) -> tuple[int, ...]:
    """Each message is counted once, and no count is negative: several numbers, none of which is negative."""
    order, size = order_in(messages), messages.size()
    return (order.messages - size, size - order.messages, order.messages, order.ends, order.behind)


def any_channel(name: str) -> Channel:
    wire = SymbolicQueue.any_queue(f"{name}.wire", any_message, (permits_held, order_kept))
    return arbitrary(Channel, f"{name}.", special={"wire": wire})


def any_state(parameters: Parameters, focus: int = 1) -> State:
    channels = SymbolicFamily.any_family("channels", any_channel, focus)
    return assume_all(INVARIANT.values(), arbitrary(State, special={"channels": channels}), parameters)


def any_cost(parameters: Parameters) -> tuple[int]:
    cost = natural("cost", 1)
    assume(cost <= parameters.largest)
    return (cost,)


def subject(system: System[State, Parameters] = SYSTEM) -> Subject[State, Parameters]:
    return Subject(system, any_parameters, any_state, {"Offer": any_cost})


def can_go(channel: Channel) -> bool:
    """Can a channel move whatever the pool has?"""
    return not channel.wire.is_empty() or (channel.wanted > 0 and channel.borrowed == channel.wanted)


def at_most_held(_channel: Channel, parameters: Parameters) -> int:
    """What a channel may hold at most while its message waits for more."""
    return parameters.largest - 1


def with_the_one_that_moves(state: State) -> State:
    channels = cast("SymbolicFamily[Channel]", state.channels)
    channels.choose(waits)
    return state._replace(channels=channels.with_some(can_go))
