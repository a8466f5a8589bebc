"""Values of TLA+ are read as TLC prints them, and written so that equal values have equal texts."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow_model.kernel.queue import Fifo
from permitflow_model.permit_channel import Message
from permitflow_model.tla_values import (
    Function,
    ModelValue,
    Record,
    TlaSyntaxError,
    TlaValue,
    camel_case,
    format_state,
    format_value,
    parse_state,
    parse_value,
    state_to_tla,
    to_tla,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-12", -12),
        ("TRUE", True),
        ('"a chunk"', "a chunk"),
        (r'"say \"no\" \\ yes"', r'say "no" \ yes'),
        ("a1", ModelValue("a1")),
        ("<<>>", ()),
        ("{}", frozenset()),
        ("{3, 1}", frozenset({1, 3})),
        ("<< 1,\n   << >> >>", (1, ())),
        ("[b |-> 1, a |-> <<2>>]", Record((("a", (2,)), ("b", 1)))),
        ('(1 :> "x" @@ 3 :> FALSE)', Function(((1, "x"), (3, False)))),
    ],
)
def test_values_that_tlc_prints_are_read(text: str, value: TlaValue) -> None:
    assert parse_value(text) == value
    assert type(parse_value(text)) is type(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a value at offset 0 of ''"),
        ("<<1", "expected ',' at offset 3"),
        ("1 2", "expected the end at offset 2"),
        ("[a 1]", r"expected '\|->' at offset 3"),
        ("[1 |-> 2]", "expected a field name at offset 1"),
        ("(1 :> 2", "expected '@@' at offset 7"),
        ('"open', "expected a value at offset 0"),
        ("{1; 2}", "expected ',' at offset 2"),
    ],
)
def test_a_text_that_is_no_value_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(TlaSyntaxError, match=message):
        parse_value(text)


NAMES = st.from_regex(r"[a-z][A-Za-z]{0,4}", fullmatch=True)
VALUES: st.SearchStrategy[TlaValue] = st.recursive(
    st.booleans()
    | st.integers()
    | st.text(alphabet=st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=5)
    | NAMES.map(ModelValue),
    lambda inner: (
        st.lists(inner, max_size=3).map(tuple)
        | st.frozensets(inner, max_size=3)
        | st.dictionaries(NAMES, inner, min_size=1, max_size=3).map(Record.of)
        | st.dictionaries(inner, inner, min_size=1, max_size=3).map(lambda pairs: Function.of(pairs.items()))
    ),
    max_leaves=8,
)


@given(VALUES)
def test_a_written_value_is_read_back(value: TlaValue) -> None:
    text = format_value(value)
    assert parse_value(text) == value
    assert format_value(parse_value(text)) == text


def test_equal_values_have_one_text_and_others_have_not() -> None:
    assert format_value(parse_value("[b |-> {2, 1}, a |-> 0]")) == format_value(parse_value("[a |-> 0, b |-> {1, 2}]"))
    assert format_value(True) != format_value(1)
    assert format_value(()) != format_value(frozenset())


STATE = """
/\\ wire = << [kind |-> "chunk", id |-> 0, rows |-> 3, cost |-> 2],
   [kind |-> "barrier", id |-> 1, rows |-> 0, cost |-> 1] >>
/\\ barrierWaiting = FALSE
/\\ unreturned = 2
"""


def test_a_state_is_read_variable_by_variable() -> None:
    state = parse_state(STATE)
    assert list(state) == ["wire", "barrierWaiting", "unreturned"]
    assert parse_state("unreturned = 2") == {"unreturned": 2}
    wire = state["wire"]
    assert isinstance(wire, tuple)
    assert isinstance(wire[1], Record)
    assert wire[1]["kind"] == "barrier"


@pytest.mark.parametrize("text", ["", "no state", "/\\ a = ", "1 = 2"])
def test_a_text_that_is_no_state_is_refused(text: str) -> None:
    with pytest.raises(TlaSyntaxError):
        parse_state(text)


class Small(NamedTuple):
    """A state of some model."""

    wire: Fifo[Message]
    barrier_waiting: bool
    unreturned: int


def test_a_state_of_the_model_is_the_state_that_tlc_prints() -> None:
    state = Small(Fifo([Message("chunk", 0, 3, 2), Message("barrier", 1, 0, 1)]), False, 2)
    assert state_to_tla(state) == parse_state(STATE)
    assert format_state(state_to_tla(state)) == format_state(parse_state(STATE))


def test_names_follow_the_specification() -> None:
    assert camel_case("barrier_waiting") == "barrierWaiting"
    assert camel_case("wire") == "wire"


def test_values_without_a_counterpart_in_tla_are_refused() -> None:
    with pytest.raises(TypeError, match="float has no counterpart in TLA"):
        to_tla((1, 0.5))
    with pytest.raises(TypeError, match="a state of a model is a named tuple, not dict"):
        state_to_tla({})
