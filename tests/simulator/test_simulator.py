"""Streams under seeded faults in simulated time: nothing is lost in silence, and nobody waits for ever.

``nox -s simulate`` runs a million, ``make test-all`` the first 1,800, and ``make test`` 180 of those.
A seed that found a bug stays here.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simulator import __main__ as simulator
from tests.simulator.running import Report, run_some
from tests.simulator.schedule import TCP
from tests.simulator.streams import run_seed

AT_ONCE = 90
PARTS = 20
QUICK_PARTS = 2


@pytest.mark.parametrize(
    "part", [pytest.param(part, marks=() if part < QUICK_PARTS else pytest.mark.long) for part in range(PARTS)]
)
def test_all_laws_hold_in_seeded_schedules(part: int) -> None:
    report = run_some(range(part * AT_ONCE, (part + 1) * AT_ONCE))

    assert not report.broken, "\n".join(report.in_words())


def test_a_seed_reproduces_its_run_to_the_byte() -> None:
    first, again = (run_seed(12, True) for _ in range(2))

    assert (first.digest, first.story) == (again.digest, again.story)


def test_another_process_reproduces_the_same_run(repository: Path) -> None:
    command = [sys.executable, "-m", "tests.simulator", "--seed", "12"]
    told = {
        subprocess.run(
            command, cwd=repository, env={"PYTHONHASHSEED": seed, "PYTHONPATH": "impl:model:proofs"},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip

    assert len(told) == 1


def test_an_exchange_that_starts_after_all_others_are_over_ends() -> None:
    outcome = run_seed(8807, False, TCP)

    assert outcome.seen["power"] == 2
    assert not outcome.broken


def test_a_stream_that_is_cancelled_twice_leaves_no_task() -> None:
    assert not run_seed(5250, False, TCP).broken


def test_a_stream_whose_beginning_was_only_late_goes_on() -> None:
    outcome = run_seed(98693, False, TCP)

    assert outcome.seen["producer ends"] == 2
    assert not outcome.broken


def test_a_flipped_bit_in_front_of_a_resumption_ends_no_stream() -> None:
    outcome = run_seed(3112, False, TCP)

    assert outcome.seen["flip"] == 3
    assert not outcome.broken


def test_ctrl_c_shows_what_was_done_until_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(seeds: range, jobs: int, subject: str) -> Iterator[Report]:
        yield run_some(seeds[:3], subject)
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "argv", ["simulator", "--schedules", "1000"])
    monkeypatch.setattr(simulator, "run_seeds", interrupted)

    assert simulator.main() == 130
    assert "\n3 schedules in " in capsys.readouterr().out
