"""Decides when a remote end's messages are written.

Messages are written at once as long as the carrier takes them; frames that come up meanwhile travel together once the
carrier takes more.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence

from permitflow.transports.carrier import Buffer, Carrier


class Writing:
    """Writes messages into a carrier, one after the other."""

    def __init__(
        self,
        carrier: Carrier,
        messages: Callable[[], Iterable[Sequence[Buffer]]],
        on_over: Callable[[Exception | None], None],
    ) -> None:
        """Nothing is written before ``start``.

        Args:
            carrier: of the open stream.
            messages: yields the due messages in pieces, encoded one after the other.
            on_over: called once, in a turn of the loop of its own: everything was written and this half is closed, or
                something could not be encoded.
        """
        self._carrier = carrier
        self._messages = messages
        self._on_over = on_over
        self._loop = asyncio.get_running_loop()
        self._following: Iterator[Sequence[Buffer]] = iter(())
        self._is_open = self._is_full = self._is_due = False
        self._timer: asyncio.TimerHandle | None = None
        self._sign_timer: asyncio.TimerHandle | None = None
        self._owes_sign = False
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
        """Let an empty message follow the last one, so that the peer notices if that was lost."""
        seconds = self._carrier.sign_seconds
        if seconds is None:
            return
        if self._owes_sign and not self._is_full:
            self._is_full, self._owes_sign = not self._carrier.write(()), False
        self._sign_timer = self._loop.call_later(seconds, self._give_sign)

    def now(self) -> None:
        """Write the due messages as far as the carrier takes them; ``on_over`` reports errors later."""
        self._is_due = True
        self._write()

    def on_writable(self) -> None:
        """Continue writing: the carrier takes more."""
        self._is_full = False
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
