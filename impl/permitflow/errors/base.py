"""The base of all errors of this package."""

__all__ = ["PermitflowError", "restored"]


class PermitflowError(Exception):
    """The base of all errors of this package.  Facts are attributes, and survive pickling."""

    def __init__(self, message: str, **facts: object) -> None:
        """Keep the message and the facts that the subclass wants to be readable as attributes."""
        super().__init__(message)
        self.message = message
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
