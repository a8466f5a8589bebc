"""``permitflow prove`` reports what the prover says, and notices a theorem that does not come out as stated."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import permitflow_proofs
from permitflow_proofs import catalogue

Command = Callable[..., tuple[int, str, str]]
Report = Callable[..., tuple[int, dict[str, Any]]]


def test_a_theorem_is_proved_with_its_twins(report: Report) -> None:
    code, document = report("prove", "--theorem", "flush-idle")
    assert code == 0
    assert document["holds"] is True
    (theorem,) = document["theorems"]
    assert (theorem["id"], theorem["outcome"], theorem["problems"]) == ("flush-idle", "proved", [])
    assert theorem["twins_refuted"] == theorem["obligations"] > 0
    assert theorem["specification"].startswith("PermitChannel.tla:")


def test_a_false_statement_of_others_is_refuted_by_a_run(command: Command) -> None:
    code, stdout, _ = command("prove", "--theorem", "2014-stored")
    assert code == 0
    assert "2014-stored  refuted" in stdout
    assert "a shortest run to a state in which it is false" in stdout
    assert "OfferChunk" in stdout
    assert "1 of 1 theorems as stated" in stdout


@pytest.fixture
def seeded(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Change one theorem of the catalogue."""

    def seed(name: str, **changes: object) -> None:
        theorems = tuple(replace(one, **changes) if one.id == name else one for one in catalogue())  # type: ignore[arg-type]  # any field
        monkeypatch.setattr(permitflow_proofs, "catalogue", lambda: theorems)

    return seed


def test_a_theorem_that_comes_out_otherwise_fails(command: Command, seeded: Callable[..., None]) -> None:
    seeded("2014-right", expected="refuted")
    code, stdout, _ = command("prove", "--theorem", "2014-right")
    assert code == 1
    assert "PROVED, EXPECTED refuted" in stdout
    assert "0 of 1 theorems as stated" in stdout


def test_a_twin_that_survives_fails(command: Command, seeded: Callable[..., None]) -> None:
    (theorem,) = [one for one in catalogue() if one.id == "2014-right"]
    (obligation,) = theorem.obligations
    seeded("2014-right", obligations=(replace(obligation, twin=obligation.claim),))  # type: ignore[type-var, attr-defined]  # a symbolic one
    code, stdout, _ = command("prove", "--theorem", "2014-right")
    assert code == 1
    assert "its twin did not fail" in stdout


def test_an_unknown_theorem_is_unusable(command: Command) -> None:
    code, stdout, stderr = command("prove", "--theorem", "treshold")
    assert (code, stdout) == (2, "")
    assert "there is no theorem 'treshold'; did you mean threshold" in stderr
