"""The model leads the dispatcher for asyncio: slow channels, cancelled calls, growth at a barrier, lost consumers.

Hypothesis draws what upstream and consumers do; the dispatcher does the rest by itself.  When it is quiet, each channel
holds what the model has put into it, and a call is under way if and only if the model waits for a full channel.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import cast

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from permitflow import PeerGoneError, WouldBlock
from permitflow.channels.interface import SendEnd
from permitflow.dispatch import VNODES, HashDispatcher, rows_by_key, vnode_of
from permitflow.errors import DispatchError, PermitflowError
from permitflow_model.hash_dispatch import SYSTEM, Parameters, has_all, initial, taken
from permitflow_model.kernel.queue import Fifo
from tests.support.turns import turns

Row = tuple[int, int]
"""The virtual node of its key, and a number that no other row has."""

MOST_CHANNELS, MOST_CALLS, PLACES, ROWS_BEFORE_A_STOP = 4, 3, 1, 8
LIMITS = Parameters(
    nodes=VNODES, channels=2, most_channels=MOST_CHANNELS, rows=999, marks=999, room=PLACES, losses=True
)
_KEYS = {vnode_of([key]): key for key in range(5_000)}


def _key_of(row: Row) -> list[int]:
    return [_KEYS[row[0]]]


_split = rows_by_key(_key_of)


def one_for_each(chunk: Sequence[Row], owners: Sequence[int]) -> list[list[Row] | None]:
    """At most one row for each channel: a channel has a part, or lacks it."""
    return [part and part[:1] for part in _split(chunk, owners)]


class Places:
    """A channel with a place for a row, a barrier or the end."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.messages: deque[object] = deque()
        self.loss: PermitflowError | None = None
        self.abort_reason: str | None = None
        self._waiting: set[asyncio.Future[None]] = set()

    def changed(self) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            future = asyncio.get_running_loop().create_future()
            self._waiting.add(future)
            try:
                await future
            finally:
                self._waiting.discard(future)

    def _put_now(self, message: object) -> None:
        if self.loss is not None:
            raise self.loss
        if len(self.messages) >= PLACES:
            raise WouldBlock
        self.messages.append(message)

    async def _put(self, message: object) -> None:
        await self._until(lambda: self.loss is not None or len(self.messages) < PLACES)
        self._put_now(message)

    def send_nowait(self, chunk: list[Row]) -> None:
        (row,) = chunk
        self._put_now(row)

    async def send_many(self, chunks: deque[list[Row]]) -> None:
        await self._put(chunks[0][0])
        chunks.popleft()

    def send_barrier_nowait(self, payload: object) -> None:
        self._put_now(payload)

    async def send_barrier(self, payload: object) -> None:
        await self._put(payload)

    async def end(self) -> None:
        await self._put("end")

    async def until_refused(self) -> PermitflowError:
        await self._until(lambda: self.loss is not None)
        assert self.loss is not None
        return self.loss

    def abort(self, reason: str) -> None:
        self.abort_reason = reason


@dataclass
class Call:
    """A call of the dispatcher that is under way."""

    task: asyncio.Task[object]
    take: Callable[[], None]
    """How the model takes its element."""
    is_end: bool = False
    is_taken: bool = False


class DispatcherMachine(RuleBasedStateMachine):
    """Runs model and dispatcher side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.state = initial(LIMITS)
        self.told: dict[int, object] = {}
        """What the dispatcher's messages look like, by the model's numbers."""
        self.calls: deque[Call] = deque()
        self.rows = 0

    @initialize()
    def open(self) -> None:
        self.ends = [Places(str(number)) for number in range(MOST_CHANNELS)]
        self.dispatcher: HashDispatcher[list[Row]] = HashDispatcher(self.given(0, LIMITS.channels), one_for_each)

    def given(self, first: int, last: int) -> list[SendEnd[list[Row]]]:
        return [cast("SendEnd[list[Row]]", end) for end in self.ends[first:last]]

    # What may be done.

    @property
    def is_over(self) -> bool:
        return self.state.is_lost or self.state.is_over or any(call.is_end for call in self.calls)

    def may_call(self) -> bool:
        return not self.is_over and len(self.calls) < MOST_CALLS

    def may_stop(self) -> bool:
        """Early stops would leave little to see."""
        return not self.is_over and self.rows > ROWS_BEFORE_A_STOP

    @precondition(may_call)
    @rule(nodes=st.sets(st.integers(0, VNODES - 1), min_size=1, max_size=MOST_CHANNELS))
    def send(self, nodes: set[int]) -> None:
        rows = [(node, self.rows + place) for place, node in enumerate(sorted(nodes))]
        self.rows += len(rows)

        def take() -> None:
            channels = set[int]()
            for row in rows:
                channel = self.state.owners.get(row[0])
                if channel not in channels:
                    channels.add(channel)
                    self.tell(row)
                    self.perform("AddRow", channel, row[0])
            self.perform("TakeChunk")

        self.call(self.dispatcher.send(rows), take)

    @precondition(may_call)
    @rule(added=st.integers(0, 1))
    def send_barrier(self, added: int) -> None:
        before = self.state.owners.channels()
        to = before if self.calls else min(before + added, MOST_CHANNELS)
        self.rows += 1
        payload = f"barrier {self.rows}"

        def take() -> None:
            self.tell(payload)
            self.perform("TakeBarrier", max(to, self.state.owners.channels()))

        self.call(self.dispatcher.send_barrier(payload, added=self.given(before, to)), take)

    @precondition(may_stop)
    @rule()
    def end(self) -> None:
        def take() -> None:
            self.tell("end")
            self.perform("TakeEnd")

        self.call(self.dispatcher.end(), take, is_end=True)

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        call = data.draw(st.sampled_from([*self.calls]))
        self.calls.remove(call)
        call.task.cancel()
        self.settle()
        assert call.task.cancelled()

    @precondition(lambda self: not self.state.is_lost and any(end.messages for end in self.ends))
    @rule(data=st.data())
    def consume(self, data: st.DataObject) -> None:
        channel = data.draw(st.sampled_from([number for number, end in enumerate(self.ends) if end.messages]))
        self.perform("Consume", channel)
        self.ends[channel].messages.popleft()
        self.ends[channel].changed()
        self.settle()

    @precondition(may_stop)
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        channel = data.draw(st.integers(0, self.state.owners.channels() - 1))
        self.perform("Lose", channel)
        self.ends[channel].loss = PeerGoneError(who="the consumer", reason="it is gone")
        self.ends[channel].changed()
        self.call(self.dispatcher.send_barrier(), lambda: None)
        for call in self.calls:
            error = call.task.exception()
            assert isinstance(error, DispatchError)
            assert error.channel == str(channel)
        self.calls.clear()
        opened = range(self.state.owners.channels())
        assert [self.ends[number].abort_reason is not None for number in opened] == [
            number != channel for number in opened
        ]

    @rule()
    def wait(self) -> None:
        self.settle()

    # Both sides.

    def tell(self, message: object) -> None:
        self.told[taken(self.state) + 1] = message

    def perform(self, name: str, *arguments: int) -> None:
        self.state = SYSTEM.perform(name, self.state, LIMITS, *arguments)

    def call(self, doing: Coroutine[object, object, object], take: Callable[[], None], *, is_end: bool = False) -> None:
        async def begun() -> asyncio.Task[object]:
            return asyncio.create_task(doing)

        self.calls.append(Call(self.runner.run(begun()), take, is_end))
        self.settle()

    def settle(self) -> None:
        """Let the dispatcher do what it can, and the model what it must."""
        self.runner.run(turns())
        if self.state.is_lost:
            return
        while self.calls:
            self.forward()
            if not self.state.channels.every(has_all):
                break
            if (call := self.calls[0]).is_taken:
                assert call.task.done(), "all channels have their part"
                call.task.result()
                self.calls.popleft()
            else:
                call.take()
                call.is_taken = True
        assert not any(call.task.done() for call in self.calls), "a channel lacks its part"
        for number, end in enumerate(self.ends):
            channel = self.state.channels.get(number)
            assert isinstance(channel.queue, Fifo)
            assert [*end.messages] == [self.told[message.number] for message in channel.queue]

    def forward(self) -> None:
        for number in range(MOST_CHANNELS):
            while SYSTEM.is_enabled("Forward", self.state, LIMITS, number):
                self.perform("Forward", number)

    def teardown(self) -> None:
        for call in self.calls:
            call.task.cancel()
        self.runner.run(turns())
        self.runner.close()


TestDispatcher = DispatcherMachine.TestCase
TestDispatcher.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)
