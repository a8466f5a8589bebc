"""A channel of chunks that wait at the sender, are on the wire, then in the inbox: to its user, a bounded queue."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from permitflow_model import bounded_queue
from permitflow_model.bounded_queue import Chunk, total
from permitflow_model.kernel.queue import Fifo, Queue
from permitflow_proofs.bounded_queue_refinement import Mistake, Move, View, the_newest_consumed
from permitflow_proofs.kernel.induction import Subject
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.queue import Law, Sums
from permitflow_proofs.kernel.queue_facts import law_obligations
from permitflow_proofs.kernel.sequence import no_items

_NOTHING = no_items(Chunk(0, 0))


def _sent_twice(before: Any, after: Any) -> Any:
    return after._replace(wire=after.wire.push(before.waiting.head()))


@dataclass(frozen=True)
class ChunkView:
    """How the user of such a channel sees it."""

    as_chunk: Callable[[Any], Fifo[Chunk]]
    """A chunk of the channel, as a chunk of the queue."""

    queue: Callable[[Any], bounded_queue.Parameters]
    move: Callable[..., Move]
    """``move(action, before, parameters, *arguments)``"""

    rows_held: Callable[[Sums], int]
    """The row permits of some chunks."""

    stray: object
    """A chunk of the channel."""

    put: str = "Send"
    """The action that needs the whole bound."""

    more_mistakes: Mapping[str, tuple[Mistake, str]] = field(default_factory=dict)
    """Of other actions than that one and Consume, and in words."""

    def seen(self, state: Any) -> bounded_queue.State:
        """The user's view of a state, as sequences of chunks."""
        return bounded_queue.queue_in(state, self.as_chunk, _NOTHING)

    def _chunks(self, chunks: Queue[Any] | Sums) -> Queue[Chunk]:
        return bounded_queue.chunks_in(chunks, self.as_chunk, _NOTHING)  # type: ignore[arg-type]  # it sums up only

    @property
    def laws(self) -> Mapping[str, Law]:
        """Of the chunks in a queue, in the user's view."""
        return {
            "chunks that are not seen": lambda chunks: chunks.size() - self._chunks(chunks).size(),
            "row permits held beyond the costs of chunks": lambda chunks: (
                self.rows_held(chunks) - total(self._chunks(chunks))
            ),
        }

    def _a_chunk_from_nowhere(self, _before: Any, after: Any) -> Any:
        return after._replace(wire=after.wire.push(self.stray))

    @property
    def view(self) -> View:
        """The channel as a queue."""
        return View(
            seen=self.seen,
            queue=self.queue,
            move=self.move,
            put=self.put,
            mistakes={
                self.put: (_sent_twice, "the chunk is sent twice"),
                "Consume": (the_newest_consumed, "the newest chunk is consumed"),
                **self.more_mistakes,
            },
            other_mistake=(self._a_chunk_from_nowhere, "a chunk appears on the wire"),
        )

    def obligations(
        self, subject: Subject[Any, Any], any_chunk: Callable[[], object]
    ) -> tuple[SymbolicObligation, ...]:
        """Each step is one step of the queue, or cannot be seen; for a subject whose queues obey ``laws``."""
        laws = (law_obligations(name, law, any_chunk) for name, law in self.laws.items())
        return (*self.view.obligations(subject), *(obligation for each in laws for obligation in each))
