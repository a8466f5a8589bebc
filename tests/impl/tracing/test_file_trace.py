"""Trace files say what happened, in full or with a clear word on what is missing; the channel never notices.

Lines that a recorder cannot have written are refused, before they fill the memory, the stack or a column.
"""

import errno
import os
import subprocess
import sys
import threading
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from permitflow import ChannelParameters, Kind
from permitflow.errors import InvalidParametersError, TraceMismatchError, TraceUnreadableError, TraceWriteError
from permitflow.flows.permits.core import PermitSender
from permitflow.flows.permits.recorded import PERMIT_ACTIONS
from permitflow.flows.recording import ActionTable
from permitflow.tracing import FileTrace, MemoryTrace, read_trace

AGREED = ChannelParameters(row_permits=8, permit_batch=2)
STATED = asdict(AGREED)


def offer_and_send(sender: PermitSender[str], count: int) -> None:
    for _ in range(count):
        sender.offer(Kind.CHUNK, "x", 1)
        sender.send_oldest()


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines(keepends=True)


DEMAND = ActionTable(
    flow="demand",
    actions={
        "sender": {"Send": ("size.rows", "size.bytes"), "Hear": ("count",), "End": ()},
        "receiver": {"Take": (), "Ask": ("count",)},
    },
    counters={"sender": ("credit",), "receiver": ()},
)


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_a_written_trace_is_read_back_with_the_table_of_its_protocol(name: str, tmp_path: Path) -> None:
    channel_name = 'odd "name"\n/0'
    parameters: dict[str, str | int | float | bool | None] = {"ahead": 2, "by": "reading"}
    with FileTrace(tmp_path / name) as trace:
        sender = trace.recorder(channel_name, "sender", DEMAND, parameters)
        receiver = trace.recorder(channel_name, "receiver", DEMAND, parameters)
        receiver("Ask", (2,), ())
        sender("Hear", (2,), (2,))
        sender("Send", (3, 24), (1,))
        receiver("Take", (), ())
        sender("End", (), (1,))

    read = read_trace(tmp_path / name)

    assert read.is_complete
    channel = read.channels[channel_name]
    assert (channel.table, channel.parameters) == (DEMAND, parameters)
    assert channel.ends == {"sender", "receiver"}
    assert [(event.end, event.action, event.arguments, event.counters) for event in channel.logs[0]] == [
        ("receiver", "Ask", (2,), ()),
        ("sender", "Hear", (2,), (2,)),
        ("sender", "Send", (3, 24), (1,)),
        ("receiver", "Take", (), ()),
        ("sender", "End", (), (1,)),
    ]
    times = [event.time_seconds or 0.0 for event in channel.logs[0]]
    assert min(times) > 0
    assert times == sorted(times)


def test_several_protocols_share_a_file_of_lines_not_of_columns(tmp_path: Path) -> None:
    with FileTrace(tmp_path / "a.jsonl") as trace:
        trace.recorder("c", "sender", PERMIT_ACTIONS, STATED)
        trace.recorder("d", "sender", DEMAND, {})
        with pytest.raises(InvalidParametersError, match="table must be that of its flow until now"):
            trace.recorder("e", "sender", replace(PERMIT_ACTIONS, flow="demand"), {})
    assert [channel.table for channel in read_trace(tmp_path).channels.values()] == [PERMIT_ACTIONS, DEMAND]
    with FileTrace(tmp_path / "a.parquet") as trace:
        trace.recorder("c", "sender", PERMIT_ACTIONS, STATED)
        with pytest.raises(InvalidParametersError, match="flow must be 'permits' in this Parquet file"):
            trace.recorder("d", "sender", DEMAND, {})


@pytest.mark.parametrize(
    "names", [("x", "x"), ("sequence",), ("permits.end", "permits_end"), ("counters.a",), ("credit",)]
)
def test_names_that_could_be_mistaken_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(InvalidParametersError, match="names must"):
        replace(DEMAND, actions={"sender": {"Send": names}, "receiver": {}})


def test_events_of_several_files_come_together_by_channel(tmp_path: Path) -> None:
    for end, action in (("sender", "SendChunk"), ("receiver", "Deliver")):
        with FileTrace.in_directory(tmp_path, "task/1") as trace:
            trace.recorder("c", end, PERMIT_ACTIONS, STATED)(action, (1, 1, 0, 0), ())  # type: ignore[arg-type]  # mypy widens
    channel = read_trace(tmp_path).channels["c"]
    assert {path.name for path in tmp_path.iterdir()} == {f"task_1-{os.getpid()}-{number}.jsonl" for number in (0, 1)}
    assert [[event.action for event in log] for log in channel.logs] == [["SendChunk"], ["Deliver"]]


def test_threads_record_into_one_file_without_losing_events(tmp_path: Path) -> None:
    with FileTrace(tmp_path / "a.jsonl", buffered_events=7) as trace:

        def work(name: str) -> None:
            record = trace.recorder(name, "sender", PERMIT_ACTIONS, STATED)
            for _ in range(3000):
                record("OfferChunk", (1, 1, 0, 0), ())

        threads = [threading.Thread(target=work, args=(f"c{number}",)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    channels = read_trace(tmp_path / "a.jsonl").channels
    assert [len(channel.logs[0]) for channel in channels.values()] == [3000] * 4


def test_a_full_disk_stops_the_recording_and_not_the_channel(caplog: pytest.LogCaptureFixture) -> None:
    trace = FileTrace("/dev/full", buffered_events=2)
    sender: PermitSender[str] = PermitSender(AGREED, record=trace.recorder("c", "sender", PERMIT_ACTIONS, STATED))

    offer_and_send(sender, 3)

    assert sender.permits.rows == 5
    assert isinstance(trace.failure, TraceWriteError)
    offer_and_send(sender, 2)
    assert [record.getMessage() for record in caplog.records] == [str(trace.failure)]
    with pytest.raises(TraceWriteError, match="/dev/full is incomplete: No space left on device") as caught:
        trace.close()
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == errno.ENOSPC
    trace.close()


def test_a_recordings_error_does_not_hide_the_blocks() -> None:
    def work() -> None:
        with FileTrace("/dev/full") as trace:
            trace.recorder("c", "sender", PERMIT_ACTIONS, STATED)
            raise KeyError("the reason")

    with pytest.raises(KeyError, match="the reason") as caught:
        work()
    assert any("/dev/full is incomplete" in note for note in caught.value.__notes__)


def test_a_file_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TraceWriteError, match=r"missing/a\.jsonl is incomplete: No such file"):
        FileTrace(tmp_path / "missing" / "a.jsonl")
    (tmp_path / "file").touch()
    with pytest.raises(TraceWriteError, match=r"File exists|Not a directory"):
        FileTrace.in_directory(tmp_path / "file", "a")


def test_an_end_is_recorded_once(tmp_path: Path) -> None:
    with FileTrace(tmp_path / "a.jsonl") as trace:
        trace.recorder("c", "sender", PERMIT_ACTIONS, STATED)
        with pytest.raises(InvalidParametersError, match="channel must be new to the trace"):
            trace.recorder("c", "sender", PERMIT_ACTIONS, STATED)
    with pytest.raises(InvalidParametersError, match="channel needs a trace that is open"):
        trace.recorder("d", "sender", PERMIT_ACTIONS, STATED)
    with pytest.raises(InvalidParametersError, match="buffered_events must be at least 1, not 0"):
        FileTrace(tmp_path / "b.jsonl", buffered_events=0)


HEADER, FIRST, LAST = '"permitflow_trace": 2', '"action": "OfferChunk"', '{"permitflow_trace_events": 1}'


@pytest.mark.parametrize(
    ("old", "new", "line", "reason"),
    [
        (LAST, "garbage", 3, "Expecting value"),
        (LAST, "[]", 3, "it must be an object"),
        (LAST, "{}", 3, "no 'permitflow_trace_events' in it"),
        (LAST, '{"permitflow_trace_events": 5}', 3, "5 events were written, 1 are here"),
        (LAST, f"{LAST}\n{LAST}", 4, "it comes after the closing line"),
        (HEADER, '"permitflow_trace": 99', 1, "format version 99, known is 2"),
        ('"parameters": {', '"parameters": 8, "others": {', 1, "parameters must be an object"),
        ('"row_permits": 8', '"row_permits": [8]', 1, "the parameter 'row_permits' must be plain, not [8]"),
        ('"actions": {', '"actions": 8, "others": {', 1, "actions and counters must be objects"),
        (FIRST, '"action": "Deliver"', 2, "the sender has no action 'Deliver'; it has OfferChunk, "),
        ('"sender", "sequence"', '"receiver", "sequence"', 2, "no header opened the receiver of channel 'c'"),
        ("[1, 0, 0]", "[1, 0]", 2, "permits must be 3 numbers"),
        ('"rows": 1', '"rows": "1"', 2, "'1' must be a whole number"),
        ('"rows": 1', '"rows": true', 2, "True must be a whole number"),
        ('"rows": 1, ', "", 2, "no 'rows' in it"),
        ('"row_permits": 8', f'"row_permits": {10**30}', 1, "is more than a recording can hold"),
        ('"rows": 1', f'"rows": {-(10**30)}', 2, "is more than a recording can hold"),
        ("[1, 0, 0]", f"[{10**30}, 0, 0]", 2, "is more than a recording can hold"),
        ('"time_seconds": ', f'"time_seconds": {10**30}, "once": ', 2, "is more than a recording can hold"),
        ('"channel": "c"', r'"channel": "\ud800"', 1, "surrogates not allowed"),
        ('{"permitflow_trace": 2', (2 << 20) * "\0", 1, "has more than 1,048,576 characters"),
        ('{"permitflow_trace": 2', 100_000 * "[" + "\n", 1, "while decoding a JSON array"),
    ],
)
def test_a_line_that_no_recorder_has_written_is_named(
    tmp_path: Path, old: str, new: str, line: int, reason: str
) -> None:
    path = tmp_path / "a.jsonl"
    with FileTrace(path) as trace:
        trace.recorder("c", "sender", PERMIT_ACTIONS, {"row_permits": 8})("OfferChunk", (1, 1, 0, 0), ())
    content = path.read_text()
    assert old in content
    path.write_text(content.replace(old, new))
    with pytest.raises(TraceUnreadableError) as caught:
        read_trace(path)
    assert (caught.value.line, caught.value.path) == (line, str(path))
    assert reason in caught.value.reason


def test_a_compressed_recording_is_named_also_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_text("")
    (tmp_path / "a.jsonl.gz").write_bytes(b"")
    for place in (tmp_path, tmp_path / "a.jsonl.gz"):
        with pytest.raises(TraceUnreadableError, match=r"a\.jsonl\.gz: it is compressed: unpack it first"):
            read_trace(place)


def test_a_missing_file_an_empty_folder_and_binary_data_are_named(tmp_path: Path) -> None:
    with pytest.raises(TraceUnreadableError, match="No such file"):
        read_trace(tmp_path / "missing.jsonl")
    with pytest.raises(TraceUnreadableError, match=r"the folder holds no \*\.jsonl or \*\.parquet file"):
        read_trace(tmp_path)
    (tmp_path / "a.jsonl").write_bytes(b"\xff\xfe\n")
    with pytest.raises(TraceUnreadableError, match="is not UTF-8 text"):
        read_trace(tmp_path)


def test_recordings_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    with FileTrace(tmp_path / "a.jsonl") as trace:
        trace.recorder("c", "sender", PERMIT_ACTIONS, STATED)
    with FileTrace(tmp_path / "b.jsonl") as trace:
        trace.recorder("c", "receiver", PERMIT_ACTIONS, {"row_permits": 9})
    with pytest.raises(TraceMismatchError, match=r"permits with row_permits=8.*permits with row_permits=9"):
        read_trace(tmp_path)
    with FileTrace(tmp_path / "b.jsonl") as trace:
        trace.recorder("c", "sender", PERMIT_ACTIONS, STATED)
    with pytest.raises(TraceMismatchError, match=r"a\.jsonl and .*b\.jsonl both hold its sender"):
        read_trace(tmp_path)


def test_a_missing_event_is_noticed(tmp_path: Path) -> None:
    with FileTrace(tmp_path / "a.jsonl") as trace:
        offer_and_send(PermitSender(AGREED, record=trace.recorder("c", "sender", PERMIT_ACTIONS, STATED)), 3)
    lines = lines_of(tmp_path / "a.jsonl")
    (tmp_path / "a.jsonl").write_text("".join((*lines[:3], *lines[4:-1])))
    with pytest.raises(TraceMismatchError, match="event 3 of the sender is missing, event 4 comes instead"):
        read_trace(tmp_path)
    (tmp_path / "a.jsonl").write_text("".join((*lines[:4], *lines[2:-1])))
    with pytest.raises(TraceMismatchError, match="event 2 of the sender comes again, where event 4 is due"):
        read_trace(tmp_path)


def test_a_whole_last_line_needs_no_end(tmp_path: Path) -> None:
    with FileTrace(tmp_path / "a.jsonl") as trace:
        offer_and_send(PermitSender(AGREED, record=trace.recorder("c", "sender", PERMIT_ACTIONS, STATED)), 3)
    before = read_trace(tmp_path).channels["c"]
    (tmp_path / "a.jsonl").write_text("".join(lines_of(tmp_path / "a.jsonl")).rstrip("\n"))
    assert read_trace(tmp_path).channels["c"] == before


AT_EXIT = """
import os, sys
from permitflow.flows.permits.recorded import PERMIT_ACTIONS
from permitflow.tracing import FileTrace

trace = FileTrace(sys.argv[1])
record = trace.recorder("c", "sender", PERMIT_ACTIONS, {"row_permits": 8})
record("OfferChunk", (1, 1, 0, 0), ())
if (child := os.fork()) == 0:
    record("OfferChunk", (2, 2, 0, 0), ())
    sys.exit(0)
os.waitpid(child, 0)
record("SendChunk", (1, 1, 0, 0), ())
"""


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_the_interpreter_writes_the_rest_at_exit_and_a_fork_does_not(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    subprocess.run([sys.executable, "-c", AT_EXIT, str(path)], check=True, timeout=250)
    read = read_trace(path)
    assert read.is_complete
    assert [(event.action, event.arguments[0]) for event in read.channels["c"].logs[0]] == [
        ("OfferChunk", 1),
        ("SendChunk", 1),
    ]


def test_a_disk_that_is_full_at_exit_is_reported_on_the_console() -> None:
    done = subprocess.run(
        [sys.executable, "-c", AT_EXIT, "/dev/full"], check=True, timeout=250, capture_output=True, text=True
    )
    assert "permitflow: the recording in /dev/full is incomplete: No space left on device" in done.stderr


def test_memory_keeps_the_newest_events_and_says_what_it_dropped() -> None:
    trace = MemoryTrace(limit=3)
    offer_and_send(PermitSender(AGREED, record=trace.recorder("c", "sender", PERMIT_ACTIONS, STATED)), 2)
    assert [event.sequence for event in trace.events] == [2, 3, 4]
    assert trace.dropped == 1
    with pytest.raises(TraceMismatchError, match="event 1 of the sender is missing"):
        trace.trace()
