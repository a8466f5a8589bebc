"""Traces in Parquet: the same content in columns, in row groups of bounded size; what is no trace is named."""

import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from permitflow import ChannelParameters
from permitflow.errors import TraceUnreadableError, TraceWriteError
from permitflow.flows.permits.recorded import PERMIT_ACTIONS
from permitflow.flows.recording import ENDS
from permitflow.tracing import Event, FileTrace, Header, read_trace
from permitflow.tracing.parquet import ParquetWriter, schema_of
from permitflow_testing.subjects.permits import model_of
from tests.support.made_traces import random_behaviour
from tests.support.recordings import written

AGREED = ChannelParameters(row_permits=8, permit_batch=2, barrier_permits=2)
HEADERS = [Header("orders", end, PERMIT_ACTIONS, asdict(AGREED)) for end in ENDS]
COLUMNS = schema_of(PERMIT_ACTIONS).names


def behaviour(events: int) -> list[Event]:
    return list(random_behaviour(model_of(AGREED, sizes=(0, 1, 4)), seed=1, events=events, channel="orders"))


def test_both_formats_hold_the_same(tmp_path: Path) -> None:
    events = [event._replace(time_seconds=number / 4) for number, event in enumerate(behaviour(500))]
    for name in ("run.jsonl", "run.parquet"):
        written(tmp_path / name, HEADERS, events)
    from_json, from_parquet = read_trace(tmp_path / "run.jsonl"), read_trace(tmp_path / "run.parquet")
    assert from_json == from_parquet
    assert from_parquet.channels["orders"].logs == (tuple(events),)


def test_row_groups_are_of_bounded_size(tmp_path: Path) -> None:
    writer = ParquetWriter(tmp_path / "run.parquet", row_group_events=100)
    events = behaviour(250)
    writer.write([*HEADERS, *events[:30]])
    writer.write(events[30:240])
    writer.write(events[240:])
    writer.close()
    metadata = pq.read_metadata(tmp_path / "run.parquet")
    assert [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)] == [100, 100, 50]
    assert read_trace(tmp_path / "run.parquet").channels["orders"].logs == (tuple(events),)


def test_events_come_in_recorded_order_however_they_were_sorted(tmp_path: Path) -> None:
    events, path = behaviour(250), tmp_path / "run.parquet"
    written(path, HEADERS, events, row_group_events=100)
    with pq.ParquetFile(path) as file:
        table, metadata = file.read().unify_dictionaries().sort_by([("rows", "descending")]), file.metadata.metadata
    pq.write_table(table.replace_schema_metadata(metadata), path, row_group_size=60)
    assert read_trace(path).channels["orders"].logs == (tuple(events),)


def test_a_file_whose_writer_was_killed_says_so(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    program = (
        "import os, sys\n"
        "from permitflow.flows.permits.recorded import PERMIT_ACTIONS\n"
        "from permitflow.tracing import FileTrace\n"
        "trace = FileTrace(sys.argv[1])\n"
        "trace.recorder('orders', 'sender', PERMIT_ACTIONS, {})('OfferChunk', (1, 1, 0, 0), ())\n"
        "trace.flush()\n"
        "os._exit(1)\n"
    )
    assert subprocess.run([sys.executable, "-c", program, str(path)], check=False).returncode == 1
    with pytest.raises(TraceUnreadableError, match=r"not a complete Parquet file \(was its writer killed"):
        read_trace(path)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_stops_the_recording_and_not_the_channel(tmp_path: Path) -> None:
    os.symlink("/dev/full", tmp_path / "run.parquet")
    with pytest.raises(TraceWriteError, match="No space left"):
        FileTrace(tmp_path / "run.parquet").close()


HEAD = '{"version": 3, "headers": [{"channel": "orders", "end": "sender", "parameters": {"row_permits": 8}}]}'


@pytest.mark.parametrize(
    ("change", "metadata", "complaint"),
    [
        ({}, {}, "it is not a permitflow trace"),
        ({}, {"permitflow_trace": '{"version": 9, "headers": []}'}, "format version 9, known is 3"),
        ({"action": None}, {"permitflow_trace": HEAD}, "the column 'action' is missing"),
        ({"action": "Deliver"}, {"permitflow_trace": HEAD}, "the sender has no action 'Deliver'"),
        ({"channel": "parts"}, {"permitflow_trace": HEAD}, r"no header opened the sender of channel 'parts' \(row 1\)"),
    ],
)
def test_a_file_that_is_no_trace_is_named(
    change: dict[str, str | None], metadata: dict[str, str], complaint: str, tmp_path: Path
) -> None:
    row: dict[str, object] = dict.fromkeys(COLUMNS, 1)
    row |= {"channel": "orders", "end": "sender", "action": "OfferChunk", "time_seconds": 0.5, **change}
    table = pa.table({name: [value] for name, value in row.items() if value is not None})
    pq.write_table(table.replace_schema_metadata(metadata), tmp_path / "run.parquet")
    with pytest.raises(TraceUnreadableError, match=complaint):
        read_trace(tmp_path / "run.parquet")


def test_recording_into_json_lines_does_not_load_pyarrow(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from permitflow.tracing import FileTrace, read_trace\n"
        "FileTrace(sys.argv[1]).close()\n"
        "read_trace(sys.argv[1])\n"
        "assert 'pyarrow' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "run.jsonl")], check=True)
