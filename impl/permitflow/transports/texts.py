"""Texts on the wire, which holds what UTF-8 can: names that it cannot hold are refused, reasons arrive all the same.

A file name that is no UTF-8 is such a text in Python, and so is the message of an error that quotes it.
"""

from permitflow.errors import InvalidParametersError

__all__ = ["MOST_CHARACTERS", "TEXT_RULE", "require_text", "sendable"]

TEXT_RULE = "must be text that UTF-8 can hold"
MOST_CHARACTERS = 4_000
"""Of a reason, however much of a program its error quotes."""


def require_text(name: str, value: str) -> None:
    """Refuse a name that could not travel.

    Raises:
        InvalidParametersError: UTF-8 cannot hold it; ``name`` says what it is.
    """
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidParametersError(name=name, value=value, rule=TEXT_RULE) from error


def sendable(text: str, most_characters: int = MOST_CHARACTERS) -> str:
    """A text for people as it may travel: its beginning, with ``?`` for what UTF-8 cannot hold."""
    beginning = text if len(text) <= most_characters else f"{text[: most_characters - 1]}…"
    return beginning.encode(errors="replace").decode()
