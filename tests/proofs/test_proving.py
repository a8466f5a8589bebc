"""Several processes find what one finds, and leave nothing behind."""

from contextlib import closing

import pytest

from permitflow_proofs import TheoremVerdict, catalogue, prove_catalogue
from permitflow_proofs.__main__ import main
from permitflow_proofs.proving import usable_processors
from tests.support.process import workers

SHORT = ["bounded", "2014-sign", "2014-right"]


def gist(verdict: TheoremVerdict) -> tuple[object, ...]:
    opinions = [(opinion.solver, opinion.outcome, opinion.problems) for opinion in verdict.opinions]
    return verdict.theorem.id, verdict.is_as_expected, verdict.obligations, verdict.twins_refuted, opinions


def test_it_proves_what_is_asked_for_in_the_order_of_the_catalogue() -> None:
    in_order = [theorem.id for theorem in catalogue() if theorem.id in SHORT]
    assert [verdict.theorem.id for verdict in prove_catalogue(SHORT, processes=1)] == in_order
    assert list(prove_catalogue([])) == []
    assert usable_processors() >= 1


def test_two_processes_find_what_one_finds() -> None:
    pytest.importorskip("cvc5")
    before = workers()
    one = list(prove_catalogue(SHORT, solvers="both", processes=1))
    two = list(prove_catalogue(SHORT, solvers="both", processes=2))
    assert list(map(gist, one)) == list(map(gist, two))
    assert all(verdict.is_as_expected for verdict in two)
    assert {verdict.theorem.id for verdict in two if verdict.counterexample is not None} == {"2014-sign"}
    assert workers() <= before


@pytest.mark.parametrize(("option", "status"), [("--help", 0), ("--no-such-option", 2)])
def test_an_option_is_no_name_of_a_document(option: str, status: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["theorems", option, "2014-sign"]) == status
    assert "theorems FILE" in "".join(capsys.readouterr())


@pytest.mark.long
def test_a_caller_that_stops_reading_stops_the_processes() -> None:
    before = workers()
    with closing(prove_catalogue(processes=2)) as verdicts:
        assert next(verdicts).theorem.id == catalogue()[0].id
        assert len(workers() - before) == 2
    assert workers() <= before
