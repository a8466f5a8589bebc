"""The main job on real input: TPC-H query 12, whose two halves are two Spark jobs with an exchange between them."""

import asyncio
import signal

from permitflow.demo.report import DemoReport
from permitflow.demo.runner import Progress, run_demo
from permitflow.demo.settings import DemoSettings

__all__ = ["DemoReport", "DemoSettings", "Progress", "run"]


def run(settings: DemoSettings, progress: Progress) -> DemoReport:
    """Run the demo to its end; SIGINT and SIGTERM end all its processes first.

    Raises:
        DemoError: it cannot be run on this machine, or one of its processes failed.
        KeyboardInterrupt: it was interrupted; no process is left.
    """

    async def interruptible() -> DemoReport:
        task = asyncio.current_task()
        assert task is not None  # this is one
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await run_demo(settings, progress)

    try:
        return asyncio.run(interruptible())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
