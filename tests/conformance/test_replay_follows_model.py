"""An exchange that keeps its rows follows the model of a streaming query: produced, read, acknowledged, crashed.

The model leads: Hypothesis chooses among its steps, and each of them is done with real streams to a real exchange.
Afterwards the exchange must stand where the model says, and refuse what the model does not allow.
"""

import asyncio
import re
from contextlib import AsyncExitStack

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from permitflow import ChannelParameters
from permitflow.client import AioControl, RemoteReceiver, RemoteSender, control, get, put
from permitflow.errors import RowsExpiredError, RowsForgottenError, RowsNotThereError
from permitflow.exchange import Exchange, ExchangeServer, ReplayChannel, Retention
from permitflow_model.kernel.system import Step
from permitflow_model.spark_micro_batch import SYSTEM, Parameters, State
from tests.support.turns import until

PARAMETERS = Parameters(
    row_permits=4, batch_cap=2, sizes=(1, 2, 3), horizon=12, expires=True, driver_crashes=True, faults=3
)
WINDOW = ChannelParameters(row_permits=PARAMETERS.row_permits, permit_batch=1, max_chunk_cost=PARAMETERS.row_permits)
# Of the profile's runs, for each path.
RUNS_OF_A_HUNDRED = 12
STEPS = 60
HANG_SECONDS = 200.0
# Of the event loop: far more than it takes a task to hear that there is room now.
TURNS_TO_WAKE = 1_000


def rows(start: int, stop: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(start, stop), pa.int64())})


class Query:
    """A producer, an exchange and a streaming query, which do what the model does."""

    def __init__(self, channel: ReplayChannel, address: str, sender: RemoteSender, orders: AioControl) -> None:
        self.channel = channel
        self.address = address
        self.sender = sender
        self.orders = orders
        self.tasks: dict[str, tuple[RemoteReceiver, AsyncExitStack, State]] = {}
        self.has_sent = False
        """Has the chunk that waits in the model left for the exchange, which may take it over by itself?"""
        self.missed = 0
        """Reads that found their rows acknowledged."""

    async def follow(self, step: Step[State], before: State) -> None:
        """Do what the model has just done, and compare."""
        deed = getattr(self, re.sub(r"(?<!^)(?=[A-Z])", "_", step.action).lower(), None)
        if deed is not None:  # others are the driver's own
            await deed(step.state, before)
        await self._compare(step.state)

    async def _compare(self, state: State) -> None:
        next_row = state.produced
        if self.has_sent and SYSTEM.is_enabled("Produce", state, PARAMETERS):
            next_row += state.waiting
        await self._taken_over(next_row)
        (position,) = await self.orders.positions(["c"])
        told = position.next_row, position.acknowledged_row, position.expired_row
        assert told == (next_row, state.acknowledged, state.lost)
        assert position.next_row - position.first_row <= PARAMETERS.row_permits
        with pytest.raises(RowsNotThereError):
            await self._open(position.first_row, next_row + 1)
        if state.acknowledged < state.lost:
            with pytest.raises(RowsExpiredError):
                await self._open(state.lost - 1, state.lost)
        if state.acknowledged:
            with pytest.raises(RowsForgottenError):
                await self._open(state.acknowledged - 1, state.acknowledged)

    async def _taken_over(self, next_row: int) -> None:
        """Wait until so many rows are kept; nobody may wait for room that is there."""
        turns = 0
        while self.channel.position().next_row < next_row:
            turns = turns + 1 if self.channel.waiting.running else 0
            assert turns < TURNS_TO_WAKE, "a chunk for which there is room still waits"
            await asyncio.sleep(0)

    async def _open(self, start: int, end: int) -> tuple[RemoteReceiver, AsyncExitStack]:
        async with AsyncExitStack() as stack:
            dialled = get(self.address, "c", from_row=start, to_row=end)
            receiver = await stack.enter_async_context(dialled)
            return receiver, stack.pop_all()

    async def offer(self, state: State, _: State) -> None:
        if not SYSTEM.is_enabled("Produce", state, PARAMETERS):
            await self._send(state)
            # It waits for room, or was taken over though there is none: then the rows differ.
            channel = self.channel
            await until(lambda: channel.waiting.running == 1 or channel.position().next_row != state.produced)

    async def _send(self, state: State) -> None:
        await self.sender.send(rows(state.produced, state.produced + state.waiting))
        self.has_sent = True

    async def produce(self, _: State, before: State) -> None:
        if not self.has_sent:
            await self._send(before)
        self.has_sent = False

    async def acknowledge(self, state: State, _: State) -> None:
        (position,) = await self.orders.acknowledge({"c": state.acknowledged})
        assert position.acknowledged_row == state.acknowledged

    # One order, given by a consumer or the driver.
    acknowledge_for_driver = acknowledge

    async def expire(self, state: State, _: State) -> None:
        await self.channel.expire(state.lost)

    async def run_task(self, state: State, _: State) -> None:
        self.tasks["running"] = (*await self._open(state.start, state.end), state)

    async def stage(self, _: State, __: State) -> None:
        assert await self._read("running"), "nothing of a batch is forgotten before it is committed"

    async def abandon_task(self, _: State, __: State) -> None:
        self.tasks["late"] = self.tasks.pop("running")

    async def stage_late(self, _: State, __: State) -> None:
        self.missed += not await self._read("late")

    async def _read(self, name: str) -> bool:
        """Read a task's rows to the end: all of them, and in order; or hear that they are gone."""
        receiver, stack, state = self.tasks.pop(name)
        async with stack:
            try:
                found = [n async for message in receiver for n in message.payload.column(0).to_pylist()]
            except (RowsExpiredError, RowsForgottenError):
                return False
            assert found == list(range(state.start, state.end))
            return True

    async def fail_task(self, _: State, __: State) -> None:
        await self._leave("running")

    async def crash_driver(self, _: State, __: State) -> None:
        await self._leave("running")

    async def _leave(self, name: str) -> None:
        if name in self.tasks:
            await self.tasks.pop(name)[1].aclose()

    async def leave(self) -> None:
        """However the run stands."""
        for name in list(self.tasks):
            await self._leave(name)


def test_the_exchange_does_every_step_of_the_model(run: asyncio.Runner, listen: str) -> None:
    async def lead_one(choices: list[int]) -> None:
        exchange = Exchange()
        channel = exchange.add_channel("c", WINDOW, rows(0, 0).schema, retention=Retention.REPLAY)
        async with (
            asyncio.timeout(HANG_SECONDS),
            ExchangeServer(exchange, listen) as server,
            control(server.address) as orders,
            put(server.address, "c", rows(0, 0).schema, producer="p") as sender,
        ):
            query = Query(channel, server.address, sender, orders)
            try:
                await lead(query, choices)
            finally:
                await query.leave()

    # To shorten a run that failed takes hundreds of others, each with streams of its own: minutes without a word.
    @settings(max_examples=settings().max_examples * RUNS_OF_A_HUNDRED // 100, phases=(Phase.explicit, Phase.generate))
    @given(st.lists(st.integers(0, 10**6), min_size=STEPS, max_size=STEPS))
    def lead_runs(choices: list[int]) -> None:
        run.run(lead_one(choices))

    lead_runs()


async def lead(query: Query, choices: list[int]) -> None:
    state, done = SYSTEM.initial(PARAMETERS), list[str]()
    for choice in choices:
        steps = [step for step in SYSTEM.successors(state, PARAMETERS) if step.state != state]
        if not steps:
            return
        step = steps[choice % len(steps)]
        done.append(step.action)
        try:
            await query.follow(step, state)
        except BaseException as error:
            error.add_note(f"after {', '.join(done)}")
            raise
        state = step.state
