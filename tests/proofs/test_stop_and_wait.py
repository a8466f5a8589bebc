"""Answered on arrival: a consistent mistake, which only a bound notices."""

from permitflow_model.kernel.explore import explore
from permitflow_model.mistakes import mistaken
from permitflow_model.mistakes.stop_and_wait import ON_ARRIVAL
from permitflow_model.stop_and_wait import SYSTEM
from permitflow_proofs.stop_and_wait import SUBJECT
from tests.support.mistaken import verdict_on, with_mistake


def test_answers_on_arrival_keep_order_and_two_are_held() -> None:
    """The messages are all right, the back-pressure is gone."""
    kept = {name: SYSTEM.invariants[name] for name in ("NeverStuck", "ExactlyOnceInOrder", "Bounded")}
    wrong = mistaken(SYSTEM, *ON_ARRIVAL)
    (violation,) = explore(wrong, ON_ARRIVAL[0].parameters, invariants=kept, stop_at_violation=True).violations
    assert violation.invariant == "Bounded"
    assert [step.action for step in violation.steps] == ["Offer", "Offer", "Send", "Deliver", "Answer", "Send"]
    order = SYSTEM.invariants["ExactlyOnceInOrder"]
    subject = with_mistake(ON_ARRIVAL[1], with_mistake(ON_ARRIVAL[0], SUBJECT))
    assert {verdict_on(order, subject, action.name) for action in SYSTEM.actions} == {"proved"}
