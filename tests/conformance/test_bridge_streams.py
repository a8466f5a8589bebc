"""The model leads a channel that is read once, in an exchange: real streams on both sides, which settle each time."""

import asyncio
from contextlib import AsyncExitStack
from random import Random
from typing import Any

import pytest

from permitflow import ChannelParameters
from permitflow.client import EndOutcome, get, put
from permitflow.errors import ChannelResetError, EndOfStream, PermitflowError
from permitflow.exchange import BridgeChannel
from permitflow.stream.session import State as Session
from permitflow_model.bridge import SYSTEM, Parameters, State
from tests.support.endpoints import CHANNEL, SCHEMA, chunk
from tests.support.number_streams import until
from tests.support.served import served

PARAMETERS = Parameters(producer_window=1, channel_window=1, consumer_window=1, total=6, consumers=2)
ROWS = 2
"""Of each chunk; a message of the model."""
WINDOW = ChannelParameters(row_permits=ROWS, permit_batch=1, max_chunk_cost=ROWS)
STEPS = {
    "Offer": 8,
    "Claim": 4,
    "Consume": 6,
    "EndStream": 1,
    "Abort": 1,
    "LoseProducer": 1,
    "Cancel": 1,
    "LoseReader": 1,
    "Purge": 1,
    "Reset": 1,
}
"""What the applications do, and how often."""
SOON_SECONDS = 30.0


def settled(state: State) -> State:
    """The exchange, and the consumer that reads the end, do all they can."""
    while True:
        for action in SYSTEM.actions:
            if not action.is_environment and SYSTEM.is_enabled(action.name, state, PARAMETERS):
                state = SYSTEM.perform(action.name, state, PARAMETERS)
                break
        else:
            return state


class Led:
    """A producer and consumers of an exchange's channel."""

    def __init__(self, stack: AsyncExitStack, address: str, channel: BridgeChannel, sender: Any) -> None:
        self.stack, self.address, self.channel, self.sender = stack, address, channel, sender
        self.receiver: Any = None
        self.ending: asyncio.Task[EndOutcome] | None = None
        self.offered = 0
        self.received: list[int] = []

    async def offer(self) -> None:
        await self.sender.send(chunk(self.offered * ROWS, ROWS))
        self.offered += 1

    async def end_stream(self) -> None:
        until = EndOutcome.CONSUMED if PARAMETERS.waits else EndOutcome.ACCEPTED
        self.ending = asyncio.create_task(self.sender.end(until=until))

    async def abort(self) -> None:
        self.sender.abort("tired")

    async def lose_producer(self) -> None:
        self.sender.close()
        if self.ending is not None:
            with pytest.raises(PermitflowError):
                await self.ending
            self.ending = None

    async def claim(self) -> None:
        self.receiver = await self.stack.enter_async_context(get(self.address, CHANNEL))

    async def consume(self) -> None:
        message = await self.receiver.receive()
        self.received.append(message.payload.column(0)[0].as_py())

    async def cancel(self) -> None:
        await self.receiver.cancel("enough")

    async def lose_reader(self) -> None:
        self.receiver.close()

    async def purge(self) -> None:
        await self.channel.purge(SOON_SECONDS)

    async def reset(self) -> None:
        self.channel.retire(ChannelResetError)

    async def compare(self, before: State, state: State) -> None:
        """What is told comes, and the channel is as full as it is to be."""
        books, receiver = self.channel.books, self.channel.receiver
        await until(lambda: books.state.value == state.channel.phase)
        await until(lambda: (books.consumer is None) == (state.consumer.life == "none"))
        if state.channel.phase in ("open", "ended"):
            due = state.channel.held, ROWS * state.channel.taken
            await until(lambda: (receiver.unconsumed, self.channel.sender.statistics().sent_rows) == due)
        if state.producer.told != before.producer.told:
            await self.compare_told(state.producer.told)
        if state.consumer.seen not in (before.consumer.seen, "none", "cancelled"):
            with pytest.raises(PermitflowError) as told:
                await self.to_the_end()
            assert isinstance(told.value, EndOfStream) == (state.consumer.seen == "end")
        assert self.ending is None or self.ending.done() == (state.producer.told != "none")
        assert len(self.received) == state.consumed
        assert sorted(set(self.received)) == self.received

    async def to_the_end(self) -> None:
        while True:
            await self.receiver.receive()

    async def compare_told(self, told: str) -> None:
        if told == "error":
            await until(lambda: self.sender.state is Session.FAILED)
            with pytest.raises(PermitflowError):
                await (self.ending or self.sender.end())
        else:
            assert (await (self.ending or self.sender.end())).value == told
            self.ending = None


async def led(seed: int, listen: str) -> set[str]:
    random, done, state = Random(seed), set[str](), SYSTEM.initial(PARAMETERS)
    opened = served(CHANNEL, parameters=WINDOW, schema=SCHEMA, listen=listen)
    async with asyncio.timeout(SOON_SECONDS), opened as (exchange, address), AsyncExitStack() as stack:
        sender = await stack.enter_async_context(put(address, CHANNEL, SCHEMA))
        run = Led(stack, address, exchange.channel(CHANNEL), sender)
        for _ in range(40):
            steps = [name for name in STEPS if SYSTEM.is_enabled(name, state, PARAMETERS)]
            if state.consumer.has_end:  # it reads on where a channel is reset; the model ends its stream
                steps = [name for name in steps if name != "Reset"]
            if not steps:
                break
            (name,) = random.choices(steps, [STEPS[each] for each in steps])
            done.add(name)
            await getattr(run, "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_"))()
            before, state = state, settled(SYSTEM.perform(name, state, PARAMETERS))
            await run.compare(before, state)
        if run.ending is not None:
            run.ending.cancel()
        sender.close()
    return done


@pytest.mark.parametrize("seed", range(4))
async def test_streams_and_channel_are_told_what_the_model_says(seed: int) -> None:
    await led(seed, "tcp://127.0.0.1:0")


@pytest.mark.long
async def test_each_step_of_the_applications_is_led() -> None:
    done = [await led(seed, "tcp://127.0.0.1:0") for seed in range(4, 120)]
    assert set[str]().union(*done) == set(STEPS)
