"""The driver's line to the exchange: dialled when it is first needed, and again after the exchange was away."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Protocol, Self

from permitflow.errors import PeerTimeoutError, PermitflowError, RetentionError
from permitflow.protocol.control import ChannelPosition, ChannelRow
from permitflow.spark.options import ReadOptions
from permitflow.spark.patience import Patience, in_words
from permitflow.spark.stream_planning import Position

__all__ = ["Control", "Dial", "ExchangeLine"]


class Control(Protocol):
    """What is used of a control stream; see ``permitflow.transports.grpc_blocking.control``."""

    def positions(self, channels: Sequence[str], *, consumer: str = "") -> Sequence[ChannelPosition[object]]:
        """Ask where channels stand."""
        ...

    def acknowledge(self, rows: Sequence[ChannelRow], *, consumer: str = "") -> Sequence[ChannelPosition[object]]:
        """Say what need not be kept."""
        ...

    def __enter__(self) -> Self:
        """Close at the end of the block."""
        ...

    def __exit__(self, *_: object) -> None:
        """Close."""
        ...


Dial = Callable[[str, float], Control]
"""Opens a control stream to an address, with a time-out in seconds."""


class ExchangeLine:
    """Asks the exchange, and tries again while it is away, for ``timeout_seconds``.

    What is asked and ordered here may come twice: an acknowledgement says up to which row, not how many.
    """

    def __init__(self, options: ReadOptions, dial: Dial | None = None) -> None:
        """Nothing is dialled yet; ``dial`` is gRPC's, unless a test has another."""
        self._options = options
        self._dial = dial or _dial_grpc
        self._control: Control | None = None
        self._open = ExitStack()

    def positions(self, channels: Sequence[str]) -> dict[str, Position]:
        """Where channels stand.

        Raises:
            PermitflowError: the exchange is away for too long, does not know a channel or the consumer, or keeps none
                of its rows.
        """
        if not channels:
            return {}
        return self._ask(lambda control: control.positions(channels, consumer=self._options.consumer))

    def acknowledge(self, rows: Sequence[ChannelRow]) -> dict[str, Position]:
        """Let the exchange forget, and see where the channels stand then.

        Raises:
            ReplayError: the exchange has not the rows that are meant.
            PermitflowError: as ``positions``.
        """
        if not rows:
            return {}
        return self._ask(lambda control: control.acknowledge(rows, consumer=self._options.consumer))

    def close(self) -> None:
        """Hang up; the next question dials again."""
        self._control = None
        self._open.close()

    def _ask(self, ask: Callable[[Control], Sequence[Position]]) -> dict[str, Position]:
        patience = Patience(self._options.timeout_seconds, self._options.channels)
        while True:
            try:
                answer = ask(self._connected(patience.remaining_seconds))
            except RetentionError as error:
                self.close()
                error.add_note("a stream reads channels that keep their rows: permitflow serve --retention replay")
                raise
            except PeerTimeoutError as error:
                self.close()
                raise self._overloaded() from error
            except PermitflowError as error:
                # An order that cannot be carried out ends the stream, too.
                self.close()
                patience.wait(error)
            except BaseException:
                self.close()
                raise
            else:
                return {position.channel: position for position in answer}

    def _overloaded(self) -> PeerTimeoutError:
        options = self._options
        return PeerTimeoutError(
            who=f"the exchange at {options.address} ({in_words(options.channels)})",
            reason=f"no reply within {options.timeout_seconds:g} s: is it, or the network, overloaded? "
            "(option timeout_seconds)",
        )

    def _connected(self, timeout_seconds: float) -> Control:
        if self._control is None:
            self._control = self._open.enter_context(self._dial(self._options.address, timeout_seconds))
        return self._control


def _dial_grpc(address: str, timeout_seconds: float) -> Control:
    # gRPC must not be loaded before Spark's daemon has forked.
    from permitflow.transports.grpc_blocking import control

    return control(address, timeout_seconds=timeout_seconds)
