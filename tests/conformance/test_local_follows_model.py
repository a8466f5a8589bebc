"""The local channel follows the model through runs that Hypothesis draws."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from permitflow.channels.interface import ReceiveEnd, SendEnd
from permitflow.channels.local import open_channel
from permitflow.protocol.messages import Message
from permitflow.protocol.permits import ChannelParameters
from permitflow.protocol.recording import RecorderFactory
from tests.support.led_channels import machine_for


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


def test_the_local_channel_follows_the_model(run: asyncio.Runner) -> None:
    run_state_machine_as_test(machine_for(Local(), run), settings=settings(stateful_step_count=50))
