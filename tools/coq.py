"""Check the proofs in proofs/coq with coqc, and what they rest on.

    python -m tools.coq      one line for each file; exit code 1 if a proof fails or rests on an axiom

Each file ends with ``Print Assumptions`` for each of its theorems: an unfinished proof, or an axiom of the library, is
printed there.  Coq comes from the distribution (Debian: apt install coq); nothing is written beside the proofs.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

FOLDER: Final = Path(__file__).resolve().parent.parent / "proofs/coq"
CLOSED: Final = "Closed under the global context"
HINT: Final = "coqc is not installed (Debian: apt install --no-install-recommends coq)"
MOST_SECONDS: Final = 600

_THEOREM = re.compile(r"^\s*Theorem\s+(\w+)", re.MULTILINE)
_PRINTED = re.compile(r"^Print Assumptions (\w+)\.$", re.MULTILINE)
_REQUIRED = re.compile(r"^From Permitflow Require Import (\w+)\.$", re.MULTILINE)


class Reading(NamedTuple):
    """What coqc says of a file."""

    name: str
    theorems: tuple[str, ...]  # that rest on nothing but Coq
    complaint: str  # empty: all is proved


def coqc() -> str | None:
    """The checker, if it is installed."""
    return shutil.which("coqc")


def ordered(texts: dict[str, str]) -> list[str]:
    """The names of these files, each behind those that it needs."""
    names: list[str] = []

    def add(name: str) -> None:
        if name not in names:
            for needed in _REQUIRED.findall(texts[name]):
                add(needed)
            names.append(name)

    for name in sorted(texts):
        add(name)
    return names


def read_all(texts: dict[str, str], checker: str) -> Iterator[Reading]:
    """Check these files (name to text) in a folder of their own."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ordered(texts):
            (Path(folder) / f"{name}.v").write_text(texts[name], "utf-8")
            yield _read(name, texts[name], Path(folder), checker)


def _read(name: str, text: str, folder: Path, checker: str) -> Reading:
    command = [checker, "-q", "-Q", ".", "Permitflow", f"{name}.v"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=MOST_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return Reading(name, (), f"coqc has not ended within {MOST_SECONDS} s")
    if done.returncode:
        return Reading(name, (), done.stderr.strip() or f"coqc ended with {done.returncode}")
    theorems = tuple(_PRINTED.findall(text))
    if untold := [theorem for theorem in _THEOREM.findall(text) if theorem not in theorems]:
        return Reading(name, (), f"without Print Assumptions: {', '.join(untold)}")
    if done.stdout.splitlines() != [CLOSED] * len(theorems):
        return Reading(name, (), f"rests on more than Coq:\n{done.stdout.strip()}")
    return Reading(name, theorems, "")


def texts_in(folder: Path) -> dict[str, str]:
    """The files in a folder: name to text."""
    return {path.stem: path.read_text("utf-8") for path in sorted(folder.glob("*.v"))}


def main() -> int:
    checker = coqc()
    if checker is None:
        print(HINT, file=sys.stderr)
        return 1
    failed = False
    for name, theorems, complaint in read_all(texts_in(FOLDER), checker):
        failed = failed or bool(complaint)
        found = complaint or f"{len(theorems)} theorems, {CLOSED.lower()}: {', '.join(theorems)}"
        print(f"{name}: {found}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
