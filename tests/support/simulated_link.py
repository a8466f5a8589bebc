"""A link in simulated time: the ends of production, between them a network that loses, doubles, delays and reorders."""

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from random import Random

from permitflow.carriers.datagrams.link import LinkFeedback, LinkReceiver, LinkSender

EPOCH = 7


@dataclass(frozen=True, kw_only=True)
class Weather:
    """What the network does to each copy, in both directions."""

    loses: float = 0.0
    """The share that it loses."""
    doubles: float = 0.0
    delay_seconds: float = 0.001
    jitter_seconds: float = 0.0
    """At most so much longer: then later ones overtake it."""


@dataclass
class SimulatedLink:
    """Sends numbers from 0, and takes them at once."""

    weather: Weather
    total: int
    window: int = 20
    seed: int = 0
    send_seconds: float = 0.0
    """From one datagram to the next: the speed of the sender."""
    is_up: Callable[[float], bool] = lambda now: True
    """Does the network carry anything at this time?"""
    consumed: list[int] = field(default_factory=list)
    now: float = 0.0
    datagrams: int = 0
    feedbacks: int = 0

    def __post_init__(self) -> None:
        self.sender: LinkSender[int] = LinkSender(epoch=EPOCH, window=self.window)
        self.receiver: LinkReceiver[int] = LinkReceiver(epoch=EPOCH, window=self.window, now=0.0, remind_seconds=1.0)
        self._random = Random(f"datagrams {self.seed}")
        self._order = count()
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._copies: list[tuple[int, int]] = []
        self._sends_at = 0.0

    def run(self, seconds: float = 3600.0) -> "SimulatedLink":
        """Go on until everything is taken and acknowledged, or until this time."""
        while not (self.sender.acknowledged == self.total == self.receiver.consumed):
            self._turn()
            events = [self.receiver.deadline, *([] if (due := self.sender.deadline) is None else [due])]
            if self._copies or self._has_more:
                events.append(self._sends_at)
            if self._events:
                events.append(self._events[0][0])
            self.now = max(self.now, min(events))
            if self.now > seconds:
                break
        return self

    @property
    def _has_more(self) -> bool:
        return self.sender.sent < self.total and self.sender.can_send

    def _turn(self) -> None:
        while self._events and self._events[0][0] <= self.now:
            heappop(self._events)[2]()
        while self.receiver.inbox:
            self.consumed.append(self.receiver.take(self.now))
        if self.receiver.deadline <= self.now:
            self._tell(self.receiver.feedback(self.now))
        self._copies.extend(self.sender.due(self.now))
        while self._sends_at <= self.now and (self._copies or self._has_more):
            if self._copies:
                number, payload = self._copies.pop(0)
            else:
                number = payload = self.sender.sent
                self.sender.send(payload, 1, self.now)
            self._sends_at = max(self._sends_at, self.now - self.send_seconds) + self.send_seconds
            self._carry_data(number, payload)

    def _carry_data(self, number: int, payload: int) -> None:
        self.datagrams += 1
        self._carry(lambda: self.receiver.arrive(EPOCH, number, payload, self.now))

    def _tell(self, feedback: LinkFeedback) -> None:
        self.feedbacks += 1
        self._carry(lambda: self.sender.hear(feedback, self.now))

    def _carry(self, arrive: Callable[[], object]) -> None:
        for _ in range(1 + (self._random.random() < self.weather.doubles)):
            if self._random.random() < self.weather.loses or not self.is_up(self.now):
                continue
            delay = self.weather.delay_seconds + self._random.random() * self.weather.jitter_seconds
            heappush(self._events, (self.now + delay, next(self._order), arrive))
