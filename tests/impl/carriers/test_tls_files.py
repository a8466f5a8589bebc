"""Files are read again when they have changed."""

import errno
import os
from pathlib import Path

import pytest

from permitflow.carriers import tls_files
from permitflow.carriers.tls_files import FromFiles
from permitflow.errors import InvalidParametersError


def test_files_that_cannot_be_read_now_are_read_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_files, "_AGAIN_SECONDS", 0.0)
    file = tmp_path / "value"
    file.write_text("1")
    errors: list[OSError] = []

    def make() -> str:
        if errors:
            raise errors.pop()
        return file.read_text()

    value = FromFiles([file], make)
    file.write_text("two")
    errors.append(OSError(errno.EMFILE, "Too many open files"))

    assert [value.current(), value.current()] == ["1", "two"]


def test_wrong_files_are_not_read_for_each_connection(tmp_path: Path) -> None:
    file = tmp_path / "value"
    file.write_text("1")
    read: list[str] = []

    def make() -> str:
        read.append(file.read_text())
        if read[-1] == "wrong":
            raise InvalidParametersError(name="rights", value=str(file), rule="must be right")
        return read[-1]

    value = FromFiles([file], make)
    file.write_text("wrong")
    assert [value.current() for _ in range(3)] == ["1"] * 3
    file.write_text("right again")
    assert value.current() == "right again"
    assert read == ["1", "wrong", "right again"]


def test_what_becomes_of_changed_files_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "value"
    file.write_text("1")

    def make() -> int:
        try:
            return int(file.read_text())
        except ValueError:
            raise InvalidParametersError(name="rights", value=str(file), rule="must be right") from None

    values = [FromFiles([file], make) for _ in range(3)]
    for text, found in (("wrong", 1), ("22", 22), ("wrong again", 22), ("333", 333)):
        file.write_text(text)
        assert [value.current() for value in values] == [found] * 3
    told = [record.getMessage().partition(":")[0] for record in caplog.records]
    wrong, right = "changed files cannot be used, and the former ones hold", "changed files can be used again, and hold"
    assert told == [wrong, right] * 2


def test_a_pipe_in_a_files_place_is_not_waited_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "rights"
    file.write_text("former")
    read = FromFiles([file], file.read_text)
    file.unlink()
    os.mkfifo(file)
    assert read.current() == "former"
    assert "must be a file" in caplog.text


def test_what_came_through_a_pipe_at_first_holds(tmp_path: Path) -> None:
    pipe, values = tmp_path / "rights", iter(("through the pipe",))
    os.mkfifo(pipe)
    read = FromFiles([pipe], lambda: next(values))
    os.utime(pipe, (1, 1))  # as reading does
    assert [read.current(), read.current()] == ["through the pipe"] * 2
