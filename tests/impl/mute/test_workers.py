"""Worker processes: typed failures, and new starts."""

import asyncio
from pathlib import Path

from examples.child_process import text_of
from examples.wordcount.outside import CountReader
from examples.wordcount.worker import WorkerSettings
from examples.wordcount.workers import WorkerDiedError, WorkerProcess
from permitflow.mute import Buffers
from permitflow.mute.pipeline import Event
from tests.support.turns import until


async def test_a_killed_worker_is_reported_and_runs_again_at_its_address(tmp_path: Path) -> None:
    events: list[Event] = []
    reader = CountReader(Buffers())
    settings = WorkerSettings(
        name="worker",
        listen="127.0.0.1:0",
        sinks=[text_of(reader.address)],
        listening_sinks=["127.0.0.1:0"],
    )
    worker = WorkerProcess(settings, tmp_path, events.append)

    def times_ready() -> int:
        return sum(event["event"] == "ready" for event in events)

    async with asyncio.TaskGroup() as group:
        group.create_task(worker.run())
        await until(lambda: times_ready() == 1)
        former = worker.addresses
        worker.kill()
        await until(lambda: times_ready() == 2)
        assert [worker.addresses[port] for port in ("listen", "out1")] == [former["listen"], former["out1"]]
        await worker.stop()
    reader.close()
    (death,) = worker.deaths
    assert isinstance(death, WorkerDiedError)
    assert (death.worker, death.exit_code, death.starts) == ("worker", -9, 1)
    assert [event["event"] for event in events if event.get("reason")] == ["died"]
