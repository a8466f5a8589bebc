"""A model of one's own in pictures: its runs are pages too, with the model's Python text beside each step."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from inspect import getsourcefile, getsourcelines, unwrap
from pathlib import Path
from typing import Any, ClassVar

from permitflow.errors import counted
from permitflow_model.kernel.explore import DEADLOCK, Graph, Violation, explore, truth_of
from permitflow_model.kernel.liveness import Lasso, counterexample
from permitflow_model.kernel.system import Action, Step, System, shown
from permitflow_tools.explain.look import Fact, Look
from permitflow_tools.explain.run import ExplainedRun, RunOutcome, Section
from permitflow_tools.explain.run_page import page_of
from permitflow_tools.explain.specification import FalseGuard, Passage
from permitflow_tools.explain.state_graph import MOST_STATES, StateGraph, reachable

__all__ = ["own_page"]


class _ModelText:
    """The functions of a model, as text."""

    def __init__(self, system: System[Any, Any]) -> None:
        self._passages = {action.name: _passage(action) for action in system.actions}
        self.file = next((each.file for each in self._passages.values() if each.line), system.module)

    def operators(self) -> dict[str, Passage]:
        """What each action performs, by the action's name."""
        return self._passages

    def remarks(self) -> Mapping[str, str]:
        """Nothing: a model says what its variables are where it declares them."""
        return {}


def _passage(action: Action[Any, Any]) -> Passage:
    try:
        perform = unwrap(action.perform)
        lines, first = getsourcelines(perform)
        file = Path(getsourcefile(perform) or "").name
    except (OSError, TypeError):  # made by a program, or typed by hand
        return Passage(action.name, "the model", 0, "(its text is in no file)", 1)
    return Passage(action.name, file, first, "".join(lines).rstrip(), first)


class OwnLook(Look):
    """The look of a system that this repository does not have."""

    text_of: ClassVar[str] = "in the model"
    footnote: ClassVar[str] = "The table shows the variables of the model; what a step has changed is marked."
    never_stuck: ClassVar[str] = "none is stuck"

    @property
    def specification(self) -> Any:
        """The text of the model."""
        return _ModelText(self.system)

    def false_guard(self, action: str, state: Any, parameters: Any, *arguments: int) -> FalseGuard | None:
        """The first guard of an action that is false; only that it refuses, if the text of the guard is not there."""
        try:
            return super().false_guard(action, state, parameters, *arguments)
        except (OSError, SyntaxError, LookupError, StopIteration, NameError, TypeError):
            return FalseGuard(action, "", "it refuses")

    def value(self, value: Any) -> str:
        """As it is shown in all systems; a class of the user's own may fail at it."""
        return shown(value, super().value, most=_MOST_CHARACTERS)

    def in_brief(self, state: Any) -> str:
        """Its beginning: Graphviz takes no long texts."""
        return shown(state, super().in_brief)

    def parts(self, state: Any) -> tuple[Any, ...]:
        """The values of the variables."""
        return tuple(state) if hasattr(state, "_fields") else (state,)

    def variables(self, state: Any) -> dict[str, str]:
        """Each variable by its name in the model."""
        names = getattr(state, "_fields", ("state",))
        return {name: self.value(value) for name, value in zip(names, self.parts(state), strict=True)}

    def row(self, state: Any) -> dict[str, str]:
        """A row of a table."""
        return self.variables(state)

    def facts(self, parameters: Any, *, is_recorded: bool = False, has_every_size: bool = False) -> list[Fact]:
        """The parameters by their names; those without names, as they are printed."""
        return [Fact(name, self.value(value), "") for name, value in _named(parameters).items()]

    def in_numbers(self, parameters: Any) -> str:
        """The model with its parameters."""
        told = ", ".join(f"{fact.name} {fact.value}" for fact in self.facts(parameters))
        return f"{self.system.module} with {told}" if told else self.system.module

    def is_stuck(self, state: Any, parameters: Any, system: System[Any, Any] | None = None) -> bool:
        """As ``explore`` has it."""
        steps = list(self.system.successors(state, parameters))
        if self.system.at_rest is None:
            return not steps
        own = (step for step in steps if not self.system.action(step.action).is_environment)
        return all(step.state == state for step in own) and not self.system.at_rest(state, parameters)


def _named(parameters: Any) -> dict[str, Any]:
    if parameters is None:
        return {}
    if is_dataclass(parameters):
        return {field.name: getattr(parameters, field.name) for field in fields(parameters)}
    if hasattr(parameters, "_asdict"):
        return dict(parameters._asdict())
    return dict(parameters) if isinstance(parameters, Mapping) else {"parameters": parameters}


Found = Violation[Any] | Lasso[Any]

_MOST_CHARACTERS = 5_000
"""Of a value on a page."""


def explain_system(
    system: System[Any, Any], parameters: Any, *, max_states: int = 2_000_000
) -> tuple[ExplainedRun, Found | None]:
    """Explore a model; the run that shows what is wrong, or one into a state farthest from the beginning.

    A broken invariant or a deadlock comes first, whichever is nearer to the beginning; then a promise that does not
    hold.

    Raises:
        StateLimitReached: there are more than ``max_states`` states, and nothing is wrong in these.
        ModelError: the text of the model cannot be right.
    """
    graph = explore(system, parameters, max_states=max_states, stop_at_violation=True)
    found: Found | None = graph.violations[0] if graph.violations else graph.deadlock
    if found is None:
        promises = (
            counterexample(system, parameters, graph, promise, name=name) for name, promise in system.leads_to.items()
        )
        found = next((lasso for lasso in promises if lasso is not None), None)
    return (_live_run(system, parameters, graph) if found is None else _run_of(system, parameters, found)), found


def _run_of(system: System[Any, Any], parameters: Any, found: Found) -> ExplainedRun:
    """The run that ``explore`` or ``check_liveness`` has found, to be shown."""
    steps: tuple[Step[Any], ...] = found.steps
    after = f"After {counted(len(steps), 'step')}"
    conclusions: tuple[Section, ...] = ()
    if isinstance(found, Lasso):
        verdict, what = RunOutcome.VIOLATED, f"{found.promise} does not hold"
        sentence = f"{after} the run stands still for ever: steps are possible, but no fairness condition requires one."
        if found.loop:
            begin, end = len(steps) + 1, len(steps) + len(found.loop)
            sentence = f"{after} the run goes round for ever, and each fair action happens or is impossible on the way."
            calls = ", ".join(step.call for step in found.loop)
            conclusions = (Section("And so for ever", (f"After step {end} comes step {begin} again: {calls}",)),)
        steps = (*steps, *found.loop)
    elif found.invariant == DEADLOCK:
        verdict, what = RunOutcome.STUCK, "it can get stuck"
        end = steps[-1].state if steps else found.start
        ways_out = {step.action for step in system.successors(end, parameters)}
        waits = (
            "nothing but the application" if any(system.action(each).is_environment for each in ways_out) else "nothing"
        )
        sentence = f"{after} {waits} can move."
    else:
        verdict, what = RunOutcome.VIOLATED, f"{found.invariant} does not hold"
        sentence = f"{after} {found.invariant} does not hold."
    look = OwnLook(system)
    return ExplainedRun(
        look=look,
        title=f"{look.in_numbers(parameters)}: {what}",
        verdict=verdict,
        sentence=sentence,
        parameters=parameters,
        start=found.start,
        steps=steps,
        conclusions=conclusions,
    )


def _live_run(system: System[Any, Any], parameters: Any, graph: Graph[Any]) -> ExplainedRun:
    look = OwnLook(system)
    held = f", and {told}" if (told := _held(system)) else ""
    return ExplainedRun(
        look=look,
        title=f"{look.in_numbers(parameters)}: nothing is wrong",
        verdict=RunOutcome.LIVE,
        sentence=f"All {graph.state_count:,} states were visited: none is stuck{held}. "
        f"{_idle(system, parameters, graph)}".rstrip(),
        remarks=("This run leads to a state that is as far from the beginning as any.",),
        parameters=parameters,
        start=graph.states[0],
        steps=graph.path_to(graph.state_count - 1),
    )


def _held(system: System[Any, Any]) -> str:
    checked = [*system.invariants, *system.leads_to]
    return f"{', '.join(checked)} {'holds' if len(checked) == 1 else 'hold'}" if checked else ""


def explain_states(system: System[Any, Any], parameters: Any) -> tuple[StateGraph, Found | None]:
    """All states of a small model, with the verdict of ``explain_system``, and what that has found.

    Raises:
        StateLimitReached, ModelError: as ``explain_system``.
    """
    run, found = explain_system(system, parameters, max_states=MOST_STATES)
    remark = f"{held}." if (held := _held(system)) else ""
    if isinstance(found, Lasso):
        remark = f"{found.promise} does not hold."
    elif found is not None:
        remark = run.sentence if run.verdict is RunOutcome.VIOLATED else ""
    return replace(reachable(OwnLook(system), parameters), verdict=run.verdict.value, remark=remark), found


def _idle(system: System[Any, Any], parameters: Any, graph: Graph[Any]) -> str:
    """What was visited in vain: actions that are never possible, and promises that nothing begins."""
    taken = {graph.moves[move][0] for move in set(graph.taken)}
    never = [action.name for action in system.actions if action.name not in taken]
    empty = [
        name
        for name, promise in system.leads_to.items()
        if not any(truth_of(promise.premise, state, parameters, "the premise of", name) for state in graph.states)
    ]
    told = f"In none of them {', '.join(never)} {'is' if len(never) == 1 else 'are'} possible. " if never else ""
    return f"{told}In none of them the premise of {', '.join(empty)} holds. " if empty else told


def own_page(system: System[Any, Any], parameters: Any, found: Found | None = None) -> str:
    """A page to step through: of what was found, or of what ``explain_system`` finds.

    Args:
        system: the model.
        parameters: of the model.
        found: ``Graph.deadlock``, one of ``Graph.violations``, or a counterexample of ``check_liveness``.

    Raises:
        StateLimitReached, ModelError: as ``explain_system``.
    """
    run = explain_system(system, parameters)[0] if found is None else _run_of(system, parameters, found)
    return page_of(run)
