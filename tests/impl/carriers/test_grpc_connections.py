"""The connections of a gRPC server, as the kernel lists them."""

import errno
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from permitflow.carriers.grpc_connections import GrpcConnections, Look, Name, sockets

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="this system lists no descriptors")


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def no_descriptor(_: object) -> NoReturn:
    raise OSError(errno.EMFILE, "Too many open files")


@pytest.mark.parametrize("call", ["dup", "listdir"])
def test_what_comes_while_no_descriptor_is_free_is_seen_later(
    call: str, server: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections = GrpcConnections(server.getsockname()[1])
    with socket.create_connection(server.getsockname()) as client, server.accept()[0]:
        with monkeypatch.context() as without:
            without.setattr(os, call, no_descriptor)
            assert connections.look() == Look([], [], is_whole=False)
        assert connections.look() == Look([Name(*client.getsockname())], [])


def test_who_is_there_while_no_descriptor_is_free_has_not_gone(
    server: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections = GrpcConnections(server.getsockname()[1])
    with socket.create_connection(server.getsockname()), server.accept()[0]:
        assert len(connections.look()[0]) == 1
        with monkeypatch.context() as without:
            without.setattr(os, "listdir", no_descriptor)
            assert connections.look() == Look([], [], is_whole=False)
        assert connections.look() == Look([], [])


def test_a_look_where_nothing_is_listed_is_whole(server: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    connections = GrpcConnections(server.getsockname()[1])

    def unlisted(_: object) -> NoReturn:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory")

    monkeypatch.setattr(os, "listdir", unlisted)
    assert connections.look() == Look([], [])


def test_a_look_opens_only_what_is_new(server: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    connections = GrpcConnections(server.getsockname()[1])
    with socket.create_connection(server.getsockname()), server.accept()[0]:
        assert len(connections.look()[0]) == 1
        monkeypatch.setattr(os, "dup", lambda _: pytest.fail("it was opened before"))
        assert connections.look() == Look([], [])


def test_what_has_come_is_dropped_with_the_connection(server: socket.socket) -> None:
    connections = GrpcConnections(server.getsockname()[1])
    with socket.create_connection(server.getsockname()) as client, server.accept()[0] as accepted:
        client.sendall(bytes(1 << 16))
        (name,), *_ = connections.look()
        assert connections.hang_up(name)
        assert accepted.recv(1) == b""


def test_what_has_come_and_what_the_peer_has_taken_is_told(server: socket.socket) -> None:
    connections = GrpcConnections(server.getsockname()[1])
    with socket.create_connection(server.getsockname()) as client, server.accept()[0] as accepted:
        accepted.sendall(bytes(3_000))
        client.recv(3_000, socket.MSG_WAITALL)
        client.sendall(bytes(1_000))
        accepted.recv(1_000, socket.MSG_WAITALL)
        (name,), *_ = connections.look()
        assert connections.traffic(name) == (1_000, 3_000)


def test_another_connection_of_the_descriptor_is_not_hung_up_on(server: socket.socket) -> None:
    connections = GrpcConnections(server.getsockname()[1])
    with socket.create_connection(server.getsockname()) as client, server.accept()[0] as accepted:
        connections.look()
        with socket.create_connection(server.getsockname()) as other, server.accept()[0] as newer:
            os.dup2(newer.fileno(), accepted.fileno())
            assert not connections.hang_up(Name(*client.getsockname()))
            assert connections.traffic(Name(*client.getsockname())) is None
            newer.sendall(b"x")
            assert other.recv(1) == b"x"


def test_a_newer_connection_of_the_same_name_is_another(server: socket.socket) -> None:
    connections = GrpcConnections(server.getsockname()[1])
    alone = ("127.0.0.2", 0)  # else another program may take the port meanwhile
    with socket.create_connection(server.getsockname(), source_address=alone) as client, server.accept()[0]:
        place = client.getsockname()
        connections.look()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # its port is free at once
    with socket.create_connection(server.getsockname(), source_address=place), server.accept()[0]:
        assert connections.look() == Look([Name(*place)], [Name(*place)])


def test_a_connection_that_is_over_gives_way_to_its_successor(server: socket.socket) -> None:
    connections, alone = GrpcConnections(server.getsockname()[1]), ("127.0.0.3", 0)
    with socket.create_connection(server.getsockname(), source_address=alone) as client, server.accept()[0]:
        place = client.getsockname()
        connections.look()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # its port is free at once
        client.close()
        with (
            socket.create_connection(server.getsockname(), source_address=place) as newer,
            server.accept()[0] as accepted,
        ):
            assert connections.look() == Look([Name(*place)], [Name(*place)])
            accepted.sendall(b"x")
            assert newer.recv(1) == b"x"


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="there is no IPv6")
@pytest.mark.parametrize("is_ipv6", [False, True])
def test_all_addresses_of_one_version_of_ip_are_none_of_the_other(is_ipv6: bool) -> None:
    def listening(port: int, *, is_ipv6: bool) -> socket.socket:
        place, family = ("::", socket.AF_INET6) if is_ipv6 else ("0.0.0.0", socket.AF_INET)
        return socket.create_server((place, port), family=family)

    with listening(0, is_ipv6=is_ipv6) as server:
        port = server.getsockname()[1]
        connections, loopbacks = GrpcConnections(port, sockets()), ("127.0.0.1", "::1")
        with (
            listening(port, is_ipv6=not is_ipv6) as foreign,
            socket.create_connection((loopbacks[is_ipv6], port)) as client,
            socket.create_connection((loopbacks[not is_ipv6], port)),
            server.accept()[0],
            foreign.accept()[0],
        ):
            assert connections.look() == Look([Name(*client.getsockname()[:2])], [])


@pytest.mark.parametrize("is_seen", [True, False])
def test_of_two_connections_of_one_name_the_older_stays(is_seen: bool) -> None:
    with socket.create_server(("0.0.0.0", 0)) as server, socket.socket() as older, socket.socket() as newer:
        port = server.getsockname()[1]
        connections = GrpcConnections(port)
        for client, place in ((older, ("127.0.0.66", 0)), (newer, None)):
            client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            client.bind(place or older.getsockname())
        newer.settimeout(5.0)
        older.connect(("127.0.0.1", port))
        with server.accept()[0] as accepted:
            if is_seen:
                connections.look()
            newer.connect(("127.0.0.2", port))
            newer.sendall(b"x")
            with server.accept()[0]:
                name = Name(*newer.getsockname())
                assert connections.look() == Look([] if is_seen else [name], [], twins=((name, 1),))
                assert connections.look().twins == (), "each is told once"
                assert newer.recv(1) == b""
                accepted.sendall(b"x")
                assert older.recv(1) == b"x"


@pytest.mark.parametrize("call", ["look", "hang_up"])
def test_a_descriptor_that_became_another_ones_is_let_go_of(
    call: str, server: socket.socket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    connections = GrpcConnections(server.getsockname()[1])
    taken, dup = os.open(tmp_path, os.O_RDONLY), os.dup
    with socket.create_connection(server.getsockname()) as client, server.accept()[0] as accepted:

        def dup_late(descriptor: int) -> int:
            if descriptor == accepted.fileno():
                os.dup2(taken, descriptor)
            return dup(descriptor)

        if call == "hang_up":
            connections.look()
        before = len(os.listdir("/proc/self/fd"))
        monkeypatch.setattr(os, "dup", dup_late)
        if call == "hang_up":
            assert not connections.hang_up(Name(*client.getsockname()))
        else:
            assert connections.look() == Look([], [])
        assert len(os.listdir("/proc/self/fd")) == before
    os.close(taken)


def test_it_tells_whether_a_filter_is_in_force(server: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    connections = GrpcConnections(server.getsockname()[1])
    assert not connections.drop_from(["127.0.0.66"])  # no look has found the listening socket yet
    connections.look()
    assert connections.drop_from(["127.0.0.66"])
    with monkeypatch.context() as without:
        without.setattr(os, "dup", no_descriptor)
        assert not connections.drop_from([])
    assert connections.drop_from([])
