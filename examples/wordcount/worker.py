"""A worker process of a word count: ``python -m examples.wordcount.worker SETTINGS``, with the settings as JSON.

It reports events as JSON lines, among them ``ready`` with its addresses.  SIGTERM ends it, also while all is muted.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self

from permitflow.errors import InvalidOptionError
from permitflow.mute.channel import UNACKNOWLEDGED, Boundary, Inlet
from permitflow.mute.graph import Marks
from permitflow.mute.messages import MOST_DATA_BYTES
from permitflow.mute.pipeline import (
    LINE_BYTES,
    READ_BYTES,
    STALL_SECONDS,
    Event,
    Feed,
    Lines,
    Pipeline,
    Sink,
    TcpSink,
    TcpSource,
)
from permitflow.mute.saving import Saving
from permitflow.mute.sockets import Buffers

from ..child_process import ChildSettings, address_of, run_process, text_of, until_asked_to_end
from .counting import WordCount
from .log import LOG, LogSink, LogSource

_MOST_NAME_BYTES = 200


@dataclass(frozen=True, kw_only=True)
class WorkerSettings(ChildSettings):
    """What a worker has: at least one input, and either a next worker or sinks.

    Addresses are ``host:port``; port 0 takes any that is free.
    """

    name: str
    """Unique among all starts of all workers: it names what others mute by and count by."""
    listen: str = ""
    """Where outside senders of words connect."""
    log: str = ""
    """The log to read words from."""
    inlet: str = ""
    """Where other workers connect."""
    next_worker: str = ""
    sinks: Sequence[str] = ()
    """Readers of counts, to connect to."""
    listening_sinks: Sequence[str] = ()
    """Where readers of counts connect."""
    log_sinks: Sequence[str] = ()
    """Logs to append counts to."""
    saved: str = ""
    """A file for the counts, to go on after a crash."""
    receive_bytes: int = 65_536
    send_bytes: int = 65_536
    read_bytes: int = READ_BYTES
    line_bytes: int = LINE_BYTES
    high_mark: int = UNACKNOWLEDGED.high_mark
    """The high mark of the boundary to the next worker."""
    low_mark: int = UNACKNOWLEDGED.low_mark
    stall_seconds: float = STALL_SECONDS

    def __post_init__(self) -> None:
        """Refuse what makes no worker.

        Raises:
            InvalidOptionError: no input, no output, or parts that do not fit.
        """
        if not 0 < len(self.name.encode()) <= _MOST_NAME_BYTES:
            raise InvalidOptionError(option="name", value=self.name, reason=f"must have 1 to {_MOST_NAME_BYTES} bytes")
        if self.read_bytes + self.line_bytes > MOST_DATA_BYTES:
            reason = f"and line_bytes, {self.line_bytes:,}, must be {MOST_DATA_BYTES:,} at most together"
            raise InvalidOptionError(option="read_bytes", value=self.read_bytes, reason=reason)
        if not (self.listen or self.log or self.inlet):
            raise InvalidOptionError(option="listen", value=None, reason="or log or inlet is needed: nothing comes in")
        if self.inlet and self.next_worker:
            raise InvalidOptionError(
                option="inlet", value=self.inlet, reason="needs sinks: a worker behind another counts"
            )
        if bool(self.next_worker) == bool(self.sinks or self.listening_sinks or self.log_sinks):
            reason = "or sinks are needed, and not both: words go to the next worker, or are counted here"
            raise InvalidOptionError(option="next_worker", value=self.next_worker, reason=reason)


@dataclass
class Worker:
    """The pipeline of one process."""

    settings: WorkerSettings
    pipeline: Pipeline
    saving: Saving
    words: WordCount
    addresses: dict[str, str] = field(default_factory=dict)
    log: LogSource | None = None

    @classmethod
    def of(cls, settings: WorkerSettings, hear: Callable[[Event], None]) -> Self:
        """A worker with what an earlier start has saved; ``hear`` is told its events.

        Raises:
            SavedCountsError: the saved counts cannot be read.
        """
        words, save = WordCount(), None
        if settings.saved:
            path = Path(settings.saved)
            words.load(path)
            save = partial(words.save, path)
        saving = Saving(save, after=settings.low_mark // 2 + 1, hear=hear)
        return cls(settings, Pipeline(stall_seconds=settings.stall_seconds, hear=hear), saving, words)

    async def run(self) -> None:
        """Work until this is cancelled.

        Raises:
            OSError: an address cannot be had.
        """
        try:
            self.build()
            self.pipeline.hear({"event": "ready", **self.addresses})
            await asyncio.get_running_loop().create_future()
        finally:
            self.saving.close()
            self.pipeline.close()

    def build(self) -> None:
        """Make all parts, outputs first.

        Raises:
            OSError: an address cannot be had.
        """
        settings = self.settings
        buffers = Buffers(receive_bytes=settings.receive_bytes, send_bytes=settings.send_bytes)
        feed = self._boundary(buffers) if settings.next_worker else self._count(buffers)
        if settings.inlet:
            inlet = Inlet(
                pipeline=self.pipeline,
                name=f"{settings.name}/inlet",
                feed=feed,
                downstream=self._first_step,
                saving=self.saving,
                address=address_of(settings.inlet),
                buffers=buffers,
            )
            self.addresses["inlet"] = text_of(inlet.address)
        if settings.listen:
            source = TcpSource(
                pipeline=self.pipeline,
                name=f"{settings.name}/in",
                feed=feed,
                downstream=self._first_step,
                address=address_of(settings.listen),
                buffers=buffers,
                read_bytes=settings.read_bytes,
                line_bytes=settings.line_bytes,
            )
            self.addresses["listen"] = text_of(source.address)
        if settings.log:
            self.log = LogSource(
                pipeline=self.pipeline,
                name=f"{settings.name}/log",
                feed=feed,
                downstream=self._first_step,
                address=address_of(settings.log),
                buffers=buffers,
            )

    @property
    def _first_step(self) -> str:
        return "decode" if self.settings.listen or self.settings.log else "count"

    def _boundary(self, buffers: Buffers) -> Feed:
        settings = self.settings
        boundary = Boundary(
            pipeline=self.pipeline,
            name=f"{settings.name}/boundary",
            address=address_of(settings.next_worker),
            buffers=buffers,
            marks=Marks(high_mark=settings.high_mark, low_mark=settings.low_mark),
            on_safe=self._commit,
        )
        self.pipeline.chain("decode", boundary.name)
        return boundary.send

    def _count(self, buffers: Buffers) -> Feed:
        name = self.settings.name
        self.pipeline.chain("decode", "count", "encode")
        readers = [(address, False) for address in self.settings.sinks]
        readers += [(address, True) for address in self.settings.listening_sinks]
        for number, (address, listens) in enumerate(readers):
            sink = TcpSink(
                pipeline=self.pipeline,
                name=f"{name}/out{number}",
                address=address_of(address),
                buffers=buffers,
                listens=listens,
                on_open=partial(self.words.restate, number),
            )
            self._add_sink(sink.name, sink)
            if listens:
                self.addresses[f"out{number}"] = text_of(sink.address)
        for number, address in enumerate(self.settings.log_sinks):
            log = LogSink(
                pipeline=self.pipeline, name=f"{name}/log{number}", address=address_of(address), buffers=buffers
            )
            self._add_sink(log.name, log)
        for place in range(len(readers), len(self.words.sinks)):
            # What an earlier start has saved may not have reached the log.
            self.words.restate(place)
        self.saving.on_saved.append(lambda: self._commit(LOG, self.words.next_lines.get(LOG, 0)))
        return self._take

    def _add_sink(self, name: str, sink: Sink) -> None:
        self.pipeline.chain("encode", name)
        self.words.sinks.append(sink)

    def _take(self, lines: Lines) -> None:
        self.words.take(lines)
        self.saving.note_change()

    def _commit(self, origin: str, next_line: int) -> None:
        if origin == LOG and self.log is not None:
            self.log.commit(next_line)


async def main() -> None:
    """Run a worker process until SIGTERM or Ctrl-C ends it."""

    def tell(event: Event) -> None:
        print(json.dumps(event), flush=True)

    await until_asked_to_end(Worker.of(WorkerSettings.from_command_line(), tell).run())


if __name__ == "__main__":
    run_process(main())
