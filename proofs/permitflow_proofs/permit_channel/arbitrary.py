"""Any parameters, any message, any state of the permit channel, and the invariant that a state satisfies."""

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import add
from types import MappingProxyType

from permitflow_model.permit_channel import (
    ALL,
    NO_WATERMARK,
    NOTHING,
    SYSTEM,
    Message,
    Parameters,
    Permits,
    State,
    carried,
    held,
    held_by,
    is_message,
    is_permits,
    plus,
    rows_of,
    total,
)
from permitflow_proofs.kernel.arbitrary import any_parameters_of, arbitrary, assume_all
from permitflow_proofs.kernel.chapter import Chapter
from permitflow_proofs.kernel.induction import Clause, Subject
from permitflow_proofs.kernel.queue import DeadEnds, Law, Sums, SymbolicQueue
from permitflow_proofs.kernel.symbols import Sizes, any_like, assume, assuming, integer, limit


def any_parameters(**fixed: object) -> Parameters:
    """Any parameters that the model accepts, some of them fixed."""
    if "sizes" not in fixed:
        fixed["sizes"] = Sizes(integer("largest_rows"))
    if "initial_permits" in fixed and fixed["initial_permits"] is ALL:
        fixed["initial_permits"] = fixed["row_permits"] = integer("row_permits")
    elif "initial_permits" not in fixed:
        number = fixed["initial_permits"] = integer("initial_permits")
        # No restriction: ALL is another word for row_permits.  Known here, so that no question about it forks.
        limit(number >= 0)
    return any_parameters_of(Parameters, **fixed)


def any_message(name: str) -> Message:
    """Any message, sensible or not."""
    return arbitrary(Message, f"{name}.")


def any_permits(name: str) -> Permits:
    """Any permits, negative ones included."""
    return any_like(NOTHING, name)


def any_rows(parameters: Parameters) -> tuple[int]:
    """The size of any chunk that may be offered: the argument of OfferChunk."""
    rows = integer("rows")
    with assuming():
        assume(rows in parameters.sizes)
    return (rows,)


# More clauses for the induction, besides the specification's own.


def is_offered_size(message: Message, parameters: Parameters) -> bool:
    """No chunk is larger than the largest that may be offered."""
    return message.rows <= max(parameters.sizes, default=0)


def sizes_offered(state: State, parameters: Parameters) -> bool:
    """No chunk in the channel is larger than the largest that may be offered."""
    return all(queue.every(is_offered_size, parameters) for queue in (state.waiting, state.wire, state.inbox))


def brings_permits(grant: Permits, parameters: Parameters) -> bool:
    """A grant is not empty."""
    return amount(grant) >= 1


def grants_bring_permits(state: State, parameters: Parameters) -> bool:
    """No grant in flight is empty."""
    return state.grants.every(brings_permits, parameters)


def only_what_is_offered(state: State, parameters: Parameters) -> bool:
    """Where no barriers or watermarks are offered, there are none; and no watermark waits in the line."""
    waiting = held_by(state.waiting)
    if waiting.watermarks != 0 or (waiting.barriers != 0 and parameters.barrier_permits < 1):
        return False
    return parameters.watermarks or (
        state.watermark_pending == NO_WATERMARK and state.permits.watermarks == total(parameters).watermarks
    )


INVARIANT: Mapping[str, Clause[State, Parameters]] = {
    **{name: SYSTEM.invariants[name] for name in ("TypeOK", "Conservation", "GrantsBatched", "NewestWatermarkKept")},
    "SizesOffered": sizes_offered,
    "GrantsBringPermits": grants_bring_permits,
    "OnlyWhatIsOffered": only_what_is_offered,
}
"""What every reachable state satisfies; proved by induction in ``inductive.py``."""


# Laws of sums, proved in ``inductive.py``.


def permits_in(messages: Sums) -> Permits:
    """The permits that some messages hold."""
    return messages.sum_of(held, plus, NOTHING)


def permits_back(grants: Sums) -> Permits:
    """The permits that some grants bring back."""
    return grants.sum_of(carried, plus, NOTHING)


def _rows_carried(messages: Sums) -> int:
    return messages.sum_of(rows_of, add, 0)


def amount(permits: Permits) -> int:
    """Permits of all classes together."""
    return permits.rows + permits.barriers + permits.watermarks


MESSAGE_LAWS: Mapping[str, Law] = {
    "row permits held": lambda messages: permits_in(messages).rows,
    "barrier permits held": lambda messages: permits_in(messages).barriers,
    "watermark permits held": lambda messages: permits_in(messages).watermarks,
    "permits held beyond one for each message": lambda messages: amount(permits_in(messages)) - messages.size(),
    "messages that are no barriers": lambda messages: messages.size() - permits_in(messages).barriers,
    "rows carried": _rows_carried,
}

GRANT_LAWS: Mapping[str, Law] = {
    "row permits returned": lambda grants: permits_back(grants).rows,
    "barrier permits returned": lambda grants: permits_back(grants).barriers,
    "watermark permits returned": lambda grants: permits_back(grants).watermarks,
    "permits returned beyond one for each grant": lambda grants: amount(permits_back(grants)) - grants.size(),
}


def lawful_message(parameters: Parameters) -> Message:
    """Any message that the invariant allows in a queue."""
    message = any_message("message")
    with assuming():
        assume(is_message(message, parameters))
        assume(is_offered_size(message, parameters))
    return message


def lawful_grant(parameters: Parameters) -> Permits:
    """Any grant that the invariant allows in flight."""
    grant = any_permits("grant")
    with assuming():
        assume(is_permits(grant, parameters))
        assume(brings_permits(grant, parameters))
    return grant


def any_state(
    parameters: Parameters,
    invariant: Mapping[str, Clause[State, Parameters]] = INVARIANT,
    message_laws: tuple[Law, ...] = (),
    dead_ends: DeadEnds = MappingProxyType({}),
    known: Mapping[str, Sequence[Message]] = MappingProxyType({}),
) -> State:
    """Any state that satisfies the invariant; of its messages, more laws and dead ends may be assumed.

    ``known``: the newest messages of some queues.
    """
    laws = (*MESSAGE_LAWS.values(), *message_laws)

    def any_messages(name: str) -> SymbolicQueue[Message]:
        unknown = SymbolicQueue.any_queue(name, any_message, laws, dead_ends)
        return reduce(SymbolicQueue.push, known.get(name, ()), unknown)

    queues: dict[str, object] = {
        **{name: any_messages(name) for name in ("waiting", "wire", "inbox")},
        "grants": SymbolicQueue.any_queue("grants", any_permits, tuple(GRANT_LAWS.values())),
    }
    return assume_all(invariant.values(), arbitrary(State, special=queues), parameters)


def channel(**fixed: object) -> Subject[State, Parameters]:
    """The permit channel with any parameters, some of them fixed."""
    return Subject(
        system=SYSTEM,
        any_parameters=lambda: any_parameters(**fixed),
        any_state=any_state,
        any_arguments={"OfferChunk": any_rows},
    )


CHANNEL = channel()
PUBLISHED = channel(flush_idle=False)
"""The channel of the published protocol."""
FLUSHING = channel(flush_idle=True)

CHAPTER = Chapter(
    CHANNEL,
    INVARIANT,
    promises=frozenset(
        {
            "all-delivered",
            "barrier-never-stuck",
            "bounded",
            "bounded-response",
            "bounded-response-flush",
            "conservation",
            "exactly-once-in-order",
            "flush-idle",
            "mismatched-batches",
            "row-bound",
            "threshold",
            "threshold-strict",
        }
    ),
)
