"""Statistics of a flow's ends: a peak is the most that there ever was, and not what there is now."""

import random

import pytest

from permitflow import ChannelParameters, GateParameters, Kind, Parameters

AGREED = [
    ChannelParameters(row_permits=8, permit_batch=2, max_chunk_cost=3),
    GateParameters(exclusive=3, floating=4, max_chunk_cost=3),
]
"""The flows that report what was consumed."""


@pytest.mark.parametrize("agreed", AGREED, ids=lambda agreed: type(agreed).__name__)
def test_a_peak_is_the_most_that_was_seen(agreed: Parameters) -> None:
    choose = random.Random(7)
    sender, receiver = agreed.flow.outbound(agreed, record=None), agreed.flow.inbound(agreed, record=None)
    held, inbox = [0], [0]
    for step in range(200):
        # Much is sent at first, then all is consumed; the last chunk is alone.
        if (step < 50 and choose.random() < 0.6) or step == 150:
            sender.offer(Kind.CHUNK, step, choose.randrange(4) if step < 50 else 1)
        word = sender.take_announcement()
        if word is not None:
            receiver.on_announcement(word)
        for message in sender.take_sendable():
            receiver.deliver(message)
        held.append(sender.rows_held)
        inbox.append(receiver.inbox_rows)
        if choose.random() < 0.4 and receiver.inbox:
            receiver.receive_many(1)
        feedback = receiver.take_feedback(residue=True)
        if feedback is not None:
            sender.on_feedback(feedback)
    assert (sender.peak_rows_held, receiver.peak_inbox_rows) == (max(held), max(inbox))
    assert max(held) > held[-1]
    assert max(inbox) > inbox[-1] == 0
