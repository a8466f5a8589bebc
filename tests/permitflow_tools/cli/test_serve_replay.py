"""``permitflow serve`` with rows that are kept: its options, a restart on the same store, and the drain."""

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep
from typing import Any

import pyarrow as pa
import pytest

from permitflow.client import StagedPart, Staging
from permitflow.client.blocking import control, open_sink, open_source
from permitflow.errors import PeerGoneError, StagedPartError
from tests.permitflow_tools.cli.conftest import Command, serving

CHUNK = pa.record_batch({"x": pa.array(range(100))})
REPLAY = ("--retention", "replay")


class Served:
    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.listening = self.event("listening")
        self.address: str = self.listening["address"]

    def event(self, name: str) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event: dict[str, Any] = json.loads(line)
            if event["event"] == name:
                return event
        raise AssertionError(f"it ended without {name}: {self.process.communicate()[1]}")

    def stop(self, number: signal.Signals = signal.SIGTERM) -> dict[str, Any]:
        """Let it drain; its last words."""
        self.process.send_signal(number)
        last = self.event("stopped")
        assert self.process.wait(30) == 0
        return last


@contextmanager
def served_by(*arguments: str) -> Iterator[Served]:
    with serving("--json", *arguments) as process:
        yield Served(process)


def produce(address: str, chunks: int, producer: str = "p", channel: str = "orders/0") -> int:
    """Put chunks; how many rows of this producer were there before."""
    with open_sink(address, channel, CHUNK.schema, producer=producer) as sink:
        for _ in range(chunks):
            sink.send(CHUNK)
        sink.end(closes_channel=False)
        assert sink.first_row is not None
        return sink.first_row


def read(address: str, consumer: str, to_row: int) -> int:
    """Read what a consumer has not acknowledged; how many rows."""
    with open_source(address, "orders/0", consumer=consumer, to_row=to_row) as source:
        return sum(batch.num_rows for batch in source)


@pytest.mark.parametrize(
    ("flow", "ending"),
    [pytest.param("permits", signal.SIGTERM, marks=pytest.mark.long), ("demand", signal.SIGKILL)],
)
def test_a_restart_on_the_same_store_goes_on_where_it_was(tmp_path: Path, flow: str, ending: signal.Signals) -> None:
    consumers = ("--consumer", "etl", "--consumer", "audit")
    kept = (*REPLAY, "--flow", flow, "--kept-rows", "3500", "--store", str(tmp_path))
    options = ("--stream", "orders:2", *consumers, *kept)
    with served_by(*options) as first:
        assert produce(first.address, 30) == 0
        with control(first.address) as orders:
            orders.acknowledge({"orders/0": 1000}, consumer="etl")
        if ending is signal.SIGTERM:
            assert first.stop()["stored"] == {"orders/0": 3000}
        else:
            first.process.kill()
    with served_by(*options) as second:
        assert produce(second.address, 5) == 3000
        with control(second.address) as orders:
            etl, other = orders.positions(["orders/0", "orders/1"], consumer="etl")
        assert (etl.acknowledged_row, etl.next_row, other.next_row) == (1000, 3500, 0)
        assert read(second.address, "audit", 3500) == 3500
        last = second.stop()
    assert (last["stored"], last["lost"]) == ({"orders/0": 3500}, {})
    assert last["channels"][0]["window_rows"] == 3500
    rows = last["channels"][0]["kept"]
    assert (rows["lag_rows"], rows["next_row"]) == ({"etl": 2500, "audit": 3500}, 3500)


def test_each_address_serves_the_same_channels() -> None:
    addresses = ("--address", "127.0.0.1:0", "--address", "tcp://127.0.0.1:0")
    with served_by("--stream", "orders", *REPLAY, "--drain-seconds", "0", *addresses) as served:
        over_grpc, over_tcp = served.listening["addresses"]
        assert over_tcp.startswith("tcp://127.0.0.1:")
        produce(over_grpc, 3)
        assert read(over_tcp, "", 300) == 300
        assert served.stop()["lost"] == {"orders/0": 300}


def test_producers_hear_that_it_drains_and_consumers_may_empty_it(command: Command) -> None:
    with served_by("--stream", "orders", *REPLAY, "--drain-seconds", "20") as served:
        with open_sink(served.address, "orders/0", CHUNK.schema, producer="p") as sink:
            sink.send(CHUNK)
            assert read(served.address, "", 100) == 100  # they are there
            served.process.send_signal(signal.SIGTERM)
            served.event("stopping")
            with pytest.raises(PeerGoneError, match="it is being stopped"):
                send_for_ever(sink.send)
        assert command("health", served.address)[0] == 1
        with control(served.address) as orders:
            rows = orders.positions(["orders/0"])[0].next_row
            assert read(served.address, "", rows) == rows >= 100
            orders.acknowledge({"orders/0": rows})
        assert served.event("stopped")["lost"] == {}
        assert served.process.wait(30) == 0


def send_for_ever(send: Callable[[pa.RecordBatch], None]) -> None:
    while True:
        send(CHUNK)


def test_a_second_signal_stops_at_once_and_keeps_the_store(tmp_path: Path) -> None:
    options = ("--stream", "orders", *REPLAY, "--store", str(tmp_path), "--drain-seconds", "60")
    with served_by(*options) as served:
        produce(served.address, 3)
        with open_sink(served.address, "orders/0", CHUNK.schema) as sink:
            served.process.send_signal(signal.SIGTERM)
            served.event("stopping")
            served.process.send_signal(signal.SIGTERM)
            assert served.process.wait(30) == -signal.SIGTERM
            with pytest.raises(PeerGoneError):
                send_for_ever(sink.send)
    with served_by(*options) as served:
        assert served.stop()["stored"].get("orders/0", 0) >= 300


def test_a_silent_querys_staged_rows_are_forgotten_in_time() -> None:
    staging = Staging(query="q", batch=0, partition=0, attempt="x")
    with served_by("--stream", "orders", *REPLAY, "--staging-timeout-seconds", "1") as served:
        with open_sink(served.address, "orders/0", CHUNK.schema, staging=staging) as sink:
            sink.send(CHUNK)
            sink.end(closes_channel=False)
        while "should have 1" in (refusal := refused_publication(served.address)):
            sleep(0.05)
    assert "is not staged" in refusal


def refused_publication(address: str) -> str:
    """Of one that has other rows than these, or is not here."""
    with pytest.raises(StagedPartError) as caught, control(address) as line:
        line.publish("q", 0, [StagedPart("orders/0", 0, "x", 1)])
    return str(caught.value)


def test_another_plan_than_the_stored_one_is_unusable(command: Command, tmp_path: Path) -> None:
    store = [*REPLAY, "--store", str(tmp_path)]
    with served_by("--stream", "orders:2", *store) as served:
        code, _, stderr = command("serve", "--stream", "orders:2", *store)
        assert (code, stderr.partition(" is in use")[0]) == (2, f"Error: --store: the store {tmp_path}")
        served.stop()
    plans = {
        ("--stream", "orders:2", "--row-permits", "64"): "with row permits 1048576, and 64 was given now",
        ("--stream", "orders:2", "--consumer", "etl"): "with consumers default, and etl was given now",
        ("--stream", "new", "--stream", "orders:2", "--row-permits", "64"): "channel 'orders/0' was stored in",
        ("--stream", "typo:2"): "holds channels that are not to be served: 'orders/0', 'orders/1'",
        ("--stream", "orders"): "holds channels that are not to be served: 'orders/1'; name their streams as well",
        ("--stream", "orders:2", "--cluster", "a:1,b:1", "--advertise", "a:1"): "the list of --cluster gives",
    }
    for options, complaint in plans.items():
        code, stdout, stderr = command("serve", *options, *store)
        assert (code, stdout) == (2, "")
        assert complaint in stderr
    # None of them has left anything behind.
    with served_by("--stream", "orders:2", *store) as served:
        assert served.listening["channels"] == ["orders/0", "orders/1"]


def test_a_log_tells_what_consumers_have_still_to_acknowledge(tmp_path: Path) -> None:
    options = [*REPLAY, "--consumer", "etl", "--consumer", "audit", "--store", str(tmp_path)]
    with serving("--stream", "orders", *options) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        produce(address, 5)
        with control(address) as orders:
            orders.acknowledge({"orders/0": 400}, consumer="etl")
        process.send_signal(signal.SIGTERM)
        told = process.stdout.read()
    assert "500 rows in, 0 acknowledged (still to come: etl 100, audit 500)" in told
    assert "500 of 1,048,576 held" in told
    assert told.endswith("kept on disk: 500 rows (orders/0 500)\n")


def test_a_log_tells_expired_rows_from_acknowledged_ones() -> None:
    with serving("--stream", "orders", *REPLAY, "--expire-bytes", "1KiB") as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        produce(address, 1)
        with control(address) as orders:
            orders.acknowledge({"orders/0": 10})
            produce(address, 1)
            while orders.positions(["orders/0"])[0].expired_row != 100:
                sleep(0.01)
        process.send_signal(signal.SIGTERM)
        told = process.stdout.read()
    assert "200 rows in, 10 acknowledged (still to come: default 190), 90 expired" in told
