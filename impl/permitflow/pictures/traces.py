"""Recorded runs: what the model says about them, as something to look at."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from permitflow.pictures.run import Run, Section, Verdict
from permitflow.tracing.events import Event
from permitflow_model.kernel.replay import Blocked, Replay
from permitflow_model.kernel.system import Step
from permitflow_model.permit_channel import Parameters, State
from permitflow_model.permit_channel_one_end import PART
from permitflow_model.permit_channel_trace import PermitChannelReplay
from permitflow_model.permit_channel_world import World

__all__ = ["Recording", "recorded_run"]


@dataclass(frozen=True, kw_only=True)
class Recording:
    """A recorded channel, after the model has replayed it and kept the path."""

    channel: str
    parameters: Parameters
    replay: Replay[World, Event]
    is_valid: bool
    is_at_rest: bool
    """Had everything been consumed at the end, and were all permits back?"""

    allowed: tuple[str, ...]
    """What the protocol could have done next."""

    left_over: int = 0
    """Events that were not looked at, because one before them was not possible."""

    logs: int = 1
    """Processes that recorded it; their events were put in an order without clocks."""

    remarks: tuple[str, ...] = ()
    """What could not be checked, and why."""


def recorded_run(recording: Recording) -> Run:
    """The run as far as the model could follow, and what it objects to.

    Raises:
        ValueError: the replay did not keep the path.
    """
    world = recording.replay.worlds[0]
    if world.path is None and recording.replay.performed:
        raise ValueError(f"the replay of channel {recording.channel!r} kept no path; replay with keep_path=True")
    is_valid = recording.is_valid
    return Run(
        title=f"Recorded run of channel {recording.channel}",
        verdict=Verdict.VALID if is_valid else Verdict.INVALID,
        sentence=_valid(recording) if is_valid else _invalid(recording),
        parameters=recording.parameters,
        start=PermitChannelReplay(recording.parameters).start().state,
        steps=_steps(world),
        is_recorded=True,
        remarks=tuple(_remarks(recording)),
        conclusions=() if is_valid else tuple(_conclusions(recording)),
    )


def _steps(world: World) -> list[Step[State]]:
    """Up to where permits came back in portions, no action of the specification: a page has no place for it."""
    return list(takewhile(lambda step: step.action != PART, world.path.steps() if world.path else []))


def _valid(recording: Recording) -> str:
    rest = "everything has been consumed and all permits are back" if recording.is_at_rest else "not all is at rest"
    return f"{_events(recording.replay.performed)} are a behaviour of the specification; at the end {rest}."


def _invalid(recording: Recording) -> str:
    replay = recording.replay
    if replay.broken:
        return f"The run breaks {', '.join(replay.broken)} with {_what(replay.last)}."
    block = replay.blocked[0]
    problem = "is impossible" if block.is_refused else "has no cause"
    return f"After {_events(replay.performed)}, {_what(block.event)} {problem}: {block.reason}."


def _remarks(recording: Recording) -> Iterator[str]:
    if recording.logs > 1:
        yield (
            f"{recording.logs} processes recorded this channel. Clocks are not trusted: the steps stand in an order in "
            "which they can have happened, with each process\u2019s own order kept."
        )
    world = recording.replay.worlds[0]
    if world.path is not None and len(_steps(world)) < len(world.path.steps()):
        yield "Permits came back in portions that are not the specification's: the steps from there on are not shown."
    for remark in recording.remarks:
        yield f"{remark[0].upper()}{remark[1:]}."
    if recording.left_over and not recording.is_valid:
        yield f"{recording.left_over:,} later events were not looked at."


def _conclusions(recording: Recording) -> Iterator[Section]:
    replay = recording.replay
    if replay.broken:
        yield Section("What the last event broke", replay.broken)
    if replay.blocked:
        yield Section("What no behaviour allows here", tuple(map(_objection, replay.blocked)))
    nothing = ("no step of the protocol; the application may offer something",)
    yield Section("What would have been allowed", recording.allowed or nothing)


def _objection(block: Blocked[Event]) -> str:
    return f"{_what(block.event)}: {block.reason}"


def _what(event: Event | None) -> str:
    if event is None:
        return "nothing"
    permits = _permits(event.permits)
    rows = f"{event.rows:,} rows, " if event.rows else ""
    return f"event {event.sequence:,} of the {event.end}, {event.action} ({rows}{permits})"


def _permits(permits: Sequence[int]) -> str:
    names = ("row permits", "barrier permits", "watermark permits")
    shown = [f"{count:,} {name}" for count, name in zip(permits, names, strict=True) if count]
    return ", ".join(shown) or "no permits"


def _events(count: int) -> str:
    return f"{count:,} recorded event{'' if count == 1 else 's'}"
