"""``permitflow trace``: what it says of good recordings, bad ones and unusable ones, and its exit code."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from permitflow import Demand
from permitflow.tracing import FileTrace
from permitflow_testing.subjects.demand import DemandPair
from tests.permitflow_tools.cli.conftest import Command, Report
from tests.support.recordings import UNEQUAL_CHUNKS, LostOnTheWay, run_pair

# A digit offers and sends a chunk of so many rows; d, c, a deliver, consume, add permits.
MOVES = "234234dddccca3dddccaadccaaaa"


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """A run of one channel, both ends in one file."""
    with FileTrace(tmp_path / "good.jsonl") as trace:
        run_pair(trace.recorder, MOVES)
    return trace.path


@pytest.fixture
def ends(good: Path) -> tuple[Path, Path]:
    """The same run as two processes would have recorded it."""
    lines = good.read_text().splitlines(keepends=True)[:-1]
    paths = good.with_name("sender.jsonl"), good.with_name("receiver.jsonl")
    for path in paths:
        write(path, [line for line in lines if f'"end": "{path.stem}"' in line])
    good.unlink()
    return paths


def write(path: Path, lines: Sequence[str]) -> None:
    events = sum('"action"' in line for line in lines)
    path.write_text("".join([*lines, json.dumps({"permitflow_trace_events": events}) + "\n"]))


def test_the_two_ends_in_two_files_are_one_run(ends: tuple[Path, Path], command: Command, report: Report) -> None:
    code, found = report("trace", "validate", *map(str, ends))
    assert (code, found["holds"]) == (0, True)
    (channel,) = found["channels"]
    assert (channel["events"], channel["explained"], channel["at_rest"]) == (35, 35, True)
    assert channel["ends"] == ["receiver", "sender"]
    assert channel["peaks"] == {"row_permits": 30, "row_bound": 30, "row_permits_in_use": 19, "inbox_rows": 9}
    assert channel["actions"] == {"AddPermits": 7, "Consume": 7, "Deliver": 7, "OfferChunk": 7, "SendChunk": 7}
    assert ("SendBarrier" in channel["missing_actions"], channel["problem"]) == (True, None)
    _, stdout, _ = command("trace", "validate", *map(str, ends))
    shown = next(line for line in stdout.splitlines() if "sender + receiver" in line).split()
    assert shown[4:] == ["35", "21", "19", "30", "9", "30", "5", "of", "12", "valid"]
    assert "1 channel valid: 35 events are steps of the specification" in stdout


@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "with a byte order mark"])
def test_a_recording_comes_through_a_pipe(
    good: Path, report: Report, monkeypatch: pytest.MonkeyPatch, mark: str
) -> None:
    out, into = os.pipe()
    with open(out), open(into, "w") as pipe:
        monkeypatch.setattr("permitflow_tools.cli.options.STANDARD_INPUT", Path(f"/dev/fd/{out}"))
        pipe.write(mark + good.read_text())
        pipe.close()
        code, found = report("trace", "validate", "-")
    assert (code, found["channels"][0]["events"]) == (0, 35)


def test_a_long_name_in_a_file_is_cut(good: Path, command: Command) -> None:
    good.write_text(good.read_text().replace('"channel": "channel"', '"channel": "' + 900 * "n" + '"'))
    code, stdout, _ = command("trace", "validate", str(good))
    assert (code, stdout.count("n" * 200 + "…"), stdout.count("n" * 201)) == (0, 1, 0)
    assert "(700 more characters)" in stdout


def test_a_bad_run_is_shown_up_to_its_first_impossible_event(tmp_path: Path, command: Command) -> None:
    with FileTrace(tmp_path / "bad.jsonl") as trace:
        run_pair(trace.recorder, UNEQUAL_CHUNKS, LostOnTheWay)

    code, stdout, _ = command("trace", "validate", str(trace.path))

    assert code == 1
    assert "NOT VALID" in stdout
    assert "channel: not a behaviour of the specification, after 26 valid events" in stdout
    culprit = next(line for line in stdout.splitlines() if "?" in line)
    assert culprit.split() == ["sender", "16", "AddPermits", "4", *"??????"]
    assert "4 row permits are not a sum of what comes back first" in stdout
    assert "the state before it: row permits 11 at the sender" in stdout
    assert "= 30" in stdout
    (allowed,) = (line for line in stdout.splitlines() if line.startswith("allowed instead"))
    assert "AddPermits of 3 row permits" in allowed
    assert "1 later events were not looked at" in stdout


def test_a_cut_recording_is_not_held_against_the_other_end(ends: tuple[Path, Path], command: Command) -> None:
    sender, receiver = ends
    lines = receiver.read_text().splitlines(keepends=True)
    receiver.write_text("".join(lines[:5]))

    code, stdout, _ = command("trace", "validate", str(sender), str(receiver))

    assert code == 0
    assert "valid so far" in stdout
    assert "the recording of the receiver was not closed: its last events may be missing" in stdout
    assert "not decided: AddPermits" in stdout

    # The same with a receiver that was closed in good order: the permits come from nowhere.
    write(receiver, lines[:5])
    code, stdout, _ = command("trace", "validate", str(sender), str(receiver))
    assert code == 1
    assert "has no cause" in stdout


def test_a_half_written_last_line_is_left_out_only_when_asked(good: Path, command: Command) -> None:
    text = good.read_text()
    good.write_text(text[: text.rindex('"action"')])
    code, stdout, stderr = command("trace", "validate", str(good))
    assert (code, stdout) == (2, "")
    assert "the last line is half written" in stderr
    assert "--allow-truncated" in stderr
    code, stdout, stderr = command("trace", "validate", "--allow-truncated", str(good))
    assert code == 0
    assert "the recording of the sender was not closed" in stdout
    assert "34 events are steps" in stdout


def test_one_channel_of_several_is_chosen_by_name(tmp_path: Path, report: Report, command: Command) -> None:
    with FileTrace(tmp_path / "two.jsonl") as trace:
        for number in (0, 1):
            run_pair(lambda _name, *facts, number=number: trace.recorder(f"orders/{number}", *facts), MOVES)

    assert [channel["channel"] for channel in report("trace", "validate", str(tmp_path))[1]["channels"]] == [
        "orders/0",
        "orders/1",
    ]
    _, found = report("trace", "validate", str(tmp_path), "--channel", "orders/1")
    assert [channel["channel"] for channel in found["channels"]] == ["orders/1"]

    code, _, stderr = command("trace", "validate", str(tmp_path), "--channel", "order")
    assert code == 2
    assert "there is no channel 'order'; did you mean orders/" in stderr


def test_tlc_is_asked_as_well(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FileTrace(tmp_path / "run.jsonl") as trace:
        run_pair(trace.recorder, "3dca")
    asked = ("trace", "validate", "--with-tlc", str(trace.path))
    code, stdout, _ = command(*asked)
    assert (code, "channel: TLC agrees: all 5 steps are steps of the specification" in stdout) == (0, True)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    code, _, stderr = command(*asked)
    assert (code, "--with-tlc: JAVA_HOME is" in stderr) == (2, True)


CHANNEL = "orders/0"
FIRST = 100
"""The consumer had acknowledged so many rows before the query began."""


def record(folder: Path, *source: tuple[str, dict[str, int]]) -> None:
    """A query of two batches with 20 rows each, as the source and its tasks would have recorded it."""
    trace, checkpoint = folder / "trace", folder / "checkpoint"
    trace.mkdir()
    begin = ("Restart", {"row": FIRST, "row_permits": 64, "batch_cap": 32})
    write_events(trace / "source-default-000000.query.ndjson", begin, *source)
    for batch in range(2):
        rows = {"start": FIRST + 20 * batch, "end": FIRST + 20 * (batch + 1), "batch": batch}
        write_events(trace / f"task-default-00000{batch}.query.ndjson", ("RunTask", rows), ("Stage", rows))
        for log in ("offsets", "commits"):
            (checkpoint / log).mkdir(parents=True, exist_ok=True)
            offset = {"version": 1, "rows": {CHANNEL: rows["end"]}, "logs": {CHANNEL: "5f"}}
            (checkpoint / log / str(batch)).write_text(f"v1\n{{}}\n{json.dumps(offset)}\n")


def write_events(path: Path, *events: tuple[str, dict[str, int]]) -> None:
    lines = [json.dumps({"action": action, "channel": CHANNEL, **facts}) for action, facts in events]
    path.write_text("".join(f"{line}\n" for line in lines))


def planned(start: int, produced: int) -> tuple[str, dict[str, int]]:
    return "PlanBatch", {"start": FIRST + start, "end": FIRST + start + 20, "produced": FIRST + produced}


def acknowledged(row: int, before: int, produced: int) -> tuple[str, dict[str, int]]:
    return "Acknowledge", {"row": FIRST + row, "before": FIRST + before, "produced": FIRST + produced}


def test_a_batch_planned_before_the_acknowledgement_is_no_behaviour(
    tmp_path: Path, command: Command, report: Report
) -> None:
    record(tmp_path, planned(0, 40), planned(20, 40))
    code, output, _ = command("trace", "query", str(tmp_path / "trace"), str(tmp_path / "checkpoint"))
    assert code == 1
    assert "PlanBatch (source-default-000000.query.ndjson, line 3): a batch from row 20 is planned, but only" in output
    code, found = report("trace", "query", str(tmp_path / "trace"), str(tmp_path / "checkpoint"))
    assert (code, found["channels"][0]["problems"][0]["action"]) == (1, "PlanBatch")


@pytest.mark.parametrize(("expired", "codes"), [(70, [0, 0]), (30, [1, 0])], ids=["expired", "and in a crash"])
def test_an_exchange_in_memory_may_let_rows_expire_too(
    tmp_path: Path, report: Report, expired: int, codes: list[int]
) -> None:
    loss = ("ReportLoss", {"row": FIRST + 40, "produced": FIRST + 90, "expired": FIRST + expired})
    record(tmp_path, planned(0, 20), acknowledged(20, 0, 40), planned(20, 40), loss)
    query = ("trace", "query", str(tmp_path / "trace"), str(tmp_path / "checkpoint"))
    assert [report(*query, *more)[0] for more in ((), ("--in-memory",))] == codes


@pytest.mark.parametrize(
    ("spoil", "arguments", "words"),
    [
        (lambda folder: None, ["--consumer", "audit"], "was option traceDir set, and is this the consumer?"),
        (lambda folder: (folder / "checkpoint/offsets/0").unlink(), [], "the offset log begins with batch 1"),
        (lambda folder: (folder / "checkpoint/offsets/1").write_text("v1\n{}\nkafka"), [], "offsets/1, line 3"),
        (lambda folder: (folder / "trace/task-default-000000.query.ndjson").write_text("{\n"), [], "line 1: no event"),
    ],
    ids=["consumer", "purged", "foreign", "half a line"],
)
def test_an_incomplete_recording_of_a_query_is_unusable(
    tmp_path: Path, command: Command, spoil: Callable[[Path], object], arguments: list[str], words: str
) -> None:
    record(tmp_path, planned(0, 20), acknowledged(20, 0, 40), planned(20, 40))
    spoil(tmp_path)
    code, _, complaint = command("trace", "query", str(tmp_path / "trace"), str(tmp_path / "checkpoint"), *arguments)
    assert code == 2
    assert words in complaint


def test_the_header_says_which_protocol_judges(tmp_path: Path, report: Report, command: Command) -> None:
    with FileTrace(tmp_path / "run.jsonl") as trace:
        pair = DemandPair(Demand(size=1, batch=1), record=trace.recorder)
        for move in (pair.offer, pair.offer, pair.send, pair.deliver, pair.consume):
            move()
        pair.request(1)
    path = str(trace.path)

    code, found = report("trace", "validate", path)
    assert (code, found["channels"][0]["flow"], found["channels"][0]["peaks"]) == (0, "demand", None)
    code, shown, _ = command("trace", "validate", path)
    assert code == 0
    assert "1 requested, at the sender + 0 in flight + 0 in the inbox" in shown
    page = tmp_path / "run.html"
    assert command("explain", path, "-o", str(page))[0] == 0
    assert "Request" in page.read_text()

    text = trace.path.read_text()
    trace.path.write_text(text.replace('"Request", "messages": 1', '"Send"'))
    code, found = report("trace", "validate", path)
    assert code == 1
    (event,) = found["channels"][0]["problem"]["events"]
    guard = "state.credit > 0 is false (state.credit = 0)"
    assert (event["action"], event["reason"]) == ("Send", f"{guard}; only Request can go on")
    trace.path.write_text(text.replace('"demand"', '"walk-and-talk"'))
    code, _, error = command("trace", "validate", path)
    assert (code, "no model of the protocol 'walk-and-talk' is known" in error) == (2, True)


def test_a_header_of_a_known_flow_needs_no_table(tmp_path: Path, command: Command) -> None:
    path = tmp_path / "run.jsonl"
    header = {"permitflow_trace": 2, "channel": "c", "end": "sender", "flow": "demand", "parameters": {"size": 2}}
    offer = {"channel": "c", "end": "sender", "sequence": 1, "action": "Offer"}
    path.write_text(f"{json.dumps(header)}\n{json.dumps({**header, 'end': 'receiver'})}\n{json.dumps(offer)}\n")
    assert command("trace", "validate", str(path))[0] == 0
    path.write_text(json.dumps({**header, "flow": "demnd"}))
    code, _, error = command("trace", "validate", str(path))
    assert (code, "no flow is named 'demnd'; known are demand" in error) == (2, True)


@pytest.mark.parametrize(
    ("parameters", "code", "said"),
    [
        ('"size": 2', 0, ""),
        ('"size": 2, "bactch": 1', 2, "there is no parameter 'bactch'; known are size, batch, initial"),
        ('"size": "2"', 2, "size must be a whole number of at least 1, not '2'"),
        ('"size": 2, "batch": 3', 2, "batch must be in 1 .. size = 2"),
    ],
    ids=["left out", "unknown", "a text", "too large"],
)
def test_parameters_of_a_foreign_header_are_checked(
    tmp_path: Path, command: Command, parameters: str, code: int, said: str
) -> None:
    with FileTrace(tmp_path / "run.jsonl") as trace:
        DemandPair(Demand(size=2, batch=1), record=trace.recorder).offer()
    text = trace.path.read_text()
    assert '"size": 2, "batch": 1, "initial": 2' in text
    trace.path.write_text(text.replace('"size": 2, "batch": 1, "initial": 2', parameters))
    given, _, error = command("trace", "validate", str(trace.path))
    assert (given, said in error) == (code, True)


def test_a_barrier_that_nobody_has_consumed_is_named(command: Command, tmp_path: Path) -> None:
    stream = {"channel": "orders/0", "end": "sender"}
    lines: list[dict[str, object]] = [{"permitflow_trace": 2, **stream, "parameters": {"row_permits": 16}}]
    for sequence, action in enumerate(("OfferBarrier", "SendBarrier"), start=1):
        lines.append({**stream, "sequence": sequence, "action": action, "rows": 0, "permits": [0, 1, 0]})
    (tmp_path / "run.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    _, stdout, _ = command("trace", "validate", str(tmp_path / "run.jsonl"))
    assert "at the end not at rest" in stdout
    assert "('barrier', 0)" in stdout
