"""Runs to look at: one into a deadlock, one of a channel that never gets stuck, one that was recorded."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import takewhile

from permitflow.tracing.events import Event
from permitflow_model.kernel.replay import Replay
from permitflow_model.kernel.system import Step
from permitflow_model.permit_channel import SYSTEM, Parameters, State, cost_of, is_stuck
from permitflow_model.permit_channel_trace import PART, PermitChannelReplay, World, permits_of, rows_of

__all__ = [
    "MOST_STEPS",
    "Recording",
    "Run",
    "Section",
    "Verdict",
    "fill_and_drain",
    "in_words",
    "last_steps",
    "live_run",
    "recorded_run",
    "stuck_run",
]

MOST_STEPS = 200_000
"""Steps that a page holds at most: about 10 MB, which a browser opens in a second."""

# A reader would not step through more.
_MOST_CHUNKS = 5_000
# The sender's window is filled while nothing moves elsewhere; then all that was sent is delivered; then permits are
# used as soon as they are back.
_FILL = ("SendChunk", "SendBarrier", "SendWatermark")
_DELIVER = ("Deliver",)
_DRAIN = ("AddPermits", *_FILL, "Deliver", "Consume", "Flush")


class Verdict(StrEnum):
    """What the run shows."""

    STUCK = "stuck"
    """It ends where a chunk or a barrier waits and nothing can ever change that."""

    LIVE = "live"
    """It is one of many, and none of them gets stuck."""

    VALID = "valid"
    """It was recorded, and it is a behaviour of the specification."""

    INVALID = "invalid"
    """It was recorded, and what came next no behaviour allows."""


@dataclass(frozen=True)
class Section:
    """Something to be said about the last state."""

    heading: str
    items: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Run:
    """A behaviour and what is to be said about it."""

    title: str
    verdict: Verdict
    sentence: str
    """The verdict in one sentence."""

    parameters: Parameters
    start: State
    steps: Sequence[Step[State]]
    skipped: int = 0
    """Steps before ``start`` that are not shown."""

    is_recorded: bool = False
    """Was it recorded?  Then no user chose the bounds in ``parameters``."""

    has_every_size: bool = False
    """May chunks of every size be offered, up to the clamp?  Then ``parameters.sizes`` holds only some of them."""

    remarks: tuple[str, ...] = ()
    """About the run as a whole."""

    conclusions: tuple[Section, ...] = ()
    """About its last state."""

    @property
    def end(self) -> State:
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


class _Teller:
    """Takes steps of the model, one after the other."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.state = SYSTEM.initial(parameters)
        self.steps: list[Step[State]] = []

    def can(self, action: str, *arguments: int) -> bool:
        return SYSTEM.is_enabled(action, self.state, self.parameters, *arguments)

    def take(self, action: str, *arguments: int) -> None:
        self.state = SYSTEM.perform(action, self.state, self.parameters, *arguments)
        self.steps.append(Step(action, arguments, self.state))

    def take_while_possible(self, actions: Sequence[str]) -> None:
        while (action := next((name for name in actions if self.can(name)), None)) is not None:
            self.take(action)


def fill_and_drain(parameters: Parameters) -> list[Step[State]]:
    """Chunks are sent until one has to wait, then everything is consumed; deterministic.

    A barrier and a watermark follow the first chunk, where the channel knows them.

    Raises:
        ValueError: it takes too many chunks to fill the window.
    """
    largest = cost_of(max(parameters.sizes), parameters)
    if (needed := parameters.row_count // largest) > _MOST_CHUNKS:
        raise ValueError(
            f"a window of {parameters.row_count:,} row permits takes {needed:,} chunks to fill, "
            f"if they cost at most {largest:,}; a run to look at has at most {_MOST_CHUNKS:,}"
        )
    teller = _Teller(parameters)
    for size in _sizes(parameters.sizes):
        teller.take("OfferChunk", size)
        teller.take_while_possible(_FILL)
        if not teller.can("OfferChunk", size):
            break
        for offer in ("OfferBarrier", "OfferWatermark"):
            if not any(step.action == offer for step in teller.steps) and teller.can(offer):
                teller.take(offer)
                teller.take_while_possible(_FILL)
    teller.take_while_possible(_DELIVER)
    teller.take_while_possible(_DRAIN)
    return teller.steps


def _sizes(allowed: Sequence[int]) -> Iterator[int]:
    """A half, a quarter and all of the largest, again and again, as far as such sizes are allowed."""
    largest = max(allowed)
    while True:
        for part in (2, 4, 1):
            wanted = max(1, largest // part)
            yield min(allowed, key=lambda size, wanted=wanted: (abs(size - wanted), size))  # type: ignore[misc]


def stuck_run(parameters: Parameters, start: State, steps: Sequence[Step[State]], *, advice: Sequence[str] = ()) -> Run:
    """A run into a stuck state; ``advice`` says what would help.

    Raises:
        ValueError: the last state is not stuck.
    """
    end = steps[-1].state if steps else start
    return Run(
        title=f"{_in_numbers(parameters)}: this channel can get stuck",
        verdict=Verdict.STUCK,
        sentence=f"After {len(steps):,} {'step' if len(steps) == 1 else 'steps'} {in_words(end, parameters)}.",
        parameters=parameters,
        start=start,
        steps=steps,
        conclusions=(Section("What would help, each alone", tuple(advice)),) if advice else (),
    )


def live_run(parameters: Parameters, *, because: str = "") -> Run:
    """A run of a channel that never gets stuck: the window is filled and drained again.

    That it never does the caller must know, and may say why.

    Raises:
        ValueError: the window takes too many chunks.
    """
    return Run(
        title=f"{_in_numbers(parameters)}: this channel never gets stuck",
        verdict=Verdict.LIVE,
        sentence="Whoever waits will be served, in every run. This one fills the window and drains it again.",
        parameters=parameters,
        start=SYSTEM.initial(parameters),
        steps=fill_and_drain(parameters),
        remarks=(because,) if because else (),
    )


def in_words(state: State, parameters: Parameters) -> str:
    """What a stuck channel looks like.

    Raises:
        ValueError: it is not stuck.
    """
    if not is_stuck(state, parameters):
        raise ValueError(f"the channel is not stuck in {state}")
    if state.waiting.head().kind == "barrier":
        return "a barrier waits, and nothing can ever bring a barrier permit"
    cost, rows, kept = state.waiting.head().cost, state.permits.rows, state.unreturned
    keeps = f", the receiver keeps {kept:,} until it holds {parameters.batch:,}" if kept else ""
    return f"a chunk that needs {cost:,} permits waits, {rows:,} are at the sender{keeps}, and nothing can move"


def _in_numbers(parameters: Parameters) -> str:
    return f"ROW_COUNT {parameters.row_count:,}, batch {parameters.batch:,}, chunks up to {parameters.clamp:,}"


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
        yield Section(
            "What no behaviour allows here", tuple(f"{_what(block.event)}: {block.reason}" for block in replay.blocked)
        )
    nothing = ("no step of the protocol; the application may offer something",)
    yield Section("What would have been allowed", recording.allowed or nothing)


def _what(event: Event | None) -> str:
    if event is None:
        return "nothing"
    names = ("row permits", "barrier permits", "watermark permits")
    permits = [f"{count:,} {name}" for count, name in zip(permits_of(event), names, strict=True) if count]
    rows = f"{rows_of(event):,} rows, " if rows_of(event) else ""
    return f"event {event.sequence:,} of the {event.end}, {event.action} ({rows}{', '.join(permits) or 'no permits'})"


def _events(count: int) -> str:
    return f"{count:,} recorded event{'' if count == 1 else 's'}"
