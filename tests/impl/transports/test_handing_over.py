"""Messages that a library gives as results of coroutines are handed over in callbacks: in order, and none twice."""

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import pytest

from permitflow.transports.handing_over import HandingOver
from tests.support.number_streams import turns

Complete = Callable[[Coroutine[Any, Any, Any]], Any]
LATER = 1.0  # seconds of the test's own clock: no haste


class Library:
    """Gives what the test says, when the test says so; and notes what it is asked, and what is taken."""

    def __init__(self, *, seconds_between: float = LATER) -> None:
        self.noted: list[str] = []
        self._seconds_between = seconds_between
        self._now = 0.0
        self._asked: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self.at_once: list[object] = []
        self.messages = HandingOver(self.ask, clock=self.clock)

    @property
    def awaited(self) -> "asyncio.Future[object]":
        """What was asked for last waits for this."""
        return self._asked

    def clock(self) -> float:
        self._now += self._seconds_between
        return self._now

    async def ask(self) -> object:
        self.noted.append("asked")
        if self.at_once:
            if isinstance(message := self.at_once.pop(0), Exception):
                raise message
            return message
        self._asked = asyncio.get_running_loop().create_future()
        try:
            await asyncio.sleep(0)
            return await self._given()
        except asyncio.CancelledError:
            self.noted.append("given up")
            raise

    @types.coroutine
    def _given(self) -> Generator["asyncio.Future[object]", None, object]:
        """As to await it; but notes who goes on before it is done."""
        asked = self._asked
        while True:
            asked._asyncio_future_blocking = True
            yield asked
            if asked.done():
                return asked.result()
            self.noted.append("gone on too early")

    def take(self, message: object) -> None:
        assert isinstance(message, bytes)
        self.noted.append(message.decode())

    async def give(self, *messages: object) -> None:
        for message in messages:
            assert not self._asked.done()
            if isinstance(message, Exception):
                self._asked.set_exception(message)
            else:
                self._asked.set_result(message)
            await turns()

    async def reading(self, take: Callable[[Any], None] | None = None) -> "asyncio.Task[object]":
        self.messages.hand_to(take or self.take)
        task = asyncio.create_task(self.messages.read())
        await turns()
        return task


def test_a_message_alone_is_taken_before_the_next_one_is_asked_for(complete: Complete) -> None:
    async def test() -> tuple[list[str], object]:
        library = Library()
        reading = await library.reading()
        await library.give(b"one", b"two", None)
        return library.noted, await reading

    assert complete(test()) == (["asked", "one", "asked", "two", "asked"], None)


def test_in_haste_the_next_one_is_asked_for_before(complete: Complete) -> None:
    async def test() -> tuple[list[str], object]:
        library = Library(seconds_between=1e-6)
        reading = await library.reading()
        await library.give(b"one", b"two", b"three", "the end")
        return library.noted, await reading

    noted = ["asked", "one", "asked", "asked", "two", "asked", "three"]
    assert complete(test()) == (noted, "the end")


@pytest.mark.parametrize("seconds_between", [1e-6, LATER], ids=["in haste", "alone"])
def test_what_is_here_already_comes_in_its_order(complete: Complete, seconds_between: float) -> None:
    async def test() -> list[str]:
        library = Library(seconds_between=seconds_between)
        library.at_once = [b"one", b"two", b"three", b"four", None]
        await (await library.reading())
        return [note for note in library.noted if note != "asked"]

    assert complete(test()) == ["one", "two", "three", "four"]


def test_without_a_taker_messages_are_returned_and_later_ones_are_handed_over(complete: Complete) -> None:
    async def test() -> tuple[object, list[str], object]:
        library = Library()
        first = asyncio.create_task(library.messages.read())
        await turns()
        await library.give(b"one")
        second = asyncio.create_task(library.messages.read())
        await turns()
        # While it is being waited for.
        library.messages.hand_to(library.take)
        await library.give(b"two", b"three", None)
        return await first, library.noted, await second

    assert complete(test()) == (b"one", ["asked", "asked", "two", "asked", "three", "asked"], None)


def test_an_error_of_the_library_is_raised_where_messages_are_read(complete: Complete) -> None:
    async def test() -> None:
        library = Library()
        reading = await library.reading()
        await library.give(b"one", ValueError("broken"))
        with pytest.raises(ValueError, match="broken"):
            await reading

    complete(test())


@pytest.mark.parametrize(("seconds_between", "given_up"), [(1e-6, ["given up"]), (LATER, [])])
def test_an_error_of_the_taker_is_raised_and_nothing_is_asked_for_any_more(
    complete: Complete, seconds_between: float, given_up: list[str]
) -> None:
    async def test() -> list[str]:
        library = Library(seconds_between=seconds_between)

        def take(message: object) -> None:
            library.take(message)
            if message == b"two":
                raise ValueError("refused")

        reading = await library.reading(take)
        await library.give(b"one", b"two")
        with pytest.raises(ValueError, match="refused"):
            await reading
        return library.noted[library.noted.index("two") + 1 :]

    assert complete(test()) == given_up


def test_cancelled_it_cancels_what_was_asked_for(complete: Complete) -> None:
    async def test() -> list[str]:
        library = Library()
        reading = await library.reading()
        await library.give(b"one")
        reading.cancel()
        await asyncio.wait([reading])
        await turns()
        assert reading.cancelled()
        assert library.awaited.cancelled()
        return library.noted

    assert complete(test()) == ["asked", "one", "asked", "given up"]


def test_a_library_that_is_cancelled_by_others_is_heard(complete: Complete) -> None:
    async def test() -> None:
        library = Library()
        reading = await library.reading()
        await library.give(b"one")
        library._asked.cancel()
        await asyncio.wait([reading])
        assert reading.cancelled()
        assert not reading.cancelling()

    complete(test())


def test_after_a_taker_that_is_interrupted_the_next_one_is_asked_for() -> None:
    async def begun() -> tuple[Library, "asyncio.Task[object]"]:
        library = Library()

        def take(message: object) -> None:
            library.take(message)
            if message == b"one":
                raise KeyboardInterrupt

        return library, await library.reading(take)

    async def test() -> list[str]:
        await library.give(b"two", None)
        assert await reading is None
        return library.noted

    with asyncio.Runner() as runner:
        library, reading = runner.run(begun())
        with pytest.raises(KeyboardInterrupt):
            runner.run(library.give(b"one"))
        assert runner.run(test()) == ["asked", "one", "asked", "two", "asked"]


def test_a_read_that_follows_a_cancelled_one_hears_nothing_of_what_was_asked_before(complete: Complete) -> None:
    async def test() -> tuple[object, list[str]]:
        library = Library()

        async def read_again() -> object:
            try:
                return await library.messages.read()
            except asyncio.CancelledError:
                return await library.messages.read()

        library.messages.hand_to(library.take)
        reading = asyncio.create_task(read_again())
        await turns()
        reading.cancel()
        await turns()
        await library.give(b"one", None)
        return await reading, library.noted

    assert complete(test()) == (None, ["asked", "given up", "asked", "one", "asked"])


def test_an_error_of_the_taker_comes_before_that_of_the_next_message(complete: Complete) -> None:
    async def test() -> None:
        library = Library(seconds_between=1e-6)

        def take(message: object) -> None:
            library.take(message)
            if message == b"two":
                raise ValueError("refused")

        reading = await library.reading(take)
        await library.give(b"one")
        library.at_once = [ZeroDivisionError("the next one")]
        await library.give(b"two")
        with pytest.raises(ValueError, match="refused"):
            await reading

    complete(test())


def test_what_is_here_already_is_not_taken_once_its_reader_is_cancelled(complete: Complete) -> None:
    async def test() -> list[str]:
        library = Library()
        library.at_once = [b"one"]
        library.messages.hand_to(library.take)
        reading = asyncio.create_task(library.messages.read())
        await asyncio.sleep(0)
        reading.cancel()
        await asyncio.wait([reading])
        await turns()
        return library.noted

    assert complete(test()) == ["asked"]
