"""Chunks that are shown before they are consumed: what an exchange moves into a stream without having taken it."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from permitflow import (
    ChannelParameters,
    ChannelStatistics,
    LocalReceiver,
    LocalSender,
    Oversize,
    RecorderFactory,
    open_channel,
)
from permitflow.errors import ChannelAbortedError, ChannelClosedError
from permitflow.flows.permits.core import PermitReceiver
from permitflow.tracing import MemoryTrace
from tests.support.turns import turns

PARAMETERS = ChannelParameters(row_permits=16, permit_batch=4, max_chunk_cost=8, oversize=Oversize.WHOLE)


def opened(record: RecorderFactory | None = None) -> tuple[LocalSender[str], LocalReceiver[str]]:
    return open_channel(PARAMETERS, record=record)


def sent(sender: LocalSender[str], kinds: str) -> None:
    for kind in kinds:
        if kind == "b":
            sender.send_barrier_nowait("barrier")
        else:
            sender.send_nowait(kind, {"0": 0, "9": 9}.get(kind, int(kind)))


def shown(receiver: LocalReceiver[str], most: int, most_rows: int) -> list[str]:
    """The chunks at hand; each is called by its rows, but for one."""
    chunks, rows, _ = receiver.chunks_at_hand(most, most_rows)
    assert [*map(str, rows)] == ["8" if chunk == "x" else chunk for chunk in chunks]
    return [*chunks]


@pytest.mark.parametrize(
    ("kinds", "first"),
    [
        ("", ""),
        ("12b1", "12"),
        ("1902", "1902"),
        ("b2", ""),
    ],
)
def test_the_oldest_chunks_are_shown_up_to_the_first_other_message(kinds: str, first: str) -> None:
    sender, receiver = opened()
    sent(sender, kinds)
    assert shown(receiver, 9, 99) == list(first)
    assert shown(receiver, 0, 99) == []


def test_many_chunks_of_one_batch_are_shown_alone_and_as_they_came() -> None:
    core: PermitReceiver[str] = PermitReceiver(ChannelParameters(row_permits=99))
    batch = tuple("1" * 16)
    for payloads in (["1"], batch, batch[:15], ["1", "1"]):
        core.deliver_many(payloads, [1] * len(payloads))
    seen = []
    while core.runs:
        chunks, rows, _ = core.chunks_at_hand(99, 99)
        seen.append(len(rows))
        assert (chunks is batch) == (len(rows) == 16)
        core.consume_oldest(len(rows))
    assert seen == [1, 16, 17]


def test_chunks_of_one_batch_are_shown_uncut_behind_others() -> None:
    core: PermitReceiver[str] = PermitReceiver(ChannelParameters(row_permits=99))
    core.deliver_many("12", [1, 2])
    core.deliver_many("345", [3, 4, 5])
    shown_rows = [[*core.chunks_at_hand(most, 99)[1]] for most in (1, 4, 5)]
    assert shown_rows == [[1], [1, 2], [1, 2, 3, 4, 5]]
    core.consume_oldest(3)
    assert [*core.chunks_at_hand(1, 99)[1]] == [4]


def test_the_rest_of_a_batch_is_shown_with_its_share_of_the_bytes() -> None:
    core: PermitReceiver[str] = PermitReceiver(ChannelParameters(row_permits=99))
    core.deliver_many("12", [1, 2], 30)
    core.deliver_many("3", [3], 9)
    core.consume_oldest(1)
    chunks, _, sums = core.chunks_at_hand(99, 99)
    assert ([*chunks], [sums[count] for count in range(3)]) == (["2", "3"], [0, 20, 29])


def test_chunks_that_came_singly_are_shown_as_many_as_are_wanted() -> None:
    core: PermitReceiver[str] = PermitReceiver(ChannelParameters(row_permits=99))
    core.deliver_many([*"123"], [1, 2, 3])
    core.deliver_many([*"456"], [4, 5, 6])
    assert [[*core.chunks_at_hand(most, 99)[1]] for most in (3, 4)] == [[1, 2, 3], [1, 2, 3, 4]]


def test_rows_are_told_of_all_runs_that_can_be_moved_next() -> None:
    core: PermitReceiver[str] = PermitReceiver(ChannelParameters(row_permits=99))
    core.deliver_many(tuple("2" * 16), [2] * 16)
    core.deliver_many("13", [1, 3])
    core.consume_oldest(1)
    assert [*core.rows_at_hand(99, 99)] == [2] * 15 + [1, 3]
    assert len(core.rows_at_hand(99, 10)) == 6
    assert len(core.rows_at_hand(4, 99)) == 4


@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize("is_recorded", [False, True])
def test_passed_by_chunks_are_consumed_as_if_they_had_been_taken(is_recorded: bool, count: int) -> None:
    def books(move: Callable[[LocalReceiver[str]], None]) -> tuple[ChannelStatistics, list[object]]:
        trace = MemoryTrace()
        sender, receiver = opened(trace.recorder if is_recorded else None)
        sent(sender, "3213")
        sent(sender, "1b")
        move(receiver)
        actions: list[object] = [(event.end, event.action, event.arguments, event.counters) for event in trace.events]
        return replace(receiver.statistics(), open_seconds=0.0), actions

    def take(receiver: LocalReceiver[str]) -> None:
        for _ in range(count):
            receiver.take_nowait()
        receiver.consume(count)

    assert books(lambda receiver: receiver.consume_oldest(count)) == books(take)


@pytest.mark.parametrize("is_asleep", [False, True], ids=["in its turn", "asleep"])
async def test_permits_of_what_is_passed_by_let_those_go_that_wait(is_asleep: bool) -> None:
    sender, receiver = opened()
    sent(sender, "88")
    waiting = asyncio.ensure_future(sender.send("x", 8))
    await (turns() if is_asleep else asyncio.sleep(0))
    receiver.consume_oldest(1)
    await turns()
    assert waiting.done()
    assert shown(receiver, 9, 99) == ["8", "x"]


def test_nothing_is_passed_by_where_the_channel_is_over() -> None:
    sender, receiver = opened()
    sent(sender, "2")
    sender.abort("a test")
    with pytest.raises(ChannelAbortedError):
        receiver.consume_oldest(1)
    sender, receiver = opened()
    receiver.close()
    with pytest.raises(ChannelClosedError):
        receiver.consume_oldest(1)


async def test_nothing_is_shown_that_belongs_to_a_task_that_was_woken() -> None:
    sender, receiver = opened()
    receiving = asyncio.ensure_future(receiver.receive())
    await turns()
    sent(sender, "2")
    assert shown(receiver, 9, 99) == []
    sent(sender, "3")
    assert shown(receiver, 9, 99) == ["2"], "one of the two is nobody's, and the oldest comes first"
    assert (await receiving).payload == "2"
