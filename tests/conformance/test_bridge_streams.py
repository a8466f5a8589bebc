"""The model leads a channel that is read once, in an exchange: real streams on both sides, which settle each time."""

import asyncio
from contextlib import AsyncExitStack
from random import Random
from typing import Any, NoReturn

import pytest

from permitflow import ChannelParameters
from permitflow.client import EndOutcome, RemoteReceiver, get, put
from permitflow.errors import ChannelAbortedError, ChannelResetError, ChannelSpentError, EndOfStream, PermitflowError
from permitflow.exchange import Exchange
from permitflow.stream.frames import End
from permitflow.stream.session import State as Session
from permitflow_model.bridge import SYSTEM, Parameters, State
from permitflow_model.tla_values import snake_case
from tests.support.cut_lines import ADDRESS, Network
from tests.support.endpoints import CHANNEL, SCHEMA, chunk
from tests.support.simulated_time import in_simulated_time
from tests.support.turns import turns, until

PARAMETERS = Parameters(producer_window=1, channel_window=1, consumer_window=1, total=6, consumers=2)
ROWS = 2
"""Of each chunk; a message of the model."""
WINDOW = ChannelParameters(row_permits=ROWS, permit_batch=1, max_chunk_cost=ROWS)
STEPS = {
    "Offer": 20,
    "Claim": 20,
    "Consume": 15,
    "EndStream": 3,
    "Abort": 1,
    "LoseProducer": 1,
    "Cancel": 1,
    "SuspendConsumer": 9,
    "ResumeConsumer": 9,
    "LoseReader": 1,
    "Purge": 1,
    "Reset": 1,
    "GiveUpConsumer": 3,  # of one without a connection: the time is over
    "Replace": 3,  # ... or another one comes
}
"""What the applications do, and how often."""
RESUME_SECONDS = 30.0


def settled(state: State) -> State:
    """The exchange, and the consumer that reads the end, do all they can; one without a connection is waited for."""
    while True:
        for action in SYSTEM.actions:
            is_given_up = action.name == "GiveUpConsumer" and state.consumer.life == "suspended"
            if action.is_environment or is_given_up or not SYSTEM.is_enabled(action.name, state, PARAMETERS):
                continue
            state = SYSTEM.perform(action.name, state, PARAMETERS)
            break
        else:
            return state


def is_possible(name: str, state: State) -> bool:
    if name == "Replace":
        return state.consumer.life == "suspended" and state.comers > 0
    return SYSTEM.is_enabled(name, state, PARAMETERS)


def following(name: str, state: State) -> State:
    """What the model does; one that is replaced is given up first, and then another one may come or not."""
    if name != "Replace":
        return settled(SYSTEM.perform(name, state, PARAMETERS))
    state = settled(SYSTEM.perform("GiveUpConsumer", state, PARAMETERS))
    return following("Claim", state) if SYSTEM.is_enabled("Claim", state, PARAMETERS) else state


async def read_on(receiver: RemoteReceiver) -> NoReturn:
    while True:
        await receiver.receive()


class OfChannel:
    """Applications at an exchange's channel, each with connections of its own."""

    receiver: Any = None
    """Of the consumer that came last."""

    def __init__(self, stack: AsyncExitStack, exchange: Exchange) -> None:
        self.stack, self.exchange, self.channel = stack, exchange, exchange.channel(CHANNEL)

    def dialled(self) -> Network:
        network = Network(self.exchange, resume_seconds=RESUME_SECONDS)
        self.stack.push_async_callback(network.close)
        return network

    async def cancel(self) -> None:
        await self.receiver.cancel("enough")

    async def purge(self) -> None:
        await self.channel.purge(RESUME_SECONDS)

    async def reset(self) -> None:
        self.channel.retire(ChannelResetError)


class Led(OfChannel):
    """A producer and consumers."""

    def __init__(self, stack: AsyncExitStack, exchange: Exchange) -> None:
        super().__init__(stack, exchange)
        self.network: Network
        """Of the consumer that came last."""
        self.sender: Any = None
        self.sending, self.reading = AsyncExitStack(), AsyncExitStack()
        self.ending: asyncio.Task[EndOutcome] | None = None
        self.offered = 0
        self.received: list[int] = []

    async def open(self) -> None:
        with self.dialled().dialled():
            opened = put(ADDRESS, CHANNEL, SCHEMA, resume_seconds=RESUME_SECONDS)
            self.sender = await self.sending.enter_async_context(opened)

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
        await self.sending.aclose()
        if self.ending is not None:
            with pytest.raises(PermitflowError):
                await self.ending
            self.ending = None

    async def claim(self) -> None:
        network, reading = self.dialled(), AsyncExitStack()
        with network.dialled():
            receiver = await reading.enter_async_context(get(ADDRESS, CHANNEL, resume_seconds=RESUME_SECONDS))
        self.network, self.receiver, self.reading = network, receiver, reading

    async def consume(self) -> None:
        message = await self.receiver.receive()
        self.received.append(message.payload.column(0)[0].as_py())

    async def lose_reader(self) -> None:
        self.receiver.close()
        await self.reading.aclose()

    async def suspend_consumer(self) -> None:
        self.network.let_down()

    async def resume_consumer(self) -> None:
        self.network.let_up()

    async def give_up_consumer(self) -> None:
        await asyncio.sleep(RESUME_SECONDS + 1)

    async def replace(self) -> None:
        former = self.network, self.receiver, self.reading
        try:
            await self.claim()
        except (ChannelAbortedError, ChannelSpentError):
            return
        await self.compare_over(*former, ended=False)

    @property
    def has_got_end(self) -> bool:
        """Has End come to the consumer that came last?"""
        return self.receiver is not None and isinstance(self.receiver.ended_with, End)

    async def compare(self, name: str, before: State, state: State) -> None:
        """What is told comes, and the channel is as full as it is to be."""
        await turns()  # End may be on its way; where a message is kept for another connection, it follows that
        books, receiver = self.channel.books, self.channel.receiver
        await until(lambda: books.state.value == state.channel.phase)
        life = state.consumer.life
        await until(lambda: (books.consumer is None) == (life == "none"))
        await until(lambda: books.consumer is None or books.consumer.is_suspended == (life == "suspended"))
        if state.channel.phase in ("open", "ended"):
            due = state.channel.held, ROWS * state.channel.taken
            await until(lambda: (receiver.unconsumed, self.channel.sender.statistics().sent_rows) == due)
        if state.producer.told != before.producer.told:
            await self.compare_told(state.producer.told)
        if name != "LoseReader" and state.consumer.seen not in (before.consumer.seen, "none", "cancelled"):
            ended = state.consumer.seen == "end"
            await self.compare_over(self.network, self.receiver, self.reading, ended=ended, is_reset=name == "Reset")
        assert self.ending is None or self.ending.done() == (state.producer.told != "none")
        assert len(self.received) == state.consumed
        assert sorted(set(self.received)) == self.received

    async def compare_over(
        self, network: Network, receiver: Any, reading: AsyncExitStack, *, ended: bool, is_reset: bool = False
    ) -> None:
        """A consumer reads what has come, and is told so; where an end had come before an error, of that first."""
        network.let_up()
        has_got_end = isinstance(receiver.ended_with, End)
        with pytest.raises(PermitflowError) as told:
            await read_on(receiver)
        assert isinstance(told.value, EndOfStream) == (ended or has_got_end)
        if not is_reset:
            await reading.aclose()
        elif has_got_end:
            with pytest.raises(ChannelResetError):
                await reading.aclose()
        else:
            assert isinstance(told.value, ChannelResetError)

    async def compare_told(self, told: str) -> None:
        if told == "error":
            await until(lambda: self.sender.state is Session.FAILED)
            with pytest.raises(PermitflowError):
                await (self.ending or self.sender.end())
        else:
            assert (await (self.ending or self.sender.end())).value == told
            self.ending = None


async def led(seed: int) -> set[str]:
    random, done, state = Random(seed), set[str](), SYSTEM.initial(PARAMETERS)
    exchange = Exchange(parameters=WINDOW)
    exchange.add_channels([CHANNEL], schema=SCHEMA)
    async with AsyncExitStack() as stack:
        run = Led(stack, exchange)
        await run.open()
        for _ in range(40):
            steps = [name for name in STEPS if is_possible(name, state)]
            if not steps:
                break
            (name,) = random.choices(steps, [STEPS[each] for each in steps])
            done.add(name + " behind the end" * run.has_got_end)
            await getattr(run, snake_case(name))()
            before, state = state, following(name, state)
            await run.compare(name, before, state)
        if run.ending is not None:
            run.ending.cancel()
        run.sender.close()
        await run.sending.aclose()
        await run.reading.aclose()
    return done


@pytest.mark.parametrize("seed", range(12))
def test_streams_and_channel_are_told_what_the_model_says(seed: int) -> None:
    in_simulated_time(led(seed))


@pytest.mark.long
def test_each_step_of_the_applications_is_led() -> None:
    done = set[str]().union(*(in_simulated_time(led(seed)) for seed in range(12, 400)))
    assert done >= {*STEPS, "Reset behind the end", "SuspendConsumer behind the end"}
