"""Runs to make pictures of, and the guards of a model's actions."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
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


def guards_of(perform: Callable[..., Any]) -> Iterator[str]:
    """All guards of an action, as the model writes them; also those of functions of its module that it calls."""
    called = (perform.__globals__.get(name) for name in perform.__code__.co_names)
    helpers = (each for each in called if inspect.isfunction(each) and each.__module__ == perform.__module__)
    functions: list[Callable[..., Any]] = [perform, *helpers]
    for function in functions:
        for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "require":
                yield ast.unparse(node.args[0])
