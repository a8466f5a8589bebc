"""How many messages somebody asks for."""

from permitflow.errors import InvalidParametersError

__all__ = ["require_count"]


def require_count(value: object, *, name: str) -> None:
    """Insist on a whole number of at least 1.

    Raises:
        InvalidParametersError: it is something else.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidParametersError(name=name, value=value, rule="must be at least 1, and a whole number")
