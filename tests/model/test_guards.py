"""A refusal names the false guard, as the model's text has it, and the values in it."""

import subprocess
import sys
from pathlib import Path

import pytest

from permitflow_model import demand, input_gate, input_gate_credit
from permitflow_model.kernel.guards import false_guard
from permitflow_model.kernel.system import Disabled, System, require

DEMAND = demand.SYSTEM, demand.Parameters(size=2, batch=1, initial=0)
GATE = input_gate.SYSTEM, input_gate_credit.Parameters(inputs=1, exclusive=0, floating=2, backlog=2)

PROGRAM = """
from permitflow_model.kernel.guards import false_guard
from permitflow_model.kernel.system import Disabled, require

count = 1
try:
    require(count > 1)
except Disabled as refusal:
    print(false_guard(refusal))
"""


@pytest.mark.parametrize(
    ("model", "action", "arguments", "guard"),
    [
        (DEMAND, "Request", (3,), "count <= state.requests is false (count = 3, state.requests = 0)"),
        (DEMAND, "Send", (), "not state.waiting.is_empty() is false (state.waiting.is_empty() = True)"),
        (
            GATE,
            "ConsumeEnd",
            (0,),
            "channel.closed and (not channel.over) is false (channel.closed = False, channel.over = False)",
        ),
    ],
)
def test_a_false_guard_is_told_with_its_values(
    model: tuple[System[object, object], object], action: str, arguments: tuple[int, ...], guard: str
) -> None:
    system, parameters = model
    with pytest.raises(Disabled) as refused:
        system.perform(action, system.initial(parameters), parameters, *arguments)
    assert false_guard(refused.value) == guard


def test_of_two_guards_on_a_line_the_false_one_is_told() -> None:
    def step(count: int) -> None:
        require(count > 0); require(count > 1)  # fmt: skip  # noqa: E702

    with pytest.raises(Disabled) as refused:
        step(1)
    assert false_guard(refused.value) == "count > 1 is false (count = 1)"


def test_a_false_guard_is_told_by_a_python_that_keeps_no_columns(tmp_path: Path) -> None:
    (program := tmp_path / "program.py").write_text(PROGRAM)
    told = subprocess.run(
        [sys.executable, "-X", "no_debug_ranges", program], capture_output=True, text=True, check=True
    )
    assert told.stdout == "count > 1 is false (count = 1)\n"


def test_without_the_models_text_nothing_is_told() -> None:
    assert false_guard(Disabled()) == ""
