"""Pages quote the specification as it stands in the file."""

from pathlib import Path

import pytest

from permitflow.pictures.specification import ACTORS, Specification, camel_case
from permitflow_model.permit_channel import SYSTEM, Parameters, State


@pytest.fixture
def specification() -> Specification:
    return Specification(SYSTEM.module)


@pytest.fixture
def lines(repository: Path) -> list[str]:
    return (repository / "spec" / f"{SYSTEM.module}.tla").read_text().splitlines()


def test_every_action_is_quoted_word_for_word(specification: Specification, lines: list[str]) -> None:
    for action in SYSTEM.actions:
        passage = specification.operators()[action.name]
        assert lines[passage.line - 1].startswith(action.name)
        assert passage.place == f"spec/PermitChannel.tla:{passage.line}"
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
    assert remarks["batch".capitalize()] == "the receiver returns row permits once it holds this many"
    assert remarks["unreturned"] == "row permits of consumed chunks, not yet returned"


def test_every_action_has_an_actor() -> None:
    assert set(ACTORS) == {action.name for action in SYSTEM.actions}
    for action in SYSTEM.actions:
        assert (ACTORS[action.name] == "producer") == action.is_environment
