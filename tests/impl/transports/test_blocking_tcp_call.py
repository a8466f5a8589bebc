"""Who dials over TCP without an event loop tries each address, and whoever gives up does not wait for an answer."""

import socket
import threading
import time
from collections.abc import Callable

import pytest

from permitflow.errors import PeerGoneError
from permitflow.transports import blocking_calls
from permitflow.transports.blocking_calls import BlockingTcpCall, Closed, receive_within
from permitflow.transports.connection import GET_STREAM
from permitflow.transports.tcp import HEADER_BYTES, Kind, header

BLOCKING_HANG_SECONDS = 200.0


def blocking_call(address: str) -> BlockingTcpCall:
    return BlockingTcpCall(address, GET_STREAM, who="the exchange", on_closed=lambda: None)


def test_a_blocking_call_dials_the_next_address_if_the_first_does_not_answer(
    resolve_to: Callable[..., None], deaf_port: int
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        resolve_to((socket.AF_INET, deaf_port), (socket.AF_INET, listener.getsockname()[1]))
        calling = blocking_call("tcp://twofold:1")
        listener.settimeout(BLOCKING_HANG_SECONDS)
        peer, _ = listener.accept()
        with peer:
            assert peer.recv(HEADER_BYTES) == header(Kind.GET)
        calling.close()


def test_a_blocking_call_dials_the_next_address_if_the_first_is_silent(
    resolve_to: Callable[..., None], silent_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocking_calls, "NEXT_ADDRESS_SECONDS", 0.01)
    monkeypatch.setattr(blocking_calls, "CONNECT_SECONDS", BLOCKING_HANG_SECONDS)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        resolve_to((socket.AF_INET, silent_port), (socket.AF_INET, listener.getsockname()[1]))
        calling = blocking_call("tcp://twofold:1")
        listener.settimeout(BLOCKING_HANG_SECONDS / 2)
        peer, _ = listener.accept()
        with peer:
            assert peer.recv(HEADER_BYTES) == header(Kind.GET)
        calling.close()


def test_what_every_address_has_answered_is_told(resolve_to: Callable[..., None], deaf_port: int) -> None:
    resolve_to((12_345, 1), (socket.AF_INET, deaf_port), (socket.AF_INET, deaf_port))
    calling = blocking_call("tcp://threefold:1")
    reply = receive_within(calling, BLOCKING_HANG_SECONDS)
    calling.close()
    assert isinstance(reply, Closed)
    assert isinstance(reply.error, PeerGoneError)
    reason = "[Errno 97] Address family not supported by protocol; [Errno 111] Connection refused; is an exchange"
    assert reason in str(reply.error)


def test_who_closes_does_not_wait_for_an_address_that_does_not_answer(silent_port: int) -> None:
    calling = blocking_call(f"tcp://127.0.0.1:{silent_port}")
    while calling._socket is None:
        time.sleep(0.001)
    calling.close()
    assert not calling._reader.is_alive()


def test_who_closes_does_not_wait_for_a_name_that_is_looked_up_and_nobody_is_dialled_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(blocking_calls, "_LOOK_UP_SECONDS", 0.001)
    monkeypatch.setattr(blocking_calls, "JOIN_SECONDS", BLOCKING_HANG_SECONDS)
    is_found = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        found = (socket.AF_INET, socket.SOCK_STREAM, 0, "", listener.getsockname())
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [found] if is_found.wait(BLOCKING_HANG_SECONDS) else [])
        calling = blocking_call("tcp://far:1")
        calling.close()
        is_found.set()
        calling._reader.join(BLOCKING_HANG_SECONDS)
        assert not calling._reader.is_alive()
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()
