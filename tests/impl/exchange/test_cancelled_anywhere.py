"""A part of a stream that is cancelled in any turn of the loop leaves no task, and its peers a typed error at most."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import ContextVar
from itertools import chain, count
from typing import Any

import pyarrow as pa
import pytest

from permitflow import ChannelParameters
from permitflow.carriers.connection import GET_STREAM, PUT_STREAM
from permitflow.client import EndOutcome, SameHost, get, put
from permitflow.errors import EndOfStream, PermitflowError
from permitflow.exchange import Exchange
from tests.support.cut_lines import ADDRESS, Line, Network
from tests.support.simulated_time import in_simulated_time

SCHEMA = pa.schema([("n", pa.int64())])
CHUNKS = [[0, 1, 2], [3], [4, 5, 6, 7], [8, 9], [10], [11, 12]]
ROWS = [*chain.from_iterable(CHUNKS)]
SERVED = {"server of the producer": PUT_STREAM, "server of the consumer": GET_STREAM}
PATIENCE_SECONDS = 60.0
_is_cancelled = ContextVar("_is_cancelled", default=False)


class Cancelled:
    """Awaits work; its task is cancelled after so many turns of the loop, and once more after some others."""

    def __init__(self, work: Awaitable[Any], turn: int, between: int) -> None:
        self._work, self._turn, self._between = work, turn, between
        self._turns, self._is_over = 0, False

    @property
    def was_in_time(self) -> bool:
        """Was it cancelled before it was done?"""
        return self._turns >= self._turn

    def __await__(self) -> Generator[Any, None, Any]:
        task = asyncio.current_task()
        assert task is not None
        self._take_turn(task)
        try:
            return (yield from self._work.__await__())
        finally:
            self._is_over = True

    def _take_turn(self, task: "asyncio.Task[Any]") -> None:
        if self._is_over or self._turns == self._turn + self._between:
            return
        self._turns += 1
        if self._turns in (self._turn, self._turn + self._between):
            task.cancel()
        asyncio.get_running_loop().call_soon(self._take_turn, task)


class Trial(Network):
    """A producer, an exchange and a consumer; one of them, or one server of the exchange, is cancelled."""

    def __init__(self, role: str, turn: int, between: int, resume_seconds: float, *, is_narrow: bool) -> None:
        exchange = Exchange()
        exchange.add_channel("c", ChannelParameters(row_permits=8, permit_batch=2), SCHEMA)
        super().__init__(exchange, is_narrow=is_narrow)
        self.role, self.turn, self.between, self.resume_seconds = role, turn, between, resume_seconds
        self.cancelled: Cancelled | None = None
        self.rows = list[int]()
        self.has_ended = False
        self._tasks = list[asyncio.Task[Any]]()
        """Of the client that is cancelled."""

    def _noted(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> "asyncio.Task[Any]":
        task = asyncio.Task(coroutine, loop=loop, **options)
        if _is_cancelled.get():
            self._tasks.append(task)
        return task

    def _made(self, work: Coroutine[Any, Any, Any], *, is_it: bool) -> Awaitable[Any]:
        if not is_it or self.cancelled is not None:
            return work
        self.cancelled = Cancelled(work, self.turn, self.between)
        return self.cancelled

    async def _serve(self, method: str, line: Line) -> None:
        _is_cancelled.set(False)
        try:
            await self._made(super()._serve(method, line), is_it=SERVED.get(self.role) == method)
        except asyncio.CancelledError:  # as gRPC does with the task of a call that was lost
            self.cut(line)
            raise

    async def begin(self, name: str, act: Callable[[], Coroutine[Any, Any, Any]]) -> object:
        _is_cancelled.set(name == self.role)
        try:
            return await self._made(act(), is_it=name == self.role)
        except PermitflowError as error:
            return error
        except asyncio.CancelledError as error:
            assert name == self.role
            left = {task for task in self._tasks if not task.done()} - self._serving
            assert not left
            return error

    async def produce(self) -> EndOutcome:
        connecting = put(ADDRESS, "c", SCHEMA, resume_seconds=self.resume_seconds, same_host=SameHost.NEVER)
        async with connecting as sender:
            for chunk in CHUNKS:
                await sender.send(pa.record_batch([pa.array(chunk, pa.int64())], schema=SCHEMA))
            return await sender.end()

    async def consume(self) -> None:
        async with get(ADDRESS, "c", resume_seconds=self.resume_seconds, same_host=SameHost.NEVER) as receiver:
            try:
                while True:
                    self.rows += (await receiver.receive()).payload.column(0).to_pylist()
            except EndOfStream:
                self.has_ended = True

    async def run(self) -> None:
        acts = {"producer": self.produce, "consumer": self.consume}
        with self.dialled():
            asyncio.get_running_loop().set_task_factory(self._noted)
            under_way = {name: asyncio.create_task(self.begin(name, act)) for name, act in acts.items()}
            await asyncio.wait(under_way.values(), timeout=PATIENCE_SECONDS)
            for name, act in acts.items():  # nothing has passed, and the other one waits for another peer
                if under_way[name].done() and not all(task.done() for task in under_way.values()):
                    await asyncio.wait({asyncio.create_task(act())}, timeout=PATIENCE_SECONDS)
            async with asyncio.timeout(PATIENCE_SECONDS):
                outcomes = await asyncio.gather(*under_way.values())
        await asyncio.sleep(PATIENCE_SECONDS)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        await self.close()
        assert not self.failures
        assert self.rows == ROWS[: len(self.rows)]
        assert self.rows == ROWS or not (self.has_ended or EndOutcome.CONSUMED in outcomes)


def in_every_turn(role: str, resume_seconds: float, between: int, *, is_narrow: bool) -> None:
    async def run(turn: int) -> bool:
        unhandled = list[dict[str, Any]]()
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
        trial = Trial(role, turn, between, resume_seconds, is_narrow=is_narrow)
        await trial.run()
        assert not unhandled
        assert trial.cancelled is not None
        return trial.cancelled.was_in_time

    last = next(turn for turn in count(1) if not in_simulated_time(run(turn)))
    assert last > 20


@pytest.mark.parametrize("resume_seconds", [0.0, 30.0])
@pytest.mark.parametrize("role", ["producer", "consumer", *SERVED])
def test_who_is_cancelled_in_any_turn_leaves_no_task(role: str, resume_seconds: float) -> None:
    in_every_turn(role, resume_seconds, 1, is_narrow=False)


@pytest.mark.long
@pytest.mark.parametrize("resume_seconds", [0.0, 30.0])
@pytest.mark.parametrize("role", ["producer", "consumer", *SERVED])
@pytest.mark.parametrize(("between", "is_narrow"), [(1_000, False), (2, False), (1_000, True), (1, True), (2, True)])
def test_who_is_cancelled_once_or_twice_leaves_no_task(
    role: str, resume_seconds: float, between: int, *, is_narrow: bool
) -> None:
    in_every_turn(role, resume_seconds, between, is_narrow=is_narrow)
