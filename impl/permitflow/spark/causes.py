"""Errors of this package, which Spark passes on as text: how they are told to it, and found in it."""

import re
from collections.abc import Callable, Iterator
from functools import wraps
from typing import ParamSpec, TypeVar

from permitflow import errors
from permitflow.errors import PermitflowError, TransportError

P = ParamSpec("P")
T = TypeVar("T")

_LINE = re.compile(r"^.*?\bpermitflow\.errors\.(\w+)(?::|$)", re.MULTILINE)


def cause_of(error: BaseException) -> type[PermitflowError] | None:
    """The kind of error that a job, or a streaming query, has ended with; None: it is none of this package.

    Spark runs sources and sinks in processes of their own, and passes on what they raise as text.  The last of several
    errors in it is meant: those before are its causes.

    Args:
        error: as Spark raises it from an action, ``awaitTermination()`` or ``query.exception()``.
    """
    if isinstance(error, PermitflowError):
        return type(error)
    kinds = (getattr(errors, found[1], None) for found in _LINE.finditer(str(error)))
    known = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, PermitflowError)]
    return known[-1] if known else None


def told_in_words(planning: Callable[P, T]) -> Callable[P, T]:
    """A method that Spark calls: its errors have their words alone, without the calls that led to them.

    Spark's message has the whole traceback of its Python process, and the words behind it.
    """

    @wraps(planning)
    def plan(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return planning(*args, **kwargs)
        except PermitflowError as error:
            raise error.with_traceback(None) from _foreign(error)

    return plan


def read_in_words(reading: Callable[P, Iterator[T]]) -> Callable[P, Iterator[T]]:
    """The same of a method that yields a task's rows."""

    @wraps(reading)
    def read(*args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        try:
            yield from reading(*args, **kwargs)
        except PermitflowError as error:
            raise error.with_traceback(None) from _foreign(error)

    return read


def _foreign(error: PermitflowError) -> BaseException | None:
    """The exception, none of ours, that has ended a stream: it may have no words, as a MemoryError."""
    return error.__cause__ if type(error) is TransportError else None
