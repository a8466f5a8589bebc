"""Judges recordings of any length: the files are read block by block, and the channels are judged side by side.

A *share* is some channels, and how far they were judged.  It goes on for a number of events at a time, in any process,
and needs nothing but itself to go on.  So the shares together are a checkpoint, too.

Memory holds, of each share, a block of each of its files, the states of its channels, and the events of one file that
wait for those of another: few if both were recorded at the same time.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

from permitflow.flows.recording import End
from permitflow.tracing.events import Event, Recording
from permitflow.tracing.reader import RecordedChannel, ScannedTrace, blocks_of, check_sequence
from permitflow_model.side_by_side import in_turns
from permitflow_testing.traces import ChannelVerdict, Progress, RunJudge
from permitflow_tools.validating.checkpoint import Checkpoint

CHECK_EVERY = 256
"""Events after which a long replay looks at the invariants, which are theorems."""

TURN_EVENTS = 200_000
"""A few seconds of work: so much is lost if the command is killed."""

# What takes a second is not worth a process.
_BYTES_PER_PROCESS = 8 << 20
# An event takes 7 bytes of Parquet, where its line takes 150.
_PARQUET_WEIGHT = 20


@dataclass
class Share:
    """Some channels of a recording, and how far they were judged."""

    files: tuple[Recording, ...]
    """The files that hold logs of them, without their events."""
    channels: tuple[RecordedChannel, ...]
    allow_truncated: bool
    places: list[Any]
    """Where to read on in each file; None: at its beginning."""
    is_read: list[bool]
    runs: dict[str, Progress] = field(default_factory=dict)
    """By channel."""
    seen: dict[str, dict[End, int]] = field(default_factory=dict)
    """The number of the last event of each end of each channel."""

    @property
    def is_over(self) -> bool:
        """Were all events judged?"""
        return all(self.is_read)

    @property
    def events(self) -> int:
        """How many have come."""
        return sum(run.actions.total() for run in self.runs.values())

    def logs_of(self, channel: str) -> list[int]:
        """The files that hold a log of it."""
        return [
            number
            for number, file in enumerate(self.files)
            if any(header.channel == channel for header in file.headers)
        ]

    def verdicts(self) -> Iterator[ChannelVerdict]:
        """The verdict of each of its channels."""
        for channel in self.channels:
            yield self._judge(channel).verdict()

    def _judge(self, channel: RecordedChannel) -> RunJudge:
        name = channel.channel
        run = RunJudge(channel, len(self.logs_of(name)), check_every=CHECK_EVERY, progress=self.runs.get(name))
        self.runs[name] = run.progress
        return run

    def go_on(self, most_events: int | None = None) -> "Share":
        """Read and judge up to about this many events.

        Raises:
            TraceUnreadableError: a file cannot be read, or an event in it is malformed.
            TraceMismatchError: an event is missing, or a channel cannot be judged.
        """
        judges = {channel.channel: self._judge(channel) for channel in self.channels}
        logs = {(file, name): log for name in judges for log, file in enumerate(self.logs_of(name))}
        unread = {
            number: blocks_of(file, judges, self.places[number], allow_truncated=self.allow_truncated)
            for number, file in enumerate(self.files)
            if not self.is_read[number]
        }
        left = most_events
        while unread and (left is None or left > 0):
            # The others may wait for it.
            number = min(
                unread,
                key=lambda number: sum(judges[name].waits[log] for (file, name), log in logs.items() if file == number),
            )
            place, events = next(unread[number], (None, []))
            if place is None:
                self.is_read[number] = True
                del unread[number]
                continue
            for name, of in _by_channel(events).items():
                check_sequence(name, of, self.seen.setdefault(name, {}))
                judges[name].take(logs[number, name], of)
                judges[name].go_on()
            self.places[number] = place
            left = None if left is None else left - len(events)
        return self


def _by_channel(events: Sequence[Event]) -> Mapping[str, Sequence[Event]]:
    by_channel: dict[str, list[Event]] = {}
    for name, together in groupby(events, attrgetter("channel")):
        by_channel.setdefault(name, []).extend(together)
    return by_channel


def shares_of(trace: ScannedTrace, channels: Iterable[str], workers: int, *, allow_truncated: bool) -> list[Share]:
    """Up to ``workers`` shares of all channels that lie in the same files: each reads these files by itself."""
    group_of: dict[int, set[int]] = {}
    for name in channels:
        group = set(trace.files_of[name]).union(*(group_of.get(file, ()) for file in trace.files_of[name]))
        group_of |= dict.fromkeys(group, group)
    together: dict[tuple[int, ...], list[str]] = {}
    for name in channels:
        together.setdefault(tuple(sorted(group_of[trace.files_of[name][0]])), []).append(name)
    return [
        Share(
            files=tuple(trace.files[number] for number in files),
            channels=tuple(trace.channels[name] for name in names[first::workers]),
            allow_truncated=allow_truncated,
            places=[None] * len(files),
            is_read=[False] * len(files),
        )
        for files, names in together.items()
        for first in range(min(workers, len(names)))
    ]


Turns = Callable[[list[Share]], Generator[tuple[int, Share], None, None]]
"""Lets shares go on until all are over; yields each after each of its turns, with its number."""


def here(trace: ScannedTrace, jobs: int) -> tuple[int, Turns]:
    """The number of processes on this machine that are worth their start, and turns in these."""
    size = sum(map(_weight, (Path(file.source) for file in trace.files)))
    processes = min(jobs, 1 + size // _BYTES_PER_PROCESS)
    return processes, partial(_turns_here, processes=processes)


def _weight(path: Path) -> int:
    return path.stat().st_size * (_PARQUET_WEIGHT if path.suffix == ".parquet" else 1)


def _turns_here(shares: list[Share], *, processes: int) -> Generator[tuple[int, Share], None, None]:
    if min(processes, sum(not share.is_over for share in shares)) > 1:
        yield from in_turns(_turn, shares, attrgetter("is_over"), processes=processes)
        return
    for number, share in enumerate(shares):
        while not share.is_over:
            yield number, _turn(share)


def _turn(share: Share) -> Share:
    return share.go_on(TURN_EVENTS)


def validate(
    trace: ScannedTrace,
    channels: Sequence[str],
    workers: int,
    turns: Turns,
    *,
    allow_truncated: bool = False,
    checkpoint: Checkpoint | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> list[ChannelVerdict]:
    """Judge channels of a recording; the verdicts come in the order of the recording.

    With a checkpoint it goes on from there, keeps its progress there, and at the end removes it.

    Raises:
        TraceUnreadableError: a file cannot be read, or holds something else; or the checkpoint is none of this.
        TraceMismatchError: recordings of a channel do not belong together, or one cannot be judged.
    """
    shares: list[Share] = (checkpoint and checkpoint.read()) or shares_of(
        trace, channels, workers, allow_truncated=allow_truncated
    )
    try:
        with closing(turns(shares)) as done:
            for number, share in done:
                shares[number] = share
                if checkpoint is not None:
                    checkpoint.keep(number, share, shares)
                if on_progress is not None:
                    on_progress(sum(share.events for share in shares))
    except BaseException:
        if checkpoint is not None:
            checkpoint.write()  # as after the last whole turn: a share may be in the middle of one
        raise
    verdicts = {verdict.channel: verdict for share in shares for verdict in share.verdicts()}
    if checkpoint is not None:
        checkpoint.remove()
    return [verdicts[name] for name in channels]
