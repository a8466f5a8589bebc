"""Attempts at the tasks of a job: what an exchange takes of them, and what its consumers hear."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from permitflow import ChannelParameters, ReceiveEnd
from permitflow.carriers.carrier import Conversation
from permitflow.carriers.connection import PUT_STREAM
from permitflow.carriers.same_host import meet
from permitflow.client import EndOutcome, JobTotal, RemoteSender, Staging, TaskAttempt, describe, get, put, remote_end
from permitflow.errors import (
    ChannelAbortedError,
    ChannelClosedError,
    ChannelResetError,
    ChannelSpentError,
    InvalidParametersError,
    JobTotalError,
    PermitflowError,
    ProtocolError,
    TaskRetryError,
    UnknownChannelError,
)
from permitflow.exchange import Exchange, Retention, SqliteStore
from permitflow.flows.permits.agreement import PERMITS
from permitflow.stream.control import MOST_CHANNELS
from permitflow.stream.frames import End, Ended
from permitflow.wire.codec import decode_downstream
from tests.support.endpoints import CHANNEL, SCHEMA, chunk
from tests.support.peers_by_hand import BATCH, data, dialling, encoded, put_frame
from tests.support.served import served
from tests.support.turns import until

LISTEN = "tcp://127.0.0.1:0"
SOON_SECONDS = 10.0
BOTH = pytest.mark.parametrize("retention", Retention)


class World:
    """A served channel, and a job that puts into it."""

    def __init__(self, exchange: Exchange, address: str) -> None:
        self.exchange = exchange
        self.address = address

    def attempt(self, number: int, partition: int = 0, job: str = "job") -> AbstractAsyncContextManager[RemoteSender]:
        return put(self.address, CHANNEL, SCHEMA, attempt=TaskAttempt(job, partition, number, number > 1))

    async def send(self, number: int, partition: int = 0, rows: int = 10, job: str = "job") -> None:
        async with self.attempt(number, partition, job) as sender:
            if rows:
                await sender.send(chunk(0, rows))
            await sender.end(closes_channel=False, until=EndOutcome.ACCEPTED)

    async def commit(self, rows: int, closes_channel: bool = True, job: str = "job") -> None:
        async with put(self.address, CHANNEL, SCHEMA, total=JobTotal(job, rows)) as sender:
            await sender.end(closes_channel=closes_channel, until=EndOutcome.ACCEPTED)

    async def abort(self) -> None:
        async with put(self.address, CHANNEL, SCHEMA, failed_job="job") as sender:
            sender.abort("it has failed")

    async def read(self) -> int:
        async with get(self.address, CHANNEL) as receiver:
            return await rows_in(receiver)


async def rows_in(receiver: ReceiveEnd[Any]) -> int:
    return sum([message.rows async for message in receiver])


@asynccontextmanager
async def world(retention: Retention) -> AsyncIterator[World]:
    window = ChannelParameters(row_permits=64, permit_batch=16)
    opened = served(CHANNEL, parameters=window, schema=SCHEMA, retention=retention, listen=LISTEN)
    async with opened as (exchange, address), asyncio.timeout(SOON_SECONDS):
        yield World(exchange, address)


@BOTH
async def test_tasks_that_send_once_come_to_a_clean_end(retention: Retention) -> None:
    async with world(retention) as job:
        for partition in range(3):
            await job.send(partition, partition)
        await job.commit(30)
        assert await job.read() == 30


@BOTH
async def test_an_attempt_counts_once_its_end_is_answered(retention: Retention) -> None:
    """Its stream is still open when the job ends."""
    async with (
        served("orders/0", schema=BATCH.schema, retention=retention) as (_, address),
        dialling(address, PUT_STREAM) as carrier,
        asyncio.timeout(SOON_SECONDS),
    ):
        await carrier.write([encoded(PUT_STREAM, put_frame(attempt=TaskAttempt("job", 0, 1)))])
        await carrier.read()  # the agreement
        for frame in (data(), End(1, 3, 0, until=EndOutcome.ACCEPTED)):
            await carrier.write([encoded(PUT_STREAM, frame)])
        while Ended(EndOutcome.ACCEPTED) not in decode_downstream(await carrier.read() or b"", PERMITS):
            pass
        async with put(address, "orders/0", BATCH.schema, total=JobTotal("job", 3)) as sender:
            assert await sender.end(until=EndOutcome.ACCEPTED) is EndOutcome.ACCEPTED
        carrier.half_close()


@BOTH
async def test_an_attempt_that_states_a_total_is_refused(retention: Retention) -> None:
    """It is asked for its rows before anything is agreed with it."""
    async with world(retention) as job:
        with pytest.raises(JobTotalError):
            async with put(job.address, CHANNEL, SCHEMA, attempt=TaskAttempt("job", 0, 1), total=JobTotal("job", 0)):
                pass


@BOTH
async def test_a_second_attempt_breaks_what_the_first_has_filled(retention: Retention) -> None:
    async with world(retention) as job:
        await job.send(1)
        with pytest.raises(TaskRetryError, match="task attempt 2"):
            await job.send(2)
        with pytest.raises(ChannelAbortedError, match="partition 0: it is written for the second time"):
            await job.read()


@BOTH
async def test_a_second_attempt_beside_the_first_breaks_it_too(retention: Retention) -> None:
    async with world(retention) as job:
        with pytest.raises(ChannelAbortedError, match="written for the second time"):
            await two_at_once(job)


async def two_at_once(job: World) -> None:
    """The first attempt still sends, and a reader has some of its rows."""
    async with job.attempt(1) as first, get(job.address, CHANNEL) as receiver:
        await first.send(chunk(0, 10))
        await receiver.receive()
        with pytest.raises(TaskRetryError):
            await job.send(2)
        await rows_in(receiver)


@BOTH
@pytest.mark.parametrize("ends", [True, False], ids=["has ended", "has broken off"])
async def test_a_second_attempt_takes_the_place_of_one_without_rows(retention: Retention, ends: bool) -> None:
    async with world(retention) as job:
        if ends:
            await job.send(1, rows=0)
        else:
            async with job.attempt(1) as first:
                first.abort("no row of it was sent")
        await job.send(2)
        await job.commit(10)
        assert await job.read() == 10


@BOTH
async def test_rows_of_a_slow_attempt_are_not_taken_beside_a_second(retention: Retention) -> None:
    """They come once the second one has begun."""
    async with world(retention) as job, job.attempt(2) as second:
        with pytest.raises(TaskRetryError, match="a later attempt has taken its place"):
            await job.send(1)
        async with job.attempt(3) as third:
            with pytest.raises(TaskRetryError, match="a later attempt has taken its place"):
                await send_to_the_end(second)
            await send_to_the_end(third)
        await job.commit(10)
        assert await job.read() == 10


@BOTH
async def test_an_attempt_whose_rows_wait_for_room_is_the_only_one(retention: Retention) -> None:
    """They have come, and the channel is full of another job's."""
    async with world(retention) as job:
        await job.send(1, rows=64, job="another")
        with pytest.raises(ChannelAbortedError, match="written for the second time"):
            await two_without_room(job)


async def two_without_room(job: World) -> None:
    streams = job.exchange.served(CHANNEL).streams
    async with job.attempt(1) as first:
        await first.send(chunk(0, 10))
        await until(lambda: any(end.inbox_rows for _, end in streams.statistics()))
        with pytest.raises(TaskRetryError, match="may have been consumed"):
            await job.send(2)
        await first.end(closes_channel=False)


async def send_to_the_end(sender: RemoteSender) -> None:
    await sender.send(chunk(0, 10))
    await sender.end(closes_channel=False, until=EndOutcome.ACCEPTED)


@BOTH
async def test_rows_on_the_way_are_not_taken_once_a_second_begins(retention: Retention) -> None:
    """They lie in the connection of a process that has heard nothing of the other attempt."""
    async with (
        served("orders/0", schema=BATCH.schema, retention=retention) as (exchange, address),
        asyncio.timeout(SOON_SECONDS),
    ):
        async with dialling(address, PUT_STREAM) as slow:
            await slow.write([encoded(PUT_STREAM, put_frame(attempt=TaskAttempt("job", 0, 1)))])
            await slow.read()  # the agreement
            async with put(address, "orders/0", BATCH.schema, attempt=TaskAttempt("job", 0, 2)) as sender:
                await slow.write([encoded(PUT_STREAM, data())])
                await sender.send(BATCH)
                await sender.end(closes_channel=False, until=EndOutcome.ACCEPTED)
            with pytest.raises(TaskRetryError):
                await read_to_the_end(slow)
        async with put(address, "orders/0", BATCH.schema, total=JobTotal("job", 3)) as sender:
            await sender.end(until=EndOutcome.ACCEPTED)
        assert exchange.statistics()[0].rows_in == 3


async def test_a_second_attempt_is_refused_after_a_restart(tmp_path: Path) -> None:
    """The first one has sent rows that are there still, and the exchange does not know of it."""
    for restarts in (False, True):
        with SqliteStore(tmp_path / "store") as store:
            kept = {"retention": Retention.REPLAY, "schema": SCHEMA, "listen": LISTEN, "store": store}
            async with served(CHANNEL, **kept) as (exchange, address):
                job = World(exchange, address)
                await job.send(1, job="any" if restarts else "job")
                with pytest.raises(TaskRetryError) if restarts else nullcontext():
                    await job.send(2, partition=1)


async def test_a_job_states_no_schema_behind_a_reset() -> None:
    """Its columns would stay, though the channel begins anew without the job."""
    wider = SCHEMA.append(pa.field("late", pa.int64()))
    async with world(Retention.REPLAY) as job:
        await job.send(1)
        await job.exchange.reset_channel(CHANNEL)
        with pytest.raises(ChannelResetError):
            await put(job.address, CHANNEL, wider, attempt=TaskAttempt("job", 1, 5)).__aenter__()
        assert (await describe(job.address, CHANNEL)).schema == SCHEMA


async def test_a_reset_ends_jobs_that_were_planned_before_it() -> None:
    """Also one of which this exchange knows nothing, because it was started again."""
    async with world(Retention.REPLAY) as job:
        await job.send(1, job="another")
        await job.exchange.reset_channel(CHANNEL)
        stated: dict[str, Any] = {"attempt": TaskAttempt("job", 0, 2, is_retry=True)}
        with pytest.raises(ChannelResetError):
            await put(job.address, CHANNEL, SCHEMA, **stated, job_since_row=9).__aenter__()
        async with put(job.address, CHANNEL, SCHEMA, **stated, job_since_row=10) as sender:
            await send_to_the_end(sender)


@pytest.mark.parametrize(("since_row", "breaks"), [(0, True), (10, False)])
async def test_a_late_abort_after_a_restart_spares_other_jobs(tmp_path: Path, since_row: int, breaks: bool) -> None:
    """All rows are from before the job was planned, so that none is its own."""
    for restarts in (False, True):
        with SqliteStore(tmp_path / "store") as store:
            kept = {"retention": Retention.REPLAY, "schema": SCHEMA, "listen": LISTEN, "store": store}
            async with served(CHANNEL, **kept) as (exchange, address):
                job = World(exchange, address)
                await job.send(1, job=f"restarts: {restarts}")
                if not restarts:
                    continue
                with nullcontext() if breaks else pytest.raises(ChannelResetError):
                    async with put(address, CHANNEL, SCHEMA, failed_job="job", job_since_row=since_row) as sender:
                        sender.abort("it has failed")
                assert exchange.statistics()[0].state == ("broken" if breaks else "open")


async def test_a_job_that_was_planned_with_another_log_is_over() -> None:
    """The job was planned with the log of the removed one, and does not even state its schema in the new one."""
    wider = SCHEMA.append(pa.field("removed", pa.int64()))
    async with world(Retention.REPLAY) as job:
        for stated in ({"attempt": TaskAttempt("job", 0, 1)}, {"total": JobTotal("job", 0)}, {"failed_job": "job"}):
            options: Any = {**stated, "job_since_row": 0, "job_log_id": "removed"}
            with pytest.raises(ChannelResetError, match="removed and added"):
                await put(job.address, CHANNEL, wider, **options).__aenter__()
        await job.send(1, job="another")
        assert (await describe(job.address, CHANNEL)).schema == SCHEMA


@BOTH
async def test_rows_that_do_not_count_break_the_channel_at_the_end(retention: Retention) -> None:
    """The attempt that counts had no rows, and another one had some; or the exchange was restarted."""
    async with world(retention) as job:
        await job.send(1)
        with pytest.raises(JobTotalError, match=r"0 rows of job 'job' count .* has taken 10"):
            await job.commit(0)
        with pytest.raises(ChannelAbortedError, match="0 rows of job 'job' count"):
            await job.read()


@BOTH
async def test_a_late_attempt_does_not_break_what_its_job_has_ended(retention: Retention) -> None:
    async with world(retention) as job:
        await job.send(1)
        await job.commit(10, closes_channel=False)  # another job continues the stream
        with pytest.raises(TaskRetryError):
            await job.send(2)
        await job.commit(10)
        with pytest.raises(ChannelClosedError if retention is Retention.REPLAY else ChannelSpentError):
            await job.send(3)
        assert await job.read() == 10


@BOTH
@pytest.mark.parametrize("sends", [True, False], ids=["beside it", "before it"])
async def test_a_job_does_not_end_a_channel_with_parts_of_another(retention: Retention, sends: bool) -> None:
    """Its driver was killed, or it still runs; a reader would take a part of its rows for all."""
    async with world(retention) as job:
        async with AsyncExitStack() as stack:
            if sends:
                await (await stack.enter_async_context(job.attempt(1, job="killed"))).send(chunk(0, 10))
                await until(lambda: job.exchange.statistics()[0].rows_in == 10)
            else:
                await job.send(1, job="killed")
            await job.send(2)
            with pytest.raises(ChannelAbortedError, match="job 'killed' has not said"):
                await job.commit(10)
            with pytest.raises(ChannelAbortedError):
                await job.read()
            with suppress(ChannelAbortedError):
                await stack.aclose()
        await job.exchange.reset_channel(CHANNEL)
        await job.send(3, job="next")
        await job.commit(10, job="next")
        assert await job.read() == (10 if retention is Retention.ONCE else 30)


@BOTH
async def test_an_attempt_that_ends_its_channel_breaks_it(retention: Retention) -> None:
    async with world(retention) as job, job.attempt(1) as sender:
        await sender.send(chunk(0, 10))
        with pytest.raises(ChannelAbortedError, match="an attempt at a task was to end it, which only its job may do"):
            await sender.end()


@BOTH
async def test_an_attempt_that_breaks_the_rules_at_once_hears_of_it(retention: Retention) -> None:
    """It has begun, and sends rows before both ends have agreed."""
    async with (
        served("orders/0", schema=BATCH.schema, retention=retention) as (_, address),
        dialling(address, PUT_STREAM) as carrier,
        asyncio.timeout(SOON_SECONDS),
    ):
        for frame in (put_frame(attempt=TaskAttempt("job", 0, 1)), data(), put_frame()):
            await carrier.write([encoded(PUT_STREAM, frame)])
        carrier.half_close()
        with pytest.raises(ProtocolError):
            await read_to_the_end(carrier)


async def read_to_the_end(carrier: Conversation) -> None:
    while await carrier.read() is not None:
        pass


@BOTH
async def test_a_job_that_fails_breaks_a_channel_with_its_rows(retention: Retention) -> None:
    async with world(retention) as job:
        await job.send(1)
        await job.abort()
        with pytest.raises(ChannelAbortedError, match="it has failed"):
            await job.read()


async def test_a_job_whose_abort_is_cut_off_leaves_a_part() -> None:
    """Its driver was killed after it had said that the job has failed, and before the abort."""
    async with (
        served("orders/0", schema=BATCH.schema, retention=Retention.REPLAY) as (_, address),
        asyncio.timeout(SOON_SECONDS),
    ):
        async with put(address, "orders/0", BATCH.schema, attempt=TaskAttempt("killed", 0, 1)) as sender:
            await sender.send(BATCH)
            await sender.end(closes_channel=False)
        async with dialling(address, PUT_STREAM) as carrier:
            await carrier.write([encoded(PUT_STREAM, put_frame(failed_job="killed"))])
            await carrier.read()  # the agreement
        async with put(address, "orders/0", BATCH.schema) as sender:
            with pytest.raises(ChannelAbortedError, match="job 'killed' has not said"):
                await sender.end()


@BOTH
async def test_who_waits_for_a_failed_jobs_first_row_is_told(retention: Retention) -> None:
    """The channel is as it was: the job can run again."""
    async with served(CHANNEL, retention=retention, listen=LISTEN) as (exchange, address):
        job = World(exchange, address)
        async with asyncio.timeout(SOON_SECONDS), asyncio.TaskGroup() as tasks:
            waiting = [tasks.create_task(failure_of(each)) for each in (job.read(), describe(address, CHANNEL))]
            await until(lambda: exchange.admission.streams == 2 and not exchange.admission.handshakes)
            with pytest.raises(ChannelResetError, match="job 'job' has failed before its first row"):
                await job.abort()
        assert [type(task.result()) for task in waiting] == [ChannelResetError] * 2
        await job.send(1, job="next")
        await job.commit(10, job="next")
        assert await job.read() == 10


async def failure_of(doing: Awaitable[object]) -> PermitflowError:
    with pytest.raises(PermitflowError) as caught:
        await doing
    return caught.value


@BOTH
async def test_who_reads_without_rows_of_a_failed_job_is_told(retention: Retention) -> None:
    """The job has stated the schema, and one of its attempts is there."""
    async with served(CHANNEL, retention=retention, listen=LISTEN) as (exchange, address):
        job = World(exchange, address)
        async with asyncio.timeout(SOON_SECONDS), job.attempt(1) as sender, get(address, CHANNEL) as receiver:
            with pytest.raises(ChannelResetError, match="job 'job' has failed before its first row"):
                await job.abort()
            with pytest.raises(ChannelResetError):
                await rows_in(receiver)
            with pytest.raises(TaskRetryError, match="its job has failed"):
                await send_to_the_end(sender)
        await job.send(1, job="next")
        await job.commit(10, job="next")
        assert await job.read() == 10


@BOTH
async def test_a_late_abort_leaves_a_reset_channel_to_the_next_job(retention: Retention) -> None:
    async with world(retention) as job:
        await job.send(1, rows=0)
        await job.exchange.reset_channel(CHANNEL)
        with pytest.raises(ChannelResetError):
            await job.abort()
        await job.send(2, job="next")
        await job.commit(10, job="next")
        assert await job.read() == 10


@BOTH
async def test_a_job_that_fails_without_rows_settles_no_schema(retention: Retention) -> None:
    async with served(CHANNEL, retention=retention, listen=LISTEN) as (_, address):
        with pytest.raises(ChannelResetError):
            await put(address, CHANNEL, pa.schema({"wrong": pa.string()}), failed_job="job").__aenter__()
        async with put(address, CHANNEL, SCHEMA) as sender:
            await sender.end()


@BOTH
async def test_a_failed_job_without_attempts_leaves_others_alone(retention: Retention) -> None:
    """Its abort may be late: it can have been interrupted before its first task."""
    async with world(retention) as job:
        async with job.attempt(2, job="next") as sender:  # it has not sent yet
            with pytest.raises(ChannelResetError):
                await job.abort()
            await sender.send(chunk(0, 10))
            await sender.end(closes_channel=False, until=EndOutcome.ACCEPTED)
        await job.commit(10, job="next", closes_channel=False)
        with pytest.raises(ChannelResetError):  # now nobody else puts
            await job.abort()
        await job.commit(0, job="last")
        assert await job.read() == 10


async def test_a_failed_job_spares_a_producer_that_just_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another job's, while both ends negotiate whether they share memory."""
    has_come, goes_on = asyncio.Event(), asyncio.Event()

    async def held(*offered: Any, **stated: Any) -> Any:
        has_come.set()
        await goes_on.wait()
        return await meet(*offered, **stated)

    async with served(CHANNEL, listen=LISTEN) as (exchange, address), asyncio.timeout(SOON_SECONDS):
        job = World(exchange, address)
        monkeypatch.setattr(remote_end, "meet", held)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(job.send(1, job="next"))
            await has_come.wait()
            with pytest.raises(ChannelResetError):
                await job.abort()
            goes_on.set()
        await job.commit(10, job="next")
        assert await job.read() == 10


async def test_a_failed_job_from_before_a_restart_is_heard(tmp_path: Path) -> None:
    """Rows that are not acknowledged may be its own."""
    for restarts in (False, True):
        with SqliteStore(tmp_path / "store") as store:
            kept = {"retention": Retention.REPLAY, "schema": SCHEMA, "listen": LISTEN, "store": store}
            async with served(CHANNEL, **kept) as (exchange, address):
                job = World(exchange, address)
                if not restarts:
                    await job.send(1)
                    continue
                wider = SCHEMA.append(pa.field("more", pa.string()))
                async with put(address, CHANNEL, wider, failed_job="job") as sender:
                    sender.abort("it has failed")
                with pytest.raises(ChannelAbortedError, match="it has failed"):
                    await job.read()
                assert exchange.replay_channel(CHANNEL).schema == SCHEMA


@BOTH
async def test_a_job_one_of_whose_channels_lacks_is_refused(retention: Retention) -> None:
    """It fails before its first row, and its abort leaves the channel to the next job."""
    lacking = [CHANNEL, "nowhere"]
    async with world(retention) as job:
        with pytest.raises(UnknownChannelError, match="nowhere"):
            await put(job.address, CHANNEL, SCHEMA, attempt=TaskAttempt("job", 0, 1), job_channels=lacking).__aenter__()
        with pytest.raises(ChannelResetError):
            await put(job.address, CHANNEL, SCHEMA, failed_job="job", job_channels=lacking).__aenter__()
        await job.send(2, job="next")
        await job.commit(10, job="next")
        assert await job.read() == 10


async def test_of_a_jobs_channels_a_thousand_are_looked_for() -> None:
    """A peer that names more costs others no more time."""
    named = [CHANNEL] * MOST_CHANNELS
    async with world(Retention.ONCE) as job:
        async with put(job.address, CHANNEL, SCHEMA, job_channels=[*named, "nowhere"]) as sender:
            await sender.end()
        with pytest.raises(UnknownChannelError, match="nowhere"):
            await put(job.address, CHANNEL, SCHEMA, job_channels=[*named[1:], "nowhere"]).__aenter__()


@BOTH
async def test_a_failed_job_that_has_sent_is_heard_without_a_channel(retention: Retention) -> None:
    """The other channel was removed meanwhile."""
    async with world(retention) as job:
        await job.send(1)
        async with put(job.address, CHANNEL, SCHEMA, failed_job="job", job_channels=["removed"]) as sender:
            sender.abort("it has failed")
        with pytest.raises(ChannelAbortedError, match="it has failed"):
            await job.read()


@BOTH
async def test_a_reset_ends_the_jobs_of_a_channel(retention: Retention) -> None:
    async with world(retention) as job:
        await job.send(1)
        await job.exchange.reset_channel(CHANNEL)
        with pytest.raises(ChannelResetError):
            await job.send(2, partition=1)
        with pytest.raises(ChannelResetError):  # its rows may be gone
            await job.commit(10)
        await job.commit(0, job="next")


async def test_staged_rows_have_an_attempt_of_their_own() -> None:
    async with world(Retention.REPLAY) as job:
        stated: dict[str, Any] = {"staging": Staging("q", 0, 0, "x"), "attempt": TaskAttempt("job", 0, 1)}
        with pytest.raises(InvalidParametersError, match="staged rows have an attempt of their own"):
            async with put(job.address, CHANNEL, SCHEMA, **stated):
                pass
