"""``permitflow demo``: what it makes of its options, of the report and of failures."""

import json

import pytest

import examples.tpch
from examples.tpch import Report
from examples.tpch.report import Check, StreamNumbers
from examples.tpch.tables import ShippingMode
from permitflow.errors import DemoError
from tests.permitflow_tools.cli.conftest import Command

ANSWER = (ShippingMode("MAIL", 3, 4), ShippingMode("SHIP", 1, 2))


def report_of(*, peak_rows_held: int) -> Report:
    """A report of a demo in which everything else is right."""
    return Report(
        scale=0.1,
        answer=ANSWER,
        direct_answer=ANSWER,
        streams=[StreamNumbers(hop="in", stream="q12/0", rows=10, peak_rows_held=peak_rows_held, window_rows=8)],
        checks=[Check(True, "all is well")],
        seconds={},
        total_seconds=1.0,
    )


@pytest.mark.parametrize(
    ("peak", "code", "said"), [(8, 0, "All checks passed"), (9, 1, "in, q12/0: 9 rows at once, 8 may be")]
)
def test_it_succeeds_if_every_check_of_its_report_does(
    command: Command, monkeypatch: pytest.MonkeyPatch, peak: int, code: int, said: str
) -> None:
    monkeypatch.setattr(examples.tpch, "run", lambda *_: report_of(peak_rows_held=peak))
    ended, stdout, _ = command("demo")
    assert (ended, said in stdout) == (code, True)
    ended, stdout, _ = command("demo", "--json")
    assert (ended, json.loads(stdout)["holds"]) == (code, code == 0)


def test_a_demo_that_cannot_run_says_why(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object) -> Report:
        raise DemoError("tpchgen-cli is not installed")

    monkeypatch.setattr(examples.tpch, "run", run)
    assert command("demo") == (1, "", "Error: tpchgen-cli is not installed\n")


def test_an_interrupted_demo_ends_with_130(process: Command) -> None:
    """In a process of its own: SIGINT reaches it while it checks the models."""
    program = (
        "import os, signal, sys, examples.tpch as demo\n"
        "demo.run = lambda *_: os.kill(os.getpid(), signal.SIGINT) or signal.pause()\n"
        "sys.argv[1:] = ['demo']\n"
        "from permitflow_tools.cli import main; main()\n"
    )
    code, stdout, stderr = process(program=program)
    assert (code, stdout, stderr) == (130, "", "Error: interrupted\n")
