"""A model of one's own on the command line: found by name, as ``module:SYSTEM``."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeAlias

import typer

from permitflow_tools.cli.outcomes import print_json, stop, unusable

if TYPE_CHECKING:
    from permitflow_tools.explain.run import ExplainedRun
    from permitflow_tools.explain.state_graph import StateGraph

OwnParameters: TypeAlias = Annotated[
    str | None, typer.Option(metavar="NAME", help="Of a model of your own: its parameters, in the same module.")
]

_PLACE = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w.]*")


def is_place(path: Path) -> bool:
    """Is it the name of a system rather than of a file?"""
    return _PLACE.fullmatch(str(path)) is not None and not path.exists()


def own_run(
    place: str, parameters: str | None, *, with_graph: bool, most_states: int
) -> "tuple[ExplainedRun | StateGraph, str]":
    """Explore the system at ``place``; the run, or the graph, for a page, and what was found as a table.

    What the model prints goes to standard error: standard output is the answer's.

    Ends the command if there is no such system, or its text cannot be right.
    """
    with redirect_stdout(sys.stderr):
        return _explored(place, parameters, with_graph=with_graph, most_states=most_states)


def _explored(
    place: str, parameters: str | None, *, with_graph: bool, most_states: int
) -> "tuple[ExplainedRun | StateGraph, str]":
    from permitflow_model.kernel.explore import MemoryLimitReached, StateLimitReached
    from permitflow_model.kernel.system import ModelError, System
    from permitflow_tools.explain.own import explain_states, explain_system

    system = _loaded(place)
    if not isinstance(system, System):
        unusable(f"{place} must be a permitflow_model.kernel.system.System, not {system!r}")
    module = place.partition(":")[0]
    given = None if parameters is None else _loaded(parameters if ":" in parameters else f"{module}:{parameters}")
    if isinstance(given, type):
        unusable(f"--parameters {parameters} is a class: make a value of it in {module}, and name that")
    try:
        shown: ExplainedRun | StateGraph
        if with_graph:
            shown, found = explain_states(system, given)
        else:
            shown, found = explain_system(system, given, max_states=most_states)
    except MemoryLimitReached as error:
        unusable(f"{place}: {error}")
    except StateLimitReached as error:
        option = "--graph" if with_graph else "--max-states"
        told = f", in which {error.most_varied}" if error.most_varied else ""
        advice = "choose smaller parameters, and bound what only grows"
        unusable(f"{option}: more than {error.limit:,} states can be reached{told}; {advice}")
    except ModelError as error:
        is_missing = given is None and "'NoneType'" in str(error)
        advice = "; name the parameters with --parameters" if is_missing else ""
        unusable(f"{place}: {error}{advice}")
    return shown, "" if found is None else f"{found}\n"


def answer_for_own(place: str, parameters: str | None, most_states: int, *, as_json: bool) -> NoReturn:
    """Explore the system at ``place``, print what is wrong with it, step by step, and end the command."""
    from permitflow_tools.explain.run import ExplainedRun, RunOutcome

    run, found = own_run(place, parameters, with_graph=False, most_states=most_states)
    assert isinstance(run, ExplainedRun), "no graph was asked for"
    end = run.steps[-1].state if run.steps else run.start
    refusals = run.look.refusals(end, run.parameters) if run.verdict is RunOutcome.STUCK else []
    why = {refusal.action: refusal.sentence for refusal in refusals}
    if as_json:
        steps = [[step.action, *map(str, step.arguments)] for step in run.steps] if found else []
        answer = {"model": place, "verdict": run.verdict.value, "sentence": run.sentence, "steps": steps}
        print_json({**answer, "impossible": why} if why else answer)
    else:
        typer.echo(f"{found}\n{run.verdict.value}: {run.sentence}" if found else f"{run.verdict.value}: {run.sentence}")
        for action, sentence in why.items():
            typer.echo(f"- {action}: {sentence}")
    stop(holds=run.verdict is RunOutcome.LIVE)


def _loaded(place: str) -> Any:
    name, _, attribute = place.partition(":")
    if name.endswith(".py"):
        unusable(f"{place} must name a module, not its file: write {name.removesuffix('.py')}:{attribute}")
    found: Any = imported(name, place)
    for part in attribute.split("."):
        known = dir(found)
        if part not in known:
            near = get_close_matches(part, known, n=3)
            unusable(f"{place}: {name} has no {part}" + (f"; did you mean {' or '.join(near)}?" if near else ""))
        with _told(place):
            found = getattr(found, part)
    return found


def imported(module: str, place: str) -> ModuleType:
    """A module of this folder, or an installed one; ends the command, naming ``place``, if it cannot be imported."""
    sys.path.insert(0, "")  # as python -m does: modules of this folder are found
    with _told(place):
        found = import_module(module)
    here = Path(f"{module}.py")
    file = getattr(found, "__file__", None)
    if here.is_file() and (file is None or not here.samefile(file)):
        unusable(f"{place}: {module} is {file or 'built into Python'}, not {here} of this folder: rename yours")
    return found


def read_modules() -> Iterator[Path]:
    """The files of all modules: those that a model is made of, and others."""
    for module in list(sys.modules.values()):
        if file := getattr(module, "__file__", None):
            yield Path(file)


@contextmanager
def _told(place: str) -> Iterator[None]:
    try:
        yield
    except (Exception, SystemExit) as error:
        unusable(f"{place} cannot be imported: {type(error).__name__}: {error}")
