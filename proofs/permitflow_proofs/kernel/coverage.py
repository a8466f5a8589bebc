"""Coverage: the paths of a function leave nothing out.

Each path is a row of conditions that were assumed or decided.  A case is left out if, for each path, the first
condition that it does not meet was decided: an assumption would have excluded it.  There must be no such case, whatever
the conditions mean: each is one truth value here.  So a condition that was decided one way only, or a path that was
lost, is noticed.  (Sides that were pruned, and answers that were known before, are asked of the solvers apart.)
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import z3

from permitflow_proofs.kernel.terms import conjunction, disjunction, negation


@dataclass(frozen=True)
class Step:
    """One condition of a path."""

    condition: int
    """The identity of its term: the same for it and its opposite."""

    answer: bool
    is_decided: bool
    """Was it decided, so that another path goes the other way?  If not, it was assumed."""

    atom: z3.BoolRef = field(compare=False)
    """Kept, so that no other term gets its identity."""

    @property
    def term(self) -> z3.BoolRef:
        """The condition with its answer."""
        return self.atom if self.answer else negation(self.atom)


Leaf = tuple[Step, ...]
"""A path to its end."""


@dataclass(frozen=True)
class Coverage:
    """The cases that paths leave out, as conditions for any solver."""

    left_out: z3.BoolRef
    """There must be none."""

    twin: z3.BoolRef
    """The same without the last of the paths: there must be one."""

    @property
    def is_complete(self) -> bool:
        """Does Z3 find that no case is left out, and that one would be noticed?"""
        return bool(_answer(self.left_out) == z3.unsat and _answer(self.twin) == z3.sat)


def coverage(paths: Sequence[Leaf]) -> Coverage:
    """What the paths of a function leave out."""
    return Coverage(_left_out(paths), _left_out(paths[:-1]))


def _left_out(leaves: Sequence[Leaf]) -> z3.BoolRef:
    """The common part of paths that begin alike is said once, because they are a tree."""
    if not leaves:
        return z3.BoolVal(True)
    decided = {step.condition for leaf in leaves for step in leaf if step.is_decided}
    trees: list[dict[Step, int]] = [{}]
    ends = [False]
    for leaf in leaves:
        at = 0
        # What is assumed only can be true in a case that is left out, and then excludes nothing.
        for step in (step for step in leaf if step.condition in decided):
            if step not in trees[at]:
                trees[at][step] = len(trees)
                trees.append({})
                ends.append(False)
            at = trees[at][step]
        ends[at] = True
    truths = {condition: z3.Bool(f"condition.{number}") for number, condition in enumerate(decided)}
    found = [disjunction(())] * len(trees)
    # The branches of a tree were made after it.
    for at in reversed(range(len(trees))):
        if ends[at]:
            continue
        parts = []
        for step, branch in trees[at].items():
            holds = truths[step.condition] if step.answer else negation(truths[step.condition])
            rest = found[branch]
            parts.append(disjunction([negation(holds), rest]) if step.is_decided else conjunction([holds, rest]))
        found[at] = conjunction(parts)
    return found[0]


def _answer(condition: z3.BoolRef) -> z3.CheckSatResult:
    solver = z3.SimpleSolver()
    solver.add(condition)
    return solver.check()
