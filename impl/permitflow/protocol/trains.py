"""Many messages in one step: a train of chunks costs the core little more than one.

Each function does what so many calls of the ends' own methods do one after the other; a recorder hears of each
action.  They know the ends' private fields, for the reason that ``direct`` gives.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate, islice
from typing import TypeVar

from permitflow.errors import LocalProtocolError, OverspendError
from permitflow.protocol.messages import Message, PlainChunk, message_of, plain_chunk
from permitflow.protocol.receiver import PermitReceiver
from permitflow.protocol.sender import PermitSender

__all__ = [
    "chunks_at_hand",
    "consume_many",
    "deliver_counted",
    "deliver_many",
    "hold",
    "offer_and_send_many",
    "pass_by",
    "receive_many",
    "take_many",
]

T = TypeVar("T")

# Below that, a loop over chunks costs less than the calls that spare it.
_FEW = 8


def offer_and_send_many(sender: PermitSender[T], payloads: Iterable[T], rows: Sequence[int]) -> int:
    """Offer chunks, and let as many of the first ones leave as may now; the others were not offered.

    Args:
        sender: the end that they leave.
        payloads: the chunks.
        rows: of each of them, at least 1.

    Returns:
        How many have left: the first so many of the two sequences travel for as many permits as they have rows.
        A chunk that is empty or above the clamp, or that stands behind others that wait, does not leave this way.

    Spec: OfferChunk, SendChunk.
    """
    if sender._chunks:
        return 0
    total, left, clamp = sum(rows), sender._row_permits, sender._clamp
    if total <= left and min(rows, default=1) > 0 and (total <= clamp or max(rows) <= clamp):
        left, count = left - total, len(rows)
    else:
        left, count = _first_that_fit(rows, left, clamp)
    if sender._record is not None:
        for payload, cost in zip(payloads, rows[:count], strict=False):
            sender.offer_chunk(payload, cost)
            sender.send_chunk()
        return count
    sender._row_permits = left
    sender.sent_chunks += count
    return count


def _first_that_fit(rows: Sequence[int], left: int, clamp: int) -> tuple[int, int]:
    """How many permits are left once the first chunks have left, and how many chunks those are."""
    count = 0
    for cost in rows:
        if cost > left or not 0 < cost <= clamp:
            break
        left -= cost
        count += 1
    return left, count


def deliver_many(receiver: PermitReceiver[T], payloads: Sequence[T], rows: Sequence[int]) -> None:
    """Accept chunks from the wire that travel for as many permits as they have rows.

    Raises:
        OverspendError: the peer had no permits for all of them; nothing was changed.

    Spec: Deliver.
    """
    total = sum(rows)
    if receiver._peer is None and total <= receiver._row_permits and min(rows, default=1) < 1:
        raise OverspendError(permit_class="rows", cost=min(rows), available=receiver._row_permits)
    deliver_counted(receiver, payloads, rows, total)


def deliver_counted(receiver: PermitReceiver[T], payloads: Sequence[T], rows: Sequence[int], total: int) -> None:
    """As ``deliver_many``, of chunks of which the caller has seen that none is empty, and ``total`` rows in all.

    Raises:
        OverspendError: the peer had no permits for all of them; nothing was changed.

    Spec: Deliver.
    """
    if receiver._peer is None and total > receiver._row_permits:
        raise OverspendError(permit_class="rows", cost=total, available=receiver._row_permits)
    if receiver._record is not None:
        for payload, cost in zip(payloads, rows, strict=True):
            receiver.deliver(plain_chunk(payload, cost))
        return
    # Both made first: making them may run finalizers, which may send something.
    new_payloads, new_costs = iter(payloads), iter(rows)
    receiver._row_permits -= total
    receiver._payloads.extend(new_payloads)
    receiver._costs.extend(new_costs)
    receiver._is_quiet = False


def hold(receiver: PermitReceiver[T], count: int) -> None:
    """Note that the application has so many more of the messages here: ``take_many`` for one who knows what they are.

    So many are here that were not taken; their permits stay.
    """
    receiver._taken += count
    receiver._is_quiet = False


def take_many(receiver: PermitReceiver[T], most: int) -> list[Message[T]]:
    """Hand over the oldest messages that were not taken yet, at most so many; their permits stay."""
    start = receiver._taken
    # Copied first: making a message may run finalizers, which may do anything.
    payloads = list(islice(receiver._payloads, start, start + most))
    costs = list(islice(receiver._costs, start, start + most))
    receiver._taken = start + len(costs)
    receiver._is_quiet = False
    return [message_of(payload, cost) for payload, cost in zip(payloads, costs, strict=True)]


def chunks_at_hand(receiver: PermitReceiver[T], most: int, most_rows: int) -> list[T]:
    """The oldest chunks that cost their rows, at most so many, up to the first other message; they stay.

    None while the application holds a message.  No more than would have ``most_rows`` if all were as long as the first
    one, and another.
    """
    if receiver._taken or not receiver._costs:
        return []
    most = min(most, 1 + most_rows // max(1, receiver._costs[0]))
    costs = list(islice(receiver._costs, max(0, most)))
    count = costs.index(0) if 0 in costs else len(costs)
    return list(islice(receiver._payloads, count))  # type: ignore[arg-type]  # a cost above 0 says that it is a T


def consume_many(receiver: PermitReceiver[T], count: int) -> None:
    """Note that the application has consumed so many of the oldest messages it took.

    Permits that are to be given back now are left in ``take_due``.

    Raises:
        LocalProtocolError: the application holds fewer; nothing was changed.

    Spec: Consume.
    """
    held = receiver._taken
    if count > held:
        if not held:
            raise LocalProtocolError("nothing was taken that could have been consumed")
        raise LocalProtocolError(f"{held} messages were taken, not the {count} that are said to be consumed")
    receiver._taken = held - count
    if held == count == 1:
        receiver.try_receive()
        return
    receiver._note_arrivals()
    _consume_oldest(receiver, count)


def pass_by(receiver: PermitReceiver[T], count: int) -> None:
    """Consume so many of the oldest messages: ``receive_many`` for one who knows what they are.

    So many are here.  Permits that are to be given back now are left in ``take_due``.

    Raises:
        LocalProtocolError: the application holds a message, which is the oldest one; nothing was changed.

    Spec: Consume.
    """
    if receiver._taken:
        raise receiver._none_taken()
    if count == 1:
        receiver.try_receive()
        return
    if not receiver._is_quiet:
        receiver._note_arrivals()
    _consume_oldest(receiver, count)


def _consume_oldest(receiver: PermitReceiver[T], count: int) -> None:
    consumed: list[object] = []  # freeing payloads may run anybody's code: once all is done
    if count >= len(receiver._costs) > _FEW and receiver._is_quiet:
        payloads, costs = _consume_all_plain(receiver)
        consumed.append(payloads)
        count -= len(costs)
    while count > 0 and receiver._costs:
        payloads, costs = _consume_plain(receiver, count)
        consumed.append(payloads)
        count -= len(costs)
        if count > 0 and receiver._costs:
            consumed.append(receiver._consume(receiver._payloads.popleft(), receiver._costs.popleft()))
            count -= 1


def receive_many(receiver: PermitReceiver[T], most: int) -> list[Message[T]]:
    """Take the oldest messages and consume them at once, at most so many.

    Permits that are to be given back now are left in ``take_due``.

    Raises:
        LocalProtocolError: the application holds a message, so that "the oldest it took" is another one.

    Spec: Consume.
    """
    messages: list[Message[T]] = []
    if most >= len(receiver._costs) > _FEW and (receiver._is_quiet or receiver._note_arrivals()):
        _append_plain(messages, *_consume_all_plain(receiver))
    while len(messages) < most:
        if receiver._is_quiet or receiver._note_arrivals():
            _append_plain(messages, *_consume_plain(receiver, most - len(messages)))
            if len(messages) == most:
                break
        if (message := receiver.try_receive()) is None:
            break
        messages.append(message)
    return messages


def _append_plain(messages: list[Message[T]], payloads: list[T | Message[T]], costs: list[int]) -> None:
    for payload, cost in zip(payloads, costs, strict=True):
        chunk: PlainChunk[T] = PlainChunk()  # ``plain_chunk`` without the call
        chunk.payload = payload  # type: ignore[assignment]  # a cost above 0 says that it is a T
        chunk.rows = chunk.cost = cost
        messages.append(chunk)


def _consume_plain(receiver: PermitReceiver[T], most: int) -> tuple[list[T | Message[T]], list[int]]:
    """Consume the oldest chunks that cost their rows, at most so many, as long as there is no recorder to be told."""
    payloads: list[T | Message[T]] = []
    costs: list[int] = []
    here, waiting, batch = receiver._costs, receiver._payloads, receiver._batch
    unreturned, due = receiver._unreturned, 0
    for _ in range(min(most, len(here)) if receiver._record is None else 0):
        cost = here.popleft()
        if not cost:
            here.appendleft(0)
            break
        payloads.append(waiting.popleft())
        costs.append(cost)
        unreturned += cost
        if unreturned >= batch:
            due += unreturned
            unreturned = 0
    if costs:
        receiver._unreturned = unreturned
        receiver._due_rows += due
        receiver._consumed_chunks += len(costs)
        receiver.has_returns = not here or receiver._due_rows > 0 or receiver.is_due
    return payloads, costs


def _consume_all_plain(receiver: PermitReceiver[T]) -> tuple[list[T | Message[T]], list[int]]:
    """Consume all that is here, if it is nothing but chunks that cost their rows; otherwise change nothing."""
    payloads, costs = list(receiver._payloads), list(receiver._costs)
    ends = list(accumulate(costs, initial=receiver._unreturned))
    returned, batch = 0, receiver._batch
    while ends[-1] - returned >= batch:
        returned = ends[bisect_left(ends, returned + batch)]
    if not receiver.is_just(payloads, costs):
        return [], []
    receiver._payloads.clear()
    receiver._costs.clear()
    receiver._unreturned = ends[-1] - returned
    receiver._due_rows += returned
    receiver._consumed_chunks += len(costs)
    receiver.has_returns = True
    return payloads, costs
