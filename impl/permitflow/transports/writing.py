"""When what a remote end has to say is written, and by whom.

A task writes, for as long as the stream lasts.  A prompt carrier spares it most of its turns: what there is to write is
written where it comes up, and the task only sees to what must be waited for.  Whatever is ready at that time travels
together.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from permitflow.transports.carrier import Buffer, Rest, WriteNow
from permitflow.transports.same_host import HostCarrier

__all__ = ["Writing"]

Train = Sequence[Buffer]


class Writing:
    """Writes trains into a carrier, one after the other."""

    def __init__(
        self, carrier: HostCarrier, trains: Callable[[], Iterable[Train]], is_last: Callable[[], bool]
    ) -> None:
        """Nothing is written before ``run``, or ``be_prompt``.

        Args:
            carrier: of the open stream.
            trains: what is to be written now, encoded one after the other; what comes meanwhile is for the next time.
            is_last: has everything been handed out for writing that will ever be?
        """
        self._carrier = carrier
        self._trains = trains
        self._is_last = is_last
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._write_now: WriteNow | None = None
        # Is a train under way, or is it the task that writes?
        self._is_busy = False
        self._is_due = False
        self._left: tuple[Rest, Iterable[Train]] | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def run(self) -> None:
        """Write until all was written, and close this half.

        Raises:
            PermitflowError: something could not be written, or encoded.
        """
        while True:
            self._is_busy = True
            if not await self._write_what_is_there():
                self._is_busy = False
                if self._is_last():
                    break
                await self._wake.wait()
                self._wake.clear()
        self._write_now = None
        await self._carrier.half_close()

    async def _write_what_is_there(self) -> bool:
        has_written = self._left is not None
        if self._left is not None:
            (rest, trains), self._left = self._left, None
            await rest()
        else:
            trains = self._trains()
        for train in trains:
            await self._carrier.write(train)
            has_written = True
        return has_written

    def be_prompt(self, write_now: WriteNow) -> None:
        """The carrier writes without waiting, from now on."""
        self._write_now = write_now

    def stop(self) -> None:
        """Write nothing any more but what the task writes."""
        self._write_now = None
        if self._timer is not None:
            self._timer.cancel()

    def soon(self) -> None:
        """Write what there is once the caller, and whoever else can run now, has had its turn."""
        if self._write_now is None:
            self._wake.set()
        elif not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._write_if_due)

    def within(self, seconds: float) -> None:
        """Write what there is after so long at most; whoever asks meanwhile changes nothing."""
        if self._timer is None:
            self._timer = self._loop.call_later(seconds, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        self.soon()

    def _write_if_due(self) -> None:
        if self._is_due:
            self.now()

    def now(self) -> None:
        """Write what there is; what the carrier does not take at once, and errors, are left to the task."""
        self._is_due = False
        if self._write_now is None or self._is_busy:
            self._wake.set()
            return
        try:
            following = iter(self._trains())
            for train in following:
                if (rest := self._write_now(train)) is not None:
                    self._leave(rest, following)
                    return
        except Exception as error:
            self._leave(partial(_raise, error), ())
        if self._is_last():
            self._wake.set()

    def _leave(self, rest: Rest, following: Iterable[Train]) -> None:
        """Leave the rest of a train, and those after it, to the task."""
        self._left = rest, following
        self._is_busy = True
        self._wake.set()


async def _raise(error: Exception) -> None:
    raise error
