"""A message over TCP goes to whoever waits for it once it is whole; to nobody else, and in its order."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from permitflow.errors import UndecodableDataError
from permitflow.transports import tcp
from permitflow.transports.carrier import Received
from permitflow.transports.tcp import Kind, header
from tests.support.carriers import connected, dialled_by_a_stranger

Complete = Callable[[Coroutine[Any, Any, Any]], Any]


def test_a_message_is_handed_over_where_it_comes_and_read_goes_on_waiting(complete: Complete) -> None:
    async def test() -> None:
        async with connected() as (dialler, acceptor):
            handed: list[bytes] = []
            await dialler.write([b"before"])
            assert await acceptor.read() == b"before"
            acceptor.hand_to(lambda message: handed.append(bytes(message)))
            reading = asyncio.create_task(acceptor.read())
            for number in range(3):
                await dialler.write([b"%d" % number])
            await dialler.half_close()

            assert await reading is None
            assert handed == [b"0", b"1", b"2"]

    complete(test())


def test_what_comes_while_nobody_reads_is_not_handed_over_but_read(complete: Complete) -> None:
    async def test() -> None:
        async with connected() as (dialler, acceptor):
            acceptor.hand_to(lambda message: pytest.fail(f"{message!r} was handed over"))
            await dialler.write([b"kept"])
            while not acceptor._inbox:  # noqa: ASYNC110 - what is waited for is the socket's business
                await asyncio.sleep(0)

            assert await acceptor.read() == b"kept"

    complete(test())


def test_what_the_taker_raises_read_raises(complete: Complete) -> None:
    async def test() -> None:
        async with connected() as (dialler, acceptor):

            def refuse(message: object) -> None:
                raise UndecodableDataError(what="a message", reason="of a test")

            acceptor.hand_to(refuse)
            reading = asyncio.create_task(acceptor.read())
            await asyncio.sleep(0)
            await dialler.write([b"bad"])
            with pytest.raises(UndecodableDataError, match="of a test"):
                await reading

    complete(test())


def test_many_small_messages_that_come_together_are_handed_over_and_so_is_the_next_one(complete: Complete) -> None:
    async def test() -> None:
        async with dialled_by_a_stranger() as (stranger, acceptor):
            stranger.send(header(Kind.PUT))
            await acceptor.method()
            handed = list[bytes]()
            acceptor.hand_to(lambda message: handed.append(bytes(message)))
            reading = asyncio.create_task(acceptor.read())
            await asyncio.sleep(0)
            stranger.send((header(Kind.MESSAGE, 1) + b"m") * tcp._MOST_AHEAD)
            while not handed:  # noqa: ASYNC110 - what is waited for is the socket's business
                await asyncio.sleep(0)
            stranger.send(header(Kind.MESSAGE, 4) + b"next" + header(Kind.END))

            assert await reading is None
            assert handed == [*[b"m"] * tcp._MOST_AHEAD, b"next"]

    complete(test())


def test_what_is_left_by_a_taker_that_is_interrupted_is_read(complete: Complete) -> None:
    async def test() -> None:
        async with dialled_by_a_stranger() as (stranger, acceptor):
            stranger.send(header(Kind.PUT))
            await acceptor.method()
            acceptor.hand_to(interrupt)
            reading = asyncio.create_task(acceptor.read())
            await asyncio.sleep(0)
            stranger.send((header(Kind.MESSAGE, 1) + b"1") + (header(Kind.MESSAGE, 1) + b"2"))
            with pytest.raises(KeyboardInterrupt):
                acceptor._on_readable()

            assert await reading == b"2"

    complete(test())


def test_what_comes_behind_what_a_reader_gives_up_over_is_not_handed_over(complete: Complete) -> None:
    async def test() -> None:
        async with dialled_by_a_stranger() as (stranger, acceptor):
            stranger.send(header(Kind.PUT))
            await acceptor.method()
            handed = list[bytes]()

            def give_up(message: Received) -> None:
                handed.append(bytes(message))
                reading.cancel()

            acceptor.hand_to(give_up)
            reading = asyncio.create_task(acceptor.read())
            await asyncio.sleep(0)
            stranger.send(header(Kind.MESSAGE, 1) + b"1" + header(Kind.MESSAGE, 1) + b"2")
            await asyncio.wait({reading})
            assert handed == [b"1"]

    complete(test())


def test_what_comes_after_the_last_read_is_handed_to_nobody(complete: Complete) -> None:
    async def test() -> None:
        async with connected() as (dialler, acceptor):
            handed = list[Received]()
            acceptor.hand_to(handed.append)
            await dialler.write([b"kept"])
            while not acceptor._inbox:  # noqa: ASYNC110 - what is waited for is the socket's business
                await asyncio.sleep(0)
            assert await acceptor.read() == b"kept"

            finishing = asyncio.create_task(acceptor.finish(None))
            assert await dialler.read() is None
            await dialler.write([b"too late"])
            dialler.close()
            await finishing
            assert handed == []

    complete(test())


def interrupt(_: object) -> None:
    raise KeyboardInterrupt
