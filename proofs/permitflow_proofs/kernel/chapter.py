"""Theorems about one protocol: their common parts are given once, so that each theorem is one row."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, TypeVar

from permitflow_proofs.kernel.frame import Frame, frame_obligations
from permitflow_proofs.kernel.induction import Clause, Fault, Subject
from permitflow_proofs.kernel.obligation import Obligation, SymbolicObligation
from permitflow_proofs.kernel.theorem import Theorem

S = TypeVar("S")
P = TypeVar("P")


def claim(name: str, holds: Callable[[int], bool], twin_change: str) -> SymbolicObligation:
    """A claim with a number in it, 0; its twin is the same with 1: one too many, one too few."""
    return SymbolicObligation(name, partial(holds, 0), partial(holds, 1), twin_change)


@dataclass(frozen=True)
class Chapter(Generic[S, P]):
    """The common parts of all theorems about a protocol."""

    subject: Subject[S, P]
    invariant: Mapping[str, Clause[S, P]]
    """The clauses that are inductive together, by name."""

    prefix: str = ""
    """The prefix of the theorems' names."""

    promises: frozenset[str] = frozenset()
    """The names of the theorems that users may rely on, without the prefix; the others are lemmas."""

    def theorem(self, name: str, operator: str, statement: str, *obligations: Obligation) -> Theorem:
        """A statement about a definition of the specification, and its obligations."""
        return Theorem(
            id=f"{self.prefix}{name}",
            statement=statement,
            module=self.subject.system.module,
            operator=operator,
            obligations=obligations,
            is_promise=name in self.promises,
        )

    def kept(
        self,
        name: str,
        clause: str,
        statement: str,
        mistake: Fault[S, P],
        in_words: str,
        *,
        about: str | None = None,
        breaks: Clause[S, P] | None = None,
    ) -> Theorem:
        """A clause of the invariant holds initially, and each action keeps it.

        Args:
            name: of the theorem, without the prefix.
            clause: its name.
            statement: in words.
            mistake: made after the step, by the twins.
            in_words: this mistake.
            about: the definition that it is about, if that has another name than the clause.
            breaks: the clause that the mistake breaks, if it is not this one.
        """
        obligations = self.subject.induction(self.invariant[clause], mistake, in_words, breaks)
        return self.theorem(name, about or clause, statement, *obligations)

    def framed(self, frames: Sequence[Frame[S, P]], subject: Subject[S, P], name: str = "frame") -> Theorem:
        """Each action is possible exactly where its frame says so, and changes these parts of the state only, and so.

        Args:
            frames: one for each action at least.
            subject: with any state; most frames need no invariant.
            name: of the theorem, without the prefix.
        """
        statement = (
            "Each action does what its row below says, and nothing else; it is possible exactly where that says so."
        )
        theorem = self.theorem(name, "Next", statement, *frame_obligations(subject, frames))
        return replace(theorem, rows=tuple(frame.row for frame in frames))
