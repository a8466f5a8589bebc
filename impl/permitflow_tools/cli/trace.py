"""``permitflow trace``: recorded runs, judged by the specification."""

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.table import Table
from typer.core import TyperGroup

from permitflow.errors import TraceTruncatedError, counted, shortened
from permitflow.tracing.reader import ChannelTrace, ScannedTrace, Trace, read_trace, scan_trace
from permitflow_tools.cli.console import open_console, open_progress, open_table, print_lines, print_table
from permitflow_tools.cli.options import AllowTruncated, chosen, option, readable, rows, whole_number
from permitflow_tools.cli.outcomes import Json, print_json, requires_extra, stop, unusable
from permitflow_tools.cli.output import require_folder
from permitflow_tools.cli.spark_session import require_master, spark_session

if TYPE_CHECKING:
    from permitflow.tracing.events import Event
    from permitflow_testing.query_runs import QueryVerdict
    from permitflow_testing.referee import Referee
    from permitflow_testing.subjects import Subject
    from permitflow_testing.traces import ChannelVerdict

T = TypeVar("T", Trace, ScannedTrace)


class _Orders(TyperGroup):
    """Tells who names a file without an order which one reads it."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        found = super().get_command(ctx, cmd_name)
        if found is None and Path(cmd_name).exists():
            unusable(f"{cmd_name} is a file: permitflow trace validate {cmd_name} reads it")
        return found


trace = typer.Typer(cls=_Orders, no_args_is_help=True, rich_markup_mode=None)


@trace.callback()
def _group() -> None:
    """Recorded runs, judged by the specification.

    Whatever can record writes traces: `permitflow serve --trace`, open_channel(record=...), get and put, the Spark
    options. A trace holds the specification's actions as they happened at one end or both, no payloads.
    """


@trace.command()
def validate(
    context: typer.Context,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            parser=readable,
            help="Trace files (.jsonl, .parquet) or folders of them, of one run; - is standard input.",
        ),
    ],
    channel: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this channel; may be repeated.")
    ] = None,
    allow_truncated: AllowTruncated = False,
    jobs: Annotated[
        int, option(whole_number(least=0, most=1_000), "N", "Judge in this many processes; 0: one for each core.")
    ] = 0,
    checkpoint: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Keep progress there: after Ctrl-C or a crash, the same command goes on."),
    ] = None,
    spark: Annotated[
        str | None, typer.Option(metavar="MASTER", help="Judge there: local[*], spark://..., sc://...")
    ] = None,
    with_tlc: Annotated[
        bool, typer.Option("--with-tlc", help="Have TLC judge as well, by the specification's own text; needs Java.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Is what happened a behaviour of the specification?

    Give all files of a run at once: what two processes recorded of a channel is put into one order without trusting
    clocks. For each channel: valid, or the first event that no behaviour allows, the state before it, and what would
    have been allowed. Where only one end was recorded, say so, and check that some behaviour of the
    other end explains it.

    Recordings may be of any length: they are read block by block, and the channels judged side by side.

    \b
      permitflow trace validate run/                         all trace files of a folder
      permitflow trace validate producer.jsonl server.jsonl  the two ends of a channel
      permitflow trace validate run/ --channel orders/0      one channel of it
      zcat run.jsonl.gz | permitflow trace validate -        what comes through a pipe
      permitflow trace validate run/ --checkpoint run.ckpt   can be interrupted, and goes on
      permitflow trace validate run/ --spark spark://host:7077
      permitflow trace validate run/ --with-tlc              TLC as a referee

    Exit code 0: all valid, as far as recorded. 1: not a behaviour, or TLC judges otherwise. 2: not a usable trace.
    """
    from permitflow_tools.validating.checkpoint import Checkpoint
    from permitflow_tools.validating.shares import here, validate

    if spark is not None and jobs:
        unusable("--jobs: is for this machine; Spark has its own, so leave it out with --spark")
    if spark is not None:
        require_master(spark)
    require_folder("--checkpoint", checkpoint)
    files = [_lasting(file, context.with_resource) for file in files]
    trace = _read(scan_trace, files, allow_truncated)
    names = chosen("--channel", channel or [], trace.channels, "channel")
    kept = None
    if checkpoint is not None:
        kept = Checkpoint(checkpoint, trace.files, names, allow_truncated=allow_truncated)
    judging = partial(validate, trace, names, allow_truncated=allow_truncated, checkpoint=kept)
    try:
        if spark is None:
            with open_progress() as progress:
                task = progress.add_task("events", total=None)
                workers = here(trace, jobs or os.cpu_count() or 1)
                verdicts = judging(*workers, on_progress=lambda events: progress.update(task, completed=events))
        else:
            verdicts = _on_spark(spark, judging, is_kept=kept is not None)
    except KeyboardInterrupt:
        if checkpoint is not None and checkpoint.exists():
            where = f"what was judged is kept in {checkpoint}, and the same command goes on from there"
            raise KeyboardInterrupt(where) from None
        raise
    referees = _ask_tlc(files, names, allow_truncated) if with_tlc else {}
    holds = all(verdict.is_valid for verdict in verdicts) and all(referee.agrees for referee in referees.values())
    if as_json:
        tlc = {name: referee.as_json() for name, referee in referees.items()}
        print_json({"holds": holds, "channels": [_as_json(verdict) for verdict in verdicts], "tlc": tlc})
    else:
        _print(verdicts, referees)
    stop(holds=holds)


def _on_spark(master: str, judging: "Callable[..., list[ChannelVerdict]]", *, is_kept: bool) -> "list[ChannelVerdict]":
    with requires_extra("spark"):
        from permitflow_tools.validating.on_spark import there
    with spark_session(master, "permitflow trace validate") as session:
        return judging(*there(session, is_kept=is_kept))


@trace.command()
def query(
    trace_dir: Annotated[
        Path, typer.Argument(metavar="TRACE_DIR", help="The folder that was the source's option traceDir.")
    ],
    checkpoint: Annotated[Path, typer.Argument(metavar="CHECKPOINT", help="The query's checkpointLocation.")],
    table: Annotated[
        Path | None, typer.Option(metavar="DIR", help="What a file sink has written: compare what it has published.")
    ] = None,
    consumer: Annotated[
        str, typer.Option(metavar="NAME", help="The name of the consumer as which the source reads.")
    ] = "default",
    source: Annotated[
        int, option(whole_number(least=0), "N", "The source's number among those of the query, from 0.")
    ] = 0,
    in_memory: Annotated[
        bool, typer.Option("--in-memory", help="The exchange has no store: it may lose rows, and the query fail.")
    ] = False,
    staging_rows: Annotated[
        int,
        rows("The exchange's --staging-rows, if jobs publish batches into the channels that the query reads.", least=0),
    ] = 0,
    as_json: Json = False,
) -> None:
    """Is what a streaming query did a behaviour of the specification?

    Spark, its tasks, the source and the sink each know a part of what happened. An order is looked for in which all of
    it is a run of SparkMicroBatch.tla: rows are acknowledged only when their batch is in the commit log, each batch is
    read as it was planned, no row is skipped or forgotten too soon. No clock is trusted.

    \b
      permitflow trace query trace/ checkpoint/                    whatever the sink is
      permitflow trace query trace/ checkpoint/ --table orders/    a file sink, whose log lists what it published

    Exit code 0: it is. 1: it is not. 2: not a usable recording, or it does not begin with the query.
    """
    with requires_extra("spark"):
        from permitflow_testing.query_runs import judge_query, published_by_file_sink
    verdicts = judge_query(
        trace_dir,
        checkpoint,
        consumer=consumer,
        source=source,
        published=None if table is None else published_by_file_sink(table),
        durable=not in_memory,
        staging_rows=staging_rows,
    )
    holds = all(verdict.is_valid for verdict in verdicts)
    if as_json:
        print_json({"holds": holds, "channels": [_query_as_json(verdict) for verdict in verdicts]})
    else:
        for verdict in verdicts:
            typer.echo(verdict.describe())
    stop(holds=holds)


def _ask_tlc(files: Sequence[Path], names: Sequence[str], allow_truncated: bool) -> "dict[str, Referee]":
    from permitflow_model.tlc import TlcError, TlcNotFoundError
    from permitflow_testing.referee import ask_tlc

    channels = read_channels(files, names, allow_truncated)
    try:
        return {channel.channel: ask_tlc(channel) for channel in channels}
    except (TlcNotFoundError, TlcError, ValueError) as error:
        unusable(f"--with-tlc: {error}")


def _print(verdicts: "Sequence[ChannelVerdict]", referees: "Mapping[str, Referee]") -> None:
    console = open_console()
    print_table(console, _overview(verdicts))
    for verdict in verdicts:
        print_lines(console, *(f"{_name(verdict)}: {remark}" for remark in verdict.remarks()))
        if verdict.is_valid and not verdict.is_at_rest and verdict.undecided is None:
            print_lines(console, f"{_name(verdict)}: at the end not at rest: {_where(verdict)}")
    bad = [verdict for verdict in verdicts if not verdict.is_valid]
    for verdict in bad:
        _print_objection(console, verdict)
    print_lines(console, *(f"{shortened(channel, 200)}: {referee.describe()}" for channel, referee in referees.items()))
    channels = counted(len(verdicts), "channel")
    if bad:
        console.print(f"{len(bad):,} of {channels} not valid")
    else:
        events = sum(verdict.replay.performed for verdict in verdicts)
        console.print(f"{channels} valid: {events:,} events are steps of the specification, and its invariants hold")


def _name(verdict: "ChannelVerdict") -> str:
    """The channel's name, which a file may have made as long as it likes."""
    return shortened(verdict.channel, 200)


def _overview(verdicts: "Sequence[ChannelVerdict]") -> Table:
    numbers = ("events", "rows", "most in use", "of permits", "most in inbox", "of rows", "actions")
    table = open_table("channel", "ends", *numbers, "", right=numbers)
    for verdict in verdicts:
        peaks = verdict.peaks
        word = "NOT VALID" if not verdict.is_valid else "valid" if verdict.undecided is None else "valid so far"
        table.add_row(
            _name(verdict),
            " + ".join(sorted(verdict.ends, reverse=True)),
            f"{verdict.actions.total():,}",
            f"{verdict.rows:,}",
            f"{peaks.row_permits_in_use:,}" if peaks and "sender" in verdict.ends else "",
            f"{peaks.row_permits:,}" if peaks else "",
            f"{peaks.inbox_rows:,}" if peaks and "receiver" in verdict.ends else "",
            f"{peaks.row_bound:,}" if peaks else "",
            f"{len(verdict.actions)} of {len(verdict.subject.system.actions)}",
            word,
        )
    return table


def _print_objection(console: Console, verdict: "ChannelVerdict") -> None:
    performed = verdict.replay.performed
    heading = f"{_name(verdict)}: not a behaviour of the specification, after {performed:,} valid events"
    print_lines(console, "", heading)
    print_table(console, _last_steps(verdict))
    allowed = "; ".join(verdict.allowed) or "nothing that the protocol does by itself"
    left_over = [f"{verdict.left_over:,} later events were not looked at"] if verdict.left_over else []
    before = f"the state before it: {_where(verdict)}"
    print_lines(console, *verdict.problems(), before, f"allowed instead: {allowed}", *left_over)


def _last_steps(verdict: "ChannelVerdict") -> Table:
    """How the run came there: where everything is after each of its last events, then the events that stopped it."""
    subject, tail = verdict.subject, verdict.replay.tail
    places = [name.replace("_", " ") for name in subject.places(verdict.world.state)]
    numbers = ("event", "rows", *places, "sum")
    table = open_table("end", "event", "action", "rows", *places, "sum", right=numbers)
    worlds = [*(world for world, _ in tail), verdict.world]
    for (_, event), after in zip(tail, worlds[1:], strict=True):
        counts = subject.places(after.state).values()
        table.add_row(*_told(subject, event), *(f"{count:,}" for count in (*counts, sum(counts))))
    for block in verdict.replay.blocked:
        table.add_row(*_told(subject, block.event), *("?" for _ in (*places, "sum")))
    return table


def _told(subject: "Subject", event: "Event") -> tuple[str, str, str, str]:
    amount = subject.amount_of(event)
    return event.end, f"{event.sequence:,}", event.action, f"{amount:,}" if amount else ""


def _where(verdict: "ChannelVerdict") -> str:
    subject, state = verdict.subject, verdict.world.state
    counts, sizes = subject.places(state), subject.waiting(state)
    waiting = f", {len(sizes):,} waiting" if sizes else ""
    if any(sizes):
        waiting = f", waiting chunks of {', '.join(map(str, sizes[:5]))}{' …' if len(sizes) > 5 else ''}"
    words = {name: subject.place_in_words.get(name, name.replace("_", " ")) for name in counts}
    places = " + ".join(f"{count:,} {words[name]}" for name, count in counts.items())
    # Barriers and watermarks have permits of their own, and no place in the sum.
    others = "" if waiting or sum(1 for count in counts.values() if count) > 1 else f"; {subject.state_in_words(state)}"
    return f"{subject.unit} {places} = {sum(counts.values()):,}{waiting}{others}"


def _as_json(verdict: "ChannelVerdict") -> dict[str, object]:
    return {
        "channel": verdict.channel,
        "valid": verdict.is_valid,
        "decided": verdict.undecided is None,
        "ends": sorted(verdict.ends),
        "events": verdict.actions.total(),
        "explained": verdict.replay.performed,
        "rows": verdict.rows,
        "at_rest": verdict.is_at_rest,
        "flow": verdict.subject.table.flow,
        "peaks": None if verdict.peaks is None else asdict(verdict.peaks),
        "actions": dict(sorted(verdict.actions.items())),
        "missing_actions": verdict.missing_actions,
        "remarks": list(verdict.remarks()),
        "problem": None if verdict.is_valid else _problem_as_json(verdict),
    }


def _problem_as_json(verdict: "ChannelVerdict") -> dict[str, object]:
    from permitflow.tracing.json_lines import arguments_as_json

    subject, state = verdict.subject, verdict.world.state
    blocked = [(block.event, block.reason, block.is_refused) for block in verdict.replay.blocked]
    broken = (
        [(verdict.replay.last, f"breaks {', '.join(verdict.replay.broken)}", True)] if verdict.replay.broken else []
    )
    return {
        "events": [
            {
                "end": event.end,
                "sequence": event.sequence,
                "action": event.action,
                **arguments_as_json(subject.table, event),
                "reason": reason,
                "is_refused": is_refused,
            }
            for event, reason, is_refused in (*broken, *blocked)
            if event is not None
        ],
        "state": {**subject.places(state), "waiting": subject.waiting(state)},
        "allowed": list(verdict.allowed),
        "not_looked_at": verdict.left_over,
    }


def _query_as_json(verdict: "QueryVerdict") -> dict[str, object]:
    return {
        "channel": verdict.channel,
        "valid": verdict.is_valid,
        "first_row": verdict.first_row,
        "events": verdict.replay.performed,
        "left_over": verdict.left_over,
        "state": verdict.state._asdict(),
        "problems": [
            {"action": block.event.action, "where": block.event.where, "reason": block.reason}
            for block in verdict.replay.blocked
        ],
    }


def _lasting(file: Path, hold: Callable[[AbstractContextManager[str]], str]) -> Path:
    """A file that can be read more than once: of what comes through a pipe, a copy in a folder that is ``hold``'s."""
    if not file.is_fifo():
        return file
    copy = Path(hold(TemporaryDirectory()), file.name)
    with file.open("rb") as source, copy.open("wb") as target:
        shutil.copyfileobj(source, target)
    return copy


def read_channels(files: Sequence[Path], names: Sequence[str], allow_truncated: bool) -> list[ChannelTrace]:
    """The channels of these names in the files of one run, or all if there are none; or end the command."""
    with ExitStack() as stack:
        lasting = [_lasting(file, stack.enter_context) for file in files]
        channels = _read(read_trace, lasting, allow_truncated).channels
    return [channels[name] for name in chosen("--channel", names, channels, "channel")]


def _read(read: Callable[..., T], files: Sequence[Path], allow_truncated: bool) -> T:
    """The files of one run, or what their headers say; ends the command if there is nothing to look at."""
    try:
        with requires_extra("grpc"):
            found = read(*files, allow_truncated=allow_truncated)
    except TraceTruncatedError as error:
        unusable(f"{error} (--allow-truncated)")
    if not found.channels:
        unusable("the trace holds no channel: nothing was recorded, so nothing can be checked")
    return found
