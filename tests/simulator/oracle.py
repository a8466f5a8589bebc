"""The model as the judge of a simulated run: each recorded step must be one of its steps, at the moment it happens."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from permitflow.flows.recording import ENDS, ActionTable, End, ParameterValue, Recorder
from permitflow.tracing.events import Event
from permitflow.tracing.reader import RecordedChannel
from permitflow_model.kernel.replay import Refused, Starved, World
from permitflow_testing.subjects import Subject
from permitflow_testing.subjects.table import subject_of

_BETWEEN_LOOKS = 16
_MOST_WORLDS = 10_000
"""Which of many equal messages were withdrawn can leave more and more states possible; beyond this no run is judged."""


class Judge:
    """Of one stream: the model's state beside its two ends."""

    def __init__(self, channel: RecordedChannel, oracle: "Oracle") -> None:
        self.name = channel.channel
        self.ends: set[End] = set()
        self.subject: Subject = subject_of(channel)
        self._table = channel.table
        self._oracle = oracle
        self._parameters = self.subject.parameters(channel)
        self._explanation = self.subject.explanation(self._parameters, frozenset(ENDS), False)
        self.worlds: tuple[World[Any], ...] = (self._explanation.start(),)
        self._count = 0
        self.states: set[Any] = set()
        self._key_of = oracle.key_of(self._parameters) if oracle.key_of is not None else None

    def see(self, end: End, action: str, arguments: tuple[int, ...], counters: tuple[int, ...]) -> None:
        """Perform the same step in the model."""
        oracle = self._oracle
        if oracle.broken:
            return
        self._count += 1
        event = Event(self.name, end, self._count, action, arguments, None, counters)
        following: list[World[Any]] = []
        reasons: list[str] = []
        for world in self.worlds:
            try:
                following += self._explanation.perform(world, event)
            except (Refused, Starved) as reason:
                reasons.append(str(reason))
        if not following:
            oracle.on_step(self, event)
            oracle.broken.append(f"{self.name}: the {end}'s {action}{arguments} is no step: {reasons[0]}")
            return
        # Who withdraws one of many equal messages may have withdrawn any of them: few of these worlds differ.
        self.worlds = tuple(dict.fromkeys(following)) if len(following) > 1 else tuple(following)
        if len(self.worlds) > _MOST_WORLDS:
            oracle.broken.append(f"{self.name}: {len(self.worlds)} states are possible, too many to judge the run")
        if self._key_of is not None:
            self.states.add(self._key_of(following[0].state))
        oracle.on_step(self, event)
        # Theorems about all states to which the model's steps lead: they check the model rather than the run.
        if self._count % _BETWEEN_LOOKS == 0 and (broken := self._explanation.broken(following[0])):
            oracle.broken.append(f"{self.name}: after the {end}'s {action}{arguments}: {', '.join(broken)}")

    def in_words(self) -> str:
        """The model's state."""
        return self.subject.state_in_words(self.worlds[0].state)

    def event_in_words(self, event: Event) -> str:
        """A step."""
        return self.subject.event_in_words(event, self._table)


class Oracle:
    """Judges all streams of a world."""

    def __init__(
        self, *, on_step: Any = None, key_of: Callable[[object], Callable[[Any], Any] | None] | None = None
    ) -> None:
        """``on_step`` hears of each judge's event; ``key_of`` says whose states are to be kept, see ``coverage``."""
        self.key_of = key_of
        self.broken: list[str] = []
        """What no model allows; after the first, nothing more is judged."""
        self.judges: list[Judge] = []
        self.steps: Counter[str] = Counter()
        self._current: dict[str, Judge] = {}
        self._tell = on_step

    def recorder(
        self, channel: str, end: End, table: ActionTable, parameters: Mapping[str, ParameterValue]
    ) -> Recorder:
        """A ``RecorderFactory``.  A name that both ends have used begins anew: its exchange was started again."""
        judge = self._current.get(channel)
        if judge is None or end in judge.ends:
            judge = Judge(RecordedChannel(channel, table, dict(parameters), frozenset(ENDS)), self)
            self._current[channel] = judge
            self.judges.append(judge)
        judge.ends.add(end)
        see, steps = judge.see, self.steps

        def record(action: str, arguments: tuple[int, ...], counters: tuple[int, ...]) -> None:
            steps[action] += 1
            see(end, action, arguments, counters)

        return record

    def on_step(self, judge: Judge, event: Event) -> None:
        """Tell of a step, if anybody listens."""
        if self._tell is not None:
            self._tell(judge, event)
