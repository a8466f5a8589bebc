"""``permitflow trace``: recorded runs, judged by the specification."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from permitflow.cli.console import open_progress
from permitflow.cli.outcomes import Json, print_json, stop, unusable
from permitflow.cli.trace_files import read_files, select_channels
from permitflow.cli.trace_query import query

if TYPE_CHECKING:
    from permitflow.testing.referee import Referee
    from permitflow.testing.traces import Verdict
    from permitflow.tracing import ChannelTrace

__all__ = ["trace"]

trace = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Recorded runs, judged by the specification.")


@trace.callback()
def _group() -> None:
    """Recorded runs, judged by the specification.

    Whatever can record writes traces: `permitflow serve --trace`, open_channel(record=...), get and put, the Spark
    options. A trace holds the specification's actions as they happened at one end or both, no payloads.
    """


@trace.command()
def validate(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Trace files (.jsonl, .parquet) or folders of them, of one run."),
    ],
    channel: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this channel; may be repeated.")
    ] = None,
    allow_truncated: Annotated[
        bool, typer.Option("--allow-truncated", help="Leave out a half-written last line and check what comes before.")
    ] = False,
    with_tlc: Annotated[
        bool, typer.Option("--with-tlc", help="Have TLC judge as well, by the specification's own text; needs Java.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Is what happened a behaviour of the specification?

    Give all files of a run at once: what two processes recorded of a channel is put into one order without trusting
    clocks. For each channel: valid, or the first event that no behaviour allows, the state before it, and what would
    have been allowed. Where only one end was recorded, say so, and check that some other end explains it.

    \b
      permitflow trace validate run/                         all trace files of a folder
      permitflow trace validate producer.jsonl server.jsonl  the two ends of a channel
      permitflow trace validate run/ --channel orders/0      one channel of it
      permitflow trace validate run/ --with-tlc              TLC as a referee

    Exit code 0: all valid, as far as recorded. 1: not a behaviour, or TLC judges otherwise. 2: not a usable trace.
    """
    from permitflow.cli.trace_report import print_report, report_as_json

    channels = select_channels(read_files(files, allow_truncated), channel or [])
    verdicts = _judged(channels)
    referees = _ask_tlc(channels) if with_tlc else {}
    holds = all(verdict.is_valid for verdict in verdicts) and all(referee.agrees for referee in referees.values())
    if as_json:
        print_json(report_as_json(verdicts, referees, holds=holds))
    else:
        print_report(verdicts, referees)
    stop(holds=holds)


trace.command()(query)


def _judged(channels: "Sequence[ChannelTrace]") -> "list[Verdict]":
    from permitflow.testing.traces import judge

    verdicts = []
    with open_progress() as progress:
        task = progress.add_task("", total=len(channels))
        for channel in channels:
            progress.update(task, description=channel.channel)
            verdicts.append(judge(channel))
            progress.advance(task)
    return verdicts


def _ask_tlc(channels: "Sequence[ChannelTrace]") -> "dict[str, Referee]":
    from permitflow.testing.referee import ask_tlc
    from permitflow_model.tlc import TlcError, TlcNotFoundError

    try:
        return {channel.channel: ask_tlc(channel) for channel in channels}
    except (TlcNotFoundError, TlcError, ValueError) as error:
        unusable(f"--with-tlc: {error}")
