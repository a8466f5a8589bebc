"""A protocol is a bounded queue, whatever its parameters, and whatever happens to what carries it.

The model's own steps are taken in any state, and compared with the steps of the model's own queue in the user's view of
that state, as sequences of any length.  Protocols whose messages are numbers share a view.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from permitflow_model.bounded_queue import SYSTEM as QUEUE
from permitflow_model.bounded_queue import Chunk, chunks_in, total
from permitflow_model.bounded_queue import Parameters as QueueParameters
from permitflow_model.bounded_queue import State as QueueState
from permitflow_model.bounded_queue_refinement import as_chunk, queue_in, queue_move, queue_parameters
from permitflow_model.kernel.queue import Queue
from permitflow_proofs.kernel.induction import Subject
from permitflow_proofs.kernel.obligation import SymbolicObligation, take
from permitflow_proofs.kernel.queue import Law, Sums
from permitflow_proofs.kernel.queue_facts import between_obligations, law_obligations
from permitflow_proofs.kernel.sequence import items_between, no_items
from permitflow_proofs.kernel.symbols import integer
from permitflow_proofs.kernel.theorem import Theorem

Mistake = Callable[[Any, Any], Any]
"""A step with a mistake: the states before and after it become another state after it."""

Move = tuple[str, tuple[int, ...]] | None
"""An action of the queue and its arguments; None: the step cannot be seen."""


@dataclass(frozen=True)
class View:
    """What a user sees of a protocol: a queue."""

    seen: Callable[[Any], QueueState]
    """A state's queue, as sequences of chunks."""

    queue: Callable[[Any], QueueParameters]
    move: Callable[..., Move]
    """``move(action, before, parameters, *arguments)``"""

    put: str
    """The action that needs the whole bound."""

    mistakes: Mapping[str, tuple[Mistake, str]]
    """By the action, and in words."""

    other_mistake: tuple[Mistake, str]
    """The mistake of all other actions."""

    def implements(
        self, subject: Subject[Any, Any], action: str, mistake: Mistake | None = None, *, too_small: int = 0
    ) -> bool:
        """Is this action one step of the queue, or invisible?"""
        before, parameters = subject.any_case()
        arguments = subject.arguments_of(action, parameters)
        after = subject.system.perform(action, before, parameters, *arguments)
        if mistake is not None:
            after = mistake(before, after)
        move = self.move(action, before, parameters, *arguments)
        queue = self.queue(parameters)
        smaller = replace(queue, bound=queue.bound - too_small)
        expected = take(QUEUE, smaller, self.seen(before), [move] if move else [])
        return expected is not None and self.seen(after) == expected

    def _starts_as_queue(self, subject: Subject[Any, Any], mistake: Mistake | None = None) -> bool:
        parameters = subject.any_parameters()
        start = subject.system.initial(parameters)
        seen = self.seen(mistake(start, start) if mistake else start)
        return seen == QUEUE.initial(self.queue(parameters))

    def obligations(self, subject: Subject[Any, Any]) -> tuple[SymbolicObligation, ...]:
        """It starts as an empty queue, each action is a step of it or invisible; less than the bound will not do."""
        starts, steps = self._starts_as_queue, self.implements
        mistake, in_words = self.other_mistake
        names = [action.name for action in subject.system.actions]
        twins = [(name, *self.mistakes.get(name, self.other_mistake)) for name in names]
        return (
            SymbolicObligation(
                "starts as an empty queue", partial(starts, subject), partial(starts, subject, mistake), in_words
            ),
            *(
                SymbolicObligation(name, partial(steps, subject, name), partial(steps, subject, name, wrong), words)
                for name, wrong, words in twins
            ),
            SymbolicObligation(
                f"the bound of the queue: {self.put}",
                partial(steps, subject, self.put),
                partial(steps, subject, self.put, too_small=1),
                "the queue's bound is one less",
            ),
        )


_NOTHING = no_items(Chunk(0, 0))


def chunk(number: int) -> Chunk:
    """A message in the user's view."""
    return Chunk(number, 1)


def seen(state: Any) -> QueueState:
    """The user's view of a state, as sequences of messages."""
    return queue_in(state, _NOTHING, partial(items_between, chunk))


def _no_dearer(messages: Sums) -> int:
    """Messages cost one each, in the user's view."""
    return messages.size() - total(chunks_in(cast("Queue[int]", messages), as_chunk, _NOTHING))


SEEN_LAWS: tuple[Law, ...] = (_no_dearer,)
"""What is known of the inbox in the user's view; for subjects."""


def _one_more_sent(_before: Any, after: Any) -> Any:
    return after._replace(sent=after.sent + 1)


def the_newest_consumed(before: Any, after: Any) -> Any:
    """A mistake: the inbox gives away its newest item."""
    return after._replace(inbox=before.inbox.without_last())


def _not_in_the_inbox(before: Any, after: Any) -> Any:
    return after._replace(inbox=before.inbox)


_VIEW = View(
    seen=seen,
    queue=queue_parameters,
    move=queue_move,
    put="Deliver",
    mistakes={
        "Deliver": (_not_in_the_inbox, "the message is not in the inbox"),
        "Consume": (the_newest_consumed, "the newest message is consumed"),
    },
    other_mistake=(_one_more_sent, "one message more is sent"),
)


def refinement_theorem(identifier: str, module: str, statement: str, subject: Subject[Any, Any]) -> Theorem:
    """Each step is one step of a bounded queue, or cannot be seen.

    Args:
        identifier: the theorem's.
        module: with the operator ``IsQueue``.
        statement: in words.
        subject: the protocol; its inbox obeys ``SEEN_LAWS``.
    """
    laws = [
        obligation
        for law in SEEN_LAWS
        for obligation in law_obligations("messages cost one each", law, lambda: integer("number"))
    ]
    return Theorem(
        id=identifier,
        is_promise=True,
        statement=statement,
        module=module,
        operator="IsQueue",
        obligations=(*_VIEW.obligations(subject), *laws, *between_obligations(chunk)),
    )
