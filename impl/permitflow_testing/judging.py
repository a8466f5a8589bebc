"""Judges channels and pairs of ends: every rule, one after the other.

A pair is moved step by step and shows its whole state after each step, unlike a channel.  So a mistake is visible at
once, and is recognised by the state that the mistaken action would have reached.
"""

import asyncio
import random
import re
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

from permitflow.errors import InvalidParametersError, counted
from permitflow.tracing.file import MemoryTrace
from permitflow_model.kernel.explore import explore
from permitflow_model.kernel.system import Disabled
from permitflow_testing.adapter import Feature, require_methods
from permitflow_testing.blocking import BLOCKED_SECONDS, LoopBlocked, LoopWatch, WhenStuck, print_stuck
from permitflow_testing.bounded import AdapterError, BoundedAdapter, Habits, MakeBounded, own_runner
from permitflow_testing.cancelling import SEND, SEND_BARRIER, TAKE, cancel_everywhere
from permitflow_testing.leading import walk_graphs
from permitflow_testing.moves import Divergence, Lockstep, Move, PairAdapter, moves_of, walk
from permitflow_testing.probes import Probing
from permitflow_testing.rulebooks.table import rulebook_of
from permitflow_testing.rules import (
    FEW,
    ConformanceReport,
    MakeAdapter,
    MakePair,
    Mistake,
    Outcome,
    Rule,
    Rulebook,
    RuleVerdict,
    place_of,
    raising,
    selected,
)
from permitflow_testing.traces import judge_all
from permitflow_testing.whole_runs import abort_run, cancelled_end_run, end_run, observe_run, record_run, stop_run

T = TypeVar("T")

CANCELS_ALL = "cancels tasks that are not its own: the kit's was among them"

RANDOM_RUNS = 60

_NUMBER = re.compile(r"\b[0-9a-f]*[0-9][0-9a-f]*\b")
"""Decimal or hexadecimal."""

PERMITS = "permits"
"""The default flow."""

WhenJudged: TypeAlias = Callable[[RuleVerdict], object]


def judge_adapter(
    make: MakeAdapter,
    *,
    flow: str = PERMITS,
    name: str = "",
    only: Collection[str] = (),
    runner: asyncio.Runner | None = None,
    random_runs: int = RANDOM_RUNS,
    when_judged: WhenJudged = lambda _: None,
    blocked_seconds: float = BLOCKED_SECONDS,
    when_stuck: WhenStuck = print_stuck,
) -> ConformanceReport:
    """Check every rule of the specification against a channel.

    It comes to its end, whatever the adapter does: a call that does not end is cancelled some times, and left alone.

    Args:
        make: an adapter's class, or a function that makes adapters.
        flow: the protocol that the channel claims to obey.
        name: for the report; by default the adapter's class.
        only: ids of rules; by default all.
        runner: runs the channel's event loop; by default a new one.
        random_runs: how many runs Hypothesis draws.
        when_judged: is called with each verdict as soon as it is there.
        blocked_seconds: an adapter's code that holds the event loop for this long is interrupted.
        when_stuck: is called with the stack, in another thread, if even that does not help.

    Raises:
        InvalidParametersError: there is no such flow or rule, or the adapter lacks a method.
    """
    with own_runner() if runner is None else nullcontext(runner) as running:
        judge = ChannelJudge(make, flow=flow, runner=running, random_runs=random_runs)
        judge.watch = LoopWatch(blocked_seconds, when_stuck)
        return judge.report(name, only, when_judged)


def judge_pair(
    make: MakePair,
    *,
    flow: str = PERMITS,
    name: str,
    lacks: Iterable[Feature] = (),
    only: Iterable[str] = (),
    random_runs: int = 40,
    when_judged: WhenJudged = lambda _: None,
) -> ConformanceReport:
    """Check every rule of the specification against a pair of ends.

    Args:
        make: makes a pair at rest.
        flow: the protocol that the pair claims to obey.
        name: for the report.
        lacks: features that the pair does not have.
        only: ids of rules; by default all.
        random_runs: how many runs Hypothesis draws.
        when_judged: is called with each verdict as soon as it is there.

    Raises:
        InvalidParametersError: there is no such flow, or no such rule that is checked on pairs.
    """
    return PairJudge(make, flow=flow, lacks=lacks, random_runs=random_runs).report(name, tuple(only), when_judged)


class _Judge:
    """The common part of both judges."""

    def __init__(self, flow: str, lacks: frozenset[Feature]) -> None:
        self.book = rulebook_of(flow)
        self._flow = flow
        self.lacks = lacks
        self._verdicts: dict[str, RuleVerdict] = {}
        self._told: dict[tuple[str, str], str] = {}
        """Exceptions of the adapter, each with the rule under which it was told."""
        self._given_up = ""

    @property
    def cut_short(self) -> str:
        """Why it is useless to check more rules; empty if it is not."""
        return self._given_up

    def verdict(self, rule: Rule) -> RuleVerdict:
        """The verdict about a rule; it is computed once."""
        if rule.id not in self._verdicts:
            self._verdicts[rule.id] = self._judged(rule)
        return self._verdicts[rule.id]

    def _judged(self, rule: Rule) -> RuleVerdict:
        if lacking := sorted(rule.needs & self.lacks):
            return RuleVerdict(rule, Outcome.NOT_APPLICABLE, f"lacks {', '.join(lacking)}")
        try:
            return self._once(self._checked(rule))
        except Exception as error:  # an adapter that raises an unexpected exception breaks the rule
            return self._once(RuleVerdict.raised(rule, error))

    def _once(self, verdict: RuleVerdict) -> RuleVerdict:
        """The same verdict, unless it tells an exception that was told before, perhaps with other numbers."""
        if verdict.error is None:
            return verdict
        if isinstance(verdict.error, AdapterError):
            self._given_up = self._given_up or verdict.error.ends_all
            if not verdict.error.breaks_rule:
                return RuleVerdict(verdict.rule, Outcome.NOT_APPLICABLE, f"not asked to its end: {verdict.error}")
        sentence = _NUMBER.sub("", raising(verdict.error))
        told = self._told.setdefault((sentence, place_of(verdict.error)), verdict.rule.id)
        if told == verdict.rule.id:
            return verdict
        finding = f"cannot be told: {verdict.finding}, as under {told!r}"
        return RuleVerdict(verdict.rule, Outcome.NOT_APPLICABLE, finding)

    def _checked(self, rule: Rule) -> RuleVerdict:
        raise NotImplementedError

    def _report(self, name: str, rules: Sequence[Rule], when_judged: WhenJudged) -> ConformanceReport:
        verdicts = []
        for rule in rules:
            if self.cut_short:
                break
            verdicts.append(self.verdict(rule))
            when_judged(verdicts[-1])
        return ConformanceReport(name, tuple(verdicts), self.lacks, self._flow)


_Check: TypeAlias = Callable[[Rulebook, Rule, MakeBounded], Coroutine[None, None, RuleVerdict]]

_CHECKS: dict[str, _Check] = {
    "every-edge": walk_graphs,
    "cancelled-send": partial(cancel_everywhere, SEND),
    "cancelled-barrier": partial(cancel_everywhere, SEND_BARRIER),
    "cancelled-receive": partial(cancel_everywhere, TAKE),
    "observed-run": observe_run,
    "recorded-run": record_run,
    "end-comes-last": end_run,
    "cancelled-end": cancelled_end_run,
    "abort-is-no-end": abort_run,
    "stop-ends-sends": stop_run,
}


class ChannelJudge(_Judge):
    """Judges the channels that one factory makes."""

    def __init__(
        self, make: MakeAdapter, *, flow: str = PERMITS, runner: asyncio.Runner, random_runs: int = RANDOM_RUNS
    ) -> None:
        """``make`` is an adapter's class, or a function that makes adapters; all run in the loop of ``runner``.

        Raises:
            InvalidParametersError: there is no such flow, or the adapter lacks a method that is needed for anything.
        """
        try:
            adapter = make()
        except (Exception, SystemExit) as error:
            rule = f"must be made without arguments, but {raising(error)}"
            raise InvalidParametersError(name="adapter", value=getattr(make, "__name__", make), rule=rule) from error
        require_methods(adapter)
        self.habits = Habits()
        super().__init__(flow, BoundedAdapter(adapter, self.habits).lacks)
        self._name = type(adapter).__name__
        self._make: MakeBounded = lambda: BoundedAdapter(make(), self.habits)
        self._runner = runner
        self._random_runs = random_runs
        self._probing = Probing(self.book, self._make)
        self.watch = LoopWatch()
        self._cannot_open: str | None = None

    def report(
        self, name: str = "", only: Collection[str] = (), when_judged: WhenJudged = lambda _: None
    ) -> ConformanceReport:
        """The verdicts about all rules, or about the named ones."""
        rules, name = selected(self.book.rules, only), name or self._name
        if self.cannot_open:
            return ConformanceReport(name, (), self.lacks, self._flow, unusable=self.cannot_open)
        report = self._report(name, rules, when_judged)
        faults = self.faults(report.verdicts)
        if (asked := len(report.verdicts)) < len(rules):
            faults += (f"asked {asked} of {counted(len(rules), 'rule')}, because {self.cut_short}",)
        return replace(report, faults=faults, watched=self._make().watched())

    @property
    def cut_short(self) -> str:
        """Nothing can be learnt where the adapter blocks everything, or does not answer."""
        return "the adapter blocks the event loop" if self.watch.blocked else super().cut_short

    def faults(self, verdicts: Iterable[RuleVerdict]) -> tuple[str, ...]:
        """What is wrong with the adapter, whatever the rule, unless a verdict says it."""
        findings = "\n".join(verdict.finding for verdict in verdicts)
        return tuple(fault for fault in self.habits.faults.values() if fault not in findings)

    @property
    def cannot_open(self) -> str:
        """Why no channel can be opened; empty if one can.  It is tried once."""
        if self._cannot_open is None:
            try:
                self._run(_open_and_close(self._make(), self.book.plain))
                self._cannot_open = ""
            except LoopBlocked:
                self._cannot_open = f"cannot be opened: it {self.watch.sentence}"
            except asyncio.CancelledError:
                self._cannot_open = f"cannot be used: it {CANCELS_ALL}"
            except (Exception, SystemExit) as error:
                what, where = raising(error), place_of(error)
                what = f"it {what}" if what.startswith("raises") else what
                self._cannot_open = f"cannot be opened: {what}" + (f" ({where})" if where else "")
        return self._cannot_open

    def _judged(self, rule: Rule) -> RuleVerdict:
        if self.cannot_open and not self._verdicts:
            return RuleVerdict(rule, Outcome.BREAKS, self.cannot_open)
        if self.cannot_open:
            return RuleVerdict(rule, Outcome.NOT_APPLICABLE, "not run, because the adapter cannot be opened")
        if self.cut_short:
            return RuleVerdict(rule, Outcome.NOT_APPLICABLE, f"not run, because {self.cut_short}")
        verdict = self._interrupted(rule)
        if self.watch.blocked and not verdict.is_broken:
            return self._blocks(rule)
        return verdict

    def _interrupted(self, rule: Rule) -> RuleVerdict:
        """The verdict, also about an adapter that takes the kit's own task with it."""
        try:
            return super()._judged(rule)
        except LoopBlocked:
            return self._blocks(rule)
        except asyncio.CancelledError:
            return RuleVerdict(rule, Outcome.BREAKS, CANCELS_ALL)
        except SystemExit as error:
            self._given_up = "the adapter ends the program"
            return RuleVerdict.raised(rule, error)

    def _blocks(self, rule: Rule) -> RuleVerdict:
        return RuleVerdict(rule, Outcome.BREAKS, self.watch.sentence, tuple(self.watch.blocked))

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        with self.watch.over(self._runner.get_loop()):
            return self._runner.run(coroutine)

    def _checked(self, rule: Rule) -> RuleVerdict:
        if rule.mistakes:
            return self._run(self._probing.verdict(rule))
        if rule.id == "random-runs":
            with self.watch.over(self._runner.get_loop()):
                return self._judged_at_random(rule)
        return self._run(_CHECKS[rule.id](self.book, rule, self._make))

    def _judged_at_random(self, rule: Rule) -> RuleVerdict:
        edges = self._verdicts.get("every-edge")
        if edges is not None and (edges.is_broken or edges.error is not None):
            # Shrinking another failing run takes long and adds no information.
            return RuleVerdict(rule, Outcome.NOT_APPLICABLE, "not run, because 'every-edge' is broken")
        if self._told:
            return RuleVerdict(rule, Outcome.NOT_APPLICABLE, "not run, because the adapter raises exceptions")
        from permitflow_testing.random_runs import random_runs

        return random_runs(self.book, rule, self._make, self._runner, runs=self._random_runs)


class PairJudge(_Judge):
    """Judges the pairs that one factory makes."""

    RECORDED_STEPS = 400
    SEED = 11

    def __init__(
        self, make: MakePair, *, flow: str = PERMITS, lacks: Iterable[Feature] = (), random_runs: int = 40
    ) -> None:
        """``lacks`` are features that the pairs do not have.

        Raises:
            InvalidParametersError: there is no such flow.
        """
        super().__init__(flow, frozenset(lacks))
        self._make = make
        self._system = self.book.system
        self._random_runs = random_runs

    def report(
        self, name: str, only: Collection[str] = (), when_judged: WhenJudged = lambda _: None
    ) -> ConformanceReport:
        """The verdicts about all rules, or about the named ones."""
        return self._report(name, selected(self.book.pair_rules, only), when_judged)

    def _checked(self, rule: Rule) -> RuleVerdict:
        match rule.id:
            case "every-edge":
                return self._walk(rule)
            case "random-runs":
                from permitflow_testing.random_runs import random_pairs

                return random_pairs(self.book, rule, self._make, runs=self._random_runs, lacks=self.lacks)
            case "recorded-run":
                return self._record(rule)
        return self._probe(rule)

    def _probe(self, rule: Rule) -> RuleVerdict:
        moves = 0
        for mistake in rule.mistakes:
            if not mistake.is_about_actions or mistake.needs & self.lacks:
                continue
            parameters = self.book.model(mistake.agreed, mistake.sizes, waiters=2, tags=FEW)
            probe = _probe_for(self.book, mistake, parameters)
            pair = self._make(mistake.agreed, parameters.tags, None)
            run = Lockstep(self._system, pair, parameters)
            for number, move in enumerate(probe, start=1):
                try:
                    run.make(move)
                except Divergence as problem:
                    steps = [f"{number}. {move!r}" for number, move in enumerate(probe[:number], start=1)]
                    steps += [f"   {line.strip()}" for line in str(problem).splitlines()]
                    return self._mishap(rule, mistake, _Mishap(pair, parameters, run.state, move, tuple(steps)))
            moves += len(probe)
        if not moves:
            return RuleVerdict(rule, Outcome.NOT_APPLICABLE, "a pair without these features cannot break it")
        return RuleVerdict(rule, Outcome.HOLDS, f"{counted(moves, 'step')}, the shortest that would show a mistake")

    def _mishap(self, rule: Rule, asked: Mistake, wrong: "_Mishap") -> RuleVerdict:
        """The verdict about a rule after a diverging run that was made for the mistake ``asked``."""
        if wrong.is_due_to(self.book, asked):
            return RuleVerdict(rule, Outcome.BREAKS, asked.name, wrong.steps)
        for other in (mistake for any_rule in self.book.probed_rules for mistake in any_rule.mistakes):
            if other.is_about_actions and wrong.is_due_to(self.book, other):
                finding = f"cannot be told: before it comes to that, it {other.name}"
                return RuleVerdict(rule, Outcome.NOT_APPLICABLE, finding)
        finding = f"does something else than the model, in a run that asks whether it {asked.name}"
        return RuleVerdict(rule, Outcome.BREAKS, finding, wrong.steps)

    def _walk(self, rule: Rule) -> RuleVerdict:
        edges = refusals = of_edges = 0
        for graph in self.book.pair_graphs(self.lacks):
            never = self.book.left_out(graph.lacks)
            parameters = self.book.model(graph.agreed, graph.sizes, waiters=graph.waiters)
            actions = tuple(action for action in self._system.actions if action.name not in never)
            of_edges += len(explore(replace(self._system, actions=actions), parameters, invariants={}).edges)
            try:
                pair = self._make(graph.agreed, parameters.tags, None)
                done = walk(self._system, pair, parameters, never=never)
            except Divergence as problem:
                finding = "does something else than the model in a state of the graph"
                return RuleVerdict(rule, Outcome.BREAKS, finding, tuple(str(problem).splitlines()))
            edges, refusals = edges + done.edges, refusals + done.refusals
        return RuleVerdict(rule, Outcome.HOLDS, f"{edges:,} of {of_edges:,} edges walked, {refusals:,} moves refused")

    def _record(self, rule: Rule) -> RuleVerdict:
        agreed, sizes = self.book.of_a_run(self.lacks, is_observed=False)
        parameters, trace = self.book.model(agreed, sizes, waiters=3, tags=FEW), MemoryTrace()
        run = Lockstep(self._system, self._make(agreed, parameters.tags, trace.recorder), parameters)
        never, choose = self.book.left_out(self.lacks), random.Random(self.SEED)
        try:
            for _ in range(self.RECORDED_STEPS):
                run.make(choose.choice([move for move in run.enabled() if move.action not in never]))
        except Divergence as problem:
            return RuleVerdict(rule, Outcome.BREAKS, "does something else than the model", (str(problem),))
        if not trace.events:
            return RuleVerdict(rule, Outcome.NOT_APPLICABLE, "it recorded nothing")
        for verdict in (one for by_end in (False, True) for one in judge_all(trace.trace(), by_end=by_end)):
            if not verdict.is_valid:
                finding = "leaves the specification, as it recorded itself"
                return RuleVerdict(rule, Outcome.BREAKS, finding, (verdict.describe(),))
        return RuleVerdict(rule, Outcome.HOLDS, counted(len(trace.events), "recorded event"))


async def _open_and_close(adapter: BoundedAdapter, parameters: Any) -> None:
    async with adapter.opened(parameters, MemoryTrace().recorder):
        pass


class _Mishap(NamedTuple):
    """A pair that has just diverged from the model."""

    pair: PairAdapter
    parameters: Any
    before: Any
    move: Move
    steps: tuple[str, ...]
    """The run, in words."""

    def is_due_to(self, book: Rulebook, mistake: Mistake) -> bool:
        """Does the mistaken model do the same?"""
        try:
            return bool(_result(book, mistake, self.before, self.parameters, self.move) == self.pair.observe())
        except Divergence:
            return False


def _result(book: Rulebook, mistake: Mistake | None, state: Any, parameters: Any, move: Move) -> Any:
    """The model's state after a move, perhaps with a mistake; the same state if it refuses the move."""
    perform = book.system.action(move.action).perform
    if mistake is not None:
        perform = mistake.actions.get(move.action, perform)
    try:
        return perform(state, parameters, *move.arguments)
    except Disabled:
        return state


@cache
def _probe_for(book: Rulebook, mistake: Mistake, parameters: Any) -> tuple[Move, ...]:
    """The shortest run whose last step has another result with the mistake than without."""
    start = book.system.initial(parameters)
    moves = tuple(moves_of(book.system, parameters))
    todo: deque[tuple[Any, tuple[Move, ...]]] = deque([(start, ())])
    met = {start}
    while todo:
        state, run = todo.popleft()
        for move in moves:
            right = _result(book, None, state, parameters, move)
            if right != _result(book, mistake, state, parameters, move):
                return (*run, move)
            if right not in met:
                met.add(right)
                todo.append((right, (*run, move)))
    raise AssertionError(f"no run shows that it {mistake.name}")
