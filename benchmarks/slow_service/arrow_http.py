"""Arrow record batches over HTTP, with nothing but the standard library and pyarrow."""

import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

import pyarrow as pa

__all__ = ["Answer", "ArrowHandler", "decode", "encode", "fetch", "listen", "post"]

LONGEST_REQUEST_SECONDS = 300.0


class Answer(NamedTuple):
    """What a server says."""

    status: int
    body: bytes = b""


def encode(batch: pa.RecordBatch) -> bytes:
    """A batch as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def decode(body: bytes) -> pa.RecordBatch:
    """And back."""
    (batch,) = pa.ipc.open_stream(body)
    return batch


def post(url: str, body: bytes) -> bytes:
    """Send a request and wait for the answer."""
    with urllib.request.urlopen(urllib.request.Request(url, data=body), timeout=LONGEST_REQUEST_SECONDS) as answer:
        return bytes(answer.read())


def fetch(url: str) -> Answer:
    """Ask for what there is."""
    with urllib.request.urlopen(url, timeout=LONGEST_REQUEST_SECONDS) as answer:
        return Answer(answer.status, answer.read())


class ArrowHandler(BaseHTTPRequestHandler):
    """Answers what ``respond`` says, and is silent otherwise."""

    def respond(self, path: str, body: bytes) -> Answer:
        """What to answer to a request; ``body`` is empty if it is a GET."""
        raise NotImplementedError

    def do_POST(self) -> None:
        """Read the body, then answer."""
        self._answer(self.respond(self.path, self.rfile.read(int(self.headers["Content-Length"]))))

    def do_GET(self) -> None:
        """Answer."""
        self._answer(self.respond(self.path, b""))

    def _answer(self, answer: Answer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Say nothing."""


def listen(handler: type[ArrowHandler]) -> tuple[ThreadingHTTPServer, str]:
    """A server at a free port of this machine, and its address as a URL; ``serve_forever`` is the caller's."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    return server, f"http://127.0.0.1:{server.server_port}"
