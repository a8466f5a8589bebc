"""Decides when a remote end's messages are written.

Messages are written at once as long as the carrier takes them; frames that come up meanwhile travel together once the
carrier takes more.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence

from permitflow.carriers.carrier import Carrier
from permitflow.wire.buffers import Buffer, Received
from permitflow.wire.signs import ANSWER, ASK

_MOST_UNANSWERED = 8
"""Times between signs for which a peer may leave one unanswered: twice the longest silence."""


class Writing:
    """Writes messages into a carrier, one after the other, and asks whether the last of them has come."""

    def __init__(
        self,
        carrier: Carrier,
        messages: Callable[[], Iterable[Sequence[Buffer]]],
        on_over: Callable[[Exception | None], None],
        on_silence: Callable[[float], bool],
    ) -> None:
        """Nothing is written before ``start``.

        Args:
            carrier: of the open stream.
            messages: yields the due messages in pieces, encoded one after the other.
            on_over: called once, in a turn of the loop of its own: everything was written and this half is closed, or
                something could not be encoded.
            on_silence: called with the seconds for which the peer has left a sign unanswered; False: all is over.
        """
        self._carrier = carrier
        self._messages = messages
        self._on_over, self._on_silence = on_over, on_silence
        self._loop = asyncio.get_running_loop()
        self._following: Iterator[Sequence[Buffer]] = iter(())
        self._is_open = self._is_full = self._is_due = False
        self._is_asking = True
        self._timer: asyncio.TimerHandle | None = None
        self._sign_timer: asyncio.TimerHandle | None = None
        self._owes_sign = self._owes_answer = False
        self._unanswered = 0
        """Turns of the timer since this end has asked; 0: it waits for no answer."""
        self.is_last = False
        """Set by ``messages``: no message will follow."""

    def start(self) -> None:
        """Write the due messages, and from now on all later ones."""
        self._is_open = True
        self._give_sign()
        self.now()

    def stop(self) -> None:
        """Write nothing any more."""
        self._close()
        if self._sign_timer is not None:
            self._sign_timer.cancel()

    def _close(self) -> None:
        self._is_open = False
        if self._timer is not None:
            self._timer.cancel()

    def soon(self) -> None:
        """Write the due messages once the caller and other ready tasks have had their turn."""
        if not self._is_due and self._is_open:
            self._is_due = True
            self._loop.call_soon(self._write)

    def within(self, seconds: float) -> None:
        """Write the due messages after at most ``seconds``; further calls meanwhile change nothing."""
        if self._timer is None and self._is_open:
            self._timer = self._loop.call_later(seconds, self._on_time)

    def _on_time(self) -> None:
        self._timer, self._is_due = None, True
        self._write()

    def _give_sign(self) -> None:
        """Let a sign follow the last message, so that its loss is noticed: by the peer, or because no answer comes.

        Turns of the timer are counted, and not the time: if this loop was busy, it has read no answer.
        """
        seconds = self._carrier.sign_seconds
        if seconds is None:
            return
        if self._unanswered:
            self._unanswered += 1
            if self._unanswered > _MOST_UNANSWERED:
                if not self._on_silence(seconds * _MOST_UNANSWERED):
                    return
                self._unanswered = 1  # the sign is written again, over another connection
        elif self._owes_sign and not self._is_full:
            self._is_full, self._owes_sign = not self._carrier.write_sign(ASK), False
            self._unanswered = int(self._is_asking)
        self._sign_timer = self._loop.call_later(seconds, self._give_sign)

    def take_sign(self, message: Received) -> bool:
        """React to a sign of the peer; False: the message, of ``SIGN_BYTES``, is none."""
        if message == ASK:
            self._owes_answer = True
            self._answer()
        elif message == ANSWER:
            self._unanswered = 0
        else:
            return False
        return True

    def ask_no_more(self) -> None:
        """Expect no answer: one of the halves is closed."""
        self._is_asking, self._unanswered = False, 0

    def _answer(self) -> None:
        if not self._is_full:
            self._is_full, self._owes_answer = not self._carrier.write_sign(ANSWER), False

    def now(self) -> None:
        """Write the due messages as far as the carrier takes them; ``on_over`` reports errors later."""
        self._is_due = True
        self._write()

    def on_writable(self) -> None:
        """Continue writing: the carrier takes more."""
        self._is_full = False
        if self._owes_answer:
            self._answer()
        self._write()

    def _write(self) -> None:
        """Finish the begun messages, and then, if due, write those that came up since."""
        if not self._is_open or self._is_full:
            return
        write = self._carrier.write
        try:
            while True:
                for message in self._following:
                    self._owes_sign = True
                    if not write(message):
                        self._is_full = True
                        return
                if not self._is_due:
                    break
                self._is_due = False
                self._following = iter(self._messages())
        except Exception as error:
            self._finish(error)
            return
        if self.is_last:
            self._carrier.half_close()
            self._finish(None)

    def _finish(self, error: Exception | None) -> None:
        self._close()  # an acceptor's signs follow until its status
        self._loop.call_soon(self._on_over, error)
