"""States as integers, for searches that visit many of them.

Each variable has a few bits of its own, which hold the number of its value: values are numbered as they are met.
Other bits hold what functions of the model see when they look at a variable (``watching.Look``).  So the states in
which a function sees the same are those that agree in the bits of its looks: ``packed & mask``.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, TypeVar, cast

from permitflow_model.kernel.watching import Look, look_at

__all__ = ["Packing"]



class _Slot:
    """The bits of one look."""

    def __init__(self, shift: int, width: int) -> None:
        self.mask = ((1 << width) - 1) << shift
        self._shift = shift
        self._numbers: dict[object, int] = {}

    def bits_of(self, seen: object) -> int:
        """The bits for what is seen; the same for equal things."""
        return self._numbers.setdefault(seen, len(self._numbers)) << self._shift


class _Variable:
    """The values of a variable that were met, and the bits of all that is seen of each."""

    def __init__(self) -> None:
        self.mask = 0
        """All bits that depend on the variable."""
        self.values: list[object] = []
        self._slots: list[tuple[Look, _Slot]] = []
        self.numbers: dict[object, int] = {}
        self.bits: list[int] = []

    def add(self, look: Look, slot: _Slot) -> None:
        """See more of each value."""
        self.mask |= slot.mask
        self._slots.append((look, slot))
        for number, value in enumerate(self.values):
            self.bits[number] |= slot.bits_of(look_at(value, look))

    def bits_of(self, value: object) -> int:
        """The bits of a value, which may be new."""
        number = self.numbers.get(value)
        if number is not None:
            return self.bits[number]
        self.numbers[value] = len(self.values)
        self.values.append(value)
        self.bits.append(sum(slot.bits_of(look_at(value, look)) for look, slot in self._slots))
        return self.bits[-1]


class Packing(Generic[S]):
    """Packs states that are named tuples of as many variables as the first; any other state is one variable."""

    def __init__(self, start: S, *, most_values: int) -> None:
        """No variable may have more than ``most_values`` values."""
        self._type = type(start)
        self._is_tuple = hasattr(start, "_fields")
        self._width = max(1, (most_values - 1).bit_length())
        self._numbers: dict[Look, int] = {}
        self._slots: list[_Slot] = []
        self._variables = [_Variable() for _ in self._values_in(start)]
        for position in range(len(self._variables)):
            self.number_of(Look(position))
        # These are the lowest bits, and look for look they hold the numbers of the values.
        self._low = (1 << self._width) - 1
        self._shifts = range(0, len(self._variables) * self._width, self._width)
        self.identity = self.mask_of(range(self.looks))
        """States are equal if they agree in these bits."""

    @property
    def looks(self) -> int:
        """How many looks have bits; if there are more than before, states must be packed ``again``."""
        return len(self._slots)

    def number_of(self, look: Look) -> int:
        """A short name for a look, which from now on has bits of its own."""
        number = self._numbers.get(look)
        if number is None:
            number = self._numbers[look] = self.looks
            self._slots.append(_Slot(number * self._width, self._width))
            self._variables[look.variable].add(look, self._slots[number])
        return number

    def mask_of(self, looks: Iterable[int]) -> int:
        """The bits of some looks."""
        mask = 0
        for number in looks:
            mask |= self._slots[number].mask
        return mask

    def pack(self, state: S) -> int:
        """The state as a number."""
        packed = 0
        for variable, value in zip(self._variables, self._values_in(state), strict=True):
            packed |= variable.bits_of(value)
        return packed

    def unpack(self, packed: int) -> S:
        """The state that was packed."""
        low = self._low
        values = [
            variable.values[packed >> shift & low]
            for variable, shift in zip(self._variables, self._shifts, strict=True)
        ]
        return self._type(*values) if self._is_tuple else cast("S", values[0])

    def again(self, packed: int) -> int:
        """The state, packed with the bits of all looks that have been added meanwhile."""
        low = self._low
        bits = 0
        for variable, shift in zip(self._variables, self._shifts, strict=True):
            bits |= variable.bits[packed >> shift & low]
        return bits

    def change(self, values: Mapping[int, object]) -> tuple[int, int]:
        """Bits to keep and bits to set where variables get these values: ``packed & keep | bits``."""
        changed = bits = 0
        for position, value in values.items():
            variable = self._variables[position]
            changed |= variable.mask
            bits |= variable.bits_of(value)
        return ((1 << self.looks * self._width) - 1) & ~changed, bits

    def _values_in(self, state: S) -> Sequence[object]:
        return cast("Sequence[object]", state) if self._is_tuple else (state,)
