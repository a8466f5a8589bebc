"""The main job on real input: TPC-H query 12, whose two halves are two Spark jobs with an exchange between them."""

from permitflow.child_processes import run_interruptible
from permitflow.demo.console import Progress
from permitflow.demo.settings import DemoSettings, PipelineSettings
from permitflow.demo.streaming_demo import PipelineReport, run_pipeline
from permitflow.demo.two_jobs import DemoReport, run_demo

__all__ = ["DemoReport", "DemoSettings", "PipelineReport", "PipelineSettings", "Progress", "run", "run_streaming"]


def run(settings: DemoSettings, progress: Progress) -> DemoReport:
    """Run the demo to its end; SIGINT, SIGTERM and SIGHUP end all its processes first.

    Raises:
        DemoError: it cannot be run on this machine, or one of its processes failed.
        KeyboardInterrupt: it was interrupted; no process is left.
    """
    return run_interruptible(run_demo(settings, progress))


def run_streaming(settings: PipelineSettings, progress: Progress) -> PipelineReport:
    """Run the streaming pipeline, with or without kills, as ``run`` runs the demo.

    Raises:
        DemoError: it cannot be run on this machine, one of its parts fails again and again, or nothing gets further.
        KeyboardInterrupt: it was interrupted; no process is left.
    """
    return run_interruptible(run_pipeline(settings, progress))
