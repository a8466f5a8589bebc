"""Any parameters, and messages as the code sees them: of both ends."""

from typing import Any

from permitflow.flows import byte_window, credit, seam
from permitflow.flows.messages import Kind
from permitflow.flows.messages import Message as CoreMessage
from permitflow.flows.permits import core
from permitflow.flows.permits import parameters as numbers
from permitflow.flows.permits.parameters import ChannelParameters, Oversize
from permitflow_model.kernel.queue import Queue
from permitflow_model.permit_channel import SYSTEM, Message, Parameters, cost_of, is_message
from permitflow_proofs.kernel.induction import Subject
from permitflow_proofs.kernel.symbols import assume, equal, implies, truth
from permitflow_proofs.permit_channel.arbitrary import any_parameters, any_state, is_offered_size

MODULES = (seam, core, numbers, credit, byte_window)


def any_numbers() -> Parameters:
    """Any parameters that the code accepts; whatever may be offered is."""
    made = any_parameters(tags=1, watermarks=True, flush_idle=True, withdrawals=True)
    assume(made.permit_batch < made.row_permits)
    assume(made.max_chunk_cost <= made.row_permits - made.permit_batch + 1)
    assume(made.barrier_permits >= 1)
    return made


ANY = Subject(SYSTEM, any_numbers, any_state)


def as_code(made: Parameters, splits: bool = False) -> ChannelParameters:
    """The same numbers as the code keeps them; that it accepts them is a claim of its own."""
    kept = object.__new__(ChannelParameters)
    values = {
        "row_permits": made.row_permits,
        "permit_batch": made.permit_batch,
        "max_chunk_cost": made.max_chunk_cost,
        "barrier_permits": made.barrier_permits,
        "oversize": Oversize.SPLIT if splits else Oversize.WHOLE,
        "initial_permits": made.initial_permits,
    }
    for name, value in values.items():
        object.__setattr__(kept, name, value)
    return kept


def kind_of(message: Message) -> Kind:
    """The class of a message, as the code names it; forks."""
    return next(kind for kind in Kind if message.kind == kind.value)


def shown(message: Message) -> CoreMessage[Any]:
    """A message of the model, as the code sees it; it is its own payload, so that one can tell which it is."""
    return CoreMessage(kind_of(message), message, message.rows)


def told(message: CoreMessage[Any], made: Parameters) -> Message:
    """A message that the code has made, as one of the model's."""
    cost = cost_of(message.rows, made) if message.kind is Kind.CHUNK else 1
    return Message(message.kind.value, 0, message.rows, cost)


def are_split(made: Parameters) -> bool:
    """Are larger chunks than ``max_chunk_cost`` split?  Then none is offered."""
    splits = truth("chunks_are_split")
    assume(implies(splits, equal(largest(made), made.max_chunk_cost)))
    return splits


def largest(made: Parameters) -> int:
    """The most rows of a chunk that is offered."""
    return max(made.sizes)


def followed_by(queue: Queue[Message], made: Parameters) -> Queue[Message]:
    """What is behind the oldest; what holds for all messages is known of these, too."""
    rest = queue.without_head()
    rest.every(is_message, made)
    rest.every(is_offered_size, made)
    return rest
