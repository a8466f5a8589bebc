"""A stream of numbered messages is a bounded queue, whatever its parameters, and whatever happens to what carries it.

The model's own steps are taken in any state, and compared with the steps of the model's own queue in the user's view of
that state, as sequences of any length.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, cast

from permitflow_model.bounded_queue import SYSTEM as QUEUE
from permitflow_model.bounded_queue import Chunk, total
from permitflow_model.bounded_queue import State as QueueState
from permitflow_model.bounded_queue_refinement import chunks_in, queue_in, queue_move, queue_parameters
from permitflow_model.kernel.queue import Queue
from permitflow_proofs.kernel.induction import Subject
from permitflow_proofs.kernel.obligation import SymbolicObligation, take
from permitflow_proofs.kernel.queue import Law, Sums, items_between, no_items
from permitflow_proofs.kernel.queue_facts import between_obligations, law_obligations
from permitflow_proofs.kernel.symbols import integer
from permitflow_proofs.kernel.theorem import Theorem

_Mistake = Callable[[Any, Any], Any]

_NOTHING = no_items(Chunk(0, 0))


def chunk(number: int) -> Chunk:
    """A message in the user's view."""
    return Chunk(number, 1)


def seen(state: Any) -> QueueState:
    """The user's view of a state, as sequences of messages."""
    return queue_in(state, _NOTHING, partial(items_between, chunk))


def _no_dearer(messages: Sums) -> int:
    """Messages cost one each, in the user's view."""
    return messages.size() - total(chunks_in(cast("Queue[int]", messages), _NOTHING))


SEEN_LAWS: tuple[Law, ...] = (_no_dearer,)
"""What is known of the inbox in the user's view; for subjects."""


def implements(subject: Subject[Any, Any], action: str, mistake: _Mistake | None = None, *, too_small: int = 0) -> bool:
    """Is this action one step of the queue, or invisible?"""
    before, parameters = subject.any_case()
    arguments = subject.arguments_of(action, parameters)
    after = subject.system.perform(action, before, parameters, *arguments)
    if mistake is not None:
        after = mistake(before, after)
    move = queue_move(action, before)
    queue = queue_parameters(parameters)
    expected = take(QUEUE, replace(queue, bound=queue.bound - too_small), seen(before), [move] if move else [])
    return expected is not None and seen(after) == expected


def _starts_as_queue(subject: Subject[Any, Any], mistake: _Mistake | None = None) -> bool:
    parameters = subject.any_parameters()
    start = subject.system.initial(parameters)
    return seen(mistake(start, start) if mistake else start) == QUEUE.initial(queue_parameters(parameters))


def _one_more_sent(_before: Any, after: Any) -> Any:
    return after._replace(sent=after.sent + 1)


def _the_newest_consumed(before: Any, after: Any) -> Any:
    return after._replace(inbox=before.inbox.without_last())


def _not_in_the_inbox(before: Any, after: Any) -> Any:
    return after._replace(inbox=before.inbox)


_MISTAKES: Mapping[str, tuple[_Mistake, str]] = {
    "Deliver": (_not_in_the_inbox, "the message is not in the inbox"),
    "Consume": (_the_newest_consumed, "the newest message is consumed"),
}
_ANY_MISTAKE = (_one_more_sent, "one message more is sent")


def refinement_theorem(identifier: str, module: str, statement: str, subject: Subject[Any, Any]) -> Theorem:
    """Each step is one step of a bounded queue, or cannot be seen.

    Args:
        identifier: the theorem's.
        module: with the operator ``IsQueue``.
        statement: in words.
        subject: the protocol; its inbox obeys ``SEEN_LAWS``.
    """
    steps = []
    for action in subject.system.actions:
        mistake, in_words = _MISTAKES.get(action.name, _ANY_MISTAKE)
        steps.append(
            SymbolicObligation(
                action.name,
                partial(implements, subject, action.name),
                partial(implements, subject, action.name, mistake),
                in_words,
            )
        )
    laws = [
        obligation
        for law in SEEN_LAWS
        for obligation in law_obligations("messages cost one each", partial(_itself, law), lambda: integer("number"))
    ]
    return Theorem(
        id=identifier,
        is_promise=True,
        statement=statement,
        module=module,
        operator="IsQueue",
        obligations=(
            SymbolicObligation(
                "starts as an empty queue",
                partial(_starts_as_queue, subject),
                partial(_starts_as_queue, subject, _one_more_sent),
                _ANY_MISTAKE[1],
            ),
            *steps,
            SymbolicObligation(
                "the bound is the window: Deliver",
                partial(implements, subject, "Deliver"),
                partial(implements, subject, "Deliver", too_small=1),
                "the queue's bound is one less",
            ),
            *laws,
            *between_obligations(chunk),
        ),
    )


def _itself(law: Law) -> Law:
    return law
