"""``permitflow demo``: what it makes of its options, of the report and of failures."""

from collections.abc import Callable
from pathlib import Path

import pytest

import permitflow.demo
from permitflow.demo import DemoReport, DemoSettings
from permitflow.demo.query12 import ShippingMode
from permitflow.demo.report import Evidence, Hop, StreamNumbers, TraceVerdict
from permitflow.errors import DemoError

Command = Callable[..., tuple[int, str, str]]

ANSWER = (ShippingMode("MAIL", 3, 4), ShippingMode("SHIP", 1, 2))


def report_of(*, peak_rows: int) -> DemoReport:
    """A report of a demo in which everything else is right."""
    stream = StreamNumbers(stream="q12/0", rows=10, chunks=2, peak_rows=peak_rows, bound=8, back_pressure_rate=0.25)
    return DemoReport(
        scale=0.1,
        row_permits=8,
        evidence=(Evidence(name="permitflow prove", holds=True, count=3),),
        answer=ANSWER,
        direct_answer=ANSWER,
        hops=(Hop(name="Spark to the exchange", streams=(stream,)),),
        trace=TraceVerdict(streams=1, events=50, is_complete=True, is_at_rest=True, refused=()),
        seconds={},
        total_seconds=1.0,
    )


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Callable[[DemoReport | Exception], list[DemoSettings]]:
    """Let the demo come to this end, and see with which settings it was run."""

    def end(with_: DemoReport | Exception) -> list[DemoSettings]:
        seen: list[DemoSettings] = []

        def run(settings: DemoSettings, _progress: object) -> DemoReport:
            seen.append(settings)
            if isinstance(with_, Exception):
                raise with_
            return with_

        monkeypatch.setattr(permitflow.demo, "run", run)
        return seen

    return end


def test_a_good_report_is_shown_and_succeeds(
    command: Command, asked: Callable[[DemoReport], list[DemoSettings]], tmp_path: Path
) -> None:
    seen = asked(report_of(peak_rows=8))
    code, stdout, _ = command("demo", "--scale", "0.5", "--keep", str(tmp_path))
    assert code == 0
    assert "Everything is as it should be" in stdout
    assert (seen[0].scale, seen[0].keep) == (0.5, tmp_path)


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_report_with_a_problem_fails(
    command: Command, asked: Callable[[DemoReport], list[DemoSettings]], options: tuple[str, ...]
) -> None:
    asked(report_of(peak_rows=9))
    code, stdout, _ = command("demo", *options)
    assert code == 1
    assert "Spark to the exchange: more rows in flight than permits" in stdout


def test_a_demo_that_cannot_run_says_why(command: Command, asked: Callable[[Exception], list[DemoSettings]]) -> None:
    asked(DemoError("tpchgen-cli is not installed"))
    code, _, stderr = command("demo")
    assert code == 1
    assert stderr == "Error: tpchgen-cli is not installed\n"


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


@pytest.mark.parametrize(
    ("scale", "complaint"),
    [
        ("0", "--scale' must be above 0 and at most 100: 0.0"),
        ("-1", "--scale' must be above 0 and at most 100: -1.0"),
        ("1000", "--scale' must be above 0 and at most 100: 1000.0"),
        ("nan", "--scale' must be above 0 and at most 100: nan"),
        ("small", "'--scale': must be a number, not 'small'"),
    ],
)
def test_an_unusable_scale_is_named(command: Command, scale: str, complaint: str) -> None:
    code, stdout, stderr = command("demo", "--scale", scale)
    assert (code, stdout) == (2, "")
    assert complaint in stderr
