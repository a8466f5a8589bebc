"""An audit finds what is wrong in a recording, where it is wrong, and nothing that is not."""

import random
from collections.abc import Iterable
from dataclasses import asdict
from functools import cache
from itertools import chain, zip_longest
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from permitflow import ChannelParameters
from permitflow.errors import TraceMismatchError
from permitflow.flows.permits.recorded import PERMIT_ACTIONS
from permitflow.flows.recording import ENDS, ActionTable
from permitflow.tracing import Event, Header
from permitflow.tracing.json_lines import JsonLinesWriter
from permitflow_testing.subjects.permits import model_of
from permitflow_tools.audit import Audit, audit_files
from tests.support.made_traces import FAULTS, Fault, NoPlaceError, random_behaviour
from tests.support.recordings import written

AGREED = ChannelParameters(row_permits=8, permit_batch=3, barrier_permits=2)


@cache
def behaviour(seed: int, events: int = 150, channel: str = "orders") -> tuple[Event, ...]:
    model = model_of(AGREED, sizes=(0, 1, 4))
    return tuple(random_behaviour(model, seed=seed, events=events, channel=channel, settle=True))


def headers(channel: str = "orders", of: ChannelParameters = AGREED) -> list[Header]:
    return [*(Header(channel, end, PERMIT_ACTIONS, asdict(of)) for end in ENDS)]


def write(path: Path, events: Iterable[Event], *, row_group_events: int = 64) -> Path:
    return written(path, headers(), events, row_group_events=row_group_events)


def found(audit: Audit) -> set[tuple[str, int, str]]:
    return {(violation.end, violation.sequence, violation.clause) for violation in audit.violations}


def faulty(kind: str) -> Fault:
    for seed in range(200):
        try:
            return FAULTS[kind](behaviour(seed), random.Random(seed))
        except NoPlaceError:
            continue
    raise AssertionError(f"no run in which {kind}")


@given(seed=st.integers(0, 10_000), row_group_events=st.integers(1, 100))
@settings(deadline=None, max_examples=20, derandomize=True)
def test_every_behaviour_of_the_model_is_found_right(
    tmp_path_factory: pytest.TempPathFactory, seed: int, row_group_events: int
) -> None:
    file, events = tmp_path_factory.mktemp("run") / "run.parquet", behaviour(seed)
    audit = audit_files(write(file, events, row_group_events=row_group_events))
    assert audit.violations == []
    assert audit.events == len(events)


@pytest.mark.parametrize("row_group_events", [1, 7, 10_000])
@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_is_found_where_it_is_and_no_other(kind: str, row_group_events: int, tmp_path: Path) -> None:
    fault = faulty(kind)
    audit = audit_files(write(tmp_path / "run.parquet", fault.events, row_group_events=row_group_events))
    assert found(audit) == fault.expected


def test_a_recording_that_begins_late_says_so(tmp_path: Path) -> None:
    (violation,) = audit_files(write(tmp_path / "run.parquet", behaviour(1)[1:])).violations
    assert (violation.end, violation.sequence, violation.clause) == (behaviour(1)[0].end, 2, "Sequence")
    assert violation.reason == "event 1 is missing, event 2 comes instead"


def test_the_two_ends_may_be_in_two_files(tmp_path: Path) -> None:
    for header in headers():
        own = (event for event in behaviour(3) if event.end == header.end)
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


def test_many_channels_in_turns_are_each_held_against_their_own_parameters(tmp_path: Path) -> None:
    names = [f"orders/{number}" for number in range(3)]
    narrow = ChannelParameters(row_permits=7, permit_batch=3, barrier_permits=2)
    opened = [header for name in names for header in headers(name, narrow if name == names[1] else AGREED)]
    runs = [behaviour(5, 100 * (number + 1), name) for number, name in enumerate(names)]
    together = [event for event in chain.from_iterable(zip_longest(*runs)) if event]
    audit = audit_files(written(tmp_path / "run.parquet", opened, together, row_group_events=50))
    assert [channel.events for channel in audit.channels] == list(map(len, runs))
    assert {violation.channel for violation in audit.violations} == {names[1]}
    assert ("sender", 1, "Bounded") in found(audit)


def test_one_end_alone_is_checked_and_said_to_be_alone(tmp_path: Path) -> None:
    written(tmp_path / "run.parquet", headers()[:1], (event for event in behaviour(3) if event.end == "sender"))
    audit = audit_files(tmp_path)
    assert audit.holds
    assert "only the sender was recorded" in audit.channels[0].remarks[0]


@pytest.mark.parametrize("cut", ENDS)
def test_a_recording_that_was_cut_off_is_not_held_against_the_other_end(cut: str, tmp_path: Path) -> None:
    for header in headers():
        events = [event for event in behaviour(3) if event.end == header.end]
        if header.end == cut:
            writer = JsonLinesWriter(tmp_path / "cut.jsonl")
            writer.write([header, *events[: len(events) // 2]])
            writer.abandon()
        else:
            written(tmp_path / "whole.jsonl", [header], events)
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
    with pytest.raises(TraceMismatchError, match=r"1\.parquet and .*2\.parquet both hold its sender"):
        audit_files(tmp_path)


def test_progress_is_told(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    write(tmp_path / "run.parquet", behaviour(1)[:150], row_group_events=50)
    audit_files(tmp_path, on_progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]
