"""The sans-IO core follows the model through runs that Hypothesis draws: it does what the model does, and refuses
what the model refuses.
"""

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from permitflow.protocol.messages import Kind, Offered
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.recording import RecorderFactory
from permitflow.testing.core_pair import CorePair
from permitflow.testing.kit.random_runs import machine_for
from permitflow.testing.moves import Divergence


def make_core(agreed: ChannelParameters, tags: int, record: RecorderFactory) -> CorePair:
    return CorePair(agreed, tags=tags, record=record)


def test_the_core_follows_the_model() -> None:
    profile = settings(stateful_step_count=60)
    run_state_machine_as_test(machine_for(make_core), settings=profile)


class GrantsOnArrival(CorePair):
    """Returns permits when a chunk arrives, and again when it is consumed."""

    def deliver(self) -> None:
        super().deliver()
        self.grants.append(self.receiver.inbox[-1].held())


class Overtaking(CorePair):
    """Lets a chunk that lacks permits go to the end of the line."""

    def offer_chunk(self, rows: int) -> None:
        super().offer_chunk(rows)
        first = self.sender.waiting[0]
        if first.kind is Kind.CHUNK and first.cost > self.sender.permits.rows and len(self._waiting) > 1:
            self.sender.withdraw(self._waiting.pop(0))
            self._waiting.append(self.sender.offer_chunk(first.payload, first.rows))


class BarrierOvertakes(CorePair):
    """Lets a barrier go before the chunks that wait, as soon as it is offered."""

    def offer_barrier(self) -> None:
        waiting = self._out_of_the_line()
        super().offer_barrier()
        self._into_the_line(waiting)

    def _out_of_the_line(self) -> list[Offered[int]]:
        waiting, self._waiting = self._waiting, []
        for offered in waiting:
            self.sender.withdraw(offered)
        return waiting

    def _into_the_line(self, waiting: list[Offered[int]]) -> None:
        for message in (offered.message for offered in waiting):
            is_chunk = message.kind is Kind.CHUNK
            payload = message.payload
            again = self.sender.offer_chunk(payload, message.rows) if is_chunk else self.sender.offer_barrier(payload)
            self._waiting.append(again)


class ForgetsWatermark(BarrierOvertakes):
    """Lets a watermark stand before what was offered before it."""

    def offer_barrier(self) -> None:
        CorePair.offer_barrier(self)

    def offer_watermark(self) -> None:
        waiting = self._out_of_the_line()
        super().offer_watermark()
        self._into_the_line(waiting)


class ReturnsTwice(CorePair):
    """Delivers a return of permits twice, where the sender's own bound does not notice."""

    def add_permits(self) -> None:
        if self.grants and self.sender.outstanding.rows >= 2 * self.grants[0].rows > 0:
            self.sender.add_permits(self.grants[0])
        super().add_permits()


@pytest.mark.parametrize("wrong", [GrantsOnArrival, Overtaking, BarrierOvertakes, ForgetsWatermark, ReturnsTwice])
def test_a_core_that_does_something_else_is_found_out(wrong: type[CorePair]) -> None:
    def make(agreed: ChannelParameters, tags: int, record: RecorderFactory) -> CorePair:
        return wrong(agreed, tags=tags, record=record)

    unshrunk = settings(settings.get_profile("unshrunk"), stateful_step_count=60, max_examples=200)
    with pytest.raises(Divergence):
        run_state_machine_as_test(machine_for(make), settings=unshrunk)
