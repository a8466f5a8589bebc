"""What an audit reads: files of other programs, files with nothing in them, paths as Spark writes them."""

from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow import ChannelParameters
from permitflow.errors import TraceUnreadableError
from permitflow.flows.permits.recorded import PERMIT_ACTIONS
from permitflow.flows.recording import ENDS
from permitflow.tracing import Header
from permitflow_testing.subjects.permits import model_of
from permitflow_tools.audit import Audit, audit_files
from permitflow_tools.audit.units import Plan, Unit
from tests.support.made_traces import random_behaviour
from tests.support.recordings import written

AGREED = ChannelParameters(row_permits=8, permit_batch=3, barrier_permits=2)
HEADERS = [*(Header("orders", end, PERMIT_ACTIONS, asdict(AGREED)) for end in ENDS)]
EVENTS = list(random_behaviour(model_of(AGREED, sizes=(0, 1, 4)), seed=3, events=60, channel="orders", settle=True))


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return written(tmp_path / "run.parquet", HEADERS, EVENTS)


def rewritten(recording: Path, name: str, column: pa.Array) -> Audit:
    """What is found if another program has written the file, in the order of the recording, with this column."""
    with pq.ParquetFile(recording) as file:
        table, metadata = file.read().unify_dictionaries().sort_by("position"), file.metadata.metadata
    table = table.set_column(table.schema.get_field_index(name), name, column)
    pq.write_table(table.replace_schema_metadata(metadata), recording)
    return audit_files(recording)


@pytest.mark.parametrize("kind", [pa.int32(), pa.string(), pa.float64()])
def test_numbers_of_other_types_are_understood(recording: Path, kind: pa.DataType) -> None:
    audit = rewritten(recording, "sequence", pa.array([event.sequence for event in EVENTS]).cast(kind))
    assert audit.holds
    assert audit.events == len(EVENTS)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("sequence", [None, *range(1, len(EVENTS))]),
        ("sequence", [number + 0.5 for number in range(len(EVENTS))]),
        ("sequence", ["first"] * len(EVENTS)),
        ("channel", [None, *(["orders"] * (len(EVENTS) - 1))]),
        ("end", [1] * len(EVENTS)),
        ("action", ["Sneeze"] * len(EVENTS)),
        ("action", ["Deliver"] * len(EVENTS)),
        ("rows", [None] * len(EVENTS)),
    ],
    ids=["null", "fraction", "text", "nobody", "number", "unknown", "of the other end", "nothing"],
)
def test_impossible_values_make_a_file_unreadable(recording: Path, name: str, values: list[object]) -> None:
    with pytest.raises(TraceUnreadableError, match=r"run\.parquet"):
        rewritten(recording, name, pa.array(values))


def test_missing_counters_are_remarked(recording: Path) -> None:
    audit = rewritten(recording, "inbox_rows", pa.array([None] * len(EVENTS), pa.int64()))
    assert audit.holds
    assert ["events of the receiver have no counters" in remark for remark in audit.channels[0].remarks] == [True]


def test_recordings_in_which_nothing_happened_hold(tmp_path: Path) -> None:
    written(tmp_path / "lines.jsonl", HEADERS[:1])
    written(tmp_path / "rows.parquet", HEADERS[1:])
    audit = audit_files(tmp_path)
    assert (audit.holds, audit.events) == (True, 0)
    assert audit.channels[0].ends == {"sender", "receiver"}


def test_a_file_that_is_no_trace_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    with pytest.raises(TraceUnreadableError, match=r"x\.parquet"):
        audit_files(tmp_path)


def test_paths_may_be_written_as_spark_writes_them(recording: Path) -> None:
    for path in (f"file://{recording}", f"file:{recording}", f"file://{recording.parent}", str(recording)):
        assert audit_files(path).events == len(EVENTS)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("nowhere.parquet", "there is no such file or folder"),
        ("file:///nowhere", "there is no such file or folder"),
        ("s3://bucket/run", "files of s3:// cannot be opened"),
    ],
)
def test_a_file_that_cannot_be_opened_is_an_error_with_its_reason(path: str, reason: str) -> None:
    with pytest.raises(TraceUnreadableError, match=reason):
        audit_files(path)


def plan_of(units: int) -> Plan:
    return Plan([Unit("run.parquet", PERMIT_ACTIONS, number) for number in range(units)], {}, {}, set())


@given(units=st.integers(0, 300), workers=st.integers(1, 20), finest=st.integers(1, 16))
def test_falling_shares_are_all_of_it_in_order_and_never_longer_than_before(
    units: int, workers: int, finest: int
) -> None:
    whole = plan_of(units)
    shares = whole.falling_shares(workers, finest=finest)
    sizes = [len(share) for share in shares]
    assert [unit for share in shares for unit in share] == whole.units
    assert sizes == sorted(sizes, reverse=True)
    assert 0 not in sizes
    assert len(shares) <= workers * finest
