"""Recordings of any length are judged block by block, and the verdict is that of the whole."""

import json
import random
from collections.abc import Generator, Iterable, Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from permitflow import ChannelParameters, GateParameters, InputGate, Kind, LocalSender
from permitflow.errors import TraceMismatchError, TraceUnreadableError
from permitflow.flows.gate.core import GATE_ACTIONS, GateReceiver, GateSender
from permitflow.flows.permits.recorded import PERMIT_ACTIONS
from permitflow.flows.recording import ENDS
from permitflow.tracing import Event, Header, MemoryTrace, read_trace
from permitflow.tracing.reader import scan_trace
from permitflow_testing.subjects.permits import model_of
from permitflow_testing.traces import ChannelVerdict, judge
from permitflow_tools.validating import shares
from permitflow_tools.validating.checkpoint import Checkpoint
from permitflow_tools.validating.shares import Share, here, validate
from tests.support.made_traces import FAULTS, Fault, NoPlaceError, random_behaviour
from tests.support.recordings import written

T = TypeVar("T")
AGREED = ChannelParameters(row_permits=8, permit_batch=3, barrier_permits=2)


@cache
def behaviour(seed: int, events: int = 150, channel: str = "orders") -> tuple[Event, ...]:
    model = model_of(AGREED, sizes=(0, 1, 4))
    return tuple(random_behaviour(model, seed=seed, events=events, channel=channel, settle=True))


def write(path: Path, events: Iterable[Event], *, row_group_events: int = 64, channel: str = "orders") -> Path:
    headers = (Header(channel, end, PERMIT_ACTIONS, asdict(AGREED)) for end in ENDS)
    return written(path, headers, events, row_group_events=row_group_events)


def validated(*paths: Path) -> list[ChannelVerdict]:
    trace = scan_trace(*paths)
    return validate(trace, list(trace.channels), *here(trace, 1))


def faulty(kind: str) -> Fault:
    for seed in range(200):
        try:
            return FAULTS[kind](behaviour(seed), random.Random(seed))
        except NoPlaceError:
            continue
    raise AssertionError(f"no run in which {kind}")


@given(seed=st.integers(0, 10_000), row_group_events=st.integers(1, 100))
@settings(deadline=None, max_examples=10, derandomize=True)
def test_every_behaviour_of_the_model_is_valid_in_any_blocks(
    tmp_path_factory: pytest.TempPathFactory, seed: int, row_group_events: int
) -> None:
    file, events = tmp_path_factory.mktemp("run") / "run.parquet", behaviour(seed)
    (verdict,) = validated(write(file, events, row_group_events=row_group_events))
    (whole,) = read_trace(file).channels.values()
    assert verdict == judge(whole)
    assert (verdict.is_valid, verdict.replay.performed) == (True, len(events))


@pytest.mark.parametrize("name", ["run.parquet", "run.jsonl"])
@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_is_found_where_it_is(kind: str, name: str, tmp_path: Path) -> None:
    fault = faulty(kind)
    path = write(tmp_path / name, fault.events, row_group_events=7)
    end, sequence = fault.place
    if fault.is_gap:
        with pytest.raises(
            TraceMismatchError,
            match=f"of the {end} is missing, event {sequence} comes|event {sequence} of the {end} comes again",
        ):
            validated(path)
        return
    (verdict,) = validated(path)
    assert not verdict.is_valid
    assert [(block.event.end, block.event.sequence) for block in verdict.replay.blocked] == [(end, sequence)]


def test_what_two_processes_recorded_is_put_together_block_by_block(tmp_path: Path) -> None:
    events = behaviour(1, 3_000)
    for end in ENDS:
        own = [event for event in events if event.end == end]
        header = Header("orders", end, PERMIT_ACTIONS, asdict(AGREED))
        written(tmp_path / f"{end}.parquet", [header], own, row_group_events=50)
    trace = scan_trace(tmp_path)
    (share,) = shares.shares_of(trace, ["orders"], 4, allow_truncated=False)
    most_waiting = 0
    while not share.is_over:
        share = share.go_on(1)
        (run,) = share.runs.values()
        most_waiting = max(most_waiting, *map(len, run.replay.pending))
    (verdict,) = share.verdicts()
    assert (verdict.is_valid, verdict.logs, verdict.replay.performed) == (True, 2, len(events))
    assert most_waiting < 200


@pytest.fixture
def gate_files(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """What both ends of a gate's input recorded, of chunks that are sent, or taken back: in so many files."""
    files, is_sent = request.param
    parameters, trace = GateParameters(inputs=1, exclusive=0, floating=8), MemoryTrace()
    told = asdict(parameters)
    sender = GateSender[str](parameters, record=trace.recorder("orders", "sender", GATE_ACTIONS, told))
    receiver = GateReceiver[str](parameters, record=trace.recorder("orders", "receiver", GATE_ACTIONS, told))
    for _ in range(20):
        offered = sender.offer(Kind.CHUNK, "rows", 4)
        receiver.on_announcement(some(sender.take_announcement()))
        sender.on_feedback(some(receiver.take_feedback()))
        if is_sent:
            receiver.deliver(sender.send_oldest())
            receiver.receive_many(1)
        else:
            sender.withdraw(offered)
            receiver.on_announcement(some(sender.take_announcement()))
    for number, ends in enumerate([ENDS] if files == 1 else [ENDS[:1], ENDS[1:]]):
        events = [event for event in trace.events if event.end in ends]
        headers = [Header("orders", end, GATE_ACTIONS, told) for end in ends]
        written(tmp_path / f"{len(ends)}{files - number}.parquet", headers, events, row_group_events=7)
    return tmp_path


def some(value: T | None) -> T:
    assert value is not None
    return value


@pytest.mark.parametrize("gate_files", [(1, True), (1, False), (2, True), (2, False)], indirect=True)
def test_a_gates_recording_is_judged_as_a_whole_in_any_blocks(gate_files: Path) -> None:
    (verdict,) = validated(gate_files)
    (share,) = shares.shares_of(scan_trace(gate_files), ["orders"], 1, allow_truncated=False)
    while not share.is_over:
        share = share.go_on(1)
    assert verdict.is_valid
    assert verdict.replay.worlds == next(share.verdicts()).replay.worlds


def test_channels_are_judged_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["orders/0", "orders/1", "orders/2"]
    for number, name in enumerate(names):
        write(tmp_path / f"{number}.parquet", behaviour(number, 200, name), channel=name)
    monkeypatch.setattr(shares, "_BYTES_PER_PROCESS", 1)
    trace = scan_trace(tmp_path)
    found = validate(trace, names, *here(trace, 2))
    assert [verdict.channel for verdict in found] == names
    assert found == validated(tmp_path)


# Checkpoints.


def slowly(all_shares: list[Share]) -> Generator[tuple[int, Share], None, None]:
    """Turns of one block."""
    for number, share in enumerate(all_shares):
        while not share.is_over:
            yield number, share.go_on(1)


def interrupt_after(turns: int) -> Any:
    left = iter(range(turns))

    def progressed(_events: int) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt

    return progressed


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return write(tmp_path / "run.parquet", behaviour(2, 500), row_group_events=50)


def checkpoint_of(recording: Path, channels: Sequence[str] = ("orders",)) -> Checkpoint:
    trace = scan_trace(recording)
    return Checkpoint(recording.with_suffix(".checkpoint"), trace.files, channels, allow_truncated=False)


@pytest.fixture
def interrupted(recording: Path) -> Path:
    """A checkpoint after a few blocks."""
    with pytest.raises(KeyboardInterrupt):
        validate(
            scan_trace(recording),
            ["orders"],
            1,
            slowly,
            checkpoint=checkpoint_of(recording),
            on_progress=interrupt_after(3),
        )
    return recording.with_suffix(".checkpoint")


def test_an_interrupted_judgement_goes_on_where_it_was(recording: Path, interrupted: Path) -> None:
    told: list[int] = []
    (verdict,) = validate(
        scan_trace(recording), ["orders"], 1, slowly, checkpoint=checkpoint_of(recording), on_progress=told.append
    )
    assert told[0] == 250  # four blocks were kept
    assert verdict == validated(recording)[0]
    assert not interrupted.exists()


async def test_a_judgement_of_a_gate_goes_on_where_it_was(tmp_path: Path) -> None:
    parameters, trace = GateParameters(inputs=1, exclusive=8, floating=8), MemoryTrace()
    async with InputGate[list[int]](parameters) as gate:
        sender: LocalSender[list[int]] = gate.open_channel("orders", record=trace.recorder)
        for _ in range(40):
            for _ in range(3):
                await sender.send([0] * 4)
            for _ in range(3):
                await gate.receive()
    headers = [Header("orders", end, GATE_ACTIONS, asdict(parameters)) for end in ENDS]
    recording = written(tmp_path / "gate.parquet", headers, trace.events, row_group_events=7)
    whole = validated(recording)
    for turns in (2, 9):
        checkpoint, interrupt = checkpoint_of(recording), interrupt_after(turns)
        with pytest.raises(KeyboardInterrupt):
            validate(scan_trace(recording), ["orders"], 1, slowly, checkpoint=checkpoint, on_progress=interrupt)
        assert validate(scan_trace(recording), ["orders"], 1, slowly, checkpoint=checkpoint_of(recording)) == whole


def test_a_checkpoint_of_something_else_is_refused(recording: Path, interrupted: Path) -> None:
    kept = interrupted.read_bytes()

    def refusal(checkpoint: Checkpoint) -> str:
        with pytest.raises(TraceUnreadableError) as refused:
            checkpoint.read()
        assert "delete it to begin anew" in refused.value.reason
        return refused.value.reason

    assert "is about other channels" in refusal(checkpoint_of(recording, ["parts"]))
    interrupted.write_bytes(kept[:-1] + bytes([kept[-1] ^ 1]))
    assert "is damaged" in refusal(checkpoint_of(recording))
    for other in (b"\x80\x04]", 100_000 * b"["):
        interrupted.write_bytes(other)
        assert "is not a checkpoint" in refusal(checkpoint_of(recording))
    interrupted.write_bytes(kept.replace(b'"permitflow": "', b'"permitflow": "9.'))
    assert "another version" in refusal(checkpoint_of(recording))
    interrupted.write_bytes(kept)
    write(recording, behaviour(3, 500), row_group_events=50)
    assert "another recording" in refusal(checkpoint_of(recording))


def test_reading_a_checkpoint_runs_nothing(recording: Path, interrupted: Path, tmp_path: Path) -> None:
    class Harm:
        def __reduce__(self) -> tuple[object, ...]:
            return Path.touch, (tmp_path / "harmed",)

    checkpoint = checkpoint_of(recording)
    checkpoint.keep(0, Harm(), [None])
    checkpoint.write()
    with pytest.raises(TraceUnreadableError, match="is nothing that a checkpoint holds"):
        checkpoint_of(recording).read()
    assert not (tmp_path / "harmed").exists()


# Files of other programs.


def rewritten(recording: Path, name: str, column: pa.Array) -> ChannelVerdict:
    """The verdict if another program has written the file, in the order of the recording, with this column."""
    with pq.ParquetFile(recording) as file:
        table, metadata = file.read().unify_dictionaries().sort_by("position"), file.metadata.metadata
    table = table.set_column(table.schema.get_field_index(name), name, column)
    pq.write_table(table.replace_schema_metadata(metadata), recording)
    return validated(recording)[0]


@pytest.mark.parametrize("kind", [pa.int32(), pa.string(), pa.float64()])
def test_numbers_of_other_types_are_understood(recording: Path, kind: pa.DataType) -> None:
    numbers = pa.array([event.sequence for event in behaviour(2, 500)]).cast(kind)
    assert rewritten(recording, "sequence", numbers).is_valid


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sequence", None),
        ("sequence", 0.5),
        ("sequence", "first"),
        ("channel", None),
        ("end", 1),
        ("action", "Sneeze"),
        ("rows", None),
    ],
)
def test_impossible_values_make_a_file_unreadable(recording: Path, name: str, value: object) -> None:
    with pytest.raises(TraceUnreadableError, match=r"run\.parquet"):
        rewritten(recording, name, pa.array([value] * len(behaviour(2, 500))))


def test_a_damaged_row_group_is_named(recording: Path) -> None:
    whole = recording.read_bytes()
    recording.write_bytes(whole.replace(b"Flush", b"Flus\xdd", 1))
    with pytest.raises(TraceUnreadableError, match=r"run\.parquet"):
        validated(recording)


@pytest.mark.parametrize(
    ("path", "reason"),
    [("file:///nowhere", "No such file"), ("s3://bucket/run", "files of s3:// cannot be opened")],
)
def test_paths_may_be_written_as_spark_writes_them(recording: Path, path: str, reason: str) -> None:
    assert list(scan_trace(f"file://{recording}").channels) == ["orders"]
    with pytest.raises(TraceUnreadableError, match=reason):
        scan_trace(path)


def test_a_channel_alone_is_read_among_others(tmp_path: Path) -> None:
    """Lines of the other channel are only counted."""
    headers = [Header(name, end, PERMIT_ACTIONS, asdict(AGREED)) for name in ("a", "b") for end in ENDS]
    events = [event for pair in zip(behaviour(1, 90, "a"), behaviour(2, 90, "b"), strict=False) for event in pair]
    path = written(tmp_path / "run.jsonl", headers, events)
    trace = scan_trace(path)
    (verdict,) = validate(trace, ["b"], *here(trace, 1))
    (whole,) = (channel for channel in read_trace(path).channels.values() if channel.channel == "b")
    assert replace(verdict, actions=verdict.actions) == judge(whole)
    assert json.loads(path.read_text().splitlines()[-1]) == {"permitflow_trace_events": len(events)}
