"""Model and implementation walk a whole state graph together: every edge once, and every refusal in every state."""

import pickle
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from permitflow.testing.moves import PairAdapter, is_rule, moves_of, step
from permitflow_model.permit_channel import SYSTEM, Parameters, State

__all__ = ["Walk", "walk"]

A = TypeVar("A", bound=PairAdapter)


@dataclass
class Walk:
    """How far it went."""

    states: int = 0
    edges: int = 0
    """Steps that both took, with the same result."""

    refusals: int = 0
    """Moves that both refused."""


def walk(
    start: A,
    parameters: Parameters,
    *,
    never: Collection[str] = (),
    in_each_state: Callable[[Callable[[], A], State], None] | None = None,
) -> Walk:
    """Visit every state of the model that is reachable without the actions ``never``, the implementation beside it.

    ``start`` is an implementation at rest that can be pickled.  ``in_each_state`` may check more: it gets a function
    that makes fresh copies of the implementation in this state, and the state.

    Raises:
        Divergence: they do not agree.
    """
    result = Walk()
    moves = tuple(move for move in moves_of(parameters) if move.action not in never)
    begin = SYSTEM.initial(parameters)
    kept: dict[State, bytes] = {begin: pickle.dumps(start)}
    todo = [begin]
    while todo:
        state = todo.pop()
        # A state is never visited again; its copy is no longer needed.
        copy, kept[state] = kept[state], b""
        fresh: Callable[[], A] = partial(pickle.loads, copy)
        result.states += 1
        if in_each_state is not None:
            in_each_state(fresh, state)
        refusing = fresh()
        for move in moves:
            if SYSTEM.is_enabled(move.action, state, parameters, *move.arguments):
                adapter = fresh()
                after = step(adapter, parameters, state, move)
                result.edges += 1
                if after not in kept:
                    kept[after] = pickle.dumps(adapter)
                    todo.append(after)
            elif is_rule(move):
                # A refusal changes nothing, and `step` has made sure of it.
                step(refusing, parameters, state, move)
                result.refusals += 1
    return result
