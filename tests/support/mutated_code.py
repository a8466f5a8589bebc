"""Running code with a mistake in it: the functions of its module get the bodies that the changed text has."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import PurePosixPath
from types import CodeType, FunctionType
from typing import Any

from tools.mutants import Mutant, mutated


@contextmanager
def mistaken_code(mutant: Mutant) -> Iterator[None]:
    """Run the mutant's bodies of all functions and methods of its file."""
    name = ".".join(PurePosixPath(mutant.file).with_suffix("").parts[1:])
    changed = {code.co_qualname: code for code in _codes(compile(mutated(mutant), mutant.file, "exec"))}
    before = [(own, own.__code__) for own in _functions(vars(sys.modules[name]), name)]
    for own, code in before:
        own.__code__ = changed.get(code.co_qualname, code)
    try:
        yield
    finally:
        for own, code in before:
            own.__code__ = code


def _codes(code: CodeType) -> Iterator[CodeType]:
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield part
            yield from _codes(part)


def _functions(members: Mapping[str, Any], module: str) -> Iterator[FunctionType]:
    for value in dict(members).values():
        function = value.fget if isinstance(value, property) else value
        if getattr(function, "__module__", None) != module:
            continue
        if isinstance(function, FunctionType):
            yield function
        elif isinstance(function, type):
            yield from _functions(vars(function), module)
