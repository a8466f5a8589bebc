"""Output whose reader stands still: nobody waits for it, and what is missing is told."""

import errno
import fcntl
import io
import os
import sys
import termios
from array import array
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from threading import Condition, Event, current_thread, main_thread

import pytest
import typer

from permitflow_tools.cli import unblocked
from permitflow_tools.cli.serve_reports import dropped_as_json
from permitflow_tools.cli.unblocked import dropped_in_words, unblocked_output
from tests.support.turns import until

PIPE_BYTES = 4_096


def waiting_bytes(descriptor: int) -> int:
    """How many can be read there at once."""
    found = array("i", [0])
    fcntl.ioctl(descriptor, termios.FIONREAD, found)
    return found[0]


def lines_of(descriptor: int) -> Iterator[str]:
    with open(descriptor) as lines:
        yield from lines


@contextmanager
def piped() -> Iterator[int]:
    """Standard output is a pipe that holds little; its other end."""
    ours, theirs = os.pipe()
    fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    with open(theirs, "w") as output, redirect_stdout(output):
        yield ours


@contextmanager
def logging_to(path: Path) -> Iterator[None]:
    """Standard error is a file."""
    with open(path, "w") as log, redirect_stderr(log):
        yield


async def test_lines_that_nobody_reads_are_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unblocked, "_MOST_CHARACTERS", 1)
    with piped() as reader, unblocked_output(dropped_in_words):
        sys.stdout.write("x" * 2 * PIPE_BYTES)
        await until(lambda: waiting_bytes(reader) == PIPE_BYTES)
        for word in ("\nwaits", "dropped", "dropped"):
            sys.stdout.write(f"{word}\n")
        lines = lines_of(reader)
        next(lines)
        assert [next(lines), next(lines)] == ["waits\n", dropped_in_words(2)]
        sys.stdout.write("later\n")
        assert next(lines) == "later\n"


def test_all_is_written_at_the_end() -> None:
    with piped() as reader:
        with unblocked_output(dropped_in_words):
            typer.echo("the last words")
        assert os.read(reader, 100) == b"the last words\n"
    os.close(reader)


async def test_an_end_waits_for_no_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unblocked, "_LONGEST_REST_SECONDS", 0.0)
    with piped() as reader:
        with unblocked_output(dropped_in_words):
            sys.stdout.write("x" * 2 * PIPE_BYTES)
            await until(lambda: waiting_bytes(reader) == PIPE_BYTES)
        os.close(reader)


async def test_an_end_waits_for_what_is_being_written(monkeypatch: pytest.MonkeyPatch) -> None:
    has_begun, end_waits = Event(), Event()

    class Waited(Condition):
        def wait(self, timeout: float | None = None) -> bool:
            if current_thread() is main_thread():
                end_waits.set()
            return super().wait(timeout)

    def slow(descriptor: int, data: memoryview) -> int:
        has_begun.set()
        end_waits.wait(10.0)
        return write(descriptor, data)

    write = os.write
    monkeypatch.setattr(unblocked, "Condition", Waited)
    monkeypatch.setattr(os, "write", slow)
    with piped() as reader:
        with unblocked_output(dropped_in_words):
            sys.stdout.write("slow")
            has_begun.wait(10.0)
        assert waiting_bytes(reader) == len("slow")
    os.close(reader)


async def test_output_that_is_non_blocking_is_written_whole() -> None:
    with piped() as reader:
        os.set_blocking(sys.stdout.fileno(), False)
        with unblocked_output(dropped_in_words):
            sys.stdout.write("x" * 2 * PIPE_BYTES + "\n")
            await until(lambda: waiting_bytes(reader) == PIPE_BYTES)
            assert next(lines_of(reader)) == "x" * 2 * PIPE_BYTES + "\n"


def test_output_in_memory_stays_as_it_is() -> None:
    with redirect_stdout(io.StringIO()) as output, unblocked_output(dropped_in_words):
        typer.echo("told")
        assert output.getvalue() == "told\n"


async def test_a_reader_that_has_gone_is_told_by_a_later_write() -> None:
    with piped() as reader:
        os.close(reader)
        with unblocked_output(dropped_in_words):
            sys.stdout.write("in vain")
            with pytest.raises(BrokenPipeError):
                await until(lambda: sys.stdout.flush() is not None)


async def test_a_log_on_a_full_disk_goes_on_once_there_is_room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tried: list[bytes] = []

    def full(_: int, data: memoryview) -> int:
        tried.append(bytes(data))
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with logging_to(tmp_path / "log"), unblocked_output(dropped_as_json):
        with monkeypatch.context() as disk:
            disk.setattr(os, "write", full)
            sys.stderr.write("lost\n")
            await until(lambda: len(tried) == 1)
            sys.stderr.write("lost\n")
            await until(lambda: len(tried) == 2)
        sys.stderr.write("later\n")
        sys.stderr.write("no text: \udc80\n")
    assert (tmp_path / "log").read_text() == dropped_in_words(2) + "later\nno text: \\udc80\n"


@contextmanager
def fills_up(monkeypatch: pytest.MonkeyPatch, room_bytes: int) -> Iterator[list[int]]:
    """A disk has room for so much; what it was asked to write."""
    asked: list[int] = []

    def limited(descriptor: int, data: memoryview) -> int:
        asked.append(len(data))
        if (left := room_bytes - (os.stat(descriptor).st_size - begins_at)) > 0:
            return write(descriptor, data[:left])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    write, begins_at = os.write, os.stat(sys.stderr.fileno()).st_size
    with monkeypatch.context() as disk:
        disk.setattr(os, "write", limited)
        yield asked


@pytest.mark.parametrize(
    ("text", "is_there", "missing_lines"),
    [("half of it\n", "half", 1), ("one\ntwo\nthree\n", "one\n", 2), ("one\ntwo\nthree\n", "one\ntw", 2)],
)
async def test_lines_of_which_a_disk_takes_a_part_are_counted(
    text: str, is_there: str, missing_lines: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What is left of a line ends before the next one."""
    with logging_to(tmp_path / "log"), unblocked_output(dropped_as_json):
        with fills_up(monkeypatch, len(is_there)) as asked:
            sys.stderr.write(text)
            await until(lambda: len(asked) == 2)
        sys.stderr.write("later\n")
    there = is_there.removesuffix("\n") + "\n"
    assert (tmp_path / "log").read_text() == there + dropped_in_words(missing_lines) + "later\n"


async def test_missing_lines_that_were_told_are_told_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told = dropped_in_words(1)
    with logging_to(tmp_path / "log"), unblocked_output(dropped_as_json):
        with fills_up(monkeypatch, 0) as asked:
            sys.stderr.write("lost\n")
            await until(lambda: len(asked) == 1)
        with fills_up(monkeypatch, len(told)) as asked:
            sys.stderr.write("lost\n")
            await until(lambda: len(asked) == 2)
        sys.stderr.write("later\n")
    assert (tmp_path / "log").read_text() == told + told + "later\n"
