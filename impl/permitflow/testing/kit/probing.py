"""Rules that are checked by probes: does the channel make one of the mistakes that break them?

A channel may make several mistakes, and one may hide another: a channel that counts chunks instead of rows leaves
every run in which the size of a chunk matters.  So the mistakes that were recognised, each in a run of its own, become
part of the model, and the other rules are asked again: in a run that tells their mistakes from *that* model.
"""

from dataclasses import dataclass, field

from permitflow.testing.kit.adapter import lacks_of
from permitflow.testing.kit.catalogue import PROBED_RULES
from permitflow.testing.kit.features import Feature
from permitflow.testing.kit.leading import Led, Step, steps_in_words
from permitflow.testing.kit.probes import Probe, outside_of, probe_for
from permitflow.testing.kit.report import Outcome, RuleVerdict
from permitflow.testing.kit.rules import MakeAdapter, Mistake, Rule
from permitflow.testing.moves import Divergence

__all__ = ["Probing"]


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
        led = Led(self._make(), outside, mistake.agreed)
        await led.open()
        try:
            for move in probe.moves:
                await led.make(move)
        except Divergence:
            pass  # the last step says it
        finally:
            await led.close()
        return _Tried(mistake, probe, led.steps)

    @staticmethod
    def _broken(rule: Rule, finding: str, tried: _Tried) -> RuleVerdict:
        return RuleVerdict(rule, Outcome.BREAKS, finding, tuple(steps_in_words(tried.steps)))
