"""Runs for pictures, of any system: states, steps and remarks; and recorded runs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import takewhile
from typing import Any, Protocol

from permitflow.errors import counted
from permitflow.tracing.events import Event
from permitflow_model.kernel.replay import Replay, World
from permitflow_model.kernel.system import Step
from permitflow_tools.explain.look import Look

MOST_STEPS = 200_000
"""Steps that a page holds at most: about 10 MB, which a browser opens in a second."""


class RunOutcome(StrEnum):
    """The result that a run shows."""

    STUCK = "stuck"
    """It ends in a state in which a message waits for ever."""
    VIOLATED = "violated"
    """It ends in a state in which an invariant, or a statement that was made to be false, does not hold."""
    LIVE = "live"
    """It is one of many, and none of them gets stuck."""
    VALID = "valid"
    """It was recorded, and it is a behaviour of the specification."""
    INVALID = "invalid"
    """It was recorded, and no behaviour allows its next event."""


@dataclass(frozen=True)
class Section:
    """A remark about the last state."""

    heading: str
    items: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ExplainedRun:
    """A behaviour with remarks."""

    look: Look
    """The look of its system."""
    title: str
    verdict: RunOutcome
    sentence: str
    """The verdict in one sentence."""
    parameters: Any
    start: Any
    steps: Sequence[Step[Any]]
    skipped: int = 0
    """Steps before ``start`` that are not shown."""
    is_recorded: bool = False
    """Was it recorded?  Then no user chose the bounds in ``parameters``."""
    has_every_size: bool = False
    """May messages of every size be offered?  Then ``parameters`` name only some of them."""
    remarks: tuple[str, ...] = ()
    """About the run as a whole."""
    conclusions: tuple[Section, ...] = ()
    """About its last state."""

    @property
    def end(self) -> Any:
        """The last state."""
        return self.steps[-1].state if self.steps else self.start


def last_steps(run: ExplainedRun, most: int = MOST_STEPS) -> ExplainedRun:
    """The run, or its end if it is too long for a page."""
    surplus = len(run.steps) - most
    if surplus <= 0:
        return run
    remark = f"The first {surplus:,} steps are left out: a page holds at most {most:,}."
    return replace(
        run,
        start=run.steps[surplus - 1].state,
        steps=run.steps[surplus:],
        skipped=run.skipped + surplus,
        remarks=(remark, *run.remarks),
    )


class _Judged(Protocol):
    """The model's verdict about a recorded channel (``permitflow_testing.traces``), with the path of its replay."""

    @property
    def channel(self) -> str: ...
    @property
    def replay(self) -> Replay[World[Any], Event]: ...
    @property
    def is_valid(self) -> bool: ...
    @property
    def is_at_rest(self) -> bool: ...
    @property
    def allowed(self) -> tuple[str, ...]: ...
    @property
    def left_over(self) -> int: ...
    @property
    def logs(self) -> int: ...
    def remarks(self) -> Iterator[str]: ...


def recorded_run(judged: _Judged, look: Look, parameters: Any, start: Any) -> ExplainedRun:
    """The run from the model's first state as far as the model could follow, and its objections.

    Raises:
        ValueError: the replay did not keep the path.
    """
    path = judged.replay.worlds[0].path
    if path is None and judged.replay.performed:
        raise ValueError(f"the replay of channel {judged.channel!r} kept no path; replay with keep_path=True")
    steps = path.steps() if path else []
    # A page cannot show a step that is not an action of the specification.
    known = {action.name for action in look.system.actions}
    shown = list(takewhile(lambda step: step.action in known, steps))
    return ExplainedRun(
        look=look,
        title=f"Recorded run of channel {judged.channel}",
        verdict=RunOutcome.VALID if judged.is_valid else RunOutcome.INVALID,
        sentence=_sentence(judged, look),
        parameters=parameters,
        start=start,
        steps=shown,
        is_recorded=True,
        remarks=tuple(_remarks(judged, look.strange_steps if len(shown) < len(steps) else "")),
        conclusions=() if judged.is_valid else tuple(_conclusions(judged, look)),
    )


def _sentence(judged: _Judged, look: Look) -> str:
    replay = judged.replay
    if judged.is_valid:
        rest = look.at_rest if judged.is_at_rest else "not all is at rest"
        return f"{counted(replay.performed, 'recorded event')} are a behaviour of the specification; at the end {rest}."
    if replay.broken:
        return f"The run breaks {', '.join(replay.broken)} with {_what(look, replay.last)}."
    block = replay.blocked[0]
    problem = "is impossible" if block.is_refused else "has no cause"
    return f"After {counted(replay.performed, 'recorded event')}, {_what(look, block.event)} {problem}: {block.reason}."


def _remarks(judged: _Judged, strange_steps: str) -> Iterator[str]:
    if judged.logs > 1:
        yield (
            f"{judged.logs} processes recorded this channel. Clocks are not trusted: the steps stand in an order in "
            "which they can have happened, with each process\u2019s own order kept."
        )
    if strange_steps:
        yield strange_steps
    for remark in judged.remarks():
        yield f"{remark[0].upper()}{remark[1:]}."
    if judged.left_over and not judged.is_valid:
        yield f"{judged.left_over:,} later events were not looked at."


def _conclusions(judged: _Judged, look: Look) -> Iterator[Section]:
    replay = judged.replay
    if replay.broken:
        yield Section("What the last event broke", replay.broken)
    if replay.blocked:
        items = tuple(f"{_what(look, block.event)}: {block.reason}" for block in replay.blocked)
        yield Section("What no behaviour allows here", items)
    nothing = ("no step of the protocol; the application may offer something",)
    yield Section("What would have been allowed", judged.allowed or nothing)


def _what(look: Look, event: Event | None) -> str:
    if event is None:
        return "nothing"
    return f"event {event.sequence:,} of the {event.end}, {look.event(event.action, event.arguments)}"
