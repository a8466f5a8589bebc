"""A process that is started again whenever it ends before its work is done, as by systemd or Kubernetes."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic

from permitflow.demo.children import Child, Event, child_process
from permitflow.errors import DemoError

__all__ = ["Command", "Hear", "Part"]

Hear = Callable[[Event], None]
Command = Callable[[int], Sequence[str]]
"""What to run when it is started for the so-manieth time, counted from 1."""

RESTART_PAUSE_SECONDS = 0.2
# Whoever cannot reach a neighbour that is being started again fails soon, and may do so several times in a row.
SOON_SECONDS = 10.0
MOST_FAILURES_IN_A_ROW = 60
LOG_CHARACTERS_IN_ERROR = 3_000


class Part:
    """One process of the pipeline."""

    def __init__(self, name: str, command: Command, log: Path, *, hear: Hear, may_fail: Callable[[], bool]) -> None:
        """Nothing runs before ``run``.

        Args:
            name: as people call it.
            command: what to run.
            log: where its standard error goes.
            hear: is told what it reports.
            may_fail: can it be somebody else's fault that it fails now?
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
        self._child: Child | None = None
        self._was_killed = False
        self._is_stopping = False
        self._failures_in_a_row = 0
        self._begun = asyncio.Event()

    @property
    def pid(self) -> int | None:
        """Of the process, which leads a group of its own; None while there is none."""
        return None if self._child is None else self._child.pid

    async def run(self) -> None:
        """Keep it running until it has ended well; cancellation ends it.

        Raises:
            DemoError: it fails again and again; the message ends with its log.
        """
        while not self._is_stopping:
            began = monotonic()
            self.is_done = await self._run_once() == 0
            if self.is_done or self._is_stopping:
                return
            self._count_failure(monotonic() - began)
            await asyncio.sleep(RESTART_PAUSE_SECONDS)

    async def _run_once(self) -> int:
        """Run it to its end, and end what it has started; its exit code."""
        self.starts += 1
        self._was_killed = False
        command = self._command(self.starts)
        async with child_process(self.name, command, log=self._log) as child:
            self._child = child
            following = asyncio.create_task(self._follow(child))
            try:
                code = await child.ended()
            finally:
                self._child = None
                # Its group goes too; only then does the pipe end for certain.
                await child.end()
                with suppress(asyncio.CancelledError):
                    await following
        return code

    async def _follow(self, child: Child) -> None:
        async for event in child.events():
            self._begun.set()
            self._hear(event)

    def _count_failure(self, seconds: float) -> None:
        if self._was_killed:
            return
        self.failures += 1
        self._failures_in_a_row = self._failures_in_a_row + 1 if seconds < SOON_SECONDS else 1
        if not self._may_fail() or self._failures_in_a_row > MOST_FAILURES_IN_A_ROW:
            tail = self._log.read_text(errors="replace")[-LOG_CHARACTERS_IN_ERROR:]
            raise DemoError(f"{self.name} has failed; the end of its log:\n{tail}")

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
