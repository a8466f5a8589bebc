"""An adapter in the kit's hands: each of its calls is bounded, and what is wrong with a call is a sentence.

A call that does not end is cancelled some times, and then left alone: the run goes on without it.
"""

import asyncio
import ctypes
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from inspect import CORO_CLOSED, getcoroutinestate
from numbers import Integral
from threading import Thread
from typing import Any, TypeAlias, TypeVar

from permitflow.flows.messages import Kind
from permitflow.flows.recording import RecorderFactory
from permitflow_testing.adapter import ChannelAdapter, Feature, ReceivedMessage, lacks_of

TURNS = 20
"""Turns of the event loop that an in-process channel gets to settle: more than any chain of wake-ups takes with so few
waiting operations."""

CANCELLATIONS = 3
"""A task that has not ended after this many is left alone."""

START_SECONDS = 10.0
"""The longest ``open`` and the longest ``close``: they may start and stop servers."""

END_SECONDS = 0.2
"""The longest wait for all tasks together, each time that they are cancelled at the very end."""

T = TypeVar("T")

Call: TypeAlias = asyncio.Task[Any]
"""A call of the adapter; the task's name is what the call is called in a sentence: "your send ..."."""


SENDS = {"chunk": "send", "barrier": "send of a barrier"}
"""What the call that sends such a message is called."""

RECEIVE, END, STOP = "receive", "end", "stop"


class AdapterError(Exception):
    """A call of the adapter does what no call may do, whatever the rule."""

    ends_all = ""
    """Why no further rule need be asked, if that is so."""
    breaks_rule = True
    """Whether the rule that was being asked is broken by it."""


@dataclass
class Habits:
    """What the runs of one judge have learnt about an adapter."""

    faults: dict[str, str] = field(default_factory=dict)
    """Calls that do not end, or fail at the end of a run: each with a sentence."""
    pauses: int = 0
    """How often the kit has watched that nothing happens."""

    def note(self, call: str, fault: str) -> None:
        """Remember a fault; only the first one of each call."""
        self.faults.setdefault(call, f"your {call} {fault}")


class BoundedAdapter:
    """Calls the methods of an adapter, for one run; no call lasts without bound.

    ``send``, ``send_barrier``, ``take`` and ``end`` begin a call and return its task, which may wait for long.
    """

    def __init__(self, adapter: ChannelAdapter, habits: Habits) -> None:
        """``habits`` belong to all runs of a judge."""
        self._adapter = adapter
        self.habits = habits
        self.lacks = lacks_of(adapter)
        self.hops = adapter.hops
        self.timeout_seconds = adapter.timeout_seconds
        self._settle_seconds = adapter.call_seconds or self.timeout_seconds
        self._settles = type(adapter).settled is not ChannelAdapter.settled
        self.quiet_seconds = 0.0 if self._settles else adapter.quiet_seconds
        self._made: list[Coroutine[Any, Any, Any]] = []
        """The adapter's own coroutines in this run."""
        self._under_way: dict[Call, None] = {}
        """The calls that have not ended, in the order in which they began."""
        self._consumes = type(adapter).consume is not ChannelAdapter.consume

    # The channel as a whole.

    @asynccontextmanager
    async def opened(self, parameters: Any, record: RecorderFactory) -> AsyncIterator[None]:
        """A run: the channel is open in the block; at its end, every call is given up and the channel closed.

        Raises:
            AdapterError: ``open`` takes too long.
            Exception: as the adapter's ``open`` raises it.
        """
        await self._within(self._adapter.open(parameters, record), "open", self._adapter.call_seconds or START_SECONDS)
        try:
            yield
        finally:
            await self.give_up_all()
            await self._close()

    async def _close(self) -> None:
        """Close the channel; what goes wrong is noted, since the run is over."""
        seconds = self._adapter.call_seconds or (0.0 if "close" in self.habits.faults else START_SECONDS)
        try:
            await self._within(self._adapter.close(), "close", seconds)
        except AdapterError as error:
            self.habits.faults.setdefault("close", str(error))
        except Exception as error:
            self.habits.note("close", f"raises {type(error).__name__}: {error}")

    async def pause(self) -> None:
        """Give the channel time for its own steps.

        Raises:
            AdapterError: it does not settle.
        """
        self.habits.pauses += 1
        await turns()
        if self._settles:
            await self._within(self._adapter.settled(), "settled", self._settle_seconds)
            await turns()
        elif self.quiet_seconds:
            await asyncio.sleep(self.quiet_seconds)

    def watched(self) -> str:
        """How the kit knows that nothing more comes; empty if it needs no clock."""
        if not self.quiet_seconds:
            return ""
        per_move, pauses = f"{1000 * self.quiet_seconds:g} ms", self.habits.pauses
        return (
            f"watched for {per_move} after each move, {self.quiet_seconds * pauses:.1f} s in all: what came later was "
            "not seen; an adapter with settled(), or a driver with settle, needs none"
        )

    # The applications' calls.

    def send(self, serial: int, rows: int) -> Call:
        """Begin to send a chunk."""
        return self.begin(self.sending(serial, rows), SENDS["chunk"])

    def sending(self, serial: int, rows: int) -> Coroutine[Any, Any, None]:
        """The call that sends a chunk."""
        return self._noted(self._adapter.offer_chunk(serial, rows))

    def send_barrier(self) -> Call:
        """Begin to send a barrier."""
        return self.begin(self.sending_barrier(), SENDS["barrier"])

    def sending_barrier(self) -> Coroutine[Any, Any, None]:
        """The call that sends a barrier."""
        return self._noted(self._adapter.offer_barrier())

    def taking(self) -> Coroutine[Any, Any, ReceivedMessage]:
        """The call that takes a message; it raises ``AdapterError`` if it returns something else."""
        return self._received(self._noted(self._adapter.take()))

    @staticmethod
    async def _received(taking: Coroutine[Any, Any, object]) -> ReceivedMessage:
        received = await taking
        if not isinstance(received, ReceivedMessage):
            raise AdapterError(f"your take returns {received!r}; it must return ReceivedMessage(kind, value, rows)")
        kind, value, rows = received
        if not (isinstance(kind, Kind) and isinstance(value, Integral | None) and isinstance(rows, Integral)):
            rule = "the kind must be a Kind, the value the whole number that was sent, or None, and the rows a number"
            raise AdapterError(f"your take returns {received!r}; {rule}")
        return (
            ReceivedMessage(kind) if kind is Kind.BARRIER else received
        )  # what a barrier carries is its application's

    def take(self) -> Call:
        """Begin to take a message."""
        return self.begin(self.taking(), RECEIVE)

    def end(self) -> Call:
        """Begin to end the stream."""
        return self.begin(self.ending(), END)

    def ending(self) -> Coroutine[Any, Any, None]:
        """The call that ends the stream."""
        return self._noted(self._adapter.end())

    def stop(self) -> Call:
        """Begin to end the stream from the receiver."""
        return self.begin(self._noted(self._adapter.stop()), STOP)

    def consume(self) -> None:
        """Report the oldest taken message as consumed, if the channel accepts such reports."""
        if self._consumes:
            self._adapter.consume()

    @property
    def acknowledges(self) -> bool:
        """Are messages consumed by a report of their own?"""
        return Feature.ACKNOWLEDGEMENT not in self.lacks

    def send_now(self, serial: int, rows: int) -> None:
        """Send a chunk at once; raises ``Refused`` if it may not."""
        self._adapter.send_chunk_now(serial, rows)

    def announce(self, value: int) -> None:
        """Announce a watermark."""
        self._adapter.offer_watermark(value)

    def abort(self) -> None:
        """Abort the stream."""
        self._adapter.abort()

    # Bounds.

    def _noted(self, coroutine: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        self._made.append(coroutine)
        return coroutine

    def begin(self, coroutine: Coroutine[Any, Any, Any], name: str) -> Call:
        """Begin a call."""
        call = asyncio.create_task(coroutine, name=name)
        self._under_way[call] = None
        call.add_done_callback(self._ended)
        return call

    def _ended(self, call: Call) -> None:
        self._under_way.pop(call, None)
        if not call.cancelled():
            call.exception()  # nobody may ask for the result of a call that was given up

    async def has_ended(self, call: Call, seconds: float | None = None) -> bool:
        """Wait for a call, by default as long as a channel may stand still.

        Some turns of the loop come first and last: a busy machine is not a reason to say that nothing happened.
        """
        if await _ends_in_turns(call):
            return True
        await asyncio.wait({call}, timeout=self.timeout_seconds if seconds is None else seconds)
        return call.done() or await _ends_in_turns(call)

    @staticmethod
    def result(call: Call) -> Any:
        """The result of a call that has ended.

        Raises:
            AdapterError: it is cancelled, although nobody has cancelled it.
            Exception: as the adapter raised it.
        """
        if call.cancelled():
            raise AdapterError(f"your {call.get_name()} raises CancelledError, although nobody has cancelled it")
        return call.result()

    @staticmethod
    def error(call: Call) -> BaseException | None:
        """What a call has raised."""
        return None if not call.done() or call.cancelled() else call.exception()

    def fate(self, call: Call) -> str:
        """What has become of a call."""
        if not call.done():
            return "waits on"
        error = self.error(call)
        return f"returns {call.result()!r}" if error is None else f"raises {error!r}"

    async def give_up_all(self) -> None:
        """Give up every call that has not ended, the oldest first."""
        for call in list(self._under_way):
            await self.give_up(call)

    async def give_up(self, call: Call) -> bool:
        """Cancel a call, and wait until it has ended; one that does not end is noted and left alone.

        Returns:
            Whether it has ended.
        """
        name = call.get_name()
        # It costs the whole patience only once.
        seconds = 0.0 if name in self.habits.faults else None
        for _ in range(CANCELLATIONS):
            if call.done():
                return True
            call.cancel()
            if await self.has_ended(call, seconds):
                return True
        self.habits.note(name, "does not end when it is cancelled")
        self._under_way.pop(call, None)
        leave(call)
        keep_for_ever(self._made)
        return False

    async def _within(self, coroutine: Coroutine[Any, Any, Any], name: str, seconds: float) -> None:
        call = self.begin(coroutine, name)
        if not await self.has_ended(call, seconds):
            await self.give_up(call)
            raise AdapterError(f"your {name} has not ended after {seconds:g} s")
        self.result(call)


MakeBounded: TypeAlias = Callable[[], BoundedAdapter]
"""Makes an adapter for a run."""


async def turns(count: int = TURNS) -> None:
    """Let every task run until it waits for something."""
    for _ in range(count):
        await asyncio.sleep(0)


async def _ends_in_turns(call: Call) -> bool:
    for _ in range(TURNS):
        if call.done():
            return True
        await asyncio.sleep(0)
    return call.done()


def leave(call: Call) -> None:
    """Let a task alone that does not end when it is cancelled.

    Most of them end here: they catch ``CancelledError``, but not that their coroutine is closed.
    """
    coroutine: Any = call.get_coro()
    with suppress(Exception):
        coroutine.close()
    call.cancel()
    if getcoroutinestate(coroutine) != CORO_CLOSED:
        asyncio.tasks._unregister_task(call)  # it ignores even that: no loop shall wait for it
        keep_for_ever([call])
    keep_for_ever([coroutine])


def keep_for_ever(made: Iterable[Any]) -> None:
    """Let Python never close what ignores that it is closed: without a loop, it could go on without bound."""
    for one in made:
        if not isinstance(one, Coroutine) or getcoroutinestate(one) != CORO_CLOSED:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))


class _Threads(ThreadPoolExecutor):
    """The loop's own threads, one for each call: a blocked one takes no other's place, and holds no program."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future = Future[T]()

        def work() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(fn(*args, **kwargs))
                except BaseException as error:
                    future.set_exception(error)

        Thread(target=work, daemon=True, name="adapter").start()
        return future


def new_loop() -> asyncio.AbstractEventLoop:
    """An event loop whose end waits for no thread."""
    loop = asyncio.new_event_loop()
    loop.set_default_executor(_Threads())
    return loop


@contextmanager
def own_runner() -> Iterator[asyncio.Runner]:
    """A runner that is closed at the end of the block, within bounds."""
    runner = asyncio.Runner(loop_factory=new_loop)
    try:
        yield runner
    finally:
        close_runner(runner)


def close_runner(runner: asyncio.Runner) -> None:
    """Close a runner; a task that does not end when it is cancelled is left behind."""
    loop = runner.get_loop()
    loop.set_exception_handler(lambda *_: None)  # what is left behind is not news
    loop.run_until_complete(_end_all())
    runner.close()


async def _end_all() -> None:
    """Cancel what is under way."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for _ in range(CANCELLATIONS):
        for task in left:
            task.cancel()
        if left:
            _, left = await asyncio.wait(left, timeout=END_SECONDS)
    for task in left:
        leave(task)
    await turns()
