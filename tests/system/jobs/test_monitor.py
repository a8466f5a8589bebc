"""The monitor over real sockets: exact although packets are lost; strangers and a full socket do no harm."""

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from examples.child_process import address_of
from examples.jobs.metrics import MetricsSettings, sending_metrics
from examples.jobs.metrics_core import MOST_PACKET_BYTES
from examples.jobs.monitor import MOST_WAITING_PACKETS, Monitor, MonitorSettings, serving_pages
from permitflow.errors import PermitflowError
from permitflow_tools.explain.page_server import MOST_READERS
from tests.support.turns import until

LIMIT, SENDERS = 4_000, 2


@pytest.fixture
def monitor() -> Iterator[Monitor]:
    with closing(Monitor(MonitorSettings(packets_per_second=LIMIT, senders=SENDERS, queue_capacity=40))) as monitor:
        yield monitor


@pytest.fixture
def losing() -> Iterator[Monitor]:
    """A monitor to which each third packet is lost."""
    shares = MonitorSettings(packets_per_second=LIMIT, senders=SENDERS, lose=0.3)
    with closing(Monitor(shares)) as monitor:
        yield monitor


@pytest.fixture
def stranger(monitor: Monitor) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.connect(monitor.address)
        yield stranger


def sent_to(monitor: Monitor, source: str, incarnation: int = 1) -> MetricsSettings:
    host, port = monitor.address
    return MetricsSettings(
        monitor=f"{host}:{port}",
        source=source,
        incarnation=incarnation,
        packets_per_second=LIMIT,
        senders=SENDERS,
    )


async def test_totals_are_exact_although_packets_are_lost(losing: Monitor) -> None:
    async with sending_metrics(sent_to(losing, "master")) as master, sending_metrics(sent_to(losing, "w1", 2)) as w1:
        for number in range(200):
            w1.count("finished")
            master.took_result("w1", 2)
            master.gauge("queue", number)
            await asyncio.sleep(0)
        await until(lambda: losing.state()["sources"] == {"master#1": {}, "w1#2": {"finished": 200}})
        await until(lambda: losing.state()["results"] == {"w1": {"results": 200}})
        await until(lambda: losing.state()["gauges"]["master"] == {"queue": 199})
    state = losing.state()
    assert state["lost_on_purpose"] > 0
    assert 0 < state["peak_packets_per_second"] <= LIMIT


async def test_leaving_sends_what_was_counted_last(monitor: Monitor) -> None:
    async with sending_metrics(sent_to(monitor, "w1")) as metrics:
        await asyncio.sleep(0)
        metrics.count("finished", 7)
    assert monitor.state()["sources"] == {"w1#1": {"finished": 7}}


async def test_without_a_monitor_nothing_is_sent_and_all_is_counted() -> None:
    async with sending_metrics(MetricsSettings()) as metrics:
        metrics.count("finished", 7)
    assert metrics.totals == {"finished": 7}


async def test_a_monitor_that_has_gone_does_no_harm(monitor: Monitor) -> None:
    settings = sent_to(monitor, "w1")
    monitor.close()
    async with sending_metrics(settings) as metrics:
        metrics.count("finished", 7)
        await asyncio.sleep(0.01)
    assert metrics.totals == {"finished": 7}


def test_what_strangers_send_is_counted_and_ignored(monitor: Monitor, stranger: socket.socket) -> None:
    contents = (b"", b"\x00" * MOST_PACKET_BYTES, b"{" * 60_000, b"GET / HTTP/1.1\r\n\r\n")
    for content in contents:
        stranger.send(content)
    state = monitor.state()
    assert state["packets"]["arrived"] == state["packets"]["malformed"] == len(contents)
    assert (state["sources"], state["last_malformed"][:15]) == ({}, "it is no JSON (")


def test_a_full_socket_says_how_many_packets_it_had_no_room_for(monitor: Monitor, stranger: socket.socket) -> None:
    packet = b"x" * 200
    room_bytes = stranger.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)  # the monitor's has the same
    sent = room_bytes // len(packet) + 1
    for _ in range(sent):
        stranger.send(packet)
    for _ in range(sent // MOST_WAITING_PACKETS + 1):
        monitor.state()
    stranger.send(packet)  # with it, the kernel tells
    packets = monitor.state()["packets"]
    assert packets["overflowed"] > 0
    assert packets["arrived"] + packets["overflowed"] == sent + 1


async def test_the_page_and_the_state_are_served(monitor: Monitor) -> None:
    async with serving_pages(("127.0.0.1", 0), monitor.state) as address:
        page, live, state = [
            (await asyncio.to_thread(urlopen, f"{address}{path}")).read().decode()
            for path in ("", "live.json?1", "state.json")
        ]
        with pytest.raises(HTTPError, match="404"):
            await asyncio.to_thread(urlopen, f"{address}etc/passwd")
    assert "connect-src 'self'" in page
    assert "of at most 40" in json.loads(live)["queue"]
    assert json.loads(state)["bounds"] == {"queue_capacity": 40, "resend_seconds": 0.0}


async def test_more_readers_than_there_are_places_are_hung_up_on(monitor: Monitor) -> None:
    async with serving_pages(("127.0.0.1", 0), monitor.state) as address:
        place = address_of(address.strip("/").rpartition("//")[2])
        with ExitStack() as silent:
            for _ in range(MOST_READERS):
                silent.enter_context(socket.create_connection(place))
            reader, writer = await asyncio.open_connection(*place)
            assert await reader.read() == b""
            writer.close()


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"lose": 1.5}, "'lose' must be a share"),
        ({"senders": 0}, "'senders' must be at least 1"),
        ({"packets_per_second": 20, "senders": 7}, "must be at least 21, three for each of 7 senders"),
        ({"udp": "nowhere"}, "must be host:port"),
        ({"metrics": {"monitor": "127.0.0.1:99999", "source": "w1"}}, "'127.0.0.1:99999'"),
        ({"metrics": {"monitor": "127.0.0.1:9", "source": "w/1"}}, "'source' must be up to 32 small letters"),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, object], reason: str) -> None:
    with pytest.raises(PermitflowError, match=reason):
        MonitorSettings.from_json(json.dumps(wrong))
