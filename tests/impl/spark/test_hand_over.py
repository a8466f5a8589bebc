"""Between a reader and Spark: the socket is made small for as long as it reads, and what is left is metered."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from permitflow.spark.reading import HandOver, narrow_socket, spark_socket
from tests.impl.spark.conftest import Driver
from tests.support.served_exchange import producers

BATCH = pa.record_batch({"n": pa.array(range(1024), pa.int64())})
BATCH_BYTES = pa.ipc.get_record_batch_size(BATCH)


@pytest.fixture
def connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A worker's end, accepted as Spark's daemon does, and the JVM's end."""
    monkeypatch.setenv("PYTHON_WORKER_FACTORY_SOCK_DIR", str(tmp_path))
    path = str(tmp_path / ".0.sock")
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as jvm:
        listening.bind(path)
        listening.listen()
        jvm.connect(path)
        worker, _ = listening.accept()
        listening.close()
        with worker:
            yield worker, jvm


def buffer_bytes(connection: socket.socket) -> int:
    return connection.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)


def test_the_socket_is_small_during_the_block_only(connection: tuple[socket.socket, socket.socket]) -> None:
    worker, _ = connection
    before = buffer_bytes(worker)
    with narrow_socket(8192) as found:
        assert found is not None
        assert buffer_bytes(worker) == 2 * 8192  # the kernel tells twice what it was told
    assert buffer_bytes(worker) == before


@pytest.mark.parametrize("folder", ["", "elsewhere"])
def test_without_sparks_socket_nothing_is_touched(
    connection: tuple[socket.socket, socket.socket], folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHON_WORKER_FACTORY_SOCK_DIR", folder)
    before = buffer_bytes(connection[0])
    assert spark_socket() is None
    with narrow_socket() as found:
        assert found is None
        assert buffer_bytes(connection[0]) == before


def test_the_meter_is_an_upper_bound_of_what_is_on_the_way(
    connection: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two buffers of Spark's, taken for full, a batch, and the queue of the socket, which is asked."""
    monkeypatch.setenv("SPARK_BUFFER_SIZE", "4096")
    worker, jvm = connection
    hand_over = HandOver(worker)
    for _ in hand_over.metered([BATCH] * 10):
        pass
    buffered = hand_over.run_ahead_rows
    assert buffered is not None
    assert 2 * 4096 <= buffered * 8 < 2 * 4096 + 4096 + 3 * BATCH_BYTES
    worker.sendall(bytes(5 * BATCH_BYTES))
    queued = hand_over.run_ahead_rows
    assert queued is not None
    assert queued >= buffered + 5 * 1024
    received = 0
    while received < 5 * BATCH_BYTES:
        received += len(jvm.recv(65_536))
    assert hand_over.run_ahead_rows == buffered


def test_a_real_reader_finds_sparks_socket_and_says_what_it_has_handed_over(
    driver: Driver, options: dict[str, str], tmp_path: Path
) -> None:
    def job(spark: SparkSession) -> int:
        with producers(options, [BATCH] * 3, [BATCH] * 2):
            return spark.read.format("permitflow").options(**options, trace_dir=str(tmp_path)).load().count()

    assert driver.run(job) == 5 * 1024
    told = [json.loads(path.read_text())[0] for path in tmp_path.glob("read-*.statistics.json")]
    assert sorted(each["handed_over_rows"] for each in told) == [2 * 1024, 3 * 1024]
    assert all(1 <= each["peak_run_ahead_rows"] <= each["handed_over_rows"] for each in told)
