"""Stop and wait: the rules of ``StopAndWait``, the mistakes that break them, and the one small channel there is."""

from typing import Any, ClassVar

from permitflow.flows.stop_and_wait.core import StopAndWait
from permitflow_model.stop_and_wait import SYSTEM, Parameters
from permitflow_testing.numbered import NumberedOutside, NumberedRules, Words, numbered_rules
from permitflow_testing.rules import Integer, whole_run_rules
from permitflow_testing.subjects.stop_and_wait import StopAndWaitPair


class StopAndWaitOutside(NumberedOutside):
    """One message may leave, or none; the answer to a consumed one lets the next leave."""

    system: ClassVar[Any] = SYSTEM
    room: ClassVar[str] = "free"
    returns: ClassVar[str] = "answers"


WORDS = Words(
    answer="an answer",
    answered="answered",
    is_answered="answered",
    window=(
        "one-at-a-time",
        "A message waits while another one is out: the application never holds more than one.",
    ),
    free=("sent-when-free", "if none is out"),
    withdrawn=("withdrawn-needs-no-answer", "is not waited for"),
)


class StopAndWaitRules(NumberedRules):
    """There are no parameters to choose."""

    outside = StopAndWaitOutside
    pair = StopAndWaitPair
    plain = StopAndWait()
    rules = (
        *numbered_rules(StopAndWaitOutside, plain, WORDS).values(),
        *whole_run_rules(SYSTEM.module, withdraw="Withdraw"),
    )
    unit = "answers"
    small = (plain,)
    runs = (plain, plain)

    def constants(self, agreed: StopAndWait, waiters: int, tags: int | None) -> Parameters:
        """One message is out."""
        return Parameters(waiters=waiters, withdrawals=True, tags=waiters + 2 if tags is None else tags)

    def any_channel(self, integer: Integer) -> StopAndWait:
        """There is one."""
        return self.plain


RULEBOOK = StopAndWaitRules()
