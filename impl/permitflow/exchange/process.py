"""An exchange in a process of its own, which records what it does.

Run as ``python -m permitflow.exchange.process '<JSON of ExchangeSettings>'``.  It prints one line of JSON as soon as it
listens, and ends on SIGTERM.
"""

import asyncio
import json
import signal
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from permitflow.channels.statistics import ChannelStatistics
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.exchange.statistics import Direction
from permitflow.protocol.parameters import ChannelParameters
from permitflow.tracing import FileTrace

__all__ = ["ExchangeSettings", "main"]

GRACE_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True)
class ExchangeSettings:
    """What the process with the exchange needs to know."""

    channels: tuple[str, ...]
    row_permits: int
    permit_batch: int
    trace_dir: str | None = None
    """Where the exchange records what it does; None records nothing."""

    def to_json(self) -> str:
        """As one command line argument."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "ExchangeSettings":
        """Back from the command line."""
        return cls(**json.loads(text))


async def main(settings: ExchangeSettings) -> None:
    """Serve until SIGTERM; then leave the recording and the statistics behind."""
    asked_to_end = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked_to_end.set)
    parameters = ChannelParameters(row_permits=settings.row_permits, permit_batch=settings.permit_batch)
    with ExitStack() as stack:
        record = None
        if settings.trace_dir is not None:
            record = stack.enter_context(FileTrace.in_directory(settings.trace_dir, "exchange")).recorder
        exchange = Exchange(parameters=parameters, record=record)
        for channel in settings.channels:
            exchange.add_channel(channel)
        async with ExchangeServer(exchange) as server:
            print(json.dumps({"event": "listening", "address": server.address}), flush=True)
            await asked_to_end.wait()
            await server.stop(GRACE_SECONDS)
        if settings.trace_dir is not None:
            write_statistics(exchange, Path(settings.trace_dir))


def write_statistics(exchange: Exchange, folder: Path) -> None:
    """Leave the numbers of the senders that are in this process."""
    bridges = exchange.statistics()
    outgoing = [stream for bridge in bridges for stream in bridge.streams if stream.direction is Direction.GET]
    write(folder / "exchange-inside.statistics.json", [bridge.numbers for bridge in bridges])
    # Under the name that both ends of the stream use in their recordings.
    write(folder / "exchange-out.statistics.json", [replace(out.numbers, name=out.stream) for out in outgoing])


def write(path: Path, numbers: Iterable[ChannelStatistics]) -> None:
    """Write statistics as the Spark tasks do."""
    path.write_text(json.dumps([channel.as_json() for channel in numbers]))


if __name__ == "__main__":
    asyncio.run(main(ExchangeSettings.from_json(sys.argv[1])))
