"""One direction over a network that loses, doubles and reorders what it carries: LossyChannel; no I/O.

    LinkSender    send, due ──── number, payload ───> arrive    LinkReceiver
                       hear <─── LinkFeedback ──────  feedback

Data are numbered from 0.  The receiver tells which have arrived, and up to which number the sender may send: what the
application has taken, and a window.  Both numbers only grow, and the largest that was heard counts; so feedback may get
lost, come twice, or come late.  What may be lost is sent again: data without an acknowledgement, and feedback.

Each end belongs to one connection, by its epoch: what another connection has left in the network is dropped.

Neither end has a clock: the caller says what time it is, in seconds of any clock that never goes back.  ``deadline``
says when the caller has to come back though nothing has arrived.

Data behind a gap are kept until the gap is filled; there is a place for each number below the limit.  The model has no
such room: there, those that are kept are still in the network.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from permitflow.carriers.datagrams.round_trip import RoundTrip
from permitflow.carriers.kept import Kept
from permitflow.errors import FalsePositionError, OverspendError, PermitOverrunError, WouldBlock

P = TypeVar("P")

HOLD_SECONDS = 0.005
"""Feedback waits this long for more to tell."""

ARRIVALS = 2
"""Feedback leaves at once after this many arrivals (RFC 9000, 13.2.2)."""

OVERTAKEN = 3
"""Something is lost when this many transmissions later another one has arrived (RFC 9002, 6.1.1).

Both it and the time after which something counts as lost grow when something arrives that was taken for lost.
"""

MOST_RANGES = 32
"""Ranges in one feedback; the lowest ones, because delivery waits for the oldest gap."""

FIRST_REMINDER_SECONDS = 0.025
"""The last feedback is sent again after this long without news; then after twice as long, and so on."""


class LinkFeedback(NamedTuple):
    """What the receiver tells."""

    epoch: int
    acknowledged: int
    """All data below this number have arrived."""
    limit: int
    """Data below this number may be sent."""
    beyond: tuple[tuple[int, int], ...] = ()
    """Ranges of numbers that have arrived behind a gap, each with its first and the one behind its last, ascending.

    Only a hint, by which the sender chooses what to send again; it keeps all of them.
    """


class _Transmission(NamedTuple):
    order: int
    """How many transmissions were made before it, first ones and repeated ones."""
    at_seconds: float
    is_first: bool


class LinkSender(Generic[P]):
    """The sender's end of a direction.

    Spec: the variables sent, acked and limit of LossyChannel.
    """

    def __init__(self, *, epoch: int, window: int) -> None:
        """Nothing was sent yet.

        Args:
            epoch: of the connection.
            window: data that the receiver has places for, as the two ends have agreed.
        """
        self._epoch = epoch
        self._window = window
        self._limit = window
        self._kept: Kept[P] = Kept()
        self.round_trip = RoundTrip()
        self._transmissions = 0
        # All that is kept, but for what has arrived behind a gap: the last transmission of each, in their order, or
        # that it is lost.
        self._under_way: dict[int, _Transmission] = {}
        self._lost: dict[int, None] = {}
        self._reached = 0
        """The order of the latest transmission that has arrived."""
        self._tolerance = 1
        self._beyond: dict[int, int] = {}
        """The ranges that were heard last."""
        self._horizon = 0
        """Whether numbers from here on have arrived, the ranges do not tell."""
        self._since_seconds = 0.0
        """When the time-out began."""
        self.retransmitted = 0
        """Copies that were sent again."""
        self.timeouts = 0

    @property
    def sent(self) -> int:
        """The number of the next data."""
        return self._kept.end

    @property
    def acknowledged(self) -> int:
        """All data below this number have arrived, as far as the sender knows."""
        return self._kept.start

    @property
    def limit(self) -> int:
        """Data below this number may be sent."""
        return self._limit

    @property
    def can_send(self) -> bool:
        """May the next number leave?"""
        return self._kept.end < self._limit

    @property
    def is_settled(self) -> bool:
        """Has everything arrived that was sent?"""
        return not len(self._kept)

    @property
    def unacknowledged(self) -> int:
        """The data that are kept, because they may have to be sent again."""
        return len(self._kept)

    @property
    def size_bytes(self) -> int:
        """The bytes of the data that are kept."""
        return self._kept.size_bytes

    def send(self, payload: P, size_bytes: int, now: float) -> int:
        """The next number leaves; return it.

        Spec: Send.

        Raises:
            WouldBlock: the receiver has told of no more places.
        """
        if not self.can_send:
            raise WouldBlock(f"the receiver has places for {self._limit} data, and {self.sent} were sent")
        if self.is_settled:
            self._since_seconds = now
        number = self._kept.keep(payload, size_bytes)
        self._under_way[number] = _Transmission(self._transmissions, now, is_first=True)
        self._transmissions += 1
        return number

    def retransmit(self, number: int, now: float) -> P:
        """A number that is not acknowledged leaves again.

        Spec: Retransmit.

        Raises:
            WouldBlock: it is acknowledged, or was never sent.
        """
        if not self._kept.start <= number < self._kept.end:
            raise WouldBlock(f"number {number} is not kept: {self.acknowledged} are acknowledged, {self.sent} sent")
        self._lost.pop(number, None)
        self._under_way.pop(number, None)  # it goes to the end of the order
        self._under_way[number] = _Transmission(self._transmissions, now, is_first=False)
        self._transmissions += 1
        self.retransmitted += 1
        return self._kept[number]

    def hear(self, feedback: LinkFeedback, now: float) -> bool:
        """Feedback arrives; return whether it tells anything: otherwise it is late, or has come twice.

        Spec: Hear, Ignore.

        Raises:
            FalsePositionError: the peer acknowledges what was not sent.
            PermitOverrunError: it tells of more places than a window.
        """
        epoch, acknowledged, limit, beyond = feedback
        if epoch != self._epoch:
            return False
        before = self._kept.start
        self._require_true(feedback)
        self._kept.acknowledge(acknowledged)
        is_news = acknowledged > before or limit > self._limit
        self._limit = max(self._limit, limit)
        if acknowledged > before:
            self._since_seconds = now
        self._note_arrived(range(before, acknowledged), now)
        for first, end in beyond:
            self._note_arrived(range(self._beyond.get(first, first), end), now)
        self._beyond = dict(beyond)
        self._horizon = beyond[-1][1] if len(beyond) >= MOST_RANGES else self._kept.end
        self._find_lost(now)
        return is_news

    def _require_true(self, feedback: LinkFeedback) -> None:
        """Otherwise a wrong peer could let this end keep anything, or look for anything."""
        if feedback.limit > feedback.acknowledged + self._window:
            raise PermitOverrunError(
                permit_class="messages", returned=feedback.limit, outstanding=feedback.acknowledged + self._window
            )
        behind = feedback.acknowledged
        for first, end in feedback.beyond:
            if not behind < first < end <= self._kept.end:
                raise FalsePositionError(position=end, first=behind, end=self._kept.end)
            behind = end

    def _note_arrived(self, numbers: range, now: float) -> None:
        """These have arrived: they count as lost no more, and those sent long before them do."""
        latest: _Transmission | None = None
        for number in numbers:
            last = self._under_way.pop(number, None)
            if last is None:
                if number in self._lost:
                    del self._lost[number]
                    self._tolerate_more()
            elif last.is_first:
                self._reached = max(self._reached, last.order)
                latest = last
            elif 2 * (now - last.at_seconds) >= self.round_trip.least_seconds:
                self._reached = max(self._reached, last.order)
            else:
                # Too soon for the copy that was sent last (RFC 8985, 6.2): an earlier one was late, and not lost.
                self._tolerate_more()
        if latest is not None:
            self.round_trip.note(now - latest.at_seconds)

    def _tolerate_more(self) -> None:
        """Something has arrived that was taken for lost."""
        self._tolerance = min(2 * self._tolerance, self._window)

    def _find_lost(self, now: float) -> None:
        """What later transmissions have overtaken, by their number or for too long, is lost."""
        late_seconds = self.round_trip.late_seconds(self._tolerance)
        lost = list[int]()
        for number, (order, at_seconds, _) in self._overtaken():
            if order + OVERTAKEN * self._tolerance > self._reached and now < at_seconds + late_seconds:
                break
            lost.append(number)
        for number in lost:
            del self._under_way[number]
            self._lost[number] = None

    def _overtaken(self) -> Iterator[tuple[int, _Transmission]]:
        """What a later transmission has overtaken, as far as feedback has ranges to tell; the oldest first."""
        for number, last in self._under_way.items():
            if last.order >= self._reached:
                break
            if number < self._horizon:
                yield number, last

    def due(self, now: float) -> list[tuple[int, P]]:
        """The copies that have to leave now: of numbers that are lost, or else, after the time-out, of the oldest one.

        They count as sent.
        """
        self._find_lost(now)
        if self._lost:
            self._since_seconds = now
            return [(number, self.retransmit(number, now)) for number in [*self._lost]]
        if self.is_settled or now < self._since_seconds + self.round_trip.timeout_seconds:
            return []
        self.timeouts += 1
        self.round_trip.back_off()
        self._since_seconds = now
        oldest = self.acknowledged
        return [(oldest, self.retransmit(oldest, now))]

    @property
    def deadline(self) -> float | None:
        """When ``due`` has to be called, if nothing is heard before; None: everything has arrived."""
        if self.is_settled:
            return None
        timeout = self._since_seconds + self.round_trip.timeout_seconds
        if self._lost:
            return self._since_seconds
        for _, oldest in self._overtaken():
            return min(timeout, oldest.at_seconds + self.round_trip.late_seconds(self._tolerance))
        return timeout


class _Ranges:
    """A set of numbers, as ranges: each a first number, and the one behind its last."""

    __slots__ = ("_ends", "_firsts")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._ends: list[int] = []

    def add(self, number: int) -> None:
        """Add a number that is not there."""
        place = bisect_right(self._firsts, number)
        extends = place > 0 and self._ends[place - 1] == number
        meets = place < len(self._firsts) and self._firsts[place] == number + 1
        if extends and meets:
            self._ends[place - 1] = self._ends.pop(place)
            del self._firsts[place]
        elif extends:
            self._ends[place - 1] = number + 1
        elif meets:
            self._firsts[place] = number
        else:
            self._firsts.insert(place, number)
            self._ends.insert(place, number + 1)

    def take_from(self, number: int) -> range:
        """Remove the numbers from this one to the next gap, if it is the lowest."""
        if not self._firsts or self._firsts[0] != number:
            return range(number, number)
        return range(self._firsts.pop(0), self._ends.pop(0))

    def lowest(self, most: int) -> tuple[tuple[int, int], ...]:
        """The lowest ranges, at most this many."""
        return tuple(zip(self._firsts[:most], self._ends[:most], strict=True))


class LinkReceiver(Generic[P]):
    """The receiver's end of a direction.

    Spec: the variables received, inbox, consumed and due of LossyChannel.
    """

    def __init__(self, *, epoch: int, window: int, now: float, remind_seconds: float) -> None:
        """Nothing has come yet, and the sender knows that it may send a window.

        Args:
            epoch: of the connection.
            window: data that there are places for.
            now: the time.
            remind_seconds: the longest time between two feedbacks.
        """
        self._epoch = epoch
        self._window = window
        self._received = self._consumed = 0
        self._inbox: deque[P] = deque()
        self._early: dict[int, P] = {}
        self._early_ranges = _Ranges()
        self._told = LinkFeedback(epoch, 0, window)
        self._told_seconds = now
        self._owed_seconds: float | None = None
        """When feedback has to leave; None: there is nothing to tell."""
        self._arrivals = 0
        self._remind_seconds = remind_seconds
        self._reminder_seconds = min(FIRST_REMINDER_SECONDS, remind_seconds)
        self.refused = 0
        """Data that have come twice."""

    @property
    def received(self) -> int:
        """The number that is due."""
        return self._received

    @property
    def consumed(self) -> int:
        """The data that were taken."""
        return self._consumed

    @property
    def inbox(self) -> Sequence[P]:
        """What has come and was not taken yet, in order."""
        return self._inbox

    @property
    def early(self) -> Iterator[int]:
        """The numbers that are kept, because they have come behind a gap."""
        return iter(self._early)

    @property
    def has_gap(self) -> bool:
        """Is there anything behind a gap, of which feedback tells by its ranges?"""
        return bool(self._early)

    @property
    def owes(self) -> bool:
        """Is there something to tell?"""
        return self._owed_seconds is not None

    def arrive(self, epoch: int, number: int, payload: P, now: float) -> bool:
        """Data arrive; return whether there is something new to take.

        Spec: Deliver, for the number that is due and those behind it that were kept; Refuse.

        Raises:
            OverspendError: the sender has gone beyond its limit.
        """
        if epoch != self._epoch:
            return False
        if number >= self._told.limit:
            raise OverspendError(permit_class="messages", cost=number + 1, available=self._told.limit)
        if number != self._received:
            self._owe(now)
            if number < self._received or number in self._early:
                self.refused += 1
            else:
                self._early[number] = payload
                self._early_ranges.add(number)
            return False
        self._inbox.append(payload)
        self._received += 1
        self._arrivals += 1
        is_urgent = bool(self._early) or self._arrivals >= ARRIVALS
        for kept in self._early_ranges.take_from(self._received):
            self._inbox.append(self._early.pop(kept))
            self._received += 1
        self._owe(now if is_urgent else now + HOLD_SECONDS)
        return True

    def take(self, now: float) -> P:
        """The application takes the oldest.

        Spec: Consume.

        Raises:
            WouldBlock: nothing is here.
        """
        if not self._inbox:
            raise WouldBlock("nothing has come that was not taken")
        self._consumed += 1
        grants = self._consumed + self._window - self._told.limit
        self._owe(now if 2 * grants >= self._window else now + HOLD_SECONDS)
        return self._inbox.popleft()

    def _owe(self, at_seconds: float) -> None:
        if self._owed_seconds is None or at_seconds < self._owed_seconds:
            self._owed_seconds = at_seconds

    def remind(self, now: float) -> None:
        """The last feedback may be lost: there is something to tell.

        Spec: Remind.
        """
        self._owe(now)

    def feedback(self, now: float) -> LinkFeedback:
        """What to tell now, whether it is owed or only a reminder; it counts as told.

        Spec: Acknowledge, after Remind if nothing is owed.
        """
        told = LinkFeedback(
            self._epoch, self._received, self._consumed + self._window, self._early_ranges.lowest(MOST_RANGES)
        )
        if told != self._told:
            self._told = told
            self._reminder_seconds = min(FIRST_REMINDER_SECONDS, self._remind_seconds)
        elif now >= self._told_seconds + self._reminder_seconds:
            self._reminder_seconds = min(2 * self._reminder_seconds, self._remind_seconds)
        self._told_seconds = now
        self._owed_seconds = None
        self._arrivals = 0
        return told

    @property
    def deadline(self) -> float:
        """When ``feedback`` has to leave: what is owed, or a reminder."""
        if self._owed_seconds is not None:
            return self._owed_seconds
        return self._told_seconds + self._reminder_seconds
