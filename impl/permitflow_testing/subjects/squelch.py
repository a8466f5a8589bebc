"""Squelch: recorded runs as behaviours of ``Squelch``."""

from permitflow.flows.squelch.core import SQUELCH, SquelchParameters
from permitflow.tracing.reader import RecordedChannel
from permitflow_model.squelch import SYSTEM, Parameters, State
from permitflow_testing.subjects import UNLIMITED, Subject, stated, step_by_step


def _in_flight(state: State) -> dict[str, int]:
    return {"in_flight": state.wire, "inbox": state.inbox}


def _untimed(channel: RecordedChannel) -> Parameters:
    """Recordings tell no time: everything may happen within one tick."""
    constants = {**SQUELCH.stated(stated(channel, SquelchParameters)), "rate": UNLIMITED, "signal_delay": UNLIMITED}
    return Parameters(waiters=UNLIMITED, reminders=True, **constants)  # type: ignore[arg-type]  # they are numbers


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
