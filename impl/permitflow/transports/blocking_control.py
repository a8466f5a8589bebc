"""Questions and orders about channels that keep their rows, and looks at what flows; without an event loop."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeVar

from permitflow.errors import ChannelClosedError, InvalidParametersError, PeerGoneError, PeerTimeoutError
from permitflow.protocol.control import ChannelRow, Discarded, Published, StagedPart
from permitflow.protocol.traffic import Flow, Statistics, flows_between
from permitflow.transports.blocking_calls import BlockingHostCall, Closed, receive_within
from permitflow.transports.carrier import Received
from permitflow.transports.connection import CONTROL
from permitflow.transports.control_codec import (
    Order,
    Where,
    acknowledge,
    close,
    discard,
    positions,
    publish,
    statistics,
)
from permitflow.transports.shared_memory.blocking_link import Outgoing
from permitflow.transports.wire_errors import SILENT

__all__ = ["BlockingControl", "Look", "TrafficWatch"]

T = TypeVar("T")


class BlockingControl:
    """One stream of questions and orders; a context manager.  For one thread at a time.

    An order that fails ends the stream: call ``control`` again for the next one.  Whether an order that was not
    answered was carried out is not known; all of them may be repeated.
    """

    def __init__(self, address: str, timeout_seconds: float) -> None:
        """Dial; see ``control``."""
        if not timeout_seconds > 0:
            raise InvalidParametersError(name="timeout_seconds", value=timeout_seconds, rule="must be above 0")
        self._who = f"the exchange at {address}"
        self._timeout_seconds = timeout_seconds
        self._is_closed = False
        self._call = BlockingHostCall(address, CONTROL, who=self._who)

    def positions(self, channels: Sequence[str], *, consumer: str = "") -> Where:
        """Where channels stand, in this order.

        Args:
            channels: names.
            consumer: whose position is wanted; empty: that of the consumer ``default``.

        Raises:
            UnknownChannelError: the exchange has no such channel.
            RetentionError: one of them does not keep its rows.
            UnknownConsumerError: one of them keeps no rows for this consumer.
            ChannelClosedError: an order has failed before, or this object was closed.
            PeerTimeoutError: no reply in time.
            PeerGoneError: nobody answers at this address, or the exchange has gone.
        """
        return self._ask(positions(channels, consumer))

    def acknowledge(self, rows: Mapping[str, int] | Sequence[ChannelRow], *, consumer: str = "") -> Where:
        """A consumer needs no row before these any more; less than before changes nothing.

        Args:
            rows: by channel: the first row that is still needed; or the same with the log in which it was counted,
                so that no other rows are acknowledged than those that are meant.
            consumer: empty: the consumer ``default``.

        Raises:
            RowsNotThereError: one of these rows has not come; nothing was acknowledged.
            LogReplacedError: the rows that are meant are lost; nothing was acknowledged.
            StoreWriteError: the exchange could not write; some of the channels may be acknowledged.
            PermitflowError: as ``positions``.
        """
        return self._ask(acknowledge(rows, consumer))

    def close_channels(self, channels: Sequence[str], *, consumer: str = "") -> Where:
        """Nobody will put into these channels any more.  Those that have ended stay as they are.

        Raises:
            StoreWriteError: the exchange could not write; some of the channels may be closed.
            PermitflowError: as ``positions``.
        """
        return self._ask(close(channels, consumer))

    def publish(self, query: str, batch: int, parts: Sequence[StagedPart]) -> Published:
        """Make one attempt at each partition of a batch part of its channel, all or none.

        Raises:
            StagingError: something of it is not staged; nothing was published.
            PermitflowError: as ``positions``.
        """
        return self._ask(publish(query, batch, parts))

    def discard(self, query: str, batch: int, parts: Sequence[StagedPart]) -> Discarded:
        """Forget these attempts at a batch, unless they are published; attempts that are not named stay.

        Raises:
            PermitflowError: as ``positions``.
        """
        return self._ask(discard(query, batch, parts))

    def statistics(self, channels: Sequence[str] = ()) -> Statistics:
        """What has flowed through channels of any kind, in counts.

        Args:
            channels: names, in the order of the answer; none: all that the exchange has.

        Raises:
            UnknownChannelError: the exchange has no such channel.
            PermitflowError: as ``positions``.
        """
        return self._ask(statistics(channels))

    def _ask(self, order: Order[T]) -> T:
        if self._is_closed:
            raise ChannelClosedError(end="control stream")
        try:
            self._call.write(Outgoing([order.message]))
            return order.read(self._reply())
        except BaseException:
            # What comes later would be taken for the reply to something else.
            self.close()
            raise

    def _reply(self) -> Received:
        reply = receive_within(self._call, self._timeout_seconds)
        if reply is None:
            reason = f"no reply within {self._timeout_seconds:.3g} s"
            raise PeerTimeoutError(who=self._who, reason=f"{reason}; {SILENT}")
        if isinstance(reply, Closed):
            raise reply.error or PeerGoneError(who=self._who, reason="it closed the stream without a reply")
        return reply

    def __enter__(self) -> Self:
        """Close at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """End the stream.  Closing twice is harmless."""
        if not self._is_closed:
            self._is_closed = True
            self._call.close()


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen at one moment."""

    at_seconds: float
    """By the exchange's clock."""
    flows: list[Flow]
    """Of every channel, since the look before."""

    def as_json(self) -> dict[str, object]:
        """One object for a line of a file."""
        return {"at_seconds": self.at_seconds, "channels": [flow.as_json() for flow in self.flows]}


class TrafficWatch:
    """Watches channels of one exchange over one stream, which is dialled when it is needed.  For one thread."""

    def __init__(self, address: str, channels: Sequence[str] = (), *, timeout_seconds: float = 10.0) -> None:
        """Nothing is dialled yet.

        Args:
            address: of the exchange, as for ``control``.
            channels: names; none: all that there are.
            timeout_seconds: the longest wait for an answer.
        """
        self._address = address
        self._channels = tuple(channels)
        self._timeout_seconds = timeout_seconds
        self._control: BlockingControl | None = None
        self._before: Statistics | None = None

    def look(self) -> Look:
        """Ask now.  After an error, the next look dials again.

        Raises:
            InvalidParametersError: this is no address.
            UnknownChannelError: the exchange has no such channel.
            PermitflowError: nobody answers at this address, or not in time.
        """
        if self._control is None:
            self._control = BlockingControl(self._address, self._timeout_seconds)
        try:
            now = self._control.statistics(self._channels)
        except BaseException:
            self.close()
            raise
        before, self._before = self._before, now
        return Look(now.at_seconds, flows_between(before, now))

    def __enter__(self) -> Self:
        """Close at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """End the stream, if there is one."""
        control, self._control = self._control, None
        if control is not None:
            control.close()
