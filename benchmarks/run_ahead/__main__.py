"""How many rows does Spark hide between a reader and a stalled consumer: with its own settings, and with configure()?

    python -m benchmarks.run_ahead

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
from typing import Any

from permitflow.cli.console import open_console, open_table

ROW_BYTES = 24
SETTINGS: dict[str, dict[str, str]] = {
    "Spark's own": {
        "spark.python.unix.domain.socket.enabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    },
    "configure()": {},
}
CONSUMERS = {"jvm": "in the JVM", "writer": "a writer"}
# More than Spark hides.
TOTAL_ROWS = 1_048_576
FULL, SMOKE = [64, 256, 1024, 4096], [1024]


def cases(settings: dict[str, str], chunk_rows: list[int]) -> list[dict[str, Any]]:
    """All cases under one setting."""
    told = json.dumps({"chunk_rows": chunk_rows, "total_rows": TOTAL_ROWS, "settings": settings})
    command = [sys.executable, "-m", "benchmarks.run_ahead.job", told]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"the job has failed:\n{done.stderr[-3000:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def main() -> None:
    """Print a table, and write JSON if that is wanted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="one size: does it still run?")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    sizes = SMOKE if arguments.smoke else FULL
    numbers = ("rows of a chunk", "hidden rows", "KiB", "metered at most", "rows/s without a stall")
    table = open_table("settings", "stalled consumer", *numbers, right=numbers)
    figures = []
    for name, settings in SETTINGS.items():
        for case in cases(settings, sizes):
            figures.append({"settings": name, **case})
            metered = "unknown" if case["metered"] is None else f"{case['metered']:,}"
            hidden = case["hidden_rows"]
            kibibytes = f"{hidden * ROW_BYTES / 1024:,.0f}"
            speed = f"{case['free_rows_per_second']:,.0f}"
            consumer, size = CONSUMERS[case["consumer"]], f"{case['chunk_rows']:,}"
            table.add_row(name, consumer, size, f"{hidden:,}", kibibytes, metered, speed)
    open_console().print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
