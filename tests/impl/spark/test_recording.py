"""What a task's streams did is told in files of the task's own; what a task dies of is told by nothing else."""

import json
import shutil
from pathlib import Path

import pytest

from permitflow.errors import TraceWriteError
from permitflow.spark.recording import recording


def statistics_of(folder: Path) -> list[object]:
    return [json.loads(path.read_text()) for path in folder.glob("*.statistics.json")]


def test_statistics_are_there_of_a_task_that_failed_too(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the task's own"), recording(str(tmp_path), "read"):
        raise ValueError("the task's own")
    assert statistics_of(tmp_path) == [[]]


def test_a_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceWriteError, match="No such file or directory"), recording(str(tmp_path), "read"):
        shutil.rmtree(tmp_path)


def test_a_task_dies_of_its_own_error_though_its_folder_is_gone(tmp_path: Path) -> None:
    def dying() -> None:
        shutil.rmtree(tmp_path)
        raise ValueError("the task's own")

    with pytest.raises(ValueError, match="the task's own"), recording(str(tmp_path), "read"):
        dying()
