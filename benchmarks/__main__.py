"""The command: ``python -m benchmarks run``, then ``python -m benchmarks update-docs``."""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown

from benchmarks.curves import measure_batches, measure_delays, measure_stalled, measure_windows
from benchmarks.documents import DOCUMENTS, draw_all, update_documents
from benchmarks.field import FULL, SMOKE, Field, Settings, open_field
from benchmarks.harness import CHECKOUT
from benchmarks.idle_channels import measure_idle_channels
from benchmarks.local_channel import measure_local
from benchmarks.lossy import measure_lossy
from benchmarks.peers.way import find_ways
from benchmarks.results import RESULTS_FILE, UNMEASURED, Results, Row, describe_machine
from benchmarks.resuming import measure_resuming
from benchmarks.stages import measure_stages
from benchmarks.stores import measure_stores
from benchmarks.tables import TABLES
from benchmarks.throughput import measure_latency, measure_stream_ends, measure_throughput

DEFAULT_FOLDER = CHECKOUT / "build" / "bench"


def measure_spark_jobs(settings: Settings) -> Sequence[Row]:
    """Spark is loaded only if it is asked for."""
    from benchmarks.spark_exchange import measure_spark

    return measure_spark(settings)


# Parts that start processes of their own, or none.
ALONE: dict[str, Callable[[Settings], Sequence[Row]]] = {
    "local": measure_local,
    "stages": measure_stages,
    "spark": measure_spark_jobs,
    "stores": measure_stores,
    "resuming": measure_resuming,
    "lossy": measure_lossy,
    "channels": measure_idle_channels,
}
# Parts in which the ways compete.
AMONG_WAYS: dict[str, Callable[[Field], Sequence[Row]]] = {
    "throughput": measure_throughput,
    "latency": measure_latency,
    "ends": measure_stream_ends,
    "windows": measure_windows,
    "batches": measure_batches,
    "delays": measure_delays,
    "stalled": measure_stalled,
}
PARTS = (*ALONE, *AMONG_WAYS)
# Ours beside others.
COMPARISON = ("local", "stages", "throughput", "latency", "ends")
# How our own figures depend on numbers: minutes more, and nothing that others are compared with.
CURVES = ("stores", "resuming", "lossy", "channels", "windows", "batches", "delays", "stalled")


application = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True, rich_markup_mode=None
)
Folder = Annotated[Path, typer.Option(help="Where results are.", file_okay=False)]
# Progress goes to standard error, tables to standard output.
progress, output = Console(stderr=True), Console()


@application.command()
def run(
    part: Annotated[list[str] | None, typer.Option(help=f"Only this part, of {', '.join(PARTS)}; repeatable.")] = None,
    curves: Annotated[bool, typer.Option(help=f"Only {', '.join(CURVES)}.")] = False,
    ways: Annotated[list[str] | None, typer.Option(help="Only ways with this in their name; repeatable.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each measurement.")] = FULL.rounds,
    smoke: Annotated[bool, typer.Option(help="Does it still run? Seconds; nothing is judged.")] = False,
    folder: Folder = DEFAULT_FOLDER,
) -> None:
    """Measure; write results.json, tables and plots into the folder; print tables and verdicts.

    Without --part and --curves, ours is measured beside others, as by make bench.  --smoke has all parts.  Parts that
    are not measured keep their former results.  Exit code 1: something failed while it was measured; a promise that is
    not kept is no failure.
    """
    if part and curves:
        raise typer.BadParameter("--curves stands for parts: leave it out, or --part")
    if unknown := set(part or ()) - set(PARTS):
        raise typer.BadParameter(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    for wanted in ways or ():
        if not any(wanted in name for name in find_ways()[0]):
            raise typer.BadParameter(f"no way has {wanted!r} in its name; there are {', '.join(find_ways()[0])}")
    chosen = part or list(CURVES if curves else PARTS if smoke else COMPARISON)
    settings = replace(SMOKE if smoke else replace(FULL, rounds=rounds), ways=tuple(ways or FULL.ways))
    former = measured(folder) if (folder / RESULTS_FILE).exists() else None
    began = time.monotonic()
    results = measure(chosen, settings)
    if former is not None:
        results.keep(former)
    results.write(folder)
    tables = {name: made for name, table in TABLES.items() if (made := table(results)) != UNMEASURED}
    sections = "\n".join(f"## {name}\n\n{made}\n" for name, made in tables.items())
    (folder / "tables.md").write_text(sections)
    output.print(Markdown(sections))
    for path in draw_all(results, folder):
        progress.print(f"drew {path.name}")
    output.print(f"measured in {time.monotonic() - began:.0f} s; see {folder}")
    if results.failures:
        output.print(f"{len(results.failures)} jobs failed", style="red")
        raise typer.Exit(1)


def measure(parts: Collection[str], settings: Settings) -> Results:
    results = Results(machine=describe_machine(), settings=asdict(settings))
    for part in (part for part in ALONE if part in parts):
        progress.print(f"{part} …")
        results.put(part, ALONE[part](settings))
    if any(part in AMONG_WAYS for part in parts):
        with open_field(settings, progress) as field:
            for part in (part for part in AMONG_WAYS if part in parts):
                results.put(part, AMONG_WAYS[part](field))
            results.failures = field.failures
    return results


@application.command(name="update-docs")
def update_docs(folder: Folder = DEFAULT_FOLDER) -> None:
    """Paste the results into the pages of docs that have marks for them, and the plots into docs/pictures."""
    results = measured(folder)
    if results.settings["is_smoke"]:
        raise typer.BadParameter(f"{folder} holds a smoke run, whose figures mean nothing: run make bench")
    for changed in update_documents(DOCUMENTS, results):
        output.print(f"wrote {changed.relative_to(CHECKOUT)}")


def measured(folder: Path) -> Results:
    try:
        return Results.read(folder)
    except FileNotFoundError:
        raise typer.BadParameter(f"nothing was measured in {folder} yet: run make bench") from None
    except (TypeError, ValueError) as error:
        raise typer.BadParameter(
            f"{folder / RESULTS_FILE} cannot be read: {error}; delete it, and measure again"
        ) from None


if __name__ == "__main__":
    application()
