"""Run the streaming pipeline while its parts are killed, and write the result into docs/start/tutorial.md.

    python tools/killed_pipeline.py                      TPC-H at scale 1, fifty kills, writes the table
    python tools/killed_pipeline.py --scale 0.1          sooner
    python tools/killed_pipeline.py --keep FOLDER        keep logs, recordings and databases

Only a run without faults is written: no row lost or repeated, no channel above its permits, all recordings valid.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from permitflow.cli.console import open_console
from permitflow.demo import PipelineReport, PipelineSettings, run_streaming
from permitflow.demo.console import Progress
from permitflow.demo.streaming_demo import render_pipeline
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
            report = run_streaming(settings, progress)
    except (DemoError, InvalidOptionError) as error:
        print(error, file=sys.stderr)
        return 1
    console.print(render_pipeline(report))
    if not report.holds:
        return 1
    DOCUMENT.write_text(updated(DOCUMENT.read_text(encoding="utf-8"), table(report)), encoding="utf-8")
    return 0


def table(report: PipelineReport) -> str:
    lines = ["| | |", "|---|---:|", *(f"| {what} | {count} |" for what, count in _counts(report))]
    return "\n".join(lines) + "\n"


def _counts(report: PipelineReport) -> Iterator[tuple[str, str]]:
    kept = max(report.channels, key=lambda channel: channel.peak_rows_held / channel.window_rows)
    killed = ", ".join(f"{name} {count}" for name, count in report.kills.items())
    yield f"line items at scale {report.scale:g}", f"{report.line_items:,}"
    yield "of these late: what the consumer must count", f"{report.counted.expected:,}"
    yield "killed", killed
    yield "rows lost", f"{report.counted.lost:,}"
    yield "rows that came twice", f"{report.counted.duplicated:,}"
    yield "most rows that a channel kept, of its permits", f"{kept.peak_rows_held:,} of {kept.window_rows:,}"
    yield "lives of the exchange, replayed by the model", f"{report.recorded.lives:,} of {report.starts['exchange']:,}"
    yield "their steps", f"{report.recorded.events:,}"
    yield "steps of the query, replayed by its model", f"{report.recorded.query_events:,}"
    yield "minutes", f"{report.total_seconds / 60:.0f}"


def updated(text: str, results: str) -> str:
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{results}\n{END}{after}"


if __name__ == "__main__":
    sys.exit(main())
