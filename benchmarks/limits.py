"""What the machine itself can do: copying memory, and bytes through sockets between two processes."""

import multiprocessing
import socket
import time
from dataclasses import dataclass

from benchmarks.records import Record
from benchmarks.series import Series

__all__ = ["Limit", "measure_limits"]

COPIED_BYTES = 64 << 20
WRITES_BYTES = (64 << 10, 256 << 10, 1 << 20)
SOCKET_BYTES = 512 << 20
SMOKE_DIVISOR = 64


@dataclass(frozen=True)
class Limit(Record):
    """One of them."""

    what: str
    gigabytes_per_second: Series


def measure_limits(rounds: int, *, is_smoke: bool) -> list[Limit]:
    """All, each in so many rounds."""
    divisor = SMOKE_DIVISOR if is_smoke else 1
    found = [Limit("copying memory, 64 MiB", Series.of(copied(COPIED_BYTES // divisor) for _ in range(rounds)))]
    for family, name in ((socket.AF_INET, "TCP, loopback"), (socket.AF_UNIX, "Unix socket")):
        for size in WRITES_BYTES:
            rates = Series.of(through_socket(family, size, SOCKET_BYTES // divisor) for _ in range(rounds))
            found.append(Limit(f"{name}, writes of {size >> 10} KiB", rates))
    return found


def copied(size: int) -> float:
    """GB/s of one core."""
    source, target = memoryview(bytearray(size)), memoryview(bytearray(size))
    target[:] = source
    began = time.perf_counter()
    target[:] = source
    return size / (time.perf_counter() - began) / 1e9


def through_socket(family: socket.AddressFamily, write_bytes: int, total_bytes: int) -> float:
    """GB/s from another process to this one."""
    here, there = _connected(family)
    context = multiprocessing.get_context("spawn")
    writer = context.Process(target=_write, args=(there, write_bytes, total_bytes))
    writer.start()
    there.close()
    buffer = memoryview(bytearray(write_bytes))
    with here:
        received = here.recv_into(buffer)
        began, first = time.perf_counter(), received
        while received < total_bytes:
            count = here.recv_into(buffer)
            assert count, "the writer has ended early"
            received += count
        seconds = time.perf_counter() - began
    writer.join()
    return (received - first) / seconds / 1e9


def _connected(family: socket.AddressFamily) -> tuple[socket.socket, socket.socket]:
    if family is socket.AF_UNIX:
        return socket.socketpair()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        there = socket.create_connection(listener.getsockname())
        here, _ = listener.accept()
        return here, there


def _write(connection: socket.socket, write_bytes: int, total_bytes: int) -> None:
    content = bytes(write_bytes)
    with connection:
        for _ in range(total_bytes // write_bytes):
            connection.sendall(content)
