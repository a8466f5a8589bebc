"""The main job on real input: TPC-H query 12, whose two halves are two Spark jobs with an exchange between them."""

from ..processes import run_interruptible
from .pipeline import run_pipeline
from .report import Progress, Report
from .settings import DemoSettings, PipelineSettings
from .two_jobs import run_two_jobs

__all__ = ["DemoSettings", "PipelineSettings", "Progress", "Report", "run"]


def run(settings: DemoSettings | PipelineSettings, progress: Progress) -> Report:
    """Run a demo to its end; SIGINT, SIGTERM and SIGHUP end all its processes first.

    Raises:
        DemoError: it cannot be run on this machine, one of its processes failed, or nothing gets further.
        KeyboardInterrupt: it was interrupted; no process is left.
    """
    if isinstance(settings, PipelineSettings):
        return run_interruptible(run_pipeline(settings, progress))
    return run_interruptible(run_two_jobs(settings, progress))
