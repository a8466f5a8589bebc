"""A source and a sink whose other ends acknowledge in batches, as Kafka does.

The source asks for lines from a number on, and commits the number before which all is safe: after a crash it begins
there.  The sink numbers its batches and keeps those that are not acknowledged; too many of them mute.
"""

from dataclasses import dataclass
from typing import ClassVar

from permitflow.mute.channel import Dialling, Sender
from permitflow.mute.graph import Marks
from permitflow.mute.messages import LinkMessageKind, number_body, read_data
from permitflow.mute.pipeline import Feed, Lines

UNACKNOWLEDGED = Marks(high_mark=64, low_mark=16)
"""Batches at a sink that mute, and unmute."""
LOG = "log"


@dataclass(kw_only=True)
class LogSource(Dialling):
    """Reads a log: one request at a time, none while it is muted."""

    feed: Feed
    downstream: str
    """The next node of the graph."""
    origin: str = LOG
    """The log's name, the same after each start: the numbers of its lines belong to it."""

    _word: ClassVar[str] = "source"
    _expects: ClassVar[tuple[LinkMessageKind, ...]] = (LinkMessageKind.DATA,)

    def __post_init__(self) -> None:
        """Begin to connect."""
        self._is_paused, self._is_waiting = True, False
        self._next = self._committed = 0
        super().__post_init__()
        self.pipeline.add_source(self.name, self.downstream, self)

    def _on_open(self) -> None:
        if self._committed:
            self._say(LinkMessageKind.COMMIT, number_body(self._committed))
        self._ask()

    def pause(self) -> None:
        """See ``Reads``: the answer to the last request still comes."""
        self._is_paused = True

    def resume(self) -> None:
        """See ``Reads``."""
        self._is_paused = False
        self._ask()

    def _ask(self) -> None:
        if self._peer is not None and not self._is_paused and not self._is_waiting:
            self._is_waiting = True
            self._say(LinkMessageKind.FETCH, number_body(self._next))

    def _on_message(self, kind: LinkMessageKind, body: bytes) -> None:
        self._is_waiting = False
        _, (_, first, lines) = read_data(body)
        self._next = first + len(lines)
        self.feed(Lines(self.origin, first, lines))
        self._ask()

    def commit(self, next_line: int) -> None:
        """All lines before this number are safe."""
        if next_line > self._committed:
            self._committed = next_line
            self._say(LinkMessageKind.COMMIT, number_body(next_line))

    def _on_lost(self, reason: str) -> None:
        self._is_waiting = False
        super()._on_lost(reason)


@dataclass(kw_only=True)
class LogSink(Sender):
    """Appends to a log, a batch for each write; sends again after a lost connection what was not acknowledged."""

    marks: Marks = UNACKNOWLEDGED

    def __post_init__(self) -> None:
        """Begin to connect."""
        super().__post_init__()
        self._lines = 0

    def write(self, data: bytes) -> None:
        """See ``Sink``."""
        lines = data.removesuffix(b"\n").split(b"\n")
        self.send(Lines(self.name, self._lines, lines))
        self._lines += len(lines)
