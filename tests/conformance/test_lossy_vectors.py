"""Published vectors of flow control over lossy networks, each played by the model and a link side by side.

After each move both are in the same state, or both have refused it.  Vectors of permits that are added are played by
the model alone, in tests/model/test_lossy_channel.py; those of time and of wrong peers by the ends alone, in
tests/impl/carriers/datagrams/test_link.py.
"""

from collections.abc import Mapping
from typing import NamedTuple

import pytest

from permitflow_model.lossy_channel import SYSTEM, Parameters
from permitflow_testing.moves import Lockstep, Move
from tests.conformance.test_lossy_channel import DrivenLink


class Sender(NamedTuple):
    """What it counts."""

    sent: int
    acked: int
    limit: int


class Vector(NamedTuple):
    """Moves, and what the sender counts behind them; ``~`` is before a move that both must refuse."""

    window: int
    parts: tuple[tuple[str, Sender], ...]


ONE_ROUND = "Deliver Consume Acknowledge "

VECTORS: Mapping[str, Vector] = {
    "limits that come late or twice change nothing": Vector(
        3,
        (
            ("Send Send Send " + 3 * ONE_ROUND + "ReorderFeedback ReorderFeedback", Sender(3, 0, 3)),
            # They come as 6, 4, 5 and 5.
            ("Hear", Sender(3, 3, 6)),
            ("~Hear Ignore", Sender(3, 3, 6)),
            ("DuplicateFeedback Ignore ~Hear Ignore", Sender(3, 3, 6)),
        ),
    ),
    "a lost limit is told again and heals": Vector(
        1,
        (
            ("Send Deliver Acknowledge Consume Hear Acknowledge LoseFeedback ~Send", Sender(1, 1, 1)),
            ("Remind Acknowledge Hear Send", Sender(2, 1, 2)),
        ),
    ),
    "QUIC: after a loss the current limit is told": Vector(
        2, ((f"Send Send {ONE_ROUND} LoseFeedback {ONE_ROUND} Hear", Sender(2, 2, 4)),)
    ),
    "AMQP: a limit does not forget what is under way": Vector(
        # The receiver grants 6 from number 1 on, and number 1 crosses: 5 are left, and not 6.
        6,
        ((f"Send {ONE_ROUND} Send Hear", Sender(2, 1, 2 + 5)),),
    ),
    "RSocket: request 3, three, silence; request 3, three": Vector(
        3,
        (
            ("Send Send Send ~Send", Sender(3, 0, 3)),
            ("Deliver Deliver Deliver Consume Consume Consume Acknowledge Hear", Sender(3, 3, 6)),
            ("Send Send Send ~Send", Sender(6, 3, 6)),
        ),
    ),
    "Akka's StreamRefs: demand that is repeated changes nothing": Vector(
        10, (("Send Send Remind Acknowledge DuplicateFeedback ~Hear Ignore ~Hear Ignore", Sender(2, 0, 10)),)
    ),
    "Akka's reliable delivery: what is confirmed and a window is requested": Vector(
        20,
        (
            ("Send Deliver Acknowledge Hear", Sender(1, 1, 20)),
            ("Consume Acknowledge Hear", Sender(1, 1, 21)),
            ("Remind Acknowledge ~Hear Ignore", Sender(1, 1, 21)),
        ),
    ),
}


@pytest.mark.parametrize("name", VECTORS)
def test_model_and_link_play_a_published_vector(name: str) -> None:
    window, parts = VECTORS[name]
    parameters = Parameters(window=window, total=99, copies=3)
    both = Lockstep(SYSTEM, DrivenLink(parameters), parameters)
    for moves, expected in parts:
        for action in moves.split():
            move = Move(action.removeprefix("~"))
            assert both.enables(move) == (move.action == action), f"{action} in {both.state}"
            both.make(move)
        assert Sender(both.state.sent, both.state.acked, both.state.limit) == expected
