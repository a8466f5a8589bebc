"""Many messages in one step: a train of chunks costs the core little more than one.

Each function does what so many calls of the ends' own methods do one after the other; a recorder hears of each
action.  They know the ends' private fields, for the reason that ``direct`` gives.
"""

from collections.abc import Sequence
from itertools import islice
from typing import TypeVar

from permitflow.errors import LocalProtocolError, OverspendError
from permitflow.protocol.messages import Message, Permits, message_of, plain_chunk
from permitflow.protocol.receiver import PermitReceiver
from permitflow.protocol.sender import PermitSender

__all__ = ["consume_many", "deliver_many", "offer_and_send_many", "receive_many", "take_many"]

T = TypeVar("T")


def offer_and_send_many(sender: PermitSender[T], payloads: Sequence[T], rows: Sequence[int]) -> int:
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
    left, clamp, count = sender._row_permits, sender._clamp, 0
    for cost in rows:
        if cost > left or not 0 < cost <= clamp:
            break
        left -= cost
        count += 1
    if sender._record is not None:
        for payload, cost in zip(payloads[:count], rows, strict=False):
            sender.offer_chunk(payload, cost)
            sender.send_chunk()
        return count
    sender._row_permits = left
    sender.sent_chunks += count
    return count


def deliver_many(receiver: PermitReceiver[T], payloads: Sequence[T], rows: Sequence[int]) -> None:
    """Accept chunks from the wire that travel for as many permits as they have rows.

    Raises:
        OverspendError: the peer had no permits for all of them; nothing was changed.

    Spec: Deliver.
    """
    total = sum(rows)
    if total > receiver._row_permits or min(rows, default=1) < 1:
        cost = total if total > receiver._row_permits else min(rows)
        raise OverspendError(permit_class="rows", cost=cost, available=receiver._row_permits)
    if receiver._record is not None:
        for payload, cost in zip(payloads, rows, strict=True):
            receiver.deliver(plain_chunk(payload, cost))
        return
    receiver._row_permits -= total
    receiver._payloads.extend(payloads)
    receiver._costs.extend(rows)
    receiver._is_quiet = False


def take_many(receiver: PermitReceiver[T], most: int) -> list[Message[T]]:
    """Hand over the oldest messages that were not taken yet, at most so many; their permits stay."""
    start = receiver._taken
    entries = islice(zip(receiver._payloads, receiver._costs, strict=True), start, start + most)
    messages = [message_of(payload, cost) for payload, cost in entries]
    receiver._taken += len(messages)
    return messages


def consume_many(receiver: PermitReceiver[T], count: int) -> Permits | None:
    """Note that the application has consumed so many of the oldest messages it took.

    Returns the permits to give back now, if any, of all of them together.

    Raises:
        LocalProtocolError: the application holds fewer; nothing was changed.

    Spec: Consume.
    """
    held = receiver._taken
    if count > held:
        if not held:
            raise LocalProtocolError("nothing was taken that could have been consumed")
        raise LocalProtocolError(f"{held} messages were taken, not the {count} that are said to be consumed")
    receiver._taken -= count
    receiver._note_arrivals()  # once, because nothing arrives meanwhile
    while count:
        count -= _consume_plain(receiver, count)
        if count:
            receiver._consume(receiver._payloads.popleft(), receiver._costs.popleft())
            count -= 1
    return receiver.take_due() if receiver.is_due else None


def _consume_plain(receiver: PermitReceiver[T], most: int) -> int:
    """Consume the oldest messages as long as they are chunks that cost their rows, and nobody records; say how many."""
    if not receiver._is_quiet:
        return 0
    costs = receiver._costs
    unreturned, batch, due, count = receiver._unreturned, receiver._batch, 0, 0
    while count < most and (cost := costs[0]):
        costs.popleft()
        count += 1
        unreturned += cost
        if unreturned >= batch:
            due += unreturned
            unreturned = 0
    receiver._unreturned = unreturned
    receiver._due_rows += due
    receiver.consumed_chunks += count
    receiver.has_returns = not costs or receiver.is_due
    for _ in range(count):
        receiver._payloads.popleft()  # last, because freeing payloads may run anybody's code
    return count


def receive_many(receiver: PermitReceiver[T], most: int) -> list[Message[T]]:
    """Take the oldest messages and consume them at once, at most so many.

    Permits that are to be given back now are left in ``take_due``.

    Raises:
        LocalProtocolError: the application holds a message, so that "the oldest it took" is another one.

    Spec: Consume.
    """
    messages: list[Message[T]] = []
    while len(messages) < most and (message := receiver.try_receive()) is not None:
        messages.append(message)
    return messages
