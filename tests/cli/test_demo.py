"""``permitflow demo``: what it makes of its options, of the report and of failures."""

from collections.abc import Callable

import pytest
import typer

from permitflow.cli.demo import show_run
from permitflow.demo import Progress, Report
from permitflow.demo.report import Check, StreamNumbers
from permitflow.demo.tpch import ShippingMode
from permitflow.errors import DemoError
from tests.cli.conftest import Command

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


def ended_as(run: Callable[[Progress], Report], *, as_json: bool = False) -> int:
    """The exit code of the command, if the demo comes to this."""
    with pytest.raises(typer.Exit) as end:
        show_run(run, as_json=as_json)
    return end.value.exit_code


def test_a_good_report_is_shown_and_succeeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended_as(lambda _: report_of(peak_rows_held=8)) == 0
    assert "All checks passed" in capsys.readouterr().out


@pytest.mark.parametrize("as_json", [False, True])
def test_a_report_with_a_problem_fails(capsys: pytest.CaptureFixture[str], *, as_json: bool) -> None:
    assert ended_as(lambda _: report_of(peak_rows_held=9), as_json=as_json) == 1
    assert "in, q12/0: 9 rows at once, 8 may be" in capsys.readouterr().out


def test_a_demo_that_cannot_run_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    def run(_: Progress) -> Report:
        raise DemoError("tpchgen-cli is not installed")

    assert ended_as(run) == 1
    assert capsys.readouterr().err == "Error: tpchgen-cli is not installed\n"


def test_an_interrupted_demo_ends_with_130(process: Command) -> None:
    """In a process of its own: SIGINT reaches it while it checks the models."""
    program = (
        "import os, signal, sys, permitflow.demo as demo\n"
        "demo.run = lambda *_: os.kill(os.getpid(), signal.SIGINT) or signal.pause()\n"
        "sys.argv[1:] = ['demo']\n"
        "from permitflow.cli import main; main()\n"
    )
    code, stdout, stderr = process(program=program)
    assert (code, stdout, stderr) == (130, "", "")
