"""Staged batches over several exchanges: what the driver has written down is published in all of them, or in none."""

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from math import inf
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import LongType, StructField, StructType

from permitflow.client import EndOutcome, Published, Retention, StagedPart, Staging, control, put
from permitflow.client.blocking import BlockingControl
from permitflow.errors import (
    BatchOrderError,
    CheckpointError,
    InvalidOptionError,
    InvalidParametersError,
    PeerGoneError,
    StagedPartError,
)
from permitflow.exchange import Exchange, ExchangeServer
from permitflow.names import stream_channels
from permitflow.spark.decisions import Decision, Decisions
from permitflow.spark.options import WriteOptions
from permitflow.spark.sink import StagedBatchWriter, StagedMessage, StagedStreamWriter

CHANNELS = stream_channels("orders", 3)
SCHEMA = StructType([StructField("x", LongType())])
ARROW = pa.schema([("x", pa.int64())])


class Divided:
    """Three exchanges with a channel each, and the drivers of a query, one after the other."""

    def __init__(self, checkpoint: Path) -> None:
        self.exchanges = [Exchange() for _ in CHANNELS]
        for exchange, channel in zip(self.exchanges, CHANNELS, strict=True):
            exchange.add_channel(channel, retention=Retention.REPLAY, kept_rows=100)
        self.servers: list[ExchangeServer] = []
        self.checkpoint = checkpoint

    @property
    def options(self) -> WriteOptions:
        return WriteOptions.parse_stream(
            {
                "address": ",".join(server.address for server in self.servers),
                "stream": "orders",
                "channels": str(len(CHANNELS)),
                "timeoutSeconds": "2",
                "checkpointLocation": str(self.checkpoint),
            }
        )

    async def job(self, query: str, channels: int) -> StagedBatchWriter:
        """The driver of a batch job with the same folder."""
        given = {"delivery": "staged", "query": query, "batch": "1", "stream": "orders", "channels": str(channels)}
        where = {"address": self.options.exchange.address, "checkpointLocation": str(self.checkpoint)}
        return await asyncio.to_thread(StagedBatchWriter, WriteOptions.parse(given | where), SCHEMA)

    async def driver(self) -> StagedStreamWriter:
        return await asyncio.to_thread(StagedStreamWriter, self.options, SCHEMA)

    async def staged(self, batch: int, rows: Sequence[Sequence[int]]) -> list[WriterCommitMessage | None]:
        """What the tasks tell that have staged these rows, one for each channel."""
        return [await self._task(batch, partition, some) for partition, some in enumerate(rows)]

    async def _task(self, batch: int, partition: int, rows: Sequence[int]) -> StagedMessage:
        staging = Staging("q", batch, partition, f"attempt at {rows}")
        channel = CHANNELS[partition]
        if rows:
            async with put(self.options.exchange.address, channel, ARROW, staging=staging) as sender:
                await sender.send(pa.record_batch([pa.array(rows, pa.int64())], schema=ARROW))
                await sender.end(until=EndOutcome.ACCEPTED)
        return StagedMessage("q", [StagedPart(channel, partition, staging.attempt, len(rows))] if rows else [], None)

    @property
    def published(self) -> list[int]:
        """The rows that each channel has."""
        return [
            exchange.replay_channel(channel).position().next_row
            for exchange, channel in zip(self.exchanges, CHANNELS, strict=True)
        ]


def parts_of(message: WriterCommitMessage | None) -> Sequence[StagedPart]:
    return message.parts if isinstance(message, StagedMessage) else ()


@asynccontextmanager
async def serving(checkpoint: Path) -> AsyncIterator[Divided]:
    divided = Divided(checkpoint)
    divided.servers = [ExchangeServer(exchange, "tcp://127.0.0.1:0") for exchange in divided.exchanges]
    for server in divided.servers:
        await server.__aenter__()
    try:
        yield divided
    finally:
        for server in divided.servers:
            await server.stop()


async def test_a_batch_is_published_in_all_exchanges_once(tmp_path: Path) -> None:
    async with serving(tmp_path) as divided:
        driver = await divided.driver()
        for _ in range(2):
            await asyncio.to_thread(driver.commit, await divided.staged(0, [[1, 2], [], [3]]), 0)
            assert divided.published == [2, 0, 1]
        await asyncio.to_thread(driver.commit, await divided.staged(0, [[], [1, 2, 3], []]), 0)
        assert divided.published == [2, 0, 1], "all of them know the batch, also the one that had no rows"
        await asyncio.to_thread(driver.commit, await divided.staged(1, [[], [4], []]), 1)
        assert divided.published == [2, 1, 1]
        with pytest.raises(BatchOrderError):
            await asyncio.to_thread(driver.commit, await divided.staged(0, [[9], [], []]), 0)
        assert divided.published == [2, 1, 1]


async def test_an_interrupted_publication_is_no_repetition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    publish, calls = BlockingControl.publish, count()

    def interrupted(control: BlockingControl, query: str, batch: int, parts: Sequence[StagedPart]) -> Published:
        if next(calls) == 1:
            raise PeerGoneError(who="the exchange", reason="it is being stopped")
        return publish(control, query, batch, parts)

    monkeypatch.setattr(BlockingControl, "publish", interrupted)
    async with serving(tmp_path) as divided:
        driver = await divided.driver()
        await asyncio.to_thread(driver.commit, await divided.staged(0, [[1], [2], [3]]), 0)
        assert divided.published == [1, 1, 1]
    assert caplog.messages == []


async def test_what_a_killed_driver_has_decided_is_published_by_the_next(tmp_path: Path) -> None:
    async with serving(tmp_path) as divided:
        killed = await divided.driver()
        messages = await divided.staged(0, [[1], [2, 3], [4]])
        parts = tuple(part for each in messages for part in parts_of(each))
        Decisions(str(tmp_path)).decide(Decision("q", 0, parts, CHANNELS))
        async with control(divided.options.exchange.address) as orders:
            await orders.publish("q", 0, parts[:1])
        await asyncio.to_thread(killed.abort, messages, 0)  # late
        assert divided.published == [1, 0, 0]
        following = await divided.driver()
        assert divided.published == [1, 2, 1]
        await asyncio.to_thread(following.commit, await divided.staged(0, [[1, 2, 3, 4], [], []]), 0)
        assert divided.published == [1, 2, 1]


async def test_a_decision_is_carried_out_whole_and_by_its_own_query(tmp_path: Path) -> None:
    async with serving(tmp_path) as divided:
        parts = [part for each in await divided.staged(0, [[1], [2, 3], []]) for part in parts_of(each)]
        decision = Decisions(str(tmp_path)).decide(Decision("q", 0, tuple(parts), CHANNELS))
        await divided.job("another job with this folder", channels=1)
        assert (divided.published, Decisions(str(tmp_path)).pending()) == ([0, 0, 0], [decision])
        await divided.job("q", channels=1)
        assert (divided.published, Decisions(str(tmp_path)).pending()) == ([1, 2, 0], [])
        assert [exchange.staging.books.was_published("q", 0) for exchange in divided.exchanges] == [True] * 3


async def test_what_an_exchange_has_lost_comes_with_the_next_run(tmp_path: Path) -> None:
    async with serving(tmp_path) as divided:
        rows = [[1], [2, 3], [4]]
        parts = tuple(part for each in await divided.staged(0, rows) for part in parts_of(each))
        decision = Decisions(str(tmp_path)).decide(Decision("q", 0, parts, CHANNELS))
        async with control(divided.options.exchange.address) as orders:
            await orders.publish("q", 0, parts[:1])
            await orders.discard("q", 0, parts[1:])
        with pytest.raises(StagedPartError) as lost:
            await divided.driver()
        assert f"delete {Decisions(str(tmp_path)).where(decision)}" in lost.value.__notes__[-1]
        Decisions(str(tmp_path)).forget(decision)
        following = await divided.driver()
        await asyncio.to_thread(following.commit, await divided.staged(0, rows), 0)
        assert divided.published == [1, 2, 1]


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_s3_has_its_names_of_hadoop(scheme: str) -> None:
    Decisions(f"{scheme}://bucket/folder?region=eu-central-1")


class KilledError(Exception):
    """The driver is no more."""


async def test_a_decided_batch_outlives_a_driver_that_is_long_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path) as divided:
        driver, publish, publications = await divided.driver(), BlockingControl.publish, count(1)

        def killed_at_the_second(*order: Any) -> Published:
            if next(publications) == 2:
                raise KilledError
            return publish(*order)

        messages = await divided.staged(0, [[1], [2, 3], [4]])
        monkeypatch.setattr(BlockingControl, "publish", killed_at_the_second)
        with pytest.raises(KilledError):
            await asyncio.to_thread(driver.commit, messages, 0)
        assert sum(divided.published) in (1, 2), "one exchange has published"
        for exchange in divided.exchanges:
            exchange.staging.books.expire(now=inf)
        await divided.driver()
        assert divided.published == [1, 2, 1]


async def test_a_batch_that_one_exchange_has_lost_is_decided_nowhere(tmp_path: Path) -> None:
    async with serving(tmp_path) as divided:
        driver = await divided.driver()
        messages = await divided.staged(0, [[1], [2, 3], [4]])
        divided.exchanges[2].staging.books.expire(now=inf)
        with pytest.raises(StagedPartError):
            await asyncio.to_thread(driver.commit, messages, 0)
        assert (divided.published, Decisions(str(tmp_path)).pending()) == ([0, 0, 0], [])
        await asyncio.to_thread(driver.abort, messages, 0)
        assert not any(exchange.staging.books.has_staged for exchange in divided.exchanges)


async def test_a_decision_that_was_written_stands_though_its_writer_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path) as divided:
        driver, decide = await divided.driver(), Decisions.decide

        def unheard(decisions: Decisions, decision: Decision) -> Decision:
            decide(decisions, decision)
            raise CheckpointError(reason="has not answered", hint="look whether it is there")

        messages = await divided.staged(0, [[1], [2, 3], [4]])
        monkeypatch.setattr(Decisions, "decide", unheard)
        with pytest.raises(CheckpointError):
            await asyncio.to_thread(driver.commit, messages, 0)
        await asyncio.to_thread(driver.abort, messages, 0)
        assert divided.published == [0, 0, 0]
        await divided.driver()
        assert divided.published == [1, 2, 1]


async def test_a_query_whose_channel_two_exchanges_have_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as divided:
        divided.exchanges[0].add_channel(CHANNELS[1])
        with pytest.raises(InvalidParametersError, match=r"must be at one exchange.*not 'orders/1'"):
            await divided.driver()


async def test_nothing_is_published_while_an_exchange_is_away(tmp_path: Path) -> None:
    async with serving(tmp_path) as divided:
        driver = await divided.driver()
        messages = await divided.staged(0, [[1], [2, 3], [4]])
        await divided.servers[2].stop()
        with pytest.raises(PeerGoneError):
            await asyncio.to_thread(driver.commit, messages, 0)
        assert divided.published == [0, 0, 0]
        assert Decisions(str(tmp_path)).pending() == []


def test_the_first_of_two_decisions_about_a_batch_stands(tmp_path: Path) -> None:
    decisions, first = Decisions(tmp_path.as_uri()), Decision("q", 3, (StagedPart("c", 0, "a", 1),), ("c",))
    assert decisions.decide(first) == first
    assert decisions.decide(Decision("q", 3, (), ())) == first
    other = decisions.decide(Decision("other", 3, (), ()))
    assert Decisions(str(tmp_path)).pending() == [other, first]
    decisions.forget(first)
    decisions.forget(first)
    assert decisions.pending() == [other]


def test_a_decision_is_flushed_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done, link, flush = [], os.link, os.fsync

    def linked(draft: str, path: str) -> None:
        link(draft, path)
        done.append("link")

    def flushed(number: int) -> None:
        flush(number)
        done.append("file" if stat.S_ISREG(os.fstat(number).st_mode) else "folder")

    monkeypatch.setattr(os, "link", linked)
    monkeypatch.setattr(os, "fsync", flushed)
    Decisions(str(tmp_path)).decide(Decision("q", 0, (), ()))
    assert done == ["file", "link", "folder", "folder"]


def test_a_checkpoint_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "permitflow").write_text("")
    with pytest.raises(CheckpointError, match="checkpointLocation"):
        Decisions(str(tmp_path)).decide(Decision("q", 0, (), ()))
    with pytest.raises(CheckpointError, match="nowhere:"):
        Decisions("nowhere://folder")


@pytest.mark.parametrize("missing", ["checkpointLocation", "batch"])
def test_staging_in_several_exchanges_needs_what_a_repeated_job_finds(missing: str) -> None:
    options = {"address": "a:1,b:1", "channels": "c", "delivery": "staged", "query": "q", "batch": "1"}
    options["checkpointLocation"] = "/somewhere"
    WriteOptions.parse(options)
    del options[missing]
    with pytest.raises(InvalidOptionError, match=missing):
        WriteOptions.parse(options)
