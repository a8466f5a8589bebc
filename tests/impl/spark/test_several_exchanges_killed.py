"""Drivers and exchanges are killed while batches are published in several exchanges: each batch is whole, once.

Drivers are away for longer than it takes staged rows to expire.
"""

import multiprocessing
import random
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from time import sleep

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType

from permitflow.client import EndOutcome, StagedPart, Staging
from permitflow.client.blocking import control, open_sink, open_source
from permitflow.errors import PermitflowError, StagedPartError
from permitflow.names import stream_channels
from permitflow.spark.options import WriteOptions
from permitflow.spark.sink import StagedMessage, StagedStreamWriter
from tests.support.serving import address_of, serving

CHANNELS = stream_channels("orders", 6)
ROWS_OF_BATCH = 60
ARROW = pa.schema([("x", pa.int64())])
KILLS = 9
EXPIRY_SECONDS = 1
SPAWNING = multiprocessing.get_context("spawn")


def drive(address: str, folder: Path, tell: Connection) -> None:
    """A query's driver: it repeats a batch with other attempts, unless its checkpoint says that it is committed."""
    committed = folder / "committed"
    options = {"address": address, "stream": "orders", "channels": str(len(CHANNELS)), "timeoutSeconds": "30"}
    options["checkpointLocation"] = str(folder)
    writer = StagedStreamWriter(WriteOptions.parse_stream(options), StructType([StructField("x", LongType())]))
    while True:
        batch = len(committed.read_text()) if committed.exists() else 0
        rows = list(range(batch * ROWS_OF_BATCH, (batch + 1) * ROWS_OF_BATCH))
        random.shuffle(rows)
        cuts = sorted(random.choices(range(ROWS_OF_BATCH), k=len(CHANNELS) - 1))
        parts = [rows[begin:end] for begin, end in zip([0, *cuts], [*cuts, ROWS_OF_BATCH], strict=True)]
        try:
            messages = [staged(address, batch, partition, part) for partition, part in enumerate(parts)]
        except PermitflowError:  # as a task that fails, and is run again
            continue
        try:
            writer.commit([*messages], batch)
        except StagedPartError:  # they have expired before they were prepared: the query fails, and is started again
            writer.abort([*messages], batch)
            continue
        with committed.open("a") as file:
            file.write(".")
        tell.send(batch)


def staged(address: str, batch: int, partition: int, rows: list[int]) -> StagedMessage:
    staging = Staging("q", batch, partition, f"{random.getrandbits(64)}")
    channel = CHANNELS[partition]
    if rows:
        with open_sink(address, channel, ARROW, staging=staging, timeout_seconds=20) as sink:
            sink.send(pa.record_batch([pa.array(rows, pa.int64())], schema=ARROW))
            sink.end(closes_channel=False, until=EndOutcome.ACCEPTED)
    return StagedMessage("q", [StagedPart(channel, partition, staging.attempt, len(rows))] if rows else [], None)


@contextmanager
def driving(address: str, folder: Path) -> Iterator[Connection]:
    hear, tell = SPAWNING.Pipe(duplex=False)
    driver = SPAWNING.Process(target=drive, args=(address, folder, tell))
    driver.start()
    tell.close()
    try:
        yield hear
    finally:
        driver.kill()
        driver.join()


class Cluster:
    """Three exchanges, each with a store and a port that it keeps."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self._stack, self._folder = stack, folder
        with ExitStack() as sockets:
            found = [sockets.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
            self.addresses = [f"tcp://127.0.0.1:{each.getsockname()[1]}" for each in found]
        self._processes = [self._started(position) for position in range(3)]

    @property
    def address(self) -> str:
        return ",".join(self.addresses)

    def _started(self, position: int) -> "subprocess.Popen[str]":
        own, store = self.addresses[position], str(self._folder / str(position))
        kept = ("--retention", "replay", "--kept-rows", "1000000", "--store", store)
        cluster = ("--cluster", self.address, "--quiet", "--resume-seconds", "0")
        stream = ("--stream", f"orders:{len(CHANNELS)}", "--staging-timeout-seconds", str(EXPIRY_SECONDS))
        process = self._stack.enter_context(serving("--address", own, *stream, *kept, *cluster))
        assert address_of(process) == own
        return process

    def kill(self, position: int) -> None:
        self._processes[position].send_signal(signal.SIGKILL)
        self._processes[position].wait()

    def restart(self, position: int) -> None:
        self._processes[position] = self._started(position)


@pytest.mark.long
@pytest.mark.timeout(1_000)
def test_each_batch_is_whole_and_once_whoever_is_killed(tmp_path: Path) -> None:
    with ExitStack() as stack:
        cluster = Cluster(stack, tmp_path)
        committed = -1
        for number in range(KILLS):
            with driving(cluster.address, tmp_path) as heard:
                committed = heard.recv()  # it has begun, and goes on
                position = number // 3 % 3
                if number % 3:
                    heard.poll(random.random() / 4)
                    cluster.kill(position)
                if number % 3 == 1:
                    cluster.restart(position)
                    committed = heard.recv()
                sleep(random.random() / 4)
            if number % 3 == 2:  # both were away
                cluster.restart(position)
            sleep(2 * EXPIRY_SECONDS)
        with driving(cluster.address, tmp_path) as heard:
            committed = heard.recv()
        with control(cluster.address, timeout_seconds=30) as orders:
            found = orders.positions(CHANNELS)
            assert len(orders.by_exchange(CHANNELS)) > 1
        rows: list[int] = []
        for at in found:
            with open_source(cluster.address, at.channel, from_row=0, to_row=at.next_row) as source:
                rows += [row for batch in source for row in batch["x"].to_pylist()]
    whole = (committed + 1) * ROWS_OF_BATCH
    assert len(rows) == len(set(rows)) <= whole + ROWS_OF_BATCH
    assert sorted(rows)[:whole] == list(range(whole))
    assert len(rows) % ROWS_OF_BATCH == 0
