"""A Spark session for a command, whose own output stays the command's."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import typer

from permitflow_tools.cli.outcomes import ExitCode, complain, unusable

_MASTERS = ("local", "spark://", "yarn", "k8s://", "sc://")
_EXAMPLES = "local[*], spark://host:7077, yarn, k8s://host or sc://host:15002"
_MOST_LETTERS = 200


def require_master(master: str) -> None:
    """End the command if this is not a master."""
    if not master.startswith(_MASTERS):
        unusable(f"--spark: must be a master or a remote session, as in {_EXAMPLES}, not {master!r}")


@contextmanager
def spark_session(master: str, name: str) -> Iterator[Any]:
    """A Spark session for the block; ends the command, and says why, where Spark cannot start or do the work."""
    from permitflow.spark.local_session import local_session
    from permitflow_tools.checking import sessions

    with TemporaryDirectory(prefix=f"{name.replace(' ', '-')}-") as work_dir:
        folder = Path(work_dir)
        log = folder / "spark.log"
        try:
            with sessions.unlogged(), ExitStack() as stack:
                with sessions.starting_quietly(log), sessions.heeding_as_before():
                    if master.startswith("local"):
                        spark = stack.enter_context(local_session(name, master=master, work_dir=folder))
                    else:
                        spark = stack.enter_context(sessions.session_at(master, name))
                with sessions.ended_by_interrupts():
                    yield spark
        except (Exception, KeyboardInterrupt) as error:
            if sessions.was_interrupted(error):
                complain("interrupted, and Spark was stopped")
                raise typer.Exit(ExitCode.INTERRUPTED) from None
            if not isinstance(error, sessions.FAILURES):
                raise
            unusable(f"--spark {master}: {_reason(error, log)}")


def _reason(error: BaseException, log: Path) -> str:
    """The first line of what Spark says; where no JVM has started, the last of what it said itself."""
    reason = str(error).strip().partition("\n")[0][:_MOST_LETTERS] or type(error).__name__
    if "JAVA_GATEWAY_EXITED" not in reason:
        return reason
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip() and not line[0].isspace()]
    return f"{reason} It said: {lines[-1][:_MOST_LETTERS]}" if lines else reason
