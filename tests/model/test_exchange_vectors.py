"""Exchanges whose ends have different batches, and batches without room for a chunk: what the core refuses."""

import pytest

from permitflow_model.kernel.explore import explore
from permitflow_model.permit_channel import SYSTEM, Parameters, Permits, State, is_stuck


class Channel:
    """A run of the model."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.state: State = SYSTEM.initial(parameters)

    def do(self, *actions: str, rows: int | None = None) -> None:
        """Take steps; ``rows`` belongs to OfferChunk.

        Raises:
            Disabled: the specification does not allow it.
        """
        for action in actions:
            arguments = () if rows is None or action != "OfferChunk" else (rows,)
            self.state = SYSTEM.perform(action, self.state, self.parameters, *arguments)

    def send(self, rows: int) -> int:
        """Offer a chunk and let it leave; what it cost."""
        before = self.state.permits.rows
        self.do("OfferChunk", "SendChunk", rows=rows)
        return before - self.state.permits.rows

    def is_pending(self, rows: int) -> bool:
        """Offer a chunk; must it wait?"""
        self.do("OfferChunk", rows=rows)
        return not SYSTEM.is_enabled("SendChunk", self.state, self.parameters)

    def receive(self) -> tuple[Permits, ...]:
        """Deliver and consume one message; the permits that return now."""
        before = self.state.grants.size()
        self.do("Deliver", "Consume")
        return tuple(self.state.grants)[before:]


def test_a_receiver_with_a_larger_batch_hangs_the_sender() -> None:
    """A chunk costs at most 8 - 4 at the sender, the receiver returns at 8."""
    channel = Channel(Parameters(row_permits=8, permit_batch=8, max_chunk_cost=4, sizes=(3, 4)))
    channel.send(4)
    assert channel.receive() == ()
    channel.send(3)
    assert channel.receive() == ()
    assert (channel.state.unreturned, channel.state.permits.rows) == (7, 1)
    assert channel.is_pending(4)
    assert is_stuck(channel.state, channel.parameters)


@pytest.mark.parametrize("permit_batch_up", range(6))
def test_different_batches_are_live_up_to_one_above_the_senders(permit_batch_up: int) -> None:
    """Exhaustively for a window of 6."""
    for permit_batch_down in range(1, 9):
        max_chunk_cost = 6 - permit_batch_up
        parameters = Parameters(
            row_permits=6,
            permit_batch=permit_batch_down,
            max_chunk_cost=max_chunk_cost,
            sizes=tuple(range(1, max_chunk_cost + 1)),
        )
        never_stuck = {"NeverStuck": SYSTEM.invariants["NeverStuck"]}
        found = explore(SYSTEM, parameters, invariants=never_stuck, stop_at_violation=True)
        assert (not found.violations) == (permit_batch_down <= permit_batch_up + 1), (
            permit_batch_up,
            permit_batch_down,
        )


def test_configurations_without_room_for_a_chunk_are_refused() -> None:
    """A ``permit_batch = row_permits`` leaves a max_chunk_cost of 0, a larger one a negative one."""
    for permit_batch in (4, 5):
        with pytest.raises(ValueError, match="max_chunk_cost must be at least 1"):
            Parameters(row_permits=4, permit_batch=permit_batch, max_chunk_cost=4 - permit_batch, sizes=(1,))
