"""Symbols that stand for all values at once, and assumptions about them.

Integers, truth values and choices behave like ``int``, ``bool`` and ``str`` in guards and updates.  A comparison is a
truth value, and Python's question for its truth (``if``, ``and``, ``min``, ``all``) forks the run.  Operations that
cannot be symbolic (hashing, indexing, ``range``) raise ``TypeError``.  The functions that make symbols have the types
of the values that these stand for, so that models and proofs stay plain typed Python.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar, cast

import z3

from permitflow_proofs.kernel.paths import current_explorer
from permitflow_proofs.kernel.terms import (
    array,
    built_number,
    built_truth,
    conjunction,
    disjunction,
    identity_of,
    negation,
)

Make = Callable[[], Any]
"""Builds a Z3 term.  Terms are built late: a path that is walked again needs none of its beginning."""


def integer_term(value: object) -> z3.ArithRef:
    """The Z3 term of an integer, symbolic or not.

    Raises:
        TypeError: it is no integer.
    """
    if isinstance(value, Integer):
        return value.term
    if isinstance(value, int):
        return _constant(int(value))
    raise TypeError(f"expected an integer, not {value!r}")


_constant = cache(z3.IntVal)


def truth_term(value: object) -> z3.BoolRef:
    """The Z3 term of a truth value, symbolic or not.

    Raises:
        TypeError: it is no truth value.
    """
    if isinstance(value, Truth):
        return value.term
    if isinstance(value, bool):
        return z3.BoolVal(value)
    raise TypeError(f"expected a truth value, not {value!r}")


class Opaque:
    """Refuses Python's own questions, which every object answers: is it true, is it equal to another one?

    A model's queue is true where it is not empty; a stand-in for any queue would be true always, without an error.
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # the declared way to say: not hashable

    def __bool__(self) -> bool:
        """Refused.

        Raises:
            TypeError: always.
        """
        raise TypeError(f"a {type(self).__name__} is neither true nor false; ask what is meant, as is_empty() does")

    def __eq__(self, other: object) -> Any:
        """Refused.

        Raises:
            TypeError: always.
        """
        raise TypeError(f"a {type(self).__name__} cannot be compared; compare what is meant, as size() or every(...)")


class _Term(Opaque):
    """A Z3 term that is built when it is asked for, once."""

    __slots__ = ("_make", "_term")

    def __init__(self, make: Make) -> None:
        """``make`` builds the term."""
        self._make = make
        self._term: Any = None

    @property
    def term(self) -> Any:
        """The term for Z3."""
        if self._term is None:
            self._term = self._make()
        return self._term

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.term})"

    def __format__(self, _specification: str) -> str:
        # Errors tell numbers on many paths, and nobody reads them there: no term is built for them.
        return "a symbol"


class Truth(_Term):
    """A condition.  Python's question for its truth forks the run."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return current_explorer().decide(self)

    def __eq__(self, other: object) -> "Truth":  # type: ignore[override]  # a symbolic comparison has no value yet
        return Truth(lambda: built_truth(z3.Z3_mk_eq, self.term, truth_term(other)))

    def __ne__(self, other: object) -> "Truth":  # type: ignore[override]  # see __eq__
        return Truth(lambda: self.term != truth_term(other))

    def __mul__(self, factor: "Integer | int") -> "Integer":
        """The factor where it is true, else 0.  Does not fork."""
        return Integer(lambda: built_number(z3.Z3_mk_ite, self.term, integer_term(factor), integer_term(0)))

    __rmul__ = __mul__


def _arithmetic(make: Callable[..., Any], *, is_reflected: bool = False) -> Callable[["Integer", object], Any]:
    def result(self: "Integer", other: object) -> Any:  # NotImplemented, too
        if not isinstance(other, Integer | int):
            return NotImplemented
        left, right = (other, self) if is_reflected else (self, other)
        return Integer(lambda: _of_any_number(make, integer_term(left), integer_term(right)))

    return result


def _of_any_number(make: Callable[..., Any], *terms: z3.ArithRef) -> z3.ArithRef:
    return built_number(lambda context, *_: make(context, *array(*terms)))


def _comparison(make: Callable[..., Any]) -> Callable[["Integer", object], Any]:
    def result(self: "Integer", other: object) -> Any:  # NotImplemented, too
        if not isinstance(other, Integer | int):
            return NotImplemented
        return Truth(lambda: built_truth(make, self.term, integer_term(other)))

    return result


class Integer(_Term):
    """A mathematical integer."""

    __slots__ = ()

    __add__ = _arithmetic(z3.Z3_mk_add)
    __radd__ = _arithmetic(z3.Z3_mk_add, is_reflected=True)
    __sub__ = _arithmetic(z3.Z3_mk_sub)
    __rsub__ = _arithmetic(z3.Z3_mk_sub, is_reflected=True)
    __mul__ = _arithmetic(z3.Z3_mk_mul)
    __rmul__ = _arithmetic(z3.Z3_mk_mul, is_reflected=True)
    __lt__ = _comparison(z3.Z3_mk_lt)
    __le__ = _comparison(z3.Z3_mk_le)
    __gt__ = _comparison(z3.Z3_mk_gt)
    __ge__ = _comparison(z3.Z3_mk_ge)
    __eq__ = _comparison(z3.Z3_mk_eq)

    def __ne__(self, other: object) -> Any:
        same = self == other
        return same if same is NotImplemented else Truth(lambda: negation(same.term))

    def __neg__(self) -> "Integer":
        return Integer(lambda: built_number(z3.Z3_mk_unary_minus, self.term))

    def __abs__(self) -> "Integer":
        return Integer(lambda: z3.If(self.term < 0, -self.term, self.term))

    def __floordiv__(self, divisor: "Integer | int") -> "Integer":
        # SMT-LIB's division agrees with Python's for positive divisors only.
        _require_positive(divisor)
        return Integer(lambda: self.term / integer_term(divisor))

    def __rfloordiv__(self, dividend: int) -> "Integer":
        return Integer(lambda: integer_term(dividend)) // self

    def __mod__(self, divisor: "Integer | int") -> "Integer":
        _require_positive(divisor)
        return Integer(lambda: _remainder(self.term, integer_term(divisor)))

    def __rmod__(self, dividend: int) -> "Integer":
        return Integer(lambda: integer_term(dividend)) % self

    def __bool__(self) -> bool:
        return bool(self != 0)


def _remainder(dividend: z3.ArithRef, divisor: z3.ArithRef) -> z3.ArithRef:
    """Counting round a ring: two cases that stay linear when the divisor is a symbol."""
    if z3.is_int_value(divisor):
        return dividend % divisor
    once = z3.If(dividend < divisor + divisor, dividend - divisor, dividend % divisor)
    return z3.If(dividend < divisor, z3.If(dividend >= 0, dividend, dividend % divisor), once)


def _require_positive(divisor: "Integer | int") -> None:
    if not divisor > 0:
        raise ArithmeticError(f"division by {divisor!r}, which may not be positive here")


class Choice(_Term):
    """One of several words, compared with ``==``, also by ``match``."""

    __slots__ = ("options",)

    def __init__(self, make: Make, options: tuple[str, ...]) -> None:
        """``make`` builds a term of sort Int that is an index into the options."""
        super().__init__(make)
        self.options = options

    def __eq__(self, other: object) -> Truth:  # type: ignore[override]  # a symbolic comparison has no value yet
        if isinstance(other, Choice) and other.options == self.options:
            return Truth(lambda: self.term == other.term)
        # A word that is no option is a mistake, not just false.
        if not isinstance(other, str) or other not in self.options:
            raise TypeError(f"{other!r} is none of {self.options}")
        index = self.options.index(other)
        return Truth(lambda: built_truth(z3.Z3_mk_eq, self.term, integer_term(index)))

    def __ne__(self, other: object) -> Truth:  # type: ignore[override]  # see __eq__
        same = self == other
        return Truth(lambda: z3.Not(same.term))


V = TypeVar("V")
C = TypeVar("C", bound=str)


class Shape(Opaque, ABC):
    """A symbolic value that is no integer, and no tuple of them."""

    @abstractmethod
    def another(self, name: str) -> "Shape":
        """Any value of the same shape."""

    @abstractmethod
    def equation(self, other: object) -> z3.BoolRef:
        """Say that the two are equal."""


def integer(name: str) -> int:
    """Any integer."""
    explorer = current_explorer()
    name = explorer.declare(name, _read_integer)
    return cast(int, explorer.stand_for(name, Integer(lambda: z3.Int(name))))


def natural(name: str, at_least: int = 0) -> int:
    """Any integer from a lowest one on."""
    number = integer(name)
    assume(number >= at_least)
    return number


def truth(name: str) -> bool:
    """True or false."""
    explorer = current_explorer()
    name = explorer.declare(name, _read_truth)
    return cast(bool, explorer.stand_for(name, Truth(lambda: z3.Bool(name))))


def choice(name: str, options: tuple[C, ...]) -> C:
    """Any of some words."""

    def read(witness: z3.ModelRef, declared: str) -> str:
        index = _read_integer(witness, declared)
        # Declared under a condition that does not hold here, it is bounded by nothing, and means nothing.
        return options[index] if 0 <= index < len(options) else "any"

    explorer = current_explorer()
    name = explorer.declare(name, read)
    word = explorer.stand_for(name, Choice(lambda: z3.Int(name), options))
    if isinstance(word, Choice):
        index = Integer(lambda: z3.Int(name))
        limit(index >= 0)
        limit(index < len(options))
    return cast(C, word)


def _read_integer(witness: z3.ModelRef, name: str) -> int:
    return int(witness.eval(z3.Int(name), model_completion=True).as_long())


def _read_truth(witness: z3.ModelRef, name: str) -> bool:
    return bool(z3.is_true(witness.eval(z3.Bool(name), model_completion=True)))


def function(name: str) -> Callable[[int], int]:
    """Any function from integers to integers; the same name is the same function."""
    symbol = z3.Function(name, z3.IntSort(), z3.IntSort())
    return lambda argument: cast(int, Integer(lambda: symbol(integer_term(argument))))


def word_by_name(name: str, options: tuple[str, ...]) -> Callable[[int], Choice]:
    """Any function from integers to these words; the same name is the same function."""
    symbol = z3.Function(name, z3.IntSort(), z3.IntSort())

    def of(argument: int) -> Choice:
        index = Integer(lambda: symbol(integer_term(argument)))
        limit(all_of((index >= 0, index < len(options))))
        return Choice(lambda: index.term, options)

    return of


def operation(name: str) -> Callable[[int, int], int]:
    """Any function from two integers to integers; the same name is the same function."""
    symbol = z3.Function(name, z3.IntSort(), z3.IntSort(), z3.IntSort())
    return lambda left, right: cast(int, Integer(lambda: symbol(integer_term(left), integer_term(right))))


def relation(name: str) -> Callable[[int, int], bool]:
    """Any set of pairs of integers; the same name is the same set."""
    symbol = z3.Function(name, z3.IntSort(), z3.IntSort(), z3.BoolSort())
    return lambda left, right: cast(bool, Truth(lambda: symbol(integer_term(left), integer_term(right))))


def relation_of_three(name: str) -> Callable[[int, int, int], bool]:
    """Any set of triples of integers; the same name is the same set."""
    symbol = z3.Function(name, z3.IntSort(), z3.IntSort(), z3.IntSort(), z3.BoolSort())
    return lambda *triple: cast(bool, Truth(lambda: symbol(*map(integer_term, triple))))


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


def is_same(left: int, right: int) -> bool:
    """Are two integers the same term?  If not, they may still be equal; does not fork."""
    return identity_of(integer_term(left)) == identity_of(integer_term(right))


def _equation(left: object, right: object) -> z3.BoolRef:
    if isinstance(left, Shape):
        return left.equation(right)
    if isinstance(left, tuple) and isinstance(right, tuple):
        return conjunction([_equation(a, b) for a, b in zip(left, right, strict=True)])
    return built_truth(z3.Z3_mk_eq, integer_term(left), integer_term(right))


def implies(premise: bool, conclusion: bool) -> bool:
    """Does the conclusion hold where the premise does?  Does not fork."""
    return cast(bool, Truth(lambda: built_truth(z3.Z3_mk_implies, truth_term(premise), truth_term(conclusion))))


def negated(condition: bool) -> bool:
    """Does it not hold?  Does not fork."""
    return cast(bool, Truth(lambda: negation(truth_term(condition))))


def larger_of(one: int, other: int) -> int:
    """The larger of two integers.  Does not fork."""
    return one + (other > one) * (other - one)


def smaller_of(one: int, other: int) -> int:
    """The smaller of two integers.  Does not fork."""
    return one + (other < one) * (other - one)


def all_of(conditions: Iterable[bool]) -> bool:
    """Do all of them hold?  Does not fork."""
    parts = list(conditions)
    return cast(bool, Truth(lambda: conjunction([truth_term(part) for part in parts])))


def any_of(conditions: Iterable[bool]) -> bool:
    """Does one of them hold?  Does not fork."""
    parts = list(conditions)
    return cast(bool, Truth(lambda: disjunction([truth_term(part) for part in parts])))


def merged(condition: Callable[[], bool], where: bool | None = None) -> bool:
    """A condition as one truth value, without the forks of its evaluation.

    ``where``: nobody asks elsewhere, so that its evaluation may fail there.
    """
    given = None if where is None else Truth(lambda: truth_term(where))
    whole = current_explorer().merge(cast(Callable[[], Truth | bool], condition), given)
    return cast(bool, Truth(lambda: whole.term))


def limit(holds: bool) -> None:
    """Go on only where this holds, which is no premise of the claim: every value that the symbol stands for is such.

    What is known of families and queues is of this kind.  A premise is dearer: the given is read from its term, which
    must be built again on each path.
    """
    current_explorer().limit(Truth(lambda: truth_term(holds)))


def assume(holds: bool) -> None:
    """Go on only where this holds; the claim's given tells it, if it is about the parameters.

    Raises:
        TypeError: it is no symbolic condition any more, because it has forked, and the claim is about parameters; so
            the given could not tell it.
    """
    explorer = current_explorer()
    if isinstance(holds, bool) and explorer.is_checking and explorer.has_parameters:
        raise TypeError("a premise has forked; assume it merged, a negation as negated(condition)")
    explorer.assume(Truth(lambda: truth_term(holds)))


def suppose(condition: Callable[[], bool]) -> None:
    """Go on only where this holds, without the forks of its evaluation."""
    current_explorer().suppose(cast(Callable[[], Truth | bool], condition))


@contextmanager
def assuming(*refusals: type[Exception]) -> Iterator[None]:
    """Evaluate an assumption without asking the solver at each fork.

    An exception of the given types means that the assumption is not met.
    """
    with current_explorer().assuming(*refusals):
        yield


def _every(_rows: int) -> bool:
    return True


class Sizes:
    """Chunk sizes from 0 to a largest one, all of them or some.

    A statement that is safe with all of them is safe with any set of sizes with the same largest one.
    """

    def __init__(self, largest: int, is_offered: Callable[[int], bool] = _every) -> None:
        """Offer the sizes up to ``largest`` for which ``is_offered``."""
        self.largest = largest
        self._is_offered = is_offered
        self.is_any = is_offered is not _every
        """Are they any sizes, or all of them?"""

    def __str__(self) -> str:
        return "0 .. largest"

    def __contains__(self, rows: int) -> bool:
        return 0 <= rows <= self.largest and self._is_offered(rows)

    def __iter__(self) -> Iterator[int]:
        # The model lists sizes to find the largest, and to see that none is negative.
        yield self.largest
