"""This project's channel with one fault in each copy: of cancellations, ends, aborts and stops.

A fault is an adapter's class that spoils the two ends which ``open`` has made, and the rule that it breaks.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

from permitflow import (
    ChannelParameters,
    GateChunk,
    GateParameters,
    InputGate,
    Kind,
    Parameters,
    RecorderFactory,
)
from permitflow.channels.waiting import ParkedSend
from permitflow.errors import EndOfStream
from permitflow.flows.permits.core import PermitReceiver, PermitSender
from permitflow_testing import ChannelAdapter, Ended, Feature, ReceivedMessage
from permitflow_testing.examples.our_channels import LocalChannel


class Fault(NamedTuple):
    """A fault, and what the kit must say of it."""

    name: str
    rule: str
    finding: str
    adapter: type[ChannelAdapter]


FAULTS: list[Fault] = []

A = TypeVar("A", bound=type[ChannelAdapter])


def planted(name: str, rule: str, finding: str) -> Callable[[A], A]:
    """Note a fault."""

    def note(adapter: A) -> A:
        FAULTS.append(Fault(name, rule, finding, adapter))
        return adapter

    return note


class Spoilt(LocalChannel):
    """The channel, its two lines and its two cores at hand."""

    async def open(self, parameters: Parameters, record: RecorderFactory) -> None:
        await super().open(parameters, record)
        assert isinstance(parameters, ChannelParameters)
        self.channel: Any = self.sender._channel  # type: ignore[attr-defined]
        self.core: PermitSender[Any] = self.channel.sender
        self.inbound: PermitReceiver[Any] = self.channel.receiver
        self.spoil()

    def spoil(self) -> None:
        """Plant the fault."""

    def on_cancelled_send(self, then: Callable[[ParkedSend[Any]], None]) -> None:
        """Do something more when a waiting send is cancelled."""
        leave: Callable[[ParkedSend[Any]], Awaitable[None]] = self.channel.line.leave

        async def spoilt(parked: ParkedSend[Any]) -> None:
            try:
                await leave(parked)
            except asyncio.CancelledError:
                then(parked)
                raise

        self.replace(self.channel.line, "leave", spoilt)

    @staticmethod
    def replace(owner: Any, name: str, what: Callable[..., object]) -> None:
        """Replace a method of one object, which may have slots."""
        kind = type(owner)
        owner.__class__ = type(kind.__name__, (kind,), {"__slots__": (), name: staticmethod(what)})


# Sends that are cancelled.


@planted("a send that was granted and then cancelled keeps its permits", "cancelled-send", "loses permits")
class KeepsGranted(Spoilt):
    def spoil(self) -> None:
        def keep(parked: ParkedSend[Any]) -> None:
            if parked.is_awake:
                self.core._row_permits -= self.core.parameters.cost_of(parked.offered[0].message.rows)

        self.on_cancelled_send(keep)


@planted("a cancelled send does not pass its wake-up on", "cancelled-send", "loses a message")
class KeepsWakeUp(Spoilt):
    def spoil(self) -> None:
        async def leave(parked: ParkedSend[Any]) -> None:
            if not parked.is_over:
                await self.channel.line.leave(parked)
                self.channel.advance()

        self.channel.leave = leave


@planted(
    "a woken send that is cancelled has sent", "cancelled-send", "has sent a chunk although its send was cancelled"
)
class SendsWhenWoken(Spoilt):
    def spoil(self) -> None:
        line = self.channel.line

        async def leave(parked: ParkedSend[Any]) -> None:
            while not parked.is_over:
                try:
                    await parked.sleep()
                finally:
                    if parked.is_awake:
                        line.go(parked)

        async def spoilt(parked: ParkedSend[Any]) -> None:
            try:
                await leave(parked)
            except asyncio.CancelledError:
                if not parked.is_over:
                    line.parked.remove(parked)
                    self.core.withdraw(parked.offered[0])
                raise

        self.replace(line, "leave", spoilt)


@planted("a barrier that was granted and then cancelled keeps its permit", "cancelled-barrier", "loses a message")
class KeepsBarrier(Spoilt):
    def spoil(self) -> None:
        def keep(parked: ParkedSend[Any]) -> None:
            if parked.is_awake and parked.offered[0].message.kind is Kind.BARRIER:
                self.core._barrier_permits -= 1

        self.on_cancelled_send(keep)


# Receives that are cancelled.


class SpoiltReceive(Spoilt):
    """The receivers' line gives up in another way."""

    def spoil(self) -> None:
        line: Any = self.channel.takers

        async def until_woken() -> None:
            future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            line.futures.append(future)
            try:
                is_reserved = await future
            except BaseException:
                self.give_up(line, future)
                raise
            line._reserved -= is_reserved

        self.replace(line, "until_woken", until_woken)

    def give_up(self, line: Any, future: "asyncio.Future[bool]") -> None:
        """What a cancelled receive does."""
        raise NotImplementedError


@planted("a woken receive that is cancelled takes its message with it", "cancelled-receive", "loses a message")
class TakesAway(SpoiltReceive):
    def give_up(self, line: Any, future: "asyncio.Future[bool]") -> None:
        if future in line.futures:
            line.futures.remove(future)
        elif not future.cancelled():
            line._reserved -= 1
            self.inbound.try_receive()


@planted("a message stays reserved for a woken receive that was cancelled", "cancelled-receive", "loses a message")
class StaysReserved(SpoiltReceive):
    def give_up(self, line: Any, future: "asyncio.Future[bool]") -> None:
        if future in line.futures:
            line.futures.remove(future)


@planted("a woken receive that is cancelled does not wake the next one", "cancelled-receive", "lets a receive sleep on")
class WakesNobody(SpoiltReceive):
    def give_up(self, line: Any, future: "asyncio.Future[bool]") -> None:
        if future in line.futures:
            line.futures.remove(future)
        elif not future.cancelled():
            line._reserved -= 1


@planted(
    "a cancelled receive stays in the line, and gets the next message", "cancelled-receive", "lets a receive sleep on"
)
class StaysInLine(SpoiltReceive):
    def spoil(self) -> None:
        super().spoil()
        line: Any = self.channel.takers

        def wake() -> None:
            while line.spare > 0 and line.futures:
                future = line.futures.popleft()
                line._reserved += 1
                if not future.done():
                    future.set_result(True)

        self.replace(line, "wake", wake)

    def give_up(self, line: Any, future: "asyncio.Future[bool]") -> None:
        if future not in line.futures and not future.cancelled():
            line._reserved -= 1
            line.wake()


# Ends, aborts.


@planted("a cancelled end counts as an end", "cancelled-end", "does not tell the receiver that the stream has ended")
class EndsHalf(Spoilt):
    is_ended = False

    async def end(self) -> None:
        if not self.is_ended:
            self.is_ended = True
            await asyncio.sleep(0)
            await super().end()


@planted("an end drops what waits to be sent", "end-comes-last", "ends before everything was received")
class DropsWaiting(Spoilt):
    async def end(self) -> None:
        self.channel.sender.withdraw_all()
        await super().end()


@planted(
    "an end leaves a waiting receiver asleep",
    "end-comes-last",
    "does not tell a waiting receiver that the stream has ended",
)
class EndsSilently(Spoilt):
    def spoil(self) -> None:
        self.channel.tell_if_over = lambda: None


@planted("an abort leaves a waiting send asleep", "abort-is-no-end", "lets a send wait for ever that was given up")
@planted(
    "a stop leaves a waiting send asleep",
    "stop-ends-sends",
    "lets a send wait for ever when the receiver stops the stream",
)
class ForgetsSenders(Spoilt):
    def spoil(self) -> None:
        self.replace(self.channel.line, "refuse_all", lambda: None)


@planted("an abort looks like an end", "abort-is-no-end", "does not tell the receiver that the stream was given up")
class LooksEnded(Spoilt):
    async def take(self) -> ReceivedMessage:
        try:
            return await super().take()
        except Exception as error:
            raise Ended from error


# The gate.


class GateChannel(ChannelAdapter):
    """A gate with one input, whose credit is the channel's permits; what is received is consumed at once."""

    lacks = frozenset({Feature.BATCHING, Feature.OVERSIZE})

    async def open(self, parameters: ChannelParameters, record: RecorderFactory) -> None:
        permits = parameters.row_permits
        of_gate = GateParameters(inputs=1, exclusive=permits, floating=0, max_chunk_cost=permits)
        self.gate: InputGate[int] = InputGate(of_gate)
        self.sender = self.gate.open_channel("input")

    async def offer_chunk(self, serial: int, rows: int) -> None:
        await self.sender.send(serial, rows)

    async def take(self) -> ReceivedMessage:
        try:
            item = await self.gate.receive()
        except EndOfStream as end:
            raise Ended from end
        assert isinstance(item, GateChunk)
        self.gate.resume()
        return ReceivedMessage(Kind.CHUNK, item.payload, item.rows)

    async def end(self) -> None:
        await self.sender.end()

    async def close(self) -> None:
        self.gate.close()


@planted(
    "a gate's receive that is cancelled between grant and run loses its item", "cancelled-receive", "loses a message"
)
class GateLoses(GateChannel):
    async def open(self, parameters: ChannelParameters, record: RecorderFactory) -> None:
        await super().open(parameters, record)
        gate: Any = self.gate
        until_changed: Callable[[], Awaitable[None]] = gate._until_changed

        async def spoilt() -> None:
            try:
                await until_changed()
            except asyncio.CancelledError:
                if gate._changed.is_set():
                    gate._next()
                    gate.resume()
                raise

        gate._until_changed = spoilt
