"""Options that belong together: a command gets them as one argument."""

import inspect
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any


def with_options(
    *, last: bool = False, **groups: Callable[..., Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of groups, in the place of the argument that has the group's name.

    Args:
        last: behind all others instead.
        groups: functions whose parameters are options, as Typer reads them.  The command gets what they return; a
            parameter that the command has as well is one and the same.
    """

    def give(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command)
        options_of = {name: inspect.signature(make).parameters for name, make in groups.items()}

        def shown() -> Iterator[inspect.Parameter]:
            for name, argument in sorted(own.parameters.items(), key=lambda each: last and each[0] in groups):
                group = options_of.get(name, {name: argument})
                yield from (each for each in group.values() if each.name == name or each.name not in own.parameters)

        parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in shown()]

        @wraps(command)
        def called(**given: Any) -> None:
            made = {
                name: make(**{option: given[option] for option in options_of[name]}) for name, make in groups.items()
            }
            command(**{name: given[name] for name in own.parameters if name not in groups}, **made)

        called.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]  # what Typer reads
        called.__annotations__ = {each.name: each.annotation for each in parameters}
        return called

    return give
