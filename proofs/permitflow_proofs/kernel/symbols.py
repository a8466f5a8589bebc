"""Make symbols and assume things about them.

The functions are typed as what the symbols stand for, so that models and proofs stay plain typed Python.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar, cast

import z3

from permitflow_proofs.kernel.formulas import conjunction
from permitflow_proofs.kernel.paths import current_explorer
from permitflow_proofs.kernel.terms import Choice, Integer, Truth, integer_term, truth_term

__all__ = [
    "Shape",
    "any_like",
    "assume",
    "assuming",
    "choice",
    "equal",
    "function",
    "implies",
    "integer",
    "merged",
    "natural",
    "operation",
    "predicate",
    "truth",
]

V = TypeVar("V")
C = TypeVar("C", bound=str)


class Shape(ABC):
    """A symbolic value that is no integer, and no tuple of them."""

    @abstractmethod
    def another(self, name: str) -> "Shape":
        """Any value of the same shape."""

    @abstractmethod
    def equation(self, other: object) -> z3.BoolRef:
        """That the two are equal."""


def integer(name: str) -> int:
    """Any integer."""
    name = current_explorer().declare(name, _read_integer)
    return cast(int, Integer(lambda: z3.Int(name)))


def natural(name: str, at_least: int = 0) -> int:
    """Any integer from a lowest one on."""
    number = integer(name)
    assume(number >= at_least)
    return number


def truth(name: str) -> bool:
    """True or false."""
    name = current_explorer().declare(name, _read_truth)
    return cast(bool, Truth(lambda: z3.Bool(name)))


def choice(name: str, options: tuple[C, ...]) -> C:
    """Any of some words."""

    def read(witness: z3.ModelRef, declared: str) -> str:
        return options[_read_integer(witness, declared)]

    name = current_explorer().declare(name, read)
    index = Integer(lambda: z3.Int(name))
    assume(index >= 0)
    assume(index < len(options))
    return cast(C, Choice(lambda: z3.Int(name), options))


def _read_integer(witness: z3.ModelRef, name: str) -> int:
    return int(witness.eval(z3.Int(name), model_completion=True).as_long())


def _read_truth(witness: z3.ModelRef, name: str) -> bool:
    return bool(z3.is_true(witness.eval(z3.Bool(name), model_completion=True)))


def function(name: str) -> Callable[[int], int]:
    """Any function from integers to integers; the same name is the same function."""
    symbol = z3.Function(name, z3.IntSort(), z3.IntSort())
    return lambda argument: cast(int, Integer(lambda: symbol(integer_term(argument))))


def operation(name: str) -> Callable[[int, int], int]:
    """Any function from two integers to integers; the same name is the same function."""
    symbol = z3.Function(name, z3.IntSort(), z3.IntSort(), z3.IntSort())
    return lambda left, right: cast(int, Integer(lambda: symbol(integer_term(left), integer_term(right))))


def predicate(name: str) -> Callable[[int], bool]:
    """Any set of integers; the same name is the same set."""
    symbol = z3.Function(name, z3.IntSort(), z3.BoolSort())
    return lambda argument: cast(bool, Truth(lambda: symbol(integer_term(argument))))


def any_like(pattern: V, name: str) -> V:
    """Any integer, any tuple of integers, or any other value, of the same shape.

    Raises:
        TypeError: the pattern is made of something else.
    """
    if isinstance(pattern, Shape):
        return cast(V, pattern.another(name))
    if isinstance(pattern, int | Integer):
        return cast(V, integer(name))
    if isinstance(pattern, tuple):
        names = getattr(pattern, "_fields", range(len(pattern)))
        parts = [any_like(part, f"{name}.{field}") for part, field in zip(pattern, names, strict=True)]
        make = getattr(type(pattern), "_make", type(pattern))
        return cast(V, make(parts))
    raise TypeError(f"cannot make a symbol like {pattern!r}")


def equal(left: object, right: object) -> bool:
    """Are two integers, two tuples of them, or two values of a shape equal?  Does not fork."""
    return cast(bool, Truth(lambda: _equation(left, right)))


def _equation(left: object, right: object) -> z3.BoolRef:
    if isinstance(left, Shape):
        return left.equation(right)
    if isinstance(left, tuple) and isinstance(right, tuple):
        return conjunction([_equation(a, b) for a, b in zip(left, right, strict=True)])
    return integer_term(left) == integer_term(right)


def implies(premise: bool, conclusion: bool) -> bool:
    """Does the conclusion hold where the premise does?  Does not fork."""
    return cast(bool, Truth(lambda: z3.Implies(truth_term(premise), truth_term(conclusion))))


def merged(condition: Callable[[], bool]) -> bool:
    """A condition as one truth value, without the forks of its evaluation."""
    whole = current_explorer().merge(cast(Callable[[], Truth | bool], condition))
    return cast(bool, Truth(lambda: whole.term))


def assume(holds: bool) -> None:
    """Go on only where this holds."""
    current_explorer().assume(Truth(lambda: truth_term(holds)))


@contextmanager
def assuming(*refusals: type[Exception]) -> Iterator[None]:
    """Evaluate what is about to be assumed, without asking the solver at each fork.

    An exception of the given types means that the assumption is not met.
    """
    with current_explorer().assuming(*refusals):
        yield
