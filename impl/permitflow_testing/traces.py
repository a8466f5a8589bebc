"""Judges recorded runs: is this a behaviour of the specification?  The verdict answers in numbers and in words."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from permitflow.errors import InvalidParametersError, TraceMismatchError
from permitflow.flows.recording import End
from permitflow.tracing.events import Event
from permitflow.tracing.reader import ChannelTrace, Trace
from permitflow_model.kernel.replay import Blocked, Replay, World, replay
from permitflow_testing.subjects import Explanation, Peaks, Subject, Watch
from permitflow_testing.subjects.table import subject_of


@dataclass(frozen=True)
class Verdict:
    """The model's verdict about the run of one channel."""

    channel: str
    subject: Subject
    """The protocol that was recorded."""
    replay: Replay[World[Any], Event]
    left_over: int
    """Events that were not judged, because an earlier event has no explanation."""
    is_at_rest: bool
    """Had everything been consumed at the end, and were all permits back at the sender?"""
    allowed: tuple[str, ...]
    """The steps that the protocol could have made next."""
    peaks: Peaks | None = None
    """Peak numbers, for a protocol with rows and permits."""
    ends: frozenset[End] = frozenset({"sender", "receiver"})
    """The recorded ends; the model played the other one."""
    cut_ends: frozenset[End] = frozenset()
    """Ends whose last events may be missing."""
    logs: int = 1
    """Number of recording processes: with one, the order of all events is known; with two, only each end's own."""
    actions: Counter[str] = field(default_factory=Counter)
    """How often each action was recorded."""
    rows: int = 0
    """Rows of the chunks that were consumed or, where the receiver was not recorded, sent."""

    @property
    def is_valid(self) -> bool:
        """Is the run a behaviour of the specification, and do its invariants hold at every step?

        After a cut in one end's recording, later events of the other end may depend on lost events: these do not make
        the run invalid, see ``undecided``.
        """
        return self.replay.is_valid or self.undecided is not None

    @property
    def undecided(self) -> Blocked[Event] | None:
        """An event that depends on a later event of the other end, whose recording was cut off before it."""
        if self.logs < 2 or len(self.replay.blocked) != 1:
            return None
        (block,) = self.replay.blocked
        return block if not block.is_refused and self.cut_ends - {block.event.end} else None

    @property
    def world(self) -> World[Any]:
        """The last state, or the one before the first event that no behaviour allows."""
        return self.replay.worlds[0]

    @property
    def missing_actions(self) -> list[str]:
        """Actions of the specification that do not occur in this run."""
        return [action.name for action in self.subject.system.actions if action.name not in self.actions]

    def remarks(self) -> Iterator[str]:
        """The omitted checks, with reasons."""
        if len(self.ends) == 1:
            (end,) = self.ends
            other = "receiver" if end == "sender" else "sender"
            yield f"only the {end} was recorded: checked that some {other} that obeys explains what it did"
        for end in sorted(self.cut_ends):
            yield f"the recording of the {end} was not closed: its last events may be missing"
        if self.undecided is not None:
            event = self._in_words(self.undecided.event)
            left = f", and {self.left_over:,} events after it" if self.left_over else ""
            yield f"not decided: {event} waits for a missing event ({self.undecided.reason}){left}"

    def describe(self) -> str:
        """The verdict in words; for an invalid run with the event, the state, and the steps allowed there."""
        name = f"channel {self.channel!r}"
        if self.is_valid:
            rest = "at rest" if self.is_at_rest else "not at rest: " + self.subject.state_in_words(self.world.state)
            valid = f"{name}: valid, {self.replay.performed:,} events, at the end {rest}"
            return "\n  ".join((valid, *self.remarks()))
        lines = [f"{name}: not a behaviour of the specification, after {self.replay.performed:,} valid events"]
        lines += [f"  {problem}" for problem in self.problems()]
        lines.append(f"  in the state  {self.subject.state_in_words(self.world.state)}")
        lines.append(f"  allowed are   {'; '.join(self.allowed) or 'no steps of the protocol'}")
        if self.left_over:
            lines.append(f"  {self.left_over:,} later events were not looked at")
        return "\n".join(lines)

    def problems(self) -> Iterator[str]:
        """The events at which the run left the specification, and why."""
        if self.replay.broken:
            yield f"{self._in_words(self.replay.last)} breaks {', '.join(self.replay.broken)}"
        for block in self.replay.blocked:
            problem = "is impossible" if block.is_refused else "has no cause"
            yield f"{self._in_words(block.event)} {problem}: {block.reason}"

    def _in_words(self, event: Event | None) -> str:
        """The action, arguments and place of an event."""
        if event is None:
            return "nothing"
        words = self.subject.event_in_words(event, self.subject.table)
        return f"{words}, event {event.sequence} of the {event.end},"


def judge(channel: ChannelTrace, *, by_end: bool = False, keep_path: bool = False) -> Verdict:
    """Replay the recording of one channel, with the model of the protocol that its header names.

    If one process recorded both ends, the order of its recording counts: a permit that returns before its chunk was
    consumed is detected at once.  With ``by_end``, or if two processes recorded, only each end's own order counts.  The
    model plays an end that was not recorded.

    Raises:
        TraceMismatchError: its parameters are impossible, its protocol is unknown, or too few ends were recorded.
    """
    logs = channel.logs_by_end if by_end else channel.logs
    subject = subject_of(channel)
    try:
        parameters = subject.parameters(channel)
        explanation = subject.explanation(parameters, channel.ends, keep_path)
    except (InvalidParametersError, TypeError, ValueError) as error:
        raise TraceMismatchError(channel=channel.channel, reason=str(error)) from error
    watch = None if subject.watch is None else subject.watch(parameters)
    outcome = replay(explanation if watch is None else _Watched(explanation, watch), explanation.start(), logs)
    actions = Counter(event.action for log in logs for event in log)
    told = subject.consumes["receiver" if "receiver" in channel.ends else "sender"]
    return Verdict(
        channel=channel.channel,
        subject=subject,
        replay=outcome,
        left_over=sum(map(len, logs)) - outcome.performed - len(outcome.blocked),
        is_at_rest=any(explanation.is_at_rest(world) for world in outcome.worlds),
        allowed=tuple(explanation.allowed(outcome.worlds[0])),
        peaks=None if watch is None else watch.peaks(),
        ends=channel.ends,
        cut_ends=channel.cut_ends,
        logs=len(logs),
        actions=actions,
        rows=sum(subject.rows_of(event) for log in logs for event in log if event.action == told),
    )


def judge_all(trace: Trace, *, by_end: bool = False) -> list[Verdict]:
    """Replay every channel of a recording."""
    return [judge(channel, by_end=by_end) for channel in trace.channels.values()]


class _Watched:
    """An explanation that reports its state to a watch after every event."""

    def __init__(self, explanation: Explanation, watch: Watch) -> None:
        self.perform = explanation.perform
        self._broken, self._see = explanation.broken, watch.see

    def broken(self, world: World[Any]) -> list[str]:
        """The names of the invariants that do not hold."""
        self._see(world.state)
        return self._broken(world)
