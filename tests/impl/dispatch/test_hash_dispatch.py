"""What the dispatch refuses, and that it changes nothing then."""

from collections.abc import Callable

import pytest

from permitflow.dispatch.hash_dispatch import End, HashDispatch
from permitflow.errors import LocalProtocolError

Dispatch = HashDispatch[str]

TAKES: dict[str, Callable[[Dispatch], None]] = {
    "chunk": lambda dispatch: dispatch.take_chunk(["a", None]),
    "barrier": lambda dispatch: dispatch.take_barrier(1),
    "watermark": lambda dispatch: dispatch.take_watermark(1),
    "end": lambda dispatch: dispatch.take_end(),
}


@pytest.mark.parametrize("kind", TAKES)
def test_nothing_is_taken_while_a_channel_lacks_its_part(kind: str) -> None:
    dispatch = Dispatch(2)
    dispatch.take_chunk(["a", "b"])
    dispatch.forwarded(1)
    with pytest.raises(LocalProtocolError, match=r"channels \[0\] lack their part"):
        TAKES[kind](dispatch)
    assert dispatch.pending == ["a", None]
    dispatch.forwarded(0)
    TAKES[kind](dispatch)


@pytest.mark.parametrize("kind", TAKES)
def test_nothing_is_taken_behind_the_end(kind: str) -> None:
    dispatch = Dispatch(2)
    dispatch.take_end()
    assert dispatch.pending == [End(), End()]
    for channel in (0, 1):
        dispatch.forwarded(channel)
    with pytest.raises(LocalProtocolError, match="ended"):
        TAKES[kind](dispatch)


@pytest.mark.parametrize("kind", TAKES)
def test_nothing_is_taken_once_a_channel_is_lost(kind: str) -> None:
    dispatch = Dispatch(2)
    dispatch.take_chunk(["a", "b"])
    dispatch.lose(1)
    assert not dispatch.can_forward(0)
    with pytest.raises(LocalProtocolError, match="channel 1 is lost"):
        TAKES[kind](dispatch)


def test_a_chunk_in_parts_for_other_channels_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="in 1 parts"):
        Dispatch(2).take_chunk(["a"])


def test_only_what_a_channel_lacks_is_forwarded() -> None:
    dispatch = Dispatch(2)
    dispatch.take_chunk([None, "b"])
    for wrong in (0, 2, -1):
        with pytest.raises(LocalProtocolError):
            dispatch.forwarded(wrong)
    with pytest.raises(LocalProtocolError):
        dispatch.lose(2)
