"""``THEOREMS.md``: the catalogue with its results, for readers."""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from permitflow_model.registry import systems
from permitflow_proofs.kernel.theorem import Theorem, TheoremVerdict

_HEAD = """\
# Theorems

Made by `nox -s theorems`; a test proves everything again and compares. The column "given" is written by the prover: the
fields of the specification's constants that the proof fixes, and all that it requires of them. A theorem says nothing
about other constants. "All parameters" are those that the specification accepts; "no model" means that the claim is
about queues or numbers alone. "sizes = 0 .. largest" means that chunks of every size up to a largest one may be
offered; with fewer sizes a channel has fewer runs, so what holds in every state then holds, too.

Of a family, such as the inputs of a gate or the producers of a channel, a proof looks at one or two members, and at all
others together. Where it needs two, the given says so.

Z3 and cvc5 each find every claim true, its premises possible, that its paths leave no case out, and its twin false: a
twin is the claim with a deliberate mistake in the statement or in a step. Where "Z3 alone" stands behind the
obligations, cvc5 was not asked when the row was written. `tight` and `exact` theorems with cases in "given" are tried
case by case, without a solver. What begins with "False" is refuted, by a run of the model. R is row_permits; "live"
means: while a message waits, some step of the protocol is possible.
"""
_COLUMNS = """\
| Theorem | In words | Given | Specification | Obligations |
|---|---|---|---|---|
"""
_BY_ONE = ", Z3 alone"
_PROMISES = "\n## What users may rely on\n"
_ACTIONS = """
## What each action does

An action changes these parts of the state only: by so much where a number is given, to this value behind `=`, and so
as the words say. Where a row says when it is possible, it is possible exactly then. Members are numbered from 0: the
one that acts is 0, another one 1; the ends of a hop are "up" and "down"; "others" stands for all that are left. Each
table is a theorem.
"""
_ACTION_COLUMNS = """\
| Action | Possible | Changes | So |
|---|---|---|---|
"""
_LEMMAS = """
## Lemmas

What the theorems above need, and what their proofs assume of queues and families.

"""


class Result(NamedTuple):
    """What only a proof knows of a row."""

    given: str
    is_by_one: bool
    """Was cvc5 not asked?"""


def result_of(verdict: TheoremVerdict) -> Result:
    """Of a theorem that was proved now."""
    return Result(verdict.given, verdict.solvers == "z3" and verdict.theorem.tool == "Z3")


def results_in(document: str) -> dict[str, Result]:
    """Those of each theorem of a document."""
    rows = re.findall(r"^\| `([\w-]+)` \| .* \| (.*) \| `\w+\.tla:\d+` \| \d+(.*) \|$", document, re.MULTILINE)
    return {name: Result(given, bool(mark)) for name, given, mark in rows}


def theorems_document(theorems: Iterable[Theorem], results: Mapping[str, Result]) -> str:
    """The whole document.

    Raises:
        KeyError: a theorem has no result.
    """
    promises: dict[str, list[str]] = {}
    lemmas: list[str] = []
    frames: list[str] = []
    for theorem in theorems:
        if theorem.rows:
            frames.append(_frame(theorem))
        row = _row(theorem, results[theorem.id])
        if theorem.is_promise:
            promises.setdefault(_system_of(theorem.module), []).append(row)
        else:
            lemmas.append(row)
    chapters = (f"\n### {module}\n\n{_COLUMNS}{''.join(rows)}" for module, rows in promises.items())
    return f"{_HEAD}{_PROMISES}{''.join(chapters)}{_LEMMAS}{_COLUMNS}{''.join(lemmas)}{_ACTIONS}{''.join(frames)}"


def _frame(theorem: Theorem) -> str:
    rows = "".join(f"| {' | '.join((f'`{name}`', *told))} |\n" for name, *told in theorem.rows)
    return f"\n### {theorem.module}: `{theorem.id}`\n\n{_ACTION_COLUMNS}{rows}"


def _system_of(module: str) -> str:
    """The module of the system that a module is about: its own, or the one that it extends."""
    return max((name for name in systems() if module.startswith(name)), key=len)


def _row(theorem: Theorem, result: Result) -> str:
    obligations = f"{len(theorem.obligations)}{_BY_ONE if result.is_by_one else ''}"
    cells = (f"`{theorem.id}`", theorem.statement, result.given, f"`{theorem.reference}`", obligations)
    return f"| {' | '.join(cells)} |\n"
