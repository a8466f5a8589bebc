"""Judges channels and pairs of ends: every rule, one after the other.

A pair is moved step by step and shows its whole state after each step, unlike a channel.  So a mistake is visible at
once, and is recognised by the state that the mistaken action would have reached.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from dataclasses import replace
from functools import cache, partial
from traceback import format_exception
from typing import Any, NamedTuple, TypeAlias

from permitflow.testing.kit.adapter import Feature, lacks_of, require_methods
from permitflow.testing.kit.cancelling import SEND, SEND_BARRIER, TAKE, cancel_everywhere
from permitflow.testing.kit.leading import walk_graphs
from permitflow.testing.kit.probes import Probing
from permitflow.testing.kit.rules import (
    FEW,
    MakeAdapter,
    MakePair,
    Mistake,
    Outcome,
    Report,
    Rule,
    Rulebook,
    RuleVerdict,
    rulebook_of,
    selected,
)
from permitflow.testing.kit.whole_runs import abort_run, end_run, observe_run, record_run
from permitflow.testing.moves import Divergence, Move, PairAdapter, moves_of, step, walk
from permitflow.testing.traces import judge_all
from permitflow.tracing.file import MemoryTrace
from permitflow_model.kernel.explore import explore
from permitflow_model.kernel.system import Disabled

RANDOM_RUNS = 60

PERMITS = "permits"
"""The default flow."""


def judge_adapter(
    make: MakeAdapter,
    *,
    flow: str = PERMITS,
    name: str = "",
    only: Collection[str] = (),
    runner: asyncio.Runner | None = None,
    random_runs: int = RANDOM_RUNS,
) -> Report:
    """Check every rule of the specification against a channel.

    Args:
        make: an adapter's class, or a function that makes adapters.
        flow: the protocol that the channel claims to obey.
        name: for the report; by default the adapter's class.
        only: ids of rules; by default all.
        runner: runs the channel's event loop; by default a new one.
        random_runs: how many runs Hypothesis draws.

    Raises:
        InvalidParametersError: there is no such flow or rule, or the adapter lacks a method.
    """
    if runner is None:
        with asyncio.Runner() as own:
            return judge_adapter(make, flow=flow, name=name, only=only, runner=own, random_runs=random_runs)
    return ChannelJudge(make, flow=flow, runner=runner, random_runs=random_runs).report(name, only)


def judge_pair(
    make: MakePair,
    *,
    flow: str = PERMITS,
    name: str,
    lacks: Iterable[Feature] = (),
    only: Iterable[str] = (),
    random_runs: int = 40,
) -> Report:
    """Check every rule of the specification against a pair of ends.

    Args:
        make: makes a pair at rest.
        flow: the protocol that the pair claims to obey.
        name: for the report.
        lacks: features that the pair does not have.
        only: ids of rules; by default all.
        random_runs: how many runs Hypothesis draws.

    Raises:
        InvalidParametersError: there is no such flow, or no such rule that is checked on pairs.
    """
    return PairJudge(make, flow=flow, lacks=lacks, random_runs=random_runs).report(name, tuple(only))


class _Judge:
    """The common part of both judges."""

    def __init__(self, flow: str, lacks: frozenset[Feature]) -> None:
        self.book = rulebook_of(flow)
        self._flow = flow
        self.lacks = lacks
        self._verdicts: dict[str, RuleVerdict] = {}

    def verdict(self, rule: Rule) -> RuleVerdict:
        """The verdict about a rule; it is computed once."""
        if rule.id not in self._verdicts:
            self._verdicts[rule.id] = self._judged(rule)
        return self._verdicts[rule.id]

    def _judged(self, rule: Rule) -> RuleVerdict:
        if lacking := sorted(rule.needs & self.lacks):
            return RuleVerdict(rule, Outcome.NOT_APPLICABLE, f"lacks {', '.join(lacking)}")
        try:
            return self._checked(rule)
        except Exception as error:  # an adapter that raises an unexpected exception breaks the rule
            where = "".join(format_exception(error)[-3:]).rstrip().splitlines()
            return RuleVerdict(rule, Outcome.BREAKS, f"raises {type(error).__name__}: {error}", tuple(where))

    def _checked(self, rule: Rule) -> RuleVerdict:
        raise NotImplementedError

    def _report(self, name: str, rules: Sequence[Rule], only: Collection[str]) -> Report:
        return Report(name, tuple(map(self.verdict, selected(rules, only))), self.lacks, self._flow)


_Check: TypeAlias = Callable[[Rulebook, Rule, MakeAdapter], Coroutine[None, None, RuleVerdict]]

_CHECKS: dict[str, _Check] = {
    "every-edge": walk_graphs,
    "cancelled-send": partial(cancel_everywhere, SEND),
    "cancelled-barrier": partial(cancel_everywhere, SEND_BARRIER),
    "cancelled-receive": partial(cancel_everywhere, TAKE),
    "observed-run": observe_run,
    "recorded-run": record_run,
    "end-comes-last": end_run,
    "abort-is-no-end": abort_run,
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
        adapter = make()
        require_methods(adapter)
        super().__init__(flow, lacks_of(adapter))
        self._make = make
        self._runner = runner
        self._random_runs = random_runs
        self._probing = Probing(self.book, make)

    def report(self, name: str = "", only: Collection[str] = ()) -> Report:
        """The verdicts about all rules, or about the named ones."""
        return self._report(name or type(self._make()).__name__, self.book.rules, only)

    def _checked(self, rule: Rule) -> RuleVerdict:
        if rule.mistakes:
            return self._runner.run(self._probing.verdict(rule))
        if rule.id == "random-runs":
            return self._judged_at_random(rule)
        return self._runner.run(_CHECKS[rule.id](self.book, rule, self._make))

    def _judged_at_random(self, rule: Rule) -> RuleVerdict:
        edges = self._verdicts.get("every-edge")
        if edges is not None and edges.is_broken:
            # Shrinking another failing run takes long and adds no information.
            return RuleVerdict(rule, Outcome.NOT_APPLICABLE, "not run, because 'every-edge' is broken")
        from permitflow.testing.kit.random_runs import random_runs

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

    def report(self, name: str, only: Collection[str] = ()) -> Report:
        """The verdicts about all rules, or about the named ones."""
        return self._report(name, self.book.pair_rules, only)

    def _checked(self, rule: Rule) -> RuleVerdict:
        match rule.id:
            case "every-edge":
                return self._walk(rule)
            case "random-runs":
                from permitflow.testing.kit.random_runs import random_pairs

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
            pair, state = self._make(mistake.agreed, parameters.tags, None), self._system.initial(parameters)
            for number, move in enumerate(probe, start=1):
                try:
                    state = step(self._system, pair, parameters, state, move)
                except Divergence as problem:
                    steps = [f"{number}. {move!r}" for number, move in enumerate(probe[:number], start=1)]
                    steps += [f"   {line.strip()}" for line in str(problem).splitlines()]
                    return self._told(rule, mistake, _Mishap(pair, parameters, state, move, tuple(steps)))
            moves += len(probe)
        return RuleVerdict(rule, Outcome.HOLDS, f"{moves} steps, the shortest that would show a mistake")

    def _told(self, rule: Rule, asked: Mistake, wrong: "_Mishap") -> RuleVerdict:
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
        pair, state = self._make(agreed, parameters.tags, trace.recorder), self._system.initial(parameters)
        never, choose = self.book.left_out(self.lacks), random.Random(self.SEED)
        moves = [move for move in moves_of(self._system, parameters) if move.action not in never]
        try:
            for _ in range(self.RECORDED_STEPS):
                enabled = [m for m in moves if self._system.is_enabled(m.action, state, parameters, *m.arguments)]
                state = step(self._system, pair, parameters, state, choose.choice(enabled))
        except Divergence as problem:
            return RuleVerdict(rule, Outcome.BREAKS, "does something else than the model", (str(problem),))
        if not trace.events:
            return RuleVerdict(rule, Outcome.NOT_APPLICABLE, "it recorded nothing")
        for verdict in (one for by_end in (False, True) for one in judge_all(trace.trace(), by_end=by_end)):
            if not verdict.is_valid:
                finding = "leaves the specification, as it recorded itself"
                return RuleVerdict(rule, Outcome.BREAKS, finding, (verdict.describe(),))
        return RuleVerdict(rule, Outcome.HOLDS, f"{len(trace.events)} recorded events")


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
