"""A shop that sends a thousand orders each time it is started, into a channel that keeps its rows."""

import pyarrow as pa

from permitflow.client.blocking import open_sink

EXCHANGE = "127.0.0.1:50051"
ORDERS = pa.schema([("number", pa.int64())])

with open_sink(EXCHANGE, "orders/0", ORDERS, producer="shop") as sink:
    # The exchange has this many rows of this name: a producer that was killed goes on there, and repeats none.
    first = sink.first_row or 0
    for number in range(first, first + 1_000, 100):
        sink.send(pa.record_batch({"number": range(number, number + 100)}, schema=ORDERS))
    sink.end(closes_channel=False)  # of this program's stream; the channel stays open for the next time
print(f"orders {first} to {first + 999} are kept")
