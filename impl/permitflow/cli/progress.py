"""Progress of something that usually takes no time: nothing is drawn in the first second."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from time import monotonic

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from permitflow.cli.console import open_console
from permitflow.simulation.run import Progress as Report

__all__ = ["late_progress"]

_PATIENCE_SECONDS = 1.0


@contextmanager
def late_progress(what: str) -> Iterator[Report]:
    """A function that takes the share that is done, and draws a bar on standard error if it takes long."""
    console = open_console(stderr=True)
    began = monotonic()
    with ExitStack() as stack:
        bar: Progress | None = None

        def report(share: float) -> None:
            nonlocal bar
            if bar is None and console.is_terminal and monotonic() - began > _PATIENCE_SECONDS:
                bar = stack.enter_context(
                    Progress(
                        TextColumn("{task.description}", markup=False),
                        BarColumn(),
                        TaskProgressColumn(),
                        TimeRemainingColumn(),
                        console=console,
                        transient=True,
                    )
                )
                bar.add_task(what, total=1.0)
            if bar is not None:
                bar.update(bar.task_ids[0], completed=share)

        yield report
