"""A word count whose processes mute each other, over simulated connections, while processes, lines and disks fail.

    log, senders ─> front ─boundary─> back ─> readers, another log        or one process with all of it

The workers are built by the package's own program.  The log, the senders and the readers are outside: only a worker
dies.  The laws:

1. The model allows what each process knows and tells whenever it has settled (``mute_oracle``); a source that is muted
   does not read, and what waits at a boundary has a bound.
2. What a process hears of those behind it is a beginning of what one of them has told it, in order; in the end, all.
3. What a log was told is safe, is in the file of the worker that counts.
4. In the end each word of a log is counted once; a sender's too, unless its own line or its worker was lost, and never
   twice.  Readers and logs have these counts.
5. While no words can be lost, those between senders and readers have the bound of ``pipeline_bound``.
6. A source that has heard that a muter of the next worker mutes does not read before that one unmutes or dies,
   whichever lines are lost.
7. After the last fault everybody comes to an end, and nothing is left behind.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from random import Random
from typing import Any, Final, Literal

from examples.child_process import text_of
from examples.wordcount.counting import WordCount
from examples.wordcount.log import LOG
from examples.wordcount.outside import CountReader, WordSender
from examples.wordcount.worker import Worker, WorkerSettings
from permitflow.errors import SinkStalledError
from permitflow.mute import Buffers
from permitflow.mute.graph import Edge, Signal
from permitflow.mute.pipeline import Event, pipeline_bound
from permitflow.mute.saving import Saving
from tests.simulator.disk import NEVER, SimulatedDisk
from tests.simulator.mute_oracle import JudgedPipeline
from tests.simulator.outcome import Outcome
from tests.simulator.sockets import Conditions, Network, SimulatedSocket
from tests.simulator.surroundings import simulated_run
from tests.simulator.world import Host, WaitsForEver, World
from tests.support.log_server import LogServer

FRONT: Final = "front"
BACK: Final = "back"
LOGS: Final = "logs"
READER: Final = "reader"
BUFFERS: Final = Buffers(receive_bytes=4_608, send_bytes=4_608)
DIFFERENT_WORDS: Final = 7
PATIENCE_SECONDS: Final = 400.0
_RESTART_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.5
_VISIT_SECONDS: Final = 0.3
_HELD_SECONDS: Final = 4.0
"""Longer than a boundary takes to connect again."""
_QUIET_LOOKS: Final = 8
"""So many looks at which nothing was left to do: then all is over."""
_INLET, _READ_FROM, _LISTEN_PORT = (BACK, 7_001), (BACK, 7_003), 7_002
_IN, _OUT = "in", "out"
_COUNTS: Final = "/back/counts.json"

Part = Literal["front", "back"]


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """Something that goes wrong after so many turns."""

    turn: int
    what: str
    whose: str
    """A host; of a connection, whose dialler it is."""
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All that is drawn before a run."""

    seed: int
    has_front: bool
    """Else one process has all."""
    lines: int
    """Of the log."""
    lines_at_once: int
    """That the log answers."""
    words: tuple[int, ...]
    """For each sender."""
    outputs: tuple[str, ...]
    """Readers to connect to, readers that connect, logs."""
    high_mark: int
    low_mark: int
    read_bytes: int
    conditions: Conditions
    troubles: tuple[Trouble, ...]
    dies_in_operation: int
    """Of the disk, in the first life of the process that counts; 0: it does not."""
    turn_seconds: float
    most_in_turn: int
    cuts_held: bool
    """Is the line between the workers cut while a muter behind it goes on to mute?"""

    @classmethod
    def drawn(cls, seed: int) -> "Plan":
        """Draw."""
        random = Random(f"mute {seed}")
        has_front = random.random() < 0.75
        lines = random.choice((0, 3, 20, 90))
        words = tuple(random.choice((1, 20, 150)) for _ in range(random.choice((0, 1, 2) if lines else (1, 2))))
        outputs = tuple(random.sample(("dialled", "listening", "log"), k=random.choice((1, 1, 2))))
        high_mark = random.choice((1, 3, 8))
        troubles = tuple(_troubles(random, has_front=has_front, lines=lines, senders=len(words), outputs=outputs))
        return cls(
            seed=seed,
            has_front=has_front,
            lines=lines,
            lines_at_once=random.choice((1, 3, 10)),
            words=words,
            outputs=outputs,
            high_mark=high_mark,
            low_mark=random.randint(0, high_mark),
            read_bytes=random.choice((12, 100, 4_096)),
            conditions=Conditions(
                most_latency_seconds=random.choice((2e-4, 1e-3, 0.03)),
                capacity_bytes=random.choice((100, 600, 1 << 16)),
                short_share=random.choice((0.0, 0.0, 0.1, 0.5)),
            ),
            troubles=troubles,
            dies_in_operation=random.choice((0, 0, random.randint(1, 40))),
            turn_seconds=random.choice((1e-6, 2e-5)),
            most_in_turn=random.choice((1, 4, 64)),
            cuts_held=has_front and random.random() < 0.5,
        )

    @property
    def source_part(self) -> Part:
        """The process that has the sources."""
        return FRONT if self.has_front else BACK

    @property
    def parts(self) -> tuple[Part, ...]:
        """All processes of the pipeline."""
        return (FRONT, BACK) if self.has_front else (BACK,)

    @property
    def may_lose_words(self) -> bool:
        """Is more lost than what a pipeline makes up for?"""
        if not self.has_front and self.dies_in_operation:
            return True
        for trouble in self.troubles:
            if trouble.what == "crash" and trouble.whose == self.source_part:
                return True
            if trouble.what not in ("pause", "crash", "full", "stand still") and trouble.whose.startswith("sender"):
                return True
        return False

    def sent(self) -> Iterator[tuple[int, bytes]]:
        """All words of senders, with their sender."""
        return ((number, word) for number, count in enumerate(self.words) for word in _words(number, count))


def _words(number: int, count: int) -> list[bytes]:
    return [b"s%d.%d" % (number, place % DIFFERENT_WORDS) for place in range(count)]


def _line(number: int) -> bytes:
    return b"l%d l%d" % (number % DIFFERENT_WORDS, number % 3)


def _troubles(
    random: Random, *, has_front: bool, lines: int, senders: int, outputs: tuple[str, ...]
) -> Iterator[Trouble]:
    sources = FRONT if has_front else BACK
    lines_of = [*([FRONT] if has_front else ()), *([sources] if lines else ()), BACK]
    lines_of += [f"sender{number}" for number in range(senders)] if random.random() < 0.3 else []
    kinds = ("cut", "half-close", "silence", "flip", "part", "pause", "crash", "full", "stand still")
    chosen = random.sample(kinds, k=random.choice((0, 1, 2, 3)))
    for _ in range(random.choice((1, 2, 4)) if chosen else 0):
        what = random.choice(chosen)
        if what == "crash":
            whose = random.choice((FRONT, BACK, BACK)) if has_front else BACK
        elif what in ("full", "stand still"):
            whose = {"full": BACK, "stand still": random.choice((READER, LOGS))}[what]
        elif what == "pause":
            whose = random.choice((*((FRONT,) if has_front else ()), BACK, LOGS, READER))
        else:
            whose = random.choice(lines_of)
        yield Trouble(
            turn=random.randrange(random.choice((100, 600, 3_000))),
            what=what,
            whose=whose,
            seconds=random.choice((0.01, 2.0, 15.0, 40.0)),
        )


@dataclass
class Life:
    """A process of the pipeline, from its start to its end."""

    part: Part
    name: str
    host: Host
    worker: Worker | None = None
    is_to_end: asyncio.Event = field(default_factory=asyncio.Event)
    callers: dict[str, str] = field(default_factory=dict)
    """By connection of the inlet: the boundary that has called."""
    connected: set[str] = field(default_factory=set)
    """Sinks and boundaries whose other end is there."""


class SimulatedPath:
    """A path on a simulated disk, as the word count uses one."""

    def __init__(self, disk: SimulatedDisk, path: str) -> None:
        self._disk, self._path = disk, path

    @property
    def name(self) -> str:
        """See ``Path``."""
        return self._path.rpartition("/")[2]

    def with_name(self, name: str) -> "SimulatedPath":
        """See ``Path``."""
        return SimulatedPath(self._disk, f"{self._path.rpartition('/')[0]}/{name}")

    def exists(self) -> bool:
        """See ``Path``."""
        return self._disk.find(self._path) is not None

    def read_text(self) -> str:
        """See ``Path``."""
        file = self._disk.find(self._path)
        assert file is not None, "it exists"
        return file.content.decode()

    def write_text(self, text: str) -> None:
        """See ``Path``; in two operations, between which the process may die."""
        content, file = text.encode(), self._disk.make(self._path)
        middle = len(content) // 2
        self._disk.write(file, 0, content[:middle])
        self._disk.write(file, middle, content[middle:])

    def replace(self, other: "SimulatedPath") -> None:
        """See ``Path``."""
        self._disk.rename(self._path, other._path)


class MuteRun:
    """One run."""

    def __init__(self, plan: Plan, *, tells: bool = False) -> None:
        """``tells``: keep the story."""
        self.plan = plan
        self.world = World(plan.seed, turn_seconds=plan.turn_seconds, most_in_turn=plan.most_in_turn, tells=tells)
        self.network = Network(self.world, plan.conditions)
        self.disk = SimulatedDisk(self.world.random)
        self.disk.on_crash = lambda: self._kill(BACK)
        self.broken: list[str] = []
        self.seen: Counter[str] = Counter()
        self.steps: Counter[str] = Counter()
        self.states: set[object] = set()
        self.lives: list[Life] = []
        self._now: dict[Part, Life] = {}
        self._outside: dict[str, Host] = {}
        self._senders: dict[int, WordSender] = {}
        self._is_over: dict[int, bool] = dict.fromkeys(range(len(plan.words)), False)
        self._readers: dict[str, CountReader] = {}
        self._logs: dict[str, LogServer] = {}
        """The one that words come from, and the one that counts go to."""
        self._visits: asyncio.Task[None] | None = None
        self._quiet_looks = self._stopped = 0
        self._is_stopping = False
        self._cuts_held = plan.cuts_held
        self._calm_at = 0.0

    def run(self) -> Outcome:
        """Run it to its end, and judge it."""
        outcome = Outcome(self.plan.seed, seen=self.seen, steps=self.steps, states=self.states)
        with simulated_run(self.world, outcome):
            self._run()
            outcome.broken += self.broken
        return outcome

    def _run(self) -> None:
        world, plan = self.world, self.plan
        if plan.dies_in_operation:
            self.disk.crashes_at = plan.dies_in_operation
        self._begin(LOGS, self._keep_logs)
        self._begin(READER, self._read)
        for part in plan.parts:
            self._start(part)
        for number in range(len(plan.words)):
            self._begin(f"sender{number}", partial(self._send, number))
        for trouble in plan.troubles:
            world.at_turn(trouble.turn, self._bring, trouble)
        world.after(_LOOK_SECONDS, self._look)
        try:
            world.run(until=PATIENCE_SECONDS + sum(trouble.seconds for trouble in plan.troubles))
            self._judge()
            self._stop()
            world.run(until=world.now + 60.0)
            self.broken += self.world.left_behind()
        except WaitsForEver as error:
            self.broken.append(f"{error}: {self._who_waits()}")

    def _begin(self, name: str, act: Callable[[], Any]) -> Host:
        host = self._outside[name] = self.world.new_host(name)
        host.schedule(lambda: host.create_task(act(), name=f"main of {name}"))
        return host

    # The outside.

    async def _keep_logs(self) -> None:
        self._logs[_IN] = LogServer([], most_lines=self.plan.lines_at_once, buffers=BUFFERS)
        self._logs[_OUT] = LogServer([], acknowledge_after=3, buffers=BUFFERS)
        numbers = [*range(self.plan.lines)]
        while numbers:
            at_once = self.world.random.choice((1, 7, 90))
            self._logs[_IN].append([_line(number) for number in numbers[:at_once]])
            del numbers[:at_once]
            await asyncio.sleep(self.world.random.choice((0.0, 1e-3, 0.2)))

    async def _read(self) -> None:
        for output in self.plan.outputs:
            if output != "log":
                self._readers[output] = CountReader(BUFFERS)
        if (reader := self._readers.get("listening")) is not None:
            self._visits = asyncio.create_task(self._visit(reader), name="visits")

    async def _visit(self, reader: CountReader) -> None:
        while True:
            with suppress(OSError):
                await reader.visit(_READ_FROM)
                await reader.ended.wait()
            await asyncio.sleep(_VISIT_SECONDS)

    async def _send(self, number: int) -> None:
        address = (self.plan.source_part, _LISTEN_PORT)
        while True:
            sender = WordSender(_words(number, self.plan.words[number]), BUFFERS)
            try:
                await sender.connect(address)
                break
            except OSError:
                await asyncio.sleep(_VISIT_SECONDS)
        self._senders[number] = sender
        await sender.ended.wait()
        self._is_over[number] = True
        self.seen["a sender is told of a loss" if sender.failure else "a sender has sent all"] += 1

    # The pipeline.

    def _start(self, part: Part) -> None:
        if self._is_stopping:
            return
        if not self._has_outside:
            self.world.after(1e-3, self._start, part)
            return
        starts = sum(life.part == part for life in self.lives)
        life = Life(part, f"{part}#{starts}", self.world.new_host(part))
        self.lives.append(life)
        self._now[part] = life
        if part == BACK:
            self.disk.go_on(had_power=True)
            if not starts and self.plan.dies_in_operation:
                self.disk.crashes_at = self.plan.dies_in_operation
        life.host.schedule(lambda: life.host.create_task(self._work(life), name=f"main of {life.name}"))

    @property
    def _has_outside(self) -> bool:
        return len(self._logs) == 2 and all(output == "log" or output in self._readers for output in self.plan.outputs)

    def _settings(self, life: Life) -> WorkerSettings:
        plan = self.plan
        options: dict[str, Any] = {}
        if life.part == plan.source_part:
            options["log"] = text_of(self._logs[_IN].address) if plan.lines else ""
            options["listen"] = text_of((life.part, _LISTEN_PORT)) if plan.words else ""
        if life.part == BACK:
            options["inlet"] = text_of(_INLET) if plan.has_front else ""
            if "dialled" in plan.outputs:
                options["sinks"] = (text_of(self._readers["dialled"].address),)
            if "listening" in plan.outputs:
                options["listening_sinks"] = (text_of(_READ_FROM),)
            if "log" in plan.outputs:
                options["log_sinks"] = (text_of(self._logs[_OUT].address),)
            options["saved"] = _COUNTS
        else:
            options["next_worker"] = text_of(_INLET)
        return WorkerSettings(
            name=life.name,
            high_mark=plan.high_mark,
            low_mark=plan.low_mark,
            read_bytes=plan.read_bytes,
            receive_bytes=BUFFERS.receive_bytes,
            send_bytes=BUFFERS.send_bytes,
            **options,
        )

    async def _work(self, life: Life) -> None:
        """As ``Worker.run``, with parts that can be watched."""
        settings, hear = self._settings(life), partial(self._hear, life)
        words, saved = WordCount(), None
        if settings.saved:
            saved = SimulatedPath(self.disk, settings.saved)
            words.load(saved)  # type: ignore[arg-type]  # it has what is used of a path
        saving = Saving(
            None if saved is None else partial(words.save, saved),  # type: ignore[arg-type]
            after=settings.low_mark // 2 + 1,
            hear=hear,
        )
        pipeline = JudgedPipeline(
            life.name,
            hear=hear,
            broken=self.broken,
            steps=self.steps,
            states=self.states,
            stall_seconds=settings.stall_seconds,
        )
        worker = life.worker = Worker(settings, pipeline, saving, words)
        try:
            worker.build()
            await life.is_to_end.wait()
            try:
                await pipeline.drain(5.0)
            except SinkStalledError as error:
                self.broken.append(f"{life.name}: all is over, and {error}")
        except Exception as error:
            self.broken.append(f"{life.name} fails: {error!r}")
            raise
        finally:
            saving.close()
            pipeline.close()

    def _hear(self, life: Life, event: Event) -> None:
        if life.host.is_running_now:
            what = str(event["event"])
            self.seen[what] += 1
            facts = {key: value for key, value in event.items() if key not in ("event", "at_seconds")}
            self.world.tell(life.name, f"{what} {facts}")
            if what == "opened" and "inlet" in event:
                life.callers[str(event["inlet"])] = str(event["from"])
            if life.part == FRONT and what == "muted":
                self._trouble_held(life)
            if life.part == FRONT and what == "unmuted":
                self._require_held(life)
            for muter in (str(event[key]) for key in ("boundary", "sink") if key in event):
                if what in ("opened", "lost"):
                    (life.connected.add if what == "opened" else life.connected.discard)(muter)

    def _kill(self, part: Part) -> None:
        life = self._now.get(part)
        if life is None or not life.host.is_running_now or self._is_stopping:
            return
        self.world.tell(life.name, "dies")
        self.seen["crash"] += 1
        self._calm_at = max(self._calm_at, self.world.now + _RESTART_SECONDS)
        self.network.crash(life.host, is_power=False)
        self._require_safe()
        self.world.after(_RESTART_SECONDS, self._start, part)

    # Trouble.

    def _bring(self, trouble: Trouble) -> None:
        world, network, what, seconds = self.world, self.network, trouble.what, trouble.seconds
        if self._is_stopping:
            return
        self._calm_at = max(self._calm_at, world.now + seconds)
        life = self._now.get(trouble.whose)  # type: ignore[call-overload]
        host = life.host if life is not None else self._outside.get(trouble.whose)
        if host is None or not host.is_running_now:
            return
        match what:
            case "crash":
                self._kill(trouble.whose)  # type: ignore[arg-type]
                return
            case "pause":
                world.tell(host.name, f"is stopped for {seconds:g} s")
                host.pause()
                world.after(seconds, host.go_on)
            case "full":
                world.tell(host.name, f"has a full disk for {seconds:g} s")
                self.disk.faults.capacity_bytes = self.disk.used_bytes()
                world.after(seconds, self._make_room)
            case "stand still":
                world.tell(host.name, f"stands still for {seconds:g} s")
                host.schedule(self._stand_still, trouble.whose)
                world.after(seconds, host.schedule, self._go_on, trouble.whose)
            case "part":
                other = self._other_of(trouble.whose)
                network.part(host.name, other, seconds)
            case _:
                open_ = [ends for ends in network.open_connections() if ends[0].host is host]
                if not open_:
                    return
                self._spoil(what, world.random.choice(open_), min(seconds, 2.0))
        self.seen[what] += 1

    def _spoil(self, what: str, ends: tuple[SimulatedSocket, SimulatedSocket], late: float) -> None:
        random, network = self.world.random, self.network
        pipe = random.choice(ends).outgoing
        assert pipe is not None, "it is connected"
        is_plain = ends[0].host.name.startswith("sender") or READER in (ends[0].host.name, ends[1].host.name)
        if what == "flip" and not is_plain:
            pipe.flips_next = True
        elif what == "silence":
            network.silence(ends, pipe)
        elif what == "half-close":
            network.end_early(ends, pipe)
        else:  # nothing notices that words were altered
            network.cut(ends, random.choice(((0.0, late), (late, 0.0), (None, late), (late, None), (0.0, 0.0))))

    def _other_of(self, whose: str) -> str:
        if whose.startswith("sender"):
            return self.plan.source_part
        return self.world.random.choice((LOGS, READER) if whose == BACK else (BACK, LOGS))

    def _trouble_held(self, life: Life) -> None:
        """Let those behind the workers stand still, and cut the line between the workers meanwhile."""
        if self._cuts_held and any(self._held_by(life)):
            self._cuts_held = False
            for whose in (READER, LOGS):
                self._bring(Trouble(turn=0, what="stand still", whose=whose, seconds=_HELD_SECONDS))
            self.world.after(_HELD_SECONDS / 2, self._cut_between)

    def _cut_between(self) -> None:
        for ends in self.network.open_connections():
            if (ends[0].host.name, ends[1].host.name) == (FRONT, BACK):
                self._spoil("cut", ends, 0.0)
                self.seen["cut while held"] += 1

    def _make_room(self) -> None:
        self.disk.faults.capacity_bytes = NEVER

    def _stand_still(self, whose: str) -> None:
        if whose == LOGS and _OUT in self._logs:
            self._logs[_OUT].stand_still()
        for reader in self._readers.values() if whose == READER else ():
            reader.stand_still()

    def _go_on(self, whose: str) -> None:
        if whose == LOGS and _OUT in self._logs:
            self._logs[_OUT].go_on()
        for reader in self._readers.values() if whose == READER else ():
            reader.go_on()

    # Looking.

    def _look(self) -> None:
        self.world.after(_LOOK_SECONDS, self._look)
        self._require_safe()
        self._require_bound()
        self._require_muting()
        self._quiet_looks = self._quiet_looks + 1 if self._has_nothing_to_do() else 0
        if self._quiet_looks == _QUIET_LOOKS:
            self.world.stop()

    def _require_safe(self) -> None:
        """What the log was told is safe is in the file, while no process is in the middle of a change."""
        if _IN in self._logs:
            content = self.disk.content_of(_COUNTS)
            saved = 0 if content is None else json.loads(content)["next_lines"].get(LOG, 0)
            if saved < self._logs[_IN].committed:
                told = self._logs[_IN].committed
                self.broken.append(f"the log was told that {told} lines are safe, and {saved} are saved")

    def _require_muting(self) -> None:
        """Who has nobody to send to mutes."""
        for life in self._now.values():
            if life.host.is_running_now and life.worker is not None:
                graph = life.worker.pipeline.graph
                for muter in self._muters_of(life):
                    if muter not in life.connected and not graph.is_muting(muter):
                        self.broken.append(f"{muter} is cut off, and does not mute")

    def _require_held(self, life: Life) -> None:
        """Who has heard that a muter of the next worker mutes does not read before that one unmutes or dies."""
        if held_by := [*self._held_by(life)]:
            self.broken.append(f"a source of {life.name} may read, and {held_by} mute")

    def _held_by(self, life: Life) -> Iterator[str]:
        """The muters of the next worker that mute, as a worker has heard once."""
        back = self._now.get(BACK)
        if back is None or not back.host.is_running_now or back.worker is None:
            return
        graph, heard = back.worker.pipeline.graph, {*chain.from_iterable(self._signals_heard(life))}
        for muter in self._muters_of(back):
            if graph.is_muting(muter) and Signal(muter, graph.heard(muter)[muter]) in heard:
                yield muter

    @staticmethod
    def _muters_of(life: Life) -> Iterator[str]:
        if life.worker is not None and isinstance(life.worker.pipeline, JudgedPipeline):
            yield from life.worker.pipeline.graph.marks

    def _require_bound(self) -> None:
        """The guide's bound, where all input is from senders, and comes out at readers."""
        plan = self.plan
        if plan.lines or "log" in plan.outputs or plan.may_lose_words or self._is_disturbed or not self._senders:
            return
        workers = [life.worker for life in self._now.values()]
        if None in workers or len(workers) < len(plan.parts):
            return
        sizes = Buffers(receive_bytes=self._size_bytes, send_bytes=self._size_bytes)
        bound = pipeline_bound(
            sources=[(sizes, sizes) for _ in plan.words],
            sinks=[(sizes, sizes) for _ in plan.outputs],
            read_bytes=plan.read_bytes,
            unacknowledged=plan.high_mark,
            boundaries=len(plan.parts) - 1,
        )
        sent = sum(sender.sent_bytes for sender in self._senders.values())
        counted = sum(reader.counted_bytes for reader in self._readers.values())
        self.steps["Bound"] += 1
        if sent - counted > bound.total:
            self.broken.append(f"{sent - counted} bytes are under way, and {bound.total} are the bound")

    @property
    def _size_bytes(self) -> int:
        return max(4_608, self.plan.conditions.capacity_bytes // 2)

    @property
    def _is_disturbed(self) -> bool:
        return self.plan.cuts_held or any(
            trouble.what not in ("pause", "stand still", "full") for trouble in self.plan.troubles
        )

    def _has_nothing_to_do(self) -> bool:
        lives = [*self._now.values()]
        return (
            self.world.now > self._calm_at
            and len(lives) == len(self.plan.parts)
            and all(life.host.is_running_now and life.worker is not None for life in lives)
            and all(self._is_over.values())
            and len(self._logs[_IN].lines) == self.plan.lines == self._logs[_IN].committed
            and not any(chain.from_iterable(life.worker.pipeline.backlogs.values() for life in lives if life.worker))
            and not any("/in/" in name for life in lives if life.worker for name in life.worker.pipeline.state())
            and not any(self._who_is_cut_off())
            and not any(self._unheard())  # a line that is silent is given up in time, and made again
            and self._is_told()
        )

    def _who_is_cut_off(self) -> Iterator[str]:
        """Muters without a connection."""
        for life in self._now.values():
            if life.worker is not None and isinstance(life.worker.pipeline, JudgedPipeline):
                yield from life.worker.pipeline.graph.closed

    def _is_told(self) -> bool:
        """Have readers and logs the last counts, and larger ones only of words that the counting process has lost?"""
        told, counts = self._told(), self._counts()
        return told >= counts and (self.plan.may_lose_words or told == counts)

    def _counts(self) -> Counter[bytes]:
        worker = self._now[BACK].worker
        return Counter() if worker is None else worker.words.counts

    def _told(self) -> Counter[bytes]:
        """What readers and logs have."""
        told: Counter[bytes] = Counter()
        for reader in self._readers.values():
            told |= reader.counts
        for line in self._logs[_OUT].appended if _OUT in self._logs else ():
            word, _, number = line.partition(b"\t")
            told[word] = max(told[word], int(number))
        return told

    def _who_waits(self) -> str:
        left = [f"sender{number}" for number, is_over in self._is_over.items() if not is_over]
        for part, life in self._now.items():
            if life.worker is not None:
                pipeline = life.worker.pipeline
                left.append(f"{part} has {dict(pipeline.backlogs)} at its muters, sources {dict(pipeline.state())}")
        left += [f"{muter} is cut off" for muter in self._who_is_cut_off()]
        if _IN in self._logs:
            left.append(f"of {self.plan.lines} lines {self._logs[_IN].committed} are committed")
        if (told := self._told()) != (counts := self._counts() if BACK in self._now else Counter()):
            left.append(f"readers have {told}, and counted are {counts}")
        return "; ".join(left)

    # Laws.

    def _judge(self) -> None:
        plan, counts = self.plan, self._counts()
        of_log = Counter(word for number in range(plan.lines) for word in _line(number).split())
        sent = Counter(word for _, word in plan.sent())
        self.seen["exact" if counts == of_log + sent else "words are lost"] += 1
        for word, expected in (of_log + sent).items():
            is_exact = word in of_log or not plan.may_lose_words
            if counts[word] > expected or (is_exact and counts[word] != expected):
                self.broken.append(f"{word!r} was sent {expected} times, and is counted {counts[word]} times")
        if more := counts - of_log - sent - self._cut_short():
            self.broken.append(f"nobody has sent {dict(more)}")
        self._judge_signals()

    def _cut_short(self) -> Counter[bytes]:
        """Beginnings of words: a line that is ended early ends within one, and what came of it counts."""
        ended = {trouble.whose for trouble in self.plan.troubles if trouble.what == "half-close"}
        words = {word for number, word in self.plan.sent() if f"sender{number}" in ended}
        return Counter({word[:length]: 1 for word in words for length in range(1, len(word))})

    def _judge_signals(self) -> None:
        """Each boundary has heard a beginning of what was told on one of its connections, in the end the whole."""
        told = self._signals_told()
        for life in self.lives:
            for session in self._signals_heard(life):
                if not any(session == each[: len(session)] for each in told.get(_boundary_of(life), [[]])):
                    self.broken.append(
                        f"{_boundary_of(life)} has heard {session}, and was told {told.get(_boundary_of(life))}"
                    )
        self.broken += self._unheard()

    def _unheard(self) -> Iterator[str]:
        """The boundary that has not yet heard all that was told on its latest connection."""
        life, told = self._now.get(FRONT), self._signals_told()
        if life is not None and (sessions := self._signals_heard(life)):
            name = _boundary_of(life)
            if sessions[-1] not in told.get(name, []):
                yield f"in the end, {name} has heard {sessions[-1]} only, of {told.get(name)}"

    def _signals_told(self) -> dict[str, list[list[Signal]]]:
        """By boundary, those of each of its connections."""
        told: dict[str, list[list[Signal]]] = {}
        for life in self.lives:
            if life.worker is not None and isinstance(life.worker.pipeline, JudgedPipeline):
                graph = life.worker.pipeline.graph
                for remote, caller in life.callers.items():
                    told.setdefault(caller, []).append((graph.told | graph.gone).get(remote, []))
        return told

    def _signals_heard(self, life: Life) -> list[list[Signal]]:
        """By the boundary of a worker, on each of its connections; the first one is that of the start, before any."""
        if life.part != FRONT or life.worker is None or not isinstance(life.worker.pipeline, JudgedPipeline):
            return []
        name = _boundary_of(life)
        return life.worker.pipeline.graph.heard_sessions.get(Edge(name, f"{name} far end"), [])[1:]

    def _stop(self) -> None:
        """First the processes, from the front to the back, and then what is outside."""
        self._is_stopping = True
        acts: list[tuple[Host, Callable[[], None]]] = []
        for part in self.plan.parts:
            life = self._now[part]
            assert life.worker is not None, "it runs"
            acts.append((life.host, life.is_to_end.set))
        acts += [(self._outside[LOGS], self._close_logs), (self._outside[READER], self._close_readers)]
        for number, (host, act) in enumerate(acts):
            self.world.after(float(number), host.schedule, act)
        self.world.after(len(acts) + 10.0, self.world.stop)

    def _close_logs(self) -> None:
        self._logs[_IN].close()
        self._logs[_OUT].close()

    def _close_readers(self) -> None:
        if self._visits is not None:
            self._visits.cancel()
        for reader in self._readers.values():
            reader.close()


def run_seed(seed: int, tells: bool) -> Outcome:
    """Run one seed."""
    run = MuteRun(Plan.drawn(seed), tells=tells)
    run.world.tell("plan", str(run.plan))
    return run.run()


def _boundary_of(life: Life) -> str:
    return f"{life.name}/boundary"
