"""The gate: one consumer of several channels, which aligns their barriers.

    gate = InputGate(GateParameters(inputs=2))
    left = gate.open_channel("left")        # a sender; or gate.add(receiver) for a channel of an exchange
    ...
    async for item in gate:
        match item:
            case GateChunk(source, payload): ...    # of one input, in turn
            case AlignedBarrier(number): ...        # all inputs have come here; none goes on before the next turn
            case MergedWatermark(value): ...        # the least of all inputs

Asking for the next item consumes the last one: its credit returns, and after a barrier the inputs go on.  A gate
belongs to one event loop and one consuming task.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeAlias, TypeVar

from permitflow.channels.local import LocalSender, open_channel
from permitflow.channels.statistics import ChannelStatistics
from permitflow.channels.waiting import Stopwatch
from permitflow.errors import (
    ChannelClosedError,
    ChannelError,
    EndOfStream,
    InputLostError,
    InputStalledError,
    InvalidParametersError,
    LocalProtocolError,
    counted,
)
from permitflow.flows.adaptive_window import OUT_OF_REACH, require_latency
from permitflow.flows.byte_window import DEFAULT_BYTE_WINDOW
from permitflow.flows.gate.core import Gate, GateParameters, GateReceiver
from permitflow.flows.messages import Kind, Message
from permitflow.flows.recording import RecorderFactory
from permitflow.flows.seam import Group, Inbound
from permitflow.patience import Limit

T = TypeVar("T")
_log = logging.getLogger(__name__)

STALL_SECONDS = 60.0


class GateChunk(NamedTuple, Generic[T]):
    """A chunk of one input."""

    source: str
    """The input's name."""
    payload: T
    rows: int


class AlignedBarrier(NamedTuple):
    """All inputs have reached this barrier; every item received before stands in front of it."""

    number: int
    """The barriers' payload if that is a whole number, else the count of barriers of each input."""
    payloads: Mapping[str, object]
    """By input name; inputs that had ended before are left out."""


class MergedWatermark(NamedTuple):
    """The least of the watermarks of all inputs that are neither idle nor over; it only grows."""

    value: Any


GateItem: TypeAlias = GateChunk[T] | AlignedBarrier | MergedWatermark


@dataclass(frozen=True, kw_only=True, slots=True)
class InputStatistics:
    """One input, as the gate sees it."""

    name: str
    is_blocked: bool
    """Does it wait behind its barrier for others?"""
    is_over: bool
    """Has it ended, or failed?"""
    blocked_seconds: float
    """Total time for which it has been blocked."""
    awaited_seconds: float
    """Total time for which others have been blocked and have waited for it."""
    backlog: int
    """Rows that wait at its sender, as far as the gate knows."""
    borrowed: int
    """Credit of the pool that it has."""
    channel: ChannelStatistics


@dataclass(frozen=True, kw_only=True, slots=True)
class GateStatistics:
    """A snapshot of a gate."""

    pool: int
    """Credit that no input has borrowed."""
    target: int
    """Credit of the pool that may be lent: all of it, unless the gate adapts to a latency."""
    alignments: int
    """Barriers that all inputs have reached."""
    given_up: int
    """Barriers that were given up: a newer one came, or an input ended."""
    pending: int | None
    """The barrier that some inputs have reached and others have not."""
    awaited: tuple[str, ...]
    """The inputs for which the others wait; empty if nobody waits."""
    alignment_seconds: float
    """Time in which some inputs waited for others, all in all."""
    last_alignment_seconds: float
    """How long the last barrier took, from the first input to the last one."""
    inputs: tuple[InputStatistics, ...]


class _Receiver(Protocol[T]):
    """The part of a receiving end that the gate uses; the ends of a local channel and of an exchange have it."""

    @property
    def name(self) -> str: ...
    @property
    def core(self) -> Inbound[Any]: ...
    def take_nowait(self) -> Message[T]: ...
    def consume(self, messages: int = 1) -> None: ...
    async def until_takeable(self) -> object: ...
    def close(self) -> None: ...
    def statistics(self) -> ChannelStatistics: ...


@dataclass(eq=False, kw_only=True)
class _Input(Generic[T]):
    name: str
    receiver: _Receiver[T]
    core: GateReceiver[Any]
    blocked: Stopwatch
    awaited: Stopwatch
    task: asyncio.Task[None] | None = None
    is_empty: asyncio.Event = field(default_factory=asyncio.Event)
    """Cleared while messages are known to be here."""
    ending: BaseException | None = None
    """Why no message will come behind those that are here."""
    barrier: object = None
    """The payload of the barrier that blocks it."""
    watermark: Any = None
    is_idle: bool = False
    has_left: bool = False
    """Was its end handed out?"""

    async def watch(self, changed: asyncio.Event) -> None:
        """Tell whenever messages have come, or none can come any more."""
        try:
            while True:
                await self.is_empty.wait()
                await self.receiver.until_takeable()
                self.is_empty.clear()
                changed.set()
        except BaseException as ending:  # else the consumer would wait for ever
            self.ending = ending
            changed.set()
            if not isinstance(ending, Exception):
                raise

    def take(self) -> Message[T]:
        """Take the oldest message, which is here."""
        message = self.receiver.take_nowait()
        if not self.core.untaken:
            self.is_empty.set()
        return message


class InputGate(Generic[T]):
    """Receives from several channels in turn, and aligns their barriers.

    An input whose barrier has come is blocked until the barriers of all have: its sender stops behind the barrier, so
    that nothing piles up here.  Barriers have numbers, ``AlignedBarrier.number``; a newer one subsumes an older one
    that is still waited for, which is then given up.  An input that has ended is not waited for; one that fails, fails
    the gate.

    A watermark of None declares its input idle, until its next watermark: the others do not wait for it.

    >>> async def join() -> list[object]:
    ...     async with InputGate(GateParameters(inputs=2)) as gate:
    ...         left, right = gate.open_channel("left"), gate.open_channel("right")
    ...         for sender in (left, right):
    ...             await sender.send([1, 2, 3])
    ...             sender.send_barrier_nowait(7)
    ...             await sender.end()
    ...         return [item async for item in gate]
    >>> for item in asyncio.run(join()):
    ...     print(item)
    GateChunk(source='left', payload=[1, 2, 3], rows=3)
    GateChunk(source='right', payload=[1, 2, 3], rows=3)
    AlignedBarrier(number=7, payloads={'left': 7, 'right': 7})
    """

    def __init__(
        self,
        parameters: GateParameters | None = None,
        *,
        stall_seconds: float | None = STALL_SECONDS,
        target_latency_seconds: float | None = None,
    ) -> None:
        """No input has been added yet.

        Args:
            parameters: by default those of one input.
            stall_seconds: how long inputs that are blocked may wait for a message of the others before ``receive``
                raises ``InputStalledError``; None: for ever.
            target_latency_seconds: let the pool adapt, so that rows wait in the gate about this long, by what its
                consumer is measured to consume; so long does a barrier wait behind them.  ``exclusive`` credit is never
                withheld: make it small.  None: the whole pool may be lent.

        Raises:
            InvalidParametersError: ``stall_seconds`` is not positive, the latency is out of its range, or
                ``parameters`` are those of another flow.
        """
        if stall_seconds is not None and not (isinstance(stall_seconds, int | float) and stall_seconds > 0):
            raise InvalidParametersError(name="stall_seconds", value=stall_seconds, rule="must be above 0, or None")
        self.parameters = GateParameters() if parameters is None else parameters
        if not isinstance(self.parameters, GateParameters):
            raise InvalidParametersError(name="parameters", value=parameters, rule="must be GateParameters")
        self._core = Gate(self.parameters, admits_later=True)
        self._core.wake = self._schedule
        self._latency_seconds = target_latency_seconds
        self._is_out_of_reach = False
        if target_latency_seconds is not None:
            self._core.aim_at(require_latency(target_latency_seconds))
        self._held_rows = 0
        self._stall_seconds = stall_seconds
        self._inputs: list[_Input[T]] = []
        self._changed = asyncio.Event()
        self._held: _Input[T] | None = None  # whose chunk the consumer has
        self._is_aligned = self._is_receiving = self._is_closed = False
        self._failure: InputLostError | None = None
        self._turn = 0
        self._watermark: Any = None
        self._stall: Limit | None = None
        self._aligning = Stopwatch(self._time)
        self._aligned_before = self._last_alignment = 0.0

    @property
    def group(self) -> Group:
        """What the inputs share; ``get`` and ``open_channel`` take it."""
        return self._core

    # Inputs.

    def open_channel(
        self,
        name: str,
        *,
        record: RecorderFactory | None = None,
        byte_window: int = DEFAULT_BYTE_WINDOW,
        size_of: Callable[[T], int] | None = None,
    ) -> LocalSender[T]:
        """A new input from inside this process; returns its sender.  For its options see ``permitflow.open_channel``.

        Raises:
            LocalProtocolError: the gate has all its inputs.
            InvalidParametersError: an input has this name.
        """
        self._require_new(name)
        sender: LocalSender[T]
        sender, receiver = open_channel(
            self.parameters, name=name, record=record, group=self._core, byte_window=byte_window, size_of=size_of
        )
        self.add(receiver)
        return sender

    def add(self, receiver: _Receiver[T], *, name: str = "") -> None:
        """Add an input that was opened with ``group=gate.group``; the gate closes it.

        ``name``: by default that of its channel.

        Raises:
            InvalidParametersError: it belongs to another group, or it or its name is an input already.
        """
        name = name or receiver.name
        self._require_new(name)
        core = receiver.core
        if not isinstance(core, GateReceiver) or core not in self._core.members:
            raise InvalidParametersError(name="receiver", value=name, rule="must be opened with group=gate.group")
        if any(each.core is core for each in self._inputs):
            raise InvalidParametersError(name="receiver", value=name, rule="must be new to the gate")
        core.admit()
        added = _Input(
            name=name, receiver=receiver, core=core, blocked=Stopwatch(self._time), awaited=Stopwatch(self._time)
        )
        added.is_empty.set()
        added.task = asyncio.get_running_loop().create_task(added.watch(self._changed), name=f"gate input {name}")
        self._inputs.append(added)

    def _require_new(self, name: str) -> None:
        asyncio.get_running_loop()  # before anything changes: an input's task needs it
        self._require_open()
        if any(each.name == name for each in self._inputs):
            raise InvalidParametersError(name="name", value=name, rule="must be new to the gate")

    def _require_open(self) -> None:
        if self._failure is not None:
            failure = self._failure
            raise InputLostError(input=failure.input, reason=failure.reason) from failure.__cause__
        if self._is_closed:
            raise ChannelClosedError(end="gate")

    # Receiving.

    async def receive(self) -> GateItem[T]:
        """Finish the last item, and wait for the next one.  A cancelled call has received nothing.

        Raises:
            EndOfStream: all inputs have ended.
            InputLostError: an input has failed, and the gate with it.
            InputStalledError: blocked inputs wait, and no message has come; nothing has changed.
            ChannelClosedError: the gate is closed.
            LocalProtocolError: another task is receiving, or watermarks cannot be compared.
        """
        if self._is_receiving:
            raise LocalProtocolError("another task receives from this gate")
        self._is_receiving = True
        try:
            self.resume()
            while True:
                self._require_open()
                self._changed.clear()
                item = self._next()
                if self._latency_seconds is not None:
                    self._core.observe(self._time(), 0, is_busy=item is not None)
                if item is not None:
                    self._end_stall()
                    return item
                await self._until_changed()
        finally:
            self._is_receiving = False

    def resume(self) -> None:
        """Finish the last item before the next one is asked for: its credit returns, or the inputs go on.

        Raises:
            ChannelClosedError: the gate is closed.
        """
        self._require_open()
        if self._held is not None:
            held, self._held = self._held, None
            with suppress(ChannelError):  # its channel has been aborted or lost: that comes in its turn
                held.receiver.consume()
            if self._latency_seconds is not None:
                self._observe(self._latency_seconds)
        if self._is_aligned:
            self._is_aligned = False
            if self._core.is_aligned:  # else an input has failed meanwhile
                self._core.align()
            self._note_blocked()

    def _observe(self, wanted_seconds: float) -> None:
        """Let the pool adapt to a chunk that was consumed; say once that it cannot lend as little as is wanted."""
        self._core.observe(self._time(), self._held_rows, is_busy=True)
        least = self._core.least_latency_seconds
        if least is not None and not self._is_out_of_reach:
            self._is_out_of_reach = True
            _log.warning(OUT_OF_REACH, "gate", least, wanted_seconds)

    def __aiter__(self) -> Self:
        """Receive until all inputs have ended."""
        return self

    async def __anext__(self) -> GateItem[T]:
        """The next item.

        Raises:
            StopAsyncIteration: all inputs have ended.
        """
        try:
            return await self.receive()
        except EndOfStream:
            raise StopAsyncIteration from None

    def _next(self) -> GateItem[T] | None:
        """The next item that is here: one message of each input in turn."""
        if self._core.has_failed:
            self._fail()
            return None
        left = len(self._inputs)
        while left:
            each = self._inputs[self._turn % len(self._inputs)]
            left -= 1
            if not each.has_left and not each.core.is_blocked:
                if each.core.untaken and not each.is_empty.is_set():
                    left = len(self._inputs)
                    if (item := self._take(each)) is not None:
                        self._turn += 1
                        return item
                elif each.ending is not None:
                    left = len(self._inputs)
                    if (item := self._leave(each)) is not None:
                        return item
                else:
                    each.is_empty.set()  # an abort takes messages away
            self._turn += 1
        if len(self._inputs) == self.parameters.inputs and all(each.has_left for each in self._inputs):
            raise EndOfStream
        return None

    def _take(self, each: _Input[T]) -> GateItem[T] | None:
        message = each.take()
        if message.kind is Kind.CHUNK:
            self._held, self._held_rows = each, message.rows
            return GateChunk(each.name, message.payload, message.rows)
        each.receiver.consume()
        if message.kind is Kind.WATERMARK:
            each.is_idle = message.payload is None
            each.watermark = message.payload
            return self._merged()
        each.barrier = message.payload
        return self._aligned()

    def _aligned(self) -> AlignedBarrier | None:
        """The pending barrier, if all inputs are there."""
        self._note_blocked()
        pending = self._core.pending
        if pending is None or not self._core.is_aligned:
            return None
        self._is_aligned = True
        return AlignedBarrier(pending, {each.name: each.barrier for each in self._inputs if each.core.is_blocked})

    def _leave(self, each: _Input[T]) -> AlignedBarrier | MergedWatermark | None:
        """An input is over; the others may have waited for it.

        Raises:
            InputLostError: it has failed.
        """
        ending, each.has_left = each.ending, True
        if isinstance(ending, EndOfStream):
            self._core.end_input(each.core)
            return self._aligned() or self._merged()  # the watermark may also come with the next one
        self._core.lose_input(each.core)
        self._note_blocked()
        self._failure = InputLostError(input=each.name, reason=str(ending) or type(ending).__name__)
        raise self._failure from ending

    def _fail(self) -> None:
        """Raise for an input that broke off; of a gate that has failed, nothing more is consumed.

        Raises:
            InputLostError: an input has failed.
        """
        for each in self._inputs:
            if each.core.is_over and not each.has_left:
                if each.ending is not None:
                    self._leave(each)
                each.is_empty.set()  # its messages are gone; then its ending is found out

    def _merged(self) -> MergedWatermark | None:
        """The least watermark, if it has grown."""
        if len(self._inputs) < self.parameters.inputs:
            return None
        values = [each.watermark for each in self._inputs if not each.core.is_over and not each.is_idle]
        if not values or any(value is None for value in values):
            return None
        try:
            least = min(values)
            if self._watermark is not None and not least > self._watermark:
                return None
        except TypeError as error:
            raise LocalProtocolError(f"the watermarks of the inputs cannot be compared: {error}") from error
        self._watermark = least
        return MergedWatermark(least)

    # Waiting.

    async def _until_changed(self) -> None:
        """Wait until something may have come.

        Raises:
            InputStalledError: inputs are blocked, and nothing has come for too long.
        """
        pending = self._core.pending
        if pending is None or self._stall_seconds is None:
            self._end_stall()
            await self._changed.wait()
            return
        if self._stall is None:
            self._stall = Limit(self._stall_seconds)
        try:
            async with self._stall.over_wait():
                await self._changed.wait()
        except TimeoutError:
            if self._changed.is_set():
                return
            self._end_stall()
            raise InputStalledError(
                awaited=", ".join(self._awaited()),
                blocked=", ".join(each.name for each in self._inputs if each.core.is_blocked),
                barrier=pending,
                seconds=self._stall_seconds,
            ) from None

    def _end_stall(self) -> None:
        if self._stall is not None:
            self._stall.end()
            self._stall = None

    def _awaited(self) -> tuple[str, ...]:
        """The inputs that keep the others waiting."""
        if self._core.pending is None:
            return ()
        names = [each.name for each in self._inputs if self._is_awaited(each)]
        missing = self.parameters.inputs - len(self._inputs)
        return (*names, *([f"{counted(missing, 'input')} not added yet"] if missing else []))

    @staticmethod
    def _is_awaited(each: _Input[T]) -> bool:
        """Does a barrier wait for it, if for any?"""
        return not each.core.is_blocked and not each.core.is_over

    def _schedule(self) -> None:
        asyncio.get_running_loop().call_soon(self._core.pump)

    @staticmethod
    def _time() -> float:
        return asyncio.get_running_loop().time()

    def _note_blocked(self) -> None:
        """Start and stop the clocks of those that wait."""
        is_waiting = self._core.pending is not None and not self._core.is_aligned
        for each in self._inputs:
            each.blocked.follow(each.core.is_blocked)
            each.awaited.follow(is_waiting and self._is_awaited(each))
        was_waiting = self._aligning.running
        self._aligning.follow(is_waiting)
        if is_waiting > was_waiting:
            self._aligned_before = self._aligning.seconds
        elif is_waiting < was_waiting:
            self._last_alignment = self._aligning.seconds - self._aligned_before

    # The end.

    def close(self) -> None:
        """Release the gate and all its inputs; what they hold is dropped."""
        self._is_closed = True
        self._end_stall()
        for each in self._inputs:
            if each.task is not None:
                each.task.cancel()
            each.receiver.close()
        self._changed.set()

    async def __aenter__(self) -> Self:
        """Close the gate at the end of the block."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close."""
        self.close()
        await asyncio.gather(*(each.task for each in self._inputs if each.task is not None), return_exceptions=True)

    def statistics(self) -> GateStatistics:
        """A snapshot: who blocks whom, and for how long."""
        core = self._core
        return GateStatistics(
            pool=core.pool,
            target=core.target,
            alignments=core.alignments,
            given_up=core.given_up,
            pending=core.pending,
            awaited=self._awaited(),
            alignment_seconds=self._aligning.seconds,
            last_alignment_seconds=self._last_alignment,
            inputs=tuple(
                InputStatistics(
                    name=each.name,
                    is_blocked=each.core.is_blocked,
                    is_over=each.core.is_over,
                    blocked_seconds=each.blocked.seconds,
                    awaited_seconds=each.awaited.seconds,
                    backlog=each.core.required,
                    borrowed=each.core.borrowed,
                    channel=each.receiver.statistics(),
                )
                for each in self._inputs
            ),
        )

    def __repr__(self) -> str:
        awaited = self._awaited()
        waits = f", barrier {self._core.pending} waits for {', '.join(awaited)}" if awaited else ""
        return f"<InputGate of {len(self._inputs)} inputs{waits}>"
