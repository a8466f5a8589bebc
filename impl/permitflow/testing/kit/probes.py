"""Probes: does a channel make one of the mistakes that break the rules?

A probe is the shortest run that tells a mistake from the model, found by search, not written by hand.

A channel may make several mistakes, and one may hide another: a channel that counts chunks instead of rows leaves
every run in which the size of a chunk matters.  So the mistakes that were recognised, each in a run of its own, become
part of the model, and the other rules are asked again: in a run that tells their mistakes from *that* model.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import NamedTuple, TypeAlias

from permitflow.protocol.permits import ChannelParameters
from permitflow.testing.kit.adapter import Feature, lacks_of
from permitflow.testing.kit.leading import Step, lead, steps_in_words
from permitflow.testing.kit.mistakes import spoilt
from permitflow.testing.kit.outside import Outside, Seen, World, canonical
from permitflow.testing.kit.report import Outcome, RuleVerdict
from permitflow.testing.kit.rules import PROBED_RULES, MakeAdapter, Mistake, Rule
from permitflow.testing.moves import Move
from permitflow.testing.subjects.permits import model_of
from permitflow_model.permit_channel import Parameters

__all__ = ["Probing", "parameters_of"]

MOST_WAITING = 2
"""Chunks that wait at once in a run that is searched for."""

# A mistake that cannot be seen in so many states, or in so many moves, is not seen by applications.
MOST_PAIRS = 10_000
MOST_MOVES = 20


class Probe(NamedTuple):
    """A run, and what the mistaken model shows at its end."""

    moves: tuple[Move, ...]
    mistaken: frozenset[Seen]


def parameters_of(agreed: ChannelParameters, sizes: Iterable[int], *, idle_flush: bool = True) -> Parameters:
    """The model of a channel in which few chunks wait, each with a number of its own."""
    largest = max(sizes, default=1)
    numbered = model_of(agreed, sizes=(largest,), waiters=MOST_WAITING)
    # Without a bound on the numbers, so that the application's chunk 7 is the model's chunk 7.
    return replace(numbered, tags=2**62, flush_idle=idle_flush)


def outside_of(
    mistake: Mistake,
    made: tuple[Mistake, ...] = (),
    *,
    hops: int = 1,
    idle_flush: bool = True,
    waiters: int = MOST_WAITING,
) -> Outside:
    """The channel in which a mistake shows, as a model that makes the mistakes ``made``, the last one first of all."""
    sizes = [move.arguments[0] for move in mistake.moves if move.action in ("OfferChunk", "SendChunkNow")]
    parameters = parameters_of(mistake.agreed, sizes, idle_flush=idle_flush)
    actions = {name: perform for one in made for name, perform in one.actions.items()}
    kind = next((one.outside for one in reversed(made) if one.outside is not Outside), Outside)
    return kind(replace(parameters, waiters=waiters), hops=hops, system=spoilt(actions))


_Worlds: TypeAlias = tuple[World, ...]


@cache
def probe_for(
    mistake: Mistake, known: tuple[Mistake, ...] = (), *, hops: int = 1, idle_flush: bool = True
) -> Probe | None:
    """The shortest run that tells the mistake from a channel that makes only those that are ``known``.

    None if the applications cannot see it in such a channel.
    """
    right = outside_of(mistake, known, hops=hops, idle_flush=idle_flush)
    # A mistaken channel may keep chunks in its line that no longer wait.
    wrong = outside_of(mistake, (*known, mistake), hops=hops, idle_flush=idle_flush, waiters=2 * MOST_WAITING)
    return _search(right, wrong, mistake.moves)


def _search(right: Outside, wrong: Outside, alphabet: tuple[Move, ...]) -> Probe | None:
    start = ((right.start(),), (wrong.start(),))
    met = {tuple(map(frozenset, start))}
    todo: deque[tuple[_Worlds, _Worlds, tuple[Move, ...]]] = deque([(*start, ())])
    while todo and len(met) < MOST_PAIRS:
        here, there, run = todo.popleft()
        if len(run) == MOST_MOVES:
            return None
        for move in right.moves(here[0], alphabet):
            due = right.make_in(here, move)
            if len(due) > 1:
                continue  # the model leaves a choice that is seen: no channel could be blamed
            did = wrong.make_in(there, move)
            ((seen, after),) = due.items()
            if seen not in did:
                return Probe((*run, move), frozenset(did))
            pair = tuple(frozenset(map(canonical, worlds)) for worlds in (after, did[seen]))
            if pair not in met:
                met.add(pair)
                todo.append((after, did[seen], (*run, move)))
    return None


@dataclass(frozen=True)
class _Tried:
    """What came of one probe."""

    mistake: Mistake
    probe: Probe | None
    steps: list[Step] = field(default_factory=list)

    @property
    def is_right(self) -> bool:
        return all(step.is_right for step in self.steps)

    @property
    def is_recognised(self) -> bool:
        """Did the channel do just what the mistaken model does?"""
        if self.probe is None or self.is_right:
            return False
        return len(self.steps) == len(self.probe.moves) and self.steps[-1].seen in self.probe.mistaken


class Probing:
    """All probes of one channel."""

    def __init__(self, make: MakeAdapter) -> None:
        """Nothing was tried yet."""
        self._make = make
        adapter = make()
        self._hops = adapter.hops
        self._lacks = lacks_of(adapter)
        self._known: tuple[Mistake, ...] | None = None

    async def verdict(self, rule: Rule) -> RuleVerdict:
        """Does the channel make a mistake that breaks this rule?"""
        tried = [await self._try(mistake) for mistake in self._mistakes_of(rule)]
        wrong = [one for one in tried if not one.is_right]
        for one in wrong:
            if one.is_recognised:
                return self._broken(rule, one.mistake.name, one)
        for one in wrong:
            if (again := await self._besides(await self._all_known(), one)) is not None:
                return self._broken(rule, *again)
        moves = sum(len(one.steps) for one in tried)
        if not moves:
            names = " or ".join(one.mistake.name for one in tried)
            return RuleVerdict(rule, Outcome.NOT_APPLICABLE, f"applications cannot see whether it {names}")
        if all(one.is_right for one in tried):
            return RuleVerdict(rule, Outcome.HOLDS, f"{moves} moves, the shortest that would show a mistake")
        return RuleVerdict(rule, Outcome.HOLDS, "what else is seen comes from mistakes against other rules")

    def _mistakes_of(self, rule: Rule) -> list[Mistake]:
        if rule.needs & self._lacks:
            return []
        return [mistake for mistake in rule.mistakes if not mistake.needs & self._lacks]

    async def _besides(self, known: tuple[Mistake, ...], tried: _Tried) -> tuple[str, _Tried] | None:
        """The mistake that is left if those that are known are taken for granted; None if none is."""
        if not (await self._run(tried.mistake, tried.probe, known)).is_right:
            return f"does something else than the model, in a run that asks whether it {tried.mistake.name}", tried
        again = await self._try(tried.mistake, known)
        return (again.mistake.name, again) if again.is_recognised else None

    async def _all_known(self) -> tuple[Mistake, ...]:
        """As few mistakes as explain what was seen: each explains a run that those before it do not explain."""
        if self._known is None:
            known: tuple[Mistake, ...] = ()
            for mistake in (mistake for rule in PROBED_RULES for mistake in self._mistakes_of(rule)):
                tried = await self._try(mistake)
                if tried.is_recognised and not (await self._run(mistake, tried.probe, known)).is_right:
                    known = (*known, mistake)
            self._known = known
        return self._known

    async def _try(self, mistake: Mistake, known: tuple[Mistake, ...] = ()) -> _Tried:
        probe = probe_for(mistake, known, hops=self._hops, idle_flush=Feature.IDLE_FLUSH not in self._lacks)
        return await self._run(mistake, probe, known)

    async def _run(self, mistake: Mistake, probe: Probe | None, known: tuple[Mistake, ...]) -> _Tried:
        if probe is None:
            return _Tried(mistake, None)
        idle_flush = Feature.IDLE_FLUSH not in self._lacks
        outside = outside_of(mistake, known, hops=self._hops, idle_flush=idle_flush)
        return _Tried(mistake, probe, await lead(self._make(), outside, mistake.agreed, probe.moves))

    @staticmethod
    def _broken(rule: Rule, finding: str, tried: _Tried) -> RuleVerdict:
        return RuleVerdict(rule, Outcome.BREAKS, finding, tuple(steps_in_words(tried.steps)))
