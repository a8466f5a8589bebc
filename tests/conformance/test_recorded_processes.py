"""Recorded runs of two processes, and of two Spark applications: real ones are valid, sabotaged ones are refused.

`make trace-evidence` does the same with 100,000 and with 20,000 chunks.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from permitflow.testing.sabotage import SABOTAGES
from permitflow.tracing import ChannelTrace, read_trace


def run_script(repository: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(repository / "benchmarks/record_two_processes.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)


def test_a_real_run_is_valid_and_sabotaged_ones_are_refused_at_the_right_step(repository: Path, tmp_path: Path) -> None:
    run = run_script(repository, "--chunks", "2000", "--keep", str(tmp_path))

    assert run.returncode == 0, run.stdout + run.stderr
    assert "real run: 124,008 rows in 2,000 chunks came through" in run.stdout
    for stream in ("orders", "orders#put1", "orders#get1"):
        assert f"channel '{stream}': valid, " in run.stdout
    assert run.stdout.count("not a behaviour of the specification") == len(SABOTAGES)
    assert run.stdout.count("refused at the right step") == len(SABOTAGES)
    # The two ends of a stream come from two processes, with nothing in common but its name.
    trace = read_trace(tmp_path / "real")
    assert trace.is_complete
    assert {len(trace.channels[stream].logs) for stream in ("orders#put1", "orders#get1")} == {2}


@pytest.mark.parametrize("sabotage", SABOTAGES)
def test_the_command_shows_what_a_sabotaged_run_did(sabotage: str, repository: Path, tmp_path: Path) -> None:
    assert run_script(repository, "--sabotage", sabotage, "--keep", str(tmp_path)).returncode == 0

    command = [sys.executable, "-m", "permitflow.cli", "trace", "validate", str(tmp_path / sabotage)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)

    assert run.returncode == 1
    assert "orders#put1: not a behaviour of the specification" in run.stdout
    culprit = "Deliver (617 rows" if sabotage == "on-receipt" else "AddPermits (permits: "
    assert culprit in run.stdout
    # Whether returned permits contradict the books, or were returned by nobody, depends on how far the ends had come.
    assert "is impossible: " in run.stdout or "has no cause: " in run.stdout


# A guard against hangs: two Spark sessions on a machine that has other things to do; a tenth of it on an idle one.
LONGEST_SECONDS = 600


@pytest.fixture(scope="module")
def recorded(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The folder with the recordings, and the words of each row of the table and of the remarks below it."""
    folder = tmp_path_factory.mktemp("recorded")
    command = [sys.executable, "-m", "benchmarks.record_spark", "--chunks", "400", "--keep", str(folder)]
    wide = {**os.environ, "COLUMNS": "200"}
    run = subprocess.run(
        command, cwd=repository, capture_output=True, text=True, env=wide, timeout=LONGEST_SECONDS, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return folder, run.stdout.splitlines()


def with_rows(folder: Path) -> dict[str, ChannelTrace]:
    """Streams that carried something; who only asks for a schema, or ends a channel, opens one too."""
    channels = read_trace(folder, allow_truncated=True).channels
    return {name: channel for name, channel in channels.items() if any(channel.logs)}


@pytest.mark.timeout(LONGEST_SECONDS)
@pytest.mark.long
def test_every_stream_of_the_real_run_is_recorded_at_both_ends_and_valid(recorded: tuple[Path, list[str]]) -> None:
    folder, lines = recorded
    (row,) = (line for line in lines if line.startswith("real"))
    assert row.split()[-2:] == ["all", "valid"]
    streams = with_rows(folder / "real")
    # Four channels; two tasks write to each, one reads it.
    assert len(streams) == 4 * (2 + 1 + 1)
    assert {channel.ends for channel in streams.values()} == {frozenset({"sender", "receiver"})}
    # Both ends of a stream from or to Spark come from processes with no clock in common.
    assert {len(channel.logs) for name, channel in streams.items() if "#" in name} == {2}


@pytest.mark.timeout(LONGEST_SECONDS)
@pytest.mark.parametrize("sabotage", SABOTAGES)
@pytest.mark.long
def test_only_the_stream_of_the_sabotaged_reader_is_refused(sabotage: str, recorded: tuple[Path, list[str]]) -> None:
    # That it is the right step has decided the exit code.
    (row,) = (line for line in recorded[1] if line.startswith(f"{sabotage} "))
    assert row.count("refused") == 1
    assert "numbers/1#get" in row
    assert ("AddPermits" in row) == (sabotage != "on-receipt")


@pytest.mark.long
def test_that_permits_come_too_early_only_the_recording_shows(recorded: tuple[Path, list[str]]) -> None:
    assert "on-receipt: Spark itself noticed nothing" in recorded[1]


def test_a_folder_that_is_in_use_is_refused(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    command = [sys.executable, "-m", "benchmarks.record_spark", "--keep", str(tmp_path)]
    run = subprocess.run(command, cwd=repository, capture_output=True, text=True, timeout=200, check=False)
    assert run.returncode == 2
    assert f"--keep: File exists: {tmp_path}/real" in run.stderr
