"""What there is to write is written where it comes up, in order; what must wait, and errors, are the task's."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, cast

import pytest

from permitflow.errors import PeerGoneError
from permitflow.transports.carrier import Buffer, Rest
from permitflow.transports.same_host import HostCarrier
from permitflow.transports.writing import Writing

Complete = Callable[[Coroutine[Any, Any, Any]], Any]


class Desk:
    """A carrier that can be full, and what is to be written into it."""

    def __init__(self) -> None:
        self.to_write: deque[bytes] = deque()
        self.written: list[bytes] = []
        self.is_last = self.is_closed = False
        self.room = asyncio.Event()
        self.room.set()
        self.error: Exception | None = None
        self.writing = Writing(cast("HostCarrier", self), self.trains, lambda: self.is_last and not self.to_write)

    def trains(self) -> list[Sequence[Buffer]]:
        pieces, self.to_write = list(self.to_write), deque()
        return [[piece] for piece in pieces]

    def write_now(self, message: Sequence[Buffer]) -> Rest | None:
        if self.error is not None:
            raise self.error
        if not self.room.is_set():
            return lambda: self.write(message)
        self.written += map(bytes, message)
        return None

    async def write(self, message: Sequence[Buffer]) -> None:
        await self.room.wait()
        if self.error is not None:
            raise self.error
        self.written += map(bytes, message)

    async def half_close(self) -> None:
        self.is_closed = True

    async def opened(self) -> "asyncio.Task[None]":
        """The task that writes, of a carrier that is prompt."""
        task = asyncio.create_task(self.writing.run())
        self.writing.be_prompt(self.write_now)
        await self.settle()
        return task

    async def settle(self) -> None:
        """Let everybody do what can be done."""
        for _ in range(10):
            await asyncio.sleep(0)


def test_nothing_is_prompt_before_the_carrier_is(complete: Complete) -> None:
    async def test() -> None:
        desk = Desk()
        task = asyncio.create_task(desk.writing.run())
        await desk.settle()
        desk.to_write.append(b"put")
        desk.writing.now()

        assert desk.written == []
        await desk.settle()
        assert desk.written == [b"put"]
        task.cancel()

    complete(test())


def test_now_writes_before_it_returns_and_soon_what_has_come_until_the_next_turn(complete: Complete) -> None:
    async def test() -> None:
        desk = Desk()
        desk.writing.be_prompt(desk.write_now)
        desk.to_write.append(b"a")
        desk.writing.now()
        assert desk.written == [b"a"]

        for piece in (b"b", b"c"):
            desk.to_write.append(piece)
            desk.writing.soon()
        assert desk.written == [b"a"]
        await asyncio.sleep(0)
        assert desk.written == [b"a", b"b", b"c"]

    complete(test())


def test_what_a_full_carrier_does_not_take_is_written_first_by_the_task(complete: Complete) -> None:
    async def test() -> None:
        desk = Desk()
        task = await desk.opened()
        desk.room.clear()
        for piece in (b"a", b"b", b"c", b"d"):
            desk.to_write.append(piece)
            if piece in b"bd":
                desk.writing.now()
        await desk.settle()
        assert desk.written == []

        desk.room.set()
        await desk.settle()
        assert desk.written == [b"a", b"b", b"c", b"d"]

        desk.to_write.append(b"e")
        desk.writing.now()
        assert desk.written[-1] == b"e"
        task.cancel()

    complete(test())


def test_errors_are_raised_by_the_task_not_by_whoever_had_something_to_write(complete: Complete) -> None:
    async def test() -> None:
        desk = Desk()
        task = await desk.opened()
        desk.error = PeerGoneError(who="the peer", reason="a test")
        desk.to_write.append(b"a")
        desk.writing.now()

        with pytest.raises(PeerGoneError, match="a test"):
            await task
        assert not desk.is_closed

    complete(test())


def test_the_half_is_closed_after_the_last_word_however_it_was_written(complete: Complete) -> None:
    async def test() -> None:
        desk = Desk()
        desk.writing.be_prompt(desk.write_now)
        task = asyncio.create_task(desk.writing.run())
        await desk.settle()
        desk.is_last = True
        desk.to_write.append(b"end")
        desk.writing.now()

        await task
        assert (desk.written, desk.is_closed) == ([b"end"], True)

    complete(test())


def test_after_a_stop_nothing_is_written_but_by_the_task(complete: Complete) -> None:
    async def test() -> None:
        desk = Desk()
        desk.writing.be_prompt(desk.write_now)
        desk.to_write.append(b"late")
        desk.writing.soon()
        desk.writing.stop()
        await desk.settle()

        assert desk.written == []

    complete(test())
