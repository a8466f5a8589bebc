"""``permitflow trace query``: what it says of good recordings, bad ones and unusable ones, and its exit code."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., tuple[int, str, str]]
Report = Callable[..., tuple[int, dict[str, Any]]]

CHANNEL = "orders/0"
FIRST = 100
"""The consumer had acknowledged so many rows before the query began."""


def record(folder: Path, *source: tuple[str, dict[str, int]]) -> None:
    """A query of two batches with 20 rows each, as the source and its tasks would have recorded it."""
    trace, checkpoint = folder / "trace", folder / "checkpoint"
    trace.mkdir()
    begin = ("Restart", {"row": FIRST, "row_permits": 64, "batch_cap": 32})
    write(trace / "source-default-000000.query.ndjson", begin, *source)
    for batch in range(2):
        rows = {"start": FIRST + 20 * batch, "end": FIRST + 20 * (batch + 1), "batch": batch}
        write(trace / f"task-default-00000{batch}.query.ndjson", ("RunTask", rows), ("Stage", rows))
        for log in ("offsets", "commits"):
            (checkpoint / log).mkdir(parents=True, exist_ok=True)
            offset = {"version": 1, "rows": {CHANNEL: rows["end"]}, "logs": {CHANNEL: "5f"}}
            (checkpoint / log / str(batch)).write_text(f"v1\n{{}}\n{json.dumps(offset)}\n")


def write(path: Path, *events: tuple[str, dict[str, int]]) -> None:
    lines = [json.dumps({"action": action, "channel": CHANNEL, **facts}) for action, facts in events]
    path.write_text("".join(f"{line}\n" for line in lines))


def planned(start: int, produced: int) -> tuple[str, dict[str, int]]:
    return "PlanBatch", {"start": FIRST + start, "end": FIRST + start + 20, "produced": FIRST + produced}


def acknowledged(row: int, before: int, produced: int) -> tuple[str, dict[str, int]]:
    return "Acknowledge", {"row": FIRST + row, "before": FIRST + before, "produced": FIRST + produced}


def test_a_good_run_is_valid(tmp_path: Path, command: Command, report: Report) -> None:
    record(tmp_path, planned(0, 20), acknowledged(20, 0, 40), planned(20, 40), acknowledged(40, 20, 40))
    code, output, _ = command("trace", "query", str(tmp_path / "trace"), str(tmp_path / "checkpoint"))
    assert code == 0
    assert output.startswith(
        "channel 'orders/0': valid, 13 events, at the end driver idle, batch [20, 40), 40 rows acknowledged"
    )
    code, found = report("trace", "query", str(tmp_path / "trace"), str(tmp_path / "checkpoint"))
    assert (code, found["holds"], found["channels"][0]["state"]["output"]) == (0, True, 40)


def test_the_half_line_of_a_killed_task_is_left_out(tmp_path: Path, command: Command) -> None:
    record(tmp_path, planned(0, 20), acknowledged(20, 0, 40), planned(20, 40), acknowledged(40, 20, 40))
    (tmp_path / "trace/task-default-000002.query.ndjson").write_text('{"action": "RunT')
    assert command("trace", "query", str(tmp_path / "trace"), str(tmp_path / "checkpoint"))[0] == 0


def test_a_batch_that_is_planned_before_the_last_one_was_acknowledged_is_no_behaviour(
    tmp_path: Path, command: Command, report: Report
) -> None:
    record(tmp_path, planned(0, 40), planned(20, 40))
    code, output, _ = command("trace", "query", str(tmp_path / "trace"), str(tmp_path / "checkpoint"))
    assert code == 1
    assert "PlanBatch (source-default-000000.query.ndjson, line 3): a batch from row 20 is planned, but only" in output
    code, found = report("trace", "query", str(tmp_path / "trace"), str(tmp_path / "checkpoint"))
    assert (code, found["channels"][0]["problems"][0]["action"]) == (1, "PlanBatch")


@pytest.mark.parametrize(
    ("spoil", "arguments", "words"),
    [
        (lambda folder: None, ["--consumer", "audit"], "was option trace_dir set, and is this the consumer?"),
        (lambda folder: None, ["--source", "1"], "no offset of this source, the query's number 1"),
        (lambda folder: None, ["--table", "nowhere"], "nowhere/_spark_metadata: No such file or directory"),
        (lambda folder: (folder / "checkpoint/offsets/0").unlink(), [], "the offset log begins with batch 1"),
        (lambda folder: (folder / "checkpoint/offsets/1").write_text("v1\n{}\nkafka"), [], "offsets/1, line 3"),
        (lambda folder: (folder / "trace/task-default-000000.query.ndjson").write_text("{\n"), [], "line 1: no event"),
    ],
    ids=["consumer", "source", "table", "purged", "foreign", "half a line"],
)
def test_what_cannot_be_judged_is_unusable(
    tmp_path: Path, command: Command, spoil: Callable[[Path], object], arguments: list[str], words: str
) -> None:
    record(tmp_path, planned(0, 20), acknowledged(20, 0, 40), planned(20, 40))
    spoil(tmp_path)
    code, _, complaint = command("trace", "query", str(tmp_path / "trace"), str(tmp_path / "checkpoint"), *arguments)
    assert code == 2
    assert words in complaint
