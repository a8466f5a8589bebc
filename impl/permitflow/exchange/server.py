"""An exchange that can be dialled, over gRPC or over TCP."""

from types import TracebackType
from typing import Protocol, Self

from permitflow.exchange.grpc_listener import GrpcListener
from permitflow.exchange.registry import Exchange
from permitflow.exchange.tcp_listener import TcpListener
from permitflow.transports.addresses import is_tcp

__all__ = ["ExchangeServer"]


class Listener(Protocol):
    """Takes streams at an address."""

    @property
    def address(self) -> str:
        """Where it listens, with the port that was chosen."""
        ...

    async def start(self) -> None:
        """Listen.

        Raises:
            TransportError: the address cannot be had.
        """
        ...

    async def stop(self, grace_seconds: float) -> None:
        """Take no new streams, give the others some time to end, then tell them that the exchange is gone."""
        ...

    async def wait_until_stopped(self) -> None:
        """Wait until somebody stops it."""
        ...


class ExchangeServer:
    """Serves the channels of an exchange at an address, as an asynchronous context manager.

    One exchange may be served at several addresses.
    """

    def __init__(self, exchange: Exchange, address: str = "127.0.0.1:0") -> None:
        """Nothing listens before the block is entered.

        Args:
            exchange: whose channels are served; more may be added at any time.
            address: host and port for gRPC, ``tcp://`` before them for TCP; port 0 chooses a free one.

        Raises:
            InvalidParametersError: these are not host and port.
        """
        listener = TcpListener if is_tcp(address) else GrpcListener
        self._listener: Listener = listener(exchange, address)

    @property
    def address(self) -> str:
        """Where it listens, with the port that was chosen; as those who dial need it."""
        return self._listener.address

    async def __aenter__(self) -> Self:
        """Listen.

        Raises:
            TransportError: the address cannot be had.
        """
        await self._listener.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop at once; those who are connected are told."""
        await self.stop()

    async def stop(self, grace_seconds: float = 0.0) -> None:
        """Take no new streams, give the others some time to end, then tell them that the exchange is gone."""
        await self._listener.stop(grace_seconds)

    async def wait_until_stopped(self) -> None:
        """Wait until somebody stops the server."""
        await self._listener.wait_until_stopped()
