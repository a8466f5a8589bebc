"""How much a channel holds at most: permits and messages."""

from permitflow_model.permit_channel import SYSTEM, Parameters, State, held_by
from permitflow_proofs.kernel.theorem import Theorem
from permitflow_proofs.permit_channel.arbitrary import CHANNEL

__all__ = ["bound_theorems"]


def _bounded_without_equality(state: State, parameters: Parameters) -> bool:
    return held_by(state.wire).rows + held_by(state.inbox).rows < parameters.row_count


def _messages_bounded_too_tightly(state: State, parameters: Parameters) -> bool:
    messages = state.wire.size() + state.inbox.size() + state.grants.size()
    return messages <= parameters.row_count + parameters.barrier_permits


def bound_theorems() -> tuple[Theorem, ...]:
    """Permits and messages."""
    return (
        Theorem(
            id="bounded",
            statement="The channel never holds more than ROW_COUNT permits of data, nor more barriers than permits.",
            module="PermitChannel",
            operator="Bounded",
            obligations=(
                CHANNEL.holds_whenever_invariant(
                    "follows from the invariant",
                    SYSTEM.invariants["Bounded"],
                    _bounded_without_equality,
                    "fewer than ROW_COUNT",
                ),
            ),
        ),
        Theorem(
            id="messages-bounded",
            statement=(
                "Messages and grants in flight number at most ROW_COUNT + barrier permits + 1, empty chunks and "
                "watermarks included."
            ),
            module="PermitChannel",
            operator="MessagesBounded",
            obligations=(
                CHANNEL.holds_whenever_invariant(
                    "follows from the invariant",
                    SYSTEM.invariants["MessagesBounded"],
                    _messages_bounded_too_tightly,
                    "one message fewer",
                ),
            ),
        ),
    )
