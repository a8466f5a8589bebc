"""The model checks and the proofs, run as a user would: ``permitflow check`` and ``permitflow prove``."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

from permitflow.demo.children import child_output
from permitflow.demo.report import Evidence
from permitflow.errors import DemoError

__all__ = ["gather_evidence"]

# The command, and the list in its report whose items are counted.
COMMANDS = {"check": "models", "prove": "theorems"}


async def gather_evidence(work_dir: Path, note: Callable[[str], None]) -> tuple[Evidence, ...]:
    """Run both commands, one after the other: each uses all cores.

    Raises:
        DemoError: a command could not do its work; that it found a failure is no error, but a finding.
    """
    return tuple([await _run(command, items, work_dir, note) for command, items in COMMANDS.items()])


async def _run(command: str, items: str, work_dir: Path, note: Callable[[str], None]) -> Evidence:
    name = f"permitflow {command}"
    note(f"{name} ...")
    log = work_dir / f"{command}.log"
    code, output = await child_output([sys.executable, "-m", "permitflow.cli", command, "--json"], name=name, log=log)
    if code not in (0, 1):
        raise DemoError(f"{name} ended with exit code {code}: {log.read_text(errors='replace')[-2000:]}")
    try:
        document = json.loads(output)
        evidence = Evidence(name=name, holds=code == 0 and document["holds"] is True, count=len(document[items]))
    except (ValueError, KeyError, TypeError) as error:
        raise DemoError(f"{name} --json printed no report: {output[:500]!r}") from error
    note(f"{name}: {evidence.count} {items}, {'all as they should be' if evidence.holds else 'NOT as they should be'}")
    return evidence
