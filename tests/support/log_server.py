"""A log in memory that acknowledges in batches, for the word count's ``LogSource`` and ``LogSink``."""

import asyncio

from permitflow.mute.messages import LinkMessageKind, Peer, data_body, number_body, read_data, read_number
from permitflow.mute.pipeline import Lines
from permitflow.mute.sockets import Buffers, Listener

ACKNOWLEDGE_SECONDS = 0.01


class LogServer:
    """Lines to fetch, and batches, several acknowledged at a time."""

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
