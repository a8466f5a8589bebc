"""Running channels led by the model: Hypothesis draws what the applications do, the channel does the rest by itself.

Moves that the model allows must succeed, all others must be refused.  What the channel does in between is checked at
the moment at which it is recorded, and two things are asked of it.  Whatever it does must be a step of the model; and
whatever it has promised to do without being asked, it must do: as long as a step of the protocol is possible, the
channel is not *quiet*.  A lost wake-up is a channel that stays unquiet.

Moves may come one after the other without a pause, so that cancellations meet wake-ups that are under way.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from types import UnionType
from typing import ClassVar, TypeAlias, cast

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from permitflow import ChannelParameters, Kind, Message, Oversize
from permitflow.client import RemoteReceiver
from permitflow.errors import EndOfStream, LocalProtocolError, PermitflowError, WouldBlock
from permitflow.flows.recording import ActionTable, End, ParameterValue, Recorder
from permitflow.tracing import Event, MemoryTrace
from permitflow_model.kernel.replay import Refused, Starved
from permitflow_model.permit_channel import SYSTEM, State
from permitflow_model.permit_channel_trace import PermitChannelReplay, World, permits_of, rows_of
from permitflow_testing import Divergence
from permitflow_testing.examples.our_channels import OurChannel
from permitflow_testing.moves import Move
from permitflow_testing.random_runs import drawn_from, integers
from permitflow_testing.rulebooks.permits import RULEBOOK
from permitflow_testing.subjects import UNLIMITED
from permitflow_testing.subjects.permits import model_of
from permitflow_testing.traces import judge_all

Task: TypeAlias = asyncio.Task[None]

MOST_WAITING = 4
"""Tasks of a kind that may be under way at once."""
CANCELLING = {"WithdrawChunk": "chunk", "WithdrawBarrier": "barrier", "GiveUpReceive": "receive"}
"""Moves that cancel a task of a kind: 0 is the oldest that is under way, beyond the newest it begins again."""


class Application:
    """What is done at the ends of a channel, and what was seen there."""

    def __init__(self, channel: OurChannel, changed: asyncio.Event) -> None:
        """``changed`` is set whenever a task has ended."""
        self.channel = channel
        self.sender, self.receiver = channel.sender, channel.receiver
        self.taken: list[Message[object]] = []
        self._streams = channel.streams()
        self._changed = changed
        self._tasks: dict[str, list[Task]] = {"chunk": [], "barrier": [], "receive": []}
        self._received: list[Message[object]] = []
        self._offered: list[int] = []
        self._withdrawn: set[int] = set()
        self._watermark = self._serial = 0
        self._watermarks_due: list[int] = []

    def perform(self, move: Move) -> None:
        """Make a move: those that wait begin a task.

        Raises:
            ChannelError, ProtocolError: the channel refuses.
        """
        match move:
            case Move("OfferChunk", (rows,)):
                self._begin("chunk", self._send(rows))
            case Move("OfferBarrier"):
                self._begin("barrier", self.sender.send_barrier())
            case Move("OfferWatermark"):
                self._watermark += 1
                self.sender.send_watermark(self._watermark)
            case Move("SendNow", (rows,)):
                serial, chunk = self._next_chunk(rows)
                self.sender.send_nowait(chunk, rows)
                self._offered.append(serial)
            case Move("SendBarrierNow"):
                self.sender.send_barrier_nowait()
            case Move("ReceiveNow"):
                self._received.append(self.receiver.receive_nowait())
            case Move("Receive"):
                self._begin("receive", self.receive_one())
            case Move("ReceiveJoined", (most,)):
                self._begin("receive", self._receive_joined(most))
            case Move("Take"):
                self.taken.append(self.receiver.take_nowait())
                self._received.append(self.taken[-1])
            case Move("ConsumeTaken"):
                self.receiver.consume()
                del self.taken[0]
            case Move(cancelling, (position,)):
                under_way = [task for task in self._tasks[CANCELLING[cancelling]] if not task.done()]
                if under_way:
                    under_way[position % len(under_way)].cancel()

    def _begin(self, kind: str, coroutine: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(coroutine)
        task.add_done_callback(lambda _: self._changed.set())
        self._tasks[kind].append(task)

    def running(self, kind: str) -> int:
        """How many tasks of a kind are under way; raises the error of one that failed."""
        for task in self._tasks[kind]:
            if task.done() and not task.cancelled():
                task.result()
        self._tasks[kind] = [task for task in self._tasks[kind] if not task.done()]
        return len(self._tasks[kind])

    def cancel_all(self) -> None:
        """Give up everything that is under way."""
        for tasks in self._tasks.values():
            for task in tasks:
                task.cancel()

    async def _send(self, rows: int) -> None:
        serial, chunk = self._next_chunk(rows)
        # No await before the channel has the chunk: this is the order in which it was offered.
        self._offered.append(serial)
        try:
            await self.sender.send(chunk, rows)
        except asyncio.CancelledError:
            self._withdrawn.add(serial)
            raise

    def _next_chunk(self, rows: int) -> tuple[int, object]:
        self._serial += 1
        return self._serial, self.channel.chunk(self._serial, rows)

    async def receive_one(self) -> None:
        """Receive, waiting for a message."""
        self._received.append(await self.receiver.receive())

    async def _receive_joined(self, max_rows: int) -> None:
        assert isinstance(self.receiver, RemoteReceiver), "such a move is made only where there is such an end"
        received = await self.receiver.receive_joined(max_rows)
        if isinstance(received, Message):
            self._received.append(received)
            return
        chunks = [Message(Kind.CHUNK, chunk, rows) for chunk, rows in zip(received, received.rows, strict=True)]
        self._received += chunks
        if len(chunks) > 1 and sum(received.rows) > max_rows:
            raise Divergence(f"{list(received.rows)} rows were read jointly, {max_rows} were wanted at most")

    # What was seen.

    def note(self, event: Event) -> None:
        """A watermark that leaves is the newest that was announced."""
        if event.action == "SendWatermark" and event.channel == self._streams[0]:
            self._watermarks_due.append(self._watermark)

    def check_received(self, *, is_all: bool = False) -> None:
        """Chunks come in order, each once; watermarks are the newest of their time.

        Raises:
            Divergence: they do not.
        """
        due = [serial for serial in self._offered if serial not in self._withdrawn]
        chunks = [self.channel.serial(message.payload) for message in self._received if message.kind is Kind.CHUNK]
        is_too_much = len(chunks) > len(due) or any(came not in (None, due[at]) for at, came in enumerate(chunks))
        if is_too_much or (is_all and len(chunks) < len(due)):
            raise Divergence(f"chunks {chunks} were received, {due} were sent")
        watermarks = [message.payload for message in self._received if message.kind is Kind.WATERMARK]
        sent: Iterator[object] = iter(self._watermarks_due)
        # A bridge may conflate them once more; a single stream delivers what has left.
        is_conflated = len(self._streams) > 1 and all(watermark in sent for watermark in watermarks)
        if not is_conflated and watermarks != self._watermarks_due[: len(watermarks)]:
            raise Divergence(f"watermarks {watermarks} were received, {self._watermarks_due} were sent")


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

    def will_forward_to(self, target: "Hop") -> bool:
        """Will the bridge behind this stream go on by itself?

        One message at a time waits at the target; or here, as long as the target has no permits for it.
        """
        if self.state.inbox.is_empty():
            return False
        head = self.state.inbox.head()
        lacks_permits = head.kind == "chunk" and head.cost > target.state.permits.rows
        return not lacks_permits and target.state.waiting.is_empty()


Refusal: TypeAlias = type[PermitflowError] | UnionType


class ChannelRun:
    """A channel, the application at its ends, and the models of its streams."""

    def __init__(self, channel: OurChannel, agreed: ChannelParameters) -> None:
        """Call ``open`` next."""
        self.agreed = agreed
        self.channel = channel
        self.app: Application
        self.hops: list[Hop]
        self._is_healthy = True
        """False while moves are made, and after one that failed."""
        self._by_name: dict[str, Hop] = {}
        self._trace = MemoryTrace()
        self._failure: Divergence | None = None
        self._changed = asyncio.Event()
        """Set whenever something was recorded, or a task has ended."""
        self._is_open = False

    async def open(self) -> None:
        """Open the channel; it is at rest."""
        await self.channel.open(self.agreed, self._recorder)
        self.app = Application(self.channel, self._changed)
        self.hops = [self._by_name[name] for name in self.channel.streams()]
        self._is_open = True

    def _recorder(
        self, channel: str, end: End, table: ActionTable, parameters: Mapping[str, ParameterValue]
    ) -> Recorder:
        """Record, and follow.  A recorder must not raise: the first thing that goes wrong is noted."""
        keep = self._trace.recorder(channel, end, table, parameters)
        hop = self._by_name.setdefault(channel, Hop(ChannelParameters(**parameters)))  # type: ignore[arg-type]

        def record(action: str, arguments: tuple[int, ...], counters: tuple[int, ...]) -> None:
            keep(action, arguments, counters)
            event, before = self._trace.events[-1], hop.state
            if self._failure is None:
                try:
                    hop.follow(event)
                except (Refused, Starved) as reason:
                    self._failure = Divergence(f"{event} is not a step of the model in {before}: {reason}")
            if self._is_open:
                self.app.note(event)
                self._check_bridges(event)
            self._changed.set()

        return record

    def _check_bridges(self, event: Event) -> None:
        # Otherwise the permits of the first stream do not bound what lies between the two.
        for source, target in pairwise(self.hops):
            if len(source.consumed_rows) > len(target.sent_rows):
                told = f"{event}: a bridge has confirmed a chunk that it has not passed on"
                self._failure = self._failure or Divergence(told)

    # Moves.

    async def make(self, moves: Sequence[Move], *, pause: bool) -> None:
        """Make moves at once; with a pause, everything that follows from them happens before this returns.

        Raises:
            Divergence: the channel does something else than the model.
        """
        self._is_healthy = False
        for move in moves:
            if self._is_about_something(move):
                self._perform(move)
        if pause:
            await self.settle()
        self._check()
        self.app.check_received()
        self._is_healthy = True

    def _is_about_something(self, move: Move) -> bool:
        receives = self.app.running("receive")
        match move:
            case Move("OfferChunk"):
                return self.app.running("chunk") < MOST_WAITING
            case Move("OfferBarrier"):
                return self.app.running("barrier") < MOST_WAITING
            case Move("Receive" | "ReceiveJoined"):
                return receives < MOST_WAITING and not self.app.taken
            case Move("ReceiveNow" | "Take" | "ConsumeTaken"):
                # Messages belong to those who have waited for them; what others may take is not the model's to say.
                return not receives
        return move.action not in CANCELLING or self.app.running(CANCELLING[move.action]) > 0

    def _perform(self, move: Move) -> None:
        refusal = self.refusal_of(move)
        before, events = self.hops[0].state, len(self._trace.events)
        try:
            self.app.perform(move)
        except PermitflowError as reason:
            if refusal is None or not isinstance(reason, refusal):
                raise Divergence(f"{move!r} ends with {reason!r}, expected {refusal or 'success'}") from reason
            if happened := self._trace.events[events:]:
                raise Divergence(f"{move!r} was refused, but {happened} happened") from reason
            return
        if refusal is not None:
            raise Divergence(f"{move!r} should be refused with {refusal} in {before}, but it succeeds")

    def refusal_of(self, move: Move) -> Refusal | None:
        """How the channel has to refuse this move now; None if it has to succeed."""
        first, inbox, taken = self.hops[0].state, self.hops[-1].state.inbox.size(), len(self.app.taken)
        match move:
            case Move("SendNow", (rows,)):
                may_leave = first.waiting.is_empty() and self.agreed.cost_of(rows) <= first.permits.rows
                return None if may_leave else WouldBlock
            case Move("SendBarrierNow"):
                may_leave = first.waiting.is_empty() and first.permits.barriers > 0
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

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    async def settle(self) -> None:
        """Wait until nothing more happens by itself, then compare what can be seen from outside.

        Raises:
            Divergence: the channel stops before the model does, or shows other numbers.
        """
        sends = self.app.running("chunk") + self.app.running("barrier")
        waiting = self.hops[0].state.waiting.size()
        await self._until(self.is_settled, f"{sends} sends are under way, {waiting} wait for permits")
        self.compare()

    async def _until(self, is_reached: Callable[[], bool], what: str) -> None:
        try:
            async with asyncio.timeout(self.channel.timeout_seconds):
                while not is_reached():
                    self._check()
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            # If the machine stood still, the time-out came before what was ready all the time.
            for _ in range(100):
                await asyncio.sleep(0)
            if not is_reached():
                could = "; ".join(f"{name!r} could do {hop.allowed()}" for name, hop in self._by_name.items())
                raise Divergence(f"nothing happens any more, but {what}; {could}") from None
        self._check()

    def is_settled(self) -> bool:
        """Are the model and the application's tasks where they stay until the application moves?"""
        first, last, app = self.hops[0], self.hops[-1], self.app
        return (
            all(hop.is_quiet() for hop in self.hops)
            and not any(source.will_forward_to(target) for source, target in pairwise(self.hops))
            and all(app.running(kind) == first.waiting(kind) for kind in ("chunk", "barrier"))
            and not (app.running("receive") and last.state.inbox.size() > len(app.taken))
        )

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
            if self._is_healthy:
                await self._empty()
        finally:
            self.app.cancel_all()
            await self.channel.close()
        if not self._is_healthy:
            return  # the move that failed says more
        for by_end in (False, True):
            for verdict in judge_all(self._trace.trace(), by_end=by_end):
                if not verdict.is_valid:
                    raise Divergence(verdict.describe())

    async def _empty(self) -> None:
        self.app.cancel_all()
        await self.settle()
        while self.app.taken:
            self.app.perform(Move("ConsumeTaken"))
        ending = asyncio.ensure_future(self.app.sender.end())
        try:
            async with asyncio.timeout(self.channel.timeout_seconds):
                while True:
                    await self.app.receive_one()
        except EndOfStream:
            self.app.check_received(is_all=True)
        await ending
        # The last permits may still be on their way.
        await self._until(lambda: all(hop.is_at_rest() for hop in self.hops), "at the end not all permits are home")
        self.compare()


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

    make_channel: ClassVar[Callable[[], OurChannel]]
    runner: ClassVar[asyncio.Runner]
    run: ChannelRun | None = None
    """The run, once the channel is open."""

    @initialize(data=st.data())
    def start(self, data: st.DataObject) -> None:
        """Open a channel; it is at rest."""
        drawn, _ = RULEBOOK.drawn_pair(integers(data))
        # No event tells that the application has asked, so a run that withholds permits is never known to be quiet.
        agreed = replace(drawn, initial_permits=drawn.row_permits)
        self.channel = ChannelRun(type(self).make_channel(), agreed)
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

    def _make(self, moves: Sequence[Move], *, pause: bool = True) -> None:
        self.runner.run(self.channel.make(moves, pause=pause))

    @rule(move=ANY_MOVE, pause=st.booleans())
    def step(self, move: Move, pause: bool) -> None:
        """The application moves; with a pause, everything that follows from it happens before the next move."""
        self._make([move], pause=pause)

    @rule(moves=st.lists(ANY_MOVE, min_size=2, max_size=4), pause=st.booleans())
    def burst(self, moves: list[Move], pause: bool) -> None:
        """The application makes several moves at once: no task runs in between, also of those that were woken."""
        self._make(moves, pause=pause)

    @rule(wake=WAKING_MOVE, cancel=CANCELLING_MOVE, pause=st.booleans())
    def race(self, wake: Move, cancel: Move, pause: bool) -> None:
        """Somebody is perhaps woken, and cancelled before his task runs: what he was woken for must not be lost."""
        self._make([wake, cancel], pause=pause)

    @rule(messages=st.integers(2, 4), pause=st.booleans())
    def consume_at_once(self, messages: int, pause: bool) -> None:
        """Permits for several of those who wait come back before the first of them runs."""
        self._make([Move("ReceiveNow")] * messages, pause=pause)

    @rule(waiting=st.integers(1, 3))
    def catch_up(self, waiting: int) -> None:
        """The receiver consumes the last messages and waits for more."""
        here = self.channel.hops[-1].state.inbox.size() - len(self.channel.app.taken)
        # Not with much still here: what is consumed cannot hold anybody up any more.
        if not self.channel.app.running("receive") and here + len(self.channel.app.taken) <= 2:
            self._make([*self._consumed(), *[Move("ReceiveNow")] * here, *[Move("Receive")] * waiting])

    def _consumed(self) -> list[Move]:
        return [Move("ConsumeTaken")] * len(self.channel.app.taken)

    @rule(sizes=st.lists(st.integers(0, 3), min_size=1, max_size=6), reads=st.integers(1, 3), data=st.data())
    def read_jointly(self, sizes: list[int], reads: int, data: st.DataObject) -> None:
        """Several chunks come together, and are read jointly; or one by one after a part of them was."""
        joined = self._joined_reads()
        if not joined or self.channel.app.running("receive"):
            return
        most = self.channel.agreed.max_chunk_cost
        consume = self._consumed()
        self._make([Move("OfferChunk", (min(rows, most),)) for rows in sizes])
        for _ in range(reads):
            self._make([*consume, data.draw(st.sampled_from([*joined, Move("ReceiveNow"), Move("Take")]))])
            consume = self._consumed()

    @rule(rows=st.integers(1, 3), waiting=st.integers(1, 3))
    def back_up(self, rows: int, waiting: int) -> None:
        """The sender uses up the permits, and waits for more."""
        cost = self.channel.agreed.cost_of(min(rows, self.channel.agreed.max_chunk_cost))
        sends = [Move("SendNow", (cost,))] * (self.channel.hops[0].state.permits.rows // cost)
        self._make(sends + [Move("OfferChunk", (cost,))] * waiting)

    def teardown(self) -> None:
        """Empty the channel; every permit comes home, and what was recorded is a behaviour."""
        if self.run is not None:
            self.runner.run(self.run.close())


def machine_for(make: Callable[[], OurChannel], runner: asyncio.Runner) -> type[ChannelMachine]:
    """The machine for one kind of channel, in one loop."""
    own = {"make_channel": staticmethod(make), "runner": runner}
    return cast("type[ChannelMachine]", type("Machine", (ChannelMachine,), own))
