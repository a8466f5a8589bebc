"""Rules, the mistakes that break them, verdicts, and the rulebook of a protocol, which defines its rules.

No test runs are written by hand: for each mistake, a search finds the shortest run in which the applications see a
difference between the model with the mistake and the model without it (``probes``).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from textwrap import indent
from traceback import extract_tb, format_exception
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

from permitflow.errors import InvalidParametersError, counted, shortened
from permitflow.flows.recording import RecorderFactory
from permitflow_model.kernel.system import System
from permitflow_model.manifest import reference
from permitflow_testing.adapter import ChannelAdapter, Feature
from permitflow_testing.bounded import AdapterError
from permitflow_testing.moves import Move, PairAdapter
from permitflow_testing.outside import Outside, Perform

MakeAdapter: TypeAlias = Callable[[], ChannelAdapter]
"""Makes a new adapter for a run, as an adapter's class does."""

MakePair: TypeAlias = Callable[[Any, int, RecorderFactory | None], PairAdapter]
"""Makes a pair at rest: takes the parameters, the count of message numbers, and a factory of recorders."""

Lacks: TypeAlias = frozenset[Feature]

Integer: TypeAlias = Callable[[int, int], int]
"""Draws a number that is at least the first and at most the second."""

MOST_WAITING = 2
"""The most chunks that wait at once in a searched run."""

FEW = 0
"""As the count of message numbers: just enough to distinguish all messages that are in the channel at once."""


@dataclass(frozen=True, eq=False)
class Mistake:
    """One way to break a rule."""

    name: str
    """What the channel does, as a phrase that follows "it"."""
    agreed: Any
    """The parameters of a channel in which the mistake is visible."""
    moves: tuple[Move, ...]
    """The moves of the run: as few as possible, so that no other mistake is visible."""
    actions: Mapping[str, Perform] = field(default_factory=dict)
    """The mistaken actions."""
    outside: type[Outside] = Outside
    """A mistake at the applications' side of the channel, or one that concerns only some messages."""
    needs: Lacks = frozenset()
    """Features without which the mistake cannot be made, besides those of the rule."""

    @property
    def is_about_actions(self) -> bool:
        """Can a pair that is moved step by step make it, too?"""
        return self.outside is Outside

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rows of the chunks in the run."""
        found = {move.arguments[0] for move in self.moves if move.action in ("OfferChunk", "SendChunkNow")}
        return tuple(sorted(found)) or (1,)


@dataclass(frozen=True)
class Rule:
    """A duty of every channel that has the features in question."""

    module: str
    """The specification."""
    id: str
    statement: str
    operator: str
    """The operator of the specification that states the rule; empty if none does."""
    needs: Lacks = frozenset()
    mistakes: tuple[Mistake, ...] = ()
    contract: str = ""
    """The document that states the rule, if the specification does not."""

    @property
    def clause(self) -> str:
        """File, line and name, as in ``SomeProtocol.tla:71 Send``."""
        if not self.operator:
            return self.contract
        return f"{reference(self.module, self.operator)} {self.operator}"


def moves_in(text: str) -> tuple[Move, ...]:
    """Moves by their names; a number alone offers a chunk of this many rows: ``"1 SendChunkNow(1) Receive"``."""
    words = (word.rstrip(")").partition("(") for word in text.split())
    return tuple(
        Move("OfferChunk", (int(name),)) if name.isdigit() else Move(name, (int(rows),) if rows else ())
        for name, _, rows in words
    )


class Duty(NamedTuple):
    """A rule in the table of a rulebook; see ``Rule``."""

    id: str
    operator: str
    statement: str
    needs: str = ""
    """Names of features."""
    contract: str = ""


class Breach(NamedTuple):
    """A mistake in the table of a rulebook, which breaks the rule above it; see ``Mistake``."""

    name: str
    moves: str
    """See ``moves_in``."""
    how: Mapping[str, Perform] | type[Outside]
    """The mistaken actions, or the mistaken side of the applications."""
    needs: str = ""
    agreed: Any = None
    """The parameters of a channel in which it is visible, if that is not the table's."""

    def mistake(self, agreed: Any) -> Mistake:
        """The mistake, in the table's channel."""
        at = agreed if self.agreed is None else self.agreed
        moves, needs = moves_in(self.moves), _features(self.needs)
        if isinstance(self.how, Mapping):
            return Mistake(self.name, at, moves, self.how, needs=needs)
        return Mistake(self.name, at, moves, outside=self.how, needs=needs)


def rules_in(table: Iterable[Duty | Breach], module: str, agreed: Any = None) -> tuple[Rule, ...]:
    """The rules of a table, in its order, each with the mistakes that stand below it.

    ``module`` is the specification, ``agreed`` the parameters of a channel in which most mistakes are visible.
    """
    rules: list[Rule] = []
    for row in table:
        if isinstance(row, Duty):
            rules.append(Rule(module, row.id, row.statement, row.operator, _features(row.needs), (), row.contract))
        else:
            rules[-1] = replace(rules[-1], mistakes=(*rules[-1].mistakes, row.mistake(agreed)))
    return tuple(rules)


def _features(names: str) -> Lacks:
    return frozenset(map(Feature, names.split()))


def whole_run_rules(module: str, *, withdraw: str, withdraw_barrier: str = "") -> tuple[Rule, ...]:
    """The rules about whole runs, which all protocols have; ``judging`` names their checks.

    ``withdraw`` and ``withdraw_barrier`` are the actions of a send that is given up.
    """
    barrier = "The sending of a barrier can be cancelled at every await, likewise."
    received = "A receive can be cancelled at every await: it has taken nothing, and no message is lost."
    sent = "A send can be cancelled at every await: it has sent all or nothing, and no room is lost."
    observed = "What is seen of a run that nobody leads is explained by the model."
    recorded = "What the channel records of a run is a behaviour, and comes to rest at its end."
    end = "The end comes after everything that was sent, also what still waits."
    end_again = "An end can be cancelled at every await, and asked for again: everything comes, and then the end."
    abort = "A receiver is told that the stream was given up; it does not look like an end."
    stop = "A receiver that needs no more ends the stream: sends that wait fail, and so do later ones."
    of_barriers = [Duty("cancelled-barrier", withdraw_barrier, barrier, "cancellation barriers")]
    table = (
        Duty("every-edge", "Next", "In every state of the graph, every move comes to what the model says."),
        Duty("random-runs", "Spec", "In random runs, every move comes to what the model says."),
        Duty("cancelled-send", withdraw, sent, "cancellation"),
        *(of_barriers if withdraw_barrier else []),
        Duty("cancelled-receive", "Consume", received, "cancellation"),
        Duty("observed-run", "Spec", observed),
        Duty("recorded-run", "Spec", recorded, "recording"),
        Duty("end-comes-last", "", end, "end", contract="SendEnd.end"),
        Duty("cancelled-end", "", end_again, "end cancellation", contract="SendEnd.end"),
        Duty("abort-is-no-end", "", abort, "abort", contract="SendEnd.abort"),
        Duty("stop-ends-sends", "", stop, "stop", contract="ReceiveEnd.cancel"),
    )
    return rules_in(table, module)


class Graph(NamedTuple):
    """A channel that is small enough to visit all of its states."""

    agreed: Any
    sizes: tuple[int, ...]
    """Rows that its chunks may have."""
    lacks: Lacks = frozenset()
    """Features that it does not use."""
    waiters: int = MOST_WAITING


class Rulebook(ABC):
    """A protocol for the kit: its rules and model.  Each has a module in ``rulebooks``, named after the flow."""

    outside: ClassVar[type[Outside]]
    """The model as its applications see it."""
    pair: ClassVar[Callable[..., Any]]
    """Makes this project's two ends: takes the parameters, ``tags`` and ``record``."""
    rules: ClassVar[tuple[Rule, ...]]
    """The rules in the order of the report: first those with mistakes, then those about whole runs."""
    unit: ClassVar[str]
    """What a message needs to leave, in plural: "permits"."""
    plain: ClassVar[Any]
    """Parameters of a small channel."""
    not_modelled: ClassVar[Lacks] = frozenset()
    """Features that a channel may have, but that the specification does not model."""
    used_by_pairs: ClassVar[Lacks] = frozenset()
    """Features that ``drawn_pair`` needs."""

    @property
    def system(self) -> System[Any, Any]:
        """The model."""
        return self.outside.system

    @property
    def probed_rules(self) -> tuple[Rule, ...]:
        """The rules with mistakes, which probes check."""
        return tuple(rule for rule in self.rules if rule.mistakes)

    @property
    def pair_rules(self) -> tuple[Rule, ...]:
        """The rules that are checked on pairs: those that an action can break, and those about whole runs."""
        probed = (rule for rule in self.probed_rules if any(one.is_about_actions for one in rule.mistakes))
        return (*probed, *(rule for rule in self.rules if rule.id in ("every-edge", "random-runs", "recorded-run")))

    @abstractmethod
    def model(
        self, agreed: Any, sizes: Sequence[int], *, waiters: int, tags: int = 1, lacks: Lacks = frozenset()
    ) -> Any:
        """The specification's constants for a channel with these parameters and chunks of these sizes.

        ``waiters`` messages wait at most, and are numbered modulo ``tags`` (1: anonymous).
        """

    @abstractmethod
    def graphs(self, lacks: Lacks, hops: int) -> Sequence[Graph]:
        """Small channels that together show all behaviour of a channel without these features."""

    def pair_graphs(self, lacks: Lacks) -> Sequence[Graph]:
        """Likewise for a pair, whose whole state is visible."""
        return self.graphs(lacks, 1)

    @abstractmethod
    def left_out(self, lacks: Lacks) -> Collection[str]:
        """Actions that a pair without these features does not have."""

    @abstractmethod
    def drawn(self, integer: Integer, lacks: Lacks, hops: int) -> tuple[Any, tuple[int, ...]]:
        """Parameters and sizes for random runs of a channel."""

    @abstractmethod
    def drawn_pair(self, integer: Integer) -> tuple[Any, tuple[int, ...]]:
        """Likewise for a pair."""

    @abstractmethod
    def of_a_run(self, lacks: Lacks, *, is_observed: bool) -> tuple[Any, tuple[int, ...]]:
        """Parameters and sizes for a free run; smaller if it is only observed, as many behaviours may explain it."""

    def seen(
        self,
        agreed: Any,
        sizes: Sequence[int],
        *,
        hops: int = 1,
        lacks: Lacks = frozenset(),
        made: Sequence[Mistake] = (),
        waiters: int = MOST_WAITING,
    ) -> Outside:
        """A channel as its applications see it, perhaps with mistakes; the last mistake is applied first."""
        # Without a bound on the numbers, so that the application's chunk 7 is the model's chunk 7.
        parameters = self.model(agreed, sizes, waiters=waiters, tags=2**62, lacks=lacks)
        actions = {name: perform for one in made for name, perform in one.actions.items()}
        kind = next((one.outside for one in reversed(made) if not one.is_about_actions), self.outside)
        if not issubclass(kind, self.outside):
            kind = type(kind.__name__, (kind, self.outside), {})
        return kind(parameters, hops=hops, mistaken=actions)


def selected(rules: Sequence[Rule], only: Collection[str]) -> tuple[Rule, ...]:
    """The rules that are named, or all.

    Raises:
        InvalidParametersError: no rule has such a name.
    """
    ids = [rule.id for rule in rules]
    if unknown := sorted(set(only) - set(ids)):
        raise InvalidParametersError(name="only", value=unknown[0], rule=f"must be a rule: {', '.join(ids)}")
    return tuple(rule for rule in rules if not only or rule.id in only)


def alphabet_for(lacks: Lacks, sizes: Iterable[int]) -> tuple[Move, ...]:
    """The moves of the applications of a channel without these features, with chunks of these sizes."""
    moves = [Move("OfferChunk", (rows,)) for rows in sizes]
    if Feature.REFUSALS not in lacks:
        moves += [Move("SendChunkNow", (rows,)) for rows in sizes]
    if Feature.CANCELLATION not in lacks:
        moves += [Move("WithdrawChunk", (position,)) for position in range(2)]
    if Feature.BARRIERS not in lacks:
        moves += [Move("OfferBarrier")]
    if Feature.WATERMARKS not in lacks:
        moves += [Move("OfferWatermark")]
    if not {Feature.BARRIERS, Feature.CANCELLATION} & lacks:
        moves += [Move("WithdrawBarrier", (position,)) for position in range(2)]
    return (*moves, *([Move("Receive")] if Feature.ACKNOWLEDGEMENT in lacks else [Move("Take"), Move("Consume")]))


# Verdicts.


class Outcome(StrEnum):
    """The kinds of verdicts about a rule."""

    HOLDS = "holds"
    BREAKS = "breaks"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True)
class RuleVerdict:
    """The verdict about one rule."""

    rule: Rule
    outcome: Outcome
    finding: str
    """The checks made, the recognised mistake, or the missing feature, in words."""
    counterexample: tuple[str, ...] = ()
    """The numbered steps of the shortest run that breaks the rule; then the expected result."""
    error: BaseException | None = None
    """What the adapter has raised, if that is what breaks the rule."""

    @classmethod
    def raised(cls, rule: Rule, error: BaseException, run: Iterable[str] = ()) -> Self:
        """The verdict about an adapter that raised what no channel raises here, perhaps in a run."""
        return cls(rule, Outcome.BREAKS, raising(error), (*run, *_where(error)), error)

    @property
    def is_broken(self) -> bool:
        """Does the channel break the rule?"""
        return self.outcome is Outcome.BREAKS

    def describe(self) -> str:
        """The rule, its source, the finding, and the run."""
        lines = [f"{self.outcome.value} rule {self.rule.id!r}: {self.rule.statement}"]
        lines.append(f"({self.rule.clause})")
        lines.append(f"{self._sentence().removesuffix('.')}.")
        return "\n".join((*lines, *self.counterexample))

    def _sentence(self) -> str:
        """The finding: what "it" does, what "your" call does, or what was checked."""
        if not self.is_broken:
            return self.finding
        return f"Your{self.finding[4:]}" if self.finding.startswith("your ") else f"It {self.finding}"

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


def _first(error: BaseException) -> BaseException:
    """The first one of a group: what a task of the adapter's own task group has raised."""
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def raising(error: BaseException) -> str:
    """A finding."""
    error = _first(error)
    if isinstance(error, AdapterError):
        return str(error)
    return f"raises {type(error).__name__}: {shortened(str(error))}"


def _where(error: BaseException) -> list[str]:
    """The last lines of code that it came through."""
    error = _first(error)
    if isinstance(error, AdapterError):
        return []
    return [shortened(line) for line in "".join(format_exception(error)[-3:]).rstrip().splitlines()]


def place_of(error: BaseException) -> str:
    """The line of code that raised it; empty if that is the kit."""
    error = _first(error)
    frames = extract_tb(error.__traceback__)
    if isinstance(error, AdapterError) or not frames:
        return ""
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}, in {frames[-1].name}"


@dataclass(frozen=True)
class ConformanceReport:
    """The verdicts about one adapter."""

    adapter: str
    verdicts: tuple[RuleVerdict, ...]
    lacks: frozenset[Feature] = frozenset()
    flow: str = ""
    """The protocol whose rules these are."""
    unusable: str = ""
    """Why nothing could be checked, as a phrase that follows the adapter's name."""
    faults: tuple[str, ...] = ()
    """What is wrong with the adapter, whatever the rule: a sentence each."""
    watched: str = ""
    """How long the kit watched that nothing happens, if only a clock can tell."""

    @property
    def conforms(self) -> bool:
        """Is no rule broken that applies, and nothing else wrong?"""
        return not (self.broken or self.faults or self.unusable)

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
        """Ids of the rules about features that the channel lacks."""
        return self._of(Outcome.NOT_APPLICABLE)

    def _of(self, outcome: Outcome) -> tuple[str, ...]:
        return tuple(verdict.rule.id for verdict in self.verdicts if verdict.outcome is outcome)

    def __getitem__(self, rule: str) -> RuleVerdict:
        """The verdict about a rule, by its id.

        Raises:
            KeyError: there is no such rule, or it was not selected.
        """
        for verdict in self.verdicts:
            if verdict.rule.id == rule:
                return verdict
        raise KeyError(rule)

    def lacking(self) -> Iterator[str]:
        """The unchecked rules of each missing feature, and the mistakes that were not looked for."""
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

    def remarks(self) -> Iterator[str]:
        """What is to be said besides the verdicts: a line each."""
        yield from self.lacking()
        yield from (f"Y{fault[1:]}." if fault.startswith("your ") else f"{fault}." for fault in self.faults)
        if self.watched:
            yield self.watched

    def summary(self) -> str:
        """One line."""
        if self.unusable:
            return f"{self.adapter} {self.unusable}; no rule was checked"
        counts = ((len(self.held), "hold"), (len(self.broken), "broken"), (len(self.not_checked), "not applicable"))
        return f"{self.adapter}: {counted(len(self.verdicts), 'rule')}, " + ", ".join(
            f"{count} {what}" for count, what in counts
        )

    def __str__(self) -> str:
        width = max((len(verdict.rule.id) for verdict in self.verdicts), default=0)
        table = [f"{v.rule.id:{width}}  {v.outcome.value:14}  {v.finding}" for v in self.verdicts]
        broken = [f"\n{indent(verdict.describe(), '  ').strip()}" for verdict in self.verdicts if verdict.is_broken]
        return "\n".join((*table, *self.remarks(), *broken, self.summary()))

    def as_json(self) -> dict[str, object]:
        """For programs."""
        return {
            "adapter": self.adapter,
            "flow": self.flow,
            "conforms": self.conforms,
            "unusable": self.unusable,
            "faults": list(self.faults),
            "watched": self.watched,
            "lacks": sorted(feature.value for feature in self.lacks),
            "rules": [verdict.as_json() for verdict in self.verdicts],
        }
