"""A worker: ``python -m examples.jobs.worker SETTINGS``.

It pulls a job from the master over gRPC, works, sends the result, and only then pulls the next one: the channel has
stop-and-wait, and so never more than one job.
"""

import asyncio
from typing import Any

from permitflow.client import EndOutcome, RemoteReceiver, get, put
from permitflow.errors import PermitflowError
from permitflow.flows.messages import Message
from permitflow.names import stream_channels

from ..child_process import asked_to_end, report, run_process
from .metrics import Metrics, sending_metrics
from .settings import WorkerSettings
from .work import JOBS, RESULTS, Result, chunk_of, jobs_stream, result_of, results_stream

AWAY_PAUSE_SECONDS = 0.1


async def work(settings: WorkerSettings, metrics: Metrics, ending: asyncio.Event) -> None:
    """Work for as long as the master is there, until the end; a job that was begun is finished.

    Raises:
        PermitflowError: the master is not there, or gone; or it still has the channels of an earlier start.
    """
    (jobs_name,), (results_name,) = (
        stream_channels(stream, 1) for stream in (jobs_stream(settings.name), results_stream(settings.name))
    )
    async with (
        get(settings.master, jobs_name, schema=JOBS) as jobs,
        put(settings.master, results_name, RESULTS) as results,
    ):
        await results.send(chunk_of(Result("", 0, 0, settings.incarnation)))
        while (pulled := await next_job(jobs, ending)) is not None:
            for client, number, wanted in zip(*pulled.payload.to_pydict().values(), strict=True):
                metrics.count("pulled")
                await asyncio.sleep(settings.job_seconds)
                await results.send(chunk_of(Result(client, number, result_of(wanted), settings.incarnation)))
                metrics.count("finished")
            jobs.consume()
        await results.end(until=EndOutcome.ACCEPTED)


async def next_job(jobs: RemoteReceiver, ending: asyncio.Event) -> Message[Any] | None:
    """The next job; None if the worker is to end."""
    if ending.is_set():
        return None
    pulling, asked = asyncio.ensure_future(jobs.take()), asyncio.ensure_future(ending.wait())
    try:
        await asyncio.wait({pulling, asked}, return_when=asyncio.FIRST_COMPLETED)
        return pulling.result() if pulling.done() else None
    finally:
        pulling.cancel()
        asked.cancel()
        await asyncio.gather(pulling, asked, return_exceptions=True)


async def main() -> None:
    """Work until SIGTERM.

    Raises:
        PermitflowError: the master was away for too long.
    """
    settings = WorkerSettings.from_command_line()
    loop = asyncio.get_running_loop()
    async with sending_metrics(settings.metrics) as metrics:
        report("ready")
        with asked_to_end() as ending:
            give_up_at, finished = loop.time() + settings.give_up_seconds, 0
            while not ending.is_set():
                try:
                    await work(settings, metrics, ending)
                except PermitflowError:
                    if metrics.totals.get("finished", 0) > finished:
                        give_up_at = loop.time() + settings.give_up_seconds
                        finished = metrics.totals["finished"]
                    if loop.time() > give_up_at:
                        raise
                    await asyncio.sleep(AWAY_PAUSE_SECONDS)
    report("final", source=settings.name, incarnation=settings.start, totals=dict(metrics.totals))


if __name__ == "__main__":
    run_process(main())
