"""``permitflow prove`` reports what the provers say, and notices a theorem that does not come out as stated."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import psutil
import pytest

import permitflow_proofs
from permitflow_proofs import catalogue
from permitflow_proofs.kernel import second_solver
from tests.permitflow_tools.cli.conftest import Command, Report


def test_a_theorem_is_proved_with_its_twins(report: Report) -> None:
    code, document = report("prove", "--theorem", "flush-idle")
    assert code == 0
    assert document["holds"] is True
    (theorem,) = document["theorems"]
    assert (theorem["id"], theorem["outcome"], theorem["problems"]) == ("flush-idle", "proved", [])
    assert theorem["twins_refuted"] == theorem["obligations"] > 0
    assert theorem["specification"].startswith("PermitChannel.tla:")
    opinions = [(one["solver"], one["outcome"], one["problems"]) for one in theorem["solvers"]]
    assert opinions == [("Z3", "proved", []), ("cvc5", "proved", [])]


def test_a_false_statement_of_others_is_refuted_by_a_run(command: Command) -> None:
    code, stdout, _ = command("prove", "--theorem", "2014-stored")
    assert code == 0
    assert re.search(
        r"2014-stored .* PermitChannel.tla:\d+ +Z3 +refuted +[\d,.]+ s\n.* sizes = 0 .. largest +cvc5 +refuted", stdout
    )
    assert "a shortest run to a state in which it is false" in stdout
    assert "OfferChunk" in stdout
    assert "1 of 1 theorems as stated" in stdout


@pytest.fixture
def seeded(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Change one theorem of the catalogue."""

    def seed(name: str, **changes: object) -> None:
        theorems = tuple(replace(one, **changes) if one.id == name else one for one in catalogue())  # type: ignore[arg-type]  # any field
        for module in (permitflow_proofs, import_module("permitflow_proofs.catalogue")):
            monkeypatch.setattr(module, "catalogue", lambda: theorems)

    return seed


def test_a_theorem_that_comes_out_otherwise_fails(command: Command, seeded: Callable[..., None]) -> None:
    seeded("2014-right", expected="refuted")
    code, stdout, _ = command("prove", "--theorem", "2014-right")
    assert code == 1
    assert "PROVED, EXPECTED refuted" in " ".join(stdout.split())
    assert "0 of 1 theorems as stated" in stdout


def test_a_solver_that_disagrees_fails_and_the_questions_can_be_had(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(second_solver, "answer", lambda _text: "unknown")
    code, stdout, _ = command("prove", "--theorem", "2014-right")
    assert code == 1
    assert "PROBLEM: 2014-right, cvc5: in every state: cvc5 says unknown to the claim, not unsat" in stdout
    assert "permitflow prove --theorem 2014-right --export DIR" in stdout
    code, stdout, _ = command("prove", "--theorem", "2014-right", "--export", str(tmp_path))
    assert (code, stdout.split()[0]) == (0, "5")
    assert len(list(tmp_path.glob("2014-right-01-*.smt2"))) == 5


def test_a_solver_can_be_chosen(report: Report) -> None:
    code, document = report("prove", "--theorem", "2014-right", "--solver", "cvc5")
    assert (code, [one["solver"] for one in document["theorems"][0]["solvers"]]) == (0, ["cvc5"])


def test_without_the_second_solver_the_first_proves_alone_and_says_so(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(second_solver, "is_installed", lambda: False)
    code, stdout, stderr = command("prove", "--theorem", "2014-right")
    assert (code, "1 of 1 theorems as stated, by Z3;" in stdout) == (0, True)
    assert stderr == "cvc5 is not installed, so Z3 proves alone: install permitflow[proofs] for both.\n"
    for name in ("cvc5", "both"):
        code, stdout, stderr = command("prove", "--solver", name)
        assert (code, stdout) == (2, "")
        assert "install permitflow[proofs], or choose --solver z3" in stderr


def is_worker(child: psutil.Process) -> bool:
    try:
        return "spawn_main" in " ".join(child.cmdline())
    except psutil.Error:  # it has ended meanwhile
        return False


def test_an_interrupt_stops_all_processes_and_says_what_was_done() -> None:
    arguments = [sys.executable, "-m", "permitflow_tools.cli", "prove", "--jobs", "2"]
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as prover:
        workers: list[psutil.Process] = []
        while len(workers) < 2 and prover.poll() is None:
            workers = [child for child in psutil.Process(prover.pid).children() if is_worker(child)]
        # As a terminal does it: to all of them.
        for process in (prover.pid, *(worker.pid for worker in workers)):
            os.kill(process, signal.SIGINT)
        stdout, stderr = prover.communicate(timeout=250)
    assert (prover.returncode, stdout) == (130, "")
    assert re.fullmatch(r"Error: interrupted; \d+ of \d+ were done\n", stderr), stderr
    assert not any(worker.is_running() for worker in workers)
