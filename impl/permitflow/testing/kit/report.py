"""What the kit found: rule by rule, for people and for programs."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from textwrap import indent

from permitflow.testing.kit.adapter import Feature
from permitflow.testing.kit.rules import Rule

__all__ = ["Outcome", "Report", "RuleVerdict"]


class Outcome(StrEnum):
    """What may be said of a rule."""

    HOLDS = "holds"
    BREAKS = "breaks"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True)
class RuleVerdict:
    """What was found about one rule."""

    rule: Rule
    outcome: Outcome
    finding: str
    """In words: what was checked, which mistake was recognised, or which feature is lacking."""

    counterexample: tuple[str, ...] = ()
    """The steps of the shortest run that was found, numbered; then what was expected."""

    @property
    def is_broken(self) -> bool:
        """Does the channel break the rule?"""
        return self.outcome is Outcome.BREAKS

    def describe(self) -> str:
        """The rule, where it stands, what was found, and the run."""
        lines = [f"{self.outcome.value} rule {self.rule.id!r}: {self.rule.statement}"]
        lines.append(f"({self.rule.clause})")
        lines.append(f"It {self.finding}." if self.is_broken else f"{self.finding}.")
        return "\n".join((*lines, *self.counterexample))

    def as_json(self) -> dict[str, object]:
        """For programs."""
        return {
            "rule": self.rule.id,
            "statement": self.rule.statement,
            "specification": self.rule.clause,
            "outcome": self.outcome.value,
            "finding": self.finding,
            "counterexample": list(self.counterexample),
        }


@dataclass(frozen=True)
class Report:
    """What was found about one adapter."""

    adapter: str
    verdicts: tuple[RuleVerdict, ...]
    lacks: frozenset[Feature] = frozenset()

    @property
    def conforms(self) -> bool:
        """Is no rule broken that applies?"""
        return not self.broken

    @property
    def broken(self) -> tuple[str, ...]:
        """Ids of the rules that do not hold."""
        return self._of(Outcome.BREAKS)

    @property
    def held(self) -> tuple[str, ...]:
        """Ids of the rules that hold."""
        return self._of(Outcome.HOLDS)

    @property
    def not_checked(self) -> tuple[str, ...]:
        """Ids of the rules that are about something the channel lacks."""
        return self._of(Outcome.NOT_APPLICABLE)

    def _of(self, outcome: Outcome) -> tuple[str, ...]:
        return tuple(verdict.rule.id for verdict in self.verdicts if verdict.outcome is outcome)

    def __getitem__(self, rule: str) -> RuleVerdict:
        """The verdict about a rule, by its id.

        Raises:
            KeyError: there is no such rule, or it was not asked for.
        """
        for verdict in self.verdicts:
            if verdict.rule.id == rule:
                return verdict
        raise KeyError(rule)

    def lacking(self) -> Iterator[str]:
        """For each feature that is lacking: the rules that were not checked, and the mistakes that were not sought."""
        for feature in sorted(self.lacks):
            without = [v.rule.id for v in self.verdicts if feature in v.rule.needs]
            unsought = [
                f"whether it {mistake.name}"
                for verdict in self.verdicts
                if verdict.outcome is not Outcome.NOT_APPLICABLE
                for mistake in verdict.rule.mistakes
                if feature in mistake.needs
            ]
            parts = [f"rules not checked: {', '.join(without)}"] if without else []
            parts += [f"not asked: {', '.join(unsought)}"] if unsought else []
            if parts:
                yield f"lacks {feature.value}; {'; '.join(parts)}"

    def summary(self) -> str:
        """One line."""
        counts = ((len(self.held), "hold"), (len(self.broken), "broken"), (len(self.not_checked), "not applicable"))
        return f"{self.adapter}: {len(self.verdicts)} rules, " + ", ".join(f"{count} {what}" for count, what in counts)

    def __str__(self) -> str:
        """Everything."""
        width = max((len(verdict.rule.id) for verdict in self.verdicts), default=0)
        table = [f"{v.rule.id:{width}}  {v.outcome.value:14}  {v.finding}" for v in self.verdicts]
        broken = [f"\n{indent(verdict.describe(), '  ').strip()}" for verdict in self.verdicts if verdict.is_broken]
        return "\n".join((*table, *self.lacking(), *broken, self.summary()))

    def as_json(self) -> dict[str, object]:
        """For programs."""
        return {
            "adapter": self.adapter,
            "conforms": self.conforms,
            "lacks": sorted(feature.value for feature in self.lacks),
            "rules": [verdict.as_json() for verdict in self.verdicts],
        }
