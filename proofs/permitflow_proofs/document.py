"""``THEOREMS.md``: the catalogue with its results, for readers."""

from collections.abc import Iterable

from permitflow_proofs.kernel.theorem import Verdict

_HEAD = """\
# Theorems

Made by `make theorems`; a test proves everything again and compares all but the times. Each theorem holds for all
values of the specification's constants unless its scope says otherwise. Every obligation has a twin, a deliberate
mistake in the statement or in a step, which the prover must refute; and its premises must be possible. R is
row_permits, "live" means that no message is ever stuck. The column "confirmed by" names the solvers, each of which
found all three of every obligation: the claim holds, its premises are possible, the twin fails. (cvc5 gets the
questions as text; the explorer tries all cases, without a solver.)

| Theorem | In words | Specification | Confirmed by | Scope | Verdict | Obligations, twins refuted | Processor time |
|---|---|---|---|---|---|---|---|
"""


_BOUNDS_SECONDS = (0.1, 1, 10)


def _coarse(seconds: float) -> str:
    # Coarse on purpose: the table should not change from run to run.
    return next((f"< {bound} s" for bound in _BOUNDS_SECONDS if seconds < bound), "longer")


def theorems_document(verdicts: Iterable[Verdict]) -> str:
    """The whole document."""
    rows = [" | ".join(["", *_cells(verdict), ""]).strip() for verdict in verdicts]
    return _HEAD + "\n".join(rows) + "\n"


def _cells(verdict: Verdict) -> tuple[str, ...]:
    theorem = verdict.theorem
    return (
        f"`{theorem.id}`",
        theorem.statement,
        f"`{theorem.reference}`",
        ", ".join(opinion.solver for opinion in verdict.opinions),
        theorem.scope,
        verdict.outcome,
        f"{verdict.obligations}, {verdict.twins_refuted}",
        _coarse(verdict.seconds),
    )
