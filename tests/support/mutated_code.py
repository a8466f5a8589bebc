"""Running code with a mistake in it: the functions of its module get the bodies that the changed text has."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from types import FunctionType, ModuleType
from typing import Any

from tools.mutants import Mutant, mutated


@contextmanager
def mistaken_code(mutant: Mutant) -> Iterator[None]:
    """Run the mutant's bodies of all functions and methods of its file."""
    name = ".".join(PurePosixPath(mutant.file).with_suffix("").parts[1:])
    module = sys.modules[name]
    changed = ModuleType(name)
    exec(compile(mutated(mutant), mutant.file, "exec"), vars(changed))
    before = []
    for own, other in _pairs(vars(module), vars(changed), name):
        before.append((own, own.__code__))
        own.__code__ = other.__code__
    try:
        yield
    finally:
        for own, code in before:
            own.__code__ = code


def _pairs(own: Any, other: Any, module: str) -> Iterator[tuple[FunctionType, FunctionType]]:
    for name, value in dict(own).items():
        yield from _functions(value, other.get(name), module)


def _functions(own: Any, other: Any, module: str) -> Iterator[tuple[FunctionType, FunctionType]]:
    if isinstance(own, property):
        yield from _functions(own.fget, other.fget, module)
    elif isinstance(own, FunctionType) and own.__module__ == module and own.__code__.co_freevars == ():
        if own.__code__ != other.__code__:
            yield own, other
    elif isinstance(own, type) and own.__module__ == module:
        yield from _pairs(vars(own), vars(other), module)
