"""How long a name may be that an exchange keeps."""

from permitflow.errors import InvalidParametersError

__all__ = ["MOST_NAME_CHARACTERS", "require_name"]

MOST_NAME_CHARACTERS = 200
"""An exchange may keep a name for as long as the channel."""


def require_name(name: str, value: str) -> None:
    """Refuse a name that is too long to be kept; ``name`` says what it names.

    Raises:
        InvalidParametersError: it has more than 200 characters.
    """
    if len(value) > MOST_NAME_CHARACTERS:
        rule = f"must have at most {MOST_NAME_CHARACTERS} characters"
        raise InvalidParametersError(name=name, value=f"{value[:MOST_NAME_CHARACTERS]}…", rule=rule)
