"""Actions and conditions of a model, worked out once for all states in which they see the same.

What an action does depends on a few variables: delivering a message on the wire and the inbox, whatever the permits
are.  So it is worked out on a watched state, and remembered under what it has looked at there.

Where to look next may depend on what was seen: whoever finds the wire empty does not ask for its oldest message.  So
what is known is a tree: a node has some looks, and for what they see either the outcome or a node with further looks.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import takewhile
from operator import eq
from typing import Generic, TypeAlias, TypeVar

from permitflow_model.kernel.packing import Packing
from permitflow_model.kernel.system import Disabled, System
from permitflow_model.kernel.watching import Notes, changes_of, watched

__all__ = ["LookUp"]

P = TypeVar("P")
T = TypeVar("T")


class _Unknown:
    """Nothing is known here."""


_UNKNOWN = _Unknown()


class _Node(Generic[T]):
    """Looks that are always taken one after the other, and what comes of what they see."""

    __slots__ = ("known", "looks", "mask")

    def __init__(self, looks: Sequence[int], mask: int) -> None:
        self.looks = looks
        """By their numbers."""
        self.mask = mask
        """The bits of the looks."""
        self.known: dict[int, _Tree[T]] = {}
        """By those bits."""


_Tree: TypeAlias = T | _Node[T] | _Unknown


class _Change:
    """Variables that get a value, as bits to keep and bits to set: ``packed & keep | bits`` is the next state."""

    __slots__ = ("bits", "keep", "values")

    def __init__(self, values: dict[int, object]) -> None:
        self.values = values
        self.keep, self.bits = 0, 0


class _Function(Generic[S, T]):
    """A function of states, and what is known of it."""

    __slots__ = ("tree", "work_out")

    def __init__(self, work_out: Callable[[S], T]) -> None:
        self.work_out = work_out
        self.tree: _Tree[T] = _UNKNOWN


class LookUp(Generic[S, P]):
    """The steps out of packed states, and the conditions that do not hold in them."""

    def __init__(
        self,
        system: System[S, P],
        parameters: P,
        conditions: Mapping[str, Callable[[S, P], bool]],
        *,
        most_states: int,
    ) -> None:
        """``most_states``: how many states may be packed."""
        moves = [(action, arguments) for action in system.actions for arguments in action.arguments(parameters)]
        self.moves = [(action.name, arguments) for action, arguments in moves]
        """Names of actions with their arguments; elsewhere a move is a position in this list."""
        start = system.initial(parameters)
        # Values are met one step ahead of the states that have them.
        self.packing = Packing(start, most_values=most_states + len(moves) + 1)
        self.start = self.packing.pack(start)
        self.repackings = 0
        """How often looks were given bits; states that were packed before must be packed again each time."""
        self._moves: list[_Function[S, _Change | None]] = [
            _Function(partial(_change, action.perform, parameters, arguments)) for action, arguments in moves
        ]
        self._conditions: dict[str, _Function[S, bool]] = {
            name: _Function(partial(_truth, condition, parameters)) for name, condition in conditions.items()
        }
        self._changes: list[_Change] = []

    def steps(self, packed: int) -> list[tuple[int, int]]:
        """All moves out of a state, each with the state it leads to, packed as at the end of the call."""
        found = []
        for move, function in enumerate(self._moves):
            change = function.tree
            while isinstance(change, _Node):
                change = change.known.get(packed & change.mask, _UNKNOWN)
            if change is None:
                continue
            if isinstance(change, _Unknown):
                repackings = self.repackings
                change = self._learn_change(function, packed)
                if self.repackings > repackings:
                    return self.steps(self.packing.again(packed))
                if change is None:
                    continue
            found.append((move, packed & change.keep | change.bits))
        return found

    def broken(self, packed: int) -> list[str]:
        """The names of the conditions that do not hold."""
        broken = []
        for name, function in self._conditions.items():
            holds = function.tree
            while isinstance(holds, _Node):
                holds = holds.known.get(packed & holds.mask, _UNKNOWN)
            if holds is True:
                continue
            if isinstance(holds, _Unknown):
                repackings = self.repackings
                holds = self._learn(function, packed)
                if self.repackings > repackings:
                    return self.broken(self.packing.again(packed))
            if not holds:
                broken.append(name)
        return broken

    def drop(self, condition: str) -> None:
        """Ask no more whether this condition holds."""
        del self._conditions[condition]

    def _learn_change(self, function: _Function[S, _Change | None], packed: int) -> _Change | None:
        change = self._learn(function, packed)
        if change is not None:
            self._changes.append(change)
            change.keep, change.bits = self.packing.change(change.values)
        return change

    def _learn(self, function: _Function[S, T], packed: int) -> T:
        """Work out what comes of a function, and remember it."""
        notes = Notes()
        outcome = function.work_out(watched(self.packing.unpack(packed), notes))
        looks_before = self.packing.looks
        looks = [self.packing.number_of(look) for look in notes.looks]
        if self.packing.looks > looks_before:
            self.repackings += 1
            packed = self.packing.again(packed)
            for change in self._changes:
                change.keep, change.bits = self.packing.change(change.values)
        function.tree = self._grown(function.tree, packed, looks, outcome)
        return outcome

    def _grown(self, tree: _Tree[T], packed: int, looks: Sequence[int], outcome: T) -> _Tree[T]:
        """The tree with one more outcome."""
        if not looks:
            return outcome
        if not isinstance(tree, _Node):
            tree = _Node(looks, self.packing.mask_of(looks))
        shared = len(tree.looks)
        if tree.looks != looks[:shared]:
            # Not all of them are always taken.
            shared = sum(1 for _ in takewhile(bool, map(eq, tree.looks, looks)))
            tree = _Node(looks[:shared], self.packing.mask_of(looks[:shared]))
        bits = packed & tree.mask
        tree.known[bits] = self._grown(tree.known.get(bits, _UNKNOWN), packed, looks[shared:], outcome)
        return tree


def _change(perform: Callable[..., S], parameters: P, arguments: tuple[int, ...], state: S) -> _Change | None:
    """What an action does; None if it is disabled."""
    try:
        return _Change(changes_of(perform(state, parameters, *arguments)))
    except Disabled:
        return None


def _truth(condition: Callable[[S, P], bool], parameters: P, state: S) -> bool:
    return bool(condition(state, parameters))
