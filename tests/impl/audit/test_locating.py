"""An event that only totals show to be wrong is found by reading few parts again, however many there are."""

import random
from dataclasses import asdict
from pathlib import Path

import pytest

from permitflow.audit import audit_files, merging
from permitflow.audit.units import Unit, read_unit
from permitflow.protocol.permits import PERMIT_ACTIONS, ChannelParameters
from permitflow.protocol.recording import ENDS
from permitflow.testing.subjects.permits import model_of
from permitflow.tracing import Header
from permitflow.tracing.parquet import ParquetWriter
from tests.support.made_traces import FAULTS, Fault, NoPlaceError, random_behaviour

AGREED = ChannelParameters(row_permits=8, permit_batch=3, barrier_permits=2)
PARTS_READ_AT_MOST = 12


def faulty(kind: str) -> Fault:
    for seed in range(200):
        run = random_behaviour(
            model_of(AGREED, sizes=(0, 1, 4)), seed=seed, events=2_000, channel="orders", settle=True
        )
        try:
            return FAULTS[kind](list(run), random.Random(seed))
        except NoPlaceError:
            continue
    raise AssertionError(f"no run in which {kind}")


@pytest.mark.parametrize(
    "kind", ["a chunk was never offered", "another chunk is delivered", "permits come that nobody returned"]
)
def test_few_parts_are_read_again(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fault, again = faulty(kind), []

    def counted(unit: Unit) -> object:
        again.append(unit)
        return read_unit(unit)

    monkeypatch.setattr(merging, "read_unit", counted)
    writer = ParquetWriter(tmp_path / "run.parquet", row_group_events=6)
    writer.write([*(Header("orders", end, PERMIT_ACTIONS, asdict(AGREED)) for end in ENDS), *fault.events])
    writer.close()

    audit = audit_files(tmp_path)

    assert {(each.end, each.sequence, each.clause) for each in audit.violations} == fault.expected
    assert 1 <= len(again) <= PARTS_READ_AT_MOST
