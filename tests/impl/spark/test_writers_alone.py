"""What a writer does whom Spark has started a second time, or for a commit or an abort; Spark itself is not needed."""

import logging
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from time import sleep
from typing import NoReturn

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructType

from permitflow.errors import PeerGoneError, TaskRetryError, UnknownChannelError
from permitflow.spark import PermitflowDataSource
from permitflow.spark.sink import Sending
from permitflow.transports.grpc_blocking import control, open_sink, open_source
from tests.support.served_exchange import channels_of, consume, produce

Options = dict[str, str]

SOON_SECONDS = 20.0  # guards against hangs


@dataclass
class SecondAttempt:
    """What Spark tells a task that it has started again."""

    partition: int

    def partitionId(self) -> int:  # noqa: N802 - Spark's name
        return self.partition

    def attemptNumber(self) -> int:  # noqa: N802 - Spark's name
        return 1


def test_a_second_attempt_is_refused_and_breaks_nothing(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first attempt may have ended well, or still be running."""
    monkeypatch.setattr("permitflow.spark.sink.TaskContext.get", lambda: SecondAttempt(3))
    writer = PermitflowDataSource(options).writer(StructType().add("id", LongType()), overwrite=False)
    batch = pa.record_batch({"id": pa.array([1], pa.int64())})
    with pytest.raises(TaskRetryError, match="partition 3 is written for the second time") as caught:
        writer.write(iter([batch]))
    assert (caught.value.partition, caught.value.attempt) == (3, 1)
    channel = channels_of(options)[1]
    produce(options, channel, [batch])
    assert consume(options, channel) == [batch]


def test_no_channel_is_ended_before_all_have_been_reached(options: Options) -> None:
    first = channels_of(options)[0]
    named = {"address": options["address"], "channels": f"{first},nowhere", "timeout_seconds": "60"}
    writer = PermitflowDataSource(named).writer(StructType().add("id", LongType()), overwrite=False)
    with pytest.raises(UnknownChannelError, match="nowhere"):
        writer.commit([None])
    with pytest.raises(UnknownChannelError, match="nowhere"):
        writer.abort([None])
    assert str(consume(options, first)).startswith("ChannelAbortedError")


def committing(options: Options, pool: ThreadPoolExecutor) -> "Future[None]":
    writer = PermitflowDataSource(options).writer(StructType().add("n", LongType()), overwrite=False)
    return pool.submit(writer.commit, [None])


def state_of(options: Options, channel: str) -> str:
    with control(options["address"]) as orders:
        return orders.statistics((channel,)).channels[0].state


@pytest.mark.parametrize("end", ["true", "false"])
def test_a_commit_fails_if_a_reader_has_left_with_rows(options: Options, end: str) -> None:
    channel, _ = channels_of(options)
    batch = pa.record_batch({"n": pa.array([1], pa.int64())})
    with open_sink(options["address"], channel, batch.schema) as sink:
        sink.send(batch)
        sink.end(closes_channel=False)
    with open_source(options["address"], channel) as source:
        next(source)
    while state_of(options, channel) != "broken":
        sleep(0.01)
    with ThreadPoolExecutor(1) as pool, pytest.raises(PeerGoneError, match=f"the consumer of channel '{channel}'"):
        committing({**options, "end": end}, pool).result(SOON_SECONDS)


def test_a_commit_says_all_ends_and_waits_for_readers_that_hold_rows(options: Options) -> None:
    """A reader that merges its channels needs the end of one to go on with another."""
    first, second = channels_of(options)
    batch = pa.record_batch({"n": pa.array([1], pa.int64())})
    with open_sink(options["address"], first, batch.schema) as sink, ThreadPoolExecutor(1) as pool:
        sink.send(batch)
        sink.end(closes_channel=False)
        with open_source(options["address"], first) as source:
            assert next(source) == batch
            commit = committing(options, pool)
            assert consume(options, second) == []
            assert not commit.done()
            assert list(source) == []
            commit.result(SOON_SECONDS)


def test_a_commit_without_readers_succeeds_and_says_that_nobody_has_consumed_the_rows(
    options: Options, caplog: pytest.LogCaptureFixture
) -> None:
    with ThreadPoolExecutor(1) as pool, caplog.at_level(logging.INFO, "permitflow.spark"):
        committing(options, pool).result(SOON_SECONDS)
    first, _ = channels_of(options)
    assert caplog.messages == [
        f"all rows are with the exchange; nobody has consumed those of channel {first!r} and 1 more yet"
    ]


def test_an_abort_tries_all_channels_and_then_says_what_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that it does not get to at once."""
    dialled: list[str] = []

    def refuse(_: Sending, channel: str, *, timeout_seconds: float) -> NoReturn:
        dialled.append(channel)
        raise PeerGoneError(who="the exchange", reason=f"no way to {channel}")

    monkeypatch.setattr(Sending, "open_for_a_word", refuse)
    channels = [f"orders/{number}" for number in range(100)]
    named = {"address": "127.0.0.1:1", "channels": ",".join(channels)}
    writer = PermitflowDataSource(named).writer(StructType().add("id", LongType()), overwrite=False)
    with pytest.raises(PeerGoneError, match="no way to orders/0"):
        writer.abort([None])
    assert sorted(dialled) == sorted(channels)
