"""How many rows does Spark hide between a reader and a stalled consumer: with its own settings, and with configure()?

    python -m benchmarks.run_ahead --folder build/bench

A reader's permits return when Spark's Python worker asks for the next batch, so a row may be gone for the exchange
that nobody has processed.  The consumer stalls: one inside the JVM, right behind the reader, and one that is a writer
into a channel from which nobody reads.  Hidden are the rows whose permits are back and which the consumer has not
processed.  "Metered" is what the reader's own meter says at most, which knows nothing of operators behind it.  The last
column is the price: how fast rows come, in all, while nobody stalls.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from benchmarks.machine import describe_machine
from benchmarks.markdown_table import table
from benchmarks.results import Results
from benchmarks.run_ahead.figures import HEAD, PART, RunAhead
from benchmarks.series import Series

SETTINGS: dict[str, dict[str, str]] = {
    "Spark's own": {
        "spark.python.unix.domain.socket.enabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    },
    "configure()": {},
}
# More than Spark hides.
TOTAL_ROWS = 1_048_576
FULL, SMOKE = [64, 256, 1024, 4096], [1024]


def cases(name: str, chunk_rows: list[int]) -> list[RunAhead]:
    """All cases under one of ``SETTINGS``."""
    told = json.dumps({"chunk_rows": chunk_rows, "total_rows": TOTAL_ROWS, "settings": SETTINGS[name]})
    command = [sys.executable, "-m", "benchmarks.run_ahead.job", told]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"the job has failed:\n{done.stderr[-3000:]}")
    return [read(name, line) for line in done.stdout.splitlines()]


def read(name: str, line: str) -> RunAhead:
    """What a job has printed of one case."""
    facts = json.loads(line)
    return RunAhead(**{**facts, "settings": name, "free_rows_per_second": Series.of(facts["free_rows_per_second"])})


def main() -> None:
    """Print a table, and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="one size: does it still run?")
    parser.add_argument("--folder", type=Path, help="keep the figures among the results in this folder")
    arguments = parser.parse_args()
    if arguments.smoke and arguments.folder:
        parser.error("figures of a smoke run mean nothing: leave out --folder, or --smoke")
    figures = [case for name in SETTINGS for case in cases(name, SMOKE if arguments.smoke else FULL)]
    print(table(HEAD, [case.row() for case in figures]))
    if arguments.folder:
        Results.keep_in(arguments.folder, describe_machine(), PART, figures, rounds=1)


if __name__ == "__main__":
    main()
