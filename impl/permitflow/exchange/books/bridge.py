"""Who may put into a channel that is read once, who may read it, and what becomes of its messages?  Decisions; no I/O.

docs/protocols/bridge.md says what follows.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Generic, Protocol, TypeAlias, TypeVar

from permitflow.errors import (
    ChannelAbortedError,
    ChannelBusyError,
    ChannelCancelledError,
    ChannelClosedError,
    ChannelError,
    ChannelRemovedError,
    ChannelResetError,
    ChannelSpentError,
    PeerGoneError,
)
from permitflow.stream.frames import EndOutcome


class BridgeState(StrEnum):
    """The states of a channel."""

    WAITING = "waiting"
    """Its schema is not known yet: it has had no producer."""
    OPEN = "open"
    """Producers may put."""
    ENDED = "ended"
    """Its producers have ended it; a consumer has not reached the end yet."""
    SPENT = "spent"
    """It was read to its end, or, if it keeps its rows, every consumer has acknowledged them all."""
    BROKEN = "broken"
    """A producer or the consumer left it before the end."""


class _Peer(Protocol):
    peer: str


C = TypeVar("C", bound=_Peer)

Retired: TypeAlias = Callable[..., ChannelRemovedError | ChannelResetError]
"""Makes the error of a channel whose name another one has, or none; its argument is ``channel``."""

_OVER = (BridgeState.SPENT, BridgeState.BROKEN)


class BridgeBooks(Generic[C]):
    """The life of a channel that is read once: its end, and its consumer, one at a time.

    Spec: Claim, EndChannel, AnswerEnd, Spend, HearCancel, GiveUpConsumer, Purge, Reset of Bridge.
    """

    def __init__(self, name: str) -> None:
        """The channel is open, and has no consumer; ``name`` is for errors."""
        self._name = name
        self.state = BridgeState.OPEN
        """Never ``WAITING``: that is about the schema."""
        self.reason = ""
        """Why it is not open, in words."""
        self.consumer: C | None = None
        """The one that is there."""
        self.is_cancelled = False
        """Has a consumer said that it needs no more?"""
        self._loss: PeerGoneError | None = None
        """Of a consumer that has left halfway."""
        self._retired: Retired | None = None
        self._purged_messages = 0

    @property
    def is_over(self) -> bool:
        """Does no message reach a consumer any more?"""
        return self.state in _OVER

    @property
    def has_lost_consumer(self) -> bool:
        """Has a consumer left halfway?"""
        return self._loss is not None

    @property
    def is_retired(self) -> bool:
        """Has the name another channel, or none?"""
        return self._retired is not None

    def require_producible(self) -> None:
        """Refuse a producer that is too late.

        Raises:
            ChannelError: the channel is broken, or its consumer needs no more; the type tells why.
            ChannelSpentError: the channel was used before.
        """
        if self.state in (BridgeState.ENDED, BridgeState.SPENT) and not self.is_cancelled:
            raise ChannelSpentError(channel=self._name, reason=self.reason)
        if self.state is not BridgeState.OPEN:
            raise self.refusal("; permitflow channel reset makes the channel usable again")

    def refusal(self, what_helps: str = "") -> ChannelError:
        """The error for a producer of a channel that is over; with what helps a new one, if it is broken."""
        if self._retired is not None:
            return self._retired(channel=self._name)
        if self._loss is not None:
            return PeerGoneError(who=self._loss.who, reason=self._loss.reason + what_helps)
        if self.is_cancelled:
            return ChannelCancelledError(channel=self._name, reason=self.reason)
        if self.state is BridgeState.BROKEN:
            return ChannelAbortedError(channel=self._name, reason=self.reason + what_helps)
        why = "a producer has ended the channel: where several put, each but the last leaves it open"
        return ChannelClosedError(end=f"sender of channel {self._name!r} ({why})")

    # Each of these says whether it has changed the state.

    def end(self, by: str) -> bool:
        """End the channel, which is open: its consumer will read what is in it, and then the end."""
        if self.state is not BridgeState.OPEN:
            return False
        self.state, self.reason = BridgeState.ENDED, f"it was ended by {by}"
        return True

    def break_off(self, reason: str) -> bool:
        """Break the channel, unless it is over: what is in it is incomplete."""
        if self.is_over:
            return False
        self.state, self.reason = BridgeState.BROKEN, reason
        return True

    def cancel(self, reason: str) -> bool:
        """Spend the channel, unless it is over: its consumer, which leaves, needs no more."""
        self.consumer = None
        if self.is_over:
            return False
        self.is_cancelled = True
        self.state, self.reason = BridgeState.SPENT, reason
        return True

    def lose_consumer(self, reason: str, *, has_taken: bool) -> bool:
        """Let the consumer go, which is lost; break the channel, unless it is over, if messages are lost with it.

        Args:
            reason: in words.
            has_taken: has it taken messages?  If not, another one may come.
        """
        peer = "" if self.consumer is None else self.consumer.peer
        self.consumer = None
        if not has_taken or not self.break_off(f"its consumer left halfway: {reason}"):
            return False
        who = f"the consumer of channel {self._name!r} at {peer}"
        self._loss = PeerGoneError(who=who, reason=f"it left halfway: {reason}")
        return True

    def spend(self) -> None:
        """Let the consumer go, which has read the whole channel; if it broke meanwhile, it stays broken."""
        if not self.is_over:
            self.reason = f"it was read to its end by {self.consumer.peer if self.consumer else 'nobody'}"
            self.state = BridgeState.SPENT
        self.consumer = None

    def retire(self, error: Retired) -> None:
        """Refuse all that come from now on with this error; the caller breaks the channel."""
        self._retired = error

    # The consumer.

    def claim(self, consumer: C) -> None:
        """Make this consumer the channel's consumer.

        Raises:
            ChannelError: the channel was removed or reset.
            ChannelBusyError: the channel has a consumer.
            ChannelSpentError: the channel had a consumer, and its data are gone.
        """
        if self._retired is not None:
            raise self.refusal()
        if self.state is BridgeState.SPENT or self._loss is not None:
            raise ChannelSpentError(channel=self._name, reason=self.reason)
        if self.consumer is not None:
            raise ChannelBusyError(channel=self._name, consumer=self.consumer.peer)
        self.consumer = consumer

    def release(self) -> None:
        """Let the consumer go: it was told that the channel is broken."""
        self.consumer = None

    # What became of the messages.

    def purge(self, messages: int) -> None:
        """This many messages were dropped; nobody consumes them."""
        self._purged_messages += messages

    def last_message(self, unconsumed: int, passed_on: int) -> int:
        """The number of the last message that is in the channel now: numbers of one consumer.

        Args:
            unconsumed: messages in the channel.
            passed_on: messages that have left for the consumer.
        """
        return unconsumed + passed_on + self._purged_messages

    def has_left(self, number: int, passed_on: int) -> bool:
        """Has the message of that number left for the consumer, or was it purged?"""
        return passed_on + self._purged_messages >= number

    def awaited(self, until: EndOutcome | None) -> C | None:
        """The consumer for which the answer to an End waits that comes now.

        Args:
            until: ``ACCEPTED`` waits for none.
        """
        return None if until is EndOutcome.ACCEPTED else self.consumer

    def outcome(self, *, has_consumed_all: bool, has_cancelled: bool) -> EndOutcome:
        """The answer to an End, once nothing more is waited for.

        Args:
            has_consumed_all: has the awaited consumer consumed what was in the channel?
            has_cancelled: has it said that it needs no more, though its stream is not over yet?

        Raises:
            ChannelError: the channel is broken.
        """
        if self.state is BridgeState.BROKEN:
            raise self.refusal()
        if self.is_cancelled or has_cancelled:
            return EndOutcome.CANCELLED
        # Nobody has consumed what was purged.
        is_consumed = (has_consumed_all or self.state is BridgeState.SPENT) and not self._purged_messages
        return EndOutcome.CONSUMED if is_consumed else EndOutcome.ACCEPTED
