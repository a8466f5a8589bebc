"""A user's function that must be awaited is refused wherever nobody awaits it, at once or when its result comes."""

import warnings
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from mypy import api

from permitflow import open_channel
from permitflow.callables import plain, require_plain
from permitflow.errors import AsyncFunctionError, InvalidParametersError
from permitflow.mute import MuteScheduler, Pipeline
from permitflow.stages import Overflow, Source

STREAM: Any = Source([1, 2, 3, 4])


async def later(*_: object) -> bool:
    return True


async def generated(*_: object) -> AsyncIterator[int]:
    yield 1


class Called:
    async def __call__(self, *_: object) -> bool:
        return True

    async def method(self, *_: object) -> bool:
        return True


COLOURED: dict[str, Callable[..., Any]] = {
    "coroutine function": later,
    "partial": partial(partial(later, 1), 2),
    "object": Called(),
    "partial of an object": partial(Called(), 1),
    "method": Called().method,
    "asynchronous generator": generated,
}
PLACES: dict[str, Callable[[Callable[..., Any]], Any]] = {
    "map": lambda f: STREAM.map(f),
    "filter": lambda f: STREAM.filter(f),
    "map_concat": lambda f: STREAM.map_concat(f),
    "conflate": lambda f: STREAM.conflate(f).throttle(1_000, 1.0, burst=0),
    "conflate(seed=…)": lambda f: STREAM.conflate(max, f),
    "batch": lambda f: STREAM.batch(4, f).throttle(1_000, 1.0, burst=0),
    "batch_weighted(weigh=…)": lambda f: STREAM.batch_weighted(4, f, max),
    "expand": lambda f: STREAM.expand(f),
    "throttle(cost_of=…)": lambda f: STREAM.throttle(4, 1.0, cost_of=f),
    "zip_with": lambda f: STREAM.zip_with(STREAM, f),
    "rechunk(join=…)": lambda f: STREAM.map(lambda n: [n]).rechunk(2, f),
    "when_dropped": lambda f: STREAM.buffer(1, Overflow.DROP_OLDEST, when_dropped=f),
    "from_iterator": lambda f: Source.from_iterator(f),
}
PLACES_TOLD = {"conflate": "aggregate", "batch": "aggregate", "conflate(seed=…)": "seed"}


@pytest.mark.parametrize("colour", COLOURED)
@pytest.mark.parametrize("place", PLACES)
def test_a_function_that_must_be_awaited_is_refused_at_once(place: str, colour: str) -> None:
    if (place, colour) == ("from_iterator", "asynchronous generator"):
        return  # it makes the stream that is wanted
    with pytest.raises(AsyncFunctionError, match=PLACES_TOLD.get(place, place.partition("(")[0])):
        PLACES[place](COLOURED[colour])


def pipeline(function: Callable[..., Any]) -> None:
    Pipeline(hear=function)


OTHERS: dict[str, Callable[[Any], object]] = {
    "open_channel": lambda f: open_channel(record=f),
    "hear": pipeline,
    "choose": lambda f: MuteScheduler(f),
    "record": lambda f: MuteScheduler(record=f),
    "behaviour": lambda f: MuteScheduler[int]().spawn("actor", f),
}


@pytest.mark.parametrize("colour", COLOURED)
@pytest.mark.parametrize("place", OTHERS)
async def test_channels_and_mute_refuse_what_must_be_awaited(place: str, colour: str) -> None:
    with pytest.raises(AsyncFunctionError, match=place):
        OTHERS[place](COLOURED[colour])


@pytest.mark.parametrize("place", PLACES)
async def test_an_awaitable_result_is_refused_when_it_comes(place: str) -> None:
    stream = PLACES[place](lambda *_: later())
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of a coroutine that is never awaited
        with pytest.raises(AsyncFunctionError, match="returned an awaitable coroutine"):
            [element async for element in stream]


def test_what_cannot_be_called_is_refused_by_its_place() -> None:
    with pytest.raises(InvalidParametersError, match=r"map.*must be a function, not 3"):
        STREAM.map(3)


@pytest.mark.parametrize("function", [abs, int, str.upper, [].append, partial(max, 3), lambda n: n, Path])
def test_a_plain_function_is_taken(function: Callable[..., Any]) -> None:
    require_plain(function, place="here")


def test_a_watched_function_passes_its_result_on() -> None:
    assert plain(divmod, place="here")(7, 2) == (3, 1)


SNIPPET = """
from permitflow.stages import Source

async def is_even(number: int) -> bool:
    return number % 2 == 0

async def main() -> None:
    right: Source[str] = Source(range(6)).filter(lambda n: n % 2).map(str)
    Source(range(6)).filter(is_even).map(str)
    async for number in Source(range(6)).map(is_even):
        print(number)
"""


@pytest.mark.long
def test_a_type_checker_sees_the_wrong_colour(tmp_path: Path) -> None:
    snippet = tmp_path / "snippet.py"
    snippet.write_text(SNIPPET)
    told, _, status = api.run([str(snippet), "--strict", "--follow-imports=silent", "--cache-dir", str(tmp_path)])
    assert status == 1
    assert [line.split(":")[1] for line in told.splitlines() if ": error:" in line] == ["9", "10"]
    assert told.count('"NoStream"') == 2
