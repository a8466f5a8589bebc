"""The data itself: chunks and barriers are consumed in the order in which they were offered, each once."""

from functools import partial

from permitflow_model.permit_channel import OUT_OF_ORDER, SYSTEM, Message, Parameters, State, due_after, is_message
from permitflow_model.permit_channel_state import successor
from permitflow_proofs.kernel.induction import Subject
from permitflow_proofs.kernel.queue_laws import dead_end_obligation
from permitflow_proofs.kernel.symbols import assume, assuming
from permitflow_proofs.kernel.theorem import Theorem
from permitflow_proofs.permit_channel.arbitrary import INVARIANT, any_message, any_parameters, any_rows, any_state

__all__ = ["DEAD_ENDS", "NUMBERED", "order_theorems"]

_IN_ORDER = SYSTEM.invariants["ExactlyOnceInOrder"]

DEAD_ENDS = {due_after: OUT_OF_ORDER}

NUMBERED = Subject(
    SYSTEM,
    any_parameters,
    partial(any_state, invariant={**INVARIANT, "ExactlyOnceInOrder": _IN_ORDER}, dead_ends=DEAD_ENDS),
    {"OfferChunk": any_rows},
)
"""The channel, with its chunks and barriers in order."""


def _a_number_left_out(state: State, parameters: Parameters) -> State:
    return state._replace(offered=successor(state.offered, parameters))


def _message_in_range(parameters: Parameters) -> Message:
    message = any_message("message")
    with assuming():
        assume(is_message(message, parameters))
    return message


def order_theorems() -> tuple[Theorem, ...]:
    """Order."""
    return (
        Theorem(
            id="exactly-once-in-order",
            statement=(
                "Chunks and barriers, numbered together, are consumed in the order in which they were offered, each "
                "once, and watermarks keep their place among them: from the next number to be consumed to the next to "
                "be offered, none is left out, repeated or overtaken."
            ),
            module="PermitChannel",
            operator="ExactlyOnceInOrder",
            obligations=(
                *NUMBERED.induction(_IN_ORDER, _a_number_left_out, "after the step a number is left out"),
                dead_end_obligation(
                    due_after, OUT_OF_ORDER, _message_in_range, lambda: any_message("message"), any_parameters
                ),
            ),
        ),
    )
