"""A source and a sink whose other ends acknowledge in batches, as Kafka does, and a small log server to use them with.

The source asks for lines from a number on, and commits the number before which all is safe: after a crash it begins
there.  The sink numbers its batches and keeps those that are not acknowledged; too many of them mute.
"""

import asyncio
from dataclasses import dataclass
from typing import ClassVar

from permitflow.mute.channel import Dialling, Sender
from permitflow.mute.graph import Marks
from permitflow.mute.messages import LinkMessageKind, Peer, data_body, number_body, read_data, read_number
from permitflow.mute.pipeline import Feed, Lines
from permitflow.mute.sockets import Buffers, Listener

UNACKNOWLEDGED = Marks(high_mark=64, low_mark=16)
"""Batches at a sink that mute, and unmute."""
ACKNOWLEDGE_SECONDS = 0.01
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


class LogServer:
    """A log in memory, for demonstrations and tests: lines to fetch, and batches, several acknowledged at a time."""

    def __init__(
        self, lines: list[bytes], *, most_lines: int = 64, acknowledge_after: int = 8, buffers: Buffers | None = None
    ) -> None:
        """Listen.

        Args:
            lines: what readers fetch; more may be appended.
            most_lines: of one answer.
            acknowledge_after: batches that one acknowledgement covers, unless no more come.
            buffers: of the sockets.
        """
        self.lines = lines
        self.committed = 0
        """Where readers begin after a crash."""
        self.appended: list[bytes] = []
        """What writers have appended, each batch once."""
        self.acknowledgements = 0
        self._most_lines, self._acknowledge_after = most_lines, acknowledge_after
        self._loop = asyncio.get_running_loop()
        self._listener = Listener(("127.0.0.1", 0), buffers or Buffers(), self._admit, lambda event: None)
        self.address = self._listener.address
        self._sessions: list[_Session] = []
        self._next_lines: dict[str, int] = {}
        self._is_standing_still = False

    def _admit(self) -> Peer:
        session = _Session()
        session.peer = Peer(
            expects=(LinkMessageKind.FETCH, LinkMessageKind.COMMIT, LinkMessageKind.DATA),
            on_message=lambda kind, body: self._on_message(session, kind, body),
            on_lost=lambda reason: self._sessions.remove(session),
        )
        self._sessions.append(session)
        return session.peer

    def _on_message(self, session: "_Session", kind: LinkMessageKind, body: bytes) -> None:
        match kind:
            case LinkMessageKind.FETCH:
                # Nobody needs committed lines again.
                session.wanted = max(self.committed, read_number(body))
                self._answer(session)
            case LinkMessageKind.COMMIT:
                self.committed = max(self.committed, read_number(body))
            case LinkMessageKind.DATA:
                session.received, lines = read_data(body)
                known = self._next_lines.get(lines.origin, 0)
                self.appended += lines.lines[max(0, known - lines.first) :]
                self._next_lines[lines.origin] = max(known, lines.first + len(lines.lines))
                if session.received - session.acknowledged >= self._acknowledge_after:
                    self._acknowledge(session)
                else:
                    self._loop.call_later(ACKNOWLEDGE_SECONDS, self._acknowledge, session)

    def _answer(self, session: "_Session") -> None:
        if session.wanted is not None and session.wanted < len(self.lines):
            first, session.wanted = session.wanted, None
            lines = self.lines[first : first + self._most_lines]
            session.peer.send(LinkMessageKind.DATA, data_body(0, Lines("", first, lines)))

    def _acknowledge(self, session: "_Session") -> None:
        if not self._is_standing_still and session.received > session.acknowledged:
            session.acknowledged = session.received
            self.acknowledgements += 1
            session.peer.send(LinkMessageKind.ACKNOWLEDGE, number_body(session.received))

    def append(self, lines: list[bytes]) -> None:
        """More lines to fetch."""
        self.lines += lines
        for session in [*self._sessions]:
            self._answer(session)

    def stand_still(self) -> None:
        """Acknowledge nothing more."""
        self._is_standing_still = True

    def go_on(self) -> None:
        """Acknowledge what has come, and go on."""
        self._is_standing_still = False
        for session in [*self._sessions]:
            self._acknowledge(session)

    def break_off(self) -> None:
        """End all connections; clients come again."""
        for session in [*self._sessions]:
            session.peer.close()
        self._sessions.clear()

    def close(self) -> None:
        """Listen no more, and end all connections."""
        self.break_off()
        self._listener.close()


class _Session:
    """A client of the log."""

    peer: Peer

    def __init__(self) -> None:
        self.wanted: int | None = None
        self.received = self.acknowledged = 0
