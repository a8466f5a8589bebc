"""The model leads several producers of a channel that is read once, in an exchange: real streams, which settle."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from random import Random

import pytest

from permitflow.client import EndOutcome, RemoteReceiver, RemoteSender, get, put
from permitflow.errors import ChannelAbortedError, ChannelResetError, EndOfStream, PermitflowError
from permitflow.exchange import Exchange
from permitflow.exchange.books.bridge import BridgeState
from permitflow.exchange.channels.bridge_channel import BridgeChannel
from permitflow.stream.frames import End
from permitflow.stream.session import State as Session
from permitflow_model.fan_in import SYSTEM, Parameters, Producer, State, goes, is_live, is_read
from permitflow_model.tla_values import snake_case
from tests.conformance.test_bridge_streams import RESUME_SECONDS, ROWS, WINDOW, OfChannel, read_on
from tests.support.cut_lines import ADDRESS, Network
from tests.support.endpoints import CHANNEL, SCHEMA, chunk
from tests.support.simulated_time import in_simulated_time, simulated
from tests.support.turns import turns, until

PARAMETERS = Parameters(
    producers=3, producer_window=1, channel_window=1, consumer_window=1, total=4, consumers=2, faults=4
)
STEPS = {
    "DialIn": 6,
    "Offer": 12,
    "EndStream": 2,
    "CloseStream": 1,
    "Abort": 0.1,
    "LoseProducer": 0.3,
    "CutProducer": 0.5,
    "ResumeProducer": 2,
    "Claim": 15,
    "Consume": 15,
    "Cancel": 0.4,
    "GiveUpConsumer": 0.4,
    "Purge": 1,
    "Reset": 0.3,
    "ComeTooLate": 1,
}
"""What the applications do, and how often."""

Step = tuple[str, tuple[int, ...]]


class Modelled:
    """The model, and whose messages are where: a queue that the model only counts."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.state: State = SYSTEM.initial(parameters)
        self.held = deque[tuple[int, int]]()
        """Producers, and the numbers of their messages."""
        self.handed = deque[tuple[int, int]]()

    def steps(self) -> list[Step]:
        """What the applications may do; where nothing else is left, nobody resets an empty exchange."""
        found = [
            (action.name, arguments)
            for action in SYSTEM.actions
            for arguments in action.arguments(self.parameters)
            if action.name in STEPS and SYSTEM.is_enabled(action.name, self.state, self.parameters, *arguments)
        ]
        late = [name for name, one in enumerate(self.producers) if one.life == "away" and not self.is_open]
        found += [("ComeTooLate", (name,)) for name in late[:1]]
        cut = [name for name, one in enumerate(self.producers) if one.is_cut and is_live(one)]
        # One that is cut is lost when its time is over, and so are all others that are.
        return [step for step in found if step[0] != "LoseProducer" or set(cut) <= {*step[1]}]

    @property
    def producers(self) -> list[Producer]:
        return [self.state.producers.get(name) for name in range(self.parameters.producers)]

    @property
    def is_open(self) -> bool:
        return self.state.channel.phase == "open"

    def take(self, name: str, *arguments: int) -> None:
        """The applications do this, and the exchange all it can."""
        if name == "ComeTooLate":
            return
        self._perform(name, *arguments)
        while (step := self._next()) is not None:
            self._perform(step[0], *step[1])

    def _next(self) -> Step | None:
        for action in SYSTEM.actions:
            if action.is_environment:
                continue
            for arguments in action.arguments(self.parameters):
                if SYSTEM.is_enabled(action.name, self.state, self.parameters, *arguments):
                    return action.name, arguments
        return None

    def _perform(self, name: str, *arguments: int) -> None:
        before, self.state = self.state, SYSTEM.perform(name, self.state, self.parameters, *arguments)
        if name == "TakeIn":
            one = before.producers.get(arguments[0])
            self.held.append((arguments[0], one.offered - one.incoming))
        elif name == "PassOn":
            self.handed.append(self.held.popleft())
        elif name == "Purge":
            self.held.clear()


class Led(OfChannel):
    """Several producers, and consumers."""

    def __init__(self, stack: AsyncExitStack, exchange: Exchange, model: Modelled) -> None:
        super().__init__(stack, exchange)
        self.model = model
        self.networks: dict[int, Network] = {}
        self.senders: dict[int, RemoteSender] = {}
        self.sending: dict[int, AsyncExitStack] = {}
        self.ending: dict[int, asyncio.Task[EndOutcome]] = {}
        self.unheard: set[int] = set()
        """Producers that were told their last word while they were cut."""
        self.reading = AsyncExitStack()

    # The applications.

    async def dial_in(self, name: int) -> None:
        network, sending = self.dialled(), AsyncExitStack()
        with network.dialled():
            opened = put(ADDRESS, CHANNEL, SCHEMA, resume_seconds=RESUME_SECONDS)
            self.senders[name] = await sending.enter_async_context(opened)
        self.networks[name], self.sending[name] = network, sending

    async def come_too_late(self, name: int) -> None:
        with pytest.raises(PermitflowError):
            await self.dial_in(name)

    async def offer(self, name: int) -> None:
        number = self.model.state.producers.get(name).offered
        await self.senders[name].send(chunk(self._first(name, number), ROWS))

    @staticmethod
    def _first(name: int, number: int) -> int:
        return ROWS * (100 * name + number)

    async def end_stream(self, name: int) -> None:
        self._end(name, closes_channel=False)

    async def close_stream(self, name: int) -> None:
        self._end(name, closes_channel=True)

    def _end(self, name: int, *, closes_channel: bool) -> None:
        until = EndOutcome.CONSUMED if self.model.parameters.waits else EndOutcome.ACCEPTED
        ending = self.senders[name].end(closes_channel=closes_channel, until=until)
        self.ending[name] = asyncio.create_task(ending)

    async def abort(self, name: int) -> None:
        self.senders[name].abort("tired")

    async def lose_producer(self, name: int) -> None:
        is_cut = self.model.state.producers.get(name).is_cut
        await self._leave(name)
        if is_cut:
            await asyncio.sleep(RESUME_SECONDS + 1)

    async def _leave(self, name: int) -> None:
        self.senders[name].close()
        with suppress(PermitflowError):
            await self.sending[name].aclose()
        if name in self.ending:
            with suppress(PermitflowError):
                await self.ending.pop(name)

    async def cut_producer(self, name: int) -> None:
        self.networks[name].let_down()

    async def resume_producer(self, name: int) -> None:
        network, sender = self.networks[name], self.senders[name]
        before = network.connections
        network.let_up()
        await until(lambda: network.connections > before or sender.state is not Session.OPEN)

    async def claim(self) -> None:
        reading = AsyncExitStack()
        with self.dialled().dialled():
            self.receiver = await reading.enter_async_context(get(ADDRESS, CHANNEL, resume_seconds=RESUME_SECONDS))
        self.reading = reading

    async def consume(self) -> None:
        message = await self.receiver.receive()
        assert message.payload.column(0)[0].as_py() == self._first(*self.model.handed.popleft())

    async def give_up_consumer(self) -> None:
        self.receiver.close()
        await self.reading.aclose()

    # What is seen.

    async def compare(self, step: Step, before: State) -> None:
        """What is told comes, and the channel is as full as it is to be."""
        await turns()
        state, books, sender = self.model.state, self.channel.books, self.channel.sender
        if is_read(state.channel) and not is_read(before.channel):
            with pytest.raises(EndOfStream):
                await self.receiver.receive()
            await self.reading.aclose()
        elif before.consumer.is_there and not state.consumer.is_there and step[0] not in ("Cancel", "GiveUpConsumer"):
            await self._compare_broken(self.receiver)
        await until(lambda: books.state.value == state.channel.phase)
        await until(lambda: (books.consumer is not None) == state.consumer.is_there)
        if goes(state.channel):
            due = state.channel.held, ROWS * state.channel.taken, state.line.given - state.line.served
            await until(lambda: due == (self.channel.receiver.unconsumed, *self._of_sender()))
        for name, one in enumerate(self.model.producers):
            if one.told != before.producers.get(name).told:
                self.unheard.add(name)
            if name in self.unheard and not one.is_cut:
                self.unheard.remove(name)
                await self._compare_told(name, one.told)
            if name in self.ending and not one.is_cut:
                assert self.ending[name].done() == (one.told != "none"), (name, one)
        assert sender.statistics().sent_rows == ROWS * state.channel.taken

    def _of_sender(self) -> tuple[int, int]:
        numbers = self.channel.sender.statistics()
        return numbers.sent_rows, numbers.waiting_sends

    async def _compare_broken(self, receiver: RemoteReceiver) -> None:
        """The consumer reads what had come, and hears of the break; where the end had come, it reads that."""
        has_got_end = isinstance(receiver.ended_with, End)
        with pytest.raises(PermitflowError) as told:
            await read_on(receiver)
        assert isinstance(told.value, EndOfStream) == has_got_end
        with suppress(PermitflowError):
            await self.reading.aclose()

    async def _compare_told(self, name: int, told: str) -> None:
        sender = self.senders[name]
        if told == "error":
            await until(lambda: sender.state is Session.FAILED)
            with pytest.raises(PermitflowError):
                await (self.ending.pop(name, None) or sender.end())
        else:
            outcome = await (self.ending.pop(name, None) or sender.end())
            assert outcome.value == told

    async def leave(self) -> None:
        """All leave."""
        for network in self.networks.values():
            network.let_up()
        for name in self.senders:
            await self._leave(name)
        with suppress(PermitflowError):
            await self.reading.aclose()


async def led(seed: int) -> set[str]:
    random, done = Random(seed), set[str]()
    model = Modelled(replace(PARAMETERS, waits=seed % 3 != 0))
    exchange = Exchange(parameters=WINDOW)
    exchange.add_channels([CHANNEL], schema=SCHEMA)
    async with AsyncExitStack() as stack:
        run = Led(stack, exchange, model)
        for _ in range(40):
            steps = model.steps()
            if not steps:
                break
            ((name, arguments),) = random.choices(steps, [STEPS[name] for name, _ in steps])
            done.add(name)
            before = model.state
            await getattr(run, snake_case(name))(*arguments)
            model.take(name, *arguments)
            await run.compare((name, arguments), before)
            done |= {one.told for one in model.producers}
        await run.leave()
    return done


@pytest.mark.parametrize("seed", range(8))
def test_producers_are_told_what_the_model_says(seed: int) -> None:
    in_simulated_time(led(seed))


@pytest.mark.long
def test_each_step_of_several_producers_is_led() -> None:
    done = set[str]().union(*(in_simulated_time(led(seed)) for seed in range(8, 400)))
    assert done >= {*STEPS, "accepted", "consumed", "cancelled", "error"}


@asynccontextmanager
async def one_has_closed() -> AsyncIterator[
    tuple[BridgeChannel, RemoteSender, RemoteReceiver, asyncio.Task[EndOutcome]]
]:
    """A channel, an idle producer whose message the consumer has, that consumer, and the end of the one that closed."""
    exchange = Exchange(parameters=WINDOW)
    channel = exchange.add_channel(CHANNEL, schema=SCHEMA)
    network = Network(exchange, resume_seconds=RESUME_SECONDS)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(network.close)
        with network.dialled():
            receiver = await stack.enter_async_context(get(ADDRESS, CHANNEL))
            idle, closing = [await stack.enter_async_context(put(ADDRESS, CHANNEL, SCHEMA)) for _ in range(2)]
        await idle.send(chunk(0, ROWS))
        ending = asyncio.create_task(closing.end())
        await until(lambda: receiver.ended_with is not None)
        try:
            yield channel, idle, receiver, ending
        finally:
            idle.close()
            with suppress(PermitflowError):
                await stack.aclose()


@simulated
async def test_a_reset_ends_idle_producers_behind_the_end() -> None:
    async with one_has_closed() as (channel, idle, receiver, ending):
        await receiver.receive()
        with pytest.raises(EndOfStream):
            await receiver.receive()
        assert await ending is EndOutcome.CONSUMED
        assert channel.retire(ChannelResetError) == 1
        await until(lambda: idle.state is Session.FAILED)


@simulated
async def test_a_reset_leaves_producers_that_a_consumer_has_cancelled() -> None:
    async with one_has_closed() as (channel, idle, *_):
        channel.cancel("enough")
        channel.retire(ChannelResetError)
        assert await idle.end() is EndOutcome.CANCELLED


@simulated
async def test_rows_that_a_consumer_drops_behind_the_end_are_not_consumed() -> None:
    async with one_has_closed() as (_, idle, receiver, ending):
        await receiver.cancel("enough")
        assert await ending is EndOutcome.CANCELLED
        assert await idle.end() is EndOutcome.CANCELLED


@simulated
async def test_a_channel_that_breaks_behind_its_end_stays_broken() -> None:
    async with one_has_closed() as (channel, idle, receiver, ending):
        await idle.send(chunk(ROWS, ROWS))
        with pytest.raises(ChannelAbortedError):
            await ending
        with pytest.raises(EndOfStream):
            await read_on(receiver)
        await until(lambda: channel.books.consumer is None)
        assert channel.state is BridgeState.BROKEN
