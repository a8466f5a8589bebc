"""Lets TLC judge recorded runs: are these steps, one after the other, steps of the specification's own text?

A generated module, ``RecordedRun``, holds the run; ``spec/RecordedTrace.tla`` says how it is walked: the next recorded
step is taken if the specification allows it with the recorded values.  The verdict is the number of steps that TLC
takes.  No invariants are checked: TLC and the proofs have shown them for every behaviour elsewhere.

A module of its own may define the recorded steps of a protocol; without one a step is the action of that name with
these arguments, and its counters are not compared.

A long run is walked in segments.  Each starts in the state in which the one before it had to end, as TLC itself has
checked.
"""

import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

from permitflow_model.kernel.system import Action, System
from permitflow_model.manifest import SUCCESS, module_paths, whole_text
from permitflow_model.registry import system_of
from permitflow_model.tla_values import TlaValue, camel_case, config_text, format_value, to_tla
from permitflow_model.tlc.output import TlcError
from permitflow_model.tlc.run import run_tlc

SEGMENT_STEPS = 100_000
"""TLC takes about a quarter of a minute for this many; the module is some 5 MB."""

MOST_NUMBER = 2**31 - 1
"""TLC's numbers have 32 bits."""

_WALK = "RecordedTrace"
_RUN = "RecordedRun"
# A list of a hundred thousand items would nest the parser too deeply.
_PART = 500


class TraceStep(NamedTuple):
    """One step as it was recorded."""

    action: str
    arguments: tuple[int, ...] = ()
    """Fewer than it has: the step explains an event together with others, and the rest was not recorded."""

    counters: tuple[int, ...] = ()
    """The end's counters afterwards; empty: not recorded."""


@dataclass(frozen=True)
class Walk:
    """TLC's progress."""

    steps: int
    """Steps that were given."""

    reached: int
    """Steps that the specification allows, from the first one on without a gap."""

    goes_on: bool
    """Is one of the events possible that were given as impossible after the last step?"""

    seconds: float

    def followed_by(self, walk: "Walk") -> "Walk":
        """Both together; this one was walked to its end."""
        return Walk(
            steps=self.steps + walk.steps,
            reached=self.reached + walk.reached,
            goes_on=walk.goes_on,
            seconds=self.seconds + walk.seconds,
        )


def walk_trace(
    system: System[Any, Any],
    steps: Sequence[TraceStep],
    parameters: Any,
    *,
    start: Any = None,
    end: Any = None,
    impossible: Sequence[TraceStep] = (),
    spec_directory: Path | None = None,
    timeout_seconds: float = 300,
) -> Walk:
    """Let TLC walk a recorded run, or a segment of it.

    Args:
        system: whose module is the specification.
        steps: in the order of one behaviour.
        parameters: of the channel, with everything switched on that the run does, and bounds that it keeps to.
        start: the state before the first step; None: the initial one.
        end: the state to which the last step must lead; None: any.
        impossible: events that are said to be impossible after the last step.
        spec_directory: where the specification is; found by itself by default.
        timeout_seconds: give up after so long.

    Raises:
        ValueError: a number is too large for TLC.
        TlcNotFoundError: Java or the jar is missing.
        TlcError: TLC came to no verdict.
    """
    with tempfile.TemporaryDirectory(prefix="permitflow-trace-") as name:
        folder = Path(name)
        paths = module_paths() | (module_paths(spec_directory) if spec_directory else {})
        for path in paths.values():
            shutil.copy(path, folder)
        text = module_text(system, steps, impossible, start, end)
        (folder / f"{_RUN}.tla").write_text(text, encoding="utf-8")
        config = _config(parameters, whole_text(system.module, paths))
        found = run_tlc(_WALK, config, spec_directory=folder, timeout_seconds=timeout_seconds)
    if found.verdict != SUCCESS:
        raise TlcError(f"TLC stopped in the recorded run: {found.verdict}")
    # One state for each position: it starts at 0, and is beyond the last step only by way of an impossible event.
    return Walk(len(steps), min(found.states - 1, len(steps)), found.states - 1 > len(steps), found.seconds)


def module_text(
    system: System[Any, Any],
    steps: Sequence[TraceStep],
    impossible: Sequence[TraceStep],
    start: Any = None,
    end: Any = None,
) -> str:
    """The generated module: the run, and the definitions that ``RecordedTrace.tla`` needs.

    Raises:
        ValueError: a number is too large for TLC.
    """
    parts = [steps[first : first + _PART] for first in range(0, len(steps), _PART)]
    return "\n\n".join(
        [
            f"---- MODULE {_RUN} ----",
            *_what_steps_are(system),
            *(f"Part{number} == <<\n{_listed(part)}>>" for number, part in enumerate(parts)),
            f"Parts == <<{', '.join(f'Part{number}' for number in range(len(parts)))}>>",
            f"PartSize == {_PART}",
            f"Count == {len(steps)}",
            f"Impossible == {{{_listed(impossible)}}}",
            "Start ==\n    " + ("Init" if start is None else _equations(start)),
            "Ends ==\n    " + ("TRUE" if end is None else _equations(end, "'")),
            "====\n",
        ]
    )


def _what_steps_are(system: System[Any, Any]) -> Iterator[str]:
    """From the protocol's own module or, if it has none, each action by its name with its arguments."""
    if module := _steps_module(system):
        yield f"EXTENDS {module}"
        return
    yield f"EXTENDS {system.module}"
    yield "traceVars == vars\n\nInitTrace == TRUE"
    yield "Taken(step) ==\n    CASE " + "\n      [] ".join(_case(action) for action in system.actions)
    yield "Possible(step) == ENABLED Taken(step)"


def _steps_module(system: System[Any, Any]) -> str:
    registered = system_of(system.module)
    return registered.steps if registered else ""


def _case(action: Action[Any, Any]) -> str:
    arguments = ", ".join(f"step[2][{number}]" for number in range(1, len(signature(action.perform).parameters) - 1))
    return f'step[1] = "{action.name}" -> {action.name}' + (f"({arguments})" if arguments else "")


def _equations(state: Any, prime: str = "") -> str:
    """Say that the variables have the values that they have in a state."""
    values = ((camel_case(name), getattr(state, name)) for name in state._fields)
    return "\n       ".join(f"/\\ {name}{prime} = {_value(value)}" for name, value in values)


def _value(value: object) -> str:
    if isinstance(value, tuple | str) or not isinstance(value, Iterable):
        return format_value(to_tla(value))
    items = [format_value(to_tla(item)) for item in value]
    parts = [f"<<{', '.join(items[start : start + _PART])}>>" for start in range(0, len(items), _PART)]
    return " \\o ".join(parts) or "<<>>"


def _config(parameters: Any, specification: str) -> str:
    constants: dict[str, TlaValue] = {}
    for name, value in asdict(parameters).items():
        # Only exploration needs collections and numbers beyond TLC's range; a recorded run is not explored.
        constants[camel_case(f"_{name}")] = _bound(value)
    if re.search(r"^ +Fair\b", specification, re.MULTILINE):
        constants["Fair"] = frozenset()
    return config_text(constants, specification="SpecRecorded")


def _bound(value: object) -> TlaValue:
    if isinstance(value, bool):
        return value
    return min(value, MOST_NUMBER) if isinstance(value, int) else frozenset()


def _listed(told: Sequence[TraceStep]) -> str:
    return ",\n".join(f'<<"{step.action}", {", ".join(_values(step))}>>' for step in told)


def _values(step: TraceStep) -> Iterator[str]:
    for numbers in (step.arguments, step.counters):
        if any(abs(number) > MOST_NUMBER for number in numbers):
            raise ValueError(f"{max(numbers, key=abs)} is too large for TLC, whose numbers have 32 bits")
        yield f"<<{', '.join(map(str, numbers))}>>"
