"""Judges a channel: every rule, one after the other."""

import asyncio
from collections.abc import Callable, Collection, Coroutine
from typing import TypeAlias

from permitflow.testing.kit.adapter import lacks_of, require_methods
from permitflow.testing.kit.cancelled_operations import CancelledBarrier, CancelledReceive, CancelledSend
from permitflow.testing.kit.cancelling import cancel_everywhere
from permitflow.testing.kit.catalogue import PROBED_RULES, all_rules, selected
from permitflow.testing.kit.ending import abort_run, end_run
from permitflow.testing.kit.free_running import observe_run, record_run
from permitflow.testing.kit.probing import Probing
from permitflow.testing.kit.report import Outcome, Report, RuleVerdict, caught
from permitflow.testing.kit.rules import MakeAdapter, Rule
from permitflow.testing.kit.whole_graph import walk_graphs

__all__ = ["RANDOM_RUNS", "ChannelJudge", "judge_adapter"]

RANDOM_RUNS = 60

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


class ChannelJudge:
    """Judges the channels that one factory makes; a verdict once found is kept."""

    def __init__(self, make: MakeAdapter, *, runner: asyncio.Runner, random_runs: int = RANDOM_RUNS) -> None:
        """``make`` is an adapter's class, or a function that makes adapters; all run in the loop of ``runner``.

        Raises:
            InvalidParametersError: the adapter lacks a method without which nothing can be asked.
        """
        self.make = make
        adapter = make()
        require_methods(adapter)
        self.lacks = lacks_of(adapter)
        self._runner = runner
        self._random_runs = random_runs
        self._probing = Probing(make)
        self._verdicts: dict[str, RuleVerdict] = {}

    def verdict(self, rule: Rule) -> RuleVerdict:
        """What can be said about a rule."""
        if rule.id not in self._verdicts:
            self._verdicts[rule.id] = caught(rule, self._judged)
        return self._verdicts[rule.id]

    def _judged(self, rule: Rule) -> RuleVerdict:
        if lacking := sorted(rule.needs & self.lacks):
            return RuleVerdict(rule, Outcome.NOT_APPLICABLE, f"lacks {', '.join(lacking)}")
        if rule in PROBED_RULES:
            return self._runner.run(self._probing.verdict(rule))
        if rule.id == "random-runs":
            return self._judged_at_random(rule)
        return self._runner.run(_CHECKS[rule.id](rule, self.make))

    def report(self, name: str = "", only: Collection[str] = ()) -> Report:
        """The verdicts about all rules, or about those that are named."""
        rules = selected(all_rules(), only)
        verdicts = tuple(self.verdict(rule) for rule in rules)
        return Report(name or type(self.make()).__name__, verdicts, self.lacks)

    def _judged_at_random(self, rule: Rule) -> RuleVerdict:
        edges = self._verdicts.get("every-edge")
        if edges is not None and edges.is_broken:
            # To shrink another run takes long, and tells nothing new.
            return RuleVerdict(rule, Outcome.NOT_APPLICABLE, "not run, because 'every-edge' is broken")
        from permitflow.testing.kit.random_runs import random_runs

        return random_runs(rule, self.make, self._runner, runs=self._random_runs)


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
