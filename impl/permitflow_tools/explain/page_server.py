"""Serves pages out of an event loop: the standard library's HTTP server, in a bounded number of threads of its own."""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from threading import BoundedSemaphore, Thread
from typing import Any, TypeVar

__all__ = ["ANSWER_SECONDS", "MOST_READERS", "READER_SECONDS", "PageHandler", "PageServer", "serving"]

MOST_READERS = 16
"""Requests at a time; others are hung up on."""
READER_SECONDS = 10.0
"""For each read and write of a request."""
ANSWER_SECONDS = 5.0
"""For the event loop to answer."""

T = TypeVar("T")


class PageServer(ThreadingMixIn, TCPServer):
    """Hangs up on readers beyond a number of them."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 2 * MOST_READERS

    def __init__(self, host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        """Listen.  Call it in the event loop that answers.

        Raises:
            OSError: the address cannot be had.
        """
        self._loop = asyncio.get_running_loop()
        self._free = BoundedSemaphore(MOST_READERS)
        (family, _, _, _, address), *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        self.address_family = family
        super().__init__(address, handler)  # type: ignore[arg-type]  # any family's

    def process_request(self, request: Any, client_address: Any) -> None:
        """In a thread, if there are not too many."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """As in the base; then there is a place again."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reader that breaks off is not an error of this process, nor one that comes when its loop has ended."""
        if not isinstance(sys.exception(), OSError | RuntimeError):
            super().handle_error(request, client_address)

    def asked(self, question: Coroutine[Any, Any, T]) -> T:
        """The answer of the event loop, for a reader's thread.

        Raises:
            TimeoutError: none came in time.
        """
        asking = asyncio.run_coroutine_threadsafe(question, self._loop)
        try:
            return asking.result(ANSWER_SECONDS)
        finally:
            asking.cancel()


class PageHandler(BaseHTTPRequestHandler):
    """Answers one request."""

    timeout = READER_SECONDS
    server_version = "permitflow"
    sys_version = ""

    def send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        """Answer; no other page of the reader's browser may use it."""
        self.send_response(status)
        for name, value in (
            ("Content-Type", f"{kind}; charset=utf-8"),
            ("Content-Length", str(len(content))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Content-Security-Policy", "frame-ancestors 'none'"),
        ):
            self.send_header(name, value)
        if status is HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_arguments: object) -> None:
        """A page that asks every other second would fill the log."""


@asynccontextmanager
async def serving(server: PageServer) -> AsyncIterator[int]:
    """Serve while the block runs; the port."""
    # It looks so often whether it shall end.
    thread = Thread(target=server.serve_forever, args=(0.05,), name="pages", daemon=True)
    thread.start()
    try:
        port: int = server.socket.getsockname()[1]
        yield port
    finally:
        await asyncio.to_thread(server.shutdown)
        server.server_close()
