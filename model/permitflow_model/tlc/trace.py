"""TLC as a referee over recorded runs: are these steps, one after the other, steps of the specification's own text?

A generated module holds the run as a constant.  Its behaviours take the next recorded step if the specification allows
it with what was recorded of it, and stop where it does not.  TLC walks this one behaviour; how far it comes is the
verdict.  No invariants are checked on the way: what every behaviour of the specification keeps to, TLC and the proofs
have shown elsewhere.

What a recorded step is, ``spec/PermitChannelTrace.tla`` says of the permit channel; without such a module a step is the
action of that name with these arguments, and its counters are not looked at.

A long run is walked in segments.  Each starts in the state in which the one before it had to end: TLC itself has
shown that it is this one, so nothing is taken on trust.
"""

import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from permitflow_model.kernel.system import System
from permitflow_model.manifest import SUCCESS, find_spec_directory
from permitflow_model.tla_values import TlaValue, camel_case, config_text, format_value, to_tla
from permitflow_model.tlc.output import TlcError
from permitflow_model.tlc.run import run_tlc

__all__ = ["SEGMENT_STEPS", "Told", "Walk", "walk_trace"]

SEGMENT_STEPS = 100_000
"""TLC takes about a quarter of a minute for so many; the module is some 5 MB."""

MOST_NUMBER = 2**31 - 1
"""TLC's numbers have 32 bits."""

_MODULE = "Recorded"
# A list of a hundred thousand items would nest the parser too deeply.
_PART = 500


class Told(NamedTuple):
    """One step as it was recorded."""

    action: str
    arguments: tuple[int, ...] = ()
    """Fewer than it has: the step explains an event together with others, and the rest was not told."""

    counters: tuple[int, ...] = ()
    """What the end counted afterwards; empty: nothing was told."""


@dataclass(frozen=True)
class Walk:
    """How far TLC came."""

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
    steps: Sequence[Told],
    parameters: Any,
    *,
    start: Any = None,
    end: Any = None,
    impossible: Sequence[Told] = (),
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
        specification = shutil.copy((spec_directory or find_spec_directory()) / f"{system.module}.tla", folder)
        extended = f"{system.module}Trace"
        (folder / f"{extended}.tla").write_text(_trace_module(system, extended), encoding="utf-8")
        (folder / f"{_MODULE}.tla").write_text(module_text(extended, steps, impossible, start, end), encoding="utf-8")
        config = _config(parameters, Path(specification).read_text(encoding="utf-8"))
        found = run_tlc(_MODULE, config, spec_directory=folder, timeout_seconds=timeout_seconds)
    if found.verdict != SUCCESS:
        raise TlcError(f"TLC stopped in the recorded run: {found.verdict}")
    # One state for each position: it starts at 0, and is beyond the last step only by way of an impossible event.
    return Walk(len(steps), min(found.states - 1, len(steps)), found.states - 1 > len(steps), found.seconds)


def _trace_module(system: System[Any, Any], name: str) -> str:
    """What a recorded step is: the module that says so or, if there is none, each action with its arguments."""
    path = find_spec_directory() / f"{name}.tla"
    if path.exists():
        return path.read_text(encoding="utf-8")
    cases = (
        f'step[1] = "{action.name}" -> {action.name}' + _call(action.perform.__code__.co_argcount - 2)
        for action in system.actions
    )
    return _PLAIN.format(module=name, specification=system.module, cases="\n      [] ".join(cases))


def _call(count: int) -> str:
    return f"({', '.join(f'step[2][{number}]' for number in range(1, count + 1))})" if count else ""


def module_text(
    extended: str, steps: Sequence[Told], impossible: Sequence[Told], start: Any = None, end: Any = None
) -> str:
    """The generated module; it extends one that says what a recorded step is.

    Raises:
        ValueError: a number is too large for TLC.
    """
    parts = [steps[start : start + _PART] for start in range(0, len(steps), _PART)]
    definitions = [f"Part{number} == <<\n{_listed(part)}>>" for number, part in enumerate(parts)]
    names = ", ".join(f"Part{number}" for number in range(len(parts)))
    return _TEXT.format(
        module=_MODULE,
        extended=extended,
        parts="\n".join(definitions),
        names=names,
        part=_PART,
        count=len(steps),
        impossible=_listed(impossible),
        start="Init" if start is None else _equations(start),
        end="TRUE" if end is None else _equations(end, "'"),
    )


def _equations(state: Any, prime: str = "") -> str:
    """That the variables have the values that they have in a state."""
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
        # Collections and numbers beyond TLC's bound what is explored, and a recorded run is not.
        constants[camel_case(f"_{name}")] = _bound(value)
    if re.search(r"^ +Fair\b", specification, re.MULTILINE):
        constants["Fair"] = frozenset()
    return config_text(constants, specification="SpecRecorded")


def _bound(value: object) -> TlaValue:
    if isinstance(value, bool):
        return value
    return min(value, MOST_NUMBER) if isinstance(value, int) else frozenset()


def _listed(told: Sequence[Told]) -> str:
    return ",\n".join(f'<<"{step.action}", {", ".join(_values(step))}>>' for step in told)


def _values(step: Told) -> Iterator[str]:
    for numbers in (step.arguments, step.counters):
        if any(abs(number) > MOST_NUMBER for number in numbers):
            raise ValueError(f"{max(numbers, key=abs)} is too large for TLC, whose numbers have 32 bits")
        yield f"<<{', '.join(map(str, numbers))}>>"


_PLAIN = r"""---- MODULE {module} ----
EXTENDS {specification}

traceVars == vars

InitTrace == TRUE

Taken(step) ==
    CASE {cases}

Possible(step) == ENABLED Taken(step)
====
"""

_TEXT = r"""---- MODULE {module} ----
EXTENDS {extended}

VARIABLE position   \* steps of the recording that were taken

{parts}

Parts == <<{names}>>

Step(number) == Parts[((number - 1) \div {part}) + 1][((number - 1) % {part}) + 1]

Impossible == {{{impossible}}}

InitRecorded ==
    /\ {start}
    /\ InitTrace
    /\ position = 0

Ends ==
    /\ {end}

recordedVars == <<traceVars, position>>

NextRecorded ==
    \/ /\ position < {count} /\ Taken(Step(position + 1)) /\ position' = position + 1
       /\ position' = {count} => Ends
    \/ /\ position = {count} /\ \E step \in Impossible : Possible(step)
       /\ position' = position + 1 /\ UNCHANGED traceVars
    \/ UNCHANGED recordedVars

SpecRecorded == InitRecorded /\ [][NextRecorded]_recordedVars
====
"""
