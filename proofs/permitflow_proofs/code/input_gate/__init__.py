"""``GateSender``, ``GateReceiver`` and ``Gate`` refine ``InputGate``."""

from permitflow_proofs.code.input_gate.counts import COUNTS
from permitflow_proofs.code.input_gate.receiver import RECEIVER, TOGETHER
from permitflow_proofs.code.input_gate.sender import ANY_LENGTH, SENDER, SENDER_BEGINS
from permitflow_proofs.code.input_gate.withdrawals import OBLIGATIONS as WITHDRAWALS
from permitflow_proofs.code.refinement import obligation
from permitflow_proofs.kernel.theorem import Theorem


def theorems() -> tuple[Theorem, ...]:
    """The claims about both ends, and about the numbers by which they are judged."""
    return (
        Theorem(
            id="code-gate-sender",
            statement=(
                "The running GateSender does what its model does, and refuses what the model cannot do: it announces "
                "all that waits wherever the model announces it, and at other times, too. Chunks that are expected are "
                "offered before the next barrier, and none is withdrawn. A state is known by numbers, which follow the "
                "model's queues, and this many steps of an action lead where one after the other does."
            ),
            module="InputGate",
            operator="Next",
            obligations=(SENDER_BEGINS, *map(obligation, SENDER), *ANY_LENGTH, *COUNTS),
        ),
        Theorem(
            id="code-gate-withdrawing-sender",
            statement=(
                "Likewise where messages are taken back: from the end of the line, from before another one, all of it, "
                "or chunks that were expected. More credit than its own and than waits returns with the next "
                "announcement, and none behind a barrier; nothing else is refused or done than without withdrawals. "
                "Credit that returns at once leaves and arrives as if it had come one by one."
            ),
            module="WithdrawingGate",
            operator="Next",
            obligations=WITHDRAWALS,
        ),
        Theorem(
            id="code-gate-receiver",
            statement=(
                "Likewise the running GateReceiver and Gate, with any number of inputs: one is called, and "
                "another one is any of the others. An alignment waits for each, also for one that has not joined, "
                "and all go on. Credit is lent as the model lends it, to all that lack it, as far as the pool goes; "
                "none is lent or granted to an input whose barrier has taken it back. Nothing comes behind the end of "
                "an input, and nothing is consumed of a gate that has failed."
            ),
            module="InputGate",
            operator="Next",
            obligations=tuple(map(obligation, RECEIVER)),
        ),
        Theorem(
            id="code-gate-loops",
            statement=(
                "The loop of a gate that lends in turn lends each input in the line what it lacks, or all that there "
                "is, and nobody more, however many they are; and it ends. An input joins with nothing here, unless all "
                "have joined or its largest chunk might wait for ever; if it was not admitted, it may leave as if it "
                "had not joined. Any number of chunks arrive and are consumed as their sum."
            ),
            module="InputGate",
            operator="Next",
            obligations=TOGETHER,
        ),
    )
