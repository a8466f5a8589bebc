"""Streams over UDP through a queue of the kernel that drops what does not fit, in a network of their own."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.long

# ``netem`` loses, doubles and reorders by chance; not every kernel has it.  ``tbf`` drops behind a slow link.
QUEUES = {
    "netem": "netem loss 5% duplicate 2% delay 1ms reorder 10%",
    "tbf": "tbf rate 80mbit burst 8kb limit 60kb",
}
IN_A_NETWORK_OF_ITS_OWN = ("unshare", "--user", "--map-root-user", "--net")
SET_UP = "ip link set lo up && tc qdisc add dev lo root {queue}"

CARRY = """
import asyncio
from permitflow.carriers.datagrams import udp
from tests.impl.carriers.datagrams.test_udp import carried, everything

udp.LOOPBACK_DATAGRAM_BYTES = udp.DATAGRAM_BYTES
assert asyncio.run(carried()) == everything()
"""


@pytest.mark.parametrize("queue", QUEUES)
def test_everything_comes_through_a_queue_that_drops(queue: str) -> None:
    set_up = SET_UP.format(queue=QUEUES[queue])
    try:
        trial = subprocess.run([*IN_A_NETWORK_OF_ITS_OWN, "sh", "-c", set_up], capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("this system has no unshare")
    if trial.returncode:
        pytest.skip(f"this system does not make such a queue: {trial.stderr.strip()}")
    command = f'{set_up} && "$0" -c "$1" && tc -s qdisc show dev lo'
    done = subprocess.run(
        [*IN_A_NETWORK_OF_ITS_OWN, "sh", "-c", command, sys.executable, CARRY],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "dropped 0," not in done.stdout  # otherwise nothing was tried
