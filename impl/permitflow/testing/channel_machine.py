"""Runs led by the model, for channels that take the protocol's steps by themselves.

The machine makes the application's moves: those that the model allows must succeed, all others must be refused.
What the channel does in between is followed step by step (``following``).  Moves may come one after the other
without a pause, so that cancellations meet wake-ups that are under way.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from functools import partial
from types import UnionType
from typing import ClassVar, TypeAlias, cast

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from permitflow.errors import EndOfStream, LocalProtocolError, PermitflowError, WouldBlock
from permitflow.protocol.parameters import ChannelParameters
from permitflow.testing.application import Application, ChannelUnderTest, Ends, Task, running
from permitflow.testing.following import Following, Hop
from permitflow.testing.machine import channel_parameters
from permitflow.testing.moves import Divergence, Move, drawn_from
from permitflow.testing.traces import judge_all
from permitflow.tracing.events import Event

__all__ = ["ChannelMachine", "machine_for"]

MOST_WAITING = 4

PLAIN = (
    "OfferBarrier",
    "OfferWatermark",
    "SendBarrierNow",
    "ReceiveNow",
    "Receive",
    "Take",
    "ConsumeTaken",
)
CANCELLING = ("WithdrawChunk", "WithdrawBarrier", "GiveUpReceive")
WAKING = ("OfferWatermark", "SendNow", "SendBarrierNow", "ReceiveNow", "Take", "ConsumeTaken", "WithdrawChunk")
"""Moves that act at once, so that somebody may be awake who has not run yet."""


def _moves_named(names: Collection[str] | None) -> st.SearchStrategy[Move]:
    # What is drawn must not depend on the state: where messages cross a network, that is a matter of time.
    return st.runner().flatmap(lambda self: drawn_from(m for m in self.moves() if names is None or m.action in names))


ANY_MOVE, WAKING_MOVE, CANCELLING_MOVE = _moves_named(None), _moves_named(WAKING), _moves_named(CANCELLING)

Refusal: TypeAlias = type[PermitflowError] | UnionType


class ChannelMachine(RuleBasedStateMachine):
    """Model and channel side by side; the class attributes say which channel, and in which loop."""

    kind: ClassVar[ChannelUnderTest]
    runner: ClassVar[asyncio.Runner]

    @initialize(agreed=channel_parameters())
    def start(self, agreed: ChannelParameters) -> None:
        """Open a channel; it is at rest."""
        self.agreed = agreed
        self.is_healthy = True
        self.made: list[tuple[list[Move], bool]] = []
        self.following = Following()
        self.runner.run(self._open())

    async def _open(self) -> None:
        opened: asyncio.Future[Ends] = asyncio.get_running_loop().create_future()
        self.stop = asyncio.Event()
        # Entered and left by one task of its own, as a context manager with a cancel scope demands.
        self.stage = asyncio.create_task(self._hold_open(opened))
        self.stage.add_done_callback(partial(_give_up_opening, opened))
        self.app = Application(self.kind, await opened)
        self.app.changed = self.following.changed
        self.hops = [self.following.hops[name] for name in self.kind.streams(self.app.sender, self.app.receiver)]
        self.following.listeners += [self.app.note, self._check_bridges]

    async def _hold_open(self, opened: asyncio.Future[Ends]) -> None:
        async with self.kind.open(self.agreed, self.following.recorder) as ends:
            opened.set_result(ends)
            await self.stop.wait()

    @rule(move=ANY_MOVE, pause=st.booleans())
    def step(self, move: Move, pause: bool) -> None:
        """The application moves; with a pause, everything that follows from it happens before the next move."""
        self.runner.run(self._step([move], pause=pause))

    @rule(moves=st.lists(ANY_MOVE, min_size=2, max_size=4), pause=st.booleans())
    def burst(self, moves: list[Move], pause: bool) -> None:
        """The application makes several moves at once: no task runs in between, whoever was woken."""
        self.runner.run(self._step(moves, pause=pause))

    @rule(wake=WAKING_MOVE, cancel=CANCELLING_MOVE, pause=st.booleans())
    def race(self, wake: Move, cancel: Move, pause: bool) -> None:
        """Somebody is perhaps woken, and cancelled before his task runs: what he was woken for must not be lost."""
        self.runner.run(self._step([wake, cancel], pause=pause))

    @rule()
    def catch_up(self) -> None:
        """The receiver consumes the last messages and waits for more."""
        here, taken = self.hops[-1].state.inbox.size(), len(self.app.taken)
        # Not with much still here: what is consumed cannot hold anybody up any more.
        if not running(self.app.receives) and here <= 2:
            moves = [Move("ConsumeTaken")] * taken + [Move("ReceiveNow")] * (here - taken) + [Move("Receive")]
            self.runner.run(self._step(moves, pause=True))

    async def _step(self, moves: Sequence[Move], *, pause: bool) -> None:
        self.is_healthy = False
        made: list[Move] = []
        self.made.append((made, pause))
        for move in moves:
            if self._is_about_something(move):
                made.append(move)
                self._perform(move)
        if pause:
            await self.settle()
        self.following.check()
        self.app.check_received()
        self.is_healthy = True

    def _perform(self, move: Move) -> None:
        refusal = self.refusal_of(move)
        before, events = self.hops[0].state, len(self.following.trace.events)
        try:
            self.app.perform(move)
        except PermitflowError as reason:
            if refusal is None or not isinstance(reason, refusal):
                raise Divergence(f"{move!r} ends with {reason!r}, expected {refusal or 'success'}") from reason
            if len(self.following.trace.events) != events:
                raise Divergence(
                    f"{move!r} was refused, but {self.following.trace.events[events:]} happened"
                ) from reason
            return
        if refusal is not None:
            raise Divergence(f"{move!r} should be refused with {refusal} in {before}, but it succeeds")

    def moves(self) -> list[Move]:
        """All moves with these parameters.  Which of them have a meaning may be a matter of time: see below."""
        clamp = self.agreed.max_chunk_cost
        sizes = sorted({0, 1, clamp, max(1, clamp // 2), *((clamp + 2,) if self.agreed.oversize == "whole" else ())})
        sends = [Move(name, (rows,)) for name in ("OfferChunk", "SendNow") for rows in sizes]
        cancellations = [Move(name, (position,)) for name in CANCELLING for position in range(3)]
        return [*sends, *cancellations, *map(Move, PLAIN)]

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
            case Move("Receive"):
                return len(receives) < MOST_WAITING and not app.taken
            case Move("ReceiveNow" | "Take" | "ConsumeTaken"):
                # Messages belong to those who have waited for them; what others may take is not the model's to say.
                return not receives
        return True

    def refusal_of(self, move: Move) -> Refusal | None:
        """How the channel has to refuse this move now; None if it has to succeed."""
        first, inbox, taken = self.hops[0], self.hops[-1].state.inbox.size(), len(self.app.taken)
        match move:
            case Move("SendNow", (rows,)):
                cost = self.agreed.cost_of(rows)
                may_leave = first.state.waiting.is_empty() and cost <= first.state.permits.rows
                return None if may_leave else WouldBlock
            case Move("SendBarrierNow"):
                may_leave = first.barriers_waiting() == 0 and first.state.permits.barriers > 0
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
        """Wait until nothing more happens by itself, then compare what can be seen from outside."""
        sends, waiting = len(running(self.app.chunks)), self.hops[0].state.waiting.size()
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
            and len(running(app.chunks)) == first.state.waiting.size()
            and len(running(app.barriers)) == first.barriers_waiting()
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
        pairs = {
            "sent_chunks": (at_sender.sent_chunks, len(first.sent_rows)),
            "sent_rows": (at_sender.sent_rows, sum(first.sent_rows)),
            "consumed_chunks": (at_receiver.consumed_chunks, len(last.consumed_rows)),
            "consumed_rows": (at_receiver.consumed_rows, sum(last.consumed_rows)),
            "peak_permits_outstanding": (
                at_sender.peak_permits_outstanding,
                self.agreed.row_permits - first.least_row_permits,
            ),
            "peak_inbox_rows": (at_receiver.peak_inbox_rows, last.peak_inbox_rows),
        }
        wrong = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
        if wrong:
            raise Divergence(f"statistics differ (channel, model): {wrong}")

    # The end: everything is withdrawn or consumed, and every permit must be home.

    def teardown(self) -> None:
        """Empty the channel; what was recorded is a behaviour, however the two ends' logs are put together."""
        if hasattr(self, "app"):
            self.runner.run(self._close())

    async def _close(self) -> None:
        try:
            if self.is_healthy:
                await self._empty()
        finally:
            self.app.cancel_all()
            self.stop.set()
            await asyncio.wait({self.stage})
        if not self.is_healthy:
            return  # the step that failed says more
        self.stage.result()
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


def machine_for(
    kind: ChannelUnderTest, runner: asyncio.Runner, *, base: type[ChannelMachine] = ChannelMachine
) -> type[ChannelMachine]:
    """The machine for one kind of channel, in one loop; ``base`` may do more than this one does."""
    return cast("type[ChannelMachine]", type("Machine", (base,), {"kind": kind, "runner": runner}))


def _give_up_opening(opened: asyncio.Future[Ends], stage: Task) -> None:
    if not opened.done():
        opened.set_exception(stage.exception() or Divergence("the channel was closed before it was open"))


def _is_forwarding(source: Hop, target: Hop) -> bool:
    """Will the bridge between two streams go on by itself?  It sends one message at a time."""
    is_waiting = not target.state.waiting.is_empty() or target.state.barrier_waiting
    return not source.state.inbox.is_empty() and not is_waiting
