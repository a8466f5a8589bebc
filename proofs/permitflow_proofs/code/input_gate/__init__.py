"""``GateSender`` refines ``InputGate``."""

from permitflow_proofs.code.input_gate.counts import COUNTS
from permitflow_proofs.code.input_gate.sender import ANY_LENGTH, SENDER
from permitflow_proofs.code.refinement import obligation
from permitflow_proofs.kernel.theorem import Theorem


def theorems() -> tuple[Theorem, ...]:
    """Of the sender, and of the numbers by which it is judged."""
    return (
        Theorem(
            id="code-gate-sender",
            statement=(
                "The running GateSender does what its model does, and refuses what the model cannot do: it announces "
                "all that waits wherever the model announces it, and at other times, too. Chunks that are expected are "
                "offered before the next barrier, and none is withdrawn. A state is known by numbers, which follow the "
                "model's queues, and so many steps of an action lead where one after the other does."
            ),
            module="InputGate",
            operator="Next",
            obligations=(*map(obligation, SENDER), *ANY_LENGTH, *COUNTS),
        ),
    )
