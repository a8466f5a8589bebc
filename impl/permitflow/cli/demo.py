"""``permitflow demo``: the main job, on real input."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from permitflow.cli.console import open_console
from permitflow.cli.options import number
from permitflow.cli.outcomes import ExitCode, Json, complain, print_json, requires_extra, stop, unusable
from permitflow.errors import DemoError, InvalidOptionError

__all__ = ["demo"]


def demo(
    scale: Annotated[
        float, typer.Option(parser=number, metavar="FACTOR", help="TPC-H scale factor; 1 is about 1 GB as text.")
    ] = 0.1,
    keep: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep logs, traces and statistics in this folder.", file_okay=False),
    ] = None,
    as_json: Json = False,
) -> None:
    """Run TPC-H query 12 as two Spark jobs with an exchange between them, and check everything about it.

    First all models and all theorems are checked again. Then Spark job 1 pushes the filtered line items through an
    exchange, and Spark job 2 reads them there and joins the orders. The answer must equal that of Spark alone, no
    stream may ever hold more rows than it has permits, and the model must accept every step that was recorded.

    \b
      permitflow demo
      permitflow demo --scale 1 --keep demo-files
      permitflow demo --json

    The tables are generated once and cached. Exit code 0: everything is as it should be. 1: something is not, or a
    process failed. 2: unusable input.
    """
    with requires_extra("demo"):
        _require("grpc", "pyarrow", "pyspark", "z3")
        from permitflow.demo import DemoReport, DemoSettings, run
        from permitflow.demo.console import ConsoleProgress, SilentProgress, render
    try:
        settings = DemoSettings(scale=scale, keep=keep)
    except InvalidOptionError as error:
        unusable(str(error))
    report: DemoReport
    try:
        if as_json:
            report = run(settings, SilentProgress())
            print_json(report.as_json())
        else:
            console = open_console()
            with ConsoleProgress(console) as progress:
                report = run(settings, progress)
            console.print(render(report))
    except DemoError as error:
        complain(str(error))
        raise typer.Exit(ExitCode.FAILS) from None
    stop(holds=report.holds)


def _require(*packages: str) -> None:
    """Notice now what only the demo's processes would import."""
    for package in packages:
        if find_spec(package) is None:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)
