"""Processor time of both ends for a gigabyte over TCP: sockets as we use them, asyncio's transports, and TLS.

    python -m benchmarks.tcp_ways
    python -m benchmarks.tcp_ways --rounds 3 --gigabytes 1

The framing is that of ``permitflow.transports.tcp``, in little: eight bytes and a body, which is received where it
stays and sent in four pieces.  Nothing is encoded or summed.  Each end is a process; ways run in turn, and what counts
is processor time, so that others may use the machine.  TLS needs the program ``openssl``, for a certificate.
"""

import argparse
import asyncio
import socket
import ssl
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from struct import Struct

import pyarrow as pa

from benchmarks.harness import Partner
from permitflow.transports.shared_memory.ring import without

HEADER = Struct(">Q")
SIZES = {"24 KB": 24 << 10, "1.5 MB": 3 << 19}
WAYS = ("socket", "transport", "socket, then transport", "transport with TLS")
PIECES = 4
SCRATCH_BYTES = 64 << 10
READS_AT_ONCE = 8


class Frames(asyncio.BufferedProtocol):
    """Receives messages in place, from whichever object reads; makes the writer wait."""

    def __init__(self, count: int = 0) -> None:
        self._scratch, self._filled = memoryview(bytearray(SCRATCH_BYTES)), 0
        self._body: memoryview | None = None
        self._body_filled, self._left = 0, count
        self.is_over, self.may_write, self.is_answered = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.may_write.set()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._scratch[self._filled :] if self._body is None else self._body[self._body_filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self.is_answered.set()
        if self._body is not None:
            self._body_filled += nbytes
            self._finish()
            return
        start, end = 0, self._filled + nbytes
        while self._body is None and end - start >= HEADER.size:
            (size,) = HEADER.unpack_from(self._scratch, start)
            here = self._scratch[start + HEADER.size : min(end, start + HEADER.size + size)]
            self._body, self._body_filled = memoryview(pa.allocate_buffer(size)).cast("B"), len(here)
            self._body[: len(here)] = here
            start += HEADER.size + len(here)
            self._finish()
        self._filled = end - start
        self._scratch[: self._filled] = bytes(self._scratch[start:end])

    def _finish(self) -> None:
        if self._body is not None and self._body_filled == len(self._body):
            self._body, self._left = None, self._left - 1
            if not self._left:
                self.is_over.set()

    def pause_writing(self) -> None:
        self.may_write.clear()

    def resume_writing(self) -> None:
        self.may_write.set()


async def receive(way: str, connection: socket.socket, count: int, certificate: Path) -> None:
    """Read this many messages, then send a byte back."""
    loop, frames = asyncio.get_running_loop(), Frames(count)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    if "transport" in way:
        tls = context if "TLS" in way else None
        transport, _ = await loop.connect_accepted_socket(lambda: frames, connection, ssl=tls)
        await frames.is_over.wait()
        transport.write(b"!")
        transport.close()
        return
    connection.setblocking(False)

    def on_readable() -> None:
        with suppress(BlockingIOError):
            for _ in range(READS_AT_ONCE):
                frames.buffer_updated(connection.recv_into(frames.get_buffer(-1)))

    loop.add_reader(connection.fileno(), on_readable)
    await frames.is_over.wait()
    connection.send(b"!")


async def send(way: str, connection: socket.socket, count: int, size: int, certificate: Path) -> None:
    """Write this many messages, then wait for the byte."""
    loop, frames = asyncio.get_running_loop(), Frames()
    rest: Sequence[bytes | memoryview]
    piece = memoryview(bytearray(size // PIECES))
    message: list[bytes | memoryview] = [HEADER.pack(size) + piece, *[piece] * (PIECES - 1)]
    context = ssl.create_default_context(cafile=certificate)
    context.check_hostname = False
    if "transport" in way:
        tls = context if "TLS" in way else None
        host = "localhost" if "TLS" in way else None
        transport, _ = await loop.create_connection(lambda: frames, sock=connection, ssl=tls, server_hostname=host)
        for _ in range(count):
            await frames.may_write.wait()
            rest = message
            if way == "socket, then transport" and not transport.get_write_buffer_size():
                with suppress(BlockingIOError):
                    rest = without(message, connection.sendmsg(message))
            if rest:
                transport.writelines(rest)
        await frames.is_answered.wait()
        transport.abort()
        return
    connection.setblocking(False)
    writable = asyncio.Event()
    for _ in range(count):
        rest = message
        while rest:
            try:
                rest = without(rest, connection.sendmsg(rest))
            except BlockingIOError:
                writable.clear()
                loop.add_writer(connection.fileno(), writable.set)
                await writable.wait()
                loop.remove_writer(connection.fileno())
    connection.setblocking(True)
    connection.recv(1)


def play(pipe: Connection, end: str, way: str, port: int, count: int, size: int, certificate: Path) -> None:
    """One end, in a process of its own; reports its port, then its processor time."""
    if end == "receive":
        with socket.create_server(("127.0.0.1", 0)) as listener:
            pipe.send(listener.getsockname()[1])
            connection, _ = listener.accept()
    else:
        connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    begin = time.process_time()
    if end == "receive":
        asyncio.run(receive(way, connection, count, certificate))
    else:
        asyncio.run(send(way, connection, count, size, certificate))
    pipe.send(time.process_time() - begin)


def seconds_per_gigabyte(way: str, size: int, gigabytes: float, certificate: Path) -> float:
    """Processor time, for both ends together."""
    count = int(gigabytes * 1e9 / size)
    with Partner(play, "receive", way, 0, count, size, certificate) as receiving:
        port = receiving.hears()
        with Partner(play, "send", way, port, count, size, certificate) as sending:
            total: float = receiving.hears() + sending.hears()
    return total / gigabytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--gigabytes", type=float, default=1.0, help="for each way and size, in each round")
    options = parser.parse_args()
    cells: dict[tuple[str, str], list[float]] = {(way, size): [] for way in WAYS for size in SIZES}
    with tempfile.TemporaryDirectory() as folder:
        certificate = Path(folder) / "both.pem"
        subject = ("-subj", "/CN=localhost", "-days", "1", "-keyout", str(certificate), "-out", f"{folder}/public.pem")
        command = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject)
        subprocess.run(command, check=True, capture_output=True)
        with certificate.open("a") as both:
            both.write((Path(folder) / "public.pem").read_text())
        for _ in range(options.rounds):
            for way, size in cells:
                cells[way, size].append(seconds_per_gigabyte(way, SIZES[size], options.gigabytes, certificate))
    print(f"| processor seconds per GB, both ends | {' | '.join(SIZES)} |")
    print(f"|---|{'--:|' * len(SIZES)}")
    for way in WAYS:
        print(f"| {way} | {' | '.join(f'{statistics.median(cells[way, size]):.2f}' for size in SIZES)} |")


if __name__ == "__main__":
    main()
