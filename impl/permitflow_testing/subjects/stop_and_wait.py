"""Stop and wait: recorded runs as behaviours of ``StopAndWait``, and its two ends beside the model."""

from permitflow.flows.stop_and_wait.core import STOP_AND_WAIT
from permitflow_model.stop_and_wait import SYSTEM, Parameters, State
from permitflow_testing.core_pair import NumberedPair
from permitflow_testing.subjects import UNLIMITED, Subject, step_by_step


class StopAndWaitPair(NumberedPair):
    """The ends of stop-and-wait."""

    def observe(self) -> State:
        """The state of both ends and of the wires, in the specification's terms."""
        return State(free=self.sender.room_rows, answers=len(self.feedback), **self.queues())


def messages_out(state: State) -> dict[str, int]:
    """The place of the one permission to send: the sum is 1 in every state."""
    return {"free": state.free, "in_flight": state.wire.size(), "inbox": state.inbox.size(), "answers": state.answers}


SUBJECT = Subject(
    table=STOP_AND_WAIT.table,
    system=SYSTEM,
    parameters=lambda _: Parameters(waiters=UNLIMITED, withdrawals=True),
    explanation=step_by_step(SYSTEM),
    amount_of=lambda _: 1,
    consumes={"sender": "Send", "receiver": "Consume"},
    places=messages_out,
    place_in_words={"free": "at the sender", "inbox": "in the inbox", "answers": "on their way back"},
    waiting=lambda state: [0] * state.waiting.size(),
)
