"""Symbols behave like the values they stand for, and refuse what cannot be symbolic."""

import operator
from collections.abc import Callable
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow_proofs.kernel.obligation import decide
from permitflow_proofs.kernel.symbols import (
    Integer,
    any_like,
    assume,
    choice,
    equal,
    implies,
    integer,
    natural,
    truth,
)


def distance(left: int, right: int) -> int:
    """How far apart two numbers are."""
    return abs(left - right)


OPERATIONS: list[Callable[[Any, Any], Any]] = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
    operator.eq,
    operator.ne,
    operator.floordiv,
    operator.mod,
    min,
    max,
    distance,
]


@pytest.mark.parametrize("operation", OPERATIONS, ids=[operation.__name__ for operation in OPERATIONS])
@given(left=st.integers(-9, 9), right=st.integers(-9, 9))
def test_operations_agree_with_those_of_int(operation: Callable[[Any, Any], Any], left: int, right: int) -> None:
    if operation in (operator.floordiv, operator.mod) and right < 1:
        right = 1 - right
    expected = operation(left, right)

    def claim() -> bool:
        x, y = integer("x"), integer("y")
        assume(x == left)
        assume(y == right)
        results = (operation(x, y), operation(x, right), operation(left, y))
        return all(result == expected for result in results)

    found = decide(claim)
    assert (found.outcome, found.reached > 0) == ("proved", True)


@pytest.mark.parametrize("operation", [operator.floordiv, operator.mod])
def test_division_by_what_may_not_be_positive_is_refused(operation: Callable[[int, int], int]) -> None:
    with pytest.raises(ArithmeticError, match="may not be positive"):
        decide(lambda: operation(7, natural("x")) >= 0)


@pytest.mark.parametrize(
    "use",
    [
        lambda x: {x: 1},
        lambda x: [1, 2][x],
        lambda x: range(x),
        lambda x: "a" * x,
        lambda x: x + 0.5,
        lambda x: x < "a",
    ],
    ids=["hash", "index", "range", "repetition", "fraction", "text"],
)
def test_uses_that_cannot_be_symbolic_are_type_errors(use: Callable[[int], object]) -> None:
    with pytest.raises(TypeError):
        decide(lambda: use(integer("x")) is not None)


def test_the_truth_of_a_number_is_that_it_is_not_zero() -> None:
    assert decide(lambda: bool(integer("x")) == (integer("x") != 0)).outcome == "refuted"

    def claim() -> bool:
        x = integer("x")
        return bool(x) == bool(x != 0)

    assert decide(claim).outcome == "proved"


Colour = Literal["red", "green", "blue"]
COLOURS: tuple[Colour, ...] = ("red", "green", "blue")


def test_match_covers_every_word_of_a_choice() -> None:
    def wavelength(colour: Colour) -> int:
        match colour:
            case "red":
                return 700
            case "green":
                return 550
            case "blue":
                return 450

    def claim() -> bool:
        colour = choice("colour", COLOURS)
        return (wavelength(colour) == 450) == (colour == "blue")

    found = decide(claim)
    assert (found.outcome, found.reached) == ("proved", 3)


def test_a_word_that_is_no_option_is_an_error_and_not_just_false() -> None:
    with pytest.raises(TypeError, match=r"'rde' is none of \('red', 'green', 'blue'\)"):
        decide(lambda: choice("colour", COLOURS) == "".join("rde"))


def test_a_counterexample_names_the_word() -> None:
    found = decide(lambda: choice("colour", COLOURS) != "green")
    assert found.counterexample is not None
    assert found.counterexample.values["colour"] == "green"


def test_implication_and_equality_do_not_fork() -> None:
    def claim() -> bool:
        x = any_like((1, 2), "pair")
        assume(implies(truth("switch"), equal(x, (3, 4))))
        assume(truth("other"))
        return implies(equal(x, (3, 5)), equal(x[1], 5))

    found = decide(claim)
    assert (found.outcome, found.reached) == ("proved", 1)


def test_only_tuples_of_integers_have_symbols_like_them() -> None:
    with pytest.raises(TypeError, match="cannot make a symbol like 'text'"):
        decide(lambda: any_like("text", "x") == "text")


def test_a_truth_value_times_a_number_does_not_fork() -> None:
    def claim(number: int) -> bool:
        holds = truth("holds")
        product = holds * number
        assert isinstance(product, Integer)
        return equal(product + number * holds, 2 * number) if holds else equal(product, 0)

    found = decide(lambda: claim(3))
    assert (found.outcome, found.reached) == ("proved", 2)
