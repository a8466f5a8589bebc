"""What a gate's recording is refused for, and in which words."""

import pytest

from permitflow.tracing import Event
from permitflow_model.input_gate_credit import Parameters
from permitflow_model.input_gate_trace import GateExplanation
from permitflow_model.kernel.replay import Refused, Starved

PARAMETERS = Parameters(inputs=1, exclusive=2, floating=2, backlog=9, epochs=0)
OFFERED = Event("orders", "sender", 1, "OfferData", (3,), None, (2, 0))


def after(*events: Event) -> None:
    explanation = GateExplanation(PARAMETERS, {})
    world = explanation.start()
    for event in events:
        (world,) = explanation.perform(world, event)


@pytest.mark.parametrize(
    ("end", "action", "numbers"),
    [
        ("sender", "OfferData", (-1,)),
        ("sender", "WithdrawData", (-1,)),
        ("receiver", "Deliver", (-1, 0, 0, 0)),
        ("receiver", "DeliverBacklog", (0, -1)),
    ],
)
def test_no_step_is_made_less_than_no_times(end: str, action: str, numbers: tuple[int, ...]) -> None:
    counters = (2, 0) if end == "sender" else (0, 0, 0, 0)
    with pytest.raises(Refused, match="cannot be done -1 times"):
        after(OFFERED, Event("orders", "sender" if end == "sender" else "receiver", 2, action, numbers, None, counters))


def test_a_wrong_backlog_is_refused_with_what_waits() -> None:
    told = OFFERED._replace(action="AnnounceBacklog", arguments=(4,))
    with pytest.raises(Refused) as refused:
        after(OFFERED, told)
    assert str(refused.value) == "backlog 4 must not be announced: data of 3 waits"


def test_a_stopped_sender_announces_no_backlog() -> None:
    barrier = Event("orders", "sender", 1, "OfferBarrier", (0,), None, (2, 0))
    sent = barrier._replace(action="SendBarrier", arguments=(), counters=(2, 1))
    offered, told = (OFFERED._replace(action=action, counters=(2, 1)) for action in ("OfferData", "AnnounceBacklog"))
    with pytest.raises(Refused, match="is stopped behind a barrier"):
        after(barrier, sent, offered, told)


def test_a_backlog_arrives_when_it_was_told() -> None:
    arrived = Event("orders", "receiver", 1, "DeliverBacklog", (3, 0), None, (0, 0, 0, 0))
    told = OFFERED._replace(action="AnnounceBacklog")
    with pytest.raises(Starved, match="backlog 3 was not told yet"):
        after(OFFERED, arrived)
    after(OFFERED, told, arrived)
    with pytest.raises(Refused, match="backlog 4 is not the oldest message"):
        after(OFFERED, told, arrived._replace(arguments=(4, 0)))
