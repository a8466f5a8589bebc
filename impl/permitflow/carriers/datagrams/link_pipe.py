"""A pipe over datagrams: bytes in order and without loss, out of packets that get lost, doubled and reordered.

It does for one connection what a kernel does for a socket of TCP: it cuts the bytes into datagrams, and sends them
again, until the peer has them, also for a while after it was closed.  The rules are those of ``link``.
"""

import asyncio
from collections.abc import Callable, Sequence

from permitflow.carriers.datagrams.congestion import Congestion
from permitflow.carriers.datagrams.link import LinkFeedback, LinkReceiver, LinkSender
from permitflow.carriers.datagrams.packets import DATA_BYTES, RANGE_BYTES, Data, Gone, encode, encode_data
from permitflow.carriers.pipe import Pipe
from permitflow.errors import PermitflowError
from permitflow.wire.buffers import Buffer

REMIND_SECONDS = 1.0
"""The longest time between two feedbacks: the distance of the signs of life."""

LINGER_SECONDS = 10.0
"""How long a closed end goes on sending what the peer does not have yet; its time-out is 2 s at most."""

_REFUSALS = 3
"""The peer has gone after this many in a row."""

_END = b""
"""The payload behind which none follows."""


class LinkPipe(Pipe):
    """One end of a connection over datagrams."""

    def __init__(
        self,
        *,
        connection: int,
        window: int,
        peer_window: int,
        datagram_bytes: int,
        transmit: Callable[[Sequence[Buffer]], bool],
        on_over: Callable[[], None],
    ) -> None:
        """Nothing was sent and nothing has come yet; needs a running event loop.

        Args:
            connection: its number, unlike that of any other connection.
            window: data that this end has places for.
            peer_window: data that the peer has places for.
            datagram_bytes: the longest packet.
            transmit: sends a packet in pieces; False: the socket has no room, and the packet is lost.
            on_over: called once, when this object needs nothing any more.
        """
        self._loop = asyncio.get_running_loop()
        self._now = self._loop.time
        self._connection = connection
        now = self._now()
        self._sender: LinkSender[bytes] = LinkSender(epoch=connection, window=peer_window)
        self._congestion = Congestion(peer_window)
        self._receiver: LinkReceiver[bytes] = LinkReceiver(
            epoch=connection, window=window, now=now, remind_seconds=REMIND_SECONDS
        )
        self._datagram_bytes, self._payload_bytes = datagram_bytes, datagram_bytes - DATA_BYTES
        self._transmit, self._on_over = transmit, on_over
        self._told = self._heard = LinkFeedback(connection, 0, window)
        self._last_feedback = encode(self._told)
        # Reading.
        self._begun = memoryview(_END)
        """What is left of the payload that was begun."""
        self._on_readable: Callable[[], None] | None = None
        self._has_end_come = False
        self._error: PermitflowError | None = None
        # Writing.
        self._on_writable: Callable[[], None] | None = None
        self._is_blocked = False
        """Has the socket no room?"""
        self._owes_end = False
        # The end.
        self._is_gone = self._is_closed = False
        self._linger_until = 0.0
        self.over = asyncio.Event()
        """Set when this object needs nothing any more."""
        self._refusals = 0
        self._on_sign: Callable[[], None] = lambda: None
        self._sent_seconds = now
        # Turns.
        self._is_turn_due = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_settled(self) -> bool:
        """Has the peer everything that was sent?"""
        return self._sender.is_settled and not self._owes_end

    # Packets.

    def take_data(self, data: Data, now: float) -> None:
        """A packet with data has come; ``end_turn`` follows soon."""
        self._note_sign()
        if self._is_closed:
            self.take_feedback(data.feedback, now)
            return
        try:
            self._receiver.arrive(data.feedback.epoch, data.number, data.payload, now)
            if data.feedback != self._heard:
                self._heard = data.feedback
                self._sender.hear(data.feedback, now)
        except PermitflowError as error:
            self._refuse(error)

    def take_feedback(self, feedback: LinkFeedback, now: float) -> None:
        """Feedback has come; ``end_turn`` follows soon."""
        self._note_sign()
        try:
            self._sender.hear(feedback, now)
        except PermitflowError as error:
            self._refuse(error)

    def _note_sign(self) -> None:
        self._refusals = 0
        self._on_sign()

    def _refuse(self, error: PermitflowError) -> None:
        self._error = self._error or error

    def take_gone(self) -> None:
        """The peer has left the connection, or does not know it; ``end_turn`` follows soon."""
        self._is_gone = True

    def take_refusal(self) -> None:
        """A host has told that nobody listens there; ``end_turn`` follows soon.

        It counts if the peer says nothing meanwhile: anybody may write such a message.
        """
        self._refusals += 1
        self._is_gone |= self._refusals >= _REFUSALS

    def end_turn(self) -> None:
        """All packets that were there have been taken: let the application read and write, and answer."""
        self._is_turn_due = True  # nothing below needs another turn
        now = self._now()
        if self._receiver.has_gap and self._receiver.deadline <= now and not self._is_closed:
            self._send_feedback(now)  # what has come behind the gap has no room in a packet that is full of data
        sender = self._sender
        self._congestion.note(sender.sent, sender.retransmitted, now, sender.round_trip.smoothed_seconds or 0.0)
        if not (self._is_gone or self._is_blocked):
            for number, payload in self._sender.due(now):
                if not self._send_data(number, payload, now):
                    break
            if self._owes_end and self._can_send:
                self._owes_end = False
                self._send_data(self._sender.send(_END, 0, now), _END, now)
        if self._on_writable is not None and self._may_write:
            self._on_writable()
        if self._on_readable is not None and self._may_read:
            self._on_readable()
        self._is_turn_due = False
        if self._is_closed:
            self._end_if_over(now)
            if self.over.is_set():
                return
        elif self._receiver.deadline <= now and not self._is_gone:
            self._send_feedback(now)
        if (self._on_readable is not None and self._may_read) or (self._on_writable is not None and self._may_write):
            self._need_turn()
        if not self._is_gone:
            self._set_timer()

    def _need_turn(self) -> None:
        if not self._is_turn_due:
            self._is_turn_due = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        if not self.over.is_set():
            self.end_turn()

    def _set_timer(self) -> None:
        at_seconds = self._linger_until if self._is_closed else self._receiver.deadline
        if not self._is_blocked and (of_sender := self._sender.deadline) is not None:
            at_seconds = min(at_seconds, of_sender)
        # A timer that is early finds nothing to do, and is set again.
        if self._timer is None or at_seconds < self._timer.when():
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(at_seconds, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        self._turn()

    # Signs of life.

    def hear_signs(self, on_sign: Callable[[], None]) -> None:
        """Call this function for each packet of the peer."""
        self._on_sign = on_sign

    def give_sign(self) -> None:
        """Tell the last feedback again, if nothing has left for a while; called in any thread."""
        if not self.over.is_set() and self._now() > self._sent_seconds + REMIND_SECONDS:
            self._transmit((self._last_feedback,))

    # Reading.

    @property
    def _may_read(self) -> bool:
        return bool(self._begun or self._receiver.inbox or self._is_gone or self._has_end_come or self._error)

    def receive_into(self, space: memoryview) -> int:
        """See ``Pipe``.

        Raises:
            BlockingIOError: nothing has come.
            PermitflowError: the peer breaks the rules.
        """
        filled, room, receiver = 0, len(space), self._receiver
        rest = self._begun
        while filled < room:
            if not rest:
                if not receiver.inbox or self._has_end_come:
                    break
                rest = memoryview(receiver.take(self._now()))
                if not rest:
                    self._has_end_come = True
                    break
            some = rest[: room - filled]
            space[filled : filled + len(some)] = some
            filled += len(some)
            rest = rest[len(some) :]
        self._begun = rest
        if filled:
            self._need_turn()
            return filled
        if (error := self._error) is not None:
            self._error, self._has_end_come = None, True
            raise error
        if self._has_end_come or self._is_gone:
            return 0
        raise BlockingIOError

    def watch_reading(self, on_readable: Callable[[], None]) -> None:
        """See ``Pipe``."""
        self._on_readable = on_readable
        if self._may_read:
            self._need_turn()

    def unwatch_reading(self) -> None:
        """See ``Pipe``."""
        self._on_readable = None

    # Writing.

    @property
    def _can_send(self) -> bool:
        sender = self._sender
        return sender.can_send and not self._is_blocked and sender.unacknowledged < self._congestion.bound

    @property
    def _may_write(self) -> bool:
        return self._can_send or self._is_gone

    def send(self, pieces: Sequence[Buffer]) -> int:
        """See ``Pipe``.

        Raises:
            BlockingIOError: the peer has no room for more.
            BrokenPipeError: the peer has gone.
        """
        if self._is_gone:
            raise BrokenPipeError("the peer has left the connection")
        if not self._can_send:
            raise BlockingIOError
        sent, now = 0, self._now()
        payload, missing = list[Buffer](), self._payload_bytes
        for piece in pieces:
            view = memoryview(piece).cast("B")
            while len(view) >= missing:
                payload.append(view[:missing])
                sent += self._send_new(b"".join(payload), now)
                view = view[missing:]
                payload, missing = [], self._payload_bytes
                if not self._can_send:
                    return sent
            if view:
                payload.append(view)
                missing -= len(view)
        if payload:
            sent += self._send_new(b"".join(payload), now)
        return sent

    def _send_new(self, payload: bytes, now: float) -> int:
        self._send_data(self._sender.send(payload, len(payload), now), payload, now)
        self._need_turn()  # for the timer
        return len(payload)

    def _send_data(self, number: int, payload: bytes, now: float) -> bool:
        """Send a datagram; without room in the socket it counts as lost, and writing waits."""
        if self._receiver.owes:
            self._told = self._receiver.feedback(now)
        told = self._told
        self._sent_seconds = now
        if told.beyond and len(payload) + len(told.beyond) * RANGE_BYTES > self._payload_bytes:
            told = told._replace(beyond=())
        self._is_blocked = not self._transmit(encode_data(number, told, payload))
        return not self._is_blocked

    def _send_feedback(self, now: float) -> None:
        self._told = self._receiver.feedback(now)
        self._last_feedback = encode(self._told)
        self._sent_seconds = now
        self._transmit((self._last_feedback,))

    def unblock(self) -> None:
        """The socket has room again."""
        if self._is_blocked:
            self._is_blocked = False
            self._need_turn()

    def watch_writing(self, on_writable: Callable[[], None]) -> None:
        """See ``Pipe``."""
        self._on_writable = on_writable
        if self._may_write:
            self._need_turn()

    def unwatch_writing(self) -> None:
        """See ``Pipe``."""
        self._on_writable = None

    def shut_writing(self) -> None:
        """See ``Pipe``."""
        self._owes_end = True
        self._need_turn()

    # The end.

    def close(self) -> None:
        """Read no more; tell the peer once it has all that was sent, or after ``LINGER_SECONDS``."""
        if self._is_closed:
            return
        self._is_closed = True
        self._on_readable = self._on_writable = None
        now = self._now()
        self._linger_until = now + LINGER_SECONDS
        self._end_if_over(now)
        if not self.over.is_set():
            self._set_timer()

    def _end_if_over(self, now: float) -> None:
        if self.is_settled or self._is_gone or now >= self._linger_until:
            self.abandon()

    def abandon(self) -> None:
        """Leave the connection at once."""
        if self.over.is_set():
            return
        self._is_closed = True
        self.over.set()
        if self._timer is not None:
            self._timer.cancel()
        if not self._is_gone:
            self._transmit((encode(Gone(self._connection)),))
        self._on_over()
