"""Symbols for parameters and states come from their annotations."""

from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import pytest

from permitflow_model.kernel.queue import Queue
from permitflow_model.stop_and_wait import Parameters
from permitflow_proofs.kernel.arbitrary import any_parameters_of, arbitrary, assume_all
from permitflow_proofs.kernel.obligation import decide


class Pair(NamedTuple):
    left: int
    right: bool


class Everything(NamedTuple):
    number: int
    is_so: bool
    word: Literal["one", "other"]
    pair: Pair
    queue: Queue[Pair]


class Unknown(NamedTuple):
    ratio: float


def holds(claim: Callable[[], bool]) -> bool:
    return decide(claim).outcome == "proved"


@pytest.mark.parametrize(
    ("kind", "may_be"),
    [
        ("number", lambda state: state.number == -7),
        ("truth", lambda state: state.is_so),
        ("word", lambda state: state.word == "other"),
        ("tuple", lambda state: state.pair.left == 3 and not state.pair.right),
        ("queue", lambda state: not state.queue.is_empty() and state.queue.head().left == 5),
    ],
)
def test_a_field_may_have_any_value_of_its_type(kind: str, may_be: Callable[[Everything], bool]) -> None:
    assert not holds(lambda: may_be(arbitrary(Everything))), kind
    assert not holds(lambda: not may_be(arbitrary(Everything)))


def test_fields_are_symbols_of_their_own() -> None:
    assert not holds(lambda: arbitrary(Pair, "a.").left == arbitrary(Pair, "b.").left)


def test_parameters_are_those_that_the_model_accepts() -> None:
    assert holds(lambda: any_parameters_of(Parameters).waiters >= 1)
    assert not holds(lambda: any_parameters_of(Parameters).waiters >= 2)
    assert holds(lambda: any_parameters_of(Parameters, tags=1).tags == 1)


def test_assumptions_about_a_state_hold() -> None:
    assert holds(lambda: assume_all([lambda pair, least: pair.left > least], arbitrary(Pair), 3).left >= 4)


def test_a_field_without_symbols_is_named_unless_it_has_a_value() -> None:
    with pytest.raises(TypeError, match=r"ratio: there are no symbols for values of the type <class 'float'>"):
        arbitrary(Unknown)
    assert arbitrary(Unknown, special={"ratio": 0.5}) == Unknown(0.5)


def test_a_field_without_a_type_does_not_keep_its_default() -> None:
    with pytest.raises(TypeError, match="sent: this field has no type"):
        arbitrary(namedtuple("State", "sent", defaults=[0]))


@dataclass(frozen=True, kw_only=True)
class Defaulted:
    size: int
    most: int = -1

    def __post_init__(self) -> None:
        if self.most == -1:
            object.__setattr__(self, "most", self.size)


def test_parameters_that_are_no_dataclass_are_refused() -> None:
    with pytest.raises(TypeError, match="Pair is no dataclass: let one refuse, by ValueError, the parameters"):
        decide(lambda: bool(any_parameters_of(Pair).right))


@dataclass(frozen=True, slots=True)
class Slotted:
    size: int


def test_parameters_may_have_slots() -> None:
    assert holds(lambda: any_parameters_of(Slotted, size=2).size == 2)
    assert not holds(lambda: any_parameters_of(Slotted).size == 2)


def test_a_value_that_the_model_takes_for_another_one_is_refused() -> None:
    with pytest.raises(TypeError, match="Defaulted takes most = -1 for another value"):
        decide(lambda: any_parameters_of(Defaulted, most=-1).size >= 0)
