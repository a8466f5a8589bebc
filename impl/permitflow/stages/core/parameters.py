"""What stages require of their parameters: so that a wrong one is refused where it is given, and by its name."""

from enum import Enum
from math import isfinite

from permitflow.errors import InvalidParametersError


def require_at_least(least: int, **numbers: int) -> None:
    """Require whole numbers of at least ``least``; each is given by its name.

    Raises:
        InvalidParametersError: one is not.
    """
    for name, value in numbers.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise InvalidParametersError(name=name, value=value, rule=f"must be at least {least}, and a whole number")


def require_above_0(**numbers: float) -> None:
    """Require finite numbers above 0; each is given by its name.

    Raises:
        InvalidParametersError: one is not.
    """
    for name, value in numbers.items():
        if not isinstance(value, int | float) or isinstance(value, bool) or not (value > 0 and isfinite(value)):
            raise InvalidParametersError(name=name, value=value, rule="must be above 0, and a finite number")


def require_choice(choices: type[Enum], **given: object) -> None:
    """Require members of an enumeration; each is given by its name.

    Raises:
        InvalidParametersError: one is not.
    """
    for name, value in given.items():
        if not isinstance(value, choices):
            members = ", ".join(str(member) for member in choices)
            raise InvalidParametersError(name=name, value=value, rule=f"must be one of {members}")
