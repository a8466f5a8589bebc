"""Judges recorded runs: is this a behaviour of the specification?  The verdict answers in numbers and in words."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from permitflow.errors import InvalidParametersError, TraceMismatchError
from permitflow.flows.recording import End
from permitflow.tracing.events import Event
from permitflow.tracing.reader import ChannelTrace, RecordedChannel, Trace
from permitflow_model.kernel import replay
from permitflow_model.kernel.replay import Blocked, Replayer, World
from permitflow_testing.subjects import Peaks, Subject, Watch
from permitflow_testing.subjects.table import subject_of


class Passed(NamedTuple):
    """What an end has brought through."""

    messages: int
    """The sender's messages, without barriers and watermarks where it tells them apart; all of the receiver's."""
    rows: int


@dataclass(frozen=True)
class ChannelVerdict:
    """The model's verdict about the run of one channel."""

    channel: str
    subject: Subject
    """The protocol that was recorded."""
    replay: replay.Replay[World[Any], Event]
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
    passed: Mapping[End, Passed] = field(default_factory=dict)
    """What the sender has sent, and the receiver has consumed."""

    @property
    def rows(self) -> int:
        """Rows of the chunks that were consumed or, where the receiver was not recorded, sent."""
        end: End = "receiver" if "receiver" in self.ends else "sender"
        return self.passed.get(end, Passed(0, 0)).rows

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


@dataclass
class Progress:
    """How far the judgement of a run has come: all that is needed to go on, at another time or in another process."""

    replay: replay.Progress[World[Any], Event]
    watch: Watch | None
    actions: Counter[str] = field(default_factory=Counter)
    passed: dict[End, Passed] = field(default_factory=dict)
    largest_rows: int = 0


class RunJudge:
    """Judges the run of one channel, whose events come piece by piece, with the model that its header names."""

    def __init__(
        self,
        channel: RecordedChannel,
        logs: int,
        *,
        check_every: int = 1,
        keep_path: bool = False,
        progress: Progress | None = None,
    ) -> None:
        """Goes on from ``progress``, if there is one; ``check_every``: see ``Replayer``.

        Raises:
            TraceMismatchError: its parameters are impossible, its protocol is unknown, or too few ends were recorded.
        """
        self._channel, self._logs, self._subject = channel, logs, subject_of(channel)
        try:
            parameters = self._subject.parameters(channel)
            self._explanation = self._subject.explanation(parameters, channel.ends, keep_path)
        except (InvalidParametersError, TypeError, ValueError) as error:
            raise TraceMismatchError(channel=channel.channel, reason=str(error)) from error
        watch = progress.watch if progress else self._subject.watch and self._subject.watch(parameters)
        invariants = self._subject.system.invariants
        at_risk = {name: invariants[name] for name in self._subject.at_risk} if check_every > 1 else {}

        def see(world: World[Any]) -> list[str]:
            if watch is not None:
                watch.see(world.state)
            return [name for name, holds in at_risk.items() if not holds(world.state, parameters)]

        self._replayer: Replayer[World[Any], Event] = Replayer(
            self._explanation,
            self._explanation.start(),
            logs,
            check_every=check_every,
            watch=see if watch or at_risk else None,
            progress=progress.replay if progress else None,
        )
        self.progress = progress or Progress(self._replayer.progress, watch)

    @property
    def waits(self) -> list[int]:
        """How many events of each log have come and wait for others."""
        return [len(pending) for pending in self.progress.replay.pending]

    def take(self, log: int, events: Sequence[Event]) -> None:
        """The next events of a log; ``go_on`` judges them."""
        progress, subject = self.progress, self._subject
        progress.actions.update([event.action for event in events])
        for end, action in subject.consumes.items():
            rows = [subject.rows_of(event) for event in events if event.action == action and event.end == end]
            messages_before, rows_before = progress.passed.get(end, (0, 0))
            progress.passed[end] = Passed(messages_before + len(rows), rows_before + sum(rows))
        if progress.watch is not None:
            progress.largest_rows = max(progress.largest_rows, *map(subject.rows_of, events), 0)
        self._replayer.take(log, events)

    def go_on(self) -> None:
        """Judge what can be judged of the events that have come."""
        self._replayer.go_on()

    def verdict(self) -> ChannelVerdict:
        """The verdict about the events until now, if no more come."""
        channel, progress, outcome = self._channel, self.progress, self._replayer.outcome()
        return ChannelVerdict(
            channel=channel.channel,
            subject=self._subject,
            replay=outcome,
            left_over=progress.actions.total() - outcome.performed - len(outcome.blocked),
            is_at_rest=any(self._explanation.is_at_rest(world) for world in outcome.worlds),
            allowed=tuple(self._explanation.allowed(outcome.worlds[0])),
            peaks=None if progress.watch is None else progress.watch.peaks(progress.largest_rows),
            ends=channel.ends,
            cut_ends=channel.cut_ends,
            logs=self._logs,
            actions=progress.actions,
            passed=progress.passed,
        )


def judge(channel: ChannelTrace, *, by_end: bool = False, keep_path: bool = False) -> ChannelVerdict:
    """Replay the recording of one channel, with the model of the protocol that its header names.

    If one process recorded both ends, the order of its recording counts: a permit that returns before its chunk was
    consumed is detected at once.  With ``by_end``, or if two processes recorded, only each end's own order counts.  The
    model plays an end that was not recorded.

    Raises:
        TraceMismatchError: its parameters are impossible, its protocol is unknown, or too few ends were recorded.
    """
    logs = channel.logs_by_end if by_end else channel.logs
    run = RunJudge(channel, len(logs), keep_path=keep_path)
    for number, log in enumerate(logs):
        run.take(number, log)
    run.go_on()
    return run.verdict()


def judge_all(trace: Trace, *, by_end: bool = False) -> list[ChannelVerdict]:
    """Replay every channel of a recording."""
    return [judge(channel, by_end=by_end) for channel in trace.channels.values()]
