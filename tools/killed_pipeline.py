"""Run the streaming pipeline while its parts are killed, and write the result into docs/start/tutorial.md.

    python -m tools.killed_pipeline                      TPC-H at scale 1, fifty kills, writes the table
    python -m tools.killed_pipeline --scale 0.1          sooner
    python -m tools.killed_pipeline --keep FOLDER        keep logs, recordings and databases

Only a run without faults is written: no row lost or repeated, no channel above its permits, all recordings valid.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from examples.tpch import PipelineSettings, Progress, Report, run
from permitflow.errors import DemoError, InvalidOptionError
from permitflow_tools.cli.console import open_console
from tools.marks import pasted

DOCUMENT = Path(__file__).resolve().parent.parent / "docs/start/tutorial.md"
MARK = "counts, written by nox -s kills"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="TPC-H scale factor (default: 1)")
    parser.add_argument("--kills", type=int, default=50, help="how many (default: 50)")
    parser.add_argument("--seed", type=int, default=7, help="seed for which part is killed, and when (default: 7)")
    parser.add_argument("--keep", type=Path, help="a folder for logs, recordings and databases")
    console = open_console()
    try:
        settings = PipelineSettings(**vars(parser.parse_args(arguments)))
        with Progress(console) as progress:
            report = run(settings, progress)
    except (DemoError, InvalidOptionError) as error:
        print(error, file=sys.stderr)
        return 1
    console.print(report.render())
    if not report.holds:
        return 1
    found = pasted(DOCUMENT.read_text(encoding="utf-8"), MARK, f"\n{table(report)}\n")
    DOCUMENT.write_text(found, encoding="utf-8")
    return 0


def table(report: Report) -> str:
    lines = ["| | |", "|---|---:|", *(f"| {what} | {count} |" for what, count in report.figures.items())]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
