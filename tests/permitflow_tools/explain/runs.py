"""Runs to make pictures of."""

from collections.abc import Sequence
from typing import Any

from permitflow_model.kernel.explore import explore
from permitflow_model.kernel.system import Step
from permitflow_model.permit_channel import SYSTEM, Parameters
from permitflow_tools.explain.look import Look
from permitflow_tools.explain.looks.permit_channel.look import LOOK
from permitflow_tools.explain.looks.permit_channel.runs import stuck_run
from permitflow_tools.explain.run import ExplainedRun, RunOutcome


def walked(look: Look, parameters: Any, choices: Sequence[int], *, cut: int = 0) -> ExplainedRun:
    """A run of the model: each number chooses one of the possible steps; the first ``cut`` steps are left out."""
    states, steps = [look.system.initial(parameters)], []
    for choice in choices:
        if possible := list(look.system.successors(states[-1], parameters)):
            steps.append(possible[choice % len(possible)])
            states.append(steps[-1].state)
    cut = min(cut, len(steps))
    return run_of(parameters, steps[cut:], look=look, start=states[cut])


def run_of(parameters: Any, steps: Sequence[Step[Any]], *, look: Look = LOOK, start: Any = None) -> ExplainedRun:
    return ExplainedRun(
        look=look,
        title="a run",
        verdict=RunOutcome.LIVE,
        sentence="It runs.",
        parameters=parameters,
        start=start or look.system.initial(parameters),
        steps=steps,
    )


def shortest_stuck(parameters: Parameters, *, advice: Sequence[str] = ()) -> ExplainedRun:
    """A shortest run into a stuck state, by search."""
    never = {"NeverStuck": SYSTEM.invariants["NeverStuck"]}
    (violation,) = explore(SYSTEM, parameters, invariants=never, stop_at_violation=True).violations
    return stuck_run(parameters, SYSTEM.initial(parameters), violation.steps, advice=advice)


def states_of(run: ExplainedRun) -> list[Any]:
    return [run.start, *(step.state for step in run.steps)]
