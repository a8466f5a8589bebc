"""Write the tables of docs/guides/conformance-kit.md: the rules, and which channels keep them, ours and others.

A test compares the tables with what this would write.
"""

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path

from permitflow_testing import ChannelAdapter, ConformanceReport, judge_adapter, judge_pair
from permitflow_testing.examples.our_channels import ExchangeChannel, LocalChannel, make_core_pair
from permitflow_testing.examples.queues import CountedQueue, QueueChannel, SemaphoreChannel
from permitflow_testing.judging import PERMITS
from permitflow_testing.rulebooks.table import flows, rulebook_of
from permitflow_testing.rules import Outcome
from tests.support.memory_streams import CountedStream, StreamChannel
from tools.marks import pasted

DOCUMENT = Path(__file__).resolve().parent.parent / "docs/guides/conformance-kit.md"
CORE = "core pair"

ADAPTERS: dict[str, type[ChannelAdapter]] = {
    "local": LocalChannel,
    "exchange": ExchangeChannel,
    "`Queue`": QueueChannel,
    "`Queue`, declared": CountedQueue,
    "anyio": StreamChannel,
    "anyio, declared": CountedStream,
    "semaphore": SemaphoreChannel,
}

CELLS = {Outcome.HOLDS: "holds", Outcome.BREAKS: "**breaks**", Outcome.NOT_APPLICABLE: "-"}


def table(reports: Mapping[str, ConformanceReport]) -> str:
    lines = [f"| Rule | {' | '.join(reports)} |", f"|---|{'---|' * len(reports)}"]
    for rule in rulebook_of(PERMITS).rules:
        cells = [cell(report, rule.id) for report in reports.values()]
        lines.append(f"| `{rule.id}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def cell(report: ConformanceReport, rule: str) -> str:
    """The report's verdict about a rule; empty if the rule was not checked."""
    try:
        return CELLS[report[rule].outcome]
    except KeyError:
        return ""


def rules(flow: str) -> str:
    """A line for each rule: its statement, its source, and the mistakes that the kit looks for."""
    lines = ["| Rule | What it says | Specification | Mistakes |", "|---|---|---|---|"]
    for rule in rulebook_of(flow).rules:
        clause = f"`{rule.operator}`" if rule.operator else f"`{rule.contract}` of the channels"
        mistakes = "; ".join(mistake.name for mistake in rule.mistakes)
        lines.append(f"| `{rule.id}` | {rule.statement} | {clause} | {mistakes} |")
    return "\n".join(lines) + "\n"


def with_tables(document: str, reports: Mapping[str, ConformanceReport]) -> str:
    found = {"the rules": rules(PERMITS), "the results": table(reports)}
    found |= {f"the rules of {flow}": rules(flow) for flow in flows() if flow != PERMITS}
    for what, text in found.items():
        document = pasted(document, f"{what}, written by make docs", f"\n{text}\n")
    return document


def judged() -> dict[str, ConformanceReport]:
    with asyncio.Runner() as runner:
        reports = {CORE: judge_pair(make_core_pair, name=CORE)}
        for name, adapter in ADAPTERS.items():
            print(name, file=sys.stderr)
            reports[name] = judge_adapter(adapter, name=name, runner=runner, random_runs=15)
    return reports


if __name__ == "__main__":
    DOCUMENT.write_text(with_tables(DOCUMENT.read_text(encoding="utf-8"), judged()), encoding="utf-8")
