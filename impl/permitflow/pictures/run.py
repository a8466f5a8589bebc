"""Runs for pictures, of any system: states, steps and remarks; and recorded runs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import takewhile
from typing import Any

from permitflow.pictures.look import Look
from permitflow.tracing.events import Event
from permitflow_model.kernel.replay import Replay, World
from permitflow_model.kernel.system import Step

MOST_STEPS = 200_000
"""Steps that a page holds at most: about 10 MB, which a browser opens in a second."""


class Verdict(StrEnum):
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
class Run:
    """A behaviour with remarks."""

    look: Look
    """The look of its system."""
    title: str
    verdict: Verdict
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


def last_steps(run: Run, most: int = MOST_STEPS) -> Run:
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


@dataclass(frozen=True, kw_only=True)
class Recording:
    """A recorded channel, after the model has replayed it and kept the path."""

    channel: str
    look: Look
    parameters: Any
    start: Any
    """The model's first state."""
    replay: Replay[World[Any], Event]
    is_valid: bool
    is_at_rest: bool
    """Had everything come to its end?"""
    allowed: tuple[str, ...]
    """The steps that the protocol could have made next."""
    left_over: int = 0
    """Events that were not judged, because an earlier one was impossible."""
    logs: int = 1
    """Processes that recorded it; their events were put in an order without clocks."""
    remarks: tuple[str, ...] = ()
    """The omitted checks, with reasons."""


def recorded_run(recording: Recording) -> Run:
    """The run as far as the model could follow, and the model's objections.

    Raises:
        ValueError: the replay did not keep the path.
    """
    world = recording.replay.worlds[0]
    if world.path is None and recording.replay.performed:
        raise ValueError(f"the replay of channel {recording.channel!r} kept no path; replay with keep_path=True")
    is_valid = recording.is_valid
    return Run(
        look=recording.look,
        title=f"Recorded run of channel {recording.channel}",
        verdict=Verdict.VALID if is_valid else Verdict.INVALID,
        sentence=_valid(recording) if is_valid else _invalid(recording),
        parameters=recording.parameters,
        start=recording.start,
        steps=_steps(recording),
        is_recorded=True,
        remarks=tuple(_remarks(recording)),
        conclusions=() if is_valid else tuple(_conclusions(recording)),
    )


def _steps(recording: Recording) -> list[Step[Any]]:
    """The steps before the first that is no action of the specification: a page cannot show that one."""
    known = {action.name for action in recording.look.system.actions}
    path = recording.replay.worlds[0].path
    return list(takewhile(lambda step: step.action in known, path.steps() if path else []))


def _valid(recording: Recording) -> str:
    rest = recording.look.at_rest if recording.is_at_rest else "not all is at rest"
    return f"{_events(recording.replay.performed)} are a behaviour of the specification; at the end {rest}."


def _invalid(recording: Recording) -> str:
    replay = recording.replay
    if replay.broken:
        return f"The run breaks {', '.join(replay.broken)} with {_what(recording, replay.last)}."
    block = replay.blocked[0]
    problem = "is impossible" if block.is_refused else "has no cause"
    return f"After {_events(replay.performed)}, {_what(recording, block.event)} {problem}: {block.reason}."


def _remarks(recording: Recording) -> Iterator[str]:
    if recording.logs > 1:
        yield (
            f"{recording.logs} processes recorded this channel. Clocks are not trusted: the steps stand in an order in "
            "which they can have happened, with each process\u2019s own order kept."
        )
    world = recording.replay.worlds[0]
    if world.path is not None and len(_steps(recording)) < len(world.path.steps()):
        yield recording.look.strange_steps
    for remark in recording.remarks:
        yield f"{remark[0].upper()}{remark[1:]}."
    if recording.left_over and not recording.is_valid:
        yield f"{recording.left_over:,} later events were not looked at."


def _conclusions(recording: Recording) -> Iterator[Section]:
    replay = recording.replay
    if replay.broken:
        yield Section("What the last event broke", replay.broken)
    if replay.blocked:
        items = tuple(f"{_what(recording, block.event)}: {block.reason}" for block in replay.blocked)
        yield Section("What no behaviour allows here", items)
    nothing = ("no step of the protocol; the application may offer something",)
    yield Section("What would have been allowed", recording.allowed or nothing)


def _what(recording: Recording, event: Event | None) -> str:
    if event is None:
        return "nothing"
    said = recording.look.event(event.action, event.arguments)
    return f"event {event.sequence:,} of the {event.end}, {said}"


def _events(count: int) -> str:
    return f"{count:,} recorded event{'' if count == 1 else 's'}"
