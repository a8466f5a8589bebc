"""``PermitSender`` and ``PermitReceiver`` refine ``PermitChannel``."""

from collections.abc import Sequence
from typing import Any

from permitflow_proofs.code.permit_channel.batches import ANY_LENGTH
from permitflow_proofs.code.permit_channel.receiver import RECEIVER, RECEIVER_BEGINS
from permitflow_proofs.code.permit_channel.sender import SENDER, SENDER_BEGINS
from permitflow_proofs.code.refinement import Call, obligation
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.theorem import Theorem


def _theorem(end: str, begins: SymbolicObligation, calls: Sequence[Call[Any]], statement: str) -> Theorem:
    return Theorem(
        id=f"code-permits-{end}",
        statement=statement,
        module="PermitChannel",
        operator="Next",
        obligations=(begins, *map(obligation, calls)),
    )


def theorems() -> tuple[Theorem, ...]:
    """The claims about both ends."""
    return (
        _theorem(
            "sender",
            SENDER_BEGINS,
            SENDER,
            "The running PermitSender does what its model does, and refuses what the model cannot do: a call is the "
            "model's steps, recorded or not, and a refusal changes nothing.",
        ),
        _theorem(
            "receiver",
            RECEIVER_BEGINS,
            RECEIVER,
            "Likewise the running PermitReceiver, and the credit that it counts by.",
        ),
        Theorem(
            id="code-permits-any-length",
            statement=(
                "A batch of any number of chunks leaves, arrives and is consumed as if its chunks had come one by one: "
                "by the invariant of each loop over them, and by induction on the last chunk."
            ),
            module="PermitChannel",
            operator="Next",
            obligations=ANY_LENGTH,
        ),
    )
