"""Running channels led by the model: Hypothesis draws what the applications do, the channel does the rest by itself.

Moves that the model allows must succeed, all others must be refused.  What the channel does in between is checked at
the moment at which it is recorded, and two things are asked of it.  Whatever it does must be a step of the model; and
whatever it has promised to do without being asked, it must do: as long as a step of the protocol is possible, the
channel is not *quiet*.  A lost wake-up is a channel that stays unquiet.

Moves may come one after the other without a pause, so that cancellations meet wake-ups that are under way.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from types import UnionType
from typing import ClassVar, Protocol, TypeAlias, cast

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from permitflow.channels.interface import ReceiveEnd, SendEnd
from permitflow.errors import EndOfStream, LocalProtocolError, PermitflowError, WouldBlock
from permitflow.protocol.messages import Kind, Message
from permitflow.protocol.permits import ChannelParameters, Oversize
from permitflow.protocol.recording import ActionTable, End, ParameterValue, Recorder, RecorderFactory
from permitflow.testing.kit.random_runs import drawn_from, integers
from permitflow.testing.kit.rulebooks.permits import RULEBOOK
from permitflow.testing.moves import Divergence, Move
from permitflow.testing.subjects import UNLIMITED
from permitflow.testing.subjects.permits import model_of
from permitflow.testing.traces import judge_all
from permitflow.tracing.events import Event
from permitflow.tracing.file import MemoryTrace
from permitflow.transports.remote_receiver import RemoteReceiver
from permitflow_model.kernel.replay import Refused, Starved
from permitflow_model.permit_channel import SYSTEM, State
from permitflow_model.permit_channel_trace import PermitChannelReplay, World, permits_of, rows_of

Task: TypeAlias = asyncio.Task[None]
Ends: TypeAlias = tuple[SendEnd[object], ReceiveEnd[object]]


class ChannelUnderTest(Protocol):
    """What has to be known about a kind of channel in order to lead it."""

    timeout_seconds: float
    """After how long without any event the channel has stopped; only failing runs wait that long."""

    def open(self, parameters: ChannelParameters, record: RecorderFactory | None) -> AbstractAsyncContextManager[Ends]:
        """Open a channel; both ends are ready."""
        ...

    def streams(self, sender: SendEnd[object], receiver: ReceiveEnd[object]) -> Sequence[str]:
        """The names under which the streams from sender to receiver are recorded, the sender's first."""
        ...

    def chunk(self, serial: int, rows: int) -> object:
        """A chunk of so many rows that can be recognised."""
        ...

    def serial(self, message: Message[object]) -> int | None:
        """The serial number of a received chunk; None if it is too small to tell."""
        ...


class Application:
    """A method for each of its moves.  Those that wait begin a task; the others do it, or raise the refusal."""

    def __init__(self, kind: ChannelUnderTest, ends: Ends) -> None:
        """Nothing has been sent."""
        self.kind = kind
        self.sender, self.receiver = ends
        self._streams = kind.streams(*ends)
        self.changed = asyncio.Event()
        """Set whenever a task has ended."""
        self.chunks: list[Task] = []
        """Sends that were begun, oldest first; see ``running``."""
        self.barriers: list[Task] = []
        self.receives: list[Task] = []
        self.taken: list[Message[object]] = []
        self.received: list[Message[object]] = []
        self._offered: list[int] = []
        self._withdrawn: set[int] = set()
        self._watermark = 0
        self._watermarks_due: list[int] = []
        self._serial = 0

    def perform(self, move: Move) -> None:
        """Make a move.

        Raises:
            ChannelError, ProtocolError: the channel refuses.
        """
        getattr(self, move.method)(*move.arguments)

    # At the sender.

    def offer_chunk(self, rows: int) -> None:
        """Begin to send a chunk."""
        self._begin(self.chunks, self._send(rows))

    async def _send(self, rows: int) -> None:
        serial, chunk = self._next_chunk(rows)
        # No await before the channel has the chunk: this is the order in which it was offered.
        self._offered.append(serial)
        try:
            await self.sender.send(chunk, rows)
        except asyncio.CancelledError:
            self._withdrawn.add(serial)
            raise

    def offer_barrier(self) -> None:
        """Begin to send a barrier."""
        self._begin(self.barriers, self.sender.send_barrier())

    def offer_watermark(self) -> None:
        """Announce a watermark."""
        self._watermark += 1
        self.sender.send_watermark(self._watermark)

    def withdraw_chunk(self, position: int) -> None:
        """Cancel a send; 0 is the oldest of those that are under way, beyond the newest it begins again."""
        _cancel(self.chunks, position)

    def withdraw_barrier(self, position: int) -> None:
        """Cancel the sending of a barrier."""
        _cancel(self.barriers, position)

    def send_now(self, rows: int) -> None:
        """Send a chunk without waiting."""
        serial, chunk = self._next_chunk(rows)
        self.sender.send_nowait(chunk, rows)
        self._offered.append(serial)

    def send_barrier_now(self) -> None:
        """Send a barrier without waiting."""
        self.sender.send_barrier_nowait()

    def _next_chunk(self, rows: int) -> tuple[int, object]:
        self._serial += 1
        return self._serial, self.kind.chunk(self._serial, rows)

    # At the receiver.

    def receive_now(self) -> None:
        """Receive without waiting."""
        self.received.append(self.receiver.receive_nowait())

    def receive(self) -> None:
        """Begin to receive."""
        self._begin(self.receives, self.receive_one())

    async def receive_one(self) -> None:
        """Receive, waiting for a message."""
        self.received.append(await self.receiver.receive())

    def receive_joined(self, max_rows: int) -> None:
        """Begin to receive jointly."""
        self._begin(self.receives, self._receive_joined(max_rows))

    async def _receive_joined(self, max_rows: int) -> None:
        assert isinstance(self.receiver, RemoteReceiver), "such a move is made only where there is such an end"
        received = await self.receiver.receive_joined(max_rows)
        if isinstance(received, Message):
            self.received.append(received)
            return
        chunks = [Message(Kind.CHUNK, chunk, rows) for chunk, rows in zip(received, received.rows, strict=True)]
        self.received += chunks
        if len(chunks) > 1 and sum(received.rows) > max_rows:
            raise Divergence(f"{list(received.rows)} rows were read jointly, {max_rows} were wanted at most")

    def give_up_receive(self, position: int) -> None:
        """Cancel a receive."""
        _cancel(self.receives, position)

    def take(self) -> None:
        """Take a message and keep its permits."""
        message = self.receiver.take_nowait()
        self.taken.append(message)
        self.received.append(message)

    def consume_taken(self) -> None:
        """Be done with the oldest message that was taken."""
        self.receiver.consume()
        del self.taken[0]

    def _begin(self, tasks: list[Task], coroutine: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(coroutine)
        task.add_done_callback(lambda _: self.changed.set())
        tasks.append(task)

    def cancel_all(self) -> None:
        """Give up everything that is under way."""
        for task in (*self.chunks, *self.barriers, *self.receives):
            task.cancel()

    # What was seen.

    def note(self, event: Event) -> None:
        """A watermark that leaves is the newest that was announced."""
        if event.action == "SendWatermark" and event.channel == self._streams[0]:
            self._watermarks_due.append(self._watermark)

    def due_chunks(self) -> list[int]:
        """What the receiver has to see, in this order."""
        return [serial for serial in self._offered if serial not in self._withdrawn]

    def received_chunks(self) -> list[int | None]:
        """What the receiver has seen."""
        return [self.kind.serial(message) for message in self.received if message.kind is Kind.CHUNK]

    def check_received(self) -> None:
        """Chunks come in order, each once; watermarks are the newest of their time.

        Raises:
            Divergence: they do not.
        """
        chunks, due = self.received_chunks(), self.due_chunks()
        if len(chunks) > len(due) or any(came not in (None, due[at]) for at, came in enumerate(chunks)):
            raise Divergence(f"chunks {chunks} were received, {due} were sent")
        watermarks = [message.payload for message in self.received if message.kind is Kind.WATERMARK]
        sent: Iterator[object] = iter(self._watermarks_due)
        # A bridge may conflate them once more; a single stream delivers what has left.
        is_conflated = len(self._streams) > 1 and all(watermark in sent for watermark in watermarks)
        if not is_conflated and watermarks != self._watermarks_due[: len(watermarks)]:
            raise Divergence(f"watermarks {watermarks} were received, {self._watermarks_due} were sent")


def _cancel(tasks: list[Task], position: int) -> None:
    under_way = [task for task in tasks if not task.done()]
    if under_way:
        under_way[position % len(under_way)].cancel()


def running(tasks: list[Task]) -> list[Task]:
    """Drop the tasks that are over; raise the error of one that failed."""
    for task in tasks:
        if task.done() and not task.cancelled():
            task.result()
    tasks[:] = [task for task in tasks if not task.done()]
    return tasks


# The application decides when to consume; everything else a channel does by itself.
BY_ITSELF = tuple(action.name for action in SYSTEM.actions if not action.is_environment and action.name != "Consume")


class Hop:
    """The model of one stream, always where the stream is."""

    def __init__(self, parameters: ChannelParameters) -> None:
        """Start at rest."""
        largest = 10 * parameters.row_permits
        self._replay = PermitChannelReplay(model_of(parameters, sizes=(largest,), waiters=UNLIMITED))
        self.worlds: Sequence[World] = (self._replay.start(),)
        self.sent_rows: list[int] = []
        """Rows of the chunks that have left, in order."""
        self.consumed_rows: list[int] = []
        self.least_row_permits = parameters.row_permits
        self.peak_inbox_rows = 0

    @property
    def state(self) -> State:
        """Where the stream is; where several states explain what was recorded, one of them."""
        return self.worlds[0].state

    def follow(self, event: Event) -> None:
        """Make the steps that the event stands for.

        Raises:
            Refused, Starved: there are none.
        """
        self.worlds = [after for world in self.worlds for after in self._performed(world, event)]
        if not self.worlds:
            raise Refused("none of the states in which the channel may be allows it")
        for world in self.worlds:
            if broken := self._replay.broken(world):
                raise Refused(f"it breaks {', '.join(broken)}")
        if event.action == "SendChunk":
            self.sent_rows.append(rows_of(event))
        if event.action == "Consume" and permits_of(event).rows:
            self.consumed_rows.append(rows_of(event))
        self.least_row_permits = min(self.least_row_permits, self.state.permits.rows)
        self.peak_inbox_rows = max(self.peak_inbox_rows, sum(message.rows for message in self.state.inbox))

    def _performed(self, world: World, event: Event) -> Sequence[World]:
        try:
            return self._replay.perform(world, event)
        except Refused:
            if len(self.worlds) == 1:
                raise
            return ()

    def is_quiet(self) -> bool:
        """Can the protocol do nothing more by itself?"""
        return any(
            not any(SYSTEM.is_enabled(name, world.state, self._replay.parameters) for name in BY_ITSELF)
            for world in self.worlds
        )

    def is_at_rest(self) -> bool:
        """Is nothing in the channel, are all permits at the sender?"""
        return any(self._replay.is_at_rest(world) for world in self.worlds)

    def waiting(self, kind: str) -> int:
        """Messages of a kind that wait for permits."""
        return sum(message.kind == kind for message in self.state.waiting)

    def allowed(self) -> str:
        """What the protocol may do next, in words."""
        return "; ".join(self._replay.allowed(self.worlds[0])) or "nothing"


class Following:
    """All streams of a run in this process; ``recorder`` is the factory to give to whatever is tested."""

    def __init__(self) -> None:
        """Nothing has been recorded."""
        self.hops: dict[str, Hop] = {}
        self.trace = MemoryTrace()
        self.failure: Divergence | None = None
        self.changed = asyncio.Event()
        """Set whenever something was recorded."""
        self.listeners: list[Callable[[Event], None]] = []

    def recorder(
        self, channel: str, end: End, table: ActionTable, parameters: Mapping[str, ParameterValue]
    ) -> Recorder:
        """Record, and follow."""
        keep = self.trace.recorder(channel, end, table, parameters)
        hop = self.hops.setdefault(channel, Hop(ChannelParameters(**parameters)))  # type: ignore[arg-type]

        def record(action: str, arguments: tuple[int, ...], counters: tuple[int, ...]) -> None:
            keep(action, arguments, counters)
            event = self.trace.events[-1]
            if self.failure is None:
                self._follow(hop, event)
            for listener in self.listeners:
                listener(event)
            self.changed.set()

        return record

    def _follow(self, hop: Hop, event: Event) -> None:
        before = hop.state
        try:
            hop.follow(event)
        except (Refused, Starved) as reason:
            self.fail(f"{event} is not a step of the model in {before}: {reason}")

    def fail(self, reason: str) -> None:
        """Note the first thing that went wrong: a recorder must not raise, whoever leads the run asks."""
        self.failure = self.failure or Divergence(reason)

    def check(self) -> None:
        """Insist that everything so far was a step of the model.

        Raises:
            Divergence: something was not.
        """
        if self.failure is not None:
            raise self.failure

    async def until(self, is_reached: Callable[[], bool], *, timeout_seconds: float, what: str) -> None:
        """Wait until the channels have come somewhere by themselves.

        Raises:
            Divergence: they do something that the model does not, or stop before.
        """
        try:
            async with asyncio.timeout(timeout_seconds):
                while not is_reached():
                    self.check()
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            if await _after_all(is_reached):
                return
            could = "; ".join(f"{name!r} could do {hop.allowed()}" for name, hop in self.hops.items())
            raise Divergence(f"nothing happens any more, but {what}; {could}") from None
        self.check()


async def _after_all(is_reached: Callable[[], bool]) -> bool:
    # If the machine stood still, the time-out came before what was ready all the time.
    for _ in range(100):
        await asyncio.sleep(0)
    return is_reached()


MOST_WAITING = 4
"""Tasks of a kind that may be under way at once."""

Refusal: TypeAlias = type[PermitflowError] | UnionType


class ChannelRun:
    """A channel that is open, the application at its ends, and the models of its streams."""

    def __init__(self, kind: ChannelUnderTest, agreed: ChannelParameters) -> None:
        """Call ``open`` next."""
        self.kind = kind
        self.agreed = agreed
        self.following = Following()
        self.is_healthy = True
        """False while moves are made, and after one that failed."""
        self.app: Application
        self.hops: list[Hop]
        self._stop = asyncio.Event()
        self._stage: Task

    async def open(self) -> None:
        """Open the channel; it is at rest."""
        opened: asyncio.Future[Ends] = asyncio.get_running_loop().create_future()
        # Entered and left by one task of its own, as a context manager with a cancel scope demands.
        self._stage = asyncio.create_task(self._hold_open(opened))
        self._stage.add_done_callback(partial(_give_up_opening, opened))
        self.app = Application(self.kind, await opened)
        self.app.changed = self.following.changed
        self.hops = [self.following.hops[name] for name in self.kind.streams(self.app.sender, self.app.receiver)]
        self.following.listeners += [self.app.note, self._check_bridges]

    async def _hold_open(self, opened: asyncio.Future[Ends]) -> None:
        async with self.kind.open(self.agreed, self.following.recorder) as ends:
            opened.set_result(ends)
            await self._stop.wait()

    # Moves.

    async def make(self, moves: Sequence[Move], *, pause: bool) -> None:
        """Make moves at once; with a pause, everything that follows from them happens before this returns.

        Raises:
            Divergence: the channel does something else than the model.
        """
        self.is_healthy = False
        for move in moves:
            if self._is_about_something(move):
                self._perform(move)
        if pause:
            await self.settle()
        self.following.check()
        self.app.check_received()
        self.is_healthy = True

    def _is_about_something(self, move: Move) -> bool:
        app, receives = self.app, running(self.app.receives)
        match move:
            case Move("OfferChunk"):
                return len(running(app.chunks)) < MOST_WAITING
            case Move("OfferBarrier"):
                return len(running(app.barriers)) < MOST_WAITING
            case Move("WithdrawChunk"):
                return bool(running(app.chunks))
            case Move("WithdrawBarrier"):
                return bool(running(app.barriers))
            case Move("GiveUpReceive"):
                return bool(receives)
            case Move("Receive" | "ReceiveJoined"):
                return len(receives) < MOST_WAITING and not app.taken
            case Move("ReceiveNow" | "Take" | "ConsumeTaken"):
                # Messages belong to those who have waited for them; what others may take is not the model's to say.
                return not receives
        return True

    def _perform(self, move: Move) -> None:
        refusal = self.refusal_of(move)
        before, events = self.hops[0].state, len(self.following.trace.events)
        try:
            self.app.perform(move)
        except PermitflowError as reason:
            if refusal is None or not isinstance(reason, refusal):
                raise Divergence(f"{move!r} ends with {reason!r}, expected {refusal or 'success'}") from reason
            if happened := self.following.trace.events[events:]:
                raise Divergence(f"{move!r} was refused, but {happened} happened") from reason
            return
        if refusal is not None:
            raise Divergence(f"{move!r} should be refused with {refusal} in {before}, but it succeeds")

    def refusal_of(self, move: Move) -> Refusal | None:
        """How the channel has to refuse this move now; None if it has to succeed."""
        first, inbox, taken = self.hops[0], self.hops[-1].state.inbox.size(), len(self.app.taken)
        match move:
            case Move("SendNow", (rows,)):
                cost = self.agreed.cost_of(rows)
                may_leave = first.state.waiting.is_empty() and cost <= first.state.permits.rows
                return None if may_leave else WouldBlock
            case Move("SendBarrierNow"):
                may_leave = first.state.waiting.is_empty() and first.state.permits.barriers > 0
                return None if may_leave else WouldBlock
            case Move("Take"):
                return None if inbox > taken else WouldBlock
            case Move("ReceiveNow"):
                if not taken:
                    return None if inbox else WouldBlock
                # Where nothing else is here, both are true.
                return LocalProtocolError if inbox > taken else WouldBlock | LocalProtocolError
            case Move("ConsumeTaken"):
                return None if taken else LocalProtocolError
        return None

    # What has to follow.

    async def settle(self) -> None:
        """Wait until nothing more happens by itself, then compare what can be seen from outside.

        Raises:
            Divergence: the channel stops before the model does, or shows other numbers.
        """
        sends = len(running(self.app.chunks)) + len(running(self.app.barriers))
        waiting = self.hops[0].state.waiting.size()
        await self._until(self.is_settled, f"{sends} sends are under way, {waiting} wait for permits")
        self.compare()

    async def _until(self, is_reached: Callable[[], bool], what: str) -> None:
        await self.following.until(is_reached, timeout_seconds=self.kind.timeout_seconds, what=what)

    def is_settled(self) -> bool:
        """Are the model and the application's tasks where they stay until the application moves?"""
        first, last, app = self.hops[0], self.hops[-1], self.app
        return (
            all(hop.is_quiet() for hop in self.hops)
            and not any(_is_forwarding(*pair) for pair in zip(self.hops, self.hops[1:], strict=False))
            and len(running(app.chunks)) == first.waiting("chunk")
            and len(running(app.barriers)) == first.waiting("barrier")
            and not (running(app.receives) and last.state.inbox.size() > len(app.taken))
        )

    def _check_bridges(self, event: Event) -> None:
        # Otherwise the permits of the first stream do not bound what lies between the two.
        for source, target in zip(self.hops, self.hops[1:], strict=False):
            if len(source.consumed_rows) > len(target.sent_rows):
                self.following.fail(f"{event}: a bridge has confirmed a chunk that it has not passed on")

    def compare(self) -> None:
        """The numbers that a channel shows are the model's.

        Raises:
            Divergence: they are not.
        """
        at_sender, at_receiver = self.app.sender.statistics(), self.app.receiver.statistics()
        first, last = self.hops[0], self.hops[-1]
        peak = self.agreed.row_permits - first.least_row_permits
        pairs = {
            "sent_chunks": (at_sender.sent_chunks, len(first.sent_rows)),
            "sent_rows": (at_sender.sent_rows, sum(first.sent_rows)),
            "consumed_chunks": (at_receiver.consumed_chunks, len(last.consumed_rows)),
            "consumed_rows": (at_receiver.consumed_rows, sum(last.consumed_rows)),
            "peak_rows_held": (at_sender.peak_rows_held, peak),
            "peak_inbox_rows": (at_receiver.peak_inbox_rows, last.peak_inbox_rows),
        }
        wrong = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
        if wrong:
            raise Divergence(f"statistics differ (channel, model): {wrong}")

    # The end.

    async def close(self) -> None:
        """Withdraw or consume everything: every permit must come home, and what was recorded must be a behaviour.

        Raises:
            Divergence: it does not, or is not.
        """
        try:
            if self.is_healthy:
                await self._empty()
        finally:
            self.app.cancel_all()
            self._stop.set()
            await asyncio.wait({self._stage})
        if not self.is_healthy:
            return  # the move that failed says more
        self._stage.result()
        for by_end in (False, True):
            for verdict in judge_all(self.following.trace.trace(), by_end=by_end):
                if not verdict.is_valid:
                    raise Divergence(verdict.describe())

    async def _empty(self) -> None:
        self.app.cancel_all()
        await self.settle()
        while self.app.taken:
            self.app.consume_taken()
        ending = asyncio.ensure_future(self.app.sender.end())
        try:
            async with asyncio.timeout(self.kind.timeout_seconds):
                while True:
                    await self.app.receive_one()
        except EndOfStream:
            self.app.check_received()
        if len(self.app.received_chunks()) != len(self.app.due_chunks()):
            raise Divergence(f"{self.app.due_chunks()} were sent, {self.app.received_chunks()} received")
        await ending
        # The last permits may still be on their way.
        await self._until(lambda: all(hop.is_at_rest() for hop in self.hops), "at the end not all permits are home")
        self.compare()


def _give_up_opening(opened: asyncio.Future[Ends], stage: Task) -> None:
    if not opened.done():
        opened.set_exception(stage.exception() or Divergence("the channel was closed before it was open"))


def _is_forwarding(source: Hop, target: Hop) -> bool:
    """Will the bridge between two streams go on by itself?

    One message at a time waits at the target; or at the source, as long as the target has no permits for it.
    """
    if source.state.inbox.is_empty():
        return False
    head = source.state.inbox.head()
    lacks_permits = head.kind == "chunk" and head.cost > target.state.permits.rows
    return not lacks_permits and target.state.waiting.is_empty()


CANCELLING = ("WithdrawChunk", "WithdrawBarrier", "GiveUpReceive")
WAKING = ("OfferWatermark", "SendNow", "SendBarrierNow", "ReceiveNow", "Take", "ConsumeTaken", "WithdrawChunk")
"""Moves that act at once, so that somebody may be awake who has not run yet."""
PLAIN = ("OfferBarrier", "OfferWatermark", "SendBarrierNow", "ReceiveNow", "Receive", "Take", "ConsumeTaken")
"""Moves without arguments."""
JOINED_ROWS = (1, 3, 1_000)
"""What joined reads ask for at most, where the receiving end has them."""


def _moves_named(names: Collection[str] | None) -> st.SearchStrategy[Move]:
    # What is drawn must not depend on the state: where messages cross a network, that is a matter of time.
    return st.runner().flatmap(lambda self: drawn_from(m for m in self.moves() if names is None or m.action in names))


ANY_MOVE, WAKING_MOVE, CANCELLING_MOVE = _moves_named(None), _moves_named(WAKING), _moves_named(CANCELLING)


class ChannelMachine(RuleBasedStateMachine):
    """Model and channel side by side; the class attributes say which channel, and in which loop."""

    kind: ClassVar[ChannelUnderTest]
    runner: ClassVar[asyncio.Runner]
    run: ChannelRun | None = None
    """The run, once the channel is open."""

    @initialize(data=st.data())
    def start(self, data: st.DataObject) -> None:
        """Open a channel; it is at rest."""
        drawn, _ = RULEBOOK.drawn_pair(integers(data))
        # No event tells that the application has asked, so a run that withholds permits is never known to be quiet.
        agreed = replace(drawn, initial_permits=drawn.row_permits)
        self.channel = ChannelRun(self.kind, agreed)
        self.runner.run(self.channel.open())
        self.run = self.channel

    def moves(self) -> list[Move]:
        """All moves with these parameters; a move that is about nothing (nobody waits) is left out when it comes."""
        agreed = self.channel.agreed
        most = agreed.max_chunk_cost
        oversize = (most + 2,) if agreed.oversize is Oversize.WHOLE else ()
        sizes = sorted({0, 1, most, max(1, most // 2), *oversize})
        sends = [Move(name, (rows,)) for name in ("OfferChunk", "SendNow") for rows in sizes]
        cancellations = [Move(name, (position,)) for name in CANCELLING for position in range(3)]
        return [*sends, *cancellations, *map(Move, PLAIN), *self._joined_reads()]

    def _joined_reads(self) -> list[Move]:
        can_join = isinstance(self.channel.app.receiver, RemoteReceiver)
        return [Move("ReceiveJoined", (most,)) for most in JOINED_ROWS] if can_join else []

    @rule(move=ANY_MOVE, pause=st.booleans())
    def step(self, move: Move, pause: bool) -> None:
        """The application moves; with a pause, everything that follows from it happens before the next move."""
        self.runner.run(self.channel.make([move], pause=pause))

    @rule(moves=st.lists(ANY_MOVE, min_size=2, max_size=4), pause=st.booleans())
    def burst(self, moves: list[Move], pause: bool) -> None:
        """The application makes several moves at once: no task runs in between, whoever was woken."""
        self.runner.run(self.channel.make(moves, pause=pause))

    @rule(wake=WAKING_MOVE, cancel=CANCELLING_MOVE, pause=st.booleans())
    def race(self, wake: Move, cancel: Move, pause: bool) -> None:
        """Somebody is perhaps woken, and cancelled before his task runs: what he was woken for must not be lost."""
        self.runner.run(self.channel.make([wake, cancel], pause=pause))

    @rule(messages=st.integers(2, 4), pause=st.booleans())
    def consume_at_once(self, messages: int, pause: bool) -> None:
        """Permits for several of those who wait come back before the first of them runs."""
        self.runner.run(self.channel.make([Move("ReceiveNow")] * messages, pause=pause))

    @rule(waiting=st.integers(1, 3))
    def catch_up(self, waiting: int) -> None:
        """The receiver consumes the last messages and waits for more."""
        app, here = self.channel.app, self.channel.hops[-1].state.inbox.size()
        # Not with much still here: what is consumed cannot hold anybody up any more.
        if not running(app.receives) and here <= 2:
            consume = [Move("ConsumeTaken")] * len(app.taken) + [Move("ReceiveNow")] * (here - len(app.taken))
            self.runner.run(self.channel.make(consume + [Move("Receive")] * waiting, pause=True))

    @rule(sizes=st.lists(st.integers(0, 3), min_size=1, max_size=6), reads=st.integers(1, 3), data=st.data())
    def read_jointly(self, sizes: list[int], reads: int, data: st.DataObject) -> None:
        """Several chunks come together, and are read jointly; or one by one after a part of them was."""
        joined = self._joined_reads()
        if not joined or running(self.channel.app.receives):
            return
        most = self.channel.agreed.max_chunk_cost
        consume = [Move("ConsumeTaken")] * len(self.channel.app.taken)
        self.runner.run(self.channel.make([Move("OfferChunk", (min(rows, most),)) for rows in sizes], pause=True))
        for _ in range(reads):
            read = data.draw(st.sampled_from([*joined, Move("ReceiveNow"), Move("Take")]))
            self.runner.run(self.channel.make([*consume, read], pause=True))
            consume = [Move("ConsumeTaken")] * len(self.channel.app.taken)

    @rule(rows=st.integers(1, 3), waiting=st.integers(1, 3))
    def back_up(self, rows: int, waiting: int) -> None:
        """The sender uses up the permits, and waits for more."""
        cost = self.channel.agreed.cost_of(min(rows, self.channel.agreed.max_chunk_cost))
        sends = [Move("SendNow", (cost,))] * (self.channel.hops[0].state.permits.rows // cost)
        self.runner.run(self.channel.make(sends + [Move("OfferChunk", (cost,))] * waiting, pause=True))

    def teardown(self) -> None:
        """Empty the channel; every permit comes home, and what was recorded is a behaviour."""
        if self.run is not None:
            self.runner.run(self.run.close())


def machine_for(kind: ChannelUnderTest, runner: asyncio.Runner) -> type[ChannelMachine]:
    """The machine for one kind of channel, in one loop."""
    return cast("type[ChannelMachine]", type("Machine", (ChannelMachine,), {"kind": kind, "runner": runner}))
