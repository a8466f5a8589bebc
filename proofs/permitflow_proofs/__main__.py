"""``python -m permitflow_proofs``: prove everything, print the table, or write it to a file.

python -m permitflow_proofs                     print the table
python -m permitflow_proofs theorems FILE       write THEOREMS.md
"""

import sys
from pathlib import Path

from permitflow_proofs.catalogue import catalogue
from permitflow_proofs.document import theorems_document
from permitflow_proofs.kernel.theorem import Verdict, prove


def _prove_all() -> list[Verdict]:
    verdicts = []
    for theorem in catalogue():
        verdict = prove(theorem)
        verdicts.append(verdict)
        mark = "ok " if verdict.is_as_expected else "BAD"
        print(f"{mark} {theorem.id:22} {verdict.outcome:8} {verdict.seconds:6.2f} s  {theorem.reference}")
        for problem in verdict.problems():
            print(f"    {problem}")
    return verdicts


def main(arguments: list[str]) -> int:
    """Prove, and say how it went: 0 as the catalogue expects, 1 otherwise, 2 for unusable arguments."""
    if arguments and (arguments[0] != "theorems" or len(arguments) != 2):
        print(__doc__, file=sys.stderr)
        return 2
    verdicts = _prove_all()
    if not all(verdict.is_as_expected for verdict in verdicts):
        return 1
    if arguments:
        Path(arguments[1]).write_text(theorems_document(verdicts), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
