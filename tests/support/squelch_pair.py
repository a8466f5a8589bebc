"""The two ends of a squelched channel beside the model."""

from permitflow.flows.recording import RecorderFactory
from permitflow.flows.squelch.core import SQUELCH, SquelchParameters
from permitflow_model.kernel.guards import false_guard
from permitflow_model.kernel.queue import Fifo
from permitflow_model.kernel.system import Disabled
from permitflow_model.squelch import ON, SYSTEM, Parameters, Signal, State, told_now, without_oldest
from permitflow_testing.core_pair import NumberedPair
from permitflow_testing.moves import ActionRefused
from permitflow_testing.subjects import UNLIMITED


def model_parameters(parameters: SquelchParameters, waiters: int, *, reminders: bool = False) -> Parameters:
    """The specification's constants for a channel's parameters."""
    return Parameters(waiters=waiters, reminders=reminders, **SQUELCH.stated(parameters))  # type: ignore[arg-type]  # they are numbers


class SquelchPair(NumberedPair):
    """The ends of a squelched channel, in the model's world: its clock, its throttle and its losses.

    The ends have none of these.  So the model says what the world lets happen, and what becomes of it; what an end does
    is the end's own decision.
    """

    def __init__(self, parameters: SquelchParameters, *, tags: int = 1, record: RecorderFactory | None = None) -> None:
        """Nothing has been offered, and no time has passed."""
        super().__init__(parameters, tags=tags, record=record)
        self._constants = model_parameters(parameters, UNLIMITED, reminders=True)
        self._world = SYSTEM.initial(self._constants)
        """The model's state after the last step.  Only what the ends do not have is read: what was sent in the last
        ticks, the gaps between signals, and how many were lost."""

    def tick(self) -> None:
        """Time passes."""
        self._world = self._let("Tick", self.observe())

    def lose_signal(self) -> None:
        """A signal is lost."""
        self._world = self._let("LoseSignal", self.observe())
        self.feedback.popleft()

    def send(self) -> None:
        """Send the oldest message, if the world lets one pass."""
        willing = self.observe()._replace(waiting=1, heard=ON)
        passed = self._let("Send", willing)
        self.leave()
        self._world = passed

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
        self._let("ResendXon", self.observe())
        if self.receiver.signal_due is not None:
            raise ActionRefused("another signal is due")
        self.receiver.remind()
        self._tell(stop=False)

    def receive_signal(self) -> None:
        """Deliver the oldest signal."""
        before = self.observe()
        self.answer()
        self._world = without_oldest(before)

    def _let(self, action: str, state: State) -> State:
        """The state after an action, if the world lets it happen in this one."""
        try:
            return SYSTEM.perform(action, state, self._constants)
        except Disabled as refusal:
            raise ActionRefused(false_guard(refusal)) from refusal

    def _tell(self, *, stop: bool) -> None:
        if self.receiver.signal_due != (stop,):
            raise ActionRefused("this signal is not due")
        before = self.observe()
        self.feedback.append(self.receiver.take_feedback())
        self._world = told_now(before, int(stop))

    def observe(self) -> State:
        """The state of both ends and of the wires, in the specification's terms."""
        inbox, wire, waiting = self.numbered()
        gaps = [signal.gap for signal in self._world.signals]
        return self._world._replace(
            waiting=len(waiting),
            heard=int(self.sender.is_stopped),
            wire=len(wire),
            inbox=len(inbox),
            told=int(self.receiver.has_told_off),
            since=self.receiver.since,
            signals=Fifo([Signal(int(one.stop), gap) for one, gap in zip(self.feedback, gaps, strict=True)]),
        )
