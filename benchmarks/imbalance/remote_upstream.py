"""The upstream in another process: sends chunks until it is told to stop, then tells its back-pressure rate.

python -m benchmarks.imbalance.remote_upstream SETUP
"""

import asyncio
import json
import os
import socket
import sys
import threading

from benchmarks.imbalance.setups import BYTE_WINDOW, CHUNK_ROWS, ROW_PERMITS, SETUPS, Meter, Setup, Work, filtered_chunk
from permitflow.errors import WouldBlock
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.protocol.permits import ChannelParameters

__all__ = ["CHANNEL", "LENGTH_BYTES"]

CHANNEL = "remote"
LENGTH_BYTES = 8


def main(name: str) -> None:
    """Serve one join."""
    (setup,) = (setup for setup in SETUPS if setup.name == name)
    meter = Meter()
    threading.Thread(target=obey, args=(meter,), daemon=True).start()
    if setup.uses_permits:
        asyncio.run(send_with_permits(setup, meter))
    else:
        send_within_window(setup, meter)


def obey(meter: Meter) -> None:
    """The first line starts the measurement; the second one, or the end of the input, ends the process."""
    sys.stdin.readline()
    meter.reset()
    sys.stdin.readline()
    say(back_pressure_rate=meter.rate())
    # The other thread sends until the end of time.
    os._exit(0)


def say(**facts: float | str) -> None:
    """Tell the parent."""
    print(json.dumps(facts), flush=True)


async def send_with_permits(setup: Setup, meter: Meter) -> None:
    """Through an exchange."""
    chunk, work = filtered_chunk(setup.row_bytes), Work(setup.remote_seconds)
    parameters = ChannelParameters(row_permits=ROW_PERMITS, permit_batch=setup.permit_batch)
    exchange = Exchange()
    channel = exchange.add_channel(CHANNEL, parameters, chunk.schema)
    async with ExchangeServer(exchange) as server:
        say(address=server.address)
        work.begin()
        while True:
            await work.do_beside_others()
            try:
                channel.sender.send_nowait(chunk)
            except WouldBlock:
                with meter:
                    await channel.sender.send(chunk)
                work.begin()


def send_within_window(setup: Setup, meter: Meter) -> None:
    """A window of bytes, as HTTP/2 has it: the join gives back the bytes of what it has read."""
    content, work = bytes(CHUNK_ROWS * setup.row_bytes), Work(setup.remote_seconds)
    window = BYTE_WINDOW
    with socket.create_server(("127.0.0.1", 0)) as listener:
        say(address=str(listener.getsockname()[1]))
        connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    work.begin()
    while True:
        work.do()
        if window < len(content):
            with meter:
                window += updates(connection, least=len(content) - window)
            work.begin()
        window -= len(content)
        connection.sendall(len(content).to_bytes(LENGTH_BYTES, "little") + content)


def updates(connection: socket.socket, least: int) -> int:
    """Wait until so many bytes have been given back."""
    returned = 0
    while returned < least:
        returned += int.from_bytes(connection.recv(LENGTH_BYTES, socket.MSG_WAITALL), "little")
    return returned


if __name__ == "__main__":
    main(*sys.argv[1:])
