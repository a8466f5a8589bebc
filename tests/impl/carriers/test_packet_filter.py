"""Who is dropped before a listening socket sees them."""

import errno
import socket
import subprocess
import sys

import pytest

from permitflow.carriers.packet_filter import MOST_NETWORKS, drop_from

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems drop nothing")
DIALLING, CONNECTED = b"\2", b"\1"
"""As the kernel tells of it."""


def dialled(listener: socket.socket, source: str) -> bytes:
    """What becomes of a connection: over the loopback it is made at once, or not at all."""
    family = socket.AF_INET6 if ":" in source else socket.AF_INET
    with socket.socket(family) as client:
        client.setblocking(False)
        client.bind((source, 0))
        target = (source if ":" in source else "127.0.0.1", listener.getsockname()[1])
        assert client.connect_ex(target) == errno.EINPROGRESS
        with socket.socket(socket.AF_INET) as later:
            later.bind(("127.0.0.9", 0))
            later.connect(("127.0.0.1", target[1]))
        return client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)


@pytest.mark.parametrize("others", [0, 4 * MOST_NETWORKS])
def test_one_host_waits_and_others_connect(others: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert dialled(listener, "127.0.0.66") == CONNECTED
        assert drop_from(listener, [*(f"10.0.0.{number}" for number in range(others)), "127.0.0.66"])
        assert dialled(listener, "127.0.0.66") == DIALLING
        assert dialled(listener, "127.0.0.67") == CONNECTED
        assert drop_from(listener, [])
        assert dialled(listener, "127.0.0.66") == CONNECTED


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="there is no IPv6")
def test_networks_of_ipv6_are_told_from_hosts_of_ipv4() -> None:
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as listener:
        assert drop_from(listener, ["2001:db8::/64", "::/64"])
        assert (dialled(listener, "::1"), dialled(listener, "127.0.0.66")) == (DIALLING, CONNECTED)
        assert drop_from(listener, ["127.0.0.66", "2001:db8::/64", "0:0:0:1::/64"])
        assert (dialled(listener, "::1"), dialled(listener, "127.0.0.66")) == (CONNECTED, DIALLING)


IN_A_NETWORK_OF_ITS_OWN = ("unshare", "--user", "--map-root-user", "--net", "sh", "-c")
SET_UP = (
    "ip link set lo up && ip address add fd00:0:0:1::1/64 dev lo nodad && ip address add fd00:0:0:2::1/64 dev lo nodad"
)
TELL = """
import socket
from permitflow.carriers.packet_filter import drop_from
from tests.impl.carriers.test_packet_filter import dialled

with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as listener:
    assert drop_from(listener, ["fd00:0:0:2::/64"])
    print(*(dialled(listener, f"fd00:0:0:{number}::1") for number in (1, 2)))
"""


def test_networks_of_ipv6_that_differ_in_their_last_bits_are_two() -> None:
    command = f'{SET_UP} && "$0" -c "$1"'
    try:
        trial = subprocess.run([*IN_A_NETWORK_OF_ITS_OWN, SET_UP], capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("this system has no unshare")
    if trial.returncode:
        pytest.skip(f"this system makes no such network: {trial.stderr.strip()}")
    told = subprocess.run([*IN_A_NETWORK_OF_ITS_OWN, command, sys.executable, TELL], capture_output=True, text=True)
    assert told.stdout.split() == [repr(CONNECTED), repr(DIALLING)], told.stderr


def test_it_tells_that_nothing_is_dropped() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        pass
    assert not drop_from(listener, ["127.0.0.66"])
