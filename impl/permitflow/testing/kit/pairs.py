"""Judges pairs of ends whose every step is made by hand: a ``PairAdapter`` has a method for each action.

More is seen here than of a channel: the whole state after every step.  So a mistake shows one step after it was made,
and it is told by what the mistaken action would have come to.
"""

import random
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import TypeAlias

from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.recording import RecorderFactory
from permitflow.testing.kit.adapter import Feature
from permitflow.testing.kit.mistakes import spoilt
from permitflow.testing.kit.outside import Outside
from permitflow.testing.kit.report import Outcome, Report, RuleVerdict, caught
from permitflow.testing.kit.rules import PROBED_RULES, RUN_RULES, Mistake, Rule, constants, selected
from permitflow.testing.moves import Divergence, Move, PairAdapter, moves_of, step, walk
from permitflow.testing.traces import judge, model_of
from permitflow.tracing.file import MemoryTrace
from permitflow_model.kernel.explore import explore
from permitflow_model.kernel.system import Disabled
from permitflow_model.permit_channel import SYSTEM, Parameters, State

__all__ = ["MakePair", "PairJudge", "judge_pair", "pair_rules"]

MakePair: TypeAlias = Callable[[ChannelParameters, int, RecorderFactory | None], PairAdapter]
"""Makes a pair at rest: the parameters, the number of chunk numbers, and who records what it does, if anybody."""

Lacks: TypeAlias = frozenset[Feature]

RUNS = frozenset({"every-edge", "random-runs", "recorded-run"})
RECORDED_STEPS = 400
SEED = 11


def pair_rules() -> tuple[Rule, ...]:
    """The rules that are checked on pairs: those that an action of the specification can break, and whole runs."""
    probed = (rule for rule in PROBED_RULES if any(_is_about_actions(mistake) for mistake in rule.mistakes))
    return (*probed, *(rule for rule in RUN_RULES if rule.id in RUNS))


def _is_about_actions(mistake: Mistake) -> bool:
    return mistake.outside is Outside


class PairJudge:
    """Judges the pairs that one factory makes; a verdict once found is kept."""

    def __init__(self, make: MakePair, *, lacks: Iterable[Feature] = (), random_runs: int = 40) -> None:
        """``lacks`` are features without which the pairs are."""
        self.make = make
        self.lacks = frozenset(lacks)
        self._random_runs = random_runs
        self._verdicts: dict[str, RuleVerdict] = {}

    def verdict(self, rule: Rule) -> RuleVerdict:
        """What can be said about a rule."""
        if rule.id not in self._verdicts:
            self._verdicts[rule.id] = caught(rule, self._judged)
        return self._verdicts[rule.id]

    def report(self, name: str, only: Collection[str] = ()) -> Report:
        """The verdicts about all rules, or about those that are named."""
        return Report(name, tuple(self.verdict(rule) for rule in selected(pair_rules(), only)), self.lacks)

    def _judged(self, rule: Rule) -> RuleVerdict:
        if lacking := sorted(rule.needs & self.lacks):
            return RuleVerdict(rule, Outcome.NOT_APPLICABLE, f"lacks {', '.join(lacking)}")
        match rule.id:
            case "every-edge":
                return self._walk(rule)
            case "random-runs":
                return self._run_at_random(rule)
            case "recorded-run":
                return self._record(rule)
        return self._probe(rule)

    def _probe(self, rule: Rule) -> RuleVerdict:
        moves = 0
        for mistake in rule.mistakes:
            if not _is_about_actions(mistake) or mistake.needs & self.lacks:
                continue
            parameters = _parameters_of(mistake.agreed, _sizes_of(mistake))
            probe = _probe_for(mistake, parameters)
            pair = self.make(mistake.agreed, parameters.tags, None)
            run = _Run(pair, parameters)
            if run.goes_wrong(probe):
                return _wrong(rule, mistake, run)
            moves += len(probe)
        return RuleVerdict(rule, Outcome.HOLDS, f"{moves} steps, the shortest that would show a mistake")

    def _walk(self, rule: Rule) -> RuleVerdict:
        edges = refusals = of_edges = 0
        for agreed, parameters, never in _graphs(self.lacks):
            actions = tuple(action for action in SYSTEM.actions if action.name not in never)
            of_edges += len(explore(replace(SYSTEM, actions=actions), parameters, invariants={}).edges)
            try:
                done = walk(self.make(agreed, parameters.tags, None), parameters, never=never)
            except Divergence as problem:
                finding = "does something else than the model in a state of the graph"
                return RuleVerdict(rule, Outcome.BREAKS, finding, tuple(str(problem).splitlines()))
            edges, refusals = edges + done.edges, refusals + done.refusals
        return RuleVerdict(rule, Outcome.HOLDS, f"{edges:,} of {of_edges:,} edges walked, {refusals:,} moves refused")

    def _run_at_random(self, rule: Rule) -> RuleVerdict:
        from permitflow.testing.kit.random_runs import random_pairs

        return random_pairs(rule, self.make, runs=self._random_runs, lacks=self.lacks)

    def _record(self, rule: Rule) -> RuleVerdict:
        agreed = constants(8, 1 if Feature.BATCHING in self.lacks else 2, clamp=4)
        sizes = (1,) if Feature.WEIGHTS in self.lacks else (0, 1, 3, 4)
        parameters, trace = _parameters_of(agreed, sizes, waiters=3), MemoryTrace()
        run = _Run(self.make(agreed, parameters.tags, trace.recorder), parameters)
        never = _without(self.lacks)
        try:
            run.make_at_random(never)
        except Divergence as problem:
            return RuleVerdict(rule, Outcome.BREAKS, "does something else than the model", (str(problem),))
        if not trace.events:
            return RuleVerdict(rule, Outcome.NOT_APPLICABLE, "it recorded nothing")
        for channel in trace.trace().channels.values():
            for by_end in (False, True):
                verdict = judge(channel, by_end=by_end)
                if not verdict.is_valid:
                    finding = "leaves the specification, as it recorded itself"
                    return RuleVerdict(rule, Outcome.BREAKS, finding, (verdict.describe(),))
        return RuleVerdict(rule, Outcome.HOLDS, f"{len(trace.events)} recorded events")


class _Run:
    """One pair beside the model."""

    def __init__(self, pair: PairAdapter, parameters: Parameters) -> None:
        self._pair = pair
        self._parameters = parameters
        self._state: State = SYSTEM.initial(parameters)
        self._made: list[Move] = []
        self._problem = ""

    def goes_wrong(self, moves: Sequence[Move]) -> bool:
        """Make moves until one comes to something else than the model says."""
        for move in moves:
            self._made.append(move)
            try:
                self._state = step(self._pair, self._parameters, self._state, move)
            except Divergence as problem:
                self._problem = str(problem)
                return True
        return False

    def make_at_random(self, never: Sequence[str]) -> None:
        """Make many moves that the model allows."""
        choose = random.Random(SEED)
        moves = [move for move in moves_of(self._parameters) if move.action not in never]
        for _ in range(RECORDED_STEPS):
            enabled = [move for move in moves if self._is_enabled(move)]
            if self.goes_wrong([choose.choice(enabled)]):
                raise Divergence(self._problem)

    def _is_enabled(self, move: Move) -> bool:
        return SYSTEM.is_enabled(move.action, self._state, self._parameters, *move.arguments)

    def has_made(self, mistake: Mistake) -> bool:
        """Has the pair just done what the mistaken action does?"""
        return _result(mistake, self._state, self._parameters, self._made[-1]) == self._observed()

    def _observed(self) -> State | None:
        try:
            return self._pair.observe()
        except Divergence:
            return None

    def lines(self) -> tuple[str, ...]:
        """The moves, numbered, and what was wrong with the last one."""
        moves = [f"{number}. {move!r}" for number, move in enumerate(self._made, start=1)]
        return (*moves, *(f"   {line.strip()}" for line in self._problem.splitlines()))


def _wrong(rule: Rule, asked: Mistake, run: _Run) -> RuleVerdict:
    """What is to be said of a rule, if a run that asks for a mistake goes wrong."""
    if run.has_made(asked):
        return RuleVerdict(rule, Outcome.BREAKS, asked.name, run.lines())
    others = [
        one for any_rule in PROBED_RULES for one in any_rule.mistakes if _is_about_actions(one) and run.has_made(one)
    ]
    if others:
        finding = f"cannot be told: before it comes to that, it {others[0].name}"
        return RuleVerdict(rule, Outcome.NOT_APPLICABLE, finding)
    finding = f"does something else than the model, in a run that asks whether it {asked.name}"
    return RuleVerdict(rule, Outcome.BREAKS, finding, run.lines())


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
    moves = tuple(moves_of(parameters))
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


def _parameters_of(agreed: ChannelParameters, sizes: Iterable[int], *, waiters: int = 2) -> Parameters:
    return model_of(agreed, sizes=tuple(sorted(set(sizes) or {1})), waiters=waiters, numbered=True)


def _sizes_of(mistake: Mistake) -> list[int]:
    return [move.arguments[0] for move in mistake.moves if move.action == "OfferChunk"]


def _without(lacks: Lacks) -> list[str]:
    """Actions that a pair without these features does not have."""
    never = ["OfferBarrier", "WithdrawBarrier", "SendBarrier"] if Feature.BARRIERS in lacks else []
    never += ["OfferWatermark", "SendWatermark"] if Feature.WATERMARKS in lacks else []
    never += ["WithdrawChunk", "WithdrawBarrier"] if Feature.CANCELLATION in lacks else []
    return never + (["Flush"] if Feature.IDLE_FLUSH in lacks else [])


def _graphs(lacks: Lacks) -> list[tuple[ChannelParameters, Parameters, list[str]]]:
    """Small graphs that together have everything in them."""
    classes = frozenset({Feature.BARRIERS, Feature.WATERMARKS})
    chunks = constants(2) if Feature.BATCHING in lacks else constants(3, 2)
    sizes = (1,) if Feature.WEIGHTS in lacks else (1, 2)
    graphs = [(chunks, model_of(chunks, sizes=sizes, waiters=2), _without(lacks | classes))]
    if classes - lacks:
        small = constants(2)
        graphs.append((small, model_of(small, sizes=(1,) if Feature.WEIGHTS in lacks else (2,)), _without(lacks)))
    return graphs


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
