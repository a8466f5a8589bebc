"""What publishing costs the database: counted in steps of its machine, as seconds are the computer's."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pyarrow as pa
import pytest

from permitflow.exchange.stores.sqlite_staging import publish_parts, stage_batches
from permitflow.exchange.stores.sqlite_tables import TABLES
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
    publish_parts(connection, "q", batch, [(CHANNEL, staging) for staging in stagings], ())
    connection.set_progress_handler(None, STEPS_AT_ONCE)
    return steps


def test_publishing_costs_as_much_for_each_part_however_many_there_are(connection: sqlite3.Connection) -> None:
    few = publish(connection, 100, 0)
    many = publish(connection, 800, 1)
    assert few > 0
    assert many < 2 * 8 * few


def test_parts_stand_in_line_as_they_were_named_behind_those_of_batches_before(connection: sqlite3.Connection) -> None:
    for batch in range(3):
        publish(connection, 4, batch)
    line = connection.execute("SELECT batch, partition FROM parts ORDER BY turn").fetchall()
    assert line == [(batch, partition) for batch in range(3) for partition in range(4)]
    turns = [turn for (turn,) in connection.execute("SELECT turn FROM parts")]
    assert len({*turns}) == len(turns)
