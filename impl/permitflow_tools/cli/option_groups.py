"""Options that belong together: a command gets them as one argument."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import Any, get_args

from typer.models import OptionInfo

from permitflow.errors import InvalidParametersError
from permitflow_tools.cli.outcomes import unusable


def with_options(
    *, last: bool = False, names: Mapping[str, str] | None = None, **groups: Callable[..., Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of groups, in the place of the argument that has the group's name.

    If the library refuses a parameter that one of the command's options states, the complaint names the option.

    Args:
        last: behind all others instead.
        names: the options of parameters that the library calls otherwise.
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
        options = {
            each.name for each in parameters if any(isinstance(one, OptionInfo) for one in get_args(each.annotation))
        }

        @wraps(command)
        def called(**given: Any) -> None:
            try:
                made = {
                    name: make(**{option: given[option] for option in options_of[name]})
                    for name, make in groups.items()
                }
                command(**{name: given[name] for name in own.parameters if name not in groups}, **made)
            except InvalidParametersError as error:
                same = options & {error.name, error.name.removesuffix("_seconds")}
                stated = {name for name in same if given[name] is not None}
                other = (names or {}).get(error.name)
                option = other if other and not stated else next((f"--{name.replace('_', '-')}" for name in same), "")
                value = error.value if str(error.value) else "''"
                unusable(f"{option}: {value} {error.rule}" if option else str(error))

        called.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]  # what Typer reads
        called.__annotations__ = {each.name: each.annotation for each in parameters}
        return called

    return give
