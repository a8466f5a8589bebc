"""The blocking clients and channels that keep their rows, against an exchange in a process of its own."""

import signal
from collections.abc import Callable, Iterator

import pytest

from permitflow.errors import (
    ChannelClosedError,
    InvalidParametersError,
    LogReplacedError,
    PeerGoneError,
    PeerTimeoutError,
    PermitflowError,
    ProducerReplacedError,
    RetentionError,
    RowsForgottenError,
    RowsNotThereError,
    UnknownChannelError,
    UnknownConsumerError,
)
from permitflow.protocol.control import ChannelRow, ChannelState, StagedPart
from permitflow.transports.grpc_blocking import BlockingControl, BlockingSink, control, open_sink, open_source
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


def filled(exchange: ServedExchange, rows: int, *, closes: bool = False) -> str:
    """A channel with so many rows."""
    channel = exchange.channel()
    with sink_of(exchange, channel) as sink:
        sink.send(numbers(0, rows))
        sink.end(closes_channel=closes)
    return channel


def read(exchange: ServedExchange, channel: str, **wanted: object) -> list[int]:
    with open_source(exchange.address, channel, timeout_seconds=PATIENCE_SECONDS, **wanted) as source:  # type: ignore[arg-type]  # the tests say what
        return [number for batch in source for number in batch.column(0).to_pylist()]


def test_ranges_are_read_again_and_again(exchange: ServedExchange) -> None:
    channel = filled(exchange, 200, closes=True)
    for from_row, to_row in ((0, 200), (37, 38), (0, 200), (150, 200), (5, 5)):
        assert read(exchange, channel, from_row=from_row, to_row=to_row) == list(range(from_row, to_row))
    assert read(exchange, channel, consumer="audit") == list(range(200))
    with open_source(exchange.address, channel, from_row=7, timeout_seconds=PATIENCE_SECONDS) as source:
        assert source.first_row == 7


def test_who_acknowledges_makes_room_and_reads_on(exchange: ServedExchange) -> None:
    channel = exchange.channel()
    window = SMALL_WINDOW.row_permits
    with orders_to(exchange) as orders:
        for start in range(0, 4 * window, window):
            with sink_of(exchange, channel) as sink:
                sink.send(numbers(start, start + window))
                sink.end(closes_channel=False)
            assert read(exchange, channel, to_row=start + window) == list(range(start, start + window))
            for consumer in ("", "audit"):
                (at,) = orders.acknowledge({channel: start + window}, consumer=consumer)
                assert (at.acknowledged_row, at.next_row) == (start + window, start + window)


def test_a_sink_waits_for_acknowledgements_and_says_so_when_there_are_none(exchange: ServedExchange) -> None:
    channel, chunk_rows = exchange.channel(), SMALL_WINDOW.max_chunk_cost
    with sink_of(exchange, channel, "p") as sink, orders_to(exchange) as orders:
        sink.send(numbers(0, chunk_rows))
        while orders.positions([channel])[0].next_row < chunk_rows:
            pass
        sink.send(numbers(chunk_rows, 10 * SMALL_WINDOW.row_permits))
        sink.timeout_seconds = SHORT_SECONDS  # from here on it waits in vain
        with pytest.raises(
            PeerTimeoutError,
            match=r"kept until all consumers have acknowledged them; these have not.*'audit' 192, 'default' 192",
        ):
            sink.end(closes_channel=False)
        (at,) = orders.positions([channel])
        assert at.next_row == chunk_rows == 192


def stumble(exchange: ServedExchange, channel: str) -> None:
    """Put 40 rows more into a channel, and fail."""
    with sink_of(exchange, channel, "p") as sink:
        assert sink.first_row is not None
        for row in range(sink.first_row, sink.first_row + 40):
            sink.send(numbers(row, row + 1))
        raise ZeroDivisionError


def test_a_producer_goes_on_where_it_was_and_an_error_in_its_block_breaks_nothing(exchange: ServedExchange) -> None:
    channel, kept = exchange.channel(), 0
    while kept < 100:
        with pytest.raises(ZeroDivisionError):
            stumble(exchange, channel)
        with sink_of(exchange, channel, "p") as sink:
            kept = sink.first_row or 0
    with sink_of(exchange, channel, "p") as sink:
        assert sink.first_row is not None
        sink.send(numbers(sink.first_row, 200))
        sink.end(closes_channel=True)
    assert read(exchange, channel) == list(range(200))


def test_of_two_producers_of_one_name_the_newer_one_goes_on(exchange: ServedExchange) -> None:
    channel = exchange.channel()
    with sink_of(exchange, channel, "p") as older, sink_of(exchange, channel, "p") as newer:
        with pytest.raises(ProducerReplacedError):
            older.send(numbers(0, 100 * SMALL_WINDOW.row_permits))
        newer.end(closes_channel=True)


def test_what_cannot_be_read_is_refused(exchange: ServedExchange) -> None:
    channel = filled(exchange, 10)
    with orders_to(exchange) as orders:
        orders.acknowledge({channel: 4})
    cases: list[tuple[type[PermitflowError], dict[str, object]]] = [
        (UnknownConsumerError, {"consumer": "nobody"}),
        (RowsForgottenError, {"from_row": 3, "to_row": 9}),
        (RowsNotThereError, {"from_row": 4, "to_row": 11}),
        (InvalidParametersError, {"from_row": 5, "to_row": 4}),
        (LogReplacedError, {"log_id": "another"}),
    ]
    for kind, wanted in cases:
        with pytest.raises(kind):
            read(exchange, channel, **wanted)


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


def test_an_order_that_fails_ends_the_stream(exchange: ServedExchange) -> None:
    channel = filled(exchange, 10)
    cases: list[tuple[type[PermitflowError], Callable[[BlockingControl], object]]] = [
        (UnknownChannelError, lambda orders: orders.positions(["nowhere"])),
        (RowsNotThereError, lambda orders: orders.acknowledge({channel: 11})),
        (UnknownConsumerError, lambda orders: orders.close_channels([channel], consumer="nobody")),
        (PermitflowError, lambda orders: orders.publish("q", 0, [StagedPart(channel, 0, "a", 1)])),
    ]
    for kind, order in cases:
        with orders_to(exchange) as orders:
            with pytest.raises(kind):
                order(orders)
            with pytest.raises(ChannelClosedError):
                orders.positions([channel])


def test_an_order_that_does_not_fit_the_wire_is_not_sent(exchange: ServedExchange) -> None:
    with orders_to(exchange) as orders:
        with pytest.raises(InvalidParametersError, match="row must fit 64 bits"):
            orders.acknowledge({"c": 2**63})
        assert orders.positions([]) == ()


def test_a_stream_of_orders_that_was_closed_takes_none(exchange: ServedExchange) -> None:
    orders = orders_to(exchange)
    orders.close()
    orders.close()
    with pytest.raises(ChannelClosedError):
        orders.positions([])


@pytest.mark.parametrize("timeout_seconds", [0, -1.0, float("nan")])
def test_a_time_out_that_is_none_is_refused(timeout_seconds: float) -> None:
    with pytest.raises(InvalidParametersError, match="timeout_seconds must be above 0"):
        control("127.0.0.1:1", timeout_seconds=timeout_seconds)


def test_channels_that_are_read_once_have_neither_ranges_nor_names_nor_positions() -> None:
    with served_exchange() as exchange:
        channel = exchange.channel()
        for deed in (
            lambda: open_sink(exchange.address, channel, SCHEMA, producer="p", timeout_seconds=PATIENCE_SECONDS),
            lambda: open_source(exchange.address, channel, from_row=0, timeout_seconds=PATIENCE_SECONDS),
            lambda: orders_to(exchange).positions([channel]),
        ):
            with pytest.raises(RetentionError, match="whose retention is once"):
                deed()


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
