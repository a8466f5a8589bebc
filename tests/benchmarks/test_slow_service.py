"""The tutorial: both gateways forward every row."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from threading import Thread

import pyarrow as pa
import pytest

from benchmarks.slow_service import exchange_gateway
from benchmarks.slow_service.programs import ORDERS, Settings, decode, encode, fetch, gateway, post, service
from permitflow.client.blocking import open_sink, open_source
from tests.support.served_exchange import served_exchange

BATCHES = [
    pa.RecordBatch.from_pylist(
        [{"id": row, "amount": float(row), "document": "."} for row in range(first, first + 100)], schema=ORDERS
    )
    for first in (0, 100, 200)
]
SCORES = [(row, row / 2) for row in range(300)]


@contextmanager
def serving(listening: Callable[[Settings], tuple[ThreadingHTTPServer, str]], settings: Settings) -> Iterator[str]:
    server, url = listening(settings)
    with server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield url
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def settings() -> Iterator[Settings]:
    """With a service that is not slow."""
    fast = Settings(rows_per_second=10**9, channels=1)
    with serving(service, fast) as url:
        yield Settings(rows_per_second=10**9, channels=1, service=url)


def rows_of(batch: pa.RecordBatch) -> list[tuple[int, float]]:
    return list(zip(*batch.to_pydict().values(), strict=True))


def test_the_queueing_gateway_takes_all_orders_before_one_score(settings: Settings) -> None:
    with serving(gateway, settings) as url:
        for batch in BATCHES:
            post(f"{url}/orders", encode(batch))
        post(f"{url}/orders", b"")
        scores = []
        while (answer := fetch(f"{url}/scores")).status != 205:
            scores += rows_of(decode(answer.body)) if answer.status == 200 else []
    assert scores == SCORES


def test_the_gateway_with_the_exchange_forwards_every_row(settings: Settings) -> None:
    with served_exchange(more=["--stream", "orders", "--stream", "scores"]) as served:
        on_exchange = Settings(**{**vars(settings), "exchange": served.address})
        forwarding = Thread(target=exchange_gateway.run, args=(None, on_exchange))
        forwarding.start()
        with open_sink(served.address, "orders/0", ORDERS) as orders:
            for batch in BATCHES:
                orders.send(batch)
            orders.end(closes_channel=True)
        with open_source(served.address, "scores/0") as source:
            scores = [row for batch in source for row in rows_of(batch)]
        forwarding.join()
    assert scores == SCORES
