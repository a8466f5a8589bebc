"""The kit as ordinary tests: subclass it, set your adapter, and pytest collects a test for every rule."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import pytest

from permitflow.errors import InvalidParametersError
from permitflow.flows.recording import RecorderFactory
from permitflow_testing.adapter import ChannelAdapter, Feature
from permitflow_testing.bounded import close_runner, new_loop
from permitflow_testing.judging import PERMITS, RANDOM_RUNS, ChannelJudge, PairJudge
from permitflow_testing.moves import PairAdapter
from permitflow_testing.rulebooks.table import rulebook_of
from permitflow_testing.rules import Outcome, Rule, Rulebook, RuleVerdict


class RuleBroken(AssertionError):
    """A rule of the specification does not hold; the message names the rule and its source, and shows a run."""


def _test_of(name: str, rule: Rule) -> "Callable[[_Kit], None]":
    def test(self: "_Kit") -> None:
        __tracebackhide__ = True
        self.check(rule)

    test.__doc__ = f"{rule.statement} ({rule.clause})"
    test.__name__ = name
    test.rule = rule  # type: ignore[attr-defined]  # marks the test as one of the kit's
    return test


class _Kit:
    """The common part of both kits."""

    flow: ClassVar[str] = PERMITS
    """The protocol whose rules become the tests of the class."""
    known_breaks: ClassVar[Mapping[str, str]] = {}
    """Rules that are known to be broken, each with the reason; their tests fail once they hold."""
    random_runs: ClassVar[int] = RANDOM_RUNS
    """Runs that Hypothesis draws."""

    def __init_subclass__(cls) -> None:
        """Add a test for each rule of the protocol, and none for the rules of another.

        Raises:
            InvalidParametersError: there is no such protocol, or ``known_breaks`` names something else than its rules.
        """
        super().__init_subclass__()
        rules = {f"test_{rule.id.replace('-', '_')}": rule for rule in cls.rules_of(rulebook_of(cls.flow))}
        ids = [rule.id for rule in rules.values()]
        if not isinstance(cls.known_breaks, Mapping) or not set(cls.known_breaks) <= set(ids):
            form = f"must have reasons by the names of rules, as in {{{ids[0]!r}: 'why'}}"
            raise InvalidParametersError(name="known_breaks", value=cls.known_breaks, rule=form)
        for other in (name for name in dir(cls) if hasattr(getattr(cls, name), "rule") and name not in rules):
            setattr(cls, other, None)
        for name, rule in rules.items():
            setattr(cls, name, _test_of(name, rule))

    @staticmethod
    def rules_of(book: Rulebook) -> tuple[Rule, ...]:
        """The rules that are checked."""
        return book.rules

    def check(self, rule: Rule) -> None:
        """Judge a rule, and pass, skip or fail as pytest does."""
        __tracebackhide__ = True
        verdict = self.verdict(rule)
        known = self.known_breaks.get(rule.id)
        if verdict.is_broken and known is not None:
            pytest.xfail(f"{known} (it {verdict.finding})")
        if verdict.is_broken:
            raise RuleBroken(verdict.describe())
        if known is not None:
            raise RuleBroken(f"rule {rule.id!r} is listed in known_breaks ({known}), but: {verdict.outcome.value}")
        if verdict.outcome is Outcome.NOT_APPLICABLE:
            pytest.skip(f"not applicable: {verdict.finding}")

    def verdict(self, rule: Rule) -> RuleVerdict:
        """The verdict about a rule."""
        raise NotImplementedError


class ChannelKit(_Kit):
    """Tests of a channel: ``class TestMine(ChannelKit): adapter = MyAdapter``."""

    adapter: Callable[[], ChannelAdapter]
    """The adapter's class; or override ``make_adapter``."""
    runner: ClassVar[asyncio.Runner | None] = None
    """Runs the channels' event loop; by default each test class has a loop of its own."""
    judge: ClassVar[ChannelJudge | None] = None
    """The judge; by default one for each test class.  Set it to share its verdicts."""
    _own_runner: ClassVar[asyncio.Runner | None] = None
    _told: ClassVar[frozenset[str]] = frozenset()
    """Faults of the adapter that a test has told."""

    def make_adapter(self) -> ChannelAdapter:
        """A new adapter, for one run."""
        return type(self).adapter()

    def check(self, rule: Rule) -> None:
        """Judge a rule; what is wrong with the adapter, whatever the rule, fails the test in which it is seen."""
        __tracebackhide__ = True
        super().check(rule)
        cls = type(self)
        assert cls.judge is not None
        for fault in cls.judge.faults([self.verdict(rule)]):
            if fault not in cls._told:
                cls._told |= {fault}
                raise RuleBroken(fault)

    def verdict(self, rule: Rule) -> RuleVerdict:
        """The verdict about a rule, computed once for the class."""
        cls = type(self)
        if cls.judge is None:
            if cls.runner is None:
                cls.runner = cls._own_runner = asyncio.Runner(loop_factory=new_loop)
            cls.judge = ChannelJudge(self.make_adapter, flow=cls.flow, runner=cls.runner, random_runs=self.random_runs)
        return cls.judge.verdict(rule)

    @classmethod
    def teardown_class(cls) -> None:
        """Close the loop."""
        if cls._own_runner is not None:
            close_runner(cls._own_runner)
        cls.judge = cls._own_runner = None


class PairKit(_Kit):
    """Tests of a pair of ends that is moved step by step: ``make_pair`` makes one at rest."""

    lacks: ClassVar[frozenset[Feature]] = frozenset()
    """Features that the pair does not have."""
    random_runs: ClassVar[int] = 40
    judge: ClassVar[PairJudge | None] = None
    """The judge; by default one for each test class."""

    @staticmethod
    def rules_of(book: Rulebook) -> tuple[Rule, ...]:
        """The rules that pairs can break."""
        return book.pair_rules

    def make_pair(self, parameters: Any, tags: int, record: RecorderFactory | None) -> PairAdapter:
        """A pair at rest.  ``observe`` numbers chunks modulo ``tags``; without ``record`` it can be pickled."""
        raise NotImplementedError

    def verdict(self, rule: Rule) -> RuleVerdict:
        """The verdict about a rule, computed once for the class."""
        kit = type(self)
        if kit.judge is None:
            kit.judge = PairJudge(self.make_pair, flow=kit.flow, lacks=self.lacks, random_runs=self.random_runs)
        return kit.judge.verdict(rule)
