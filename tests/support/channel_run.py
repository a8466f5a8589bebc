"""One run of a channel beside the model: moves that the model allows must succeed, all others must be refused.

What the channel does by itself in between is followed step by step (``following``)."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from types import UnionType
from typing import TypeAlias

from permitflow.errors import EndOfStream, LocalProtocolError, PermitflowError, WouldBlock
from permitflow.protocol.parameters import ChannelParameters
from permitflow.testing.moves import Divergence, Move
from permitflow.testing.traces import judge_all
from permitflow.tracing.events import Event
from tests.support.application import Application, ChannelUnderTest, Ends, Task, running
from tests.support.following import Following, Hop

__all__ = ["MOST_WAITING", "ChannelRun"]

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
        self.made: list[tuple[list[Move], bool]] = []
        """Moves that were made at once, and whether a pause followed."""
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
        """Wait until nothing more happens by itself, then compare what can be seen from outside.

        Raises:
            Divergence: the channel stops before the model does, or shows other numbers.
        """
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
        peak = self.agreed.row_permits - first.least_row_permits
        pairs = {
            "sent_chunks": (at_sender.sent_chunks, len(first.sent_rows)),
            "sent_rows": (at_sender.sent_rows, sum(first.sent_rows)),
            "consumed_chunks": (at_receiver.consumed_chunks, len(last.consumed_rows)),
            "consumed_rows": (at_receiver.consumed_rows, sum(last.consumed_rows)),
            "peak_permits_outstanding": (at_sender.peak_permits_outstanding, peak),
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
    return not (lacks_permits or not target.state.waiting.is_empty() or target.state.barrier_waiting)
