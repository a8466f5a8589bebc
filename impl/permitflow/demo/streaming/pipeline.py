"""The processes of the pipeline, kept running, and killed as planned, until all rows have come through."""

import asyncio
import socket
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from permitflow.demo.children import Event
from permitflow.demo.streaming.executors import executors_of
from permitflow.demo.streaming.kills import Kill, Victim
from permitflow.demo.streaming.settings import PartSettings, PipelineSettings
from permitflow.demo.streaming.supervising import Command, Hear, Part
from permitflow.demo.streaming.watching import Watch
from permitflow.errors import DemoError

__all__ = ["Pipeline", "free_address"]

Note = Callable[[str], None]

LOOK_FOR_VICTIM_SECONDS = 0.2
# What Python runs, before the settings.
PRODUCER, SPARK_JOB, CONSUMER = (
    ("-m", f"permitflow.demo.streaming.{module}") for module in ("producer", "spark_job", "consumer")
)


@dataclass(frozen=True)
class Ended:
    """What happened until all rows had come through."""

    kills: Counter[Victim]
    missed_kills: int


class Pipeline:
    """All of it."""

    def __init__(
        self,
        settings: PipelineSettings,
        part: PartSettings,
        *,
        rows: int,
        note: Note,
        kills: Sequence[Kill],
        driver: Sequence[str] = SPARK_JOB,
    ) -> None:
        """Nothing runs before ``run``.

        Args:
            settings: of the whole.
            part: what the processes are told.
            rows: that the producer has.
            note: is told what happens.
            kills: what is killed when, in the order of their progress.
            driver: what Python runs between the two streams.
        """
        self.recordings: list[Path] = []
        """Of the exchange, one for each of its lives."""
        self.watch = Watch(
            part.address,
            [*part.line_items, *part.late_items],
            row_permits=settings.window_rows,
            incoming=settings.channels,
            stuck_seconds=settings.stuck_seconds,
        )
        self._settings = settings
        self._work_dir = Path(part.work_dir)
        self._part = part
        self._rows = rows
        self._note = note
        self._kills = kills
        self._has_killed = False
        self.exchange = self._new_part(Victim.EXCHANGE, self._exchange_command, hear=self.watch.hear)
        programs = {Victim.PRODUCER: PRODUCER, Victim.DRIVER: driver, Victim.CONSUMER: CONSUMER}
        self.parts = {
            victim: self._new_part(victim, self._command(program), hear=self._hear(victim))
            for victim, program in programs.items()
        }

    async def run(self) -> Ended:
        """Run it to its end; cancellation ends all processes.

        Raises:
            DemoError: a part fails again and again, or no row gets further any more.
        """
        try:
            async with asyncio.TaskGroup() as group:
                exchange = group.create_task(self.exchange.run())
                await self.exchange.begun()
                watching = group.create_task(self.watch.run())
                killing = group.create_task(self._kill())
                for part in [group.create_task(part.run()) for part in self.parts.values()]:
                    await part
                ended = await killing
                watching.cancel()
                # It writes its recording when it is asked to end.
                await self.exchange.stop()
                await exchange
        except* DemoError as failures:
            raise _first(failures) from None
        return ended

    async def _kill(self) -> Ended:
        kills: Counter[Victim] = Counter()
        for kill in self._kills:
            await self.watch.reached(int(kill.progress * self._rows))
            await asyncio.sleep(kill.delay_seconds)
            self._has_killed = True
            if await self._kill_one(kill):
                kills[kill.victim] += 1
                self._note(
                    f"killed: {kill.victim}, {kills.total()} of {len(self._kills)}, at {self._share():.0%} of the rows"
                )
        return Ended(kills=kills, missed_kills=len(self._kills) - kills.total())

    async def _kill_one(self, kill: Kill) -> bool:
        """Kill the victim as soon as there is one; False if it has done its work."""
        part = self._part_of(kill.victim)
        while not (part.is_done or self._is_over()):
            if self._kill_now(kill.victim, part):
                return True
            await asyncio.sleep(LOOK_FOR_VICTIM_SECONDS)
        return False

    def _is_over(self) -> bool:
        # The exchange never ends by itself, and nothing can be lost any more when nobody needs it.
        return all(part.is_done for part in self.parts.values())

    def _part_of(self, victim: Victim) -> Part:
        """The part whose process it is, or whose child."""
        if victim is Victim.EXCHANGE:
            return self.exchange
        return self.parts[Victim.DRIVER if victim is Victim.EXECUTOR else victim]

    def _kill_now(self, victim: Victim, part: Part) -> bool:
        if victim is not Victim.EXECUTOR:
            return part.kill()
        executors = executors_of(part.pid) if part.pid is not None else []
        with suppress(psutil.NoSuchProcess):
            for executor in executors[:1]:
                executor.kill()
                return True
        return False

    def _share(self) -> float:
        return self.watch.rows / self._rows

    def _exchange_command(self, life: int) -> Sequence[str]:
        recording = self._work_dir / f"exchange-{life}.jsonl"
        self.recordings.append(recording)
        arguments = self._settings.exchange_arguments(self._work_dir, address=self._part.address, trace=recording)
        return [sys.executable, "-m", "permitflow.cli", *arguments]

    def _command(self, program: Sequence[str]) -> Command:
        command = [sys.executable, *program, self._part.to_json()]
        return lambda _life: command

    def _new_part(self, victim: Victim, command: Command, *, hear: Hear) -> Part:
        # As long as nobody was killed, nobody has a reason to fail.
        log = self._work_dir / f"{victim}.log"
        return Part(victim, command, log, hear=hear, may_fail=lambda: self._has_killed)

    def _hear(self, victim: Victim) -> Hear:
        def hear(event: Event) -> None:
            self._note(f"{victim}: {event['text']}")

        return hear


def free_address() -> str:
    """A port that is free now, because an exchange that is started again must be found where it was."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def _first(failures: BaseExceptionGroup[DemoError]) -> DemoError:
    found = failures.exceptions[0]
    return _first(found) if isinstance(found, BaseExceptionGroup) else found
