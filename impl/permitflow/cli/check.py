"""``permitflow check``: the models of the specification, or the user's own numbers, in options or a file."""

from pathlib import Path
from typing import Annotated

import typer

from permitflow.checking import Check
from permitflow.checking.findings import MOST_STATES
from permitflow.cli.channel_options import Batch, FlushIdle, MaxChunk, RowCount, Sizes
from permitflow.cli.check_file import check_file
from permitflow.cli.check_models import Engine, check_models
from permitflow.cli.check_numbers import Numbers, check_numbers
from permitflow.cli.check_sweep import SweepOptions, check_sweep
from permitflow.cli.options import axis, whole_number
from permitflow.cli.outcomes import Json, unusable
from permitflow.simulation.sweep import Axis

__all__ = ["check"]


def check(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A channel described in TOML; see docs/parameters.md.")
    ] = None,
    row_count: RowCount = None,
    batch: Batch = None,
    max_chunk: MaxChunk = None,
    batch_up: Annotated[
        int | None,
        typer.Option(
            parser=whole_number(least=0),
            metavar="ROWS",
            help="The batch in the sender's own configuration, if it differs: it clamps chunks to row count less this.",
        ),
    ] = None,
    sizes: Sizes = None,
    flush_idle: FlushIdle = False,
    sweep: Annotated[
        list[Axis] | None,
        typer.Option(
            parser=axis, metavar="NAME=VALUES", help="Vary what the file says: 1,16,256 or 256..4096:x2; repeatable."
        ),
    ] = None,
    explore: Annotated[
        bool, typer.Option("--explore", help="Of a sweep: visit all states of each channel instead of proving.")
    ] = False,
    max_states: Annotated[
        int | None,
        typer.Option(
            parser=whole_number(least=1), metavar="N", help="Explore no channel with more states. Default: 1,000,000."
        ),
    ] = None,
    spark: Annotated[
        str | None, typer.Option(metavar="MASTER", help="Check a sweep there: local[*], spark://..., sc://...")
    ] = None,
    csv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the verdicts of a sweep.", dir_okay=False)
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Draw max_chunk over batch and row_count: .html, .svg, .png or .pdf.", dir_okay=False
        ),
    ] = None,
    engine: Annotated[
        Engine | None,
        typer.Option(metavar="NAME", help="Who checks the models: explorer, tlc or both. Default: what is available."),
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Check only this model; may be repeated.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Can it deadlock?

    With numbers, answer for these numbers, for good: the verdict is a theorem for all runs of any length, not a
    search that gave up somewhere. For a deadlock, show a shortest run into it and what to change. The numbers are
    those of the published protocol, unless --flush-idle says otherwise.

    \b
      permitflow check --row-count 2048 --batch 256 --max-chunk 1792     live
      permitflow check --row-count 2048 --batch 256 --max-chunk 2048     a deadlock, step by step
      permitflow check --row-count 8 --batch 6 --batch-up 4              two nodes, configured differently
      permitflow check --row-count 2048 --batch 256 --sizes 1024,2048    if only these sizes occur

    With a file, answer for the two ends that it describes, which may disagree, and say what a handshake would make
    of them.

    \b
      permitflow check orders.toml
      permitflow check orders.toml --sweep batch=256..16384:x2 --sweep max_chunk=1024,30000
      permitflow check grid.toml --explore --spark 'local[*]' --plot map.html

    Without either, check all models of the specification (spec/manifest.toml): each must come out as it records,
    the ones with a seeded fault included.

    \b
      permitflow check
      permitflow check --engine explorer                                 without Java
      permitflow check --model one-above-stuck --json

    Exit code 0: live, or all models as recorded. 1: a deadlock, or a model differs. 2: unusable input.
    """
    numbers = {
        "--row-count": row_count,
        "--batch": batch,
        "--max-chunk": max_chunk,
        "--batch-up": batch_up,
        "--sizes": sizes,
        "--flush-idle": flush_idle or None,
    }
    sweeping = {"--explore": explore, "--max-states": max_states, "--spark": spark, "--csv": csv, "--plot": plot}
    of_sweep = [name for name, value in sweeping.items() if value]
    given = [name for name, value in numbers.items() if value is not None]
    if file is not None:
        given += [name for name, value in (("--engine", engine), ("--model", model)) if value]
        if given:
            unusable(f"{given[0]} and a file do not go together: leave one of them away")
        if sweep or of_sweep:
            how, limit = Check.EXPLORE if explore else Check.DECIDE, max_states or MOST_STATES
            options = SweepOptions(check=how, max_states=limit, spark=spark, plot=plot, csv=csv, as_json=as_json)
            check_sweep(file, sweep or [], options)
        check_file(file, as_json=as_json)
    if sweep or of_sweep:
        unusable(f"{'--sweep varies' if sweep else f'{of_sweep[0]} is about varying'} what a file says: name a file")
    if not given:
        check_models(engine, model or [], as_json=as_json)
    if engine is not None or model:
        unusable(f"--engine and --model belong to the models of the manifest; leave them or {given[0]} away")
    if row_count is None or batch is None:
        missing = "--row-count" if row_count is None else "--batch"
        unusable(f"{missing} is missing: your own numbers need at least --row-count and --batch")
    occurring = None if sizes is None else tuple(sorted(sizes))
    asked = Numbers(
        row_count=row_count, batch=batch, max_chunk=max_chunk, batch_up=batch_up, sizes=occurring, flush_idle=flush_idle
    )
    check_numbers(asked, as_json=as_json)
