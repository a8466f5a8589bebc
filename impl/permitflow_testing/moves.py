"""Moves of a specification's behaviours, made by the model and by a pair of ends side by side.

``step`` makes one move on both, ``Lockstep`` a run of them; ``walk`` walks a whole state graph: every edge once, and
every refusal in every state.  All take the system: a protocol's model in ``permitflow_model``.
"""

import pickle
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from permitflow.errors import ProtocolError, WouldBlock
from permitflow_model.kernel.system import Disabled, System


class Move(NamedTuple):
    """An action with its arguments; it prints as in the specification."""

    action: str
    arguments: tuple[int, ...] = ()

    def __repr__(self) -> str:
        return f"{self.action}({', '.join(map(str, self.arguments))})"

    @property
    def method(self) -> str:
        """The adapter's method for this action: its name in Python's spelling."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", self.action).lower()


class ActionRefused(Exception):
    """The implementation refuses the action now."""


def require(possible: object) -> None:
    """Let an adapter's method go on only where its implementation can make the move.

    Raises:
        ActionRefused: it cannot.
    """
    if not possible:
        raise ActionRefused("it is not possible now")


REFUSALS = (ActionRefused, WouldBlock, ProtocolError)
"""Exceptions with which an adapter's method reports that its implementation refused."""


class PairAdapter(Protocol):
    """Two ends and the wires between them, moved one action of a specification at a time.

    It has a method for each action, named in Python's spelling, which performs it, or raises one of ``REFUSALS`` and
    changes nothing: ``OfferChunk(3)`` is ``offer_chunk(3)``.  An action that takes a message back, such as
    ``withdraw_chunk``, may get its place in the line as well; 0 is the oldest, and by default it is the newest.
    """

    def observe(self) -> Any:
        """The implementation's state in the specification's terms.

        Raises:
            Divergence: the messages in the implementation are not those that were offered, in their order.
        """
        ...


class Divergence(AssertionError):
    """The implementation diverged from the model."""


S = TypeVar("S", bound=tuple[Any, ...])
P = TypeVar("P")


def moves_of(system: System[S, P], parameters: P) -> Iterator[Move]:
    """All moves with these parameters, enabled or not."""
    for action in system.actions:
        for arguments in action.arguments(parameters):
            yield Move(action.name, arguments)


def is_rule(move: Move) -> bool:
    """Must an implementation refuse this move where the model does?

    The model bounds the offers of its application to keep its states countable; an implementation has no such bounds.
    """
    return not move.action.startswith("Offer")


def attempt(adapter: PairAdapter, move: Move) -> None:
    """Ask the implementation to perform a move.

    Raises:
        ActionRefused, WouldBlock, ProtocolError: it refuses.
    """
    getattr(adapter, move.method)(*move.arguments)


def step(system: System[S, P], adapter: PairAdapter, parameters: P, before: S, move: Move) -> S:
    """Let model and implementation make the same move: both perform it with the same result, or both refuse.

    Raises:
        Divergence: they differ.
    """
    try:
        expected = system.perform(move.action, before, parameters, *move.arguments)
    except Disabled:
        _must_refuse(adapter, before, move)
        return before
    try:
        attempt(adapter, move)
    except REFUSALS as refusal:
        raise Divergence(f"{move!r} is possible in {before}, but the implementation refuses: {refusal}") from refusal
    compare(adapter.observe(), expected, f"after {move!r} in {before}")
    return expected


def _must_refuse(adapter: PairAdapter, before: tuple[Any, ...], move: Move) -> None:
    try:
        attempt(adapter, move)
    except REFUSALS:
        compare(adapter.observe(), before, f"after the refusal of {move!r}")
        return
    raise Divergence(f"{move!r} is impossible in {before}, but the implementation performs it")


def compare(observed: tuple[Any, ...], expected: tuple[Any, ...], when: str) -> None:
    """Compare variable by variable.

    Raises:
        Divergence: they differ.
    """
    if observed == expected:
        return
    differences = [
        f"{name}: expected {due!r}, found {found!r}"
        for name, due, found in zip(type(expected)._fields, expected, observed, strict=True)  # type: ignore[attr-defined]  # a named tuple
        if due != found
    ]
    raise Divergence("\n  ".join((when, *differences)))


A = TypeVar("A", bound=PairAdapter)


class Lockstep(Generic[S, P, A]):
    """A run that the model and an implementation make together: after each move both are in the same state."""

    def __init__(self, system: System[S, P], adapter: A, parameters: P) -> None:
        """Begin with both at rest."""
        self.system = system
        self.adapter = adapter
        self.parameters = parameters
        self.state: S = system.initial(parameters)
        self.moves = tuple(moves_of(system, parameters))

    def enables(self, move: Move) -> bool:
        """Does the model allow this move now?"""
        return self.system.is_enabled(move.action, self.state, self.parameters, *move.arguments)

    def enabled(self) -> list[Move]:
        """The moves that the model allows now."""
        return [move for move in self.moves if self.enables(move)]

    def make(self, move: Move) -> None:
        """Make a move, or let both refuse it.

        Raises:
            Divergence: only one of them refuses it, or the implementation comes into another state.
        """
        self.state = step(self.system, self.adapter, self.parameters, self.state, move)

    def do(self, action: str, *arguments: int) -> None:
        """Make a move that the model allows.

        Raises:
            Disabled: the model does not allow it.
            Divergence: the implementation refuses it, or comes into another state.
        """
        self.system.perform(action, self.state, self.parameters, *arguments)
        self.make(Move(action, arguments))


@dataclass
class Walk:
    """The extent of a walk."""

    states: int = 0
    edges: int = 0
    """Steps that both made, with the same result."""
    refusals: int = 0
    """Moves that both refused."""


def walk(
    system: System[S, P],
    start: A,
    parameters: P,
    *,
    never: Collection[str] = (),
    in_each_state: Callable[[Callable[[], A], S], None] | None = None,
) -> Walk:
    """Visit every state of the model that is reachable without the actions ``never``, and compare the implementation.

    ``start`` is an implementation at rest that can be pickled.  ``in_each_state`` may check more: it gets a function
    that makes fresh copies of the implementation in this state, and the state.

    Raises:
        Divergence: they differ.
    """
    result = Walk()
    moves = tuple(move for move in moves_of(system, parameters) if move.action not in never)
    begin = system.initial(parameters)
    kept: dict[S, bytes] = {begin: pickle.dumps(start)}
    todo = [begin]
    while todo:
        state = todo.pop()
        # No state is visited twice, so its copy is no longer needed.
        copy, kept[state] = kept[state], b""
        fresh: Callable[[], A] = partial(pickle.loads, copy)
        result.states += 1
        if in_each_state is not None:
            in_each_state(fresh, state)
        refusing = fresh()
        for move in moves:
            if system.is_enabled(move.action, state, parameters, *move.arguments):
                adapter = fresh()
                after = step(system, adapter, parameters, state, move)
                result.edges += 1
                if after not in kept:
                    kept[after] = pickle.dumps(adapter)
                    todo.append(after)
            elif is_rule(move):
                # `step` has checked that the refusal changed nothing.
                step(system, refusing, parameters, state, move)
                result.refusals += 1
    return result
