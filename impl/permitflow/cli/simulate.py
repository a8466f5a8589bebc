"""``permitflow simulate``: how fast a channel is, and how large its window has to be."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from permitflow.cli.channel_options import RowCount
from permitflow.cli.options import axis, chunk_sizes, distinct, duration, rows_per_second, share, whole_number
from permitflow.cli.outcomes import Json, unusable
from permitflow.cli.output import require_apart
from permitflow.cli.simulate_once import simulate_once
from permitflow.cli.simulate_sweep import Outputs, simulate_sweep
from permitflow.errors import InvalidParametersError, ParametersFileError
from permitflow.parameters_file.read import KEYS, Description, read_description
from permitflow.protocol.frames import StatedParameters
from permitflow.simulation.chunk_sizes import ChunkSizes
from permitflow.simulation.setting import Setting
from permitflow.simulation.sweep import Axis

__all__ = ["simulate"]


def simulate(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A channel described in TOML; see docs/parameters.md.")
    ] = None,
    row_count: RowCount = None,
    batch: Annotated[
        int | None,
        typer.Option(
            parser=whole_number(least=1),
            metavar="ROWS",
            help="The receiver returns permits once it holds this many. Default: an eighth of the row count.",
        ),
    ] = None,
    max_chunk: Annotated[
        int | None,
        typer.Option(
            parser=whole_number(least=1),
            metavar="ROWS",
            help="The most permits a chunk takes; a larger one is split. Default: row count less batch.",
        ),
    ] = None,
    chunk_rows: Annotated[
        ChunkSizes | None,
        typer.Option(parser=chunk_sizes, metavar="ROWS,...", help="Rows of a chunk; several occur equally often."),
    ] = None,
    rtt: Annotated[
        float | None, typer.Option(parser=duration, metavar="TIME", help="Round-trip time, as in 40ms.")
    ] = None,
    producer_rate: Annotated[
        float | None,
        typer.Option(parser=rows_per_second, metavar="N", help="Rows a second while it does not wait, or unlimited."),
    ] = None,
    consumer_rate: Annotated[
        float | None, typer.Option(parser=rows_per_second, metavar="N", help="Rows a second, or unlimited.")
    ] = None,
    link_rate: Annotated[
        float | None,
        typer.Option(parser=rows_per_second, metavar="N", help="Rows a second that fit onto the wire, or unlimited."),
    ] = None,
    flush_idle: Annotated[
        bool | None,
        typer.Option("--flush-idle/--no-flush-idle", help="An idle receiver returns what is below the batch."),
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="For sizes that are drawn. Default: 0.")] = None,
    chunks: Annotated[
        int | None,
        typer.Option(
            parser=whole_number(least=1), metavar="N", help="Measure at least so many chunks. Default: 2,000."
        ),
    ] = None,
    full: Annotated[
        float,
        typer.Option(
            parser=share, metavar="SHARE", help="A pipe counts as full at this share of the most it carries, as in 99%."
        ),
    ] = 1.0,
    sweep: Annotated[
        list[Axis] | None,
        typer.Option(
            parser=axis, metavar="NAME=VALUES", help="Vary this: 1,16,256 or 256..65536:x2 or 1..9:+2; may be repeated."
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the sweep: .html, .svg, .png or .pdf, by the name.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the sweep as CSV.")] = None,
    as_json: Json = False,
) -> None:
    """How fast is it, and how large must the window be?

    Run the protocol in simulated time: the real sender and receiver, with delays and rates of your own. Options
    change what the file says. Reports throughput, back-pressure, where the permits are, latencies, and the smallest
    row count that keeps the pipe full, in comparison with the bandwidth-delay product.

    \b
      permitflow simulate orders.toml
      permitflow simulate orders.toml --rtt 80ms --full 99%
      permitflow simulate --row-count 32768 --chunk-rows 1024 --rtt 40ms --consumer-rate 800000

    Vary something and compare; with --plot, draw it:

    \b
      permitflow simulate orders.toml --sweep row_count=4096..65536:x2 --sweep batch=256,4096
      permitflow simulate orders.toml --sweep row_count=4096..65536:+2048 --plot sweep.html

    Names to vary: row_count, batch, max_chunk, chunk_rows, rtt, producer_rate, consumer_rate, link_rate.

    Exit code 0: it flows. 1: a deadlock, or the receiver refuses what the sender sends; of a sweep, anywhere.
    2: unusable input.
    """
    own = {
        "row_permits": row_count,
        "permit_batch": batch,
        "max_chunk_cost": max_chunk,
        "chunks": chunk_rows,
        "forward_seconds": None if rtt is None else rtt / 2,
        "return_seconds": None if rtt is None else rtt / 2,
        "producer_rate": producer_rate,
        "consumer_rate": consumer_rate,
        "link_rate": link_rate,
        "flush_idle": flush_idle,
    }
    given = {name: value for name, value in own.items() if value is not None}
    try:
        description = _description(file, given)
    except ParametersFileError as error:
        unusable(error.message)
    except InvalidParametersError as error:
        _refuse(error)
    description = replace(
        description,
        seed=description.seed if seed is None else seed,
        least_chunks=chunks or description.least_chunks,
        axes=distinct(sweep or description.axes),
    )
    try:
        if description.axes:
            _require_sweep(file, plot, csv, full)
            simulate_sweep(description, Outputs(plot=plot, csv=csv, as_json=as_json))
        _require_one_run(description.setting, plot, csv)
        simulate_once(description, full_share=full, as_json=as_json)
    except InvalidParametersError as error:
        _refuse(error)


def _require_sweep(file: Path | None, plot: Path | None, csv: Path | None, full: float) -> None:
    """End the command if a sweep is not what was meant, or would replace what it reads."""
    if full != 1.0:
        unusable("--full is about the smallest window of a single run: leave it, or what varies, away")
    require_apart({"--csv": csv, "--plot": plot}, [] if file is None else [file])


def _require_one_run(setting: Setting, plot: Path | None, csv: Path | None) -> None:
    """End the command if one run is not what was meant, or can not be."""
    if plot is not None or csv is not None:
        unusable(f"{'--plot' if plot else '--csv'} needs something to vary: --sweep row_count=256..65536:x2")
    if not setting.takes_time:
        unusable(
            "nothing takes time: give a delay (--rtt 40ms, or rtt below [network]) or a rate (--consumer-rate, or rate "
            "below [consumer])"
        )


def _description(file: Path | None, given: Mapping[str, object]) -> Description:
    """What the file says, changed by the options."""
    if file is not None:
        read = read_description(file)
        return replace(read, setting=_changed(read.setting, given))
    for name, option in (("row_permits", "--row-count"), ("chunks", "--chunk-rows")):
        if name not in given:
            unusable(f"{option} is missing: name a file, or give at least --row-count and --chunk-rows")
    numbers, others = _parted(given)
    setting = Setting(upstream=StatedParameters(**numbers), **others)  # type: ignore[arg-type]  # parsers made them
    return Description(setting=setting, seed=0, least_chunks=None, axes=())


def _changed(setting: Setting, given: Mapping[str, object]) -> Setting:
    """Options are for both ends."""
    numbers, others = _parted(given)
    return replace(
        setting,
        upstream=setting.upstream._replace(**numbers),  # type: ignore[arg-type]
        downstream=setting.downstream._replace(**dict.fromkeys(numbers, None)),
        **others,  # type: ignore[arg-type]
    )


def _parted(given: Mapping[str, object]) -> tuple[dict[str, object], dict[str, object]]:
    """What each end has of its own, and what is between them."""
    numbers = {name: value for name, value in given.items() if name in KEYS}
    return numbers, {name: value for name, value in given.items() if name not in KEYS}


def _refuse(error: InvalidParametersError) -> NoReturn:
    option = f"--{KEYS.get(error.name, error.name).replace('_', '-')}"
    value = "unlimited" if error.value == math.inf else error.value
    unusable(f"{option} {error.rule.replace('row_permits', 'row count')}, not {value}")
