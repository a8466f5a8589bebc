"""Random runs of the model, as an implementation would have recorded them: for testing what reads recordings."""

import itertools
import random
from collections import Counter
from collections.abc import Iterator

from permitflow.protocol.messages import Permits
from permitflow.protocol.recording import SENDER_ACTIONS, End
from permitflow.tracing.events import Event
from permitflow_model.permit_channel import SYSTEM, Message, Parameters, State, held
from permitflow_model.permit_channel_world import counters_of

__all__ = ["random_behaviour"]


def random_behaviour(
    parameters: Parameters, *, seed: int, events: int, channel: str = "channel", settle: bool = False
) -> Iterator[Event]:
    """So many steps, each chosen among all that are possible, as events with the ends' counters.

    With ``settle`` more follow, without new offers, until everything is consumed and all permits are back.
    """
    choose = random.Random(seed)
    state = SYSTEM.initial(parameters)
    sequences: Counter[End] = Counter()
    for count in itertools.count():
        steps = list(SYSTEM.successors(state, parameters))
        if count >= events:
            steps = [step for step in steps if not step.action.startswith(("Offer", "Withdraw"))] if settle else []
        if not steps:
            return
        step = choose.choice(steps)
        end: End = "sender" if step.action in SENDER_ACTIONS else "receiver"
        sequences[end] += 1
        rows, permits = _concerned(step.action, state, step.state)
        first, second, third = counters_of(step.action, step.state)
        yield Event(channel, end, sequences[end], step.action, rows, permits, None, (first, second, third))
        state = step.state


def _concerned(action: str, before: State, after: State) -> tuple[int, Permits]:
    """Rows of the message, and permits of the message or of what is returned."""
    match action:
        case "OfferChunk":
            return _of(after.waiting.last())
        case "WithdrawChunk":
            return _of(before.waiting.last())
        case "SendChunk":
            return _of(before.waiting.head())
        case "Deliver":
            return _of(before.wire.head())
        case "Consume":
            return _of(before.inbox.head())
        case "Flush":
            return 0, Permits(rows=before.unreturned)
        case "AddPermits":
            return 0, Permits(*before.grants.head())
        case _:
            return 0, Permits(barriers=1) if action.endswith("Barrier") else Permits(watermarks=1)


def _of(message: Message) -> tuple[int, Permits]:
    return message.rows, Permits(*held(message))
