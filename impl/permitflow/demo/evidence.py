"""The model checks and the proofs, run as a user would: ``permitflow check`` and ``permitflow prove``."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from permitflow.demo.children import child_output
from permitflow.demo.report import Evidence
from permitflow.errors import DemoError

__all__ = ["gather_evidence"]

# What takes seconds.  TLC starts a JVM for each model: it gets those that tell the story, and `permitflow check` all.
STORY = ("published", "one-above-stuck", "mismatch-stuck", "live")


class Command(NamedTuple):
    """A command of ``permitflow`` that judges."""

    title: str
    arguments: tuple[str, ...]
    items: str
    """The list in its report whose items are counted."""


COMMANDS = (
    Command("models, by the explorer", ("check", "--engine", "explorer"), "models"),
    Command("models, by TLC", ("check", "--engine", "tlc", *(f"--model={name}" for name in STORY)), "models"),
    Command("theorems, by Z3", ("prove", "--solver", "z3"), "theorems"),
)


async def gather_evidence(work_dir: Path, note: Callable[[str], None]) -> tuple[Evidence, ...]:
    """Run the commands, one after the other: each uses all cores.

    Raises:
        DemoError: a command could not do its work; that it found a failure is no error, but a finding.
    """
    return tuple([await _run(command, work_dir, note) for command in COMMANDS])


async def _run(command: Command, work_dir: Path, note: Callable[[str], None]) -> Evidence:
    name = f"permitflow {' '.join(command.arguments[:3])}"
    log = work_dir / "evidence.log"
    line = [sys.executable, "-m", "permitflow.cli", *command.arguments, "--json"]
    code, output = await child_output(line, name=name, log=log)
    if code not in (0, 1):
        raise DemoError(f"{name} ended with exit code {code}: {log.read_text(errors='replace')[-2000:]}")
    try:
        document = json.loads(output)
        judged = [item for item in document[command.items] if item.get("findings", True)]
        evidence = Evidence(name=command.title, holds=code == 0 and document["holds"] is True, count=len(judged))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DemoError(f"{name} --json printed no report: {output[:500]!r}") from error
    note(f"{evidence.count} {evidence.name}: {'as they should be' if evidence.holds else 'NOT as they should be'}")
    return evidence
