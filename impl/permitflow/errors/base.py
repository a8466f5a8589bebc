"""The base of all errors of this package."""

import re

__all__ = ["PermitflowError", "printable", "restored"]

# Control characters, what ends a line, and what turns the direction of a line.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def printable(text: str, *, keeps_lines: bool = False) -> str:
    """A text of anybody as a terminal or a log may show it: ``\\x1b`` in words for what would command a terminal.

    Args:
        text: a peer's name, reason or message; what is printable is left as it is.
        keeps_lines: the text is of several lines, and may be.
    """
    return _UNPRINTABLE.sub(lambda found: _escaped(found[0], keeps_lines), text)


def _escaped(character: str, keeps_lines: bool) -> str:
    return character if keeps_lines and character == "\n" else character.encode("unicode_escape").decode()


class PermitflowError(Exception):
    """The base of all errors of this package.  Facts are attributes, and survive pickling.

    The message is one line that may be printed, whatever a peer has written into it; the facts are as they came.
    """

    KEEPS_LINES = False

    def __init__(self, message: str, **facts: object) -> None:
        """Keep the message and the facts that the subclass wants to be readable as attributes."""
        self.message = printable(message, keeps_lines=self.KEEPS_LINES)
        super().__init__(self.message)
        self._facts = facts
        for name, value in facts.items():
            setattr(self, name, value)

    @property
    def facts(self) -> dict[str, object]:
        """The facts by their names."""
        return dict(self._facts)

    def __reduce__(self) -> tuple[object, ...]:
        # The default would call the subclass's keyword-only __init__ with the finished message.
        return restored, (type(self), self.message, self._facts)


def restored(cls: type[PermitflowError], message: str, facts: dict[str, object]) -> PermitflowError:
    """Make an error anew from its message and facts, as after pickling or on the other side of a wire."""
    error = cls.__new__(cls)
    PermitflowError.__init__(error, message, **facts)
    return error
