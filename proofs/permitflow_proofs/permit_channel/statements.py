"""Two equations that circulate since 2014 (E. Varga's mail "back pressure"), refuted; and the right one.

The first has the wrong sign, the second forgets what is stored and what is owed.
"""

from permitflow_model.permit_channel import SYSTEM, Parameters, State, carried_by, held_by
from permitflow_proofs.kernel.exhaustive import Refutation
from permitflow_proofs.kernel.induction import Clause
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.theorem import Theorem
from permitflow_proofs.permit_channel.arbitrary import CHANNEL

__all__ = ["statements_of_2014"]

# The mail's own example: four elements sent, all stored, none processed.
_FOUR = Parameters(row_count=4, batch=1, clamp=4, sizes=(1, 4))


def _in_flight_on_the_wrong_side(state: State, parameters: Parameters) -> bool:
    """PendingPermits + PermitsInFlight = Buf + InFlight."""
    in_flight = held_by(state.wire).rows
    return state.permits.rows + carried_by(state.grants).rows == parameters.row_count + in_flight


def _stored_forgotten(state: State, parameters: Parameters) -> bool:
    """Permits + InFlight = Buf, where Permits are those at the sender and those in flight."""
    permits = state.permits.rows + carried_by(state.grants).rows
    return permits + held_by(state.wire).rows == parameters.row_count


def _right(state: State, parameters: Parameters) -> bool:
    """PendingPermits + PermitsInFlight = Buf - (in flight + stored + owed)."""
    gone = held_by(state.wire).rows + held_by(state.inbox).rows + state.unreturned
    return state.permits.rows + carried_by(state.grants).rows == parameters.row_count - gone


def _residue_forgotten(state: State, parameters: Parameters) -> bool:
    gone = held_by(state.wire).rows + held_by(state.inbox).rows
    return state.permits.rows + carried_by(state.grants).rows == parameters.row_count - gone


def _nothing_is_gone(state: State, _parameters: Parameters) -> bool:
    return held_by(state.wire).rows + held_by(state.inbox).rows + state.unreturned == 0


def _nothing_is_stored_or_owed(state: State, _parameters: Parameters) -> bool:
    return held_by(state.inbox).rows + state.unreturned == 0


def _nothing_is_stored(state: State, _parameters: Parameters) -> bool:
    return held_by(state.inbox).rows == 0


def _agree(left: Clause[State, Parameters], right: Clause[State, Parameters]) -> bool:
    return CHANNEL.always(lambda state, parameters: left(state, parameters) == right(state, parameters))


def statements_of_2014() -> tuple[Theorem, ...]:
    """Wrong and right."""
    return (
        Theorem(
            id="2014-sign",
            statement='False: "PendingPermits + PermitsInFlight = Buf + InFlight".',
            module="PermitChannel",
            operator="Conservation",
            expected="refuted",
            obligations=(
                Refutation(
                    "a state where it is false",
                    _in_flight_on_the_wrong_side,
                    _right,
                    "what is in flight, stored or owed is subtracted",
                    CHANNEL.always,
                    SYSTEM,
                    _FOUR,
                ),
            ),
        ),
        Theorem(
            id="2014-stored",
            statement='False: "Permits + InFlight = Buf".',
            module="PermitChannel",
            operator="Conservation",
            expected="refuted",
            obligations=(
                Refutation(
                    "a state where it is false",
                    _stored_forgotten,
                    _right,
                    "what is stored, owed or on its way back counts too",
                    CHANNEL.always,
                    SYSTEM,
                    _FOUR,
                ),
            ),
        ),
        Theorem(
            id="2014-right",
            statement="True: PendingPermits + PermitsInFlight = Buf - (in flight + stored + owed).",
            module="PermitChannel",
            operator="Conservation",
            obligations=(
                SymbolicObligation(
                    "in every state",
                    lambda: CHANNEL.always(_right),
                    lambda: CHANNEL.always(_residue_forgotten),
                    "what is owed is forgotten",
                ),
            ),
        ),
        Theorem(
            id="2014-where-true",
            statement=(
                "The first of the two false equations holds exactly while nothing is in flight, stored or owed, the "
                "second exactly while nothing is stored or owed."
            ),
            module="PermitChannel",
            operator="Conservation",
            obligations=(
                SymbolicObligation(
                    "the first",
                    lambda: _agree(_in_flight_on_the_wrong_side, _nothing_is_gone),
                    lambda: _agree(_in_flight_on_the_wrong_side, _nothing_is_stored_or_owed),
                    "also while something is in flight",
                ),
                SymbolicObligation(
                    "the second",
                    lambda: _agree(_stored_forgotten, _nothing_is_stored_or_owed),
                    lambda: _agree(_stored_forgotten, _nothing_is_stored),
                    "also while something is owed",
                ),
            ),
        ),
    )
