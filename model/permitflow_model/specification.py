"""Where the specification says something: found in the text by the operator's name."""

import re
from functools import cache

from permitflow_model.manifest import find_spec_directory

__all__ = ["UnknownOperator", "operator_line", "reference"]


class UnknownOperator(LookupError):
    """Somebody names an operator that the specification does not define."""

    def __init__(self, module: str, operator: str) -> None:
        """Name both."""
        super().__init__(f"{module}.tla does not define {operator}; was it renamed?")
        self.module = module
        self.operator = operator


@cache
def _lines(module: str) -> tuple[str, ...]:
    return tuple((find_spec_directory() / f"{module}.tla").read_text(encoding="utf-8").splitlines())


def operator_line(module: str, operator: str) -> int:
    """The line on which a module defines an operator, counted from 1.

    Raises:
        UnknownOperator: it does not.
    """
    definition = re.compile(rf"{re.escape(operator)}(\([^)]*\))?\s*==")
    for number, line in enumerate(_lines(module), start=1):
        if definition.match(line):
            return number
    raise UnknownOperator(module, operator)


def reference(module: str, operator: str) -> str:
    """File and line, as editors take them."""
    return f"{module}.tla:{operator_line(module, operator)}"
