"""The running code refines its models, and a mistake that is made in the code alone is refuted with a state."""

import sys
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from permitflow_model.input_gate import borrowed_by, is_over
from permitflow_model.input_gate_alignment import freed, is_awaited_no_more, is_open
from permitflow_model.input_gate_credit import opened
from permitflow_model.kernel.family import Members
from permitflow_proofs.code.batches import require_statement
from permitflow_proofs.code.catalogue import catalogue
from permitflow_proofs.code.input_gate.counts import Inputs, any_others
from permitflow_proofs.kernel.obligation import SymbolicObligation, decide
from permitflow_proofs.kernel.theorem import examine
from tests.support.mutated_code import mistaken_code
from tools import proved_code
from tools.mutants import Mutant, read_mutants

CODE = {theorem.id: theorem for theorem in catalogue()}
OBLIGATIONS = {f"{name}: {each.name}": each for name, theorem in CODE.items() for each in theorem.obligations}
QUICK = (
    *("code-byte-window", "code-drop-queue", "code-token-bucket", "code-demand-sender", "code-squelch-sender"),
    *("code-adaptive-gate: it", "code-adaptive-gate: the least", "code-adaptive-window-receiver: the target"),
    *("code-gate-sender: the oldest", "code-gate-receiver: all go on", "code-gate-receiver: an input ends"),
    *("code-gate-loops: an input that was not admitted", "code-gate-withdrawing-sender: a message"),
    "code-gate-withdrawing-sender: the backlog",
)
SAMPLES = {
    "code-permits-sender: the oldest leaves",
    "code-permits-receiver: the next message arrives",
    "code-permits-receiver: what is due returns, and the residue",
    "code-demand-receiver: a message is received",
    "code-squelch-receiver: a signal leaves, if one is due",
    "code-mute-graph: a node hears another one",
    *(name for name in OBLIGATIONS if name.startswith(QUICK)),
}
"""What `make test` proves, mostly by Z3 alone; `make test-all` proves all."""
BOTH = {"code-permits-sender: the oldest leaves", "code-drop-queue: the oldest is served"}

MUTANTS = {mutant.name: mutant for mutant in read_mutants(Path(__file__).parents[1] / "mutants/code_mutants.toml")}
SAMPLE_MUTANTS = {
    *("barrier sent without a permit", "a batch of bytes is due late", "the bucket overflows"),
    "one more is withheld than the surplus",
}


def _rows(names: object, samples: set[str]) -> list[object]:
    return [pytest.param(name, marks=() if name in samples else pytest.mark.long) for name in names]  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", _rows(OBLIGATIONS, SAMPLES))
def test_the_code_does_what_its_model_does(name: str) -> None:
    found = examine(OBLIGATIONS[name], "z3" if name in SAMPLES and name not in BOTH else "both")
    assert found.examination.outcome == "proved", str(found.examination.counterexample)
    assert found.examination.could_fail
    assert all(answer.is_as_expected for answer in found.answers)


def _refuted_by(mutant: Mutant) -> str:
    for each in (OBLIGATIONS[name] for name in OBLIGATIONS if name.startswith(mutant.killed_by)):
        assert isinstance(each, SymbolicObligation)
        found = decide(each.claim)
        if found.outcome == "refuted":
            assert found.counterexample is not None
            assert found.counterexample.values
            return each.name
    return ""


@pytest.mark.parametrize("name", _rows(MUTANTS, SAMPLE_MUTANTS))
def test_a_mistake_in_the_code_is_refuted(name: str) -> None:
    with mistaken_code(MUTANTS[name]):
        assert _refuted_by(MUTANTS[name])


class _AnyNumber:
    def __iter__(self) -> Iterator[int]:
        require_statement(sys._getframe(1))
        return iter((7,))


def test_only_a_for_goes_over_any_number_of_items() -> None:
    assert [each for each in _AnyNumber()] == [7]  # noqa: C416
    with pytest.raises(TypeError, match="something else than a for"):
        enumerate(_AnyNumber())


def _as_its_inputs(numbers: tuple[int, ...]) -> bool:
    """All that is asked of so many inputs of each kind; before a barrier was reached by all, and behind it."""
    over = opened(0)._replace(over=True)
    kinds = [(kind, number) for (kind, _), number in zip(any_others(failed=False), numbers, strict=True)]
    told, real = Inputs((over, over), tuple(kinds)), [kind for kind, number in kinds for _ in range(number)]
    each = Members([over, over, *real])
    pairs = ((told, each), (told.map(freed), each.map(freed)))
    return told.size() == each.size() and all(
        bool(one.every(question)) == other.every(question)
        for one, other in pairs
        for question in (is_open, is_awaited_no_more, is_over)
    )


def test_kinds_of_inputs_answer_as_all_inputs_would() -> None:
    for numbers in product(range(3), repeat=3):
        assert decide(partial(_as_its_inputs, numbers)).outcome == "proved"


def test_what_inputs_of_a_kind_have_borrowed_is_unknown() -> None:
    with pytest.raises(TypeError):
        decide(lambda: Inputs((opened(0),), any_others(failed=False)).sum_of(borrowed_by) == 0)


def test_samples_exist() -> None:
    assert set(OBLIGATIONS) >= SAMPLES
    assert set(MUTANTS) >= SAMPLE_MUTANTS
    assert {name.partition(":")[0] for mutant in MUTANTS.values() for name in mutant.killed_by} == set(CODE)


@pytest.mark.long
def test_the_page_tells_the_lines_that_no_claim_reaches(repository: Path) -> None:
    kept = (repository / "docs/reference/proved-code.md").read_text(encoding="utf-8")
    assert proved_code.page() == kept, "run `python -m tools.proved_code`"
