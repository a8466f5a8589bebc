"""Squelch: recorded runs as behaviours of ``Squelch``, and its two ends beside the model."""

from collections import deque

from permitflow.flows.recording import RecorderFactory
from permitflow.flows.squelch.core import SQUELCH, SquelchParameters
from permitflow.tracing.reader import RecordedChannel
from permitflow_model.kernel.queue import Fifo
from permitflow_model.squelch import SYSTEM, Parameters, Signal, State
from permitflow_testing.core_pair import NumberedPair
from permitflow_testing.moves import ActionRefused
from permitflow_testing.subjects import UNLIMITED, Subject, step_by_step


def model_parameters(parameters: SquelchParameters, waiters: int, *, reminders: bool = False) -> Parameters:
    """The specification's constants for a channel's parameters."""
    return Parameters(waiters=waiters, reminders=reminders, **SQUELCH.stated(parameters))  # type: ignore[arg-type]  # they are numbers


class SquelchPair(NumberedPair):
    """The ends of a squelched channel, in a world with a clock and a throttle, which the ends do not have.

    The world keeps the rate and both delays, and loses signals: as in the specification, nothing is sent while
    something is late, and time passes when the receiver has told what is due.
    """

    def __init__(self, parameters: SquelchParameters, *, tags: int = 1, record: RecorderFactory | None = None) -> None:
        """Nothing has been offered, and no time has passed."""
        super().__init__(parameters, tags=tags, record=record)
        self._of = parameters
        self._now = self._lost = 0
        # The tick in which each of the signals in flight was told, and the messages sent in each of the last ticks.
        self._told_at: deque[int] = deque()
        self._gaps: deque[int] = deque()
        self._lately: deque[int] = deque()
        self._sent = 0

    def tick(self) -> None:
        """Time passes."""
        if self._is_late or self.receiver.haste:
            raise ActionRefused("something is late, or due")
        self._lately.append(self._sent)
        if len(self._lately) >= self._of.data_delay:
            self._lately.popleft()
        self._sent = 0
        self._now += 1

    def lose_signal(self) -> None:
        """A signal is lost."""
        if not self.feedback or self._lost == self._of.losses:
            raise ActionRefused("no signal is in flight, or enough were lost")
        self._lost += 1
        for signals in (self.feedback, self._told_at, self._gaps):
            signals.popleft()

    def send(self) -> None:
        """Send the oldest message, if the throttle lets it pass."""
        if self._sent == self._of.rate or self._is_late:
            raise ActionRefused("the rate is kept, or something is late")
        self.leave()
        self._sent += 1

    def consume(self) -> None:
        """Consume the oldest message; what it makes due is told later."""
        self.take()
        self.receiver.consume_many(1)
        self._due.popleft()
        self._consumed += 1

    def send_xoff(self) -> None:
        """Tell the sender to stop."""
        self._tell(stop=True)

    def send_xon(self) -> None:
        """Tell the sender to go on, because the inbox has become small."""
        if not self.receiver.has_told_off:
            raise ActionRefused("the sender was told to go on")
        self._tell(stop=False)

    def resend_xon(self) -> None:
        """Tell the sender again to go on, after a time-out."""
        if self.receiver.has_told_off or self.wire or self.feedback or not self.sender.is_stopped:
            raise ActionRefused("the sender was told to stop, or knows that it may go on, or something is in flight")
        if self.receiver.signal_due is not None:
            raise ActionRefused("another signal is due")
        self.receiver.remind()
        self._tell(stop=False)

    def receive_signal(self) -> None:
        """Deliver the oldest signal."""
        self.answer()
        self._told_at.popleft()
        self._gaps.popleft()

    def _tell(self, *, stop: bool) -> None:
        if self.receiver.signal_due != (stop,):
            raise ActionRefused("this signal is not due")
        self.feedback.append(self.receiver.take_feedback())
        self._gaps.append(self._age)
        self._told_at.append(self._now)

    @property
    def _age(self) -> int:
        return self._now - self._told_at[-1] if self._told_at else 0

    @property
    def _is_late(self) -> bool:
        if len(self.wire) > sum(self._lately) + self._sent:
            return True
        if self._told_at and self._now - self._told_at[0] >= self._of.signal_delay:
            return True
        return bool(self._of.signal_delay == 0 and self.receiver.haste)

    def observe(self) -> State:
        """The state of both ends and of the wires, in the specification's terms."""
        inbox, wire, waiting = self.numbered()
        return State(
            waiting=len(waiting),
            heard=int(self.sender.is_stopped),
            sent=self._sent,
            recent=Fifo(self._lately),
            wire=len(wire),
            inbox=len(inbox),
            told=int(self.receiver.has_told_off),
            since=self.receiver.since,
            signals=Fifo([Signal(int(one.stop), gap) for one, gap in zip(self.feedback, self._gaps, strict=True)]),
            age=self._age,
            lost=self._lost,
        )


def _in_flight(state: State) -> dict[str, int]:
    return {"in_flight": state.wire, "inbox": state.inbox}


def _untimed(channel: RecordedChannel) -> Parameters:
    """Recordings tell no time: everything may happen within one tick."""
    agreed = SquelchParameters(**channel.parameters)  # type: ignore[arg-type]  # it looks at the types itself
    stated = {**SQUELCH.stated(agreed), "rate": UNLIMITED, "signal_delay": UNLIMITED}
    return Parameters(waiters=UNLIMITED, reminders=True, **stated)  # type: ignore[arg-type]  # they are numbers


SUBJECT = Subject(
    table=SQUELCH.table,
    system=SYSTEM,
    parameters=_untimed,
    explanation=step_by_step(SYSTEM),
    amount_of=lambda _: 1,
    consumes={"sender": "Send", "receiver": "Consume"},
    places=_in_flight,
    place_in_words={"in_flight": "in flight", "inbox": "in the inbox"},
    waiting=lambda state: [0] * state.waiting,
    # It holds while the rate and both delays are as assumed, which a recording without time does not show.
    at_risk=("Bounded",),
)
