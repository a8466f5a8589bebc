"""Stop and wait: recorded runs as behaviours of ``StopAndWait``, and its two ends beside the model."""

from permitflow.protocol.messages import Kind
from permitflow.protocol.recording import End
from permitflow.protocol.stop_and_wait import STOP_AND_WAIT
from permitflow.testing.core_pair import FlowPair
from permitflow.testing.subjects import UNLIMITED, Explanation, Subject
from permitflow_model.kernel.queue import Fifo
from permitflow_model.kernel.replay import StepByStep
from permitflow_model.stop_and_wait import SYSTEM, Parameters, State

_ENDS = 2


class StopAndWaitPair(FlowPair):
    """The ends of stop-and-wait, which treats chunks of any size and barriers alike."""

    def offer(self) -> None:
        """Offer a message: chunks and barriers in turn."""
        kind, rows = ((Kind.CHUNK, 5), (Kind.CHUNK, 0), (Kind.BARRIER, 0))[self.offered_number % 3]
        self.put_in_line(kind, rows)

    def withdraw(self, position: int = -1) -> None:
        """Withdraw the message at this position in the line."""
        self.take_back(position)

    def send(self) -> None:
        """Send the oldest message, if none is out."""
        self.leave()

    def observe(self) -> State:
        """The state of both ends and of the wires, in the specification's terms."""
        inbox, wire, waiting = (Fifo([number for _, number in place]) for place in self.numbered())
        return State(
            offered=self.offered_number,
            consumed=self.consumed_number,
            waiting=waiting,
            free=self.sender.room_rows,
            wire=wire,
            inbox=inbox,
            answers=len(self.feedback),
        )


def messages_out(state: State) -> dict[str, int]:
    """The place of the one permission to send: the sum is 1 in every state."""
    return {"free": state.free, "in_flight": state.wire.size(), "inbox": state.inbox.size(), "answers": state.answers}


def _explanation(parameters: Parameters, ends: frozenset[End], keep_path: bool) -> Explanation:
    if len(ends) < _ENDS:
        raise ValueError("both ends must have been recorded: one end's events do not determine the other's")
    return StepByStep(SYSTEM, parameters, keep_path=keep_path)


SUBJECT = Subject(
    table=STOP_AND_WAIT.table,
    system=SYSTEM,
    parameters=lambda _: Parameters(waiters=UNLIMITED, withdrawals=True),
    explanation=_explanation,
    amount_of=lambda _: 1,
    consumes={"sender": "Send", "receiver": "Consume"},
    places=messages_out,
    place_in_words={"free": "at the sender", "inbox": "in the inbox", "answers": "on their way back"},
    waiting=lambda state: [0] * state.waiting.size(),
)
