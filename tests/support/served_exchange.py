"""An exchange in a process of its own, for tests whose clients block, or fork, or want to see it killed."""

import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from permitflow.channels.names import stream_channels
from permitflow.protocol.parameters import ChannelParameters
from permitflow.transports.shared_memory import SameHost

__all__ = ["SMALL_WINDOW", "ServedExchange", "served_exchange"]

SMALL_WINDOW = ChannelParameters(row_permits=256, permit_batch=64)

STREAMS = tuple(f"s{number}" for number in range(100))
CHANNELS = 2
# It drains for three; the rest is for a busy machine.
SECONDS_TO_END = 60


class ServedExchange:
    """A running exchange, and streams that nobody has used yet: a channel is used once."""

    def __init__(self, process: "subprocess.Popen[str]", address: str, parameters: ChannelParameters) -> None:
        """Use ``served_exchange``."""
        self.address = address
        self.parameters = parameters
        """Of all channels."""
        self._process = process
        self._streams = iter(STREAMS)

    def stream(self) -> str:
        """A stream of two channels that nobody has used."""
        return next(self._streams)

    def channel(self) -> str:
        """A channel that nobody has used."""
        return stream_channels(self.stream(), 1)[0]

    def signal(self, number: signal.Signals) -> None:
        """Kill, stop or continue the process."""
        self._process.send_signal(number)


@contextmanager
def served_exchange(
    parameters: ChannelParameters = SMALL_WINDOW,
    same_host: SameHost = SameHost.AUTO,
    address: str = "127.0.0.1:0",
    more: Sequence[str] = (),
) -> Iterator[ServedExchange]:
    """Start ``permitflow serve``; at the end of the block it is asked to end, and killed if it does not.

    ``more`` are further options of the command.
    """
    streams = [argument for stream in STREAMS for argument in ("--stream", f"{stream}:{CHANNELS}")]
    window = ["--row-permits", str(parameters.row_permits), "--permit-batch", str(parameters.permit_batch)]
    command = [sys.executable, "-m", "permitflow.cli", "serve", *streams, *window, "--address", address]
    command += ["--same-host", same_host.value, *more]
    with subprocess.Popen(
        [*command, "--quiet"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None  # a pipe was asked for
            address = process.stdout.readline().removeprefix("listening at ").strip()
            yield ServedExchange(process, address, parameters)
            process.send_signal(signal.SIGTERM)
            process.wait(SECONDS_TO_END)
        finally:
            process.kill()
