"""``permitflow trace query``: a recorded streaming query, judged by the specification."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from permitflow.cli.options import whole_number
from permitflow.cli.outcomes import Json, print_json, requires_extra, stop, unusable

if TYPE_CHECKING:
    from permitflow.testing.query_runs import QueryVerdict

__all__ = ["query"]


def query(
    trace_dir: Annotated[
        Path, typer.Argument(metavar="TRACE_DIR", help="The folder that was the source's option trace_dir.")
    ],
    checkpoint: Annotated[Path, typer.Argument(metavar="CHECKPOINT", help="The query's checkpointLocation.")],
    table: Annotated[
        Path | None, typer.Option(metavar="DIR", help="What a file sink has written: compare what it has published.")
    ] = None,
    consumer: Annotated[str, typer.Option(metavar="NAME", help="As whom the source reads.")] = "default",
    source: Annotated[
        int,
        typer.Option(
            parser=whole_number(least=0), metavar="N", help="The source's number among those of the query, from 0."
        ),
    ] = 0,
    in_memory: Annotated[
        bool, typer.Option("--in-memory", help="The exchange has no store: it may lose rows, and the query fail.")
    ] = False,
    staging_rows: Annotated[
        int,
        typer.Option(
            parser=whole_number(least=0),
            metavar="ROWS",
            help="The exchange's --staging-rows, if jobs publish batches into the channels that the query reads.",
        ),
    ] = 0,
    as_json: Json = False,
) -> None:
    """Is what a streaming query did a behaviour of the specification?

    Spark, its tasks, the source and the sink each know a part of what happened. An order is looked for in which all of
    it is a run of SparkMicroBatch.tla: rows are acknowledged only when their batch is in the commit log, each batch is
    read as it was planned, no row is skipped or forgotten too soon. No clock is trusted.

    \b
      permitflow trace query trace/ checkpoint/                    whatever the sink is
      permitflow trace query trace/ checkpoint/ --table orders/    a file sink, which tells what it has published

    Exit code 0: it is. 1: it is not. 2: not a usable recording, or it does not begin with the query.
    """
    verdicts = _judged(trace_dir, checkpoint, table, consumer, source, durable=not in_memory, staging_rows=staging_rows)
    holds = all(verdict.is_valid for verdict in verdicts)
    if as_json:
        print_json({"holds": holds, "channels": [_as_json(verdict) for verdict in verdicts]})
    else:
        for verdict in verdicts:
            typer.echo(verdict.describe())
    stop(holds=holds)


def _judged(
    trace_dir: Path,
    checkpoint: Path,
    table: Path | None,
    consumer: str,
    source: int,
    *,
    durable: bool,
    staging_rows: int,
) -> "Sequence[QueryVerdict]":
    from permitflow.errors import TraceError

    with requires_extra("spark"):
        from permitflow.testing.query_runs import judge_query, published_by_file_sink
    try:
        published = None if table is None else published_by_file_sink(table)
        return judge_query(
            trace_dir,
            checkpoint,
            consumer=consumer,
            source=source,
            published=published,
            durable=durable,
            staging_rows=staging_rows,
        )
    except TraceError as error:
        unusable(str(error))


def _as_json(verdict: "QueryVerdict") -> dict[str, object]:
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
