"""A sweep of checks on Spark: a session for it, and what goes wrong with one."""

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from permitflow.checking import Check, Finding, Grid
from permitflow.cli.outcomes import unusable
from permitflow.demo.spark_session import local_session
from permitflow.spark.sessions import FAILURES, session_at
from permitflow.spark.sweeping import sweep

__all__ = ["sweep_on"]

_NAME = "permitflow check"
_MOST_LETTERS = 200


def sweep_on(master: str, check: Check, grid: Grid, *, max_states: int) -> list[Finding]:
    """Check the cells of a grid there, or end the command and say why that is not possible."""
    try:
        with ExitStack() as stack:
            if master.startswith("local"):
                folder = Path(stack.enter_context(TemporaryDirectory(prefix="permitflow-check-")))
                spark = stack.enter_context(local_session(_NAME, master=master, work_dir=folder))
            else:
                spark = stack.enter_context(session_at(master, _NAME))
            return sweep(spark, check, grid, max_states=max_states).findings
    except FAILURES as error:
        reason = str(error).strip().partition("\n")[0][:_MOST_LETTERS]
        unusable(f"--spark {master}: {reason or type(error).__name__}")
