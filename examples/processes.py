"""Child processes of the demos: each leads a group of its own, and none outlives the demo, even if it is killed."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import TypeVar

from permitflow.errors import DemoError, InvalidOptionError, PermitflowError

T = TypeVar("T")
Event = dict[str, object]
Hear = Callable[[Event], None]
Note = Callable[[str], None]
Command = Callable[[int], Sequence[str]]
"""Returns the command for the n-th start of a part, counted from 1."""

RESTART_PAUSE_SECONDS = 0.2
# A part that cannot reach a neighbour that is being started again fails soon, and may do so several times in a row.
SOON_SECONDS = 10.0
MOST_FAILURES_IN_A_ROW = 60

# Spark's JVM removes its temporary folders in a shutdown hook; that takes well below this.
GRACE_SECONDS = 10.0
LOG_LINES_IN_ERROR = 25
LONGEST_LINE_BYTES = 1 << 20

# The guard reads the number of a group; when its input ends, because the demo has ended or was killed, it kills the
# group.  Linux can signal a child whose parent has died, but not the child's own children; other systems cannot.
GUARD = ("/bin/sh", "-c", 'read -r group && { read -r never || kill -s KILL -- "-$group"; }')


ROOT = Path(__file__).resolve().parent.parent
"""The root of the package that these examples are, in a checkout and where they were installed."""


def environment() -> dict[str, str]:
    """For a child: as here, and it finds the examples."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))}


@contextmanager
def work_folder(keep: Path | None) -> Iterator[Path]:
    """A folder for logs and traces: the given one, or a temporary one that is removed at the end.

    Raises:
        InvalidOptionError: the one to keep cannot be made.
    """
    if keep is None:
        with TemporaryDirectory(prefix="permitflow-demo-", ignore_cleanup_errors=True) as folder:
            yield Path(folder)
        return
    try:
        keep.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = f"cannot be made ({error.strerror})"
        raise InvalidOptionError(option="--keep", value=str(keep), reason=reason) from error
    yield keep


class Child:
    """A running child process that reports events as JSON lines on its standard output."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path) -> None:
        self.name = name
        self._process = process
        self._log = log

    async def events(self) -> AsyncIterator[Event]:
        """The child's reports, until it closes its standard output; other lines go to its log."""
        assert self._process.stdout is not None  # child_process asks for a pipe
        async for line in self._process.stdout:
            event = _event(line)
            if event is None:
                with self._log.open("ab") as log:
                    log.write(line)
            else:
                yield event

    async def output(self) -> tuple[int, str]:
        """The exit code, and everything on the standard output."""
        assert self._process.stdout is not None  # child_process asks for a pipe
        text = (await self._process.stdout.read()).decode(errors="replace")
        return await self._process.wait(), text

    @property
    def pid(self) -> int:
        """Its process id, which is also that of its group."""
        return self._process.pid

    async def ended(self) -> int:
        """Wait for the end of the process, whatever it is; its exit code."""
        return await self._process.wait()

    def kill(self) -> None:
        """Kill the whole group at once (SIGKILL)."""
        self._signal(signal.SIGKILL)

    async def stop(self) -> None:
        """Ask the process to end (SIGTERM), also if it is stopped, and wait until it has."""
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)
        await self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        # The child leads its own group, so that a JVM it started is reached as well.
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    async def end(self) -> None:
        """End the whole group: by SIGTERM, then by SIGKILL."""
        try:
            if self._process.returncode is None:
                self._signal(signal.SIGTERM)
                await asyncio.wait_for(self._process.wait(), GRACE_SECONDS)
        except TimeoutError:
            pass
        finally:
            self._signal(signal.SIGKILL)
            await _surely(self._process.wait())


async def _surely(soon: Coroutine[object, object, object]) -> None:
    """Wait for what comes soon; a cancellation meanwhile is raised after it."""
    task = asyncio.create_task(soon)
    cancellation: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancellation = error
    if cancellation is not None:
        raise cancellation
    task.result()


@asynccontextmanager
async def child_process(name: str, command: Sequence[str], *, log: Path) -> AsyncIterator[Child]:
    """Start a process whose standard error goes to ``log``; at the end of the context its group is gone.

    Cancellation and a kill of this process end the group too.

    Raises:
        DemoError: the program cannot be started.
    """
    # The guard outlives this process until it has killed the group.
    guard = await asyncio.create_subprocess_exec(
        *GUARD,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        # Ctrl-C in a terminal goes to all processes of its group; the guard must not end then.
        start_new_session=True,
    )
    assert guard.stdin is not None  # it is a pipe
    try:
        with log.open("ab") as errors:
            try:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=errors,
                    env=environment(),
                    start_new_session=True,
                    limit=LONGEST_LINE_BYTES,
                )
            except OSError as error:
                raise DemoError(f"{name} cannot be started: {error}") from error
        guard.stdin.write(f"{process.pid}\n".encode())
        child = Child(name, process, log)
        try:
            yield child
        finally:
            await child.end()
    finally:
        with suppress(ProcessLookupError):  # somebody has killed it
            guard.kill()
        await _surely(guard.wait())


async def child_output(command: Sequence[str], *, name: str, log: Path) -> tuple[int, str]:
    """Run a program to its end; return its exit code, which may be any, and its standard output.

    Raises:
        DemoError: it cannot be started.
    """
    async with child_process(name, command, log=log) as child:
        return await child.output()


def _event(line: bytes) -> Event | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) and "event" in value else None


def run_interruptible(main: Coroutine[object, object, T], ask_to_end: Callable[[], None] | None = None) -> T:
    """Run in an event loop; SIGINT, SIGTERM and SIGHUP cancel ``main`` first, so that it ends its processes.

    Args:
        main: what runs.
        ask_to_end: is called for the first signal, which cancels nothing then: ``main`` ends early, and well.

    Raises:
        KeyboardInterrupt: one of these signals came, and ``main`` was not just asked to end.
    """
    former = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    came: list[signal.Signals] = []

    async def interruptible() -> T:
        task = asyncio.current_task()
        assert task is not None  # this is one

        def end(number: signal.Signals) -> None:
            nonlocal ask_to_end
            if ask_to_end is not None:
                ask_to_end()
                ask_to_end = None
                return
            came.append(number)
            task.cancel()

        for number in (number for number, handler in former.items() if handler is not signal.SIG_IGN):
            asyncio.get_running_loop().add_signal_handler(number, end, number)
        return await main

    try:
        return asyncio.run(interruptible())
    except asyncio.CancelledError:
        for number in came[:1]:
            # The former handler must learn that the signal came.
            if callable(handler := former[number]):
                handler(number, None)
        raise KeyboardInterrupt from None
    finally:
        # The loop has put defaults in their place.
        for number, handler in former.items():
            signal.signal(number, handler)


@contextmanager
def first_error(kind: type[PermitflowError]) -> Iterator[None]:
    """If all errors of several tasks in the block are of this kind, raise the first alone."""
    try:
        yield
    except BaseExceptionGroup as failures:
        others = failures.split(kind)[1]
        if others is not None:
            raise
        found: BaseException = failures
        while isinstance(found, BaseExceptionGroup):
            found = found.exceptions[0]
        raise found from None


async def is_set_within(event: asyncio.Event, seconds: float) -> bool:
    """Let so much time pass; at once, if the event is set."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()


class Part:
    """A process that is started again whenever it ends before its work is done, as by systemd or Kubernetes."""

    def __init__(
        self,
        name: str,
        command: Command,
        log: Path,
        *,
        hear: Hear = lambda event: None,
        may_fail: Callable[[], bool] = lambda: False,
        on_end: Callable[[int], None] = lambda exit_code: None,
    ) -> None:
        """Nothing runs before ``run``.

        Args:
            name: as people call it.
            command: what to run.
            log: where its standard error goes.
            hear: is told what it reports.
            may_fail: can it be another part's fault that it fails now?
            on_end: is told the exit code whenever it ends.
        """
        self.name = name
        self.starts = 0
        """How often it was started."""
        self.failures = 0
        """How often it ended by itself before its work was done: most likely because a neighbour was gone."""
        self.is_done = False
        """Has it ended well?"""
        self._command = command
        self._log = log
        self._hear = hear
        self._may_fail = may_fail
        self._on_end = on_end
        self._child: Child | None = None
        self._was_killed = False
        self._is_stopping = False
        self._begun = asyncio.Event()

    @property
    def pid(self) -> int | None:
        """The number of the process, which leads a group of its own; None while there is none."""
        return None if self._child is None else self._child.pid

    async def run(self) -> None:
        """Keep it running until it has ended well; cancellation ends it.

        Raises:
            DemoError: it fails again and again; the message ends with its log.
        """
        failures_in_a_row = 0
        while not self._is_stopping:
            began = monotonic()
            exit_code = await self._run_once()
            self._on_end(exit_code)
            self.is_done = exit_code == 0
            if self.is_done or self._is_stopping:
                return
            if not self._was_killed:
                self.failures += 1
                failures_in_a_row = failures_in_a_row + 1 if monotonic() - began < SOON_SECONDS else 1
                if not self._may_fail() or failures_in_a_row > MOST_FAILURES_IN_A_ROW:
                    raise self._failure(exit_code)
            await asyncio.sleep(RESTART_PAUSE_SECONDS)

    def _failure(self, exit_code: int) -> DemoError:
        lines = self._log.read_text(errors="replace").splitlines()
        # A hundred lines of Java may follow it.
        ours = next((f": {line}" for line in reversed(lines) if line.startswith("permitflow.errors.")), "")
        by = f" ({signal.Signals(-exit_code).name})" if exit_code < 0 else ""
        what = f"{self.name} ended with exit code {exit_code}{by}{ours}"
        shown = ["The end of its log:", *lines[-LOG_LINES_IN_ERROR:]] if lines else ["Its log is empty."]
        return DemoError("\n".join([what, *shown]))

    async def _run_once(self) -> int:
        """Run it to its end, and end what it has started; its exit code."""

        async def follow() -> None:
            async for event in child.events():
                self._begun.set()
                self._hear(event)

        self.starts += 1
        self._was_killed = False
        async with child_process(self.name, self._command(self.starts), log=self._log) as child:
            self._child = child
            following = asyncio.create_task(follow())
            try:
                return await child.ended()
            finally:
                self._child = None
                # Its group goes too; only then does the pipe end for certain.
                try:
                    await child.end()
                finally:
                    await following

    async def begun(self) -> None:
        """Wait until it has reported something for the first time."""
        await self._begun.wait()

    def kill(self) -> bool:
        """Kill the process (SIGKILL), if there is one; ``run`` starts it again."""
        if self._child is None:
            return False
        self._was_killed = True
        self._child.kill()
        return True

    async def stop(self) -> None:
        """Ask it to end (SIGTERM); ``run`` returns then."""
        self._is_stopping = True
        if self._child is not None:
            await self._child.stop()


async def run_beside(server: Part, *work: Callable[[], Coroutine[object, object, None]]) -> None:
    """Start a server; once it has reported something, do all work at the same time, and then stop the server.

    Cancellation ends all processes.

    Raises:
        DemoError: the first failure.
    """

    async def together() -> None:
        async with asyncio.TaskGroup() as group:
            for each in work:
                group.create_task(each())

    with first_error(DemoError):
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(server.run())
            await server.begun()
            await together()
            await server.stop()
            await serving
