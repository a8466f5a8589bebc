"""The demo's parts: what it refuses, what it calls wrong, tables that are whole or not there, and children that end."""

import asyncio
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

from permitflow.demo import children, progress, runner, tpch
from permitflow.demo.children import child_process, run_to_end
from permitflow.demo.console import SilentProgress
from permitflow.demo.query12 import ShippingMode
from permitflow.demo.report import DemoReport, Evidence, Hop, StreamNumbers, TraceVerdict
from permitflow.demo.settings import DemoSettings
from permitflow.errors import DemoError, InvalidOptionError

T = TypeVar("T")
Complete = Callable[[Coroutine[Any, Any, T]], T]


STREAM = StreamNumbers(stream="q12/0#put1", rows=10, chunks=2, peak_rows=8, bound=8, back_pressure_rate=0.5)
TRACE = TraceVerdict(streams=1, events=12, is_complete=True, is_at_rest=True, refused=())
GOOD = DemoReport(
    scale=0.1,
    row_permits=8,
    evidence=(Evidence(name="theorems, by Z3", holds=True, count=27),),
    answer=(ShippingMode("MAIL", 4, 6),),
    direct_answer=(ShippingMode("MAIL", 4, 6),),
    hops=(Hop(name="in", streams=(STREAM,)),),
    trace=TRACE,
    seconds={"replay": 1.0},
    total_seconds=1.0,
)


def test_a_folder_that_cannot_be_made_is_named(complete: Complete[None]) -> None:
    async def keep() -> None:
        async with progress.work_folder(Path("/proc/nowhere/files")):
            pass

    with pytest.raises(InvalidOptionError, match=r"'--keep' cannot be made \(No such file or directory\)"):
        complete(keep())


def test_a_good_report_has_no_problems() -> None:
    assert GOOD.holds
    assert GOOD.as_json()["holds"] is True


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (replace(GOOD, evidence=(replace(GOOD.evidence[0], holds=False),)), "not all theorems, by Z3"),
        (replace(GOOD, direct_answer=(ShippingMode("MAIL", 5, 5),)), "the answer through the exchange is"),
        (replace(GOOD, answer=(), direct_answer=(), hops=()), "the query found nothing"),
        (replace(GOOD, hops=(Hop(name="in", streams=(replace(STREAM, rows=9),)),)), "in: 9 rows moved, 10 are"),
        (replace(GOOD, hops=(Hop(name="in", streams=(replace(STREAM, peak_rows=9),)),)), "more rows in flight"),
        (replace(GOOD, trace=replace(TRACE, refused=("channel 'x': not a behaviour",))), "the recorded run"),
        (replace(GOOD, trace=replace(TRACE, is_complete=False)), "the recorded run"),
        (replace(GOOD, trace=replace(TRACE, is_at_rest=False)), "the recorded run"),
        (replace(GOOD, trace=replace(TRACE, events=0)), "the recorded run"),
    ],
    ids=["evidence", "answer", "empty", "rows lost", "bound", "refused", "incomplete", "not at rest", "no events"],
)
def test_whatever_is_wrong_is_called_so(bad: DemoReport, words: str) -> None:
    (problem,) = bad.problems()
    assert words in problem
    assert not bad.holds
    assert bad.as_json()["holds"] is False


@pytest.mark.parametrize("scale", [0.0, -1.0, 1e6, float("nan")])
def test_an_impossible_scale_is_refused(scale: float) -> None:
    with pytest.raises(InvalidOptionError, match="option '--scale' must be above 0"):
        DemoSettings(scale=scale)


def test_a_folder_with_something_in_it_is_not_used(tmp_path: Path) -> None:
    DemoSettings(keep=tmp_path)
    (tmp_path / "precious.txt").touch()
    with pytest.raises(InvalidOptionError, match="option '--keep' must be a new or an empty folder"):
        DemoSettings(keep=tmp_path)


def generator(folder: Path, script: str) -> str:
    """A program in the place of tpchgen-cli: ``$out`` is its output folder."""
    program = folder / "generator"
    find_folder = 'for last in "$@"; do case $before in --output-dir) out=$last;; esac; before=$last; done'
    program.write_text("\n".join(["#!/bin/sh", find_folder, script, ""]))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


WRITES_BOTH = 'echo x > "$out/lineitem.parquet"; echo y > "$out/orders.parquet"'


def test_tables_are_generated_once(complete: Complete[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tpch, "_generator", lambda: generator(tmp_path, WRITES_BOTH))
    cache = tmp_path / "cache"
    folder, is_new = complete(tpch.cached_tables(0.5, cache))
    assert is_new
    assert sorted(os.listdir(folder)) == ["lineitem.parquet", "orders.parquet"]
    monkeypatch.setattr(tpch, "_generator", lambda: generator(tmp_path, "exit 1"))
    assert complete(tpch.cached_tables(0.5, cache)) == (folder, False)
    assert os.listdir(cache) == [folder.name]


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ('echo x > "$out/lineitem.parquet"; echo no space >&2; exit 3', "exit code 3\nThe end of its log:\nno space"),
        ('echo x > "$out/lineitem.parquet"', "wrote no orders.parquet"),
    ],
    ids=["fails halfway", "forgets a table"],
)
def test_half_written_tables_are_never_seen(
    complete: Complete[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, words: str
) -> None:
    monkeypatch.setattr(tpch, "_generator", lambda: generator(tmp_path, script))
    with pytest.raises(DemoError, match=words):
        complete(tpch.cached_tables(0.5, tmp_path / "cache"))
    assert os.listdir(tmp_path / "cache") == []


def test_a_cancelled_generation_leaves_nothing(
    complete: Complete[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = tmp_path / "ready"
    script = f"{WRITES_BOTH}; echo > {ready}; exec sleep 60"
    monkeypatch.setattr(tpch, "_generator", lambda: generator(tmp_path, script))
    cache = tmp_path / "cache"
    os.mkfifo(ready)

    async def cancelled() -> None:
        task = asyncio.create_task(tpch.cached_tables(0.5, cache))
        await asyncio.to_thread(ready.read_text)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    complete(cancelled())
    assert os.listdir(cache) == []


def test_a_cache_that_cannot_be_written_is_named(complete: Complete[Any], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DemoError, match=r"cannot be kept in .*file"):
        complete(tpch.cached_tables(0.5, tmp_path / "file"))


def test_a_child_that_fails_shows_the_end_of_its_log(complete: Complete[Any], tmp_path: Path) -> None:
    command = ["sh", "-c", 'echo \'{"event": "ready"}\'; echo what happened; echo why >&2; exit 7']
    with pytest.raises(DemoError) as caught:
        complete(run_to_end(command, what="the child", log=tmp_path / "log"))
    assert str(caught.value).startswith("the child ended with exit code 7\nThe end of its log:\n")
    assert {"what happened", "why"} <= set(str(caught.value).splitlines())


def test_our_own_error_comes_first_however_much_java_follows(complete: Complete[Any], tmp_path: Path) -> None:
    java = "for i in $(seq 200); do echo at org.apache; done"
    command = ["sh", "-c", f"echo permitflow.errors.UnknownChannelError: no such channel; {java}; exit 1"]
    with pytest.raises(DemoError) as caught:
        complete(run_to_end(command, what="the job", log=tmp_path / "log"))
    first, *rest = str(caught.value).splitlines()
    assert first == "the job ended with exit code 1: permitflow.errors.UnknownChannelError: no such channel"
    assert len(rest) < 50


def test_what_is_not_installed_is_named(complete: Complete[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "find_spec", lambda name: None if name in ("pyspark", "z3") else object())
    with pytest.raises(DemoError, match=r"pyspark, z3 cannot be imported: pip install 'permitflow\[demo\]'"):
        complete(runner.run_demo(DemoSettings(), SilentProgress()))


def test_a_child_that_ends_too_early_is_noticed(complete: Complete[Any], tmp_path: Path) -> None:
    async def wait_for_event() -> None:
        async with child_process("the child", ["true"], log=tmp_path / "log") as child:
            await child.event("listening")

    with pytest.raises(DemoError, match="the child ended before it reported 'listening'"):
        complete(wait_for_event())


def test_a_program_that_is_missing_is_named(complete: Complete[Any], tmp_path: Path) -> None:
    with pytest.raises(DemoError, match=r"the child cannot be started: .*no-such-program"):
        complete(run_to_end(["/no-such-program"], what="the child", log=tmp_path / "log"))


def test_the_whole_group_of_a_child_ends_with_it(
    complete: Complete[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children, "GRACE_SECONDS", 0.2)

    async def leave_grandchild() -> psutil.Process:
        script = tmp_path / "stubborn"
        script.write_text('trap "" TERM; echo "{\\"event\\": \\"started\\", \\"pid\\": $$}"; exec sleep 60')
        async with child_process("the child", ["sh", "-c", f"sh {script} & wait"], log=tmp_path / "log") as child:
            return psutil.Process(int(str((await child.event("started"))["pid"])))

    grandchild = complete(leave_grandchild())
    _, alive = psutil.wait_procs([grandchild], timeout=50)
    assert [process.status() for process in alive] in ([], [psutil.STATUS_ZOMBIE])


CHILD = 'exec 3> "$1"; (sleep 30; echo survived >&3) & echo begun >&3; echo "{\\"event\\": \\"begun\\"}"; wait'
PARENT = f"""
import asyncio, sys
from pathlib import Path
from permitflow.demo.children import child_process

async def main() -> None:
    command = ["sh", "-c", {CHILD!r}, "sh", sys.argv[1]]
    async with child_process("the child", command, log=Path(sys.argv[1] + ".log")) as child:
        await child.event("begun")
        print("begun", flush=True)
        await child.ended()

asyncio.run(main())
"""


def test_the_whole_group_of_a_child_ends_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    os.mkfifo(told := tmp_path / "told")
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(told)], stdout=subprocess.PIPE)
    with parent, told.open() as lines:
        assert parent.stdout is not None  # it is a pipe
        assert parent.stdout.readline() == b"begun\n"
        parent.kill()
        assert lines.read() == "begun\n"
