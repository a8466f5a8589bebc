"""The peers of a gRPC server: who is hung up on, and how soon."""

import asyncio

import pytest

from permitflow.carriers.grpc_connections import GrpcConnections, Name
from permitflow.exchange import grpc_peers
from permitflow.exchange.admission import Admission
from permitflow.exchange.grpc_peers import GrpcPeers
from permitflow.exchange.limits import Limits
from tests.support.turns import turns, until

PEER = Name("127.0.0.1", 4_242)


class OneConnection(GrpcConnections):
    """One that comes between two looks."""

    def __init__(self) -> None:
        super().__init__(0)
        self.is_here = self.is_seen = self.is_hung_up = False

    def look(self) -> tuple[list[Name], list[Name]]:
        come = [PEER] if self.is_here and not self.is_seen else []
        self.is_seen = self.is_here
        return come, []

    def hang_up(self, name: Name) -> bool:
        self.is_hung_up |= self.is_seen and name == PEER
        return self.is_hung_up


async def test_a_connection_with_too_long_headers_is_looked_for_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_peers, "_BETWEEN_LOOKS_SECONDS", 3_600.0)
    connections = OneConnection()
    peers = GrpcPeers(Admission(Limits()), connections, 30.0)
    following = asyncio.create_task(peers.follow())
    await turns()
    connections.is_here = True
    for _ in range(2):
        peers.note_excess(f"ipv4:{PEER.host}:{PEER.port}")
    await until(lambda: connections.is_hung_up)
    following.cancel()
    await asyncio.wait({following})
