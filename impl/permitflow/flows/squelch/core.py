"""Squelch: a sender sends until it is told to stop, proved in spec/squelch/Squelch.tla.

An optimistic technique, as XON and XOFF of a serial line: nothing holds the sender back but the receiver's signals, and
what is in flight when a signal leaves arrives all the same.  The receiver must have places for it:

    capacity - high >= rate * (signal_delay + data_delay) + losses * repeat

This is safe while the rate and the delays are as agreed.  Nothing here measures them: a throttle at the sender
keeps the rate.  If they are not, the receiver says so with ``InboxOverflowError``, and keeps nothing beyond its places.

The ends have no clock.  While messages keep coming, the receiver repeats a signal to stop after every ``repeat`` of
them, so a lost one costs that many places.  Nothing follows a signal to go on, which prompts nobody: a carrier that may
lose it calls ``remind`` after a time-out.  permitflow's own carriers lose nothing.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from sys import maxsize
from typing import Any, ClassVar, NamedTuple, TypeVar

from permitflow.errors import InboxOverflowError, InvalidParametersError, LocalProtocolError, ParameterMismatchError
from permitflow.flows import seam
from permitflow.flows.messages import Kind
from permitflow.flows.recording import ActionTable, Recorder
from permitflow.flows.seam import (
    Flow,
    Inbound,
    MessageReceiver,
    MessageSender,
    Outbound,
    Urgency,
    Wishes,
    require_whole,
    stated_values,
)

T = TypeVar("T")

DEFAULT_HIGH = 1_024
DEFAULT_RATE = 1_024


@dataclass(frozen=True, kw_only=True, slots=True)
class SquelchParameters(seam.Parameters):
    """Parameters of a squelched channel: in messages, whatever their rows, and in ticks, any unit of time.

    Spec: High, Low, Capacity, Rate, SignalDelay, DataDelay, Repeat, Losses.

    Raises:
        InvalidParametersError: a number is out of its range, or there are too few places above ``high``.
    """

    high: int = DEFAULT_HIGH
    """The sender is told to stop once more messages than this are in the inbox."""
    low: int = -1
    """The sender is told to go on once no more messages than this are in the inbox.  -1: half of ``high``."""
    capacity: int = 0
    """Messages for which the receiver has places.  0: as many as are needed."""
    rate: int = DEFAULT_RATE
    """The most messages that leave in a tick; assumed, not enforced."""
    signal_delay: int = 1
    """The most ticks from the moment a signal is due until the sender hears it; assumed."""
    data_delay: int = 1
    """The most ticks in which a message is in flight; assumed."""
    repeat: int = 0
    """The sender is told to stop again after this many more messages.  0: once the first signal must have had its
    effect."""
    losses: int = 0
    """Signals to stop that may be lost."""

    def __post_init__(self) -> None:
        """Fill in the defaults, then refuse numbers that cannot work."""
        require_whole(self, _AT_LEAST)
        if self.low < 0:
            object.__setattr__(self, "low", self.high // 2)
        if self.repeat == 0:
            object.__setattr__(self, "repeat", max(1, self.round_trip))
        if self.capacity == 0:
            object.__setattr__(self, "capacity", self.high + self.headroom)
        if self.low > self.high:
            rule = f"must be at most high = {self.high}, else the sender is told to go on and to stop at once"
            raise InvalidParametersError(name="low", value=self.low, rule=rule)
        for name, least, needed, otherwise in (
            (
                "repeat",
                self.round_trip,
                "rate * (signal_delay + data_delay)",
                "signals are repeated that are only on their way",
            ),
            (
                "capacity",
                self.high + self.headroom,
                "high + rate * (signal_delay + data_delay) + losses * repeat",
                "the inbox overflows before the sender hears that it must stop",
            ),
        ):
            if getattr(self, name) < least:
                rule = f"must be at least {needed} = {least}, else {otherwise}"
                raise InvalidParametersError(name=name, value=getattr(self, name), rule=rule)

    @property
    def round_trip(self) -> int:
        """Messages that leave in the time in which a signal goes one way and a message the other."""
        return self.rate * (self.signal_delay + self.data_delay)

    @property
    def headroom(self) -> int:
        """Places above ``high`` that are needed."""
        return self.round_trip + self.losses * self.repeat


_AT_LEAST = {
    **{"high": 0, "low": -1, "capacity": 0, "rate": 1},
    **{"signal_delay": 0, "data_delay": 1, "repeat": 0, "losses": 0},
}


class Signal(NamedTuple):
    """What the receiver tells the sender."""

    stop: bool


SQUELCH_ACTIONS = ActionTable(
    "squelch",
    {
        "sender": dict.fromkeys(("Offer", "Withdraw", "Send", "ReceiveSignal"), ()),
        "receiver": dict.fromkeys(("Deliver", "Consume", "SendXoff", "SendXon", "ResendXon"), ()),
    },
    {"sender": ("heard_off",), "receiver": ("inbox_messages", "told_off", "since")},
)


class SquelchSender(MessageSender[T]):
    """Sends unless it was told to stop.

    Spec: the variables waiting and heard.
    """

    __slots__ = ("_is_stopped",)

    is_optimistic: ClassVar[bool] = True
    spends: ClassVar[int] = 0

    def __init__(self, parameters: SquelchParameters, *, record: Recorder | None = None) -> None:
        """It may send."""
        super().__init__(parameters, record=record)
        self._is_stopped = False

    @property
    def is_stopped(self) -> bool:
        """Was it told to stop, as far as it has heard?"""
        return self._is_stopped

    @property
    def room_rows(self) -> int:
        """About as many as leave in a tick."""
        return 0 if self._is_stopped else int(self.parameters.rate)

    @property
    def room_messages(self) -> int:
        """Any number, or none."""
        return 0 if self._is_stopped else maxsize

    def lack(self, kind: Kind, rows: Sequence[int] = ()) -> str:
        """The receiver has said so."""
        return f"the {kind.value} has to wait: the receiver has told the sender to stop"

    def on_feedback(self, feedback: Signal) -> None:
        """Stop, or go on.

        Spec: ReceiveSignal.
        """
        self._is_stopped = feedback.stop
        self._note("ReceiveSignal")

    def _send(self, rows: Sequence[int]) -> None:
        """Nothing is counted.

        Spec: Offer, Withdraw, Send.
        """

    def _counter(self) -> int:
        return int(self._is_stopped)


class SquelchReceiver(MessageReceiver[T]):
    """Tells the sender to stop when it has too much, and to go on when it has room again.

    Spec: the variables inbox, told and since.
    """

    __slots__ = (
        "_is_reminder_due",
        "has_told_off",
        "since",
    )

    def __init__(self, parameters: SquelchParameters, *, record: Recorder | None = None) -> None:
        """The sender may send."""
        super().__init__(parameters, record=record)
        self.has_told_off = self._is_reminder_due = False
        """Was the sender told to stop?"""
        self.since = 0
        """Messages that have come since then, less those for which it was told again."""

    @property
    def signal_due(self) -> Signal | None:
        """The signal that the sender must be told; None: it knows all.

        Spec: IsOffDue, IsOnDue.
        """
        of = self.parameters
        is_off_due = self.since >= of.repeat if self.has_told_off else self._here > of.high
        if is_off_due and self._here > of.low:
            return Signal(stop=True)
        if self._is_reminder_due or (self.has_told_off and self._here <= of.low):
            return Signal(stop=False)
        return None

    @property
    def urgency(self) -> int:
        """A signal leaves at once."""
        return Urgency.NONE if self.signal_due is None else Urgency.NOW

    def unsettled(self) -> bool:
        """Nothing is owed at the end of a stream."""
        return False

    def remind(self) -> None:
        """Tell the sender once more that it may go on: a carrier that may lose signals calls this after a time-out.

        Raises:
            LocalProtocolError: the sender was told to stop.
        """
        if self.has_told_off:
            raise LocalProtocolError("cannot remind the sender that it may go on: it was told to stop")
        self._is_reminder_due = True

    def take_feedback(self, *, residue: bool = True) -> Signal | None:
        """The signal that is due.

        Spec: SendXoff, SendXon, ResendXon.
        """
        signal = self.signal_due
        if signal is None:
            return None
        of = self.parameters
        if not signal.stop:
            action, since = "SendXon" if self.has_told_off else "ResendXon", 0
        elif self.has_told_off:
            action, since = "SendXoff", self.since - of.repeat
        else:
            action, since = "SendXoff", self._here - of.high - 1
        self.has_told_off, self._is_reminder_due, self.since = signal.stop, False, since
        if self._record is not None:
            self._record(action, (), self._counters())
        return signal

    def _accept(self, messages: int) -> None:
        """The guard, which the specification proves to be true, and the update.

        Spec: Deliver, Bounded.
        """
        of = self.parameters
        if self._here + messages > of.capacity:
            raise InboxOverflowError(
                came=messages,
                held=self._here,
                places=of.capacity,
                rate=of.rate,
                delay=of.signal_delay + of.data_delay,
                losses=of.losses,
            )
        if self.has_told_off:
            self.since += messages

    def _consume_messages(self, messages: int) -> None:
        """Nothing is counted but the messages.

        Spec: Consume.
        """

    def _counters(self) -> tuple[int, ...]:
        return self._here, int(self.has_told_off), self.since

    def _counters_after(self, action: str, before: tuple[int, ...]) -> tuple[int, ...]:
        here, told_off, since = before
        return (here + 1, told_off, since + told_off) if action == "Deliver" else (here - 1, told_off, since)


class SquelchFlow(Flow):
    """The flow of ``SquelchParameters``: both ends assume the worse of the two, and the smaller capacity."""

    feedback: ClassVar[type[tuple[Any, ...]]] = Signal
    table: ClassVar[ActionTable] = SQUELCH_ACTIONS
    assumed: ClassVar[Collection[str]] = ("rate", "signal_delay", "data_delay", "repeat", "losses")
    outbound: ClassVar[type[Outbound[Any]]] = SquelchSender
    inbound: ClassVar[type[Inbound[Any]]] = SquelchReceiver

    @property
    def wire(self) -> Any:
        """Its messages in protobuf."""
        from permitflow.wire.v1 import squelch_pb2

        return squelch_pb2

    def agree(self, own: SquelchParameters, wanted: Wishes) -> SquelchParameters:
        """The larger rate, delays and losses, and the smaller capacity; the watermarks follow.

        Raises:
            InvalidParametersError: the wishes cannot work at all.
            ParameterMismatchError: the smaller capacity is too small for the larger rate and delays.
        """
        if not (stated := stated_values(wanted)):
            return own
        ours, theirs = self.state(own), self.state(own)._replace(**stated)
        require_whole(theirs, _AT_LEAST)
        if wanted.low is not None and wanted.high is not None and wanted.low > wanted.high:
            raise InvalidParametersError(name="low", value=wanted.low, rule=f"must be at most high = {wanted.high}")
        both = {
            name: (max if name in self.assumed else min)(getattr(ours, name), getattr(theirs, name))
            for name in ours._fields
        }
        trip = both["rate"] * (both["signal_delay"] + both["data_delay"])
        both["repeat"] = max(both["repeat"], trip)
        needed = trip + both["losses"] * both["repeat"]
        if both["capacity"] < needed:
            rule = f"must be at least rate * (signal_delay + data_delay) + losses * repeat = {needed}"
            raise ParameterMismatchError(name="capacity", ours=own.capacity, theirs=wanted.capacity, rule=rule)
        both["high"] = min(both["high"], both["capacity"] - needed)
        both["low"] = min(both["low"], both["high"])
        return SquelchParameters(**both)


SQUELCH = SquelchFlow()
seam.register(SQUELCH, SquelchParameters)
