"""A part that is killed, or fails for want of a neighbour, is started again; one that fails for itself ends the run."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from permitflow.demo.streaming.supervising import Part
from permitflow.errors import DemoError

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


def test_a_part_that_ends_well_is_done(run: asyncio.Runner, new_part: NewPart) -> None:
    notes: list[str] = []
    part = new_part(END, notes=notes)
    run.run(part.run())
    assert (part.is_done, part.starts, part.failures, notes) == (True, 1, 0, ["life"])
    assert not part.kill()


def test_a_part_that_is_killed_is_started_again_and_has_not_failed(run: asyncio.Runner, new_part: NewPart) -> None:
    part = new_part(WAIT, END, may_fail=False)

    async def killed() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(part.run())
            await part.begun()
            assert part.kill()

    run.run(killed())
    assert (part.is_done, part.starts, part.failures) == (True, 2, 0)


def test_a_part_that_fails_for_want_of_a_neighbour_is_started_again(run: asyncio.Runner, new_part: NewPart) -> None:
    part = new_part(FAIL, FAIL, END)
    run.run(part.run())
    assert (part.is_done, part.starts, part.failures) == (True, 3, 2)


def test_a_part_that_has_no_reason_to_fail_ends_the_run_with_its_log(run: asyncio.Runner, new_part: NewPart) -> None:
    part = new_part(FAIL, END, may_fail=False)
    with pytest.raises(DemoError, match=r"part has failed; the end of its log:\nno neighbour"):
        run.run(part.run())


def test_a_part_that_fails_again_and_again_ends_the_run(
    run: asyncio.Runner, new_part: NewPart, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("permitflow.demo.streaming.supervising.MOST_FAILURES_IN_A_ROW", 2)
    part = new_part(FAIL)
    with pytest.raises(DemoError, match="no neighbour"):
        run.run(part.run())
    assert part.failures == 3


def test_a_part_that_is_stopped_is_not_started_again(run: asyncio.Runner, new_part: NewPart) -> None:
    part = new_part(WAIT)

    async def stopped() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(part.run())
            await part.begun()
            await part.stop()

    run.run(stopped())
    assert (part.is_done, part.starts) == (False, 1)


def test_cancellation_leaves_no_process(run: asyncio.Runner, new_part: NewPart) -> None:
    part = new_part(WAIT)

    async def cancelled() -> int:
        running = asyncio.create_task(part.run())
        await part.begun()
        pid = part.pid
        assert pid is not None
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return pid

    assert not Path(f"/proc/{run.run(cancelled())}").exists()
