"""Between the jobs: take orders when the service is ready for them, and put back the scores."""

import json
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from permitflow.client.blocking import open_sink, open_source

EXCHANGE = "127.0.0.1:50051"
SERVICE = "http://127.0.0.1:8080/"
SCORES = pa.schema([("number", pa.int64()), ("score", pa.float64())])
WAIT_SECONDS = 300  # Spark's start takes minutes on a busy machine


def score(channel: int) -> int:
    """Score all orders of a channel; how many there were."""
    rows = 0
    with (
        open_source(EXCHANGE, f"orders/{channel}", timeout_seconds=WAIT_SECONDS) as orders,
        open_sink(EXCHANGE, f"scores/{channel}", SCORES, timeout_seconds=WAIT_SECONDS) as sink,
    ):
        for batch in orders:  # asking for the next batch returns the permits of this one
            amounts = json.dumps(batch["amount"].to_pylist()).encode()
            with urllib.request.urlopen(SERVICE, data=amounts) as answer:
                sink.send(pa.record_batch([batch["number"], json.load(answer)], schema=SCORES))
            rows += batch.num_rows
        sink.end(closes_channel=True)
    return rows


with ThreadPoolExecutor(2) as threads:
    print(f"{sum(threads.map(score, range(2))):,} orders were scored")
