"""The two ends with no wire between them: what leaves the one is at the other in the same step.

Each function does what the two ends' own methods do one after the other.  They know their private fields, because
most of the time of a local channel would go into calls.
"""

from collections.abc import Sequence
from typing import TypeVar

from permitflow.protocol.messages import Message, PlainChunk
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.receiver import PermitReceiver
from permitflow.protocol.recording import Recorder
from permitflow.protocol.sender import PermitSender

__all__ = [
    "leave_directly",
    "open_ends",
    "receive_all_directly",
    "return_directly",
    "send_directly",
    "send_many_directly",
]

T = TypeVar("T")


def open_ends(
    parameters: ChannelParameters, *, of_sender: Recorder | None = None, of_receiver: Recorder | None = None
) -> tuple[PermitSender[T], PermitReceiver[T]]:
    """Both ends of a new channel; where nobody records, the receiver looks up what the sender counts for both."""
    sender: PermitSender[T] = PermitSender(parameters, record=of_sender)
    is_recorded = of_sender is not None or of_receiver is not None
    return sender, PermitReceiver(parameters, record=of_receiver, peer=None if is_recorded else sender)


def send_directly(sender: PermitSender[T], receiver: PermitReceiver[T], payload: T, rows: int) -> bool:
    """Offer a chunk, let it leave and deliver it at once, if all that can be done now.

    Where it cannot leave now as it is (it would have to wait, or to be split), change nothing and say so.

    Spec: OfferChunk, SendChunk, Deliver.
    """
    if not 0 < rows <= sender.largest_at_once:
        return _send_unusual(sender, receiver, payload, rows)
    left = sender._row_permits - rows
    if left < 0 or sender._chunks:
        return False
    sender._row_permits = left
    sender.sent_chunks += 1
    receiver._row_permits -= rows
    receiver._payloads.append(payload)
    receiver._costs.append(rows)
    receiver._is_quiet = False
    return True


def leave_directly(sender: PermitSender[T], rows: int) -> bool:
    """As ``send_directly``, of a chunk that the caller brings to the other end; one that is unusual stays.

    Spec: OfferChunk, SendChunk.
    """
    left = sender._row_permits - rows
    if left < 0 or not 0 < rows <= sender.largest_at_once or sender._chunks:
        return False
    sender._row_permits = left
    sender.sent_chunks += 1
    return True


def _send_unusual(sender: PermitSender[T], receiver: PermitReceiver[T], payload: T, rows: int) -> bool:
    """The same by the general way: an empty or oversize chunk, a recorded channel."""
    if sender._chunks or rows < 0 or (rows > sender._clamp and sender._splits):
        return False
    if sender.parameters.cost_of(rows) > sender._row_permits:
        return False
    sender.offer_chunk(payload, rows)
    receiver.deliver(sender.send_chunk())
    return True


def send_many_directly(
    sender: PermitSender[T], receiver: PermitReceiver[T], payloads: Sequence[T], rows: Sequence[int]
) -> None:
    """Let chunks leave and deliver them, of which the caller has seen that ``send_directly`` would send each.

    Spec: OfferChunk, SendChunk, Deliver.
    """
    # Both made first: making them may run finalizers, which may send something.
    new_payloads, new_costs = iter(payloads), iter(rows)
    sender._row_permits -= sum(rows)
    sender.sent_chunks += len(rows)
    receiver._payloads.extend(new_payloads)
    receiver._costs.extend(new_costs)
    receiver._is_quiet = False


def receive_all_directly(sender: PermitSender[T], receiver: PermitReceiver[T]) -> list[Message[T]]:
    """Consume all that is here and return its permits, if it is nothing but chunks that cost their rows.

    Otherwise, and where somebody records or a message was taken, change nothing: the list is empty then.

    Spec: Consume, Flush, AddPermits.
    """
    if not (receiver._is_quiet or receiver._note_arrivals()):
        return []
    costs, payloads = list(receiver._costs), list(receiver._payloads)
    if not receiver.is_just(payloads, costs):
        return []
    receiver._costs.clear()
    receiver._payloads.clear()
    rows = receiver._unreturned + sum(costs)
    receiver._unreturned = 0
    sender._row_permits += rows
    sender._returned_rows += rows
    messages: list[Message[T]] = []
    for payload, cost in zip(payloads, costs, strict=True):
        message: PlainChunk[T] = PlainChunk()  # ``plain_chunk`` without the call
        message.payload = payload  # type: ignore[assignment]  # a cost above 0 says that it is a T
        message.rows = message.cost = cost
        messages.append(message)
    return messages


def return_directly(sender: PermitSender[T], receiver: PermitReceiver[T]) -> None:
    """Bring back to the sender what is due and, once everything that came was consumed, the residue.

    Spec: Flush, AddPermits.
    """
    receiver.has_returns = False
    if receiver._due_barriers or receiver._due_watermarks or not sender.largest_at_once:
        _return_unusual(sender, receiver)
        return
    rows = receiver._due_rows
    receiver._due_rows = 0
    if not receiver._costs:
        rows += receiver._unreturned
        receiver._unreturned = 0
    receiver._row_permits += rows
    receiver._returned_rows += rows
    here = sender._row_permits
    if here < sender._least_row_permits:
        sender._least_row_permits = here
    sender._row_permits = here + rows
    sender._returned_rows += rows


def _return_unusual(sender: PermitSender[T], receiver: PermitReceiver[T]) -> None:
    """The same by the general way: barriers, watermarks, a recorded channel."""
    if receiver.is_due:
        sender.add_permits(receiver.take_due())
    residue = receiver.flush()
    if residue is not None:
        sender.add_permits(residue)
