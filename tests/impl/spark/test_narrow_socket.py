"""Between a reader and Spark: the socket is made small for as long as it reads."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from permitflow.spark.reading import SOCKET_BYTES, narrow_socket, spark_socket
from tests.impl.spark.conftest import Driver


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
    with narrow_socket():
        assert buffer_bytes(worker) == 2 * SOCKET_BYTES  # the kernel tells twice what it was told
    assert buffer_bytes(worker) == before


@pytest.mark.parametrize("folder", ["", "elsewhere"])
def test_without_sparks_socket_nothing_is_touched(
    connection: tuple[socket.socket, socket.socket], folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHON_WORKER_FACTORY_SOCK_DIR", folder)
    before = buffer_bytes(connection[0])
    assert spark_socket() is None
    with narrow_socket():
        assert buffer_bytes(connection[0]) == before


def test_a_real_reader_finds_sparks_socket_and_restores_it(driver: Driver) -> None:
    """In a worker of Spark, which accepted its socket where ``spark_socket`` looks for it."""

    def size() -> int:
        found = spark_socket()
        assert found is not None
        with found:
            return found.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)

    def sizes(_: None) -> tuple[int, int, int]:
        before = size()
        with narrow_socket():
            within = size()
        return before, within, size()

    def job(spark: SparkSession) -> list[tuple[int, int, int]]:
        return spark.sparkContext.parallelize([None], 1).map(sizes).collect()

    ((before, within, after),) = driver.run(job)
    assert before == after > within == 2 * SOCKET_BYTES
