"""Demand: recorded runs as behaviours of ``Demand``, and its two ends beside the model."""

from permitflow.flows.demand.core import DEMAND, Request
from permitflow.flows.demand.core import Demand as DemandParameters
from permitflow.tracing.reader import RecordedChannel
from permitflow_model.demand import SYSTEM, Parameters, State
from permitflow_testing.core_pair import NumberedPair
from permitflow_testing.moves import ActionRefused
from permitflow_testing.subjects import UNLIMITED, Subject, stated, step_by_step


class DemandPair(NumberedPair):
    """The ends of demand."""

    def request_withheld(self) -> None:
        """Let the application ask for a message."""
        if not self.receiver.ask():
            raise ActionRefused("nothing is withheld")
        self.feedback.append(self.receiver.take_feedback())

    def request(self, count: int) -> None:
        """Deliver requests for this many messages: some together, the last one perhaps in part."""
        if count > self._requests:
            raise ActionRefused("that many were not requested")
        rest = self._requests - count
        self.sender.on_feedback(Request(count))
        self.feedback.clear()
        if rest:
            self.feedback.append(Request(rest))

    @property
    def _requests(self) -> int:
        return sum(request.messages for request in self.feedback)

    def observe(self) -> State:
        """The state of both ends and of the wires, in the specification's terms."""
        return State(
            credit=self.sender.credit,
            unrequested=self.receiver.unrequested,
            withheld=self.receiver.withheld,
            requests=self._requests,
            **self.queues(),
        )


def messages_out(state: State) -> dict[str, int]:
    """The places of the messages that may be out: the sum is the size in every state."""
    return {
        "credit": state.credit,
        "in_flight": state.wire.size(),
        "inbox": state.inbox.size(),
        "unrequested": state.unrequested,
        "withheld": state.withheld,
        "requests": state.requests,
    }


def _parameters(channel: RecordedChannel) -> Parameters:
    agreed = stated(channel, DemandParameters)
    return Parameters(size=agreed.size, batch=agreed.batch, initial=agreed.initial, waiters=UNLIMITED, withdrawals=True)


SUBJECT = Subject(
    table=DEMAND.table,
    system=SYSTEM,
    parameters=_parameters,
    explanation=step_by_step(SYSTEM),
    amount_of=lambda event: event.arguments[0] if event.action == "Request" else 1,
    consumes={"sender": "Send", "receiver": "Consume"},
    places=messages_out,
    place_in_words={
        "credit": "requested, at the sender",
        "inbox": "in the inbox",
        "unrequested": "consumed, not requested again",
        "withheld": "withheld until the application asks",
        "requests": "being requested",
    },
    waiting=lambda state: [0] * state.waiting.size(),
)
