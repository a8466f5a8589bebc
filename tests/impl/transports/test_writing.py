"""What there is to write is written where it comes up, in order, as far as the carrier takes it."""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from typing import cast

import pytest

from permitflow.errors import PeerGoneError
from permitflow.transports.carrier import Buffer, Carrier
from permitflow.transports.writing import Writing
from tests.support.number_streams import turns


class Desk:
    """A carrier that can be full, and what is to be written into it."""

    sign_seconds: float | None = None

    def __init__(self) -> None:
        self.to_write: deque[bytes] = deque()
        self.written: list[bytes] = []
        self.over: list[Exception | None] = []
        self.is_last = self.is_closed = self.is_full = False
        self.error: Exception | None = None
        self.writing = Writing(cast("Carrier", self), self.messages, self.over.append)

    def messages(self) -> Iterator[Sequence[Buffer]]:
        pieces, self.to_write = list(self.to_write), deque()
        self.writing.is_last = self.is_last
        for piece in pieces:
            if self.error is not None:
                raise self.error
            yield [piece]

    def write(self, message: Sequence[Buffer]) -> bool:
        self.written += map(bytes, message)
        return not self.is_full

    def half_close(self) -> None:
        self.is_closed = True


async def test_nothing_is_written_before_the_start() -> None:
    desk = Desk()
    desk.to_write.append(b"put")
    desk.writing.now()
    desk.writing.soon()
    await turns()
    assert desk.written == []
    desk.writing.start()
    assert desk.written == [b"put"]


async def test_now_writes_before_it_returns_and_soon_what_has_come_until_the_next_turn() -> None:
    desk = Desk()
    desk.writing.start()
    desk.to_write.append(b"a")
    desk.writing.now()
    assert desk.written == [b"a"]

    for piece in (b"b", b"c"):
        desk.to_write.append(piece)
        desk.writing.soon()
    assert desk.written == [b"a"]
    await asyncio.sleep(0)
    assert desk.written == [b"a", b"b", b"c"]


async def test_a_full_carrier_gets_one_message_each_time_that_it_takes_more() -> None:
    desk = Desk()
    desk.writing.start()
    desk.is_full = True
    for piece in (b"a", b"b", b"c", b"d"):
        desk.to_write.append(piece)
        if piece in b"bd":
            desk.writing.now()
    assert desk.written == [b"a"]
    desk.writing.on_writable()
    assert desk.written == [b"a", b"b"]

    desk.is_full = False
    desk.writing.on_writable()
    assert desk.written == [b"a", b"b", b"c", b"d"]


async def test_a_carrier_that_takes_more_gets_nothing_that_nobody_has_asked_to_be_written() -> None:
    desk = Desk()
    desk.writing.start()
    desk.is_full = True
    desk.to_write.append(b"a")
    desk.writing.now()
    desk.to_write.append(b"b")
    desk.writing.on_writable()
    assert desk.written == [b"a"]
    desk.writing.soon()
    await asyncio.sleep(0)
    assert desk.written == [b"a", b"b"]


async def test_errors_are_told_later_and_not_to_the_caller_that_writes() -> None:
    desk = Desk()
    desk.writing.start()
    desk.error = PeerGoneError(who="the peer", reason="a test")
    desk.to_write.append(b"a")
    desk.writing.now()
    assert desk.over == []
    await turns()
    assert desk.over == [desk.error]
    assert not desk.is_closed


@pytest.mark.parametrize("is_full", [False, True])
async def test_the_half_is_closed_once_after_the_last_word(is_full: bool) -> None:
    desk = Desk()
    desk.writing.start()
    desk.is_last, desk.is_full = True, is_full
    desk.to_write.append(b"end")
    desk.writing.now()
    assert desk.is_closed is not is_full
    if is_full:
        desk.writing.on_writable()
    await turns()
    assert (desk.written, desk.is_closed, desk.over) == ([b"end"], True, [None])


async def test_after_a_stop_nothing_is_written() -> None:
    desk = Desk()
    desk.writing.start()
    desk.to_write.append(b"late")
    desk.writing.soon()
    desk.writing.stop()
    await turns()
    assert desk.written == []
