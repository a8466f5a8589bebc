"""``OutstandingBytes`` and ``UnreturnedBytes``, the two ends of a byte window, refine ``ByteWindow``.

They record nothing: what they must hold is read from the model's step.  A sender and a receiver of permits stand for
those of any flow: what joins a flow to its window is in the class that all flows share.
"""

from collections import deque
from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from operator import add
from typing import Any

from permitflow.errors import ByteOverrunError, ByteOverspendError
from permitflow.flows import byte_window as core
from permitflow.flows.messages import Kind, Message, Offered
from permitflow.flows.permits import core as permits
from permitflow.flows.permits.parameters import ChannelParameters, Oversize
from permitflow_model.byte_window import SYSTEM, Chunk, Parameters, State, admits, admits_bytes, bytes_of
from permitflow_proofs.byte_window import ANY_FLOW
from permitflow_proofs.code.permit_channel.common import MODULES
from permitflow_proofs.code.refinement import attempt, fields_of, is_larger, put
from permitflow_proofs.code.stand_ins import Line, standing_in
from permitflow_proofs.kernel.chapter import claim
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.symbols import all_of, assume, equal, integer, natural, truth
from permitflow_proofs.kernel.theorem import Theorem


def _window(made: Parameters) -> core.ByteWindow:
    kept = object.__new__(core.ByteWindow)
    for name in ("window_bytes", "batch_bytes"):
        object.__setattr__(kept, name, getattr(made, name))
    return kept


def _sender(state: State, made: Parameters, *, later: bool) -> Any:
    """With nothing unwritten: the model sends and writes in one step."""
    end = core.OutstandingBytes(_window(made), is_written_later=later)
    peak = natural("peak_bytes")
    assume(state.outstanding <= peak)
    return put(end, {"outstanding_bytes": state.outstanding, "peak_bytes": peak})


def _sender_begins(wrong: int) -> bool:
    """Init: nothing is outstanding, nor unwritten, nor ever was."""
    made = ANY_FLOW.any_parameters()
    end = core.OutstandingBytes(_window(made), is_written_later=bool(truth("later")))
    counts = _counts(end)
    first = {**dict.fromkeys(counts, 0), "outstanding_bytes": SYSTEM.initial(made).outstanding + wrong}
    return equal((end.window.window_bytes, end.window.batch_bytes), (made.window_bytes, made.batch_bytes)) and (
        all_of([equal(value, first[name]) for name, value in counts.items()])
    )


def _is_unchanged(end: Any, before: dict[str, Any]) -> bool:
    return all_of([equal(value, before[name]) for name, value in _counts(end).items()])


def _counts(end: Any) -> dict[str, Any]:
    return {name: value for name, value in fields_of(end) if name.endswith("_bytes") and "window" not in name}


def _may_leave(wrong: int) -> bool:
    """The guard of Send, as far as bytes matter."""
    state, made = ANY_FLOW.any_case()
    size = natural("size_bytes")
    return bool(_sender(state, made, later=True).admits(size + wrong)) == bool(admits_bytes(state, made, size))


def _leaves(wrong: int, *, later: bool) -> bool:
    """The oldest chunk leaves: with what was expected of it, and with what it has."""
    state, made = ANY_FLOW.any_case()
    assume(state.waiting.size() > 0)
    chunk = state.waiting.head()
    assume(chunk.rows <= state.permits)
    if not later:
        assume(equal(chunk.expected, chunk.bytes))
    end = _sender(state, made, later=later)
    before = _counts(end)
    if not end.admits(chunk.expected):
        return not SYSTEM.is_enabled("Send", state, made) and _is_unchanged(end, before)
    after = SYSTEM.perform("Send", state, made)
    end.send(chunk.expected)
    most = is_larger(before["peak_bytes"], state.outstanding + chunk.expected)
    if later:
        end.shorten(chunk.expected - chunk.bytes)
        end.write(chunk.bytes)
    return all_of(
        [
            equal(end.outstanding_bytes, after.outstanding + wrong),
            equal(end.unwritten_bytes, 0),
            most.condition(end.peak_bytes),
        ]
    )


def _fit(number: int, wrong: int) -> bool:
    """As many chunks as fit leave, one after the other; bytes alone decide."""
    state, made = ANY_FLOW.any_case()
    sizes = [natural(f"size_bytes.{each}") for each in range(number)]
    end = _sender(state, made, later=False)
    sums = [0]
    for size in sizes:
        sums.append(sums[-1] + size)
    count = end.fitting(sums, number)
    may = [bool(admits(state.outstanding + sums[each], size, made)) for each, size in enumerate(sizes)]
    return all(may[:count]) and (count == number or not may[count]) and wrong == 0


def _returns(wrong: int) -> bool:
    """What the receiver has returned arrives, or a number that it cannot have returned."""
    state, made = ANY_FLOW.any_case()
    size, unwritten = integer("returned"), natural("unwritten")
    end = put(_sender(state, made, later=True), {"unwritten_bytes": unwritten})
    assume(unwritten <= state.outstanding)
    before = _counts(end)
    outcome = attempt(end, lambda end: end.on_return(size))
    is_lawful = bool(size >= 1) and bool(size <= state.outstanding - unwritten + wrong)
    if outcome.refusal is not None:
        return isinstance(outcome.refusal, ByteOverrunError) and not is_lawful and _is_unchanged(end, before)
    return is_lawful and _is_unchanged(end, {**before, "outstanding_bytes": state.outstanding - size})


def _returned_arrives(wrong: int) -> bool:
    """ReturnBytes."""
    state, made = ANY_FLOW.any_case()
    size = natural("returned", 1)
    assume(size <= state.returned_bytes)
    end = _sender(state, made, later=True)
    end.on_return(size)
    return equal(end.outstanding_bytes, SYSTEM.perform("ReturnBytes", state, made, size).outstanding + wrong)


# Both ledgers together.


def _permits(made: Parameters) -> ChannelParameters:
    kept = object.__new__(ChannelParameters)
    rows = {"row_permits": made.row_permits, "initial_permits": made.row_permits, "permit_batch": made.permit_batch}
    most = {"max_chunk_cost": max(made.row_costs), "barrier_permits": 1, "oversize": Oversize.WHOLE}
    for name, value in {**rows, **most}.items():
        object.__setattr__(kept, name, value)
    return kept


def _both_let_it_leave(wrong: int) -> bool:
    """Send: the oldest leaves if its permits are here and the window has room, and both ledgers count it.

    An empty chunk costs a permit, too.
    """
    state, made = ANY_FLOW.any_case()
    assume(state.waiting.size() > 0)
    chunk, line = state.waiting.head(), Line(state.waiting, _offered, lambda offered: offered.message.payload)
    assume(chunk.rows >= 1)
    ledger = _sender(state, made, later=False)
    sender: Any = permits.PermitSender(_permits(made))
    put(sender, {"_row_permits": state.permits, "_waiting": line, "byte_ledger": ledger})
    with standing_in(MODULES):
        message = sender.try_send()
    counts = sender.row_permits, ledger.outstanding_bytes
    if not SYSTEM.is_enabled("Send", state, made):
        return message is None and equal(counts, (state.permits, state.outstanding + wrong))
    is_oldest = message is not None and message.payload is chunk
    return is_oldest and equal(counts, (state.permits - chunk.rows, state.outstanding + chunk.expected + wrong))


def _offered(chunk: Chunk) -> Offered[Chunk]:
    return Offered(Message(Kind.CHUNK, chunk, chunk.rows), chunk.expected)


def _leave_by_both(number: int, wrong: int) -> bool:
    """Of chunks that need not wait, as many leave as may, one after the other."""
    state, made = ANY_FLOW.any_case()
    chunks = [(natural(f"rows.{each}", 1), natural(f"size_bytes.{each}")) for each in range(number)]
    assume(all_of([rows <= max(made.row_costs) for rows, _ in chunks]))
    ledger = _sender(state, made, later=False)
    sender: Any = put(permits.PermitSender(_permits(made)), {"_row_permits": state.permits, "byte_ledger": ledger})
    sums = [0, *accumulate(size for _, size in chunks)]
    with standing_in(MODULES):
        count = sender.send_now([rows for rows, _ in chunks], sums)
    most, here = _in_turn(state, made, chunks, sums)
    counts = sender.row_permits, ledger.outstanding_bytes, sender.totals.chunks
    return count == most and equal(counts, (here, state.outstanding + sums[most] + wrong, most))


def _in_turn(state: State, made: Parameters, chunks: Sequence[tuple[int, int]], sums: Sequence[int]) -> tuple[int, int]:
    """How many may leave, one after the other, and the permits that are left."""
    here, most = state.permits, 0
    for rows, size in chunks:
        if not (rows <= here and admits(state.outstanding + sums[most], size, made)):
            break
        here, most = here - rows, most + 1
    return most, here


def _are_woken(wrong: int) -> bool:
    """Of two that wait, or of two behind a barrier, as many are told to leave as may; a barrier takes no bytes."""
    state, made = ANY_FLOW.any_case()
    chunks = [(natural(f"rows.{each}", 1), natural(f"size_bytes.{each}")) for each in range(2)]
    assume(all_of([rows <= max(made.row_costs) for rows, _ in chunks]))
    line = deque(Offered(Message(Kind.CHUNK, None, rows), size) for rows, size in chunks)
    barriers = int(bool(truth("behind_a_barrier")))
    line.extendleft([Offered(Message(Kind.BARRIER, None), None)] * barriers)
    fields = {"_row_permits": state.permits, "_waiting": line, "byte_ledger": _sender(state, made, later=False)}
    sender: Any = put(permits.PermitSender(_permits(made)), fields)
    with standing_in(MODULES):
        count = sender.leavable()
    return bool(count + wrong == barriers + _in_turn(state, made, chunks, [0, chunks[0][1]])[0])


def _held(state: State) -> dict[str, int]:
    """What a receiver counts."""
    held = state.inbox.sum_of(bytes_of, add, 0) + state.unreturned_bytes
    return {"held_bytes": held, "unreturned_bytes": state.unreturned_bytes}


def _receiver(state: State, made: Parameters) -> Any:
    return put(core.UnreturnedBytes(_window(made)), _held(state))


def _receiver_begins(wrong: int) -> bool:
    """Init."""
    made = ANY_FLOW.any_parameters()
    end, first = core.UnreturnedBytes(_window(made)), _held(SYSTEM.initial(made))
    return _is_unchanged(end, {**first, "held_bytes": first["held_bytes"] + wrong})


def _arrives(wrong: int) -> bool:
    """Any chunk arrives: it is accepted where the window admits it beside those that are here."""
    state, made = ANY_FLOW.any_case()
    size = natural("size_bytes")
    end = _receiver(state, made)
    before = _counts(end)
    outcome = attempt(end, lambda end: end.require_room(size))
    may = bool(admits(before["held_bytes"], size, made))
    if not _is_unchanged(end, before):
        return False
    if outcome.refusal is not None:
        return isinstance(outcome.refusal, ByteOverspendError) and not may
    end.accept(size)
    held = equal(end.held_bytes, before["held_bytes"] + size + wrong)
    return may and all_of([held, equal(end.unreturned_bytes, state.unreturned_bytes)])


def _delivered(wrong: int) -> bool:
    """Deliver: what is on the wire is accepted, if it left in a state that the window allows (``receiver-admits``)."""
    state, made = ANY_FLOW.any_case()
    assume(state.wire.size() > 0)
    chunk = state.wire.head()
    end = _receiver(state, made)
    if attempt(end, lambda end: end.require_room(chunk.bytes)).refusal is not None:
        return not admits(state.inbox.sum_of(bytes_of, add, 0) + state.unreturned_bytes, chunk.bytes, made)
    end.accept(chunk.bytes)
    after = SYSTEM.perform("Deliver", state, made)
    return equal(end.held_bytes, after.inbox.sum_of(bytes_of, add, 0) + after.unreturned_bytes + wrong)


def _consumed(wrong: int) -> bool:
    """Consume: a batch returns as soon as it is complete; with row permits, whatever is collected does."""
    state, made = ANY_FLOW.any_case()
    assume(state.inbox.size() > 0)
    chunk = state.inbox.head()
    end = _receiver(state, made)
    after = SYSTEM.perform("Consume", state, made)
    end.consume(chunk.bytes)
    is_batch = bool(end.is_due)
    rows = state.unreturned_rows + chunk.rows
    goes_along = bool(rows >= made.permit_batch) and bool(made.together)
    returned = end.take() if is_batch or goes_along else 0
    here = after.inbox.sum_of(bytes_of, add, 0)
    return all_of(
        [
            equal(end.unreturned_bytes, after.unreturned_bytes),
            equal(end.held_bytes, here + after.unreturned_bytes),
            equal(returned + wrong, after.returned_bytes - state.returned_bytes),
            equal(end.inbox_bytes, here),
        ]
    )


def _receives(state: State, made: Parameters) -> tuple[Any, Any]:
    """A receiver of permits with these bytes, of which all that is here is consumed; and its ledger."""
    ledger, came = _receiver(state, made), natural("came_chunks")
    receiver: Any = permits.PermitReceiver(_permits(made))
    fields = {"_came_chunks": came, "consumed_chunks": came, "_rows.granted": natural("granted")}
    return put(receiver, {**fields, "byte_ledger": ledger}), ledger


def _run_arrives(wrong: int) -> bool:
    """Chunks that arrive together are accepted if both ledgers admit them; else nothing has changed."""
    state, made = ANY_FLOW.any_case()
    receiver, ledger = _receives(state, made)
    rows, size = [natural(f"rows.{each}", 1) for each in range(2)], natural("size_bytes")
    before, granted = _counts(ledger), receiver.granted.rows
    assume(all_of([each <= max(made.row_costs) for each in rows]))
    with standing_in(MODULES):
        outcome = attempt(receiver, lambda receiver: receiver.deliver_many(("a", "b"), rows, size))
    may = sum(rows) <= granted and admits(before["held_bytes"], size, made)
    left = receiver.granted.rows
    if outcome.refusal is not None:
        is_right = not may and not receiver.unconsumed and _is_unchanged(ledger, before)
        return is_right and equal(left, granted + wrong)
    return may and equal((left, ledger.held_bytes), (granted - sum(rows), before["held_bytes"] + size + wrong))


def _run_is_consumed(wrong: int) -> bool:
    """The bytes of a run are collected with its last chunk: of two runs, of two chunks and of one."""
    state, made = ANY_FLOW.any_case()
    receiver, ledger = _receives(state, made)
    sizes = [natural(f"size_bytes.{each}") for each in range(2)]
    assume(all_of([ledger.held_bytes + sum(sizes) <= made.window_bytes, receiver.granted.rows >= 3]))
    collected = []
    with standing_in(MODULES):
        receiver.deliver_many(("a", "b"), (1, 1), sizes[0])
        receiver.deliver_many(("c",), (1,), sizes[1])
        for _ in range(3):
            receiver.try_receive()
            collected.append(ledger.unreturned_bytes - state.unreturned_bytes)
    return equal(tuple(collected), (0, sizes[0], sum(sizes) + wrong))


def _dropped(wrong: int) -> bool:
    """Once the stream is over, nothing is held."""
    end = _receiver(*ANY_FLOW.any_case())
    end.drop()
    return equal(end.held_bytes, wrong) and equal(end.unreturned_bytes, 0)


def _accepts_numbers(wrong: int) -> bool:
    """The code takes the numbers that the model takes, if 64 bits hold them."""
    window, batch = integer("window"), integer("batch")
    with standing_in([core]):
        outcome = attempt(None, lambda _: core.ByteWindow(window, batch))
    is_lawful = bool(window >= 1) and bool(window < 2**63)
    least = 1 if batch != 0 else batch
    may = is_lawful and bool(least <= batch) and bool(batch <= window + wrong)
    if outcome.refusal is not None:
        return not may
    made = outcome.result
    return may and all_of([equal(made.window_bytes, window), made.batch_bytes >= 1, made.batch_bytes <= window])


_MORE = "one more"

SENDER: tuple[SymbolicObligation, ...] = (
    claim("the sender begins", _sender_begins, _MORE),
    claim("a chunk may leave", _may_leave, "of one byte more"),
    claim("a chunk leaves", lambda wrong: _leaves(wrong, later=False), _MORE),
    claim("a chunk leaves, and is written later", lambda wrong: _leaves(wrong, later=True), _MORE),
    *(claim(f"of {number} chunks as many leave as may", partial(_fit, number), "none") for number in (1, 2, 3)),
    claim("of two that wait as many are woken as may leave by both", _are_woken, "one more"),
    claim("returned bytes arrive", _returned_arrives, _MORE),
    claim("bytes come back, or too many", _returns, _MORE),
    claim("the oldest leaves by both ledgers", _both_let_it_leave, _MORE),
    *(
        claim(f"of {number} chunks as many leave as may by both", partial(_leave_by_both, number), _MORE)
        for number in (1, 2)
    ),
)

RECEIVER: tuple[SymbolicObligation, ...] = (
    claim("the receiver begins", _receiver_begins, _MORE),
    claim("any chunk arrives", _arrives, _MORE),
    claim("the next chunk arrives", _delivered, _MORE),
    claim("a chunk is consumed", _consumed, _MORE),
    claim("a run arrives, or must not by one of both ledgers", _run_arrives, _MORE),
    claim("the bytes of runs are collected", _run_is_consumed, _MORE),
    claim("the stream is over", _dropped, _MORE),
    claim("numbers are accepted", _accepts_numbers, "a batch above the window"),
)


def theorems() -> tuple[Theorem, ...]:
    """The claims about both ends."""
    return (
        Theorem(
            id="code-byte-window-sender",
            statement=(
                "The running OutstandingBytes begins, admits, counts and refuses bytes as its model does, whatever "
                "flow the window stands beside."
            ),
            module="ByteWindow",
            operator="Next",
            obligations=SENDER,
        ),
        Theorem(
            id="code-byte-window-receiver",
            statement="Likewise the running UnreturnedBytes.",
            module="ByteWindow",
            operator="Next",
            obligations=RECEIVER,
        ),
    )
