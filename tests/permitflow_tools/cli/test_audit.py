"""``permitflow audit``: what it says of good and bad recordings, and with which exit code."""

import random
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from permitflow import ChannelParameters
from permitflow.flows.permits.recorded import PERMIT_ACTIONS
from permitflow.flows.recording import ENDS
from permitflow.tracing import Event, Header
from permitflow_testing.subjects.permits import model_of
from tests.permitflow_tools.cli.conftest import Command, Report
from tests.support.made_traces import FAULTS, random_behaviour
from tests.support.recordings import written

AGREED = ChannelParameters(row_permits=8, permit_batch=3, barrier_permits=2)
HEADERS = [*(Header("orders", end, PERMIT_ACTIONS, asdict(AGREED)) for end in ENDS)]


def run() -> list[Event]:
    model = model_of(AGREED, sizes=(0, 1, 4))
    return list(random_behaviour(model, seed=4, events=150, channel="orders", settle=True))


def write(path: Path, events: Sequence[Event]) -> str:
    return str(written(path, HEADERS, events))


def test_a_good_recording_passes(command: Command, tmp_path: Path) -> None:
    code, output, _ = command("audit", write(tmp_path / "run.parquet", run()), "--processes", "1")
    assert code == 0
    assert f"the ledger of {len(run())} events of 1 channel adds up" in output


def test_a_violation_is_shown_with_its_place_and_clause(command: Command, tmp_path: Path) -> None:
    fault = FAULTS["permits are created"](run(), random.Random(1))
    ((end, sequence, clause),) = fault.expected
    code, output, _ = command("audit", write(tmp_path / "run.parquet", fault.events), "--processes", "1")
    assert code == 1
    (line,) = (line for line in output.splitlines() if clause in line)
    assert line.split()[:3] == ["orders", end, str(sequence)]
    assert "1 violation in" in output


def test_programs_get_the_same(report: Report, tmp_path: Path) -> None:
    fault = FAULTS["an event is missing"](run(), random.Random(1))
    ((end, sequence, clause),) = fault.expected
    code, document = report("audit", write(tmp_path / "run.parquet", fault.events), "--processes", "1")
    assert (code, document["holds"]) == (1, False)
    (violation,) = document["violations"]
    assert (violation["end"], violation["sequence"], violation["clause"]) == (end, sequence, clause)


def test_a_damaged_file_is_unusable_and_no_traceback(command: Command, tmp_path: Path) -> None:
    path = Path(write(tmp_path / "run.parquet", run()))
    whole = path.read_bytes()
    assert b"Flush" in whole
    path.write_bytes(whole.replace(b"Flush", b"Flus\xdd", 1))
    code, _, error = command("audit", str(path), "--processes", "1")
    assert code == 2
    assert "action must be text; it is damaged" in error
