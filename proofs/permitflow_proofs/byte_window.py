"""A channel with permits for rows and a window of bytes, for any numbers of both, batches and chunks.

The clauses are shown in states that satisfy all of them, so they are inductive together.  Those about bytes are shown
without any about rows: they hold whatever else a chunk waits for, so the window may stand beside any flow.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from operator import add

from permitflow_model.byte_window import (
    SYSTEM,
    Chunk,
    Parameters,
    State,
    admits,
    bytes_in,
    bytes_of,
    is_chunk,
    most_bytes,
    rows_of,
)
from permitflow_model.byte_window_refinement import as_chunk, queue_move, queue_parameters
from permitflow_proofs.bounded_queue_view import ChunkView
from permitflow_proofs.kernel.arbitrary import any_parameters_of, arbitrary, assume_all
from permitflow_proofs.kernel.chapter import Chapter, claim
from permitflow_proofs.kernel.frame import Frame
from permitflow_proofs.kernel.induction import Clause, Refutation, Subject
from permitflow_proofs.kernel.obligation import SymbolicObligation, take
from permitflow_proofs.kernel.queue import Law, Sums, SymbolicQueue
from permitflow_proofs.kernel.queue_facts import law_obligations
from permitflow_proofs.kernel.ranking import comes_to_rest
from permitflow_proofs.kernel.symbols import Sizes, assume, assuming, integer, natural
from permitflow_proofs.kernel.theorem import Theorem

_BYTES = ("TypeOK", "BytesConserved", "BytesBounded", "BytesBatched")

INVARIANT = {name: SYSTEM.invariants[name] for name in (*_BYTES, "RowsConserved", "RowsBatched")}
"""What every reachable state satisfies; proved by induction."""


def _any_parameters() -> Parameters:
    costs = {"row_costs": Sizes(integer("largest_rows")), "byte_costs": Sizes(integer("largest_bytes"))}
    return any_parameters_of(Parameters, **costs)


def _any_chunk(name: str) -> Chunk:
    return arbitrary(Chunk, f"{name}.")


def _lawful_chunk() -> Chunk:
    chunk = _any_chunk("chunk")
    with assuming():
        assume(is_chunk(chunk, _any_parameters()))
    return chunk


def _rows_held(chunks: Sums) -> int:
    return chunks.sum_of(rows_of, add, 0)


def _bytes_held(chunks: Sums) -> int:
    return chunks.sum_of(bytes_of, add, 0)


LAWS: Mapping[str, Law] = {"row permits held": _rows_held, "bytes held": _bytes_held}
"""The sums over the chunks in a queue."""


def _any_state_of(clauses: tuple[str, ...], parameters: Parameters, more_laws: tuple[Law, ...] = ()) -> State:
    laws = (*LAWS.values(), *more_laws)
    queues = {name: SymbolicQueue.any_queue(name, _any_chunk, laws) for name in ("waiting", "wire", "inbox")}
    return assume_all([INVARIANT[name] for name in clauses], arbitrary(State, special=queues), parameters)


def _any_offer(parameters: Parameters) -> tuple[int, int, int]:
    chunk = _any_chunk("offered")
    with assuming():
        assume(is_chunk(chunk, parameters))
    return chunk.rows, chunk.expected, chunk.bytes


def _any_number(_parameters: Parameters) -> tuple[int]:
    return (natural("returned", 1),)


_ARGUMENTS: Mapping[str, Callable[[Parameters], tuple[int, ...]]] = {
    "Offer": _any_offer,
    "ReturnRows": _any_number,
    "ReturnBytes": _any_number,
}

SUBJECT = Subject(SYSTEM, _any_parameters, partial(_any_state_of, tuple(INVARIANT)), _ARGUMENTS)
"""The channel with any parameters."""

ANY_FLOW = Subject(SYSTEM, _any_parameters, partial(_any_state_of, _BYTES), _ARGUMENTS)
"""The window alone: of the permits nothing is known."""

_CHAPTER = Chapter(SUBJECT, INVARIANT, "byte-window-", promises=frozenset({"live", "all-delivered"}))

_WINDOW = Chapter(
    ANY_FLOW,
    INVARIANT,
    "byte-window-",
    promises=frozenset(
        {"bytes-conserved", "bytes-bounded", "bound-reached", "window-holds", "any-flow", "exchange", "receiver-admits"}
    ),
)
"""What holds beside any flow."""


_VIEW = ChunkView(
    as_chunk=as_chunk, queue=queue_parameters, move=queue_move, rows_held=_rows_held, stray=Chunk(1, 1, 1)
)

SEEN = Subject(
    SYSTEM,
    _any_parameters,
    partial(_any_state_of, tuple(INVARIANT), more_laws=tuple(_VIEW.laws.values())),
    _ARGUMENTS,
)
"""The channel, with what a user sees of it."""


def _holds_fewer(state: State, parameters: Parameters) -> bool:
    return state.wire.sum_of(rows_of, add, 0) < parameters.row_permits


def _window_holds(state: State, parameters: Parameters, *, larger: int) -> bool:
    """The window is kept with chunks of as many bytes as the theorem allows, or ``larger`` more."""
    assume(max(parameters.byte_costs) <= parameters.window_bytes - parameters.batch_bytes + 1 + larger)
    return state.outstanding <= parameters.window_bytes


def _reaches(more: int) -> bool:
    """A chunk of a batch less one byte, and then the largest, without anything in between."""
    parameters = _any_parameters()
    largest, before = max(parameters.byte_costs), parameters.batch_bytes - 1
    assume(parameters.row_permits >= 2)
    assume(largest >= before)
    moves = [("Offer", (1, before, before)), ("Send", ()), ("Offer", (1, largest, largest)), ("Send", ())]
    end = take(SYSTEM, parameters, SYSTEM.initial(parameters), moves)
    return end is not None and end.outstanding == before + largest + more


def _admits(state: State, parameters: Parameters, *, withheld: int) -> bool:
    """Where no chunk is under way and no bytes are; the twin: or still this many."""
    if not (state.wire.is_empty() and state.inbox.is_empty() and state.returned_bytes <= withheld):
        return True
    return SYSTEM.invariants["WindowAdmits"](state._replace(returned_bytes=0), parameters)


def _are_rows_live(parameters: Parameters, beyond: int = 0) -> bool:
    return max(parameters.row_costs) <= parameters.row_permits - parameters.permit_batch + 1 + beyond


def _live(beyond: int) -> Clause[State, Parameters]:
    """Never stuck, if the rows of a chunk are live, or this many more."""

    def live(state: State, parameters: Parameters) -> bool:
        assume(_are_rows_live(parameters, beyond))
        return SYSTEM.invariants["NeverStuck"](state, parameters)

    return live


def rank(state: State, _parameters: Parameters) -> int:
    """At most this many steps until everything that was offered is consumed and as much as possible has returned."""
    queues = (state.waiting, state.wire, state.inbox)
    held = sum(_rows_held(queue) + _bytes_held(queue) for queue in queues)
    steps = 3 * state.waiting.size() + 2 * state.wire.size() + state.inbox.size()
    back = state.unreturned_rows + state.unreturned_bytes + state.returned_rows + state.returned_bytes
    return steps + held + back


def _is_at_rest(state: State) -> bool:
    return state.waiting.is_empty() and state.wire.is_empty() and state.inbox.is_empty()


def _exchange_holds(fewer: int) -> bool:
    """An exchange between two channels: what has come, one chunk between them, and what it has sent."""
    into, out_of = _any_parameters(), _any_parameters()
    first, second = ANY_FLOW.any_state(into), ANY_FLOW.any_state(out_of)
    between = natural("between")
    largest = max(into.byte_costs)
    assume(between <= largest)
    return bytes_in(first) + between + second.outstanding <= most_bytes(into) + largest + most_bytes(out_of) - fewer


# Arithmetic of a chunk on its way.  All that was sent before it has arrived when it does, in order; what was back at
# the sender when it left had been returned by the receiver, which may have returned more when it arrives.


def _refuses_none(late: int) -> bool:
    """A chunk that the sender may send is one that the receiver may take, by what it holds then."""
    parameters = _any_parameters()
    expected, size_bytes = natural("expected"), natural("bytes")
    sent_before, heard_then, returned_by_now = natural("sent before"), natural("heard then"), natural("returned by now")
    assume(size_bytes <= expected)
    assume(heard_then <= returned_by_now + late)
    assume(returned_by_now <= sent_before)
    with assuming():
        assume(admits(sent_before - heard_then, expected, parameters))
    return admits(sent_before - returned_by_now, size_bytes, parameters)


def _refuses_no_message(late: int) -> bool:
    """Chunks that left one after the other, and travel as one message: the last of them by the rule."""
    parameters = _any_parameters()
    outstanding, before_the_last, last = natural("outstanding"), natural("before the last"), natural("last")
    held = natural("held")
    assume(held + before_the_last <= outstanding + late)
    with assuming():
        assume(admits(outstanding, last, parameters))
    return admits(held, before_the_last + last, parameters)


# Wrong designs: statements that would be true if the exception could be simpler.

_SMALL = Parameters(row_permits=3, permit_batch=2, window_bytes=3, batch_bytes=2, row_costs=(1,), byte_costs=(1, 5))


def _nothing_is_withheld(state: State, _parameters: Parameters) -> bool:
    """Where nothing is under way, nothing is outstanding."""
    return not (_is_at_rest(state) and state.returned_bytes == 0) or state.outstanding == 0


def _less_than_a_batch_is(state: State, parameters: Parameters) -> bool:
    return not (_is_at_rest(state) and state.returned_bytes == 0) or state.outstanding < parameters.batch_bytes


def _is_alone(state: State, parameters: Parameters) -> bool:
    """What exceeds the window is one chunk."""
    return state.outstanding <= max(parameters.window_bytes, max(parameters.byte_costs))


# Frames.


def _may_offer(state: State, parameters: Parameters, rows: int, expected: int, size_bytes: int) -> bool:
    is_exact = size_bytes == expected or (parameters.estimates and size_bytes < expected)
    return state.waiting.size() < parameters.waiters and is_exact


def _may_withdraw(state: State, parameters: Parameters) -> bool:
    return parameters.withdrawals and state.waiting.size() > 0


def _both_admit(state: State, parameters: Parameters) -> bool:
    if state.waiting.size() == 0:
        return False
    chunk = state.waiting.head()
    has_room = state.outstanding + chunk.expected <= parameters.window_bytes
    return chunk.rows <= state.permits and (has_room or state.outstanding < parameters.batch_bytes)


def _counts_both(before: State, after: State, _parameters: Parameters) -> bool:
    chunk = before.waiting.head()
    return after.permits == before.permits - chunk.rows and after.outstanding == before.outstanding + chunk.bytes


def _collects_both(before: State, after: State, parameters: Parameters) -> bool:
    chunk = before.inbox.head()
    rows, size_bytes = before.unreturned_rows + chunk.rows, before.unreturned_bytes + chunk.bytes
    rows_return = rows >= parameters.permit_batch
    bytes_return = (rows_return and parameters.together) or size_bytes >= parameters.batch_bytes
    return (
        after.unreturned_rows == (0 if rows_return else rows)
        and after.unreturned_bytes == (0 if bytes_return else size_bytes)
        and after.unreturned_rows + after.returned_rows == rows + before.returned_rows
        and after.unreturned_bytes + after.returned_bytes == size_bytes + before.returned_bytes
    )


def _rows_arrive(before: State, after: State, _parameters: Parameters) -> bool:
    return after.permits + after.returned_rows == before.permits + before.returned_rows


def _bytes_arrive(before: State, after: State, _parameters: Parameters) -> bool:
    return after.outstanding - after.returned_bytes == before.outstanding - before.returned_bytes


FRAMES: tuple[Frame[State, Parameters], ...] = (
    Frame("Offer", {"waiting": +1}, when=_may_offer, possible="up to Waiters; more may be expected with Estimates"),
    Frame("Withdraw", {"waiting": -1}, when=_may_withdraw, possible="where that is allowed, and a chunk waits"),
    Frame(
        "Send",
        {"waiting": -1, "wire": +1, "permits": None, "outstanding": None},
        _counts_both,
        "by the rows and the bytes of the chunk",
        when=_both_admit,
        possible="where the sender has its permits, and the window has room or less than a batch is outstanding",
    ),
    Frame("Deliver", {"wire": -1, "inbox": +1}, when=lambda state, _: state.wire.size() > 0, possible="where one is"),
    Frame(
        "Consume",
        {
            "inbox": -1,
            **dict.fromkeys(("unreturned_rows", "returned_rows", "unreturned_bytes", "returned_bytes")),
        },
        _collects_both,
        "the rows and the bytes of the chunk are collected; a batch that is complete returns whole, and with rows also "
        "the bytes if Together",
        when=lambda state, _: state.inbox.size() > 0,
        possible="where there is one",
    ),
    Frame(
        "ReturnRows",
        {"returned_rows": None, "permits": None},
        _rows_arrive,
        "together unchanged",
        when=lambda state, _, rows: rows <= state.returned_rows,
        possible="as many as are on their way",
    ),
    Frame(
        "ReturnBytes",
        {"returned_bytes": None, "outstanding": None},
        _bytes_arrive,
        "both less by the same",
        when=lambda state, _, size_bytes: size_bytes <= state.returned_bytes,
        possible="as many as are on their way",
    ),
)
"""What each action changes."""

ANY = Subject(SYSTEM, _any_parameters, partial(_any_state_of, ()), _ARGUMENTS)
"""The channel in any state at all."""


def _laws() -> Iterator[SymbolicObligation]:
    for name, law in LAWS.items():
        yield from law_obligations(name, law, _lawful_chunk, lambda: _any_chunk("chunk"))


def theorems() -> tuple[Theorem, ...]:
    """All of them."""
    follows, always = SUBJECT.holds_whenever_invariant, ANY_FLOW.holds_whenever_invariant
    return (
        _CHAPTER.theorem(
            "queue-laws",
            "BytesIn",
            "Chunks in a queue together hold no negative number of row permits or bytes.",
            *_laws(),
        ),
        _CHAPTER.kept(
            "type-ok",
            "TypeOK",
            "No count is ever negative: neither ledger is overdrawn.",
            lambda state, _: state._replace(permits=-1),
            "-1 permits",
        ),
        _CHAPTER.kept(
            "rows-conserved",
            "RowsConserved",
            "Each row permit is at the sender, held by a chunk, collected, or on its way back, after any number of "
            "steps.",
            lambda state, _: state._replace(returned_rows=state.returned_rows + 1),
            "after the step one more returns",
        ),
        _WINDOW.kept(
            "bytes-conserved",
            "BytesConserved",
            "Each byte that the sender counts as outstanding is in a chunk in the channel, collected, or on its way "
            "back, after any number of steps.",
            lambda state, _: state._replace(outstanding=state.outstanding + 1),
            "after the step one more is outstanding",
        ),
        _CHAPTER.kept(
            "rows-batched",
            "RowsBatched",
            "Less than a batch of row permits is collected.",
            lambda state, parameters: state._replace(unreturned_rows=state.unreturned_rows + parameters.permit_batch),
            "after the step a batch more is",
        ),
        _WINDOW.kept(
            "bytes-batched",
            "BytesBatched",
            "Less than a batch of bytes is collected.",
            lambda state, parameters: state._replace(unreturned_bytes=state.unreturned_bytes + parameters.batch_bytes),
            "after the step a batch more is",
        ),
        _WINDOW.kept(
            "bytes-bounded",
            "BytesBounded",
            "With C as the bytes of the largest chunk, at most max(window_bytes, batch_bytes - 1 + C) bytes are "
            "outstanding: sent, and not returned. A receiver keeps no more than these.",
            lambda state, parameters: state._replace(outstanding=most_bytes(parameters) + 1),
            "after the step one more is outstanding",
        ),
        _WINDOW.theorem(
            "bound-reached",
            "BytesBounded",
            "That bound is reached, whatever the window: a chunk of batch_bytes - 1 leaves, and then the largest one.",
            claim("the largest chunk leaves", _reaches, "one byte more is outstanding"),
        ),
        _WINDOW.theorem(
            "window-holds",
            "WindowHolds",
            "If no chunk is larger than window_bytes - batch_bytes + 1, no more than window_bytes are outstanding: the "
            "window is the bound.",
            always(
                "in every state",
                partial(_window_holds, larger=0),
                partial(_window_holds, larger=1),
                "a chunk of one byte more",
            ),
        ),
        _CHAPTER.theorem(
            "rows-bounded",
            "RowsBounded",
            "The chunks in the channel hold at most row_permits, whatever the window.",
            follows("in every state", SYSTEM.invariants["RowsBounded"], _holds_fewer, "fewer"),
        ),
        _WINDOW.theorem(
            "any-flow",
            "WindowAdmits",
            "Where no chunk is under way or unconsumed, and no bytes are on their way back, the window admits any "
            "chunk, however large. This is shown of any numbers of permits: so whatever flow stands beside the window, "
            "what waits for ever waits for its flow.",
            always(
                "in every state", partial(_admits, withheld=0), partial(_admits, withheld=1), "one byte is on its way"
            ),
        ),
        _WINDOW.theorem(
            "receiver-admits",
            "ReceiverAdmits",
            "Arithmetic of one message, not a statement about states: a receiver that applies the rule to what it "
            "holds refuses no chunk that was sent by the rule, and no message of several, because it never holds more "
            "than was outstanding when the last chunk left. So it may take a refusal for a fault of the sender.",
            claim("a chunk", _refuses_none, "a byte is back at the sender before the receiver returned it"),
            claim("several chunks in one message", _refuses_no_message, "likewise"),
        ),
        _CHAPTER.theorem(
            "live",
            "NeverStuck",
            "If no chunk costs more than row_permits - permit_batch + 1, then while a chunk waits some step of the "
            "protocol is possible: two ledgers that withhold, each for itself, are not stuck. Bytes need no condition.",
            follows("in every state", _live(0), _live(1), "a chunk of one permit more"),
        ),
        _CHAPTER.theorem(
            "rank",
            "Protocol",
            "3 for each chunk that waits, 2 in flight, 1 in the inbox, and one for each row permit and byte that "
            "these hold, that is collected or is on its way back: this falls with every step of the protocol, and only "
            "Offer raises it. So until then the protocol takes no more steps than that.",
            *comes_to_rest(SUBJECT, rank, unless=("Offer",)),
        ),
        _CHAPTER.theorem(
            "all-delivered",
            "EveryChunkLeaves",
            "With the same condition: where the protocol can do nothing more, everything offered is consumed.",
            SUBJECT.comes_to(_is_at_rest, lambda parameters: not _are_rows_live(parameters)),
        ),
        _WINDOW.theorem(
            "exchange",
            "BytesBounded",
            "An exchange that passes chunks on from one such channel to another keeps at most the bounds of both and "
            "one chunk: what has come, what it has in hand, and what it has sent and keeps to send it again.",
            claim("any two channels", _exchange_holds, "one byte less"),
        ),
        Theorem(
            id="byte-window-alone-at-its-word",
            statement=(
                "False: where nothing is under way, nothing is outstanding. So a chunk larger than the window must not "
                "wait until it is alone: the receiver may withhold a batch less one byte."
            ),
            module="ByteWindow",
            operator="AdmitsBytes",
            expected="refuted",
            obligations=(
                Refutation(
                    "a state where it is false",
                    _nothing_is_withheld,
                    _less_than_a_batch_is,
                    "less than a batch is",
                    SUBJECT.always,
                    SYSTEM,
                    _SMALL,
                ),
            ),
        ),
        Theorem(
            id="byte-window-a-chunk-alone",
            statement=(
                "False: what exceeds the window is one chunk alone. Less than a batch may be outstanding besides, so "
                "the bound is batch_bytes - 1 and the largest chunk."
            ),
            module="ByteWindow",
            operator="AloneProbe",
            expected="refuted",
            obligations=(
                Refutation(
                    "a state where it is false",
                    _is_alone,
                    SYSTEM.invariants["BytesBounded"],
                    "batch_bytes - 1 and one chunk",
                    SUBJECT.always,
                    SYSTEM,
                    _SMALL,
                ),
            ),
        ),
        Theorem(
            id="byte-window-refines-queue",
            is_promise=True,
            statement=(
                "With a window a channel is the first-in, first-out queue of chunks that it is without one, and these "
                "cost at most row_permits together: Send puts the oldest waiting chunk in, Consume gets the oldest one "
                "out, Offer and Withdraw change the line, and no other step can be seen."
            ),
            module="ByteWindowRefinement",
            operator="IsQueue",
            obligations=_VIEW.obligations(SEEN, lambda: _any_chunk("chunk")),
        ),
        _CHAPTER.framed(FRAMES, ANY),
    )
