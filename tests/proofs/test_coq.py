"""The proofs in proofs/coq, checked by coqc: complete, and without axioms."""

import pytest

from tools.coq import FOLDER, HINT, coqc, ordered, read_all, texts_in

PROVED = "Theorem sum : 1 + 1 = 2.\nProof. reflexivity. Qed.\nPrint Assumptions sum.\n"


@pytest.fixture(scope="module")
def checker() -> str:
    found = coqc()
    if found is None:
        pytest.skip(HINT)
    return found


def complaint(text: str, checker: str) -> str:
    (reading,) = read_all({"Sample": text}, checker)
    return reading.complaint


@pytest.mark.long
def test_all_files_are_proved_without_axioms(checker: str) -> None:
    readings = list(read_all(texts_in(FOLDER), checker))
    assert readings
    assert not [reading for reading in readings if reading.complaint or not reading.theorems]


def test_a_proved_theorem_is_accepted(checker: str) -> None:
    assert not complaint(PROVED, checker)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (PROVED.replace("= 2", "= 3"), "Unable to unify"),
        (PROVED.replace("reflexivity. Qed", "Admitted"), "rests on more than Coq"),
        (PROVED.replace("Print Assumptions sum.\n", ""), "without Print Assumptions: sum"),
    ],
)
def test_what_is_not_proved_is_told(changed: str, expected: str, checker: str) -> None:
    assert expected in complaint(changed, checker)


def test_a_file_comes_behind_those_that_it_needs() -> None:
    assert ordered({"A": "From Permitflow Require Import B.\n", "B": ""}) == ["B", "A"]


def test_each_reading_has_a_twin() -> None:
    names = set(texts_in(FOLDER))
    assert {f"{name}Twins" for name in names if not name.endswith("Twins")} <= names
