"""Recorded runs of two Spark applications, in small: the real one is valid, sabotaged readers are refused.

`make trace-evidence` does the same with 20,000 chunks.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from permitflow.testing.sabotage import SABOTAGES
from permitflow.tracing import ChannelTrace, read_trace

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
