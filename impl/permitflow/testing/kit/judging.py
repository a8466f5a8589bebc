"""Judges channels and pairs of ends: every rule, one after the other.

Of a pair, whose every step is made by hand, more is seen than of a channel: the whole state after every step.  So a
mistake shows one step after it was made, and it is told by what the mistaken action would have come to.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from dataclasses import replace
from functools import cache
from traceback import format_exception
from typing import NamedTuple, TypeAlias

from permitflow.protocol.permits import ChannelParameters
from permitflow.protocol.recording import RecorderFactory
from permitflow.testing.kit.adapter import Feature, lacks_of, require_methods
from permitflow.testing.kit.cancelling import CancelledBarrier, CancelledReceive, CancelledSend, cancel_everywhere
from permitflow.testing.kit.mistakes import spoilt
from permitflow.testing.kit.outside import Outside
from permitflow.testing.kit.probes import Probing
from permitflow.testing.kit.report import Outcome, Report, RuleVerdict
from permitflow.testing.kit.rules import (
    PROBED_RULES,
    RUN_RULES,
    MakeAdapter,
    Mistake,
    Rule,
    all_rules,
    constants,
    selected,
)
from permitflow.testing.kit.walking import walk_graphs
from permitflow.testing.kit.whole_runs import abort_run, end_run, observe_run, record_run
from permitflow.testing.moves import Divergence, Move, PairAdapter, moves_of, step, walk
from permitflow.testing.subjects.permits import model_of
from permitflow.testing.traces import judge_all
from permitflow.tracing.file import MemoryTrace
from permitflow_model.kernel.explore import explore
from permitflow_model.kernel.system import Disabled
from permitflow_model.permit_channel import SYSTEM, Parameters, State

__all__ = ["RANDOM_RUNS", "ChannelJudge", "MakePair", "PairJudge", "judge_adapter", "judge_pair", "pair_rules"]

RANDOM_RUNS = 60

MakePair: TypeAlias = Callable[[ChannelParameters, int, RecorderFactory | None], PairAdapter]
"""Makes a pair at rest: the parameters, the number of chunk numbers, and where to record what it does, if at all."""


def judge_adapter(
    make: MakeAdapter,
    *,
    name: str = "",
    only: Collection[str] = (),
    runner: asyncio.Runner | None = None,
    random_runs: int = RANDOM_RUNS,
) -> Report:
    """Check every rule of the specification against a channel.

    Args:
        make: an adapter's class, or a function that makes adapters.
        name: for the report; by default the adapter's class.
        only: ids of rules; by default all.
        runner: whose loop the channel lives in; by default a new one.
        random_runs: how many runs Hypothesis draws.

    Raises:
        InvalidParametersError: ``only`` names a rule that does not exist, or the adapter lacks a method.
    """
    if runner is None:
        with asyncio.Runner() as own:
            return judge_adapter(make, name=name, only=only, runner=own, random_runs=random_runs)
    return ChannelJudge(make, runner=runner, random_runs=random_runs).report(name, only)


def judge_pair(
    make: MakePair,
    *,
    name: str,
    lacks: Iterable[Feature] = (),
    only: Iterable[str] = (),
    random_runs: int = 40,
) -> Report:
    """Check every rule of the specification against a pair of ends.

    Args:
        make: makes a pair at rest.
        name: for the report.
        lacks: features without which it is.
        only: ids of rules; by default all.
        random_runs: how many runs Hypothesis draws.

    Raises:
        InvalidParametersError: ``only`` names a rule that is not checked on pairs.
    """
    return PairJudge(make, lacks=lacks, random_runs=random_runs).report(name, tuple(only))


class _Judge:
    """What both judges share."""

    def __init__(self, lacks: frozenset[Feature]) -> None:
        self.lacks = lacks
        self._verdicts: dict[str, RuleVerdict] = {}

    def verdict(self, rule: Rule) -> RuleVerdict:
        """What can be said about a rule; a verdict once found is kept."""
        if rule.id not in self._verdicts:
            self._verdicts[rule.id] = self._judged(rule)
        return self._verdicts[rule.id]

    def _judged(self, rule: Rule) -> RuleVerdict:
        if lacking := sorted(rule.needs & self.lacks):
            return RuleVerdict(rule, Outcome.NOT_APPLICABLE, f"lacks {', '.join(lacking)}")
        try:
            return self._checked(rule)
        except Exception as error:  # an adapter that raises where it should not has broken the rule
            where = "".join(format_exception(error)[-3:]).rstrip().splitlines()
            return RuleVerdict(rule, Outcome.BREAKS, f"raises {type(error).__name__}: {error}", tuple(where))

    def _checked(self, rule: Rule) -> RuleVerdict:
        raise NotImplementedError

    def _report(self, name: str, rules: Sequence[Rule], only: Collection[str]) -> Report:
        return Report(name, tuple(map(self.verdict, selected(rules, only))), self.lacks)


_Check: TypeAlias = Callable[[Rule, MakeAdapter], Coroutine[None, None, RuleVerdict]]

_CHECKS: dict[str, _Check] = {
    "every-edge": walk_graphs,
    "cancelled-send": lambda rule, make: cancel_everywhere(rule, CancelledSend, make),
    "cancelled-barrier": lambda rule, make: cancel_everywhere(rule, CancelledBarrier, make),
    "cancelled-receive": lambda rule, make: cancel_everywhere(rule, CancelledReceive, make),
    "observed-run": observe_run,
    "recorded-run": record_run,
    "end-comes-last": end_run,
    "abort-is-no-end": abort_run,
}


class ChannelJudge(_Judge):
    """Judges the channels that one factory makes."""

    def __init__(self, make: MakeAdapter, *, runner: asyncio.Runner, random_runs: int = RANDOM_RUNS) -> None:
        """``make`` is an adapter's class, or a function that makes adapters; all run in the loop of ``runner``.

        Raises:
            InvalidParametersError: the adapter lacks a method without which nothing can be asked.
        """
        adapter = make()
        require_methods(adapter)
        super().__init__(lacks_of(adapter))
        self._make = make
        self._runner = runner
        self._random_runs = random_runs
        self._probing = Probing(make)

    def report(self, name: str = "", only: Collection[str] = ()) -> Report:
        """The verdicts about all rules, or about those that are named."""
        return self._report(name or type(self._make()).__name__, all_rules(), only)

    def _checked(self, rule: Rule) -> RuleVerdict:
        if rule in PROBED_RULES:
            return self._runner.run(self._probing.verdict(rule))
        if rule.id == "random-runs":
            return self._judged_at_random(rule)
        return self._runner.run(_CHECKS[rule.id](rule, self._make))

    def _judged_at_random(self, rule: Rule) -> RuleVerdict:
        edges = self._verdicts.get("every-edge")
        if edges is not None and edges.is_broken:
            # To shrink another run takes long, and tells nothing new.
            return RuleVerdict(rule, Outcome.NOT_APPLICABLE, "not run, because 'every-edge' is broken")
        from permitflow.testing.kit.random_runs import random_runs

        return random_runs(rule, self._make, self._runner, runs=self._random_runs)


def pair_rules() -> tuple[Rule, ...]:
    """The rules that are checked on pairs: those that an action of the specification can break, and whole runs."""
    probed = (rule for rule in PROBED_RULES if any(map(_is_about_actions, rule.mistakes)))
    return (*probed, *(rule for rule in RUN_RULES if rule.id in ("every-edge", "random-runs", "recorded-run")))


def _is_about_actions(mistake: Mistake) -> bool:
    return mistake.outside is Outside


class PairJudge(_Judge):
    """Judges the pairs that one factory makes."""

    RECORDED_STEPS = 400
    SEED = 11

    def __init__(self, make: MakePair, *, lacks: Iterable[Feature] = (), random_runs: int = 40) -> None:
        """``lacks`` are features without which the pairs are."""
        super().__init__(frozenset(lacks))
        self._make = make
        self._random_runs = random_runs

    def report(self, name: str, only: Collection[str] = ()) -> Report:
        """The verdicts about all rules, or about those that are named."""
        return self._report(name, pair_rules(), only)

    def _checked(self, rule: Rule) -> RuleVerdict:
        match rule.id:
            case "every-edge":
                return self._walk(rule)
            case "random-runs":
                from permitflow.testing.kit.random_runs import random_pairs

                return random_pairs(rule, self._make, runs=self._random_runs, lacks=self.lacks)
            case "recorded-run":
                return self._record(rule)
        return self._probe(rule)

    def _probe(self, rule: Rule) -> RuleVerdict:
        moves = 0
        for mistake in rule.mistakes:
            if not _is_about_actions(mistake) or mistake.needs & self.lacks:
                continue
            sizes = {move.arguments[0] for move in mistake.moves if move.action == "OfferChunk"}
            parameters = _parameters_of(mistake.agreed, sizes or {1}, waiters=2)
            probe = _probe_for(mistake, parameters)
            pair, state = self._make(mistake.agreed, parameters.tags, None), SYSTEM.initial(parameters)
            for number, move in enumerate(probe, start=1):
                try:
                    state = step(SYSTEM, pair, parameters, state, move)
                except Divergence as problem:
                    steps = [f"{number}. {move!r}" for number, move in enumerate(probe[:number], start=1)]
                    steps += [f"   {line.strip()}" for line in str(problem).splitlines()]
                    return _told(rule, mistake, _Mishap(pair, parameters, state, move, tuple(steps)))
            moves += len(probe)
        return RuleVerdict(rule, Outcome.HOLDS, f"{moves} steps, the shortest that would show a mistake")

    def _walk(self, rule: Rule) -> RuleVerdict:
        edges = refusals = of_edges = 0
        for agreed, parameters, never in _graphs(self.lacks):
            actions = tuple(action for action in SYSTEM.actions if action.name not in never)
            of_edges += len(explore(replace(SYSTEM, actions=actions), parameters, invariants={}).edges)
            try:
                done = walk(SYSTEM, self._make(agreed, parameters.tags, None), parameters, never=never)
            except Divergence as problem:
                finding = "does something else than the model in a state of the graph"
                return RuleVerdict(rule, Outcome.BREAKS, finding, tuple(str(problem).splitlines()))
            edges, refusals = edges + done.edges, refusals + done.refusals
        return RuleVerdict(rule, Outcome.HOLDS, f"{edges:,} of {of_edges:,} edges walked, {refusals:,} moves refused")

    def _record(self, rule: Rule) -> RuleVerdict:
        agreed = constants(8, 1 if Feature.BATCHING in self.lacks else 2, clamp=4)
        sizes = {1} if Feature.WEIGHTS in self.lacks else {0, 1, 3, 4}
        parameters, trace = _parameters_of(agreed, sizes, waiters=3), MemoryTrace()
        pair, state = self._make(agreed, parameters.tags, trace.recorder), SYSTEM.initial(parameters)
        never, choose = _without(self.lacks), random.Random(self.SEED)
        moves = [move for move in moves_of(SYSTEM, parameters) if move.action not in never]
        try:
            for _ in range(self.RECORDED_STEPS):
                enabled = [m for m in moves if SYSTEM.is_enabled(m.action, state, parameters, *m.arguments)]
                state = step(SYSTEM, pair, parameters, state, choose.choice(enabled))
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
    """A pair that has just done something else than the model."""

    pair: PairAdapter
    parameters: Parameters
    before: State
    move: Move
    steps: tuple[str, ...]
    """The run, in words."""

    def is_due_to(self, mistake: Mistake) -> bool:
        """Does the mistaken model do the same?"""
        try:
            return _result(mistake, self.before, self.parameters, self.move) == self.pair.observe()
        except Divergence:
            return False


def _told(rule: Rule, asked: Mistake, wrong: _Mishap) -> RuleVerdict:
    """The verdict on a rule after a run that was to show a mistake went wrong."""
    if wrong.is_due_to(asked):
        return RuleVerdict(rule, Outcome.BREAKS, asked.name, wrong.steps)
    for other in (mistake for any_rule in PROBED_RULES for mistake in any_rule.mistakes):
        if _is_about_actions(other) and wrong.is_due_to(other):
            finding = f"cannot be told: before it comes to that, it {other.name}"
            return RuleVerdict(rule, Outcome.NOT_APPLICABLE, finding)
    finding = f"does something else than the model, in a run that asks whether it {asked.name}"
    return RuleVerdict(rule, Outcome.BREAKS, finding, wrong.steps)


def _result(mistake: Mistake, state: State, parameters: Parameters, move: Move) -> State:
    """Where the mistaken model comes with a move; it stays where it refuses."""
    try:
        return spoilt(dict(mistake.actions)).perform(move.action, state, parameters, *move.arguments)
    except Disabled:
        return state


@cache
def _probe_for(mistake: Mistake, parameters: Parameters) -> tuple[Move, ...]:
    """The shortest run whose last step comes to something else with the mistake than without."""
    start = SYSTEM.initial(parameters)
    moves = tuple(moves_of(SYSTEM, parameters))
    todo: deque[tuple[State, tuple[Move, ...]]] = deque([(start, ())])
    met = {start}
    while todo:
        state, run = todo.popleft()
        for move in moves:
            right = _result(_NO_MISTAKE, state, parameters, move)
            if right != _result(mistake, state, parameters, move):
                return (*run, move)
            if right not in met:
                met.add(right)
                todo.append((right, (*run, move)))
    raise AssertionError(f"no run shows that it {mistake.name}")


_NO_MISTAKE = Mistake("makes no mistake", constants(2), ())


def _parameters_of(agreed: ChannelParameters, sizes: Iterable[int], *, waiters: int) -> Parameters:
    return model_of(agreed, sizes=tuple(sorted(sizes)), waiters=waiters, numbered=True)


def _without(lacks: frozenset[Feature]) -> list[str]:
    """Actions that a pair without these features does not have."""
    never = ["OfferBarrier", "WithdrawBarrier", "SendBarrier"] if Feature.BARRIERS in lacks else []
    never += ["OfferWatermark", "SendWatermark"] if Feature.WATERMARKS in lacks else []
    never += ["WithdrawChunk", "WithdrawBarrier"] if Feature.CANCELLATION in lacks else []
    return never + (["Flush"] if Feature.IDLE_FLUSH in lacks else [])


def _graphs(lacks: frozenset[Feature]) -> list[tuple[ChannelParameters, Parameters, list[str]]]:
    """Small graphs that together have everything in them."""
    classes = frozenset({Feature.BARRIERS, Feature.WATERMARKS})
    chunks = constants(2) if Feature.BATCHING in lacks else constants(3, 2)
    sizes = (1,) if Feature.WEIGHTS in lacks else (1, 2)
    graphs = [(chunks, model_of(chunks, sizes=sizes, waiters=2), _without(lacks | classes))]
    if classes - lacks:
        small = constants(2)
        graphs.append((small, model_of(small, sizes=(1,) if Feature.WEIGHTS in lacks else (2,)), _without(lacks)))
    return graphs
