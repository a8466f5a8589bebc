"""What publishing costs the database: counted in steps of its machine, as seconds are the computer's."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pyarrow as pa
import pytest

from permitflow.exchange.stores.sqlite_rows import (
    TABLES,
    load_batches,
    load_parts,
    publish_parts,
    stage_batches,
    take_over_published,
)
from permitflow.protocol.frames import Staging
from permitflow.transports.arrow import BatchCodec

CHUNK = pa.record_batch({"n": pa.array([1], pa.int64())})
CODEC = BatchCodec(CHUNK.schema)
CHANNEL = 1
# The database calls back no more often than that.
STEPS_AT_ONCE = 100


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as opened:
        for table in TABLES:
            opened.execute(table)
        opened.execute("INSERT INTO channels VALUES (1, 'a', 'log', 9, 1, 9, 9, 'split', NULL, 0, 'open', '')")
        yield opened


def publish(connection: sqlite3.Connection, parts: int, batch: int) -> int:
    """Stage and publish a batch; how many steps publishing took, in hundreds."""
    stagings = [Staging("q", batch, partition, "a") for partition in range(parts)]
    for staging in stagings:
        stage_batches(connection, CODEC, CHANNEL, staging, [CHUNK])
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    connection.set_progress_handler(count, STEPS_AT_ONCE)
    ((first_row,),) = connection.execute("SELECT next_row FROM channels").fetchall()
    parts_and_rows = [(CHANNEL, staging, first_row + number) for number, staging in enumerate(stagings)]
    publish_parts(connection, "q", batch, parts_and_rows, ())
    connection.set_progress_handler(None, STEPS_AT_ONCE)
    return steps


def test_publishing_costs_as_much_for_each_part_however_many_there_are(connection: sqlite3.Connection) -> None:
    few = publish(connection, 100, 0)
    many = publish(connection, 800, 1)
    assert few > 0
    assert many < 2 * 8 * few


def test_what_an_older_release_has_published_and_had_no_room_for_becomes_rows_in_its_order(
    connection: sqlite3.Connection,
) -> None:
    publish(connection, 2, 0)
    for partition, turn in ((0, 7), (1, 5), (2, None)):
        batches = [pa.record_batch({"n": pa.array([10 * partition + row], pa.int64())}) for row in range(2)]
        stage_batches(connection, CODEC, CHANNEL, Staging("q", 1, partition, "a"), batches)
        connection.execute("UPDATE parts SET turn = ? WHERE partition = ?", (turn, partition))
    take_over_published(connection)
    kept = [(first_row, batch["n"][0].as_py()) for first_row, batch in load_batches(connection, CODEC, CHANNEL)]
    assert kept == [(0, 1), (1, 1), (2, 10), (3, 11), (4, 0), (5, 1)]
    assert connection.execute("SELECT next_row FROM channels").fetchall() == [(6,)]
    assert [part.staging.partition for part in load_parts(connection, CODEC, CHANNEL)] == [2]
