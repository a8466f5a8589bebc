"""``python -m permitflow_proofs``: prove everything by both solvers, print a line for each, or write the document.

python -m permitflow_proofs                     print a line for each theorem
python -m permitflow_proofs theorems FILE       write THEOREMS.md
"""

import sys
from pathlib import Path

from permitflow_proofs.document import theorems_document
from permitflow_proofs.kernel.theorem import TheoremVerdict
from permitflow_proofs.proving import prove_catalogue


def _prove_all() -> list[TheoremVerdict]:
    verdicts = []
    for verdict in prove_catalogue(solvers="both"):
        verdicts.append(verdict)
        mark = "ok " if verdict.is_as_expected else "BAD"
        theorem = verdict.theorem
        print(f"{mark} {theorem.id:22} {verdict.outcome:8} {verdict.seconds:6.2f} s  {theorem.reference}", flush=True)
        for problem in verdict.problems():
            print(f"    {problem}")
    return verdicts


def main(arguments: list[str]) -> int:
    """Prove and print the results; return 0 as the catalogue expects, 1 otherwise, 2 for unusable arguments."""
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
