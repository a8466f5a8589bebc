"""Texts on the wire, as UTF-8: other names are refused, other reasons are adapted.

A file name that is not UTF-8 is such a text in Python, and so is an error message that quotes it.
"""

from permitflow.errors import InvalidParametersError

TEXT_RULE = "must be text that UTF-8 can hold"
MOST_CHARACTERS = 4_000
"""The longest reason; a longer one is cut."""


def require_text(name: str, value: str) -> None:
    """Refuse a name that cannot travel.

    Raises:
        InvalidParametersError: UTF-8 cannot hold ``value``, which the error calls ``name``.
    """
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidParametersError(name=name, value=value, rule=TEXT_RULE) from error


def sendable(text: str, most_characters: int = MOST_CHARACTERS) -> str:
    """Make a text fit to travel: cut it, and replace by ``?`` what UTF-8 cannot hold."""
    beginning = text if len(text) <= most_characters else f"{text[: most_characters - 1]}…"
    return beginning.encode(errors="replace").decode()
