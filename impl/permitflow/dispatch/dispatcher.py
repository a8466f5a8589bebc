"""A stream whose rows are spread over channels by a key: ``await dispatcher.send(chunk)``; for asyncio.

    split = Splitter(schema, ["orderkey"]).split
    dispatcher = HashDispatcher(senders, split)
    await dispatcher.send(batch)            # each row to the channel of its key
    await dispatcher.send_barrier(7)        # to every channel, behind all rows before it

The senders are those of any channels, local ones and those of exchanges in one stream.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, NoReturn, TypeAlias, TypeVar

from permitflow.cancelling import cancel_all
from permitflow.channels.interface import SendEnd
from permitflow.channels.statistics import ChannelStatistics
from permitflow.dispatch.hash_dispatch import Barrier, ElementPart, End, HashDispatch, Watermark
from permitflow.errors import ChannelClosedError, DispatchError, PermitflowError, WouldBlock
from permitflow.stream.frames import EndOutcome

T = TypeVar("T")

Split: TypeAlias = Callable[[T, Sequence[int]], Sequence[T | None]]
"""The parts of a chunk by channel, None for a channel without rows, given the channel of each virtual node."""


class HashDispatcher(Generic[T]):
    """The upstream of several channels.

    Calls are served one after the other.  A call that waits for permits of one channel has served the others before,
    so that a slow channel makes the stream wait, and delays no other channel's part of the same element.

    A cancelled call has sent nothing if it was waiting for its turn; else the next call sends the rest first, and so no
    row is lost, sent twice, or overtaken by a barrier.  If a channel takes no more, the whole stream ends: the other
    channels are aborted, so that no reader takes its part for the whole.
    """

    def __init__(self, ends: Sequence[SendEnd[T]], split: Split[T]) -> None:
        """Nothing is sent.

        Args:
            ends: the sending end of each channel.  Who dispatches into the same channels names them in the same order.
            split: cuts a chunk, as ``Splitter.split`` does.

        Raises:
            InvalidParametersError: there is no channel, or there are more than virtual nodes.
        """
        self._ends = list(ends)
        self._split = split
        self._core: HashDispatch[T] = HashDispatch(len(self._ends))
        self._turn = asyncio.Lock()
        self._failure: DispatchError | None = None
        self._is_closed = False
        self._outcomes: dict[int, EndOutcome | None] = {}

    @property
    def ends(self) -> tuple[SendEnd[T], ...]:
        """The channels' sending ends."""
        return tuple(self._ends)

    async def send(self, chunk: T) -> None:
        """Send each row of a chunk to the channel of its key; wait until all have left.

        Raises:
            DispatchError: a channel takes no more; all of them were aborted.
            ChannelClosedError: the stream was ended, aborted or closed.
            InvalidParametersError: the chunk cannot be cut; nothing was sent.

        Spec: TakeChunk, Forward of HashDispatch.
        """
        async with self._turn:
            await self._finish()
            self._core.take_chunk(self._split(chunk, self._core.owners))
            await self._forward()

    async def send_barrier(self, payload: object = None, *, added: Sequence[SendEnd[T]] = ()) -> None:
        """Send a barrier to every channel, behind all rows before it.

        Args:
            payload: of the barrier.
            added: ends of new channels.  The barrier is their first message; of the rows behind it they get their
                share.  All who dispatch into the same channels add them at the same barrier.

        Raises:
            DispatchError, ChannelClosedError: as for ``send``.
            InvalidParametersError: there would be more channels than virtual nodes; nothing was sent.

        Spec: TakeBarrier, Forward of HashDispatch.
        """
        async with self._turn:
            await self._finish()
            self._core.take_barrier(payload, len(self._ends) + len(added))
            self._ends.extend(added)
            await self._forward()

    async def send_watermark(self, value: object) -> None:
        """Announce a watermark to every channel; it waits only for calls before this one.

        Raises:
            DispatchError, ChannelClosedError: as for ``send``.

        Spec: TakeWatermark, Forward of HashDispatch.
        """
        async with self._turn:
            await self._finish()
            self._core.take_watermark(value)
            await self._forward()

    async def until_refused(self) -> PermitflowError:
        """Wait until a channel takes no more; abort the others, and return the error that ``send`` would raise.

        A task that waits for something to send needs it, because it would not hear of it.
        """
        waiting = [asyncio.create_task(end.until_refused()) for end in self._ends]
        try:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel_all(*waiting)
        async with self._turn:
            first = next(channel for channel, task in enumerate(waiting) if task in done)
            try:
                self._require_open()
                if self._core.is_over:
                    return ChannelClosedError(end="dispatcher")
                self._lose(first, waiting[first].result())
            except PermitflowError as error:
                return error

    async def end(self) -> tuple[EndOutcome | None, ...]:
        """End every channel; the outcome of each, as its own ``end`` returns it.  Ending twice is harmless.

        Raises:
            DispatchError, ChannelClosedError: as for ``send``.

        Spec: TakeEnd, Forward of HashDispatch.
        """
        async with self._turn:
            if not self._core.is_over:
                await self._finish()
                self._core.take_end()
            await self._forward()
            return tuple(self._outcomes[channel] for channel in range(len(self._ends)))

    def abort(self, reason: str) -> None:
        """Give the stream up: the readers of all channels raise ``ChannelAbortedError`` with this reason."""
        self._is_closed = True
        for end in self._ends:
            end.abort(reason)

    def close(self) -> None:
        """Release all ends; a channel that was not ended is lost for its reader.  Closing twice is harmless."""
        self._is_closed = True
        for end in self._ends:
            end.close()

    def statistics(self) -> tuple[ChannelStatistics, ...]:
        """A snapshot of each channel's counts."""
        return tuple(end.statistics() for end in self._ends)

    # One element.

    async def _finish(self) -> None:
        """Forward what a cancelled call has left, and require that another element may be taken."""
        if self._core.is_over:
            raise ChannelClosedError(end="dispatcher")
        await self._forward()

    def _require_open(self) -> None:
        if self._failure is not None:
            raise DispatchError(channel=self._failure.channel, reason=self._failure.reason)
        if self._is_closed:
            raise ChannelClosedError(end="dispatcher")

    async def _forward(self) -> None:
        """Bring each channel its part of the taken element."""
        self._require_open()
        slow = [channel for channel in range(len(self._ends)) if not self._forward_now(channel)]
        if not slow:
            return
        lost: list[_TakesNoMore] = []
        try:
            async with asyncio.TaskGroup() as group:
                # Where the stream ends, each channel's outcome tells of its loss.
                watched = () if self._core.is_over else range(len(self._ends))
                watching = [group.create_task(self._watch(channel)) for channel in watched]
                await asyncio.wait([group.create_task(self._forward_part(channel)) for channel in slow])
                for task in watching:
                    task.cancel()
        except* _TakesNoMore as errors:
            lost.extend(error for error in errors.exceptions if isinstance(error, _TakesNoMore))
        if lost:
            self._lose(lost[0].channel, lost[0].error)

    def _forward_now(self, channel: int) -> bool:
        """Forward a part if that needs no wait; does the channel lack nothing now?"""
        if not self._core.can_forward(channel):
            return True
        end, part = self._ends[channel], self._core.pending[channel]
        try:
            match part:
                case End():
                    return False
                case Watermark():
                    end.send_watermark(part.value)
                case Barrier():
                    end.send_barrier_nowait(part.payload)
                case _:
                    assert part is not None
                    end.send_nowait(part)
        except WouldBlock:
            return False
        except PermitflowError as error:
            self._lose(channel, error)
        self._core.forwarded(channel)
        return True

    async def _forward_part(self, channel: int) -> None:
        try:
            await self._wait_and_forward(channel, self._core.pending[channel])
        except PermitflowError as error:
            raise _TakesNoMore(channel, error) from error

    async def _wait_and_forward(self, channel: int, part: ElementPart[T] | None) -> None:
        end = self._ends[channel]
        match part:
            case End():
                self._outcomes[channel] = await self._end(end)
            case Barrier():
                await end.send_barrier(part.payload)
            case Watermark() | None:
                raise AssertionError("a watermark never waits")
            case _:
                queue = deque([part])
                try:
                    await end.send_many(queue)
                finally:
                    # A cancelled call may have sent the first slice; the channel then sends the others.
                    if not queue:
                        self._core.forwarded(channel)
                return
        self._core.forwarded(channel)

    async def _end(self, end: SendEnd[T]) -> EndOutcome | None:
        return await end.end()

    async def _watch(self, channel: int) -> NoReturn:
        """Notice a channel that takes no more while others are waited for."""
        raise _TakesNoMore(channel, await self._ends[channel].until_refused())

    def _lose(self, channel: int, error: PermitflowError) -> NoReturn:
        if self._is_closed:
            raise ChannelClosedError(end="dispatcher") from error
        self._core.lose(channel)
        name = self._ends[channel].name
        self._failure = DispatchError(channel=name, reason=str(error))
        for number, end in enumerate(self._ends):
            if number != channel:
                end.abort(f"channel {name!r} of the same stream takes no more rows: {error}")
        raise self._failure from error


class _TakesNoMore(Exception):  # it never leaves this module
    def __init__(self, channel: int, error: PermitflowError) -> None:
        super().__init__(channel)
        self.channel, self.error = channel, error
