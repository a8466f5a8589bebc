"""A guard that is changed in the code alone is drawn with the state that shows it, the call and both outcomes."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

from permitflow_proofs.code.catalogue import catalogue
from permitflow_proofs.kernel.theorem import Theorem
from permitflow_tools.explain.looks.table import look_of
from permitflow_tools.explain.refutation import refutation
from tests.permitflow_tools.cli.conftest import Command
from tests.permitflow_tools.cli.conftest import command as command  # a fixture
from tests.support.mutated_code import mistaken_code
from tools.mutants import CHECKOUT, read_mutants

MUTANTS = {mutant.name: mutant for mutant in read_mutants(CHECKOUT / "tests/mutants/code_mutants.toml")}


def one_claim(theorem: str, claim: str) -> Theorem:
    (found,) = (each for each in catalogue() if each.id == theorem)
    return replace(found, obligations=tuple(each for each in found.obligations if each.name == claim))


def drawn(mistake: str, theorem: str, claim: str) -> list[str]:
    """The texts of the drawing."""
    subject = one_claim(theorem, claim)
    with mistaken_code(MUTANTS[mistake]):
        found = subject.obligations[0].examine().counterexample
    assert found is not None
    return texts(refutation(look_of(subject.module), f"{theorem}: {claim}", found.values, found.told))


def texts(drawing: str) -> list[str]:
    return [each.text or "" for each in ET.fromstring(drawing).iter("{http://www.w3.org/2000/svg}text")]


def row(drawing: list[str], field: str, cells: int) -> list[str]:
    at = drawing.index(field)
    return drawing[at + 1 : at + cells + 1]


def test_a_guard_of_a_permit_sender_is_drawn() -> None:
    told = drawn("barrier sent without a permit", "code-permits-sender", "the oldest leaves")
    assert "code-permits-sender: the oldest leaves" in told
    sentence = " ".join(told)
    assert re.search(
        r"PermitSender\.try_send\(\) returns kind barrier, rows 0 and records SendBarrier\(.*\) with counters .*;",
        sentence,
    )
    assert "the model can do nothing here." in sentence
    # In the model, before, after the call, as the model says.
    assert row(told, "_barrier_permits", 4) == ["permits.barriers", "0", "-1", "0"]


def test_a_guard_of_a_gate_receiver_is_drawn() -> None:
    told = drawn(
        "a chunk arrives that nobody has credit for", "code-gate-receiver", "any chunk arrives, or what must not"
    )
    sentence = " ".join(told)
    found = re.search(r"GateReceiver\.deliver\(message = kind chunk, rows (\d+), .*records Deliver\(", sentence)
    assert found is not None
    assert "the model can do nothing here." in sentence
    before, after, must = map(int, row(told, "0.stored", 3))
    assert (after - before, must) == (max(int(found[1]), 1), before)
    assert row(told, "0.free", 1) == ["channels.0.free"]


def test_a_wrong_field_is_drawn_beside_its_right_value() -> None:
    told = drawn("a refused message is taken from the line", "code-permits-sender", "the oldest leaves")
    name, before, after, must = row(told, "_waiting", 4)
    assert (name, before != after, before == must) == ("waiting", True, True)
    assert "returns None and records nothing; the model does nothing." in " ".join(told)


@contextmanager
def only(theorem: Theorem, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(import_module("permitflow_proofs.code.catalogue"), "catalogue", lambda: (theorem,))
        yield


def test_prove_writes_the_picture_of_what_it_refutes(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    theorem, file = one_claim("code-permits-sender", "the oldest leaves"), tmp_path / "refuted.svg"
    arguments = ("prove", "--code", "--solver", "z3")
    with only(theorem, monkeypatch):
        code, stdout, _ = command(*arguments, "--picture", str(file))
        assert (code, file.exists()) == (0, False), stdout
        with mistaken_code(MUTANTS["barrier sent without a permit"]):
            code, stdout, _ = command(*arguments, "--picture", str(file))
    assert code == 1
    assert "PROBLEM: code-permits-sender, Z3: the oldest leaves: refuted (" in stdout
    assert "_barrier_permits" in texts(file.read_text(encoding="utf-8"))


def test_a_picture_is_an_svg_of_what_is_proved(command: Command, tmp_path: Path) -> None:
    code, _, stderr = command("prove", "--picture", "refuted.png")
    assert (code, "name a file .svg" in stderr) == (2, True)
    code, _, stderr = command("prove", "--picture", "refuted.svg", "--export", str(tmp_path))
    assert (code, "leave one of them away" in stderr) == (2, True)
