"""The sans-IO core follows the model through runs that Hypothesis draws: it does what the model does, and refuses
what the model refuses.
"""

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from permitflow.protocol.messages import Permits
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.recording import RecorderFactory
from permitflow.testing.core_pair import CorePair
from permitflow.testing.machine import machine_for
from permitflow.testing.moves import Divergence


def make_core(agreed: ChannelParameters, tags: int, record: RecorderFactory) -> CorePair:
    return CorePair(agreed, tags=tags, record=record)


def test_the_core_follows_the_model() -> None:
    profile = settings(stateful_step_count=60)
    run_state_machine_as_test(machine_for(make_core), settings=profile)


class GrantsOnArrival(CorePair):
    """Returns permits when a chunk arrives."""

    def deliver(self) -> None:
        super().deliver()
        message = self.receiver.inbox[-1]
        self.receiver._unreturned -= message.cost
        self.grants.append(Permits(rows=message.cost))


class Overtaking(CorePair):
    """Sends a small chunk before a large one that waits for permits."""

    def send_chunk(self) -> None:
        chunks = self.sender._chunks
        if chunks and chunks[0].message.cost > self.sender.permits.rows:
            chunks.rotate(-1)
            self._waiting.append(self._waiting.pop(0))
        super().send_chunk()


class ForgetsWatermark(CorePair):
    """Lets a watermark leave before chunks that were offered before it."""

    def send_watermark(self) -> None:
        self.sender._watermark_after = 0
        super().send_watermark()


class ReturnsTwice(CorePair):
    """Delivers each return of permits twice, where the sender's own bound does not notice."""

    def add_permits(self) -> None:
        if self.grants and self.sender.outstanding.rows >= 2 * self.grants[0].rows > 0:
            self.sender.add_permits(self.grants[0])
        super().add_permits()


@pytest.mark.parametrize("wrong", [GrantsOnArrival, Overtaking, ForgetsWatermark, ReturnsTwice])
def test_a_core_that_does_something_else_is_found_out(wrong: type[CorePair]) -> None:
    def make(agreed: ChannelParameters, tags: int, record: RecorderFactory) -> CorePair:
        return wrong(agreed, tags=tags, record=record)

    unshrunk = settings(settings.get_profile("unshrunk"), stateful_step_count=60, max_examples=200)
    with pytest.raises(Divergence):
        run_state_machine_as_test(machine_for(make), settings=unshrunk)
