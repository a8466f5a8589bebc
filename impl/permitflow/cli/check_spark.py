"""A sweep of checks on Spark: a session for it, and what goes wrong with one."""

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from permitflow.checking import Check, Finding, Grid
from permitflow.cli.outcomes import ExitCode, complain, unusable
from permitflow.demo.spark_session import local_session
from permitflow.spark.sessions import (
    FAILURES,
    ended_by_interrupts,
    heeding_as_before,
    session_at,
    starting_quietly,
    unlogged,
    was_interrupted,
)
from permitflow.spark.sweeping import sweep

__all__ = ["sweep_on"]

_NAME = "permitflow check"
_MOST_LETTERS = 200
_LOG = "spark.log"


def sweep_on(master: str, check: Check, grid: Grid, *, max_states: int) -> list[Finding]:
    """Check the cells of a grid there, or end the command and say why that is not possible."""
    with TemporaryDirectory(prefix="permitflow-check-") as name:
        folder = Path(name)
        try:
            with unlogged():
                return _swept(master, folder, check, grid, max_states)
        except (Exception, KeyboardInterrupt) as error:
            if was_interrupted(error):
                complain("interrupted, and Spark was stopped")
                raise typer.Exit(ExitCode.INTERRUPTED) from None
            if not isinstance(error, FAILURES):
                raise
            unusable(f"--spark {master}: {_reason(error, folder / _LOG)}")


def _swept(master: str, folder: Path, check: Check, grid: Grid, max_states: int) -> list[Finding]:
    with ExitStack() as stack:
        with starting_quietly(folder / _LOG), heeding_as_before():
            if master.startswith("local"):
                spark = stack.enter_context(local_session(_NAME, master=master, work_dir=folder))
            else:
                spark = stack.enter_context(session_at(master, _NAME))
        with ended_by_interrupts():
            return sweep(spark, check, grid, max_states=max_states).findings


def _reason(error: BaseException, log: Path) -> str:
    """The first line of what Spark says; where no JVM has started, the last of what it said itself."""
    reason = str(error).strip().partition("\n")[0][:_MOST_LETTERS] or type(error).__name__
    if "JAVA_GATEWAY_EXITED" not in reason:
        return reason
    said = [line for line in log.read_text(errors="replace").splitlines() if line.strip() and not line[0].isspace()]
    return f"{reason} It said: {said[-1][:_MOST_LETTERS]}" if said else reason
