"""What an exchange asks of names."""

from collections import Counter
from collections.abc import Iterable

from permitflow.errors import InvalidParametersError

MOST_NAME_CHARACTERS = 200
"""An exchange may keep a name for the lifetime of the channel."""


def require_name(name: str, value: str) -> None:
    """Refuse a name that is too long; ``name`` is the parameter's name.

    Raises:
        InvalidParametersError: the name has more than 200 characters.
    """
    if len(value) > MOST_NAME_CHARACTERS:
        rule = f"must have at most {MOST_NAME_CHARACTERS} characters"
        raise InvalidParametersError(name=name, value=f"{value[:MOST_NAME_CHARACTERS]}…", rule=rule)


def require_once_each(channels: Iterable[str]) -> None:
    """Refuse a request that names a channel twice.

    Raises:
        InvalidParametersError: it does.
    """
    for name, count in Counter(channels).items():
        if count > 1:
            raise InvalidParametersError(name="channels", value=name, rule="must not name one twice")
