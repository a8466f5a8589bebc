"""Questions and orders about channels that keep their rows, for asyncio."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TypeVar

from permitflow.errors import ChannelClosedError, PeerGoneError, PeerTimeoutError
from permitflow.protocol.control import ChannelRow, Discarded, Published, StagedPart
from permitflow.protocol.traffic import Statistics
from permitflow.transports.carrier import Carrier, Received
from permitflow.transports.control_orders import (
    Order,
    Where,
    acknowledge,
    close,
    discard,
    positions,
    publish,
    statistics,
)
from permitflow.transports.strangers import SILENT

__all__ = ["AioControl"]

T = TypeVar("T")


class AioControl:
    """One stream of questions and orders.  Tasks that share it take turns.

    An order that fails ends the stream: call ``control`` again for the next one.  Whether an order that was not
    answered, or was cancelled, was carried out is not known; all of them may be repeated.
    """

    def __init__(self, carrier: Carrier, who: str, timeout_seconds: float) -> None:
        """Use ``control``."""
        self._carrier = carrier
        self._who = who
        self._timeout_seconds = timeout_seconds
        self._turn = asyncio.Lock()
        self._is_closed = False

    async def positions(self, channels: Sequence[str], *, consumer: str = "") -> Where:
        """Where channels stand, in this order.

        Args:
            channels: names.
            consumer: whose position is wanted; empty: that of the consumer ``default``.

        Raises:
            UnknownChannelError: the exchange has no such channel.
            RetentionError: one of them does not keep its rows.
            UnknownConsumerError: one of them keeps no rows for this consumer.
            ChannelClosedError: an order has failed before, or the block was left.
            PeerTimeoutError: no reply in time.
            PeerGoneError: the exchange has gone.
        """
        return await self._ask(positions(channels, consumer))

    async def acknowledge(self, rows: Mapping[str, int] | Sequence[ChannelRow], *, consumer: str = "") -> Where:
        """A consumer needs no row before these any more; less than before changes nothing.

        Args:
            rows: by channel: the first row that is still needed; or the same with the log in which it was counted.
            consumer: empty: the consumer ``default``.

        Raises:
            RowsNotThereError: one of these rows has not come; nothing was acknowledged.
            LogReplacedError: the rows that are meant are lost; nothing was acknowledged.
            StoreWriteError: the exchange could not write; some of the channels may be acknowledged.
            PermitflowError: as ``positions``.
        """
        return await self._ask(acknowledge(rows, consumer))

    async def close_channels(self, channels: Sequence[str], *, consumer: str = "") -> Where:
        """Nobody will put into these channels any more.  Those that have ended stay as they are.

        Raises:
            StoreWriteError: the exchange could not write; some of the channels may be closed.
            PermitflowError: as ``positions``.
        """
        return await self._ask(close(channels, consumer))

    async def publish(self, query: str, batch: int, parts: Sequence[StagedPart]) -> Published:
        """Make one attempt at each partition of a batch part of its channel, all or none.

        Raises:
            StagingError: something of it is not staged; nothing was published.
            PermitflowError: as ``positions``.
        """
        return await self._ask(publish(query, batch, parts))

    async def discard(self, query: str, batch: int, parts: Sequence[StagedPart]) -> Discarded:
        """Forget these attempts at a batch, unless they are published; attempts that are not named stay.

        Raises:
            PermitflowError: as ``positions``.
        """
        return await self._ask(discard(query, batch, parts))

    async def statistics(self, channels: Sequence[str] = ()) -> Statistics:
        """What has flowed through channels of any kind, in counts.

        Args:
            channels: names, in the order of the answer; none: all that the exchange has.

        Raises:
            UnknownChannelError: the exchange has no such channel.
            PermitflowError: as ``positions``.
        """
        return await self._ask(statistics(channels))

    async def _ask(self, order: Order[T]) -> T:
        async with self._turn:
            if self._is_closed:
                raise ChannelClosedError(end="control stream")
            # Unless all goes well, what comes later would be taken for the reply to something else.
            self._is_closed = True
            reply = order.read(await self._reply_to(order.message))
            self._is_closed = False
            return reply

    async def _reply_to(self, message: bytes) -> Received:
        try:
            async with asyncio.timeout(self._timeout_seconds):
                await self._carrier.write([message])
                reply = await self._carrier.read()
        except PeerTimeoutError:
            raise
        except TimeoutError:
            reason = f"no reply within {self._timeout_seconds:g} s; {SILENT}"
            raise PeerTimeoutError(who=self._who, reason=reason) from None
        if reply is None:
            raise PeerGoneError(who=self._who, reason="it closed the stream without a reply")
        return reply

    def close(self) -> None:
        """Take no order any more."""
        self._is_closed = True
