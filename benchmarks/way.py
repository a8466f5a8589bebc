"""The path of a lone chunk through an exchange: the functions of permitflow that are called for it, and how often.

    python -m benchmarks.way                       over TCP, gRPC and shared memory
    python -m benchmarks.way --carrier TCP --list  the calls in their order, as well

Producer, exchange and consumer share one event loop; calls are counted between ``send`` and the permits' return.
The package is the one that Python finds: PYTHONPATH=other/impl shows that of another checkout.
"""

import argparse
import asyncio
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pyarrow as pa

import permitflow
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.transports.grpc_aio import get, put
from permitflow.transports.same_host import SameHost

CARRIERS = {
    "TCP": ("tcp://127.0.0.1:0", SameHost.NEVER),
    "gRPC": ("127.0.0.1:0", SameHost.NEVER),
    "same host": ("127.0.0.1:0", SameHost.REQUIRE),
}
ROWS = 64
WARM_UP_CHUNKS = 20
REST_SECONDS = 0.1  # the residue of permits has returned by then
PACKAGE = Path(permitflow.__file__).parent
Call = tuple[str, str]
"""File and function."""


@contextmanager
def noting(calls: list[Call]) -> Iterator[None]:
    """Note each call of a function of the package, in this thread."""

    def note(frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(PACKAGE)):
            calls.append((str(Path(code.co_filename).relative_to(PACKAGE)), code.co_qualname))

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


async def calls_of_a_chunk(address: str, same_host: SameHost) -> list[Call]:
    """All calls for a chunk of 64 rows while no other chunk is under way."""
    chunk = pa.record_batch({"n": pa.array(range(ROWS), pa.int64())})
    calls: list[Call] = []
    exchange = Exchange()
    exchange.add_channel("c")
    async with (
        ExchangeServer(exchange, address) as server,
        put(server.address, "c", chunk.schema, same_host=same_host) as sender,
        get(server.address, "c", same_host=same_host) as receiver,
    ):
        for _ in range(WARM_UP_CHUNKS):
            await sender.send(chunk)
            await receiver.receive()
        await asyncio.sleep(REST_SECONDS)
        with noting(calls):
            await sender.send(chunk)
            await receiver.receive()
            await asyncio.sleep(REST_SECONDS)
        await asyncio.gather(sender.end(), anext(receiver, None))
    return calls


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--carrier", action="append", choices=CARRIERS, help="this one; may be repeated")
    parser.add_argument("--list", action="store_true", help="the calls in their order, as well")
    options = parser.parse_args(arguments)
    for carrier in options.carrier or CARRIERS:
        calls = asyncio.run(calls_of_a_chunk(*CARRIERS[carrier]))
        files = {file for file, _ in calls}
        print(f"{carrier}: {len(calls)} calls of {len(set(calls))} functions in {len(files)} files")
        if options.list:
            print("".join(f"    {file}  {function}\n" for file, function in calls), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
