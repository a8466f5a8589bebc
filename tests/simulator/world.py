"""Processes on simulated hosts: one clock, one seed, and for each host an event loop of its own.

The production code runs unchanged: it sees the event loop of its process.  A real loop runs its callbacks in the order
in which they were scheduled, and code may rely on that; so does each host here.  What is drawn is whose turn is next
and how long it is: the interleaving of processes, which no operating system promises.  Time goes on by a little with
each turn, and jumps to the next timer when nothing else is to do.

No library fits: simloop and simloom need Python 3.12, and all of them permute the callbacks of one loop.
"""

import asyncio
import contextvars
import logging
import sys
from asyncio import events, selector_events
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from tests.simulator.sockets import Network

T = TypeVar("T")
Callback = Callable[..., object]

LATEST_SECONDS: Final = 1e9
_MOST_TURNS: Final = 200_000
_MOST_WAITS: Final = 100
_NO_TURN: Final = 1 << 62
_MOST_NUMBERS: Final = 10_007


class WaitsForEver(AssertionError):
    """Nothing can happen any more, and something was to happen."""


class Handle:
    """A callback in a host's queue."""

    __slots__ = ("arguments", "callback", "context", "is_cancelled")

    def __init__(self, callback: Callback, arguments: tuple[Any, ...], context: contextvars.Context) -> None:
        self.callback, self.arguments, self.context = callback, arguments, context
        self.is_cancelled = False

    def cancel(self) -> None:
        """As ``asyncio.Handle.cancel``."""
        self.is_cancelled = True

    def cancelled(self) -> bool:
        """As ``asyncio.Handle.cancelled``."""
        return self.is_cancelled


class TimerHandle(Handle):
    """A callback that is due at a time."""

    __slots__ = ("_when",)

    def __init__(
        self, when: float, callback: Callback, arguments: tuple[Any, ...], context: contextvars.Context
    ) -> None:
        super().__init__(callback, arguments, context)
        self._when = when

    def when(self) -> float:
        """As ``asyncio.TimerHandle.when``."""
        return self._when


class NumberedTask(asyncio.Task[T]):
    """A task whose place in a set does not depend on where it lies in memory."""

    def __init__(self, *arguments: Any, number: int, **options: Any) -> None:
        """With what is its hash."""
        self._number = number  # first: asyncio puts the task into a set at once
        super().__init__(*arguments, **options)

    def __hash__(self) -> int:
        """Its number."""
        return self._number


class World:
    """The clock, what is due when, and the hosts."""

    def __init__(self, seed: int, *, turn_seconds: float = 2e-5, most_in_turn: int = 8, tells: bool = False) -> None:
        """With nothing in it.

        Args:
            seed: of everything that is drawn.
            turn_seconds: how long a turn of a host takes.
            most_in_turn: the most callbacks that a host runs in a turn.
            tells: keep the story.
        """
        self.random = Random(seed)
        self.first_hash = (seed + 1) * _MOST_NUMBERS
        """Hashes of this world's tasks are greater, and those of the next one's greater still."""
        self.now = 0.0
        self.clock_seconds = 1e9
        """What wall clocks showed when it began, since 1970; changed when they jump."""
        self.hosts: list[Host] = []
        self.story: list[tuple[float, str, str]] | None = [] if tells else None
        """What has happened, if it is to be told: when, where and what."""
        self.network: Network
        self._turn_seconds, self._most_in_turn = turn_seconds, most_in_turn
        self._due: list[tuple[float, int, Callback, tuple[Any, ...]]] = []
        self._order = count()
        self._numbers = count(1)
        self._ready: list[Host] = []
        self._noted: list[bytes] = []
        self.note = self._noted.append
        """Let this be a part of the digest."""
        self.turns = 0
        self._is_stopped = False
        self._at_turns: list[tuple[int, int, Callback, tuple[Any, ...]]] = []
        self._next_at_turn = _NO_TURN

    # Drawing and telling.

    def chance(self, probability: float) -> bool:
        """Draw."""
        return probability > 0 and self.random.random() < probability

    def tell(self, where: str, what: str) -> None:
        """Let this be a part of the story, and of the digest."""
        self.note(f"{self.now!r} {where} {what}\n".encode())
        if self.story is not None:
            self.story.append((self.now, where, what))

    @property
    def digest(self) -> str:
        """Equal for two runs in which the same has happened: whose turn it was, and what bytes have come when."""
        return blake2b(b"".join(self._noted), digest_size=16).hexdigest()

    # Time.

    def at(self, when: float, callback: Callback, *arguments: Any) -> None:
        """Call at a time, outside of any host; what is due together is called in the order of these calls."""
        heappush(self._due, (when, next(self._order), callback, arguments))

    def after(self, seconds: float, callback: Callback, *arguments: Any) -> None:
        """Call after some time, outside of any host."""
        heappush(self._due, (self.now + seconds, next(self._order), callback, arguments))

    def at_turn(self, turn: int, callback: Callback, *arguments: Any) -> None:
        """Call after so many turns, outside of any host: between any two callbacks of what is under way."""
        heappush(self._at_turns, (turn, next(self._order), callback, arguments))
        self._next_at_turn = self._at_turns[0][0]

    def become_ready(self, host: "Host") -> None:
        """The host has something to do."""
        if not host.is_listed:
            host.is_listed = True
            self._ready.append(host)

    def become_idle(self, host: "Host") -> None:
        """The host must not run."""
        if host.is_listed:
            host.is_listed = False
            self._ready.remove(host)

    def new_host(self, name: str) -> "Host":
        """A running process with nothing to do."""
        return Host(self, name)  # type: ignore[abstract]  # nobody asks it for anything else

    def unfinished(self) -> Iterator[str]:
        """Tasks of running hosts that are not over, each behind its host's name."""
        for host in self.hosts:
            if host.is_running_now:
                yield from (f"{host.name}: {task.get_name()}" for task in host.unfinished())

    def left_behind(self) -> Iterator[str]:
        """What running hosts should have ended or closed, in words."""
        yield from (f"{task} is left behind" for task in self.unfinished())
        for each in self.network.sockets.values():
            if not each.is_closed and each.host.is_running_now:
                yield f"{each.name} stays open"

    def new_number(self) -> int:
        """Unique in this world."""
        return next(self._numbers)

    def stop(self) -> None:
        """Let ``run`` return."""
        self._is_stopped = True

    def run(self, *, until: float = LATEST_SECONDS) -> None:
        """Let everything happen until ``stop``.

        Raises:
            WaitsForEver: nothing can happen any more, or it was not stopped at the time ``until``.
        """
        self._is_stopped = False
        due, ready, draw, note = self._due, self._ready, self.random.random, self.note
        running: Host | None = None
        try:
            while not self._is_stopped:
                if ready:
                    host = ready[int(draw() * len(ready))] if len(ready) > 1 else ready[0]
                    if host is not running:
                        events._set_running_loop(host)
                        running = host
                    ran = host.take_turn(1 + int(draw() * self._most_in_turn))
                    note(b"%d:%d;" % (host.number, ran))
                    self.turns += 1
                    if self.turns > _MOST_TURNS:
                        raise WaitsForEver(f"{host.name} and others turn in circles")
                    self.now += self._turn_seconds
                    if self.turns >= self._next_at_turn:
                        events._set_running_loop(None)
                        running = None
                        self._call_at_turn()
                    if not due or due[0][0] > self.now:
                        continue
                if not due:
                    raise WaitsForEver("nothing can happen any more")
                when, _, callback, arguments = heappop(due)
                if when > self.now:
                    if when > until:
                        raise WaitsForEver(f"it is not over after {until:g} s")
                    self.now = when
                if running is not None:
                    events._set_running_loop(None)
                    running = None
                callback(*arguments)
        finally:
            events._set_running_loop(None)

    def _call_at_turn(self) -> None:
        while self._at_turns and self._at_turns[0][0] <= self.turns:
            _, _, callback, arguments = heappop(self._at_turns)
            callback(*arguments)
        self._next_at_turn = self._at_turns[0][0] if self._at_turns else _NO_TURN

    def close(self) -> None:
        """End what is left, so that nothing of this world happens in the next one."""
        for host in self.hosts:
            host.crash()
        with quiet():
            for host in self.hosts:
                host.dispose()
            self.hosts.clear()
            self._due.clear()
            self._at_turns.clear()


@contextmanager
def quiet() -> Iterator[None]:
    """Dead coroutines complain that they may not wait for anything any more."""
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    disabled = logging.root.manager.disable
    logging.disable()
    try:
        yield
    finally:
        logging.disable(disabled)
        sys.unraisablehook = hook


class _DeadError(BaseException):
    """Ends the coroutines of a crashed process."""


class Host(asyncio.AbstractEventLoop):
    """One process on a machine of its own, and its event loop."""

    def __init__(self, world: World, name: str) -> None:
        """Running, with nothing to do."""
        self.world, self.name = world, name
        self.number = world.new_number()
        self.is_running_now = True
        """False once it has crashed."""
        self.is_paused = self.is_listed = False
        self.problems: list[str] = []
        """Errors that production code raised where nobody could catch them."""
        self._queue: deque[Handle] = deque()
        self._held: list[Handle] = []
        self._tasks: list[NumberedTask[Any]] = []
        self._readers: dict[int, Handle] = {}
        self._writers: dict[int, Handle] = {}
        self._transports: dict[int, Any] = {}
        world.hosts.append(self)

    # Turns.

    def take_turn(self, most: int) -> int:
        """Run some callbacks; how many.  A host that has nothing left to do has no turn."""
        queue, ran = self._queue, 0
        while queue and ran < most:
            handle = queue.popleft()
            ran += 1
            if handle.is_cancelled:
                continue
            try:
                handle.context.run(handle.callback, *handle.arguments)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                if self.is_running_now:  # else it has died in this callback
                    self.problems.append(f"{self.name}: {type(error).__name__}: {error} in a callback")
        if not queue:
            self.world.become_idle(self)
        return ran

    def _push(self, handle: Handle) -> None:
        if self.is_paused:
            if self.is_running_now:
                self._held.append(handle)
            return
        if not self._queue:
            self.world.become_ready(self)
        self._queue.append(handle)

    def pause(self) -> None:
        """As SIGSTOP does it: the kernel goes on, the process does not."""
        if not self.is_paused and self.is_running_now:
            self._hold()

    def _hold(self) -> None:
        self.is_paused = True
        self._held.extend(self._queue)
        self._queue.clear()
        self.world.become_idle(self)

    def go_on(self) -> None:
        """As SIGCONT does it."""
        if self.is_paused and self.is_running_now:
            self.is_paused = False
            held, self._held = self._held, []
            for handle in held:
                self._push(handle)

    def crash(self) -> None:
        """Nothing of this process runs any more; its sockets are closed by the kernel (see ``Network``)."""
        if self.is_running_now:
            self.is_running_now = False
            self._hold()
            self._held.clear()
            self._readers.clear()
            self._writers.clear()

    def dispose(self) -> None:
        """Close the coroutines of a crashed process, in their order: else the garbage collector would, at any time."""
        events._set_running_loop(self)
        try:
            for task in self._tasks:
                if not task.done():
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    coroutine = task.get_coro()
                    # Not close(): who waits while he cleans up would leave the rest to the garbage collector.
                    with suppress(BaseException):
                        for _ in range(_MOST_WAITS):  # each time that it wants to wait for something: it is dead
                            coroutine.throw(_DeadError())
                        coroutine.close()
                elif not task.cancelled():
                    task.exception()
        finally:
            events._set_running_loop(None)
        self._tasks.clear()
        for transport in self._transports.values():
            transport._sock = None  # it would complain that nobody has closed it
        self._transports.clear()

    def unfinished(self) -> Iterator[NumberedTask[Any]]:
        """Tasks that are under way."""
        return (task for task in self._tasks if not task.done())

    # What asyncio asks of a loop.

    def time(self) -> float:
        """Seconds since the world began."""
        return self.world.now

    def call_soon(  # type: ignore[override]
        self, callback: Callback, *args: Any, context: contextvars.Context | None = None
    ) -> Handle:
        """See asyncio."""
        handle = Handle(callback, args, context if context is not None else contextvars.copy_context())
        # The usual case first.
        if self._queue:
            self._queue.append(handle)
        else:
            self._push(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callback, *args: Any, context: contextvars.Context | None = None
    ) -> TimerHandle:
        """See asyncio."""
        return self.call_at(self.world.now + max(0.0, delay), callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callback, *args: Any, context: contextvars.Context | None = None
    ) -> TimerHandle:
        """See asyncio."""
        handle = TimerHandle(when, callback, args, context if context is not None else contextvars.copy_context())
        self.world.at(max(when, self.world.now), self._on_timer, handle)
        return handle

    def _on_timer(self, handle: TimerHandle) -> None:
        if not handle.is_cancelled and self.is_running_now:
            self._push(handle)

    def create_future(self) -> asyncio.Future[Any]:
        """See asyncio."""
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: contextvars.Context | None = None
    ) -> NumberedTask[T]:
        """See asyncio."""
        number = self.world.new_number()
        # asyncio keeps all tasks in one set: those of earlier worlds, which nobody has collected, hash to other values.
        task: NumberedTask[T] = NumberedTask(
            coro, loop=self, name=name or f"task {number}", context=context, number=self.world.first_hash + number
        )
        self._tasks.append(task)
        return task

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """From outside of the host: its program begins."""
        events._set_running_loop(self)
        try:
            self.create_task(work, name=f"main of {self.name}")
        finally:
            events._set_running_loop(None)

    def get_debug(self) -> bool:
        """See asyncio."""
        return False

    def is_running(self) -> bool:
        """See asyncio."""
        return True

    def is_closed(self) -> bool:
        """See asyncio."""
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Note it: production code lets no error get lost."""
        error = context.get("exception")
        if self.is_running_now:  # else it has died in this callback
            self.problems.append(f"{self.name}: {context.get('message')} {type(error).__name__}: {error}")

    # Sockets.

    def add_reader(self, fd: int, callback: Callback, *args: Any) -> None:  # type: ignore[override]
        """See asyncio."""
        self._readers[fd] = Handle(callback, args, contextvars.copy_context())
        self.world.network.look_at(fd)

    def remove_reader(self, fd: int) -> bool:  # type: ignore[override]
        """See asyncio."""
        return self._forget(self._readers, fd)

    def add_writer(self, fd: int, callback: Callback, *args: Any) -> None:  # type: ignore[override]
        """See asyncio."""
        self._writers[fd] = Handle(callback, args, contextvars.copy_context())
        self.world.network.look_at(fd)

    def remove_writer(self, fd: int) -> bool:  # type: ignore[override]
        """See asyncio."""
        return self._forget(self._writers, fd)

    def _forget(self, handles: dict[int, Handle], fd: int) -> bool:
        handle = handles.pop(fd, None)
        if handle is not None:
            handle.cancel()
        return handle is not None

    def reader_of(self, fd: int) -> Handle | None:
        """Who waits until this can be read."""
        return self._readers.get(fd)

    def writer_of(self, fd: int) -> Handle | None:
        """Who waits until this can be written."""
        return self._writers.get(fd)

    def schedule(self, callback: Callback, *arguments: Any) -> None:
        """From outside of the host: run in a later turn, as the kernel wakes a process."""
        if self.is_running_now:
            self._push(Handle(callback, arguments, contextvars.copy_context()))

    _add_reader, _remove_reader = add_reader, remove_reader
    _add_writer, _remove_writer = add_writer, remove_writer

    async def create_connection(self, protocol_factory: Callable[[], Any], *, sock: Any) -> Any:  # type: ignore[override]
        """See asyncio, whose own transport this is; of a connected socket."""
        is_made, protocol = self.create_future(), protocol_factory()
        transport = selector_events._SelectorSocketTransport(self, sock, protocol, is_made)  # type: ignore[attr-defined]
        try:
            await is_made
        except BaseException:
            transport.close()
            raise
        return transport, protocol

    async def sock_connect(self, sock: Any, address: Any) -> None:
        """See asyncio."""
        await sock.connect_later(address)

    async def sock_accept(self, sock: Any) -> Any:
        """See asyncio."""
        return await sock.accept_later()

    async def sock_sendall(self, sock: Any, data: Any) -> None:
        """See asyncio."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[sock.send(rest) :]
            except BlockingIOError:
                await self._until(self._writers, sock)

    async def sock_recv_into(self, sock: Any, buf: Any) -> int:
        """See asyncio."""
        while True:
            try:
                return int(sock.recv_into(buf))
            except BlockingIOError:
                await self._until(self._readers, sock)

    async def sock_recv(self, sock: Any, nbytes: int) -> bytes:
        """See asyncio."""
        space = memoryview(bytearray(nbytes))
        return bytes(space[: await self.sock_recv_into(sock, space)])

    async def _until(self, handles: dict[int, Handle], sock: Any) -> None:
        fd, woken = sock.fileno(), self.create_future()

        def wake() -> None:
            if not woken.done():
                woken.set_result(None)

        handle = handles[fd] = Handle(wake, (), contextvars.copy_context())
        self.world.network.look_at(fd)
        try:
            await woken
        finally:
            if handles.get(fd) is handle:
                self._forget(handles, fd)

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> list[Any]:
        """A host's name is its address."""
        return [(2, 1, 6, "", (host, port))]
