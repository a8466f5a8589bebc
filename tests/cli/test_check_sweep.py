"""``permitflow check FILE --sweep``: proved or explored, here or on Spark, as a table, a file or a map."""

import csv
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., tuple[int, str, str]]
Report = Callable[..., tuple[int, dict[str, Any]]]
GRID = str(Path(__file__).resolve().parents[2] / "docs/examples/grid.toml")
# For Spark to be started on a machine that has other things to do, too.
HANG_SECONDS = 600
SMALL = ("--sweep", "row_count=4", "--sweep", "batch=1,3,9", "--sweep", "max_chunk=1..5:+1")


def test_what_is_explored_is_what_is_proved(report: Report) -> None:
    (_, explored), (_, proved) = report("check", GRID, *SMALL, "--explore"), report("check", GRID, *SMALL)
    assert [point["verdict"] for point in explored["points"]] == [point["verdict"] for point in proved["points"]]
    assert (explored["check"], proved["check"]) == ("explore", "decide")
    assert explored["points"][0] | {"seconds": 0} == {
        "varied": {"row_count": 4, "batch": 1, "max_chunk": 1},
        "verdict": "live",
        "holds": True,
        "max_cost": 1,
        "states": 70,
        "depth": 18,
        "seconds": 0,
        "reason": "all 70 states were visited, and none of them is stuck",
        "run": [],
    }


def test_the_exit_code_says_whether_all_are_live(command: Command) -> None:
    assert command("check", GRID, *SMALL, "--explore")[0] == 1
    assert command("check", GRID, "--sweep", "row_count=4", "--sweep", "max_chunk=1,2", "--explore")[0] == 0


def test_a_file_can_say_itself_what_varies(report: Report, tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text('[upstream]\nrow_count = 4\n[chunks]\nrows = 1\n[sweep]\nbatch = [1, 2]\nrtt = ["1ms", "2ms"]\n')
    _, document = report("check", str(file), "--explore")
    assert [point["varied"] for point in document["points"]] == [{"batch": 1}, {"batch": 2}]


def test_what_is_too_large_is_told_in_the_table_and_below(command: Command) -> None:
    code, stdout, _ = command("check", GRID, *SMALL, "--explore", "--max-states", "300")
    assert code == 1
    assert "too large, for example with row_count 4, batch 1, max_chunk 3: it has 404 states, and at most 300" in stdout


def test_the_file_of_verdicts_has_a_line_for_each(command: Command, tmp_path: Path) -> None:
    written = tmp_path / "found.csv"
    command("check", GRID, *SMALL, "--explore", "--csv", str(written))
    with written.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 15
    (stuck,) = [row for row in rows if (row["batch"], row["max_chunk"]) == ("3", "3")]
    assert (stuck["verdict"], stuck["states"], len(stuck["run"].split())) == ("deadlock", "316", 5)


def test_the_map_is_drawn(command: Command, tmp_path: Path) -> None:
    drawing = tmp_path / "map.svg"
    _, stdout, _ = command("check", GRID, *SMALL, "--explore", "--plot", str(drawing))
    assert f"written: {drawing}" in stdout
    content = drawing.read_text()
    for label in ("ROW_COUNT 4", "live", "deadlock", "the proved line: max chunk = ROW_COUNT \N{MINUS SIGN} BATCH + 1"):
        assert f">{label}<" in content


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--explore",), "--explore is about varying what a file says: name a file"),
        ((GRID, "--sweep", "batch=1,2", "--plot", "map.svg"), "varied are batch"),
        ((GRID, "--sweep", "batch=1", "--plot", "map.gif"), "the name must end in .html, .svg, .png, .pdf"),
        ((GRID, "--sweep", "row_count=4..40:+1", "--sweep", "batch=1", "--sweep", "max_chunk=1", "--plot", "m.svg"),
         "37 row counts are too many panels"),
        ((GRID, "--sweep", "batch=1..999:+1", "--sweep", "max_chunk=1,2,3"), "with --spark there may be more"),
        ((GRID, "--sweep", "batch=1", "--explore", "--max-states", "0"), "must be at least 1"),
        ((GRID, "--sweep", "batch=1", "--spark", "nonsense://x"), "must be a master or a remote session"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_before_anything_is_done(
    command: Command, arguments: tuple[str, ...], message: str
) -> None:
    code, _, stderr = command("check", *arguments)
    assert code == 2
    assert message in stderr


def test_a_file_that_varies_nothing_is_told_what_to_add(command: Command) -> None:
    code, _, stderr = command("check", GRID.replace("grid", "orders"), "--explore")
    assert code == 2
    assert "nothing varies: give --sweep, or a [sweep] of row_count, batch, max_chunk, chunk_rows in" in stderr


@pytest.mark.timeout(2 * HANG_SECONDS)
def test_spark_finds_the_same() -> None:
    """In a process of its own: Spark's gateway forks."""
    program = [sys.executable, "-m", "permitflow.cli", "check", GRID, *SMALL, "--explore"]
    environment = {**os.environ, "COLUMNS": "120"}
    here, there = (
        subprocess.run(
            [*program, *more], capture_output=True, text=True, timeout=HANG_SECONDS, env=environment, check=False
        )
        for more in ((), ("--spark", "local[2]"))
    )
    assert (here.returncode, there.returncode) == (1, 1), there.stderr

    def without_seconds(table: str) -> list[list[str]]:
        return [line.split()[:-1] for line in table.splitlines()]  # of which the last column may be wider

    assert without_seconds(there.stdout) == without_seconds(here.stdout)
    assert len(here.stdout.splitlines()) == 17
