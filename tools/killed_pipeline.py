"""Run the streaming pipeline while its parts are killed, and write the result into docs/start/tutorial.md.

    python tools/killed_pipeline.py                      TPC-H at scale 1, fifty kills, writes the table
    python tools/killed_pipeline.py --scale 0.1          sooner
    python tools/killed_pipeline.py --keep FOLDER        keep logs, recordings and databases

Only a run without faults is written: no row lost or repeated, no channel above its permits, all recordings valid.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from permitflow.cli.console import open_console
from permitflow.demo import PipelineSettings, Progress, Report, run
from permitflow.errors import DemoError, InvalidOptionError

DOCUMENT = Path(__file__).resolve().parent.parent / "docs/start/tutorial.md"
BEGIN = "<!-- counts, written by make kills -->\n"
END = "<!-- end -->\n"


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
    DOCUMENT.write_text(updated(DOCUMENT.read_text(encoding="utf-8"), table(report)), encoding="utf-8")
    return 0


def table(report: Report) -> str:
    lines = ["| | |", "|---|---:|", *(f"| {what} | {count} |" for what, count in report.figures.items())]
    return "\n".join(lines) + "\n"


def updated(text: str, results: str) -> str:
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{results}\n{END}{after}"


if __name__ == "__main__":
    sys.exit(main())
