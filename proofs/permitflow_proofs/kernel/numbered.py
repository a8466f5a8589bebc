"""Messages that are numbers: any queues of them, and the law of their order."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TypeVar

from permitflow_model.kernel.numbered import OUT_OF_ORDER, Line, due_after, is_number
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.queue import SymbolicQueue
from permitflow_proofs.kernel.queue_facts import dead_end_obligation
from permitflow_proofs.kernel.symbols import assume, assuming, integer, natural

P = TypeVar("P", bound=Line)

_any_queue = partial(SymbolicQueue.any_queue, any_item=integer, dead_ends={due_after: OUT_OF_ORDER})

QUEUES: Mapping[str, Callable[[str], object]] = MappingProxyType(
    dict.fromkeys(("waiting", "wire", "inbox"), _any_queue)
)
"""Any queues of numbers: the line, the wire and the inbox."""


def _any_number(parameters: Line) -> int:
    number = natural("message")
    with assuming():
        assume(is_number(number, parameters))
    return number


def dead_end(any_parameters: Callable[[], P]) -> SymbolicObligation:
    """After a message that is out of order none is due."""
    return dead_end_obligation(due_after, OUT_OF_ORDER, _any_number, lambda: integer("message"), any_parameters)
