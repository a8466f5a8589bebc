"""Without a solver the formulas of the theorems decide own numbers, and the model makes the run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "docs/examples"
ADVICE = "permitflow[proofs] proves this again, for these numbers"

# By the command line: the exit code, and what is said.
ANSWERS = {
    "check --row-permits 2048 --permit-batch 256 --max-chunk-cost 1792": (0, "live: row permits 2,048"),
    "check --row-permits 2048 --permit-batch 256 --max-chunk-cost 1794": (1, "OfferChunk(1794)"),
    "check --row-permits 8 --permit-batch 3 --chunk-rows 2,8": (1, "theorem sets-of-sizes (PermitChannel.tla:"),
    "check --row-permits 64": (0, ADVICE),
    "check orders.toml": (0, "live: orders.toml: row permits 32,768"),
    "check grid.toml --sweep permit_batch=3 --sweep max_chunk_cost=6,7 --plot grid.svg": (1, "deadlock"),
    "explain --row-permits 8 --permit-batch 3 --max-chunk-cost 7": (0, "stuck: After 5 steps a chunk that needs 7"),
    "explain --row-permits 64": (0, "live: Every message that waits is sent"),
    "explain orders.toml -o orders.html": (0, "live: Every message that waits is sent"),
    "prove": (2, "z3 is not installed, but this command needs it: install permitflow[proofs]"),
}

PROGRAM = """
import json, shlex, sys
sys.modules.update(z3=None, cvc5=None)
from typer.testing import CliRunner
from permitflow_tools.cli.application import app
results = [CliRunner().invoke(app, shlex.split(line)) for line in json.loads(sys.argv[1])]
print(json.dumps([[result.exit_code, result.output] for result in results]))
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    folder = tmp_path_factory.mktemp("without_solver")
    for name in "orders", "grid":
        (folder / f"{name}.toml").symlink_to(EXAMPLES / f"{name}.toml")
    command = [sys.executable, "-c", PROGRAM, json.dumps([*ANSWERS])]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=250, check=True)
    return {line: tuple(answer) for line, answer in zip(ANSWERS, json.loads(done.stdout), strict=True)}


@pytest.mark.parametrize("line", ANSWERS)
def test_own_numbers_are_decided_without_a_solver(answers: dict[str, tuple[int, str]], line: str) -> None:
    code, said = answers[line]
    assert (code, ANSWERS[line][1] in said) == (ANSWERS[line][0], True), said
