"""The channel inside a process: what is sent arrives, and never more of it is held than there are permits."""

import asyncio

import pytest

from permitflow import (
    ChannelParameters,
    InvalidParametersError,
    Kind,
    LocalProtocolError,
    LocalReceiver,
    LocalSender,
    Message,
    WouldBlock,
    open_channel,
)
from tests.support.simulated_time import simulated

Ends = tuple[LocalSender[object], LocalReceiver[object]]


def channel(row_permits: int = 8, permit_batch: int = 2) -> Ends:
    return open_channel(ChannelParameters(row_permits=row_permits, permit_batch=permit_batch))


def test_messages_arrive_in_order_with_their_rows() -> None:
    sender, receiver = channel(16)
    sender.send_nowait(b"abc")
    sender.send_nowait("", rows=0)
    sender.send_barrier_nowait("b")
    sender.send_watermark(12)
    sender.send_nowait("x", rows=7)

    assert [receiver.receive_nowait() for _ in range(5)] == [
        Message(Kind.CHUNK, b"abc", 3),
        Message(Kind.CHUNK, "", 0),
        Message(Kind.BARRIER, "b"),
        Message(Kind.WATERMARK, 12),
        Message(Kind.CHUNK, "x", 7),
    ]


@pytest.mark.parametrize("rows", [-1, 1.5, "3", True], ids=repr)
async def test_a_wrong_number_of_rows_is_refused_and_nothing_is_sent(rows: object) -> None:
    sender, receiver = channel()
    with pytest.raises(InvalidParametersError, match="rows must be a whole number of at least 0"):
        sender.send_nowait("x", rows)  # type: ignore[arg-type]  # that is the point
    with pytest.raises(InvalidParametersError, match="rows must be a whole number of at least 0"):
        await sender.send("x", rows)  # type: ignore[arg-type]  # that is the point
    with pytest.raises(WouldBlock, match="no message is here"):
        receiver.receive_nowait()
    assert sender.statistics().gauges["row_permits_here"] == 8


def test_calls_that_do_not_wait_need_no_loop() -> None:
    sender, receiver = channel()
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()
    sender.send_nowait(b"x")
    assert receiver.receive_nowait().payload == b"x"
    sender.end_nowait()
    assert sender.statistics().open_seconds >= 0


def test_parameters_of_another_kind_are_refused() -> None:
    with pytest.raises(
        InvalidParametersError, match="must be the parameters of a flow, such as ChannelParameters, not 64"
    ):
        open_channel(64)  # type: ignore[arg-type]  # that is the point


async def test_two_ways_to_receive_are_not_mixed_while_one_is_held() -> None:
    sender, receiver = channel()
    sender.send_nowait("a", 1)
    receiver.take_nowait()
    with pytest.raises(LocalProtocolError, match="1 messages were taken and not consumed: consume them first"):
        receiver.receive_nowait()
    for receive in (receiver.receive(), receiver.receive_many(2), receiver.__anext__()):
        with pytest.raises(LocalProtocolError):
            await receive  # at once, though nothing is here
    receiver.consume()
    for name in ("b", "c"):
        sender.send_nowait(name, 1)
    assert receiver.receive_nowait().payload == "b"
    assert (await receiver.take()).payload == "c"
    receiver.consume()


@simulated
async def test_a_window_that_adapts_opens_for_a_chunk_that_waits_only() -> None:
    def sent(sender: LocalSender[object]) -> int:
        for count in range(100):
            try:
                sender.send_nowait("row", rows=1)
            except WouldBlock:
                return count
        return 100

    sender, receiver = channel(64, 8)
    receiver.aim_at(1.0)
    for _ in range(99):  # 26 rows a second, which return in batches of 3
        sent(sender)
        await asyncio.sleep(1 / 26)
        receiver.receive_nowait()
    while receiver.unconsumed:  # all at once: it is not idle, though the last rows are no batch
        receiver.receive_nowait()
    again = sent(sender)
    async with asyncio.TaskGroup() as group:
        group.create_task(sender.send("rows", rows=50))
        while (await receiver.receive()).rows != 50:
            pass
    assert again == 24
