"""``permitflow demo``: the main job, on real input."""

import asyncio
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from permitflow_tools.cli.console import open_console
from permitflow_tools.cli.options import given_options, number, option, whole_number
from permitflow_tools.cli.outcomes import Json, print_json, requires_extra, stop, unusable
from permitflow_tools.cli.output import require_folder, write_files

_CHECKOUT = Path(__file__).resolve().parents[3]


def example(name: str) -> Any:
    """A module of the examples: in a checkout the folder ``examples``, else installed as ``permitflow_examples``.

    An editable installation has a copy of them as well, which does not follow the checkout.
    """
    if (_CHECKOUT / "examples" / "tpch").is_dir():
        if str(_CHECKOUT) not in sys.path:
            sys.path.insert(0, str(_CHECKOUT))
        return import_module(f"examples.{name}")
    if find_spec("permitflow_examples") is None:
        unusable(f"there are no examples: neither {_CHECKOUT / 'examples'} nor the package permitflow_examples")
    return import_module(f"permitflow_examples.{name}")


def _require_packages(extra: str, *packages: str) -> None:
    """Require what only the demo's processes would import."""
    with requires_extra(extra):
        for package in packages:
            if find_spec(package) is None:
                raise ModuleNotFoundError(f"No module named {package!r}", name=package)


demo = typer.Typer(invoke_without_command=True, rich_markup_mode=None)


@demo.callback()
def main_job(
    context: typer.Context,
    scale: Annotated[float, option(number, "FACTOR", "TPC-H scale factor; 1 is about 1 GB as text.")] = 0.1,
    keep: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep logs, traces and statistics in this folder.", file_okay=False),
    ] = None,
    streaming: Annotated[
        bool, typer.Option("--streaming", help="A pipeline that never stops instead of two jobs.")
    ] = False,
    kills: Annotated[
        int, option(whole_number(least=0), "N", "With --streaming: kill a part of the pipeline this many times.")
    ] = 0,
    seed: Annotated[int, option(whole_number(least=0), "N", "Of which part is killed, and when.")] = 1,
    as_json: Json = False,
) -> None:
    """Run TPC-H query 12 as two Spark jobs with an exchange between them, and check everything about it.

    First the models and theorems of what it uses are checked again. Then Spark job 1 pushes the filtered line items
    through an exchange, and Spark job 2 reads them there and joins the orders. The answer must equal that of Spark
    alone, no stream may ever hold more rows than it has permits, and the model must accept every step that was
    recorded.

    With --streaming, a producer feeds a streaming query of Spark through an exchange on disk, and another channel of it
    leads to a consumer with a database of its own. With --kills, these processes are killed at random (SIGKILL) and
    started again: no row may be lost or come twice, and no channel may ever keep more rows than it has permits. If
    this command itself is killed, all of them end.

    \b
      permitflow demo
      permitflow demo --scale 1 --keep demo-files
      permitflow demo --streaming
      permitflow demo --streaming --scale 1 --kills 50 --seed 7
      permitflow demo --json
      permitflow demo wordcount                                another demo: sources that are muted
      permitflow demo jobs                                     and another: jobs that are dropped and sent again

    The tables are generated once and cached. Exit code 0: all checks passed. 1: a check or a process failed.
    2: unusable input.
    """
    if context.invoked_subcommand is not None:
        return
    _require_packages("demo", "grpc", "pyarrow", "pyspark", "z3")
    from rich.console import Console

    tpch = example("tpch")
    if not streaming and (strange := [name for name in given_options(context) if name in ("--kills", "--seed")]):
        unusable(f"{strange[0]}: needs --streaming: what two jobs have sent they cannot take back, so none is killed")
    pipeline = tpch.PipelineSettings(scale=scale, keep=keep, kills=kills, seed=seed)
    settings = pipeline if streaming else tpch.DemoSettings(scale=scale, keep=keep)
    console = Console(quiet=True) if as_json else open_console()
    with tpch.Progress(console) as progress:
        report = tpch.run(settings, progress)
    if as_json:
        print_json(report.as_json())
    else:
        console.print(report.render())
    stop(holds=report.holds)


@demo.command()
def wordcount(
    stalls: Annotated[int, option(whole_number(least=1), "N", "How often the reader stands still.")] = 2,
    stall_seconds: Annotated[float, option(number, "SECONDS", "For how long.")] = 2.0,
    flow_seconds: Annotated[float, option(number, "SECONDS", "How long it reads before, between and after.")] = 1.5,
    kill: Annotated[bool, typer.Option("--kill", help="Kill the worker that counts after the last stall.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write a page of the run.", dir_okay=False)
    ] = None,
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep logs and saved counts in this folder.", file_okay=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """Count words in several processes, with a reader that stands still: what is muted when, and for how long.

    Senders write words over TCP to worker processes, which send lines to another one. That one counts, and writes each
    count to the reader. When the reader stands still, it cannot write: it mutes the sources of all workers, and TCP
    stops the senders. The bytes between senders and reader have a bound, computed from the sizes of all sockets. During
    the first stall a worker is added: it is muted at once.

    \b
      permitflow demo wordcount
      permitflow demo wordcount --kill -o wordcount.html
      permitflow demo wordcount --stalls 5 --stall-seconds 10 --json

    Ctrl-C ends it early: the senders stop, all that they have sent is counted, and the report comes; a second Ctrl-C
    ends it at once. Needs neither Java nor any package but permitflow itself. Exit code 0: the counts are exact, the
    bound held, and each whole stall muted a source. 1: not so, or a process failed. 2: unusable input.
    """
    words = example("wordcount.demo")
    settings = words.WordCountSettings(stalls=stalls, stall_seconds=stall_seconds, flow_seconds=flow_seconds, kill=kill)
    _run(partial(words.run_wordcount, settings), words.figures, output, keep, as_json=as_json)


def _run(
    play: Callable[..., Any], figures: Callable[[Any], Any], output: Path | None, keep: Path | None, *, as_json: bool
) -> NoReturn:
    """Run a demo that can be asked to end, write its page, print its report, and end the command.

    Args:
        play: takes a folder, what is told each event, and an event that ends it early; returns the report and the page.
        figures: the report as names and values.
        output: where the page goes.
        keep: the folder; None: a temporary one.
        as_json: print for programs.
    """
    from rich.text import Text

    processes, console = example("processes"), open_console()
    require_folder("--output", output)
    with processes.work_folder(keep) as folder:
        note = (lambda text: None) if as_json else (lambda text: console.print(Text(text)))
        ending = asyncio.Event()
        report, page = processes.run_interruptible(play(folder, note, ending), ending.set)
    if output is not None:
        write_files({output: page})
    if as_json:
        print_json(report.as_json())
        stop(holds=report.holds)
    console.print()
    rows = figures(report)
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        console.print(Text(f"{name:{width}}  {value}"))
    for problem in report.problems:
        console.print(Text(f"Failed check: {problem}", style="bold red"))
    if report.holds:
        console.print(Text("All checks passed"))
    stop(holds=report.holds)


@demo.command()
def jobs(
    overload_seconds: Annotated[
        float, option(number, "SECONDS", "For how long more jobs come than workers can do.")
    ] = 4.0,
    factor: Annotated[
        int, option(whole_number(least=2), "N", "Jobs that come then, for each that workers can do.")
    ] = 3,
    kills: Annotated[int, option(whole_number(least=0), "N", "Kill this many workers meanwhile.")] = 1,
    workers: Annotated[int, option(whole_number(least=1), "N", "Processes that pull jobs.")] = 2,
    clients: Annotated[int, option(whole_number(least=1), "N", "Processes that submit jobs.")] = 2,
    lose: Annotated[float, option(number, "SHARE", "The share of packets with metrics that is lost on purpose.")] = 0.1,
    page: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where the monitor's page is; port 0: a free one.")] = (
        "127.0.0.1:0"
    ),
    seed: Annotated[int, option(whole_number(least=0), "N", "Of the jobs, and of what is lost.")] = 1,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the monitor's page at the end.", dir_okay=False),
    ] = None,
    keep: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep logs in this folder.", file_okay=False)] = None,
    as_json: Json = False,
) -> None:
    """Clients submit jobs to a master whose queue drops the oldest, and workers pull them: overloaded on purpose.

    Clients send jobs over TCP, and send each again that is not reported in time. The master's queue is as short as the
    theorem about it demands: no job is served that was sent again meanwhile. Workers pull one job at a time over gRPC.
    One is killed in the overload, and its job is given to another. In the end each job was reported finished to its
    client, once, whatever was dropped, sent again, or worked on twice. Master and workers send metrics over UDP, at a
    limited rate, to a monitor with a live page.

    \b
      permitflow demo jobs
      permitflow demo jobs --page 127.0.0.1:8080 -o jobs.html
      permitflow demo jobs --overload-seconds 60 --kills 10 --workers 4
      permitflow demo jobs --json --keep logs

    Ctrl-C ends it early: the clients submit no more, what they have submitted is finished, and the report comes; a
    second Ctrl-C ends it at once. Exit code 0: all checks passed. 1: a check or a process failed. 2: unusable input.
    """
    _require_packages("grpc", "grpc", "pyarrow")
    example_jobs = example("jobs.demo")
    settings = example_jobs.JobsSettings(
        overload_seconds=overload_seconds,
        overload_factor=factor,
        kills=kills,
        workers=workers,
        clients=clients,
        lose=lose,
        page=page,
        seed=seed,
    )
    _run(partial(example_jobs.run_jobs, settings), example_jobs.figures, output, keep, as_json=as_json)
