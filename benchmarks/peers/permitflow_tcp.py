"""permitflow over TCP: as over gRPC, without it."""

from benchmarks.peers.permitflow_grpc import ExchangeProducer, GrpcConsumer, ManyConsumer
from benchmarks.peers.way import Group, Way
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer

__all__ = ["WAYS"]


class TcpProducer(ExchangeProducer):
    """Hosts the exchange at ``tcp://``."""

    async def start(self) -> str:
        """Serve."""
        self.exchange = Exchange()
        self._server = ExchangeServer(self.exchange, "tcp://127.0.0.1:0")
        await self._server.__aenter__()
        return self._server.address


WAYS = (
    Way(
        "permitflow, TCP",
        Group.OURS,
        "as `permitflow, gRPC`, an exchange at `tcp://`",
        TcpProducer,
        GrpcConsumer,
        target="remote",
        is_tuned=True,
    ),
    Way(
        "permitflow, TCP, receive_many",
        Group.OURS,
        "the same, with each chunk as a batch of its own",
        TcpProducer,
        ManyConsumer,
    ),
)
