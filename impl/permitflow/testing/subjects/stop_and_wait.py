"""Stop and wait: recorded runs as behaviours of ``StopAndWait``."""

from permitflow.protocol.recording import End
from permitflow.protocol.stop_and_wait import STOP_AND_WAIT
from permitflow.testing.subjects import UNLIMITED, Explanation, Subject
from permitflow_model.kernel.replay import StepByStep
from permitflow_model.stop_and_wait import SYSTEM, Parameters, State

__all__ = ["SUBJECT", "messages_out"]

_ENDS = 2


def messages_out(state: State) -> dict[str, int]:
    """Where the message is that may be out: together 1 in every state."""
    return {
        "free": state.free,
        "in_flight": state.wire.size(),
        "inbox": state.inbox.size(),
        "answers": state.answers,
    }


def _explanation(parameters: Parameters, ends: frozenset[End], keep_path: bool) -> Explanation:
    if len(ends) < _ENDS:
        raise ValueError("both ends must have been recorded: what one of them does says nothing of the other")
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
