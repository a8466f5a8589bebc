"""``permitflow demo wordcount``: a word count in several processes whose reader stands still now and then.

sender -> front -> back -> reader       all over TCP; front and back are processes of their own
sender -> front ---^                    the second front comes while the reader stands still
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, closing, suppress
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from math import inf
from pathlib import Path
from time import monotonic

from permitflow.errors import DemoError, InvalidOptionError
from permitflow.mute.pipeline import Event, pipeline_bound
from permitflow.mute.sockets import Buffers

from ..child_process import address_of, text_of
from ..processes import first_error, is_set_within
from .outside import CountReader, WordSender
from .timeline import Curve, Lane, MuteTimeline, Span
from .worker import WorkerSettings
from .workers import WorkerProcess

TEXT = (
    b"to be or not to be that is the question whether tis nobler in the mind to suffer the slings and arrows of "
    b"outrageous fortune or to take arms against a sea of troubles and by opposing end them to die to sleep no more"
).split()
BUFFERS = Buffers(receive_bytes=32_768, send_bytes=32_768)
READ_BYTES, LINE_BYTES = 4_096, 64
HIGH_MARK, LOW_MARK = 32, 16
WORTH_TELLING_SECONDS = 0.3
"""Shorter mutes are drawn and counted, and not told one by one."""
SAMPLE_SECONDS = 0.1
START_SECONDS = 60.0
END_SECONDS = 120.0


@dataclass(frozen=True, kw_only=True)
class WordCountSettings:
    """How long the reader reads and stands still."""

    stalls: int = 2
    stall_seconds: float = 2.0
    flow_seconds: float = 1.5
    """Before, between and after the stalls."""
    kill: bool = False
    """Kill the counting worker after the last stall."""

    def __post_init__(self) -> None:
        """Refuse what shows nothing.

        Raises:
            InvalidOptionError: a time is too short, or there is no stall.
        """
        if self.stalls < 1:
            raise InvalidOptionError(option="--stalls", value=self.stalls, reason="must be at least 1")
        for name in ("stall_seconds", "flow_seconds"):
            if not 0 < getattr(self, name) < inf:  # NaN neither
                option = f"--{name.replace('_', '-')}"
                raise InvalidOptionError(option=option, value=getattr(self, name), reason="must be above 0, and finite")


@dataclass(frozen=True, kw_only=True)
class SourceReport:
    """How long one source was muted."""

    source: str
    muted_seconds: float
    muted_share: float
    """The share of the time since it was there."""
    longest_seconds: float
    mutes: int


@dataclass(frozen=True, kw_only=True)
class WordCountReport:
    """What a run came to."""

    seconds: float
    words: int
    different_words: int
    is_exact: bool
    peak_held_bytes: int
    """The most bytes that were sent, and not in the reader's counts."""
    bound_bytes: int
    """What ``pipeline_bound`` says that may be, from the sizes of all sockets."""
    sources: Sequence[SourceReport]
    unmuted_stalls: int
    """Stalls during which a source went on reading."""
    deaths: Sequence[str]

    @property
    def problems(self) -> list[str]:
        """The failed checks."""
        found = []
        if not self.is_exact:
            found.append("the reader's counts differ from the words that were sent")
        if self.peak_held_bytes > self.bound_bytes:
            found.append(f"{self.peak_held_bytes:,} bytes were held, and {self.bound_bytes:,} may be")
        if self.unmuted_stalls:
            found.append(f"in {self.unmuted_stalls} stalls no source was muted: choose a longer --stall-seconds")
        return found

    @property
    def holds(self) -> bool:
        """Did all checks pass?"""
        return not self.problems

    def as_json(self) -> dict[str, object]:
        """For programs."""
        return {**asdict(self), "problems": self.problems, "holds": self.holds}


@dataclass
class _Run:
    """A run so far."""

    settings: WordCountSettings
    folder: Path
    note: Callable[[str], None]
    ending: asyncio.Event
    began: float = field(default_factory=monotonic)
    reader: CountReader = field(default_factory=lambda: CountReader(BUFFERS))
    workers: list[WorkerProcess] = field(default_factory=list)
    senders: list[WordSender] = field(default_factory=list)
    sent: Counter[bytes] = field(default_factory=Counter)
    is_over: bool = False
    is_measuring: bool = True
    peak_held_bytes: int = 0
    opened: dict[str, float] = field(default_factory=dict)
    muted: dict[str, tuple[float, str]] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)
    spans: dict[str, list[Span]] = field(default_factory=dict)
    stalls: list[Span] = field(default_factory=list)
    deaths: list[Span] = field(default_factory=list)
    samples: list[tuple[float, int, int]] = field(default_factory=list)

    @property
    def now(self) -> float:
        return monotonic() - self.began

    async def is_ended_within(self, seconds: float) -> bool:
        return await is_set_within(self.ending, seconds)

    def say(self, text: str) -> None:
        self.note(f"{self.now:6.2f} s  {text}")

    # What the workers report.

    def hear(self, event: Event) -> None:
        name = str(event.get("source", ""))
        at = float(str(event["at_seconds"])) - self.began if "at_seconds" in event else self.now
        match event["event"]:
            case "opened" if name:
                self.opened[name] = at
                self.spans[name] = []
            case "muted" if name in self.spans:
                self.muted[name] = at, ", ".join(str(muter) for muter in _listed(event["by"]))
            case "unmuted" if name in self.muted:
                begin, by = self.muted.pop(name)
                self.spans[name].append(Span(begin=begin, end=at, text=by))
                if name in self.told:
                    self.told.remove(name)
                    self.say(f"{name} reads again, after {at - begin:.2f} s")
            case "stalled" if name in self.muted:
                # By now, the sink that stands still may have taken the place of others.
                by = ", ".join(str(muter) for muter in _listed(event["by"]))
                self.muted[name] = self.muted[name][0], by
                self.told.add(name)
                self.say(f"{name} is muted by {by}")
            case "closed" if name in self.muted:
                begin, by = self.muted.pop(name)
                self.told.discard(name)
                self.spans[name].append(Span(begin=begin, end=at, text=by))
            case "died":
                self.say(str(event["reason"]))
                self.deaths.append(Span(begin=at, end=at, text="died"))
            case "ready" if self.deaths and self.deaths[-1].begin == self.deaths[-1].end:
                self.deaths[-1] = Span(begin=self.deaths[-1].begin, end=at, text="starts again")
                self.say(f"{event['worker']} runs again, with its saved counts")

    # The outside.

    def words(self) -> Iterator[bytes]:
        while not self.is_over:
            for word in TEXT:
                self.sent[word] += 1
                yield word

    def held_bytes(self) -> int:
        return sum(sender.sent_bytes for sender in self.senders) - self.reader.counted_bytes

    def look(self) -> None:
        if self.is_measuring:
            self.peak_held_bytes = max(self.peak_held_bytes, self.held_bytes())

    async def sample(self) -> None:
        while True:
            sent = sum(sender.sent_bytes for sender in self.senders)
            self.samples.append((self.now, sent, self.reader.counted_bytes))
            await asyncio.sleep(SAMPLE_SECONDS)

    # The processes.

    async def start(self, stack: AsyncExitStack, group: asyncio.TaskGroup, settings: WorkerSettings) -> WorkerProcess:
        ready = asyncio.Event()

        def hear(event: Event) -> None:
            if event["event"] == "ready":
                ready.set()
            self.hear(event)

        worker = WorkerProcess(settings, self.folder, hear)
        self.workers.append(worker)
        group.create_task(worker.run())
        stack.push_async_callback(worker.stop)
        async with asyncio.timeout(START_SECONDS):
            await ready.wait()
        return worker

    async def add_front(self, stack: AsyncExitStack, group: asyncio.TaskGroup, inlet: str) -> None:
        name = f"front{len(self.senders) + 1}"
        front = await self.start(
            stack, group, _worker(name, listen="127.0.0.1:0", next_worker=inlet, high_mark=HIGH_MARK, low_mark=LOW_MARK)
        )
        sender = WordSender(self.words(), BUFFERS, self.look)
        self.senders.append(sender)
        stack.callback(sender.close)
        await sender.connect(address_of(front.addresses["listen"]))


def _worker(name: str, **settings: object) -> WorkerSettings:
    common = asdict(BUFFERS) | {
        "read_bytes": READ_BYTES,
        "line_bytes": LINE_BYTES,
        "stall_seconds": WORTH_TELLING_SECONDS,
    }
    return WorkerSettings(name=name, **(common | settings))


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


async def run_wordcount(
    settings: WordCountSettings, folder: Path, note: Callable[[str], None], ending: asyncio.Event
) -> tuple[WordCountReport, str]:
    """Run the demo to its end, and return its report and its page; cancellation ends all processes.

    Args:
        settings: how long everything takes.
        folder: for logs and saved counts.
        note: is called with a line for each event.
        ending: ends the run early when it is set: the senders stop, and everything sent is counted.

    Raises:
        DemoError: a worker fails again and again, or the counts do not come.
    """
    run = _Run(settings, folder, note, ending)
    with first_error(DemoError), closing(run.reader):
        async with asyncio.TaskGroup() as group, AsyncExitStack() as stack:
            try:
                await _play(run, stack, group)
            except TimeoutError as error:
                reason = "a worker does not start, or the counts do not come: see the logs, --keep DIR"
                raise DemoError(reason) from error
    return _report(run), _timeline(run).page()


async def _play(run: _Run, stack: AsyncExitStack, group: asyncio.TaskGroup) -> None:
    saved, sinks = str(run.folder / "back.counts.json"), [text_of(run.reader.address)]
    back = await run.start(stack, group, _worker("back", inlet="127.0.0.1:0", saved=saved, sinks=sinks))
    await run.add_front(stack, group, back.addresses["inlet"])
    sampling = asyncio.create_task(run.sample())
    stack.callback(sampling.cancel)
    run.say("the words flow")
    if await _stand_still_at_times(run, stack, group, back):
        run.say("asked to end: the senders stop, and what they have sent is counted")
    run.is_over = True
    async with asyncio.timeout(END_SECONDS):
        for sender in run.senders:
            await sender.ended.wait()
        run.say("the senders have ended")
        while True:
            await asyncio.sleep(SAMPLE_SECONDS / 10)
            # Workers may tell later than counts arrive that a source reads again.
            if run.reader.counts == run.sent and not run.told:
                break
    run.say("the reader has all counts")
    with suppress(asyncio.CancelledError):
        sampling.cancel()
        await sampling


async def _stand_still_at_times(
    run: _Run, stack: AsyncExitStack, group: asyncio.TaskGroup, back: WorkerProcess
) -> bool:
    """Let the reader stand still as often as the settings say; returns whether the run was asked to end before."""
    settings = run.settings
    if await run.is_ended_within(settings.flow_seconds):
        return True
    for number in range(settings.stalls):
        run.say("the reader stands still")
        begin = run.now
        run.reader.stand_still()
        try:
            if await run.is_ended_within(settings.stall_seconds / 2):
                return True
            if not number:
                await run.add_front(stack, group, back.addresses["inlet"])
                run.say("a worker is added, with a sender of its own")
            if await run.is_ended_within(settings.stall_seconds / 2):
                return True
            run.say("the reader goes on")
        finally:
            run.reader.go_on()
        run.stalls.append(Span(begin=begin, end=run.now, text="stands still"))
        if await run.is_ended_within(settings.flow_seconds):
            return True
    if not settings.kill:
        return False
    # The counts that it has saved and the reader lacks are held nowhere: it tells them again.
    run.is_measuring = False
    run.say("the worker that counts is killed")
    back.kill()
    return await run.is_ended_within(settings.flow_seconds)


def _report(run: _Run) -> WordCountReport:
    sources = []
    for name, spans in run.spans.items():
        lasted = [span.end - span.begin for span in spans]
        sources.append(
            SourceReport(
                source=name,
                muted_seconds=sum(lasted),
                muted_share=sum(lasted) / (run.now - run.opened[name]),
                longest_seconds=max(lasted, default=0.0),
                mutes=len(spans),
            )
        )
    bound = pipeline_bound(
        # All sockets have asked for the same, and the kernel gives the same to all.
        sources=[(sender.sizes, run.reader.sizes) for sender in run.senders],
        sinks=[(run.senders[0].sizes, run.reader.sizes)],
        read_bytes=READ_BYTES,
        line_bytes=LINE_BYTES,
        unacknowledged=HIGH_MARK,
        boundaries=len(run.senders),
    )
    all_spans = [span for spans in run.spans.values() for span in spans]
    return WordCountReport(
        seconds=run.now,
        words=run.sent.total(),
        different_words=len(run.sent),
        is_exact=run.reader.counts == run.sent,
        peak_held_bytes=run.peak_held_bytes,
        bound_bytes=bound.total,
        sources=sources,
        unmuted_stalls=sum(
            not any(span.begin < stall.end and span.end > stall.begin for span in all_spans) for stall in run.stalls
        ),
        deaths=[str(death) for worker in run.workers for death in worker.deaths],
    )


def _timeline(run: _Run) -> MuteTimeline:
    report = _report(run)
    lanes = [Lane(name="reader", spans=run.stalls, colour="unreturned")]
    lanes += [Lane(name=f"{name} is muted", spans=spans, colour="wire") for name, spans in run.spans.items()]
    if run.deaths:
        lanes.append(Lane(name="back", spans=run.deaths, colour="inbox"))
    rates = [
        (later[0], (later[place] - earlier[place]) / (later[0] - earlier[0]) / 1024)
        for place in (1, 2)
        for earlier, later in pairwise(run.samples)
    ]
    half = len(rates) // 2
    longest = max((source.longest_seconds for source in report.sources), default=0.0)
    return MuteTimeline(
        title="Word count: a reader that stands still stops the senders",
        sentence=(
            f"The reader stood still {len(run.stalls)} times. The worker that writes to it could not write, muted the "
            f"sources for up to {longest:.2f} s, and TCP stopped the senders."
        ),
        seconds=report.seconds,
        lanes=lanes,
        curves=[
            Curve(name="sent", points=rates[:half], colour="series-1"),
            Curve(name="in the reader's counts", points=rates[half:], colour="series-3"),
        ],
        curves_title="KiB of words a second",
        rows=figures(report),
        origin="permitflow demo wordcount",
    )


def figures(report: WordCountReport) -> list[tuple[str, str]]:
    """The report as names and values, for people."""
    rows = [
        (
            f"{source.source} was muted",
            f"{source.muted_share:.0%} of the time, {source.mutes:,} times, {source.longest_seconds:.2f} s at most",
        )
        for source in report.sources
    ]
    rows += [
        ("sent and not counted, at most", f"{report.peak_held_bytes:,} bytes"),
        ("bound, from the sizes of all sockets", f"{report.bound_bytes:,} bytes"),
        ("words", f"{report.words:,}, {report.different_words} different ones"),
        ("counts", "exact" if report.is_exact else "NOT exact"),
    ]
    return rows + [("died and was started again", death) for death in report.deaths]
