"""Parameters of a model, each with its least value where it is declared."""

from types import MappingProxyType
from typing import Annotated, NamedTuple, TypeAlias, get_args, get_type_hints


class AtLeast(NamedTuple):
    """What a field's annotation says of its values."""

    least: int


Natural: TypeAlias = Annotated[int, AtLeast(0)]
"""A number that is not negative."""

Positive: TypeAlias = Annotated[int, AtLeast(1)]
"""A number of at least 1."""


class Bounded:
    """Refuses what a specification's ASSUME refuses: numbers below the least value of their fields.

    A dataclass that extends it says the rest in a ``__post_init__`` of its own, which calls this one first.
    """

    # Without an annotation: it is no field.
    _least = MappingProxyType[str, int]({})

    def __init_subclass__(cls) -> None:
        """Read the annotations."""
        hints = get_type_hints(cls, include_extras=True).items()
        least = {name: part.least for name, hint in hints for part in get_args(hint) if isinstance(part, AtLeast)}
        cls._least = MappingProxyType(least)

    def __post_init__(self) -> None:
        """Check the fields that are ``Natural`` or ``Positive``.

        Raises:
            ValueError: a parameter is out of its range.
        """
        for name, least in self._least.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, not {getattr(self, name)}")
