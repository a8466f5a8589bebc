"""Several channels as one stream, from a thread without an event loop."""

from concurrent.futures import ThreadPoolExecutor
from typing import NoReturn

import pyarrow as pa
import pytest

from permitflow.client.blocking import open_source
from permitflow.client.blocking_dispatch import BlockingDispatch, open_dispatch
from permitflow.client.held import Held
from permitflow.dispatch import spread, vnode_of
from permitflow.errors import ChannelAbortedError, ChannelClosedError, DispatchError, PeerTimeoutError
from permitflow.names import stream_channels
from permitflow.stream.frames import EndOutcome
from tests.support.served_exchange import PATIENCE_SECONDS, SCHEMA, ServedExchange

pytestmark = pytest.mark.usefixtures("patient_diagnosis")

OWNERS = spread(2)
LEFT, RIGHT = ([key for key in range(5_000) if OWNERS[vnode_of([key])] == channel] for channel in (0, 1))
(COLUMN,) = SCHEMA.names


def batch(keys: list[int]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(keys, SCHEMA.field(0).type)], schema=SCHEMA)


def opened(exchange: ServedExchange, stream: str) -> BlockingDispatch:
    return open_dispatch(exchange.address, stream_channels(stream, 2), SCHEMA, key=[COLUMN])


def send_for_ever(dispatch: BlockingDispatch) -> NoReturn:
    while True:
        dispatch.send(batch([LEFT[0], RIGHT[0]]))


def read(exchange: ServedExchange, channel: str) -> list[int]:
    with open_source(exchange.address, channel, timeout_seconds=PATIENCE_SECONDS) as source:
        return [key for chunk in source for key in chunk.column(0).to_pylist()]


def test_a_call_that_timed_out_goes_on_where_it_stopped(exchange: ServedExchange, pool: ThreadPoolExecutor) -> None:
    stream = exchange.stream()
    left, right = stream_channels(stream, 2)
    sent: list[int] = []
    with opened(exchange, stream) as dispatch:
        for sink in dispatch.sinks:
            sink.timeout_seconds = 0.2
        reading = [pool.submit(read, exchange, right)]
        # Nobody reads the left channel.
        for first in range(0, 2_000, 100):
            sent += [*LEFT[first : first + 100], RIGHT[first]]
            last = batch(sent[-101:])
            try:
                dispatch.send(last)
            except PeerTimeoutError:
                break
        else:
            pytest.fail("it never waited")
        for sink in dispatch.sinks:
            sink.timeout_seconds = PATIENCE_SECONDS
        reading.append(pool.submit(read, exchange, left))
        dispatch.send(last)
        dispatch.send_barrier(1)
        assert dispatch.end() == (EndOutcome.CONSUMED,) * 2
    received = [task.result() for task in reading]
    assert received == [[key for key in sent if OWNERS[vnode_of([key])] == channel] for channel in (1, 0)]


def test_a_block_that_forgets_the_end_breaks_its_channels(exchange: ServedExchange) -> None:
    stream = exchange.stream()
    with opened(exchange, stream) as dispatch:
        dispatch.send(batch([LEFT[0], RIGHT[0]]))
    for channel in stream_channels(stream, 2):
        with pytest.raises(ChannelAbortedError, match="left without ending it"):
            read(exchange, channel)


@pytest.mark.parametrize("aborts", [True, False])
def test_all_channels_hear_of_an_abort_before_one_is_waited_for(
    aborts: bool, exchange: ServedExchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A silent exchange cost a second or two for each channel."""
    wait, waits = Held.wait_until_over, list[float]()

    def wait_behind_all(held: Held[object], seconds: float) -> None:
        waits.append(seconds)
        for sink in dispatch.sinks:
            with pytest.raises(ChannelClosedError):
                sink.send(batch(LEFT[:1]))
        wait(held, seconds)

    with opened(exchange, exchange.stream()) as dispatch:
        dispatch.send(batch([LEFT[0], RIGHT[0]]))
        monkeypatch.setattr(Held, "wait_until_over", wait_behind_all)
        if aborts:
            dispatch.abort("the test says so")
    assert waits


def test_a_reader_that_needs_no_more_ends_all_channels(exchange: ServedExchange, pool: ThreadPoolExecutor) -> None:
    stream = exchange.stream()
    left, right = stream_channels(stream, 2)
    with opened(exchange, stream) as dispatch:
        reading = pool.submit(read, exchange, left)
        dispatch.send(batch([LEFT[0], RIGHT[0]]))
        with open_source(exchange.address, right) as source:
            next(source)
            source.cancel("enough")
        with pytest.raises(DispatchError, match=f"{right}.*enough"):
            send_for_ever(dispatch)
        with pytest.raises(ChannelAbortedError, match="takes no more rows"):
            reading.result()
