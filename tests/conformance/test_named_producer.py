"""The model leads an exchange that keeps the rows of a producer with a name: real streams, and a slow store."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from permitflow import ChannelParameters
from permitflow.client import put
from permitflow.errors import PermitflowError, StoreWriteError
from permitflow.exchange import ChannelStore, Exchange, Retention, Store
from permitflow.exchange.stores.store import KeptBatch, KeptChannel
from permitflow.stream.session import State as Session
from permitflow_model.kernel.system import Step
from permitflow_model.named_producer import SYSTEM, Parameters, State
from permitflow_model.tla_values import snake_case
from tests.support.cut_lines import ADDRESS, Network
from tests.support.simulated_time import in_simulated_time
from tests.support.turns import turns

PARAMETERS = Parameters(starts=4, rows=5, window=2, faults=2)
WINDOW = ChannelParameters(row_permits=PARAMETERS.window, permit_batch=1, max_chunk_cost=1)
SCHEMA = pa.schema([("n", pa.int64())])
NAME, CHANNEL = "shop", "orders"
STEPS = {
    "DialAs": 2,
    "PutRow": 12,
    "LosePutting": 2,
    "NoticePutting": 2,
    "WriteRows": 8,
    "NoteRows": 8,
    "FailWrite": 1,
    "ChangeExchange": 1,
}
"""What the producer, its connections and the store do, and how often."""


class SlowPlace(ChannelStore):
    """Keeps rows when it is told to, and says so when it is told to; what it has kept outlives the exchange."""

    def __init__(self, kept: KeptChannel, batches: Sequence[KeptBatch]) -> None:
        super().__init__(kept, batches)
        self.batches, self.noted, self.log_id = [*batches], kept.producers.get(NAME, 0), kept.log_id
        self.rows: int | None = None
        """Of the write that is under way."""
        self.may_write, self.may_tell = asyncio.Event(), asyncio.Event()
        self.fails = self.is_left = False

    async def append(
        self, first_row: int, batches: Sequence[pa.RecordBatch], producer: str = "", producer_rows: int = 0
    ) -> None:
        self.rows = sum(batch.num_rows for batch in batches)
        await self.may_write.wait()
        self.may_write.clear()
        if self.fails or self.is_left:
            self.rows, self.fails = None, False
            raise StoreWriteError(path="/dev/full", reason="the disk is full")
        for batch in batches:
            self.batches.append(KeptBatch(first_row, batch, 0))
            first_row += batch.num_rows
        self.noted = producer_rows
        await self.may_tell.wait()
        self.may_tell.clear()
        self.rows = None

    def leave(self) -> None:
        """Let the exchange go that has this place."""
        self.is_left = True
        self.may_write.set()
        self.may_tell.set()

    @property
    def log(self) -> list[int]:
        return [n for batch in self.batches for n in batch.rows["n"].to_pylist()]

    def again(self) -> "SlowPlace":
        """What another exchange finds."""
        kept = KeptChannel(
            log_id=self.log_id,
            next_row=len(self.log),
            acknowledged={"default": 0},
            producers={NAME: self.noted} if self.noted else {},
            schema=SCHEMA,
            schemas=1,
        )
        return SlowPlace(kept, self.batches)


class SlowStore(Store):
    def __init__(self, place: SlowPlace) -> None:
        super().__init__()
        self.place = place

    def open_channels(self, names: Sequence[str], **_: Any) -> list[ChannelStore]:
        return [self.place]


class Start:
    """A start of the producer: it asks for the name, sends rows from where it is told, and may be lost."""

    def __init__(self, exchange: Exchange) -> None:
        self.network = Network(exchange, is_noticed=False)
        self.sender: Any = None
        self.sent = 0
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        with self.network.dialled(), suppress(PermitflowError):
            async with put(ADDRESS, CHANNEL, SCHEMA, producer=NAME, resume_seconds=0) as sender:
                self.sent, self.sender = sender.first_row or 0, sender
                await asyncio.Event().wait()

    @property
    def phase(self) -> str:
        """As it knows."""
        if self.task.done() or (self.sender is not None and self.sender.state is Session.FAILED):
            return "over"
        return "asking" if self.sender is None else "open"

    async def put_row(self) -> None:
        await self.sender.send(pa.record_batch([pa.array([self.sent], pa.int64())], schema=SCHEMA))
        self.sent += 1

    async def close(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])
        await self.network.close()


class Led:
    """Starts of a producer, an exchange, and the one that takes its place."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self.stack = stack
        self.starts: dict[int, Start] = {}
        self.place = SlowPlace(KeptChannel(), ())
        self.exchange = self.opened()

    def opened(self) -> Exchange:
        exchange = Exchange(parameters=WINDOW, store=SlowStore(self.place))
        exchange.add_channels([CHANNEL], schema=SCHEMA, retention=Retention.REPLAY, kept_rows=PARAMETERS.rows)
        return exchange

    async def dial_as(self, name: int) -> None:
        self.starts[name] = start = Start(self.exchange)
        self.stack.push_async_callback(start.close)

    async def put_row(self, name: int) -> None:
        await self.starts[name].put_row()

    async def lose_putting(self, name: int) -> None:
        self.starts[name].network.cut_all()

    async def notice_putting(self, name: int) -> None:
        self.starts[name].network.notice()

    async def write_rows(self, _name: int) -> None:
        self.place.may_write.set()

    async def note_rows(self, _name: int) -> None:
        self.place.may_tell.set()

    async def fail_write(self, _name: int) -> None:
        self.place.fails = True
        self.place.may_write.set()

    async def change_exchange(self) -> None:
        """The process of the one before is gone at this moment; its writes do not come back."""
        former, self.place = self.place, self.place.again()
        self.exchange = self.opened()
        former.leave()
        for start in self.starts.values():
            await start.close()

    def settled(self, state: State) -> list[State]:
        """Where the exchange may stand when it has done all it can; a write begins with the rows it has at hand."""
        steps = [step for step in SYSTEM.successors(state, PARAMETERS) if self._follows(step)]
        return [state] if not steps else [each for step in steps for each in self.settled(step.state)]

    def _follows(self, step: Step[State]) -> bool:
        if step.action == "BeginWrite":
            return step.arguments[1] == self.place.rows
        return step.action in ("ReplaceHolder", "FreeName", "TakeName")

    async def compare(self, states: list[State]) -> list[State]:
        """The states of the model in which everything is as it is seen to be; which lost start has the name is not."""
        await turns()
        found = [each for state in states for each in self.settled(state) if self.sees(each)]
        assert found, f"the model may stand at {states}"
        return [*dict.fromkeys(found)]

    def sees(self, state: State) -> bool:
        channel, place = self.exchange.replay_channel(CHANNEL), self.place
        are_as_seen = (self.sees_start(start, state, name) for name, start in self.starts.items())
        return (
            (place.log, place.noted) == ([*range(state.log)], state.noted)
            and (channel.books.next_row, channel.rows_of(NAME)) == (state.counted, state.counted)
            and (place.rows or 0) == state.writing
            and all(are_as_seen)
        )

    def sees_start(self, start: Start, state: State, name: int) -> bool:
        """What a start is told; one that is lost hears nothing."""
        one = state.streams.get(name)
        if one.is_lost:
            return True
        is_over = one.phase in ("leaving", "over")
        return start.phase == ("over" if is_over else one.phase) and (is_over or start.sent == one.sent)


def after(state: State, step: Step[State]) -> State:
    """What a step makes of a state; where it is not possible, it is about a start that is over there."""
    if not SYSTEM.is_enabled(step.action, state, PARAMETERS, *step.arguments):
        return state
    return SYSTEM.perform(step.action, state, PARAMETERS, *step.arguments)


async def led(seed: int) -> set[str]:
    random, done, states = Random(seed), set[str](), [SYSTEM.initial(PARAMETERS)]
    async with AsyncExitStack() as stack:
        run = Led(stack)
        try:
            for _ in range(60):
                steps = [step for step in SYSTEM.successors(states[0], PARAMETERS) if step.action in STEPS]
                if not steps:
                    break
                (step,) = random.choices(steps, [STEPS[each.action] for each in steps])
                done.add(step.action)
                await getattr(run, snake_case(step.action))(*step.arguments)
                states = await run.compare([after(state, step) for state in states])
        finally:
            run.place.leave()
    return done


@pytest.mark.parametrize("seed", [*range(6), 34, 37])
def test_an_exchange_keeps_rows_as_the_model_does(seed: int) -> None:
    in_simulated_time(led(seed))


@pytest.mark.long
def test_each_step_of_a_named_producer_is_led() -> None:
    done = set[str]().union(*(in_simulated_time(led(seed)) for seed in range(300)))
    assert done == set(STEPS)
