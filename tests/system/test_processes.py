"""Child processes: what they report, how they end, and how a part of the pipeline is started again."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

from examples import processes as child_processes
from examples.processes import Part, child_process, first_error, run_beside
from permitflow.errors import DemoError

T = TypeVar("T")
Complete = Callable[[Coroutine[Any, Any, T]], T]


def test_the_whole_group_of_a_child_ends_with_it(
    complete: Complete[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_processes, "GRACE_SECONDS", 0.2)

    async def leave_grandchild() -> psutil.Process:
        script = tmp_path / "stubborn"
        script.write_text('trap "" TERM; echo "{\\"event\\": \\"started\\", \\"pid\\": $$}"; exec sleep 60')
        async with child_process("the child", ["sh", "-c", f"sh {script} & wait"], log=tmp_path / "log") as child:
            return psutil.Process(int(str((await anext(child.events()))["pid"])))

    grandchild = complete(leave_grandchild())
    _, alive = psutil.wait_procs([grandchild], timeout=50)
    assert [process.status() for process in alive] in ([], [psutil.STATUS_ZOMBIE])


CHILD = 'exec 3> "$1"; (sleep 30; echo survived >&3) & echo begun >&3; echo "{\\"event\\": \\"begun\\"}"; wait'
PARENT = f"""
import asyncio, sys
from pathlib import Path
from examples.processes import child_process

async def main() -> None:
    command = ["sh", "-c", {CHILD!r}, "sh", sys.argv[1]]
    async with child_process("the child", command, log=Path(sys.argv[1] + ".log")) as child:
        await anext(child.events())
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


REPORT = 'print(\'{"event": "begun", "text": "life"}\', flush=True)'
WAIT = f"import signal; {REPORT}; signal.pause()"
END = f"{REPORT}"
FAIL = "import sys; sys.exit('no neighbour')"

NewPart = Callable[..., Part]


@pytest.fixture
def new_part(tmp_path: Path) -> NewPart:
    """A part that runs these programs, one in each of its lives; the last one in all that follow."""

    def new(*lives: str, may_fail: bool = True, notes: list[str] | None = None) -> Part:
        return Part(
            "part",
            lambda life: [sys.executable, "-c", lives[min(life, len(lives)) - 1]],
            tmp_path / "part.log",
            hear=lambda event: (notes if notes is not None else []).append(str(event["text"])),
            may_fail=lambda: may_fail,
        )

    return new


async def test_a_part_that_is_killed_is_started_again_and_has_not_failed(new_part: NewPart) -> None:
    part = new_part(WAIT, END, may_fail=False)
    async with asyncio.TaskGroup() as group:
        group.create_task(part.run())
        await part.begun()
        assert part.kill()
    assert (part.is_done, part.starts, part.failures) == (True, 2, 0)


async def test_a_part_that_stops_without_reason_ends_the_run_with_its_log(tmp_path: Path) -> None:
    script = 'echo \'{"event": "ready"}\'; echo what happened; echo why >&2; exit 7'
    with pytest.raises(DemoError) as caught:
        await Part("the part", lambda life: ["sh", "-c", script], tmp_path / "log").run()
    first, *others = str(caught.value).splitlines()
    assert first == "the part ended with exit code 7"
    assert {"what happened", "why"} <= {*others}


@pytest.mark.parametrize("job", [END, FAIL])
async def test_a_server_runs_as_long_as_the_work_beside_it(new_part: NewPart, job: str) -> None:
    server, part = new_part(WAIT), new_part(job, may_fail=False)
    if job is END:
        await run_beside(server, part.run)
    else:
        with pytest.raises(DemoError, match="no neighbour"):
            await run_beside(server, part.run)
    assert (server.starts, server.pid) == (1, None)


async def test_cancellation_leaves_no_process(new_part: NewPart) -> None:
    part = new_part(WAIT)
    running = asyncio.create_task(part.run())
    await part.begun()
    pid = part.pid
    assert pid is not None
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not psutil.pid_exists(pid)


async def test_cancellation_again_and_again_leaves_no_process(new_part: NewPart) -> None:
    before = psutil.Process().children()
    part = new_part(WAIT)
    running = asyncio.create_task(part.run())
    await part.begun()
    while not running.done():
        running.cancel()
        await asyncio.sleep(0)
    assert running.cancelled()
    assert psutil.Process().children() == before


def test_an_error_of_another_kind_is_not_hidden() -> None:
    failures = ExceptionGroup("two tasks", [DemoError(message="it failed"), TypeError("a mistake")])
    with pytest.raises(ExceptionGroup) as caught, first_error(DemoError):
        raise failures
    assert caught.value is failures
