"""A port that is reserved is free for whoever names it, and for nobody else."""

import socket

import pytest

from permitflow.testing.ports import reserved_address
from permitflow.testing.served_exchange import served_exchange
from permitflow.transports.health import is_serving


def test_exchanges_listen_there_one_after_the_other_and_nobody_is_given_it_meanwhile() -> None:
    with reserved_address() as address:
        for scheme in ("", "tcp://"):
            with socket.socket() as other, pytest.raises(OSError, match="Address already in use"):
                other.bind(("127.0.0.1", int(address.rpartition(":")[2])))
            with served_exchange(address=scheme + address, more=("--drain-seconds", "0")) as exchange:
                assert exchange.address == scheme + address
                assert is_serving(exchange.address, timeout_seconds=60)
