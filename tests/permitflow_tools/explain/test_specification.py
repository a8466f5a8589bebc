"""Pages quote the specification as it stands in the file; the model itself names a guard that is false."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow_model.permit_channel import SYSTEM, Parameters, State
from permitflow_model.tla_values import camel_case
from permitflow_tools.explain.looks.permit_channel.look import LOOK
from permitflow_tools.explain.specification import Specification
from tests.permitflow_tools.explain.runs import guards_of, states_of, walked


@pytest.fixture
def specification() -> Specification:
    return Specification(SYSTEM.module)


@pytest.fixture
def lines(repository: Path) -> list[str]:
    return (repository / "spec/permit_channel/PermitChannel.tla").read_text().splitlines()


def test_every_action_is_quoted_word_for_word(specification: Specification, lines: list[str]) -> None:
    for action in SYSTEM.actions:
        passage = specification.operators()[action.name]
        assert lines[passage.line - 1].startswith(action.name)
        assert passage.place == f"spec/permit_channel/PermitChannel.tla:{passage.line}"
        text = passage.text.splitlines()
        assert text == lines[passage.first_line - 1 : passage.first_line - 1 + len(text)]
        assert text[0].startswith(r"\*")
        assert "UNCHANGED" in text[-1]
        assert lines[passage.first_line - 1 + len(text)] == ""


def test_every_constant_and_variable_has_a_remark(specification: Specification) -> None:
    remarks = specification.remarks()
    variables = {camel_case(name) for name in State._fields}
    constants = {camel_case(name) for name in Parameters.__dataclass_fields__}
    assert {name[0].upper() + name[1:] for name in constants} | variables <= set(remarks)
    assert remarks["PermitBatch"] == "the receiver returns row permits once it holds this many"
    assert remarks["unreturned"] == "row permits of consumed chunks, not yet returned"


PUBLISHED = Parameters(row_permits=8, permit_batch=3, max_chunk_cost=7, sizes=(2, 7))
EVERYTHING = Parameters(
    row_permits=4,
    permit_batch=2,
    max_chunk_cost=3,
    sizes=(1, 4),
    barrier_permits=1,
    watermarks=True,
    withdrawals=True,
    flush_idle=True,
)


@given(choices=st.lists(st.integers(0, 50), max_size=40), is_published=st.booleans())
def test_a_guard_is_false_exactly_where_the_action_is_not_possible(choices: list[int], is_published: bool) -> None:
    parameters = PUBLISHED if is_published else EVERYTHING
    for state in states_of(walked(LOOK, parameters, choices)):
        for action in SYSTEM.actions:
            arguments = next(iter(action.arguments(parameters)))
            guard = LOOK.false_guard(action.name, state, parameters, *arguments)
            assert (guard is None) == SYSTEM.is_enabled(action.name, state, parameters, *arguments)
            assert guard is None or guard.expression in set(guards_of(action.perform))
