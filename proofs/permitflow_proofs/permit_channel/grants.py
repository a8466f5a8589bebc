"""How many grant messages the receiver sends: at most one for each batch of consumed permits.

Ghosts count what the state forgets: the permits ever consumed, and the batches ever returned.
"""

from permitflow_model.permit_channel import SYSTEM, Parameters, State, carried_by
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.symbols import assume, natural
from permitflow_proofs.kernel.theorem import Theorem
from permitflow_proofs.permit_channel.arbitrary import CHANNEL, any_parameters, any_state

__all__ = ["theorems"]


def _starts_balanced(wrong: int) -> bool:
    parameters = any_parameters(flush_idle=False)
    return SYSTEM.initial(parameters).unreturned + wrong <= 0


def _consume_keeps(flush_idle: bool) -> bool:
    """Batches returned + unreturned <= permits consumed, after Consume if before."""
    parameters = any_parameters(flush_idle=flush_idle)
    before = any_state(parameters)
    consumed, returned = natural("consumed_permits"), natural("returned_batches")
    assume(returned + before.unreturned <= consumed)
    after = SYSTEM.perform("Consume", before, parameters)
    message = before.inbox.head()
    if message.kind == "chunk":
        consumed = consumed + message.cost
    if carried_by(after.grants).rows > carried_by(before.grants).rows:
        returned = returned + parameters.batch
    return returned + after.unreturned <= consumed


def _flush_keeps(flush_idle: bool) -> bool:
    """Flush returns less than a batch, and would break the count: without it, it never happens."""
    parameters = any_parameters(flush_idle=flush_idle)
    before = any_state(parameters)
    consumed, returned = natural("consumed_permits"), natural("returned_batches")
    assume(returned + before.unreturned <= consumed)
    if not SYSTEM.is_enabled("Flush", before, parameters):
        return True
    after = SYSTEM.perform("Flush", before, parameters)
    return returned + parameters.batch + after.unreturned <= consumed


def _leaves_alone(before: State, after: State, _parameters: Parameters) -> bool:
    return after.unreturned == before.unreturned and carried_by(after.grants).rows <= carried_by(before.grants).rows


def _returns_more(before: State, after: State, _parameters: Parameters) -> bool:
    return after.unreturned == before.unreturned and carried_by(after.grants).rows < carried_by(before.grants).rows


def _count_follows(slack: int) -> bool:
    """Messages * BATCH <= consumed gives messages <= consumed / BATCH, and so at most one more."""
    batch, consumed, messages = natural("batch", 1), natural("consumed_permits"), natural("grant_messages")
    assume(messages * batch <= consumed)
    return messages <= consumed // batch + 1 - slack


def theorems() -> tuple[Theorem, ...]:
    """Grant messages."""
    others = [name for name in (action.name for action in SYSTEM.actions) if name not in ("Consume", "Flush")]
    return (
        Theorem(
            id="grant-messages",
            statement=(
                "Without the idle flush the receiver has sent at most consumed / BATCH grant messages for rows "
                "(with the final flush at the end of the stream: one more)."
            ),
            module="PermitChannelHistory",
            operator="GrantBound",
            obligations=(
                SymbolicObligation(
                    "holds initially", lambda: _starts_balanced(0), lambda: _starts_balanced(1), "a residue of 1"
                ),
                SymbolicObligation(
                    "kept by Consume",
                    lambda: _consume_keeps(False),
                    lambda: not _consume_keeps(False),
                    "the opposite",
                ),
                SymbolicObligation(
                    "Flush does not happen", lambda: _flush_keeps(False), lambda: _flush_keeps(True), "it does"
                ),
                *CHANNEL.step_obligations(
                    others, _leaves_alone, _returns_more, "the action takes row permits off the way back"
                ),
                SymbolicObligation(
                    "the count follows",
                    lambda: _count_follows(0),
                    lambda: _count_follows(2),
                    "one message fewer than consumed / BATCH",
                ),
            ),
        ),
    )
