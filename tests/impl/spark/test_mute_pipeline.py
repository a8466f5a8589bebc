"""Spark at both ends of a word count: a job sends the words, a streaming query reads the counts."""

import json
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from queue import Queue

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as f

from examples.child_process import address_of
from examples.wordcount.worker import WorkerSettings
from permitflow.mute.pipeline import Event
from tests.impl.spark.conftest import Driver

WORDS, REPEATS = 50, 400
BUFFER_BYTES = 4_096


@contextmanager
def worker() -> Iterator[tuple[dict[str, str], Queue[Event]]]:
    """A worker process; its addresses, and the events that it reports later."""
    settings = WorkerSettings(
        name="worker",
        listen="127.0.0.1:0",
        listening_sinks=["127.0.0.1:0"],
        receive_bytes=BUFFER_BYTES,
        send_bytes=BUFFER_BYTES,
    )
    command = [sys.executable, "-m", "examples.wordcount.worker", settings.to_json()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None  # it is a pipe
        lines = map(json.loads, process.stdout)
        addresses, events = next(lines), Queue[Event]()

        def hear() -> None:
            for event in lines:
                events.put(event)

        hearing = threading.Thread(target=hear)
        hearing.start()
        try:
            yield addresses, events
        finally:
            process.terminate()
            hearing.join()


@pytest.mark.long
def test_a_query_that_is_late_stops_the_job_and_gets_exact_counts(driver: Driver) -> None:
    """The sink has no reader before the query begins: until then the job's tasks stand still in their writes."""

    def job(spark: SparkSession, addresses: dict[str, str], events: Queue[Event]) -> tuple[bool, dict[str, int]]:
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

        while (event := events.get())["event"] != "muted":
            pass
        was_muted = event["by"] == ["worker/out0"] and sending.is_alive()

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

    with worker() as (addresses, events):
        was_muted, found = driver.run(lambda spark: job(spark, addresses, events))
    assert was_muted
    assert Counter(found) == Counter({f"word{number}": REPEATS for number in range(WORDS)})
