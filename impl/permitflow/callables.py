"""What this package requires of a user's function: one check for stages, channels, gates, mute and calls.

A function that must be awaited, where nobody awaits it, would succeed without having done anything: a coroutine counts
as true.
"""

from collections.abc import Callable
from functools import partial
from inspect import isasyncgenfunction, isawaitable, iscoroutine, iscoroutinefunction
from typing import Any, ParamSpec, TypeVar

from permitflow.errors import AsyncFunctionError, InvalidParametersError

P = ParamSpec("P")
T = TypeVar("T")


class NoStream:
    """What a type checker takes for the result where a coroutine function is given and nobody awaits it: no stream.

    So the next use of the result is a type error; at run time the call has raised ``AsyncFunctionError``.
    """


_NO_HINT = "call what must be awaited in a task of its own"


def require_plain(function: object, *, place: str, hint: str = _NO_HINT) -> None:
    """Require a function that is called and not awaited, where it is given.

    Args:
        function: also a ``functools.partial``, a method or an object with ``__call__``.
        place: who calls it, as in ``filter(predicate)``.
        hint: what to do instead.

    Raises:
        InvalidParametersError: it cannot be called.
        AsyncFunctionError: it is a coroutine function, or an asynchronous generator.
    """
    if not callable(function):
        raise InvalidParametersError(name=place, value=function, rule="must be a function")
    called = _unwrapped(function)
    if iscoroutinefunction(called):
        raise AsyncFunctionError(place=place, given=f"the coroutine function {_name_of(function)}", hint=hint)
    if isasyncgenfunction(called):
        raise AsyncFunctionError(place=place, given=f"the asynchronous generator {_name_of(function)}", hint=hint)


def _unwrapped(function: object) -> object:
    while isinstance(function, partial):
        function = function.func
    if isinstance(function, type) or hasattr(function, "__code__") or hasattr(function, "__func__"):
        return function
    return type(function).__call__ if callable(function) else function


def _name_of(function: object) -> str:
    while isinstance(function, partial):
        function = function.func
    return getattr(function, "__qualname__", None) or type(function).__qualname__


def plain(function: Callable[P, T], *, place: str, hint: str = _NO_HINT) -> Callable[P, T]:
    """The function, required to be plain, with its results watched: an awaitable one is refused when it comes.

    Raises:
        InvalidParametersError, AsyncFunctionError: as ``require_plain``; the latter also from each call.
    """
    require_plain(function, place=place, hint=hint)

    def watched(*args: P.args, **kwargs: P.kwargs) -> T:
        made = function(*args, **kwargs)
        if hasattr(type(made), "__await__"):
            refuse_awaitable(made, function, place=place, hint=hint)
        return made

    return watched


def plain_of_one(function: Callable[[Any], T], *, place: str, hint: str = _NO_HINT) -> Callable[[Any], T]:
    """As ``plain``, for a function of one element; it costs less."""
    require_plain(function, place=place, hint=hint)

    def watched(element: Any) -> T:
        made = function(element)
        if hasattr(type(made), "__await__"):
            refuse_awaitable(made, function, place=place, hint=hint)
        return made

    return watched


def refuse_awaitable(made: object, function: object, *, place: str, hint: str) -> None:
    """Refuse a result that must be awaited; a coroutine is closed, so that Python does not complain again.

    Raises:
        AsyncFunctionError: it is awaitable.
    """
    if not isawaitable(made):
        return
    if iscoroutine(made):
        made.close()
    given = f"{_name_of(function)}, which has returned an awaitable {type(made).__name__}"
    raise AsyncFunctionError(place=place, given=given, hint=hint)
