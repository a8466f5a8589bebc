"""Protocols as runs of them are judged: what joins a recording's name for a protocol to the model of it.

One file for each, with a ``SUBJECT``; ``table`` lists them.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, TypeVar

from permitflow.errors import InvalidParametersError, TraceMismatchError
from permitflow.flows.recording import ENDS, ActionTable, End
from permitflow.flows.seam import Parameters
from permitflow.tracing.events import Event
from permitflow.tracing.reader import RecordedChannel
from permitflow_model.kernel.replay import Interpretation, StepByStep, World
from permitflow_model.kernel.system import System

UNLIMITED = 2**62
"""Messages that may wait at once in a real run."""

SHOWN = 8
"""Messages of a queue that are shown."""


class Explanation(Interpretation[World[Any], Event], Protocol):
    """Explains recorded events by steps of a model."""

    def start(self) -> World[Any]:
        """Where every run begins."""

    def is_at_rest(self, world: World[Any]) -> bool:
        """Had everything come to its end?"""

    def allowed(self, world: World[Any]) -> list[str]:
        """What the protocol may do next, in words."""


@dataclass(kw_only=True)
class Peaks:
    """The most that was ever anywhere, beside the most that may be there."""

    row_permits: int
    """The permits of the channel: no more can be in use."""
    row_bound: int
    """Rows; above ``row_permits`` only where chunks above ``max_chunk_cost`` are admitted whole."""
    row_permits_in_use: int = 0
    """Not at the sender."""
    inbox_rows: int = 0
    """Arrived and not consumed."""


S = TypeVar("S", bound=Parameters)


def stated(channel: RecordedChannel, form: type[S]) -> S:
    """The parameters of a recorded channel; one that is left out has its default.

    Raises:
        TraceMismatchError: one is unknown, or the protocol cannot have it.
    """
    known = [each.name for each in fields(form)]  # type: ignore[arg-type]  # a dataclass
    if strange := [name for name in channel.parameters if name not in known]:
        reason = f"there is no parameter {strange[0]!r}; known are {', '.join(known)}"
        raise TraceMismatchError(channel=channel.channel, reason=reason)
    try:
        return form(**channel.parameters)
    except InvalidParametersError as error:
        raise TraceMismatchError(channel=channel.channel, reason=str(error)) from error


class Watch(Protocol):
    """Remembers how much was where."""

    def see(self, state: Any) -> None:
        """Hear of a state of the run."""

    def peaks(self, largest_rows: int) -> Peaks:
        """The most that was ever there, in a run whose largest chunk has this many rows."""


def event_in_words(event: Event, table: ActionTable) -> str:
    """Action and arguments."""
    names = table.actions[event.end][event.action]
    told = ", ".join(f"{name}: {number}" for name, number in zip(names, event.arguments, strict=True))
    return f"{event.action} ({told})" if told else event.action


def state_in_words(state: Any) -> str:
    """All variables except empty ones."""
    parts = {
        name: first_of([str(item) for item in value]) if hasattr(value, "is_empty") else value
        for name, value in state._asdict().items()
    }
    return ", ".join(f"{name} {value}" for name, value in parts.items() if value not in (0, None, ""))


def first_of(items: list[str]) -> str:
    """The first items, as many as one can look at."""
    more = f", and {len(items) - SHOWN:,} more" if len(items) > SHOWN else ""
    return f"[{', '.join(items[:SHOWN])}{more}]" if items else ""


def require_both(ends: frozenset[End]) -> None:
    """Raise ``ValueError`` if one end was not recorded."""
    if len(ends) < len(ENDS):
        raise ValueError("both ends must have been recorded: one end's events do not determine the other's")


def step_by_step(system: System[Any, Any]) -> Callable[[Any, frozenset[End], bool], Explanation]:
    """Explanations of runs of which both ends were recorded, each event as one step of the system."""

    def explanation(parameters: Any, ends: frozenset[End], keep_path: bool) -> Explanation:
        require_both(ends)
        return StepByStep(system, parameters, keep_path=keep_path)

    return explanation


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A protocol whose runs can be judged."""

    table: ActionTable
    system: System[Any, Any]
    parameters: Callable[[RecordedChannel], Any]
    """The specification's constants for a recorded channel, with everything switched on that a run may have.

    Raises:
        InvalidParametersError, TypeError: there are none for what it was recorded with.
    """
    explanation: Callable[[Any, frozenset[End], bool], Explanation]
    """Takes these, the ends that were recorded, and whether worlds remember their paths; raises ``ValueError`` if so
    few ends cannot be judged."""
    rows_of: Callable[[Event], int] = lambda _: 0
    """Rows of the message that an event is about."""
    amount_of: Callable[[Event], int] = lambda _: 0
    """The same, or how much is returned."""
    consumes: Mapping[End, str]
    """The action that tells of an end how many rows it has brought through."""
    event_in_words: Callable[[Event, ActionTable], str] = event_in_words
    state_in_words: Callable[[Any], str] = state_in_words
    places: Callable[[Any], Mapping[str, int]]
    """Where everything that is counted is: the sum is the same in every state, or the protocol has lost or made
    some."""
    unit: str = "messages"
    """The counted thing, in plural."""
    place_in_words: Mapping[str, str] = field(default_factory=dict)
    """Words for those of these names that are not plain words."""
    waiting: Callable[[Any], list[int]] = lambda _: []
    """Rows of the messages that wait."""
    watch: Callable[[Any], Watch] | None = None
    """Takes the constants."""
    at_risk: Collection[str] = ()
    """The invariants that a run may break though each of its events is a step of the system."""
