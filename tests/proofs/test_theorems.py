"""Every theorem comes out as the catalogue says, none says nothing, and every twin fails."""

import re
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import ClassVar, Protocol

import pytest

from permitflow_model.manifest import UnknownOperator, module_paths, reference
from permitflow_model.permit_channel import SYSTEM as PERMITS
from permitflow_model.registry import Registered, systems
from permitflow_proofs import TheoremVerdict, catalogue, prove
from permitflow_proofs.document import Result, result_of, results_in, theorems_document
from permitflow_proofs.kernel.chapter import Chapter
from permitflow_proofs.kernel.theorem import Solvers

NAMES = [theorem.id for theorem in catalogue()]
PROVED = [registered for registered in systems().values() if registered.theorems]
REFUTED_OF_2014 = {"2014-sign", "2014-stored"}
REFUTED = REFUTED_OF_2014 | {
    *("drop-wrong-end", "squelch-one-way", "token-bucket-unsafe"),
    *("byte-window-alone-at-its-word", "byte-window-a-chunk-alone", "adaptive-window-within-target"),
}


class VerdictOn(Protocol):
    """Gives the verdict on the theorem of this name."""

    def __call__(self, name: str, solvers: Solvers = "z3") -> TheoremVerdict: ...


@pytest.fixture(scope="class")
def verdict_on() -> VerdictOn:
    """The verdict on the theorem of this name, by these solvers or by both."""
    theorems = {theorem.id: theorem for theorem in catalogue()}
    known: dict[str, TheoremVerdict] = {}

    def verdict(name: str, solvers: Solvers = "z3") -> TheoremVerdict:
        if name not in known or known[name].solvers not in (solvers, "both"):
            known[name] = prove(theorems[name], solvers)
        return known[name]

    return verdict


SAMPLES = {"conservation", "squelch-type-ok", "2014-sign", "exact-response"}
"""The theorems that `make test` proves by both solvers."""


SLOW = {
    *("adaptive-gate-live-floating", "adaptive-gate-refines-gate", "adaptive-gate-shrinks-first", "all-delivered"),
    *("bounded-queue", "bounded-response", "bounded-response-flush", "fan-in-closed", "gate-comes-to-rest"),
    *("gate-in-epoch", "gate-loss-frees", "hash-dispatch-end-behind-all", "hash-dispatch-in-order"),
    *("hash-dispatch-lost", "hash-dispatch-marks-conserved", "hash-dispatch-rank", "hash-dispatch-rows-conserved"),
    *("lossy-refines-queue", "mute-links-live", "mute-no-early-unmute", "mute-no-lost-unmute", "resume-ends"),
    *("resume-goes-on", "resume-in-order", "resume-refines-queue", "sets-of-sizes", "staging-given-back"),
    *("staging-in-order", "staging-kept", "staging-of-one-run", "staging-once", "staging-stays"),
    *("stream-life-ends", "stream-life-over", "withdrawing-gate-in-epoch", "withdrawing-gate-safe"),
}
"""Promises that take Z3 more than half a second of processor, with what they alone begin with; `make test-all` asks."""


LEMMAS = {each.id for each in catalogue() if not each.is_promise}
"""In `make test` the explorer and TLC check the same of the models; two solvers prove a sample."""


@pytest.fixture(scope="session")
def kept(repository: Path) -> dict[str, Result]:
    """What the document has of each theorem."""
    return results_in((repository / "THEOREMS.md").read_text(encoding="utf-8"))


class _Theorems:
    """Those of one protocol: a class, and so a task of its own for a worker, who explores what they begin with once."""

    names: ClassVar[list[str]]

    # First, so that no theorem is proved twice.
    def test_both_solvers_find_it_so(self, name: str, verdict_on: VerdictOn, kept: dict[str, Result]) -> None:
        verdict = verdict_on(name, "both")
        assert verdict.problems() == []
        assert result_of(verdict) == kept[name], "run `nox -s theorems`"
        assert [opinion.solver for opinion in verdict.opinions] in (["Z3", "cvc5"], ["explorer"])

    def test_it_comes_out_as_expected_and_could_have_failed(
        self, name: str, verdict_on: VerdictOn, kept: dict[str, Result]
    ) -> None:
        verdict = verdict_on(name)
        assert verdict.problems() == []
        assert verdict.is_as_expected
        assert verdict.outcome == ("refuted" if name in REFUTED else "proved")
        assert verdict.obligations == verdict.twins_refuted >= 1
        assert verdict.theorem.statement.startswith("False") == (verdict.outcome == "refuted")
        assert verdict.given == kept[name].given, "run `nox -s theorems`"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The theorems of the class, long ones marked."""
    if metafunc.cls is None or not issubclass(metafunc.cls, _Theorems):
        return
    quick = SAMPLES if "both" in metafunc.function.__name__ else {*NAMES} - SLOW - LEMMAS
    rows = [pytest.param(name, marks=() if name in quick else pytest.mark.long) for name in metafunc.cls.names]
    metafunc.parametrize("name", rows)


for registered in PROVED:
    name = f"Test{registered.system.module}"
    globals()[name] = type(name, (_Theorems,), {"names": [theorem.id for theorem in registered.load_theorems()]})


def test_names_are_unique() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert {*NAMES} >= SAMPLES
    assert {*NAMES} - LEMMAS >= SLOW


def test_every_action_keeps_every_clause_of_the_invariant() -> None:
    kept = [f"kept by {action.name}" for action in PERMITS.actions]
    for theorem in catalogue():
        if theorem.id in ("conservation", "type-ok", "residue-below-batch", "sizes-offered", "no-empty-grant"):
            assert [obligation.name for obligation in theorem.obligations] == ["holds initially", *kept]


def chapters_of(registered: Registered) -> ModuleType:
    """Where the chapter of its theorems is."""
    name = registered.theorems.removesuffix(":theorems")
    return import_module(f"{name}.arbitrary" if name.endswith("permit_channel") else name)


@pytest.mark.parametrize("registered", PROVED, ids=lambda one: one.theorems)
def test_each_clause_of_an_invariant_is_proved_by_a_theorem(registered: Registered) -> None:
    file = chapters_of(registered)
    kept = [theorem.id for theorem in registered.load_theorems() if theorem.obligations[0].name == "holds initially"]
    assert len(kept) >= len(file.INVARIANT), kept


@pytest.mark.parametrize("name", sorted(REFUTED_OF_2014))
def test_a_false_statement_is_refuted_by_a_run_of_the_model(name: str, verdict_on: VerdictOn) -> None:
    counterexample = verdict_on(name).counterexample
    assert counterexample is not None
    run = counterexample.run
    assert run is not None
    state = run.start
    for step in run.steps:
        state = PERMITS.perform(step.action, state, run.parameters, *step.arguments)
        assert state == step.state
    assert [step.action for step in run.steps] == ["OfferChunk", "SendChunk", "Deliver"][: len(run.steps)]
    assert PERMITS.broken_invariants(state, run.parameters) == []
    assert all(name in str(counterexample) for name in ("row_permits=", "permits.rows="))


@pytest.mark.parametrize("name", sorted(REFUTED - REFUTED_OF_2014))
def test_a_false_statement_about_another_protocol_is_refuted(name: str, verdict_on: VerdictOn) -> None:
    verdict = verdict_on(name)
    counterexample, system = verdict.counterexample, systems()[verdict.theorem.module].system
    assert counterexample is not None
    assert counterexample.run is not None
    state = counterexample.run.start
    for step in counterexample.run.steps:
        state = system.perform(step.action, state, counterexample.run.parameters, *step.arguments)
        assert state == step.state
    assert counterexample.run.steps


def test_a_theorem_points_at_the_definition_it_is_about(repository: Path) -> None:
    paths = module_paths(repository / "spec")
    for theorem in catalogue():
        file, line = theorem.reference.split(":")
        text = paths[file.removesuffix(".tla")].read_text(encoding="utf-8").splitlines()[int(line) - 1]
        assert re.match(rf"{theorem.operator}(\(.*\))? *==", text)


def test_a_renamed_definition_is_noticed() -> None:
    with pytest.raises(UnknownOperator, match="does not define Conservatism"):
        reference("PermitChannel", "Conservatism")


def test_the_document_lists_all_theorems(repository: Path, kept: dict[str, Result]) -> None:
    text = (repository / "THEOREMS.md").read_text(encoding="utf-8")
    assert text == theorems_document(catalogue(), kept), "run `nox -s theorems`"


@pytest.mark.parametrize(("solvers", "is_by_one"), [("z3", True), ("both", False)])
def test_the_document_says_which_solvers_were_asked(solvers: Solvers, is_by_one: bool) -> None:
    theorem = next(each for each in catalogue() if each.id == "squelch-laws")
    result = result_of(prove(theorem, solvers))
    text = theorems_document([theorem], {theorem.id: result})
    assert result.is_by_one is is_by_one
    assert ("Z3 alone |" in text) is is_by_one
    assert results_in(text) == {theorem.id: result}


@pytest.mark.parametrize("registered", PROVED, ids=lambda one: one.theorems)
def test_each_promise_is_a_theorem(registered: Registered) -> None:
    chapters = [each for each in vars(chapters_of(registered)).values() if isinstance(each, Chapter)]
    promises = {f"{chapter.prefix}{name}" for chapter in chapters for name in chapter.promises}
    assert promises
    assert promises <= set(NAMES)
