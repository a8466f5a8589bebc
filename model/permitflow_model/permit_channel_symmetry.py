"""Numbered chunks, counted from the next one to be consumed.

Chunks are numbered so that their order can be checked, modulo ``tags``; which number comes first means nothing.  No
guard asks for a number, and all that is done with numbers is to go to the next one.  So whoever adds the same to all
numbers of a state changes nothing else in what follows, and one state may stand for all that differ by such a shift:
the one in which the chunk with number 0 is consumed next.

``tests/model/test_permit_channel_symmetry.py`` holds this against the whole graph.
"""

from collections.abc import Callable
from dataclasses import replace

from permitflow_model.kernel.queue import Fifo, Queue
from permitflow_model.kernel.system import Action, System
from permitflow_model.permit_channel import SYSTEM, Message, Parameters, State

__all__ = ["QUOTIENT", "renumbered", "shifted"]


def shifted(state: State, parameters: Parameters, by: int) -> State:
    """The state with ``by`` added to all numbers."""

    def number(old: int) -> int:
        return (old + by) % parameters.tags

    def numbers(messages: Queue[Message]) -> Queue[Message]:
        return Fifo(message._replace(id=number(message.id)) for message in messages)

    return state._replace(
        offered=number(state.offered),
        consumed=number(state.consumed),
        waiting=numbers(state.waiting),
        wire=numbers(state.wire),
        inbox=numbers(state.inbox),
    )


def renumbered(state: State, parameters: Parameters) -> State:
    """The state that stands for this one."""
    return state if state.consumed == 0 else shifted(state, parameters, -state.consumed)


def _renumbering(action: Action[State, Parameters]) -> Action[State, Parameters]:
    perform: Callable[..., State] = action.perform

    def perform_and_renumber(state: State, parameters: Parameters, *arguments: int) -> State:
        return renumbered(perform(state, parameters, *arguments), parameters)

    return replace(action, perform=perform_and_renumber)


QUOTIENT: System[State, Parameters] = replace(SYSTEM, actions=tuple(map(_renumbering, SYSTEM.actions)))
"""The permit channel, one state for all that differ by a shift of their numbers.

Invariants hold in a state if they hold in the one that stands for it.  Where every number can come first again, as in
every live channel with the idle flush, there are exactly ``tags`` times as many states.
"""
