"""An audit finds what is wrong in a recording, where it is wrong, and nothing that is not."""

import random
from collections.abc import Iterable
from dataclasses import asdict
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from permitflow.audit import Audit, audit_files
from permitflow.errors import TraceMismatchError, TraceUnreadableError
from permitflow.protocol.permits import PERMIT_ACTIONS, ChannelParameters
from permitflow.protocol.recording import ENDS, ActionTable
from permitflow.testing.subjects.permits import model_of
from permitflow.tracing import Event, Header
from permitflow.tracing.json_lines import JsonLinesWriter
from tests.support.made_traces import FAULTS, Fault, NoPlaceError, random_behaviour
from tests.support.recordings import written

AGREED = ChannelParameters(row_permits=8, permit_batch=3, barrier_permits=2)


@cache
def behaviour(seed: int, events: int = 600) -> tuple[Event, ...]:
    return tuple(random_behaviour(model_of(AGREED, sizes=(0, 1, 4)), seed=seed, events=events, channel="orders"))


@cache
def settled(seed: int) -> tuple[Event, ...]:
    model = model_of(AGREED, sizes=(0, 1, 4))
    return tuple(random_behaviour(model, seed=seed, events=150, channel="orders", settle=True))


def headers(channel: str = "orders") -> list[Header]:
    return [*(Header(channel, end, PERMIT_ACTIONS, asdict(AGREED)) for end in ENDS)]


def write(path: Path, events: Iterable[Event], *, row_group_events: int = 64) -> Path:
    return written(path, headers(), events, row_group_events=row_group_events)


def found(audit: Audit) -> set[tuple[str, int, str]]:
    return {(violation.end, violation.sequence, violation.clause) for violation in audit.violations}


def faulty(kind: str) -> Fault:
    for seed in range(200):
        try:
            return FAULTS[kind](settled(seed), random.Random(seed))
        except NoPlaceError:
            continue
    raise AssertionError(f"no run in which {kind}")


@given(seed=st.integers(0, 10_000), row_group_events=st.integers(20, 100))
@settings(deadline=None, max_examples=20, derandomize=True)
def test_every_behaviour_of_the_model_is_found_right(
    tmp_path_factory: pytest.TempPathFactory, seed: int, row_group_events: int
) -> None:
    file = tmp_path_factory.mktemp("run") / "run.parquet"
    audit = audit_files(write(file, behaviour(seed, 200), row_group_events=row_group_events))
    assert audit.violations == []
    assert audit.events == 200


@pytest.mark.parametrize("row_group_events", [7, 10_000])
@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_is_found_where_it_is_and_no_other(kind: str, row_group_events: int, tmp_path: Path) -> None:
    fault = faulty(kind)
    audit = audit_files(write(tmp_path / "run.parquet", fault.events, row_group_events=row_group_events))
    assert found(audit) == fault.expected


@pytest.mark.parametrize("kind", ["an end miscounts", "a batch is kept back"])
def test_an_end_that_miscounts_once_is_at_fault_once_even_if_each_event_is_a_part(kind: str, tmp_path: Path) -> None:
    fault = faulty(kind)
    assert found(audit_files(write(tmp_path / "run.parquet", fault.events, row_group_events=1))) == fault.expected


def test_the_two_ends_may_be_in_two_files(tmp_path: Path) -> None:
    events = settled(3)
    for header in headers():
        own = (event for event in events if event.end == header.end)
        written(tmp_path / f"{header.end}.parquet", [header], own)
    audit = audit_files(tmp_path)
    assert audit.holds
    assert audit.channels[0].ends == {"sender", "receiver"}


def test_json_lines_give_the_same_verdict(tmp_path: Path) -> None:
    fault = faulty("another chunk is delivered")
    write(tmp_path / "run.jsonl", fault.events)
    assert found(audit_files(tmp_path)) == fault.expected


def test_several_processes_find_the_same(tmp_path: Path) -> None:
    fault = faulty("a chunk was never offered")
    write(tmp_path / "run.parquet", fault.events, row_group_events=20)
    assert found(audit_files(tmp_path, processes=2)) == fault.expected


def test_one_end_alone_is_checked_and_said_to_be_alone(tmp_path: Path) -> None:
    written(tmp_path / "run.parquet", headers()[:1], (event for event in behaviour(3) if event.end == "sender"))
    audit = audit_files(tmp_path)
    assert audit.holds
    assert "only the sender was recorded" in audit.channels[0].remarks[0]


def test_a_recording_that_was_cut_off_is_not_held_against_the_other_end(tmp_path: Path) -> None:
    events = settled(3)
    sent = [event for event in events if event.end == "sender"]
    writer = JsonLinesWriter(tmp_path / "sender.jsonl")
    writer.write([headers()[0], *sent[: len(sent) // 2]])
    writer.abandon()
    written(tmp_path / "receiver.jsonl", headers()[1:], (event for event in events if event.end == "receiver"))
    audit = audit_files(tmp_path)
    assert audit.holds
    assert any("not closed" in remark for remark in audit.channels[0].remarks)


UNKNOWN = ActionTable(
    "unknown", {"sender": {"Send": ("size",)}, "receiver": {"Take": ()}}, {"sender": (), "receiver": ()}
)


@pytest.mark.parametrize("name", ["run.jsonl", "run.parquet"])
def test_of_a_protocol_without_laws_only_the_sequence_is_checked_and_that_is_said(name: str, tmp_path: Path) -> None:
    events = [Event("c", "sender", number, "Send", (1,)) for number in (1, 2, 4)]
    events.insert(1, Event("c", "receiver", 1, "Take", ()))
    written(tmp_path / name, (Header("c", end, UNKNOWN, {"size": 9}) for end in ENDS), events)
    audit = audit_files(tmp_path)
    assert found(audit) == {("sender", 4, "Sequence")}
    assert audit.channels[0].flow == "unknown"
    assert audit.channels[0].remarks == ["no laws of 'unknown' are known: checked that no event is missing"]


def test_an_end_that_two_files_hold_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "1.parquet", behaviour(1))
    write(tmp_path / "2.parquet", behaviour(1))
    with pytest.raises(TraceMismatchError, match="holds its sender, and so does another file"):
        audit_files(tmp_path)


def test_a_file_that_is_no_trace_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    with pytest.raises(TraceUnreadableError, match=r"x\.parquet"):
        audit_files(tmp_path)


def test_progress_is_told(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    write(tmp_path / "run.parquet", behaviour(1), row_group_events=200)
    audit_files(tmp_path, on_progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]
