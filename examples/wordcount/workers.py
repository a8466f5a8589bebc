"""Worker processes: started, watched, and started again after they have died."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from sys import executable

from permitflow.errors import PermitflowError
from permitflow.mute.pipeline import Event

from ..processes import Part
from .worker import WorkerSettings


class WorkerDiedError(PermitflowError):
    """A worker process has ended by itself, or was killed."""

    worker: str
    exit_code: int  # negative: minus the signal's number
    starts: int  # how often it was started
    text = "worker {worker!r} has ended with exit code {exit_code}, in start {starts}"


class WorkerProcess:
    """A worker in a process of its own; one that dies is started again, at its addresses and with its saved counts."""

    def __init__(self, settings: WorkerSettings, folder: Path, hear: Callable[[Event], None]) -> None:
        """Nothing runs before ``run``.

        Args:
            settings: of all starts; the number of the start is added to the name.
            folder: for its log and its saved counts.
            hear: is told what it reports, with its name; and ``died``, each time.
        """
        self.name = settings.name
        self.deaths: list[WorkerDiedError] = []
        """How often it has ended by itself or was killed, and how."""
        self.addresses: dict[str, str] = {}
        """Those of the current start."""
        self._settings, self._hear = settings, hear
        self._is_stopping = False
        self._part = Part(
            f"worker {self.name!r}",
            self._command,
            folder / f"{self.name}.log",
            hear=self._on_event,
            may_fail=lambda: True,
            on_end=self._on_end,
        )

    def _command(self, start: int) -> list[str]:
        settings = replace(self._settings, name=f"{self.name}#{start}")
        return [executable, "-m", f"{__package__}.worker", settings.to_json()]

    def _on_event(self, event: Event) -> None:
        if event["event"] == "ready":
            self.addresses = {name: str(address) for name, address in event.items()}
            # Others know these addresses.
            inlet, listen = (self.addresses.get(name, "") for name in ("inlet", "listen"))
            first = len(self._settings.sinks)
            outs = [self.addresses[f"out{first + place}"] for place in range(len(self._settings.listening_sinks))]
            self._settings = replace(self._settings, inlet=inlet, listen=listen, listening_sinks=outs)
        self._hear({"worker": self.name, **event})

    def _on_end(self, exit_code: int) -> None:
        if not self._is_stopping:
            self.deaths.append(WorkerDiedError(worker=self.name, exit_code=exit_code, starts=self._part.starts))
            self._hear({"worker": self.name, "event": "died", "reason": str(self.deaths[-1])})

    @property
    def pid(self) -> int | None:
        """The number of the process; None while there is none."""
        return self._part.pid

    async def run(self) -> None:
        """Keep it running until ``stop``; cancellation ends it.

        Raises:
            DemoError: it fails again and again; the message ends with its log.
        """
        await self._part.run()

    def kill(self) -> None:
        """Kill it (SIGKILL); ``run`` starts it again."""
        self._part.kill()

    async def stop(self) -> None:
        """End it, even if sources are muted."""
        self._is_stopping = True
        await self._part.stop()
