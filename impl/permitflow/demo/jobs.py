"""Two Spark jobs, each in a process of its own, with an exchange between them in a third."""

import asyncio
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

from permitflow.demo.children import Child, Event, child_process
from permitflow.demo.query12 import ShippingMode
from permitflow.demo.settings import DemoSettings, JobSettings
from permitflow.errors import DemoError

__all__ = ["Answers", "run_jobs"]

Note = Callable[[str], None]


@dataclass(frozen=True)
class Answers:
    """What job 2 found, in both ways, how long each took, and what the exchange says about its channels."""

    through_exchange: tuple[ShippingMode, ...]
    direct: tuple[ShippingMode, ...]
    seconds: dict[str, float]
    traffic: list[Event]


async def run_jobs(settings: DemoSettings, tables: Path, work_dir: Path, note: Note) -> Answers:
    """Run everything to its end; cancellation ends all three processes.

    Raises:
        DemoError: one of the processes failed; the message ends with its log.
    """
    traces = work_dir / "traces"
    await asyncio.to_thread(traces.mkdir)
    command = [sys.executable, "-m", "permitflow.cli", *settings.exchange_arguments(traces)]
    async with child_process("permitflow serve", command, log=work_dir / "exchange.log") as exchange:
        address = str((await exchange.event("listening"))["address"])
        note(f"permitflow serve listens at {address}")
        job = settings.job(address=address, tables=tables, work_dir=work_dir, traces=traces)
        try:
            async with asyncio.TaskGroup() as group:
                watching = group.create_task(_watch(exchange, note))
                events = await group.create_task(_run_spark(job, work_dir, note))
                # It writes its recording when it is asked to end.
                await exchange.stop()
        except* DemoError as failures:
            raise _first(failures) from None
    return _answers(events, watching.result())


async def _watch(exchange: Child, note: Note) -> list[Event]:
    """Say what flows, until the exchange has stopped; its last numbers."""
    said = ""
    async for event in exchange.events():
        channels = event.get("channels", [])
        assert isinstance(channels, list)  # so serve reports them
        if event["event"] == "stopped":
            await exchange.succeed()
            return channels
        came, went = (sum(channel[name] for channel in channels) for name in ("rows_in", "rows_out"))
        if came and (text := f"{came:,} rows have come, {went:,} have gone") != said:
            said = text
            note(f"permitflow serve: {said}")
    raise DemoError("permitflow serve ended before it was asked to")


def _first(failures: BaseExceptionGroup[DemoError]) -> DemoError:
    found = failures.exceptions[0]
    return _first(found) if isinstance(found, BaseExceptionGroup) else found


async def _run_spark(job: JobSettings, work_dir: Path, note: Note) -> dict[str, Event]:
    async with (
        _spark("send_job", "Spark job 1", job, work_dir) as sending,
        _spark("receive_job", "Spark job 2", job, work_dir) as receiving,
        asyncio.TaskGroup() as group,
    ):
        group.create_task(_follow(sending, note))
        received = group.create_task(_follow(receiving, note))
    return received.result()


def _spark(module: str, name: str, job: JobSettings, work_dir: Path) -> AbstractAsyncContextManager[Child]:
    command = [sys.executable, "-m", f"permitflow.demo.{module}", job.to_json()]
    return child_process(name, command, log=work_dir / f"{module}.log")


async def _follow(child: Child, note: Note) -> dict[str, Event]:
    """Pass on what a job reports until it has ended well; the last event of each name."""
    events: dict[str, Event] = {}
    async for event in child.events():
        events[str(event["event"])] = event
        note(f"{child.name}: {event['text']}")
    await child.succeed()
    return events


def _answers(events: dict[str, Event], traffic: list[Event]) -> Answers:
    return Answers(
        through_exchange=_rows(events["query_through_exchange"]),
        direct=_rows(events["query_directly"]),
        seconds={name: float(str(events[name]["seconds"])) for name in ("query_through_exchange", "query_directly")},
        traffic=traffic,
    )


def _rows(event: Event) -> tuple[ShippingMode, ...]:
    rows = event["rows"]
    assert isinstance(rows, list)  # so receive_job reports them
    return tuple(ShippingMode(*row) for row in rows)
