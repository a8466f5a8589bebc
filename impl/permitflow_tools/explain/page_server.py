"""Serves pages out of an event loop: the standard library's HTTP server, in a bounded number of threads of its own."""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from threading import Thread
from time import monotonic
from typing import Any, TypeVar

from permitflow.carriers.accepting import place

MOST_READERS = 16
"""Requests at a time; others are hung up on."""
READER_SECONDS = 10.0
"""For each read and write of a request."""
REQUEST_SECONDS = 30.0
"""For a whole request and its answer, however often something is read or written."""
ANSWER_SECONDS = 5.0
"""For the event loop to answer."""

T = TypeVar("T")


class PageServer(ThreadingMixIn, TCPServer):
    """Hangs up on readers beyond a number of them, and on those that take too long."""

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
        self._until: dict[socket.socket, float] = {}
        """When each reader must have had its answer; the threads of those take themselves out."""
        self.address_family, address = place(host, port, socket.SOCK_STREAM)
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """In a thread, if there are not too many."""
        if len(self._until) >= MOST_READERS:
            self.shutdown_request(request)
            return
        self._until[request] = monotonic() + REQUEST_SECONDS
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # there can be no more threads
            del self._until[request]
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """As in the base; then there is a place again."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            del self._until[request]

    def service_actions(self) -> None:
        """Hang up on those that have had their time; called between two requests, and many times a second."""
        now = monotonic()
        for request, until in tuple(self._until.items()):
            if until < now:
                with suppress(OSError):  # it is over, or its thread just ends
                    socket.socket.shutdown(request, socket.SHUT_RDWR)  # not that of TLS, which its thread may be using

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
