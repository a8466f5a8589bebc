"""``permitflow check gate``: what is proved, what is run into, and what is no gate."""

from itertools import product

import pytest

from permitflow_model.input_gate_credit import Parameters
from permitflow_model.kernel.explore import explore
from permitflow_tools.checking.gate import Rules, check_gate
from tests.permitflow_tools.cli.conftest import Command, Report

GATE = ("check", "gate", "--inputs", "2", "--exclusive", "0", "--floating", "1")


def test_it_is_live_by_a_theorem(command: Command) -> None:
    code, text, _ = command(*GATE)
    assert code == 0
    assert "proved: an input that is blocked holds no floating buffer" in text
    assert "theorem gate-live-floating" in text


@pytest.mark.parametrize(
    ("without", "verdict", "steps"),
    [
        (["--no-release"], "deadlock", 13),
        (["--no-announce"], "deadlock", 1),
        (["--no-stop", "--no-release"], "deadlock", 15),
        (["--no-stop"], "buffers out of nothing", 10),
    ],
)
def test_without_one_of_the_three_it_shows_a_run(report: Report, without: list[str], verdict: str, steps: int) -> None:
    code, document = report(*GATE, *without)
    assert (code, document["verdict"], document["holds"]) == (1, verdict, False)
    assert len(document["run"]) == 1 + steps


def test_a_deadlock_is_told_input_by_input_with_a_way_out(command: Command) -> None:
    code, text, _ = command(*GATE, "--no-release")
    words = " ".join(text.split())
    assert code == 1
    assert "blocked by input 0" in words
    assert "credit 1 at the sender" in words
    assert words.endswith("to be live, choose --exclusive 1, or leave --no-release away")


def test_a_larger_pool_may_have_a_shorter_run(command: Command, report: Report) -> None:
    for floating, is_shortest in (("1", True), ("2", False)):
        gate = (*GATE[:-1], floating, "--no-release")
        assert report(*gate)[1]["is_shortest"] is is_shortest
        assert ("a shorter one may exist" in command(*gate)[1]) is not is_shortest


# All that a gate does, and each left out; two together take longer.
@pytest.mark.parametrize(
    ("stop", "release", "announce"),
    [
        pytest.param(*does, marks=pytest.mark.long if does.count(False) > 1 else ())
        for does in product((True, False), repeat=3)
    ],
)
def test_the_explorer_says_the_same(stop: bool, release: bool, announce: bool) -> None:
    rules = Rules(stop, release, announce)
    names = ("Conservation", "NeverStuck")
    for inputs, exclusive in ((1, 0), (2, 0), (2, 1)):
        parameters = Parameters(inputs=inputs, exclusive=exclusive, floating=1, backlog=1 if exclusive else 2)
        system = rules.system
        graph = explore(
            system, parameters, invariants={name: system.invariants[name] for name in names}, stop_at_violation=True
        )
        finding = check_gate(inputs=inputs, exclusive=exclusive, floating=1, **rules._asdict())
        assert (finding.verdict == "live") == (not graph.violations), parameters
