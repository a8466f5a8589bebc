"""The command: ``python -m benchmarks run``, then ``python -m benchmarks show`` or ``update-docs``."""

import time
from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown

from benchmarks.documents import can_draw, draw_all, update_documents
from benchmarks.field import FULL, SMOKE
from benchmarks.harness import CHECKOUT
from benchmarks.jobs import PAYLOADS
from benchmarks.measuring import COMPARISON, CURVES, PARTS, measure
from benchmarks.peers.way import find_ways
from benchmarks.results import RESULTS_FILE, UNMEASURED, Results
from benchmarks.tables import TABLES

DEFAULT_FOLDER = CHECKOUT / "build" / "bench"
DOCUMENTS = CHECKOUT / "docs"
# The others are in tables.md.
MAIN_TABLES = ("throughput", "latency", "local", "imbalance", "verdicts")

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
    size: Annotated[list[str] | None, typer.Option(help=f"Only {' or '.join(PAYLOADS)} rows; repeatable.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each measurement.")] = FULL.rounds,
    seed: Annotated[int, typer.Option(help="Of the order of measurements.")] = FULL.seed,
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
    require_known("part", part, PARTS)
    require_known("size", size, PAYLOADS)
    require_ways(ways)
    chosen = part or list(CURVES if curves else PARTS if smoke else COMPARISON)
    settings = SMOKE if smoke else replace(FULL, rounds=rounds)
    settings = replace(settings, seed=seed, ways=tuple(ways or FULL.ways), payloads=tuple(size or settings.payloads))
    former = measured(folder) if (folder / RESULTS_FILE).exists() else None
    began = time.monotonic()
    results = measure(chosen, settings, progress)
    if former is not None:
        results.keep(former)
    tell(results, folder, all_tables=bool(part or curves))
    output.print(f"measured in {time.monotonic() - began:.0f} s; see {folder}")
    if results.failures:
        output.print(f"{len(results.failures)} jobs failed", style="red")
        raise typer.Exit(1)


@application.command()
def show(folder: Folder = DEFAULT_FOLDER) -> None:
    """Write and print tables and plots of earlier results."""
    tell(measured(folder), folder, all_tables=True)


@application.command(name="update-docs")
def update_docs(folder: Folder = DEFAULT_FOLDER) -> None:
    """Paste the results into the pages of docs that have marks for them, and the plots into docs/pictures."""
    results = measured(folder)
    if results.settings["is_smoke"]:
        raise typer.BadParameter(f"{folder} holds a smoke run, whose figures mean nothing: run make bench")
    for changed in update_documents(DOCUMENTS, results):
        output.print(f"wrote {changed.relative_to(CHECKOUT)}")


def require_known(what: str, wanted: Iterable[str] | None, known: Collection[str]) -> None:
    if unknown := set(wanted or ()) - set(known):
        raise typer.BadParameter(f"no such {what}: {', '.join(sorted(unknown))}; there are {', '.join(known)}")


def require_ways(wanted: Iterable[str] | None) -> None:
    names = find_ways()[0]
    for part in wanted or ():
        if not any(part in name for name in names):
            raise typer.BadParameter(f"no way has {part!r} in its name; there are {', '.join(names)}")


def measured(folder: Path) -> Results:
    try:
        return Results.read(folder)
    except FileNotFoundError:
        raise typer.BadParameter(f"nothing was measured in {folder} yet: run make bench") from None
    except (TypeError, ValueError) as error:
        raise typer.BadParameter(
            f"{folder / RESULTS_FILE} cannot be read: {error}; delete it, and measure again"
        ) from None


def tables_of(results: Results) -> dict[str, str]:
    tables = {name: made(results) for name, made in TABLES.items()}
    return {name: made for name, made in tables.items() if made != UNMEASURED}


def tell(results: Results, folder: Path, *, all_tables: bool) -> None:
    """Write everything that can be made of results; print all tables, or those that matter most."""
    results.write(folder)
    tables = tables_of(results)
    sections = {name: f"## {name}\n\n{made}\n" for name, made in tables.items()}
    (folder / "tables.md").write_text("\n".join(sections.values()))
    output.print(Markdown("\n".join(made for name, made in sections.items() if all_tables or name in MAIN_TABLES)))
    if not can_draw():
        progress.print("no plots: they need matplotlib: pip install 'permitflow[bench]'", markup=False)
    for path in draw_all(results, folder):
        progress.print(f"drew {path.name}")


if __name__ == "__main__":
    application()
