"""The blocking clients and channels that keep their rows, against an exchange in a process of its own."""

import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest

from permitflow.client import ChannelState
from permitflow.client.blocking import BlockingControl, BlockingSink, control, open_sink, open_source
from permitflow.client.blocking_dispatch import BlockingDispatch, open_dispatch
from permitflow.errors import (
    PeerGoneError,
    PeerTimeoutError,
)
from permitflow.names import stream_channels
from permitflow.stream.control import ChannelRow
from permitflow.stream.frames import EndOutcome
from tests.support.served_exchange import (
    PATIENCE_SECONDS,
    SCHEMA,
    SHORT_SECONDS,
    SMALL_WINDOW,
    ServedExchange,
    numbers,
    served_exchange,
)

pytestmark = pytest.mark.usefixtures("patient_diagnosis")

OVER = {"gRPC": "127.0.0.1:0", "TCP": "tcp://127.0.0.1:0"}
REPLAY = ("--retention", "replay", "--consumer", "default", "--consumer", "audit", "--drain-seconds", "0")


@pytest.fixture(scope="module", params=OVER)
def exchange(request: pytest.FixtureRequest) -> Iterator[ServedExchange]:
    with served_exchange(address=OVER[request.param], more=REPLAY) as served:
        yield served


def orders_to(exchange: ServedExchange) -> BlockingControl:
    return control(exchange.address, timeout_seconds=PATIENCE_SECONDS)


def sink_of(exchange: ServedExchange, channel: str, producer: str = "") -> BlockingSink:
    return open_sink(exchange.address, channel, SCHEMA, producer=producer, timeout_seconds=PATIENCE_SECONDS)


def filled(exchange: ServedExchange, rows: int) -> str:
    channel = exchange.channel()
    with sink_of(exchange, channel) as sink:
        sink.send(numbers(0, rows))
        sink.end(closes_channel=False)
    return channel


def read(exchange: ServedExchange, channel: str, **wanted: object) -> list[int]:
    with open_source(exchange.address, channel, timeout_seconds=PATIENCE_SECONDS, **wanted) as source:  # type: ignore[arg-type]  # the tests say what
        return [number for batch in source for number in batch.column(0).to_pylist()]


def test_a_sink_waits_for_acknowledgements_and_says_so(exchange: ServedExchange) -> None:
    channel, chunk_rows = exchange.channel(), SMALL_WINDOW.max_chunk_cost
    with sink_of(exchange, channel, "p") as sink, orders_to(exchange) as orders:
        sink.send(numbers(0, chunk_rows))
        while orders.positions([channel])[0].next_row < chunk_rows:
            pass
        sink.send(numbers(chunk_rows, 10 * SMALL_WINDOW.row_permits))
        sink.timeout_seconds = SHORT_SECONDS  # from here on it waits in vain
        with pytest.raises(
            PeerTimeoutError,
            match=r"kept until all consumers have acknowledged them; these have not.*audit 192, default 192",
        ):
            sink.end(closes_channel=False)
        (at,) = orders.positions([channel])
        assert at.next_row == chunk_rows == 192


@pytest.mark.parametrize("fails", [True, False])
def test_a_named_producer_that_leaves_without_an_end_can_come_again(fails: bool, exchange: ServedExchange) -> None:
    channel = exchange.channel()
    with suppress(ValueError), sink_of(exchange, channel, "p") as sink:
        sink.send(numbers(0, 10))
        if fails:
            raise ValueError
    with sink_of(exchange, channel, "p") as sink:
        assert sink.first_row is not None
        sink.send(numbers(sink.first_row, 20))
        sink.end()
    assert read(exchange, channel) == list(range(20))


def test_orders_of_all_kinds(exchange: ServedExchange) -> None:
    one, two = filled(exchange, 10), filled(exchange, 20)
    with orders_to(exchange) as orders:
        first, second = orders.positions([one, two], consumer="audit")
        assert (first.next_row, second.next_row, first.parameters, first.schema) == (10, 20, SMALL_WINDOW, SCHEMA)
        acknowledged = orders.acknowledge([ChannelRow(one, 5, first.log_id), ChannelRow(two, 6, second.log_id)])
        assert [at.acknowledged_row for at in acknowledged] == [5, 6]
        assert [at.acknowledged_row for at in orders.positions([two, one])] == [6, 5]
        assert {at.state for at in orders.close_channels([one, two])} == {ChannelState.ENDED}
    assert read(exchange, one) == list(range(5, 10))


@pytest.mark.parametrize("listen", OVER.values(), ids=OVER)
def test_an_exchange_that_is_stopped_or_gone_is_missed(listen: str) -> None:
    with served_exchange(address=listen, more=REPLAY) as exchange:
        with orders_to(exchange) as orders:
            orders.positions([])
            exchange.signal(signal.SIGSTOP)
            orders.timeout_seconds = SHORT_SECONDS
            with pytest.raises(PeerTimeoutError, match=r"no reply within 0\.3 s"):
                orders.positions([])
        exchange.signal(signal.SIGCONT)
        with orders_to(exchange) as orders:
            orders.positions([])
            exchange.signal(signal.SIGKILL)
            with pytest.raises(PeerGoneError):
                orders.positions([])
        with orders_to(exchange) as orders, pytest.raises(PeerGoneError):
            orders.positions([])


def test_a_named_producer_of_a_stream_goes_on_after_an_error(exchange: ServedExchange) -> None:
    channels = stream_channels(exchange.stream(), 2)

    def opened() -> BlockingDispatch:
        return open_dispatch(
            exchange.address, channels, SCHEMA, key=SCHEMA.names, producer="p", timeout_seconds=PATIENCE_SECONDS
        )

    with suppress(ZeroDivisionError), opened():
        raise ZeroDivisionError
    with opened() as again:
        again.send(numbers(0, 100))
        assert again.end(closes_channels=False, until=EndOutcome.ACCEPTED) == (EndOutcome.ACCEPTED,) * 2
