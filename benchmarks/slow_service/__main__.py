"""Run a slow service between two Spark jobs, without and with back-pressure, and draw what is held in memory.

python -m benchmarks.slow_service                    a minute and a half; draws docs/pictures/slow-service.svg
python -m benchmarks.slow_service --rows 50000       smaller
python -m benchmarks.slow_service --picture my.png   elsewhere
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.slow_service.experiment import Outcome, require_equal, run_with_exchange, run_with_queue
from benchmarks.slow_service.picture import draw
from benchmarks.slow_service.settings import Settings
from permitflow.errors import DemoError

DOCUMENTS = Path(__file__).resolve().parents[2] / "docs"
PICTURE = DOCUMENTS / "pictures/slow-service.svg"
DOCUMENT = DOCUMENTS / "tutorial.md"
BEGIN = "<!-- the results, written by make tutorial -->\n"
END = "<!-- end -->\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run both, and say what came of them."""
    options = _parser().parse_args(arguments)
    with TemporaryDirectory(prefix="slow-service-") as folder:
        settings = Settings(rows=options.rows, rows_per_second=options.rows_per_second, work_dir=folder)
        try:
            outcomes = asyncio.run(_run(settings))
        except DemoError as error:
            print(error, file=sys.stderr)
            return 1
    print(table(outcomes))
    draw(outcomes, settings, options.picture)
    print(f"drawn: {options.picture}")
    if options.document:
        update(DOCUMENT, table(outcomes))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=Settings.rows, help="how many rows of 10,000 bytes")
    parser.add_argument("--rows-per-second", type=int, default=Settings.rows_per_second, help="of the service")
    parser.add_argument("--picture", type=Path, default=PICTURE, help="where to draw it; .svg, .png or .pdf")
    parser.add_argument("--document", action="store_true", help="write the table into docs/tutorial.md")
    return parser


async def _run(settings: Settings) -> list[Outcome]:
    outcomes = [await run_with_queue(settings, print), await run_with_exchange(settings, print)]
    require_equal(outcomes, settings.rows)
    return outcomes


def table(outcomes: Sequence[Outcome]) -> str:
    """What the tutorial quotes."""
    lines = [
        "| Between the jobs | Memory at the beginning | Most above that | All handed over after | All scores after |",
        "|---|---:|---:|---:|---:|",
    ]
    for each in outcomes:
        lines.append(
            f"| {each.name} | {each.memory_bytes[0] / 1e6:,.0f} MB | {max(each.growth_bytes) / 1e6:,.0f} MB | "
            f"{each.sent_seconds:.0f} s | {each.received_seconds:.0f} s |"
        )
    return "\n".join(lines)


def update(path: Path, results: str) -> None:
    """Write the results between their marks."""
    text = path.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    path.write_text(f"{before}{BEGIN}\n{results}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
