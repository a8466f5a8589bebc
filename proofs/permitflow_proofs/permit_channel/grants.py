"""How many grant messages the receiver sends: at most one for each batch of consumed permits.

Ghosts count what the state forgets, as ``PermitChannelHistory.tla`` does: the permits ever consumed, and the grant
messages for rows.  Of the latter the proof keeps BATCH times their number, so that it stays linear.
"""

from functools import partial

from permitflow_model.permit_channel import SYSTEM, held
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.symbols import assume, natural
from permitflow_proofs.kernel.theorem import Theorem
from permitflow_proofs.permit_channel.arbitrary import any_parameters, any_state, channel

__all__ = ["grant_theorems"]

_PUBLISHED = channel(flush_idle=False)


def _starts_balanced(wrong: int) -> bool:
    """BATCH * messages + unreturned <= consumed: nothing has been sent, consumed or kept back."""
    return 0 + SYSTEM.initial(_PUBLISHED.any_parameters()).unreturned + wrong <= 0


def _keeps_balance(action: str, wrong: int) -> bool:
    parameters = _PUBLISHED.any_parameters()
    before = _PUBLISHED.any_state(parameters)
    consumed, batches = natural("consumed_permits"), natural("batch_times_messages")
    assume(batches + before.unreturned <= consumed)
    after = _PUBLISHED.perform(action, before, parameters)
    if action == "Consume":
        consumed = consumed + held(before.inbox.head()).rows
    if after.grants.size() > before.grants.size() and after.grants.last().rows > 0:
        batches = batches + parameters.batch
    return batches + after.unreturned + wrong <= consumed


def _flush_is_possible(flush_idle: bool) -> bool:
    parameters = any_parameters(flush_idle=flush_idle)
    return SYSTEM.is_enabled("Flush", any_state(parameters), parameters)


def _number_follows(fewer: int) -> bool:
    """From BATCH * messages <= consumed to the number of messages."""
    batch, consumed, messages = natural("batch", 1), natural("consumed_permits"), natural("grant_messages")
    assume(batch * messages <= consumed)
    return messages <= consumed // batch - fewer


def grant_theorems() -> tuple[Theorem, ...]:
    """Grant messages."""
    actions = [action.name for action in SYSTEM.actions if action.name != "Flush"]
    return (
        Theorem(
            id="grant-messages",
            statement=(
                "Without the idle flush the receiver sends at most floor(consumed / BATCH) grant messages for rows "
                "(the return at the end of the stream adds one)."
            ),
            module="PermitChannelHistory",
            operator="GrantBound",
            obligations=(
                SymbolicObligation(
                    "holds initially", lambda: _starts_balanced(0), lambda: _starts_balanced(1), "a residue of 1"
                ),
                *(
                    SymbolicObligation(
                        f"kept by {action}",
                        partial(_keeps_balance, action, 0),
                        partial(_keeps_balance, action, 1),
                        "one permit more is owed",
                    )
                    for action in actions
                ),
                SymbolicObligation(
                    "Flush does not happen",
                    lambda: not _flush_is_possible(flush_idle=False),
                    lambda: not _flush_is_possible(flush_idle=True),
                    "with the idle flush",
                ),
                SymbolicObligation(
                    "the number follows",
                    lambda: _number_follows(0),
                    lambda: _number_follows(1),
                    "one message fewer",
                ),
            ),
        ),
    )
