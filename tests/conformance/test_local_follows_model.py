"""The local channel follows the model through runs that Hypothesis draws."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from permitflow.channels.interface import ReceiveEnd, SendEnd
from permitflow.channels.local import open_channel
from permitflow.protocol.messages import Message
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.recording import RecorderFactory
from tests.support.channel_machine import ChannelMachine, machine_for
from tests.support.rehearsal import rehearse


class Local:
    """Channels inside this process."""

    timeout_seconds = 0.2

    @asynccontextmanager
    async def open(
        self, parameters: ChannelParameters, record: RecorderFactory | None
    ) -> AsyncIterator[tuple[SendEnd[object], ReceiveEnd[object]]]:
        yield open_channel(parameters, name="local", record=record)

    def streams(self, sender: SendEnd[object], receiver: ReceiveEnd[object]) -> Sequence[str]:
        return ("local",)

    def chunk(self, serial: int, rows: int) -> object:
        return serial

    def serial(self, message: Message[object]) -> int | None:
        assert isinstance(message.payload, int)
        return message.payload


class WatchedAndUnwatched(ChannelMachine):
    """Makes each run once more without a recorder: the channel takes shorter ways then."""

    def teardown(self) -> None:
        super().teardown()
        if self.run is not None and self.run.is_healthy:
            self.runner.run(rehearse(self.kind, self.run.agreed, self.run.made))


def test_the_local_channel_follows_the_model_watched_or_not(run: asyncio.Runner) -> None:
    machine = machine_for(Local(), run, base=WatchedAndUnwatched)

    run_state_machine_as_test(machine, settings=settings(stateful_step_count=50))
