"""The main job on real input: TPC-H query 12, whose two halves are two Spark jobs with an exchange between them."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import TypeVar

from permitflow.demo.console import Progress
from permitflow.demo.settings import DemoSettings, PipelineSettings
from permitflow.demo.streaming_demo import PipelineReport, run_pipeline
from permitflow.demo.two_jobs import DemoReport, run_demo

__all__ = ["DemoReport", "DemoSettings", "PipelineReport", "PipelineSettings", "Progress", "run", "run_streaming"]


T = TypeVar("T")


def run(settings: DemoSettings, progress: Progress) -> DemoReport:
    """Run the demo to its end; SIGINT, SIGTERM and SIGHUP end all its processes first.

    Raises:
        DemoError: it cannot be run on this machine, or one of its processes failed.
        KeyboardInterrupt: it was interrupted; no process is left.
    """
    return _run(run_demo(settings, progress))


def run_streaming(settings: PipelineSettings, progress: Progress) -> PipelineReport:
    """Run the streaming pipeline, with or without kills, as ``run`` runs the demo.

    Raises:
        DemoError: it cannot be run on this machine, one of its parts fails again and again, or nothing gets further.
        KeyboardInterrupt: it was interrupted; no process is left.
    """
    return _run(run_pipeline(settings, progress))


def _run(demo: Coroutine[object, object, T]) -> T:
    former = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    came: list[signal.Signals] = []

    async def interruptible() -> T:
        task = asyncio.current_task()
        assert task is not None  # this is one

        def end(number: signal.Signals) -> None:
            came.append(number)
            task.cancel()

        for number in (number for number, handler in former.items() if handler is not signal.SIG_IGN):
            asyncio.get_running_loop().add_signal_handler(number, end, number)
        return await demo

    try:
        return asyncio.run(interruptible())
    except asyncio.CancelledError:
        for number in came[:1]:
            # The former handler must learn that the signal came.
            if callable(handler := former[number]):
                handler(number, None)
        raise KeyboardInterrupt from None
    finally:
        # The loop has put defaults in their place.
        for number, handler in former.items():
            signal.signal(number, handler)
