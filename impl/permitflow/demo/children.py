"""Child processes of the demo: each in a group of its own, and none outlives the demo, not even one that is killed."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from permitflow.errors import DemoError

__all__ = ["Child", "Event", "child_output", "child_process", "run_to_end"]

Event = dict[str, object]

# Spark's JVM removes its temporary folders in a shutdown hook; that takes well below this.
GRACE_SECONDS = 10.0
LOG_LINES_IN_ERROR = 25
LONGEST_LINE_BYTES = 1 << 20

# Is told a group, and then nothing more; at the end of its input, which is that of the demo however it came, it kills
# the group.  Linux could signal a child whose parent has died, but neither the child's own children nor elsewhere.
GUARD = ("/bin/sh", "-c", 'read -r group && { read -r never || kill -s KILL -- "-$group"; }')


class Child:
    """A running child process that reports events as JSON lines on its standard output."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path) -> None:
        """Wrap a process that was started with a pipe as its standard output."""
        self.name = name
        self._process = process
        self._log = log

    async def events(self) -> AsyncIterator[Event]:
        """What the child reports, until it closes its standard output; other lines go to its log."""
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

    async def event(self, name: str) -> Event:
        """The next event of this name; others before it are dropped.

        Raises:
            DemoError: the child ended without it.
        """
        async for event in self.events():
            if event.get("event") == name:
                return event
        raise await self._failure(f"ended before it reported {name!r}")

    async def succeed(self) -> None:
        """Wait for the end of the process.

        Raises:
            DemoError: it failed; the message ends with the last lines of its log.
        """
        if await self._process.wait() != 0:
            raise await self._failure(f"ended with exit code {self._process.returncode}")

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
        """Ask the process to end (SIGTERM), and wait until it has."""
        self._signal(signal.SIGTERM)
        await self._process.wait()

    async def _failure(self, what: str) -> DemoError:
        await self._process.wait()
        lines = self._log.read_text(errors="replace").splitlines()
        # Below it there may be a hundred lines of Java.
        ours = next((f": {line}" for line in reversed(lines) if line.startswith("permitflow.errors.")), "")
        return DemoError("\n".join([f"{self.name} {what}{ours}", "The end of its log:", *lines[-LOG_LINES_IN_ERROR:]]))

    def _signal(self, number: signal.Signals) -> None:
        # The child leads its own group, so that a JVM it started is reached as well.
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    async def end(self) -> None:
        """End the whole group: kindly, then by force."""
        try:
            if self._process.returncode is None:
                self._signal(signal.SIGTERM)
                await asyncio.wait_for(self._process.wait(), GRACE_SECONDS)
        except TimeoutError:
            pass
        finally:
            self._signal(signal.SIGKILL)
        await self._process.wait()


@asynccontextmanager
async def child_process(
    name: str, command: Sequence[str], *, log: Path, environment: Mapping[str, str] | None = None
) -> AsyncIterator[Child]:
    """Start a process whose standard error goes to ``log``; at the end of the context its group is gone.

    Cancellation ends the group too, and so does whatever kills this process.

    Raises:
        DemoError: the program cannot be started.
    """
    async with _guard() as orders:
        process = await _started(name, command, log, {**os.environ, **(environment or {})})
        orders.write(f"{process.pid}\n".encode())
        child = Child(name, process, log)
        try:
            yield child
        finally:
            await child.end()


async def _started(
    name: str, command: Sequence[str], log: Path, environment: Mapping[str, str]
) -> asyncio.subprocess.Process:
    with log.open("ab") as errors:
        try:
            return await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
                env=environment,
                limit=LONGEST_LINE_BYTES,
            )
        except OSError as error:
            raise DemoError(f"{name} cannot be started: {error}") from error


@asynccontextmanager
async def _guard() -> AsyncIterator[asyncio.StreamWriter]:
    """A process that survives this one for as long as it takes to kill the group whose number it was told."""
    guard = await asyncio.create_subprocess_exec(
        *GUARD,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        # Ctrl-C in a terminal goes to all of its group, and is none of the guard's business.
        start_new_session=True,
    )
    assert guard.stdin is not None  # it is a pipe
    try:
        yield guard.stdin
    finally:
        guard.kill()
        await guard.wait()


async def run_to_end(command: Sequence[str], *, what: str, log: Path) -> None:
    """Run a program to its end.

    Raises:
        DemoError: it failed.
    """
    async with child_process(what, command, log=log) as child:
        async for _event in child.events():
            pass
        await child.succeed()


async def child_output(command: Sequence[str], *, name: str, log: Path) -> tuple[int, str]:
    """Run a program to its end, whatever its exit code: that, and its standard output.

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
