"""Verification conditions for another solver, as SMT-LIB.

The condition of an obligation combines all of Z3's claims: each pruned side of a fork, and each path on which the claim
would be false.  A second solver that finds it unsatisfiable confirms all.  Others ask whether the paths leave a case
out, whether one that is left out would be noticed, whether the premises can be met, and whether the twin is false
somewhere.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from permitflow_proofs.kernel.obligation import Subject
from permitflow_proofs.kernel.theorem import Theorem


@dataclass(frozen=True)
class Script:
    """One question to a solver, and the answer that confirms ours."""

    theorem: str
    number: int
    """The number of the obligation, counted from 1."""

    obligation: str
    about: Subject
    text: str
    """SMT-LIB 2.6, ending in ``(check-sat)``."""

    expected: Literal["sat", "unsat"]

    @property
    def file_name(self) -> str:
        """The name of its file in the folder."""
        return f"{self.theorem}-{self.number:02}-{self.about}.smt2"


def export(theorem: Theorem) -> Iterator[Script]:
    """Z3's claims about a theorem; empty for obligations of the explorer."""
    for number, obligation in enumerate(theorem.obligations, start=1):
        for question in obligation.examine().questions:
            text = question.to_smtlib()
            yield Script(theorem.id, number, obligation.name, question.about, text, question.expected)


def write_scripts(theorem: Theorem, folder: Path) -> int:
    """Write a file for each question, with its subject and the expected answer on top; return the number of files.

    Raises:
        OSError: the folder cannot be made, or not be written to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    for script in export(theorem):
        head = f"; {script.theorem}: {script.obligation} ({script.about})\n; expected: {script.expected}\n"
        (folder / script.file_name).write_text(head + script.text, encoding="utf-8")
        count += 1
    return count
