"""``python -m permitflow_proofs``: prove by both solvers, print a line for each theorem, or write the document.

python -m permitflow_proofs                          print a line for each theorem
python -m permitflow_proofs theorems FILE            write THEOREMS.md
python -m permitflow_proofs theorems FILE 'NAME-*'   prove these only; of others the file's own rows stay
python -m permitflow_proofs --z3 ...                 by Z3 alone, which the document says
"""

import sys
from fnmatch import fnmatchcase
from pathlib import Path

from permitflow_proofs.document import result_of, results_in, theorems_document
from permitflow_proofs.kernel.theorem import Solvers, TheoremVerdict
from permitflow_proofs.proving import MODELS, prove_catalogue, theorems_of


def _prove(names: set[str], solvers: Solvers) -> list[TheoremVerdict]:
    verdicts = []
    for verdict in prove_catalogue(names, solvers=solvers):
        verdicts.append(verdict)
        mark = "ok " if verdict.is_as_expected else "BAD"
        theorem = verdict.theorem
        print(f"{mark} {theorem.id:22} {verdict.outcome:8} {verdict.seconds:6.2f} s  {theorem.reference}", flush=True)
        for problem in verdict.problems():
            print(f"    {problem}")
    return verdicts


def main(arguments: list[str]) -> int:
    """Prove and print the results; return 0 as the catalogue expects, 1 otherwise, 2 for unusable arguments."""
    if {"-h", "--help"} & set(arguments):
        print(__doc__)
        return 0
    solvers: Solvers = "z3" if "--z3" in arguments else "both"
    words = [word for word in arguments if word != "--z3"]
    theorems = theorems_of(MODELS)
    patterns = words[2:] or ["*"]
    names = {each.id for each in theorems if any(fnmatchcase(each.id, pattern) for pattern in patterns)}
    is_option = any(word.startswith("-") for word in words)
    if is_option or not names or (words and (words[0] != "theorems" or len(words) < 2)):
        print(__doc__, file=sys.stderr)
        return 2
    kept = results_in(Path(words[1]).read_text(encoding="utf-8")) if words[2:] else {}
    if words and (without := [each.id for each in theorems if each.id not in kept.keys() | names]):
        print(f"{words[1]} has no row of {', '.join(without)}: prove them, too", file=sys.stderr)
        return 2
    verdicts = _prove(names, solvers)
    if not all(verdict.is_as_expected for verdict in verdicts):
        return 1
    if words:
        results = kept | {verdict.theorem.id: result_of(verdict) for verdict in verdicts}
        Path(words[1]).write_text(theorems_document(theorems, results), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
