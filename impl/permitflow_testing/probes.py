"""Probes detect whether a channel makes one of the mistakes that break the rules.

A probe is the shortest run that distinguishes a mistake from the model, found by search.

A channel may make several mistakes, and one may hide another: a channel that counts chunks instead of rows diverges in
every run in which the size of a chunk matters.  So the mistakes that were recognised, each in a run of its own, become
part of the model, and the other rules are checked again: in runs that distinguish their mistakes from *that* model.
"""

from collections import deque
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple, TypeAlias

from permitflow.errors import counted
from permitflow_testing.adapter import Feature
from permitflow_testing.bounded import MakeBounded
from permitflow_testing.leading import LedStep, lead, steps_in_words
from permitflow_testing.moves import Move
from permitflow_testing.outside import Outside, Seen, World
from permitflow_testing.rules import MOST_WAITING, Lacks, Mistake, Outcome, Rule, Rulebook, RuleVerdict

# Limits of the search: a mistake that needs more states or more moves counts as invisible to applications.
MOST_PAIRS = 1_000
"""In one control loop, where searches find a channel's only mistake within 60.  In a chain of three, which takes up to
1,736, it is nine times as many."""
MOST_MOVES = 20


class Probe(NamedTuple):
    """A run, and the views of the mistaken model at its end."""

    moves: tuple[Move, ...]
    mistaken: frozenset[Seen]


_Worlds: TypeAlias = tuple[World, ...]


@cache
def probe_for(book: Rulebook, mistake: Mistake, known: tuple[Mistake, ...], *, hops: int, lacks: Lacks) -> Probe | None:
    """The shortest run that distinguishes the mistake from a channel with only the ``known`` mistakes.

    None if the applications cannot see the mistake in such a channel.
    """
    agreed, sizes = mistake.agreed, mistake.sizes
    right = book.seen(agreed, sizes, hops=hops, lacks=lacks, made=known)
    # A mistaken channel may keep chunks in its line that no longer wait.
    wrong = book.seen(agreed, sizes, hops=hops, lacks=lacks, made=(*known, mistake), waiters=2 * MOST_WAITING)
    return _search(right, wrong, mistake.moves, MOST_PAIRS * hops**2)


def _search(right: Outside, wrong: Outside, alphabet: tuple[Move, ...], most_pairs: int) -> Probe | None:
    start = ((right.start(),), (wrong.start(),))
    met = {tuple(map(frozenset, start))}
    todo: deque[tuple[_Worlds, _Worlds, tuple[Move, ...]]] = deque([(*start, ())])
    while todo and len(met) < most_pairs:
        here, there, run = todo.popleft()
        if len(run) == MOST_MOVES:
            return None
        for move in right.moves(here[0], alphabet):
            due = right.make_in(here, move)
            if len(due) != 1:
                continue  # the model allows both views, or with its mistakes none, so the run proves nothing
            did = wrong.make_in(there, move)
            ((seen, after),) = due.items()
            if seen not in did:
                return Probe((*run, move), frozenset(did))
            pair = tuple(frozenset(map(right.canonical, worlds)) for worlds in (after, did[seen]))
            if pair not in met:
                met.add(pair)
                todo.append((after, did[seen], (*run, move)))
    return None


@dataclass(frozen=True)
class _Tried:
    """The result of one probe."""

    mistake: Mistake
    probe: Probe | None
    steps: list[LedStep] = field(default_factory=list)

    @property
    def is_right(self) -> bool:
        return all(step.is_right for step in self.steps)

    @property
    def is_recognised(self) -> bool:
        """Did the channel behave exactly as the mistaken model?"""
        if self.probe is None or self.is_right:
            return False
        return len(self.steps) == len(self.probe.moves) and self.steps[-1].seen in self.probe.mistaken


class Probing:
    """All probes of one channel."""

    def __init__(self, book: Rulebook, make: MakeBounded) -> None:
        self._book = book
        self._make = make
        adapter = make()
        self._hops = adapter.hops
        self._lacks = adapter.lacks
        self._without = self._lacks & {Feature.IDLE_FLUSH}  # what the model in a probe has to know of it
        self._known: tuple[Mistake, ...] | None = None

    async def verdict(self, rule: Rule) -> RuleVerdict:
        """Does the channel make a mistake that breaks this rule?"""
        tried = [await self._try(mistake) for mistake in self._mistakes_of(rule)]
        wrong = [one for one in tried if not one.is_right]
        for one in wrong:
            if one.is_recognised:
                return self._broken(rule, one.mistake.name, one)
        for one in wrong:
            if (error := one.steps[-1].error) is not None:  # no mistake of the model explains it
                return RuleVerdict.raised(rule, error, steps_in_words(one.steps))
        for one in wrong:
            if (again := await self._besides(await self._all_known(), one)) is not None:
                return self._broken(rule, *again)
        moves = sum(len(one.steps) for one in tried)
        unseen = [one.mistake.name for one in tried if one.probe is None]
        cannot = f"applications cannot see whether it {' or '.join(unseen)}" if unseen else ""
        if not moves:
            return RuleVerdict(rule, Outcome.NOT_APPLICABLE, cannot)
        if all(one.is_right for one in tried):
            finding = f"{counted(moves, 'move')}, the shortest that would show a mistake"
            return RuleVerdict(rule, Outcome.HOLDS, "; ".join(filter(None, (finding, cannot))))
        return RuleVerdict(rule, Outcome.HOLDS, "what else is seen comes from mistakes against other rules")

    def _mistakes_of(self, rule: Rule) -> list[Mistake]:
        if rule.needs & self._lacks:
            return []
        return [mistake for mistake in rule.mistakes if not mistake.needs & self._lacks]

    async def _besides(self, known: tuple[Mistake, ...], tried: _Tried) -> tuple[str, _Tried] | None:
        """The mistake that the known mistakes do not explain; None if they explain everything."""
        if await self._is_new(tried, known):
            return f"does something else than the model, in a run that asks whether it {tried.mistake.name}", tried
        again = await self._try(tried.mistake, known)
        return (again.mistake.name, again) if again.is_recognised else None

    async def _all_known(self) -> tuple[Mistake, ...]:
        """A short list of mistakes that explain all results: each explains a run that those before it do not."""
        if self._known is None:
            known: tuple[Mistake, ...] = ()
            for mistake in (mistake for rule in self._book.probed_rules for mistake in self._mistakes_of(rule)):
                tried = await self._try(mistake)
                if not tried.is_right and not (tried.is_recognised and await self._is_new(tried, known)):
                    tried = await self._try(mistake, known)
                if tried.is_recognised:
                    known = (*known, mistake)
            self._known = known
        return self._known

    async def _is_new(self, tried: _Tried, known: tuple[Mistake, ...]) -> bool:
        """Is this result not explained by the known mistakes?"""
        return not (await self._run(tried.mistake, tried.probe, known)).is_right

    async def _try(self, mistake: Mistake, known: tuple[Mistake, ...] = ()) -> _Tried:
        probe = probe_for(self._book, mistake, known, hops=self._hops, lacks=self._without)
        return await self._run(mistake, probe, known)

    async def _run(self, mistake: Mistake, probe: Probe | None, known: tuple[Mistake, ...]) -> _Tried:
        if probe is None:
            return _Tried(mistake, None)
        outside = self._book.seen(mistake.agreed, mistake.sizes, hops=self._hops, lacks=self._without, made=known)
        return _Tried(mistake, probe, await lead(self._make(), outside, mistake.agreed, probe.moves))

    @staticmethod
    def _broken(rule: Rule, finding: str, tried: _Tried) -> RuleVerdict:
        return RuleVerdict(rule, Outcome.BREAKS, finding, tuple(steps_in_words(tried.steps)))
