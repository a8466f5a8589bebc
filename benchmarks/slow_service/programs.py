"""The slow service, and the gateway with a queue before it: Arrow record batches over HTTP, by the standard library."""

import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from time import sleep
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

ORDERS = pa.schema([("id", pa.int64()), ("amount", pa.float64()), ("document", pa.string())])
SCORES = pa.schema([("id", pa.int64()), ("score", pa.float64())])


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Equal for both ways."""

    rows: int = 30_000
    document_bytes: int = 10_000
    """The size of each row; 30,000 rows are 300 MB."""
    rows_per_second: int = 400
    """The service's rate."""
    channels: int = 2
    row_permits: int = 256
    """The permits of each channel of the exchange; 256 rows are 2.6 MB."""
    service: str = ""
    """Where the slow service listens, once it does."""
    gateway: str = ""
    """Where the gateway with the queue listens, once it does."""
    exchange: str = ""
    """Where the exchange listens, once it does."""
    work_dir: str = ""


LONGEST_REQUEST_SECONDS = 300.0


class Answer(NamedTuple):
    status: int
    body: bytes = b""


def encode(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def decode(body: bytes) -> pa.RecordBatch:
    (batch,) = pa.ipc.open_stream(body)
    return batch


def post(url: str, body: bytes) -> bytes:
    with urllib.request.urlopen(urllib.request.Request(url, data=body), timeout=LONGEST_REQUEST_SECONDS) as answer:
        return bytes(answer.read())


def fetch(url: str) -> Answer:
    with urllib.request.urlopen(url, timeout=LONGEST_REQUEST_SECONDS) as answer:
        return Answer(answer.status, answer.read())


class ArrowHandler(BaseHTTPRequestHandler):
    """Answers with the result of ``respond``, and logs nothing."""

    def respond(self, path: str, body: bytes) -> Answer:
        """The answer to a request; ``body`` is empty for a GET."""
        raise NotImplementedError

    def do_POST(self) -> None:
        self._answer(self.respond(self.path, self.rfile.read(int(self.headers["Content-Length"]))))

    def do_GET(self) -> None:
        self._answer(self.respond(self.path, b""))

    def _answer(self, answer: Answer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Answer nothing."""


def listen(handler: type[ArrowHandler]) -> tuple[ThreadingHTTPServer, str]:
    """A server at a free port of this machine, and its address as a URL; ``serve_forever`` is the caller's."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    return server, f"http://127.0.0.1:{server.server_port}"


def serve(
    pipe: Connection, listening: Callable[[Settings], tuple[ThreadingHTTPServer, str]], settings: Settings
) -> None:
    """Serve in a process of its own, until the pipe ends; the message is the URL."""
    server, url = listening(settings)
    Thread(target=server.serve_forever, daemon=True).start()
    pipe.send(url)
    pipe.recv()


def service(settings: Settings) -> tuple[ThreadingHTTPServer, str]:
    """The slow service and its address: it scores one request after the other, at this many rows per second."""
    one_at_a_time = Lock()

    class Scoring(ArrowHandler):
        def respond(self, path: str, body: bytes) -> Answer:
            orders = decode(body)
            with one_at_a_time:
                sleep(orders.num_rows / settings.rows_per_second)
            scores = pc.multiply(orders["amount"], 0.5)
            return Answer(200, encode(pa.record_batch([orders["id"], scores], schema=SCORES)))

    return listen(Scoring)


# Without back-pressure: takes orders at once, keeps them in a queue, and scores them as fast as the service can.
LONGEST_POLL_SECONDS = 1.0
END = b""


def gateway(settings: Settings) -> tuple[ThreadingHTTPServer, str]:
    orders: SimpleQueue[bytes] = SimpleQueue()
    scores: SimpleQueue[bytes] = SimpleQueue()

    class Gateway(ArrowHandler):
        def respond(self, path: str, body: bytes) -> Answer:
            if path == "/scores":
                return next_scores(scores)
            orders.put(body)
            return Answer(202)

    Thread(target=work_off, args=(settings.service, orders, scores), daemon=True).start()
    return listen(Gateway)


def work_off(service: str, orders: "SimpleQueue[bytes]", scores: "SimpleQueue[bytes]") -> None:
    """Score all orders of the queue, to its end."""
    while (order := orders.get()) != END:
        scores.put(post(f"{service}/score", order))
    scores.put(END)


def next_scores(scores: "SimpleQueue[bytes]") -> Answer:
    """Scores (200), none yet (204), or no more (205)."""
    try:
        body = scores.get(timeout=LONGEST_POLL_SECONDS)
    except Empty:
        return Answer(204)
    return Answer(200, body) if body != END else Answer(205)
