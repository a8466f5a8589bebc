"""Judges one end of a driver: the report that ``judge_adapter`` gives, by the same rulebooks."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from permitflow.tracing.file import FileTrace
from permitflow_testing.adapter import Feature
from permitflow_testing.foreign.byte_runs import BYTE_WINDOW, judge_byte_window
from permitflow_testing.foreign.command import ENDS, adapter_of, hello
from permitflow_testing.foreign.driver import Driver
from permitflow_testing.judging import PERMITS, RANDOM_RUNS, WhenJudged, judge_adapter
from permitflow_testing.rulebooks.table import rulebook_of
from permitflow_testing.rules import ConformanceReport, Rule, Rulebook


def rules_of_end(book: Rulebook, end: str) -> list[Rule]:
    """The rules that such an end can break; the others are about the kit's own end."""
    ends = {action.name: action.end for action in book.system.actions}
    return [rule for rule in book.rules if end in _ends_of(rule, ends)]


_OF_ONE_END = {
    "cancelled-send": "sender",
    "cancelled-barrier": "sender",
    "cancelled-end": "sender",
    "cancelled-receive": "receiver",
}


def _ends_of(rule: Rule, ends: Mapping[str, str]) -> Collection[str]:
    """The ends that can break a rule: either may lose, copy or turn round what travels."""
    if rule.id in _OF_ONE_END:
        return {_OF_ONE_END[rule.id]}
    if not rule.mistakes or any(set(mistake.actions) == {"Deliver"} for mistake in rule.mistakes):
        return ENDS
    acting = {ends[name] for mistake in rule.mistakes for name in mistake.actions}
    others = [mistake for mistake in rule.mistakes if not mistake.is_about_actions]
    acting |= {"receiver" if mistake.needs == {Feature.ACKNOWLEDGEMENT} else "sender" for mistake in others}
    return acting


def judge_command(
    driver: Driver,
    *,
    end: str,
    flow: str = PERMITS,
    dial: str = "",
    carrier: str = "",
    trace: FileTrace | None = None,
    only: Collection[str] = (),
    random_runs: int = RANDOM_RUNS,
    when_judged: WhenJudged = lambda _: None,
    **options: Any,
) -> ConformanceReport:
    """Check every rule that one end of a driver can break; see ``adapter_of`` and ``judge_adapter``.

    Raises:
        InvalidParametersError: the driver has no such end or flow, or there is no such rule of this end.
    """
    adapter = adapter_of(driver, hello(driver), end=end, flow=flow, dial=dial, carrier=carrier, trace=trace)
    rules = [rule.id for rule in rules_of_end(rulebook_of(flow), end)]
    asked = [rule for rule in rules if not only or rule in only]
    asks_bytes = not only or BYTE_WINDOW.id in only
    name = f"{driver.command} ({end})"
    driver.begin()
    if asked:
        options = {**options, "flow": flow, "random_runs": random_runs, "when_judged": when_judged}
        report = judge_adapter(adapter, name=name, only=asked, **options)
    else:
        nothing = "" if asks_bytes else f"has no part in {', '.join(only)}"
        report = ConformanceReport(name, (), adapter.lacks, flow, unusable=nothing)
    if asks_bytes and not report.unusable and not driver.is_given_up:
        verdict = judge_byte_window(adapter, rulebook_of(flow))
        when_judged(verdict)
        report = replace(report, verdicts=(*report.verdicts, verdict))
    return replace(report, faults=(*report.faults, *driver.faults.values()))
