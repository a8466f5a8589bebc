"""Spark at both ends of a word count: a job sends the words, a streaming query reads the counts."""

import asyncio
import json
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as f

from examples.child_process import address_of
from examples.wordcount.worker import WorkerSettings
from tests.impl.spark.conftest import Driver
from tests.support.turns import until

WORDS, REPEATS = 50, 400
BUFFER_BYTES = 4_096


@contextmanager
def worker(log: Path) -> Iterator[dict[str, str]]:
    """A worker process that reports its events there; its addresses."""
    settings = WorkerSettings(
        name="worker",
        listen="127.0.0.1:0",
        listening_sinks=["127.0.0.1:0"],
        receive_bytes=BUFFER_BYTES,
        send_bytes=BUFFER_BYTES,
    )
    command = [sys.executable, "-m", "examples.wordcount.worker", settings.to_json()]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output) as process:
        try:
            asyncio.run(until(lambda: log.read_bytes().endswith(b"\n")))
            yield json.loads(log.read_text())
        finally:
            process.terminate()


@pytest.mark.long
def test_a_query_that_is_late_stops_the_job_and_gets_exact_counts(driver: Driver, tmp_path: Path) -> None:
    """The sink has no reader before the query begins: until then the job's tasks stand still in their writes."""

    log = tmp_path / "worker.jsonl"

    def job(spark: SparkSession, addresses: dict[str, str]) -> tuple[bool, dict[str, int]]:
        host, port = address_of(addresses["listen"])

        def send(rows: Iterable[Row]) -> None:
            with socket.socket() as connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
                connection.connect((host, port))
                for row in rows:
                    connection.sendall(row.word.encode() + b"\n")

        words = spark.range(WORDS * REPEATS).select(f.concat(f.lit("word"), f.col("id") % WORDS).alias("word"))
        sending = threading.Thread(target=lambda: words.foreachPartition(send))
        sending.start()

        while not (mutes := [line for line in log.read_text().splitlines() if '"muted"' in line]):
            pass
        was_muted = json.loads(mutes[0])["by"] == ["worker/out0"] and sending.is_alive()

        host, port = address_of(addresses["out0"])
        lines = spark.readStream.format("socket").option("host", host).option("port", port).load()
        query = lines.writeStream.format("memory").queryName("counts").start()
        try:
            sending.join()
            found: dict[str, int] = {}
            while sum(found.values()) < WORDS * REPEATS:
                query.processAllAvailable()
                counts = [row.value.split("\t") for row in spark.table("counts").collect()]
                # Each occurrence of a word has a line with its count so far.
                found = {word: int(count) for word, count in sorted(counts, key=lambda pair: int(pair[1]))}
        finally:
            query.stop()
        return was_muted, found

    with worker(log) as addresses:
        was_muted, found = driver.run(lambda spark: job(spark, addresses))
    assert was_muted
    assert Counter(found) == Counter({f"word{number}": REPEATS for number in range(WORDS)})
