"""Lets one attempt at each task call: a process beside the driver that remembers who has asked.

Neither a service nor a task can tell attempts apart, because Spark numbers attempts from 0 again where it runs a stage
again.  So, where a service may not be called twice, a task asks the coordinator before it calls.  The coordinator is
started where a job is planned, once per driver, and ends with the driver.  It is run as a file that imports the
standard library only, because it then takes 10 MB.

Each request and reply carries a code (HMAC) made with a secret that only the driver and its tasks know, and requests
repeat a number that the coordinator has drawn, so that a stranger can neither ask nor answer.  A silent stranger is
disconnected after some seconds; memory is bounded: a job is forgotten when many newer ones have asked, and then none of
its tasks may call any more.
"""

import hmac
import json
import os
import select
import signal
import socket
import socketserver
import sys
import threading
import time
from collections import OrderedDict
from contextlib import suppress
from io import BufferedIOBase
from typing import ClassVar

SECONDS = 20.0
"""The longest wait for one message."""

MOST_TASKS = 131_072
"""Tasks that are remembered, and as many names of forgotten jobs."""

_NONCE_BYTES = 16
_MOST_BYTES = 1_024
"""The longest line."""

GRANTED = "granted"

# Where the system cannot tell that a process has ended.
_LOOK_SECONDS = 1.0


class Claims:
    """Which attempt at each task of each job may call.  Thread-safe."""

    def __init__(self, most_tasks: int = MOST_TASKS) -> None:
        """Nobody has asked."""
        self._most_tasks = most_tasks
        self._jobs: OrderedDict[str, dict[int, int]] = OrderedDict()
        """The attempt at each partition of each job; jobs in the order in which they began."""
        self._forgotten: OrderedDict[str, None] = OrderedDict()
        self._tasks = 0
        self._lock = threading.Lock()

    def ask(self, job: str, partition: int, attempt: int) -> str:
        """``GRANTED``, once for each task; else why this attempt may not call."""
        with self._lock:
            if job in self._forgotten:
                return "tasks of many newer jobs have called since: nobody knows whether this one has"
            tasks = self._jobs.setdefault(job, {})
            if partition in tasks:
                return f"attempt {tasks[partition]} has called before"
            tasks[partition] = attempt
            self._tasks += 1
            self._forget()
        return GRANTED

    def _forget(self) -> None:
        while self._tasks > self._most_tasks and len(self._jobs) > 1:
            name, tasks = self._jobs.popitem(last=False)
            self._tasks -= len(tasks)
            self._forgotten[name] = None
            if len(self._forgotten) > self._most_tasks:
                self._forgotten.popitem(last=False)


def code(secret: bytes, nonce: bytes, text: bytes) -> bytes:
    """The code of a message, which only those can make who know the secret."""
    # Of one, then of the other: nobody can move a letter from the number to the message.
    return hmac.digest(hmac.digest(secret, nonce, "sha256"), text, "sha256").hex().encode()


def send(line: BufferedIOBase, secret: bytes, nonce: bytes, message: object) -> None:
    """Send a message behind its code, as a line."""
    text = json.dumps(message).encode()
    line.write(b"%s %s\n" % (code(secret, nonce, text), text))
    line.flush()


def receive(line: BufferedIOBase, secret: bytes, nonce: bytes) -> object:
    """Receive a message.

    Raises:
        OSError: it does not come, or its sender does not know the secret.
    """
    given, _, text = read_line(line).partition(b" ")
    if not hmac.compare_digest(given, code(secret, nonce, text)):
        raise ConnectionError("the message has a wrong code: its sender does not know the secret")
    return json.loads(text)


def read_line(line: BufferedIOBase) -> bytes:
    """Receive a line, without its end.

    Raises:
        OSError: it does not come, or is too long.
    """
    if not (found := line.readline(_MOST_BYTES)):
        raise ConnectionError("the connection was closed")
    if not found.endswith(b"\n"):
        raise ConnectionError("the message is cut or too long")
    return found[:-1]


def ask(place: tuple[str, int], secret: bytes, job: str, partition: int, attempt: int) -> str:
    """Ask the coordinator at a place; see ``Claims.ask``.

    Raises:
        OSError: nobody answers there who knows the secret.
    """
    with socket.create_connection(place, SECONDS) as connection, connection.makefile("rwb") as line:
        nonce = read_line(line)
        send(line, secret, b"?" + nonce, [job, partition, attempt])
        return str(receive(line, secret, b"!" + nonce))


class _Handler(socketserver.StreamRequestHandler):
    claims: ClassVar[Claims]
    secret: ClassVar[bytes]
    timeout = SECONDS

    def handle(self) -> None:
        nonce = os.urandom(_NONCE_BYTES).hex().encode()
        try:
            self.wfile.write(nonce + b"\n")
            asked = receive(self.rfile, self.secret, b"?" + nonce)
            assert isinstance(asked, list), "its code is right"
            send(self.wfile, self.secret, b"!" + nonce, self.claims.ask(*asked))
        except OSError:
            return


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 128
    _MOST_AT_ONCE = 256
    """Connections; others wait in the kernel."""

    def __init__(self) -> None:
        if socket.has_dualstack_ipv6():
            self.address_family = socket.AF_INET6
        super().__init__(("", 0), _Handler, bind_and_activate=False)
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        self.server_bind()
        self.server_activate()
        self._room = threading.BoundedSemaphore(self._MOST_AT_ONCE)

    def process_request(self, request: object, client_address: object) -> None:
        self._room.acquire()
        super().process_request(request, client_address)  # type: ignore[arg-type]  # as the base class has it

    def process_request_thread(self, request: object, client_address: object) -> None:
        try:
            super().process_request_thread(request, client_address)  # type: ignore[arg-type]  # as the base class has it
        finally:
            self._room.release()


def _end_with(pid: int) -> None:
    """End this process when another one has ended."""
    try:
        select.select([os.pidfd_open(pid)], [], [])
    except ProcessLookupError:  # it has ended already
        pass
    except (AttributeError, OSError):  # this system has no such call, or a container forbids it
        with suppress(ProcessLookupError):
            while True:
                os.kill(pid, 0)
                time.sleep(_LOOK_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


def main(parent: int) -> None:
    """Read the secret, write the port, and serve as long as the process ``parent`` lives."""
    if os.fork():  # the planning process need not wait for this one
        os._exit(0)
    _Handler.claims, _Handler.secret = Claims(), bytes.fromhex(sys.stdin.readline())
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    with _Server() as server:
        print(server.server_address[1], flush=True)
        for stream in (0, 1, 2):
            os.dup2(os.open(os.devnull, os.O_RDWR), stream)
        server.serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]))
