"""Runs an island in asyncio: from iterators at its entries to iterators at its exits.

A run in which no stage acts alone needs no task: the source is asked within the consumer's own call (``_OneTask``).
All others have a task for each source (``Run``).  Both run the same stages over the same ports.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from dataclasses import dataclass
from typing import Any, Final, Generic, Self, TypeVar
from weakref import WeakSet

from permitflow.cancelling import is_cancelled, until_over
from permitflow.change import Change
from permitflow.errors import LocalProtocolError, SourceInterruptedError, SpentSourceError, StalledGraphError
from permitflow.stages.core.edges import Entry, Exit
from permitflow.stages.core.ports import EMPTY, IN_CLOSED, IN_READY, OUT_CLOSED, OUT_READY, Connection, Island, Stage
from permitflow.stages.core.stalling import waiting_chain, without_hope
from permitflow.stages.standing import Watchdog

T = TypeVar("T")

EVENTS_IN_A_TURN = 1_000
"""Other tasks have a turn after this many events."""
MOST_SKIPPED_LOOKS = 1_023
"""How many looks for exits without hope a moving run leaves out: each takes some microseconds for each stage."""
ELEMENTS_IN_A_TURN = 64
"""And after this many elements of one source, or this many that a consumer got without having to wait."""

_read_generators: Final[WeakSet[Any]] = WeakSet()
"""The generators that a run reads or has read: each is for one run."""


@dataclass(frozen=True)
class Plan:
    """An island with its open ends."""

    island: Island
    entries: Sequence[tuple[Entry[Any], AsyncIterable[Any] | Iterable[Any]]]
    """Each with what it reads."""
    exits: Sequence[Exit[Any]]


class Elements(ABC, AsyncIterator[T]):
    """The elements of one run, for one task at a time.

    The run begins with the first element that is asked for, or at the beginning of an ``async with`` block.  It ends
    with the stream, with ``aclose``, or at the end of the block; then every source has been closed.

    A cancelled call has taken no element.  If the run has a task for each source, the next call goes on; if the source
    is asked within the call, the cancellation reaches it, and a generator that is cancelled ends: then the next call
    raises ``SourceInterruptedError``.
    """

    def __init__(self, exit_: Exit[T]) -> None:
        self._exit = exit_
        self._port = exit_.inlet
        self._is_busy = False

    async def __anext__(self) -> T:
        """The next element.

        Raises:
            StopAsyncIteration: the stream has ended.
            Exception: that of the source or of a stage, after all elements that were accepted before it.
            LocalProtocolError: another task is asking.
        """
        if self._is_busy:
            raise LocalProtocolError(
                "another task is asking this run for an element; each of several needs its own exit"
            )
        self._is_busy = True
        try:
            if await self._until_ready():
                return self._port.grab()
            try:
                await self._settle()
            except Exception as error:
                if self._exit.failure is None:
                    raise
                self._exit.failure.add_note(f"closing a source has failed, too: {error!r}")
            raise self._outcome()
        finally:
            self._is_busy = False

    @abstractmethod
    async def _until_ready(self) -> bool:
        """Ask, and wait until an element is here, or, False, the end."""

    @abstractmethod
    async def _settle(self) -> None:
        """Close the sources, after the end."""

    @abstractmethod
    def _advance(self) -> None:
        """Run the island."""

    @abstractmethod
    def start(self) -> None:
        """Begin the run now.  Has no effect if it has begun."""

    def _outcome(self) -> BaseException:
        failure = self._exit.failure
        if isinstance(failure, StopAsyncIteration | StopIteration | asyncio.CancelledError):
            # As for generators: else it would look like the end of the stream, or like a cancellation of the consumer.
            error = RuntimeError(f"a source or stage raised {type(failure).__name__}")
            error.__cause__ = failure
            return error
        return failure or StopAsyncIteration()

    async def aclose(self) -> None:
        """Ask for nothing more, and close the sources.  Closing twice is harmless."""
        self._port.cancel()
        self._advance()
        await self._settle()

    async def __aenter__(self) -> Self:
        """Begin the run."""
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close."""
        await self.aclose()


class _Iterated(AsyncIterator[T]):
    """An iterable that is not asynchronous, as one that is."""

    def __init__(self, iterable: Iterable[T]) -> None:
        self._iterator: Iterator[T] = iter(iterable)

    async def __anext__(self) -> T:
        for element in self._iterator:
            return element
        raise StopAsyncIteration

    async def aclose(self) -> None:
        if isinstance(self._iterator, Generator):
            self._iterator.close()


def opened(iterable: AsyncIterable[T] | Iterable[T]) -> AsyncIterator[T]:
    """Begin to read.

    Raises:
        SpentSourceError: a generator that another run reads or has read, or that is at its end.
    """
    if isinstance(iterable, AsyncGenerator | Generator):
        is_closed = getattr(iterable, "gi_frame", iterable) is None or getattr(iterable, "ag_frame", iterable) is None
        if is_closed or iterable in _read_generators:
            raise SpentSourceError(source=getattr(iterable, "__qualname__", type(iterable).__name__))
        _read_generators.add(iterable)
    return aiter(iterable) if isinstance(iterable, AsyncIterable) else _Iterated(iterable)


class _Reading(Generic[T]):
    """One source that an entry reads."""

    def __init__(self, entry: Entry[T], iterable: AsyncIterable[T] | Iterable[T]) -> None:
        self.port = entry.outlet
        self._iterable = iterable
        self._iterator: AsyncIterator[T] | None = None
        self._is_interrupted = False

    async def read(self) -> None:
        """Ask the source for an element, and push it, or its end."""
        try:
            if self._iterator is None:
                self._iterator = opened(self._iterable)
            element = await anext(self._iterator)
        except StopAsyncIteration:
            if self._is_interrupted:
                self.port.fail(SourceInterruptedError(source=getattr(self._iterator, "__qualname__", "of the stream")))
            else:
                self.port.complete()
        except Exception as error:
            if isinstance(error, SpentSourceError) and self._iterator is None:
                self._iterable = ()  # it is the other run's to close
            self.port.fail(error)
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and not is_cancelled():
                self.port.fail(error)
                return
            self._is_interrupted = isinstance(self._iterator, AsyncGenerator)
            raise
        else:
            self.port.push(element)

    async def close(self) -> None:
        """Close the source, if that can be closed; no element is asked for any more."""
        opened = self._iterator or self._iterable
        self._iterator, self._iterable = None, ()
        if isinstance(opened, Generator):  # nothing was read
            opened.close()
        elif (aclose := getattr(opened, "aclose", None)) is not None:
            await aclose()


class _OneTask(Elements[T]):
    """A run of one source, whose stages do nothing unless they are asked."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan.exits[0])
        self._island = plan.island
        (entry,) = plan.entries
        self._reading: _Reading[Any] = _Reading(*entry)
        self._loop = asyncio.get_running_loop()
        self._is_started = False
        self._since_turn = 0
        """Elements read, or given to the consumer without a read, since others had a turn."""

    def start(self) -> None:
        if not self._is_started:
            self._is_started = True
            self._island.start(0.0)

    async def _until_ready(self) -> bool:
        if not self._is_started:
            self.start()
        port, run, reading = self._port, self._island.run, self._reading
        self._since_turn += 1
        if self._since_turn > ELEMENTS_IN_A_TURN:
            # Before anything is asked: a call that is cancelled here has taken nothing, and no source hears of it.
            self._since_turn = 1
            await asyncio.sleep(0)
        self._exit.ask(port)
        is_first = True
        while True:
            # Flags, and no properties: this is the path of every element.
            is_left = run(EVENTS_IN_A_TURN)
            if port.state & IN_READY and port.element is not EMPTY:
                return True
            if port.state & IN_CLOSED:
                return False
            if is_left:  # a loop may go round for ever
                await asyncio.sleep(0)
            if reading.port.state & (OUT_READY | OUT_CLOSED) == OUT_READY:
                if is_first:
                    is_first = False
                else:
                    self._since_turn += 1
                    if self._since_turn > ELEMENTS_IN_A_TURN:
                        self._since_turn = 1
                        await asyncio.sleep(0)
                await reading.read()
            elif not is_left:
                raise StalledGraphError(chain=waiting_chain(self._exit))

    def _advance(self) -> None:
        # Cancellations make no work for others.
        while self._island.run(EVENTS_IN_A_TURN):
            pass

    async def _settle(self) -> None:
        await self._reading.close()

    def __del__(self) -> None:
        # A loop over a run was left by break or an error: nobody can ask any more.
        if self._is_started and not self._port.is_in_closed and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(_close_later, self._loop, self._island, self._port, self._reading)


_closing: Final[set[asyncio.Task[None]]] = set()
"""Tasks that close what a run has read which was left: the loop holds them weakly."""


def _close_later(
    loop: asyncio.AbstractEventLoop, island: Island, port: Connection[Any], reading: _Reading[Any]
) -> None:
    port.cancel()
    while island.run(EVENTS_IN_A_TURN):
        pass
    task = loop.create_task(reading.close())
    _closing.add(task)
    task.add_done_callback(_closing.discard)


class _Feeder:
    """The task of one source: reads an element whenever the entry is asked for one."""

    def __init__(self, run: "Run", entry: Entry[Any], iterable: AsyncIterable[Any] | Iterable[Any]) -> None:
        self._run = run
        self.entry = entry
        self._reading: _Reading[Any] = _Reading(entry, iterable)
        self._asked = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        self._is_reported = False
        entry.when_asked = self._on_asked
        entry.when_cancelled = self.cancel

    def _on_asked(self) -> None:
        self._asked.set()
        if self.task is None:
            self.task = asyncio.get_running_loop().create_task(self._feed())

    @property
    def is_asked(self) -> bool:
        """Is the source to give an element?"""
        return self._reading.port.state & (OUT_READY | OUT_CLOSED) == OUT_READY

    @property
    def is_over(self) -> bool:
        """Has its task ended, without an error to tell?"""
        task = self.task
        return task is not None and task.done() and (task.cancelled() or task.exception() is None)

    def cancel(self) -> None:
        """End the task.  If it is this task that runs, it sees by itself that its port is closed."""
        if self.task is not None and self.task is not asyncio.current_task():
            self.task.cancel()

    async def _feed(self) -> None:
        reading = self._reading
        try:
            while True:
                # A source that never waits, before a stage that always asks, would let nobody else run.
                for _ in range(ELEMENTS_IN_A_TURN):
                    await self._asked.wait()
                    self._asked.clear()
                    await reading.read()
                    self._run.advance()
                    if reading.port.is_out_closed:
                        return
                await asyncio.sleep(0)
        except asyncio.CancelledError as error:
            # Unless the run has cancelled its task, somebody else has, or has cancelled what the source awaits.
            reading.port.fail(error)
            self._run.advance()
            raise
        finally:
            await reading.close()

    async def close(self) -> None:
        """Close the source, once the task is over.

        Raises:
            Exception: the source could not be closed; raised once.
        """
        task = self.task
        if task is not None and not task.cancelled() and (error := task.exception()) and not self._is_reported:
            self._is_reported = True
            raise error
        # A source that was never asked has no task, or none that has begun.
        await self._reading.close()


class Run:
    """A run with a task for each source."""

    def __init__(self, plan: Plan) -> None:
        """Begin later, with ``start``; within a running event loop."""
        self._loop = asyncio.get_running_loop()
        self._island = plan.island
        self._exits = plan.exits
        self._feeders = [_Feeder(self, entry, iterable) for entry, iterable in plan.entries]
        self._calls: dict[asyncio.Task[Any], Stage[Any, Any]] = {}
        self.waiting: set[Exit[Any]] = set()
        """Exits at which a call waits."""
        self._look: Watchdog | None = None
        self._skipped_looks = self._next_look = 0
        plan.island.outside = self
        self._timer: asyncio.TimerHandle | None = None
        self._is_started = False
        self._is_due = False
        """Will the loop call ``_go_on``?"""

    @property
    def has_loop(self) -> bool:
        """Do elements come back to a stage that they have passed?"""
        return self._island.has_loop

    def elements(self) -> list["Elements[Any]"]:
        """One for each exit."""
        return [_Fed(exit_, self) for exit_ in self._exits]

    def start(self) -> None:
        """Begin the run."""
        if not self._is_started:
            self._is_started = True
            self._island.start(self._loop.time())
            self.advance()

    def advance(self) -> None:
        """Run the island; if that takes long, go on after others had a turn."""
        is_left = self._island.run(EVENTS_IN_A_TURN, self._loop.time())
        if is_left and not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._go_on)
        self._set_timer()
        if self.waiting and not is_left:
            self.look_for_a_stall()

    def look_for_a_stall(self) -> None:
        """If no source is asked, no call and no timer runs, only a call at another exit can move the run.

        Else a part of the run may stand still for ever, while others move.
        """
        for feeder in self._feeders:
            if feeder.is_asked:
                self._look_at_each_exit()
                return
        if self._calls or self._timer is not None or self._is_due:
            self._look_at_each_exit()
            return
        open_exits = [exit_ for exit_ in self._exits if not exit_.inlet.is_in_closed]
        if not open_exits:
            return
        if any(exit_.inlet.is_available and exit_ in self.waiting for exit_ in open_exits):
            return  # it is woken
        if any(exit_ not in self.waiting for exit_ in open_exits):
            # Somebody may still come for the others, if anything can happen in this loop.
            if self._look is None:
                self._look = Watchdog(self._stall)
            return
        self._stall()

    def _look_at_each_exit(self) -> None:
        self._next_look -= 1
        if self._is_due or self._next_look > 0:
            return
        movers: list[Stage[Any, Any]] = [feeder.entry for feeder in self._feeders if feeder.is_asked]
        movers += [*self._calls.values(), *self._island.stages_with_timers]
        # One that is woken takes its element, and may ask again.
        waiting = [each for each in self.waiting if not (each.inlet.is_available or each.inlet.is_in_closed)]
        movers += [exit_ for exit_ in self._exits if exit_ not in waiting]
        stuck = without_hope(waiting, movers)
        if stuck:
            self._stall(stuck)
        else:
            self._skipped_looks = min(2 * self._skipped_looks + 1, MOST_SKIPPED_LOOKS)
            self._next_look = self._skipped_looks

    def _stall(self, stuck: Collection[Stage[Any, Any]] | None = None) -> None:
        for exit_ in [*self.waiting]:
            if (stuck is None or exit_ in stuck) and not exit_.inlet.is_available and not exit_.inlet.is_in_closed:
                exit_.failure = StalledGraphError(chain=waiting_chain(exit_))
                exit_.inlet.cancel()
                exit_.when_changed()
        self.advance()

    def end_look(self) -> None:
        """A wait is over: the run moves."""
        if self._look is not None:
            self._look.end()
            self._look = None

    # What the island's stages ask of the outside.

    def call(
        self, made: Awaitable[T], stage: Stage[Any, Any], done: Callable[[T, BaseException | None], None]
    ) -> Callable[[], object]:
        """Await something in a task."""

        async def awaited() -> T:
            return await made

        def on_done(task: asyncio.Task[T]) -> None:
            self._calls.pop(task, None)
            error = asyncio.CancelledError() if task.cancelled() else task.exception()
            try:
                done(EMPTY if error is not None else task.result(), error)
            except BaseException as raised:
                stage.fail_stage(raised)
            self.advance()

        # A coroutine itself, so that it ends properly where it is cancelled before it has begun.
        task: asyncio.Task[T] = self._loop.create_task(made if isinstance(made, Coroutine) else awaited())
        self._calls[task] = stage
        task.add_done_callback(on_done)
        return task.cancel

    def read(self, entry: Stage[Any, Any], reads: AsyncIterable[Any] | Iterable[Any]) -> None:
        """A task for a source that has come while the island runs."""
        assert isinstance(entry, Entry), "only entries read"
        self._feeders = [feeder for feeder in self._feeders if not feeder.is_over]
        self._feeders.append(_Feeder(self, entry, reads))

    def _go_on(self) -> None:
        self._is_due = False
        self.advance()

    def _set_timer(self) -> None:
        deadline = self._island.deadline
        if self._timer is not None:
            if self._timer.when() == deadline and not self._timer.cancelled():
                return
            self._timer.cancel()
            self._timer = None
        if deadline is not None:
            self._timer = self._loop.call_at(deadline, self._on_time)

    def _on_time(self) -> None:
        # The loop may call a moment too early: then nothing is due, and the timer is set again.
        self._timer = None
        self._island.on_time(self._loop.time())
        self.advance()

    def leave(self, exit_: Exit[Any]) -> None:
        """Nothing more is wanted at an exit."""
        exit_.inlet.cancel()
        self.advance()

    async def settle(self) -> None:
        """Wait until every source is closed, after the end of the last exit.

        Raises:
            Exception: that of a source that could not be closed.
        """
        if not all(exit_.inlet.is_in_closed for exit_ in self._exits):
            return
        try:
            await until_over(*self._calls)
        finally:
            await until_over(*(feeder.task for feeder in self._feeders if feeder.task is not None))
        errors: list[Exception] = []
        for feeder in self._feeders:
            try:
                await feeder.close()
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0] if len(errors) == 1 else ExceptionGroup("sources that could not be closed", errors)


class _Fed(Elements[T]):
    """The elements of one exit of a run with tasks."""

    def __init__(self, exit_: Exit[T], run: Run) -> None:
        super().__init__(exit_)
        self._run = run
        self._loop = asyncio.get_running_loop()
        self._changed = Change()
        self._since_turn = 0
        """Elements given to the consumer since it last waited."""
        # What goes round in a loop needs no source: each has a turn for each element.
        self._most_in_a_turn = 1 if run.has_loop else ELEMENTS_IN_A_TURN
        exit_.when_changed = self._changed.note

    def start(self) -> None:
        self._run.start()

    async def _until_ready(self) -> bool:
        port, changed = self._port, self._changed
        self._run.start()
        self._since_turn += 1
        if self._since_turn > self._most_in_a_turn:
            self._since_turn = 0
            await asyncio.sleep(0)
        self._exit.ask(port)
        self._run.advance()
        if port.is_available or port.is_in_closed:
            return port.is_available
        run = self._run
        run.waiting.add(self._exit)
        try:
            run.look_for_a_stall()  # one that was there before
            while not (port.is_available or port.is_in_closed):
                self._since_turn = 0
                await changed.wait()
        finally:
            run.waiting.discard(self._exit)
            run.end_look()
        return port.is_available

    def _advance(self) -> None:
        self._run.advance()
        self._changed.note()

    async def _settle(self) -> None:
        await self._run.settle()

    def __del__(self) -> None:
        # A loop over a run was left by break or an error: nobody can ask any more.
        if not self._port.is_in_closed and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._run.leave, self._exit)


def elements_of(plan: Plan) -> list[Elements[Any]]:
    """Open a plan: the elements of each exit; needs a running event loop."""
    if len(plan.entries) == len(plan.exits) == 1 and not plan.island.acts_alone:
        return [_OneTask(plan)]
    return Run(plan).elements()
