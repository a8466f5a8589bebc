"""``permitflow audit``: recorded runs of any size, checked event by event."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from permitflow_tools.cli.console import open_console, open_progress, open_table, print_lines, print_table
from permitflow_tools.cli.options import option, whole_number
from permitflow_tools.cli.outcomes import Json, print_json, requires_extra, stop, unusable

if TYPE_CHECKING:
    from rich.table import Table

    from permitflow_tools.audit import Audit, Violation

_SHOWN_VIOLATIONS = 20
_SHOWN_CHANNELS = 50


def audit(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="Trace files (.parquet, .jsonl) or folders, of one run.")
    ],
    processes: Annotated[
        int, option(whole_number(least=0, most=1_000), "N", "Look at so many parts side by side; 0: one for each core.")
    ] = 0,
    as_json: Json = False,
) -> None:
    """Does the ledger of a recorded run add up, in every event, and do its two ends agree?

    Checks conservation, boundedness, batching and order, channel by channel, in parallel and in little memory: for
    recordings that are too long for `permitflow trace validate`, which replays the specification itself. On a
    cluster: permitflow_tools.audit.on_spark.audit(spark, path).

    \b
      permitflow audit run/                    all trace files of a folder
      permitflow audit run/ --processes 2

    Exit code 0: nothing found. 1: violations, with channel, end, event and clause. 2: not a usable trace.
    """
    with requires_extra("audit"):
        from permitflow_tools.audit import audit_files
    with open_progress() as progress:
        task = progress.add_task("parts", total=None)
        report = audit_files(
            *paths,
            processes=processes or os.cpu_count() or 1,
            on_progress=lambda done, total: progress.update(task, completed=done, total=total),
        )
    if not report.channels:
        unusable("the trace holds no channel: nothing was recorded, so nothing can be checked")
    if as_json:
        print_json(_as_json(report))
    else:
        _print(report)
    stop(holds=report.holds)


def _print(report: "Audit") -> None:
    console = open_console()
    numbers = ("events", "messages sent", "rows sent", "consumed", "rows consumed", "violations")
    table = open_table("channel", "ends", *numbers, right=numbers)
    shown = sorted(report.channels, key=lambda channel: -channel.violations)[:_SHOWN_CHANNELS]
    for of in shown:
        counts = (of.events, of.sent_messages, of.sent_rows, of.consumed_messages, of.consumed_rows, of.violations)
        table.add_row(of.channel, " + ".join(sorted(of.ends, reverse=True)), *(f"{count:,}" for count in counts))
    print_table(console, table)
    if len(report.channels) > len(shown):
        console.print(f"and {len(report.channels) - len(shown):,} more channels")
    print_lines(console, *(f"{of.channel}: {remark}" for of in shown for remark in of.remarks))
    if report.violations:
        print_table(console, _violations(report.violations))
    console.print(_summary(report))


def _violations(violations: "list[Violation]") -> "Table":
    table = open_table(
        "channel", "end", "event", "action", "clause", "before", "after", "reason", right=("event",), wrap=("reason",)
    )
    for violation in violations[:_SHOWN_VIOLATIONS]:
        table.add_row(
            violation.channel,
            violation.end,
            f"{violation.sequence:,}",
            f"{violation.action}{violation.arguments}",
            violation.clause,
            "" if violation.before is None else str(violation.before),
            "" if violation.after is None else str(violation.after),
            violation.reason,
        )
    return table


def _summary(report: "Audit") -> str:
    of = f"{report.events:,} events of {len(report.channels):,} channel{'s' if len(report.channels) != 1 else ''}"
    if report.holds:
        return f"nothing found: the ledger of {of} adds up"
    count = len(report.violations) + report.untold
    shown = f", the first {_SHOWN_VIOLATIONS} are shown" if len(report.violations) > _SHOWN_VIOLATIONS else ""
    return f"{count:,} violation{'s' if count != 1 else ''} in {of}{shown}"


def _as_json(report: "Audit") -> dict[str, object]:
    return {
        "holds": report.holds,
        "events": report.events,
        "channels": [asdict(of) | {"ends": sorted(of.ends)} for of in report.channels],
        "violations": [asdict(violation) for violation in report.violations],
        "not_told": report.untold,
    }
