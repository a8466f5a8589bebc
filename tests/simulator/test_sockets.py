"""The simulated network does to bytes what TCP may do, and nothing else."""

import errno

import pytest

from tests.simulator.datagrams import DatagramSocket
from tests.simulator.sockets import Conditions, Network, SimulatedSocket
from tests.simulator.world import World


def connected(network: Network, one: str, other: str) -> tuple[SimulatedSocket, SimulatedSocket]:
    """Two sockets of two hosts."""
    world, ends = network.world, list[SimulatedSocket]()

    async def connect() -> None:
        dialler = SimulatedSocket(network=network)
        await dialler.connect_later((other, 1))
        ends.extend((dialler, (await listener.accept_later())[0]))
        world.stop()

    listener = SimulatedSocket(host=world.new_host(other), network=network)
    network.listeners[other, 1] = listener
    world.new_host(one).schedule(lambda: world.hosts[1].create_task(connect()))
    world.run()
    return ends[0], ends[1]


def test_a_partition_delays_bytes_under_way_and_keeps_their_order() -> None:
    world = World(0)
    network = Network(world, Conditions(least_latency_seconds=1e-3, most_latency_seconds=2e-3))
    sender, receiver = connected(network, "one", "other")

    sender.send(b"before")
    network.part("one", "other", 1.0)
    sender.send(b" and behind")
    world.after(2.0, world.stop)
    world.run()

    read = bytearray(100)
    assert read[: receiver.recv_into(read)] == b"before and behind"
    world.close()


@pytest.mark.parametrize(("is_power", "errors"), [(False, [errno.ECONNREFUSED]), (True, [])])
def test_a_host_without_power_refuses_no_datagram(is_power: bool, errors: list[int]) -> None:
    world = World(0)
    network = Network(world, Conditions())
    one, other = (DatagramSocket(host=world.new_host(name), network=network) for name in ("one", "other"))
    other.bind(("other", 1))
    one.bind(("one", 2))

    network.crash(other.host, is_power=is_power)
    one.sendmsg((b"?",), address=("other", 1))
    world.after(1.0, world.stop)
    world.run()

    assert [each.errno for each in (one.error,) if each is not None] == errors
    world.close()
