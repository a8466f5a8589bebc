"""The byte window inside a process: whatever the flow, its bound holds, and nothing is stuck."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from permitflow import (
    ChannelParameters,
    Demand,
    GateParameters,
    LocalReceiver,
    LocalSender,
    Parameters,
    SquelchParameters,
    open_channel,
)
from permitflow.channels.gate import GateChunk, InputGate
from permitflow.errors import ByteOverrunError, ByteOverspendError, InvalidParametersError, WouldBlock
from permitflow.flows.byte_window import ByteWindow, OutstandingBytes, RunSums, UnreturnedBytes
from tests.support.simulated_time import in_simulated_time

FLOWS: dict[str, Parameters] = {
    "permits": ChannelParameters(row_permits=8, permit_batch=3, max_chunk_cost=4),
    "permits, pulled": ChannelParameters(row_permits=8, permit_batch=3, max_chunk_cost=4, initial_permits=0),
    "demand": Demand(size=3, batch=2),
    "squelch": SquelchParameters(high=2, rate=64),
    "gate": GateParameters(exclusive=4, floating=8, max_chunk_cost=4),
}


class Sized(NamedTuple):
    """A chunk."""

    number: int
    rows: int
    size_bytes: int


@st.composite
def sized_chunks(draw: st.DrawFn) -> list[Sized]:
    sizes = draw(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 40)), min_size=1, max_size=30))
    return [Sized(number, *each) for number, each in enumerate(sizes)]


async def _send(sender: LocalSender[Sized], chunks: list[Sized]) -> None:
    for chunk in chunks:
        if chunk.number % 5 == 3:
            await sender.send_barrier()
        try:
            sender.send_nowait(chunk, chunk.rows)
        except WouldBlock:
            await sender.send(chunk, chunk.rows)
    await sender.end()


async def _moved(parameters: Parameters, chunks: list[Sized], window_bytes: int, most_taken: int) -> None:
    sender: LocalSender[Sized]
    receiver: LocalReceiver[Sized]
    sender, receiver = open_channel(parameters, byte_window=window_bytes, size_of=lambda chunk: chunk.size_bytes)
    most = ByteWindow(window_bytes).most_bytes(max(chunk.size_bytes for chunk in chunks))
    sending, found = asyncio.create_task(_send(sender, chunks)), list[Sized]()
    while len(found) < len(chunks):
        messages = await receiver.take_many(most_taken)
        await asyncio.sleep(0)
        numbers = sender.statistics()
        here = sum(message.payload.size_bytes for message in messages if message.rows or message.payload)
        assert here <= numbers.inbox_bytes <= numbers.bytes_held <= numbers.peak_bytes_held <= most
        receiver.consume(len(messages))
        found += [message.payload for message in messages if message.payload is not None]
    await sending
    assert found == chunks


@pytest.mark.parametrize("flow", FLOWS)
@given(chunks=sized_chunks(), window_bytes=st.integers(1, 60), most_taken=st.integers(1, 3))
@example(chunks=[Sized(0, 1, 40), Sized(1, 1, 40), Sized(2, 1, 1)], window_bytes=1, most_taken=1)
def test_all_chunks_come_and_the_bound_holds(
    flow: str, chunks: list[Sized], window_bytes: int, most_taken: int
) -> None:
    """The clock of simulated time tells if every task waits."""
    in_simulated_time(_moved(FLOWS[flow], chunks, window_bytes, most_taken))


async def _aligned(chunks: list[Sized], window_bytes: int) -> None:
    parameters = GateParameters(inputs=2, exclusive=4, floating=8, max_chunk_cost=4)
    async with InputGate[Sized](parameters) as gate, asyncio.TaskGroup() as group:
        for name in ("left", "right"):
            sender: LocalSender[Sized] = gate.open_channel(
                name, byte_window=window_bytes, size_of=lambda chunk: chunk.size_bytes
            )
            group.create_task(_send(sender, chunks))
        found: dict[str, list[Sized]] = {"left": [], "right": []}
        async for item in gate:
            if isinstance(item, GateChunk):
                found[item.source].append(item.payload)
        assert found == {"left": chunks, "right": chunks}


@given(sized_chunks(), st.integers(1, 60))
def test_a_gate_aligns_inputs_with_byte_windows(chunks: list[Sized], window_bytes: int) -> None:
    in_simulated_time(_aligned(chunks, window_bytes))


def test_a_chunk_leaves_while_it_fits_or_less_than_a_batch_is_out() -> None:
    ledger = OutstandingBytes(ByteWindow(12, 3))
    ledger.send(2)
    assert ledger.admits(100)
    assert ledger.fitting([0, 0, 100, 101], 3) == 2, "the exception is for one chunk"
    ledger.send(1)
    assert (ledger.admits(9), ledger.admits(10)) == (True, False)
    assert ledger.fitting([0, 4, 8, 12], 3) == 2
    assert ledger.fitting([0, 0, 0], 2) == 2


def test_the_rest_of_a_larger_chunk_is_returned_in_batches() -> None:
    ledger = UnreturnedBytes(ByteWindow(12, 3))
    ledger.require_room(100)
    ledger.accept(100)
    with pytest.raises(ByteOverspendError, match="sent 1 bytes while 100 of the byte window of 12 were out"):
        ledger.require_room(1)
    assert not ledger.is_due
    ledger.consume(100)
    assert (ledger.is_due, ledger.take(), ledger.held_bytes) == (True, 100, 0)


@pytest.mark.parametrize("returned", [0, -1, 6])
def test_a_return_of_bytes_that_are_not_out_is_refused(returned: int) -> None:
    """Neither those that are not written yet."""
    ledger = OutstandingBytes(ByteWindow(12), is_written_later=True)
    ledger.send(9)
    ledger.write(5)
    with pytest.raises(ByteOverrunError, match=f"returned {returned} bytes but holds only 5"):
        ledger.on_return(returned)
    ledger.shorten(4)
    ledger.on_return(5)
    assert (ledger.outstanding_bytes, ledger.unwritten_bytes, ledger.peak_bytes) == (0, 0, 9)


@pytest.mark.parametrize("window", [0, -1, 2.5, True, "1"])
def test_a_window_that_cannot_work_is_refused(window: object) -> None:
    with pytest.raises(InvalidParametersError, match=r"byte_window.*at least 1"):
        open_channel(byte_window=window)  # type: ignore[arg-type]
    with pytest.raises(InvalidParametersError, match="batch_bytes"):
        ByteWindow(4, 5)


@given(st.lists(st.integers(0, 9), min_size=1), st.integers(0, 1_000))
def test_shares_of_a_run_add_up(rows: list[int], size_bytes: int) -> None:
    sums = RunSums([*rows, 1], [(len(rows), size_bytes), (1, 5)])
    each = [sums[count] for count in range(len(rows) + 2)]
    assert each == sorted(each)
    assert (each[0], each[-2:]) == (0, [size_bytes, size_bytes + 5])


def test_bytes_of_usual_chunks_are_known() -> None:
    sender: LocalSender[object]
    sender, _ = open_channel()
    batch = pa.record_batch({"text": ["x" * 100_000] * 4})
    for chunk, rows in ((batch, None), (batch.slice(1, 1), None), (b"ten bytes!", 1), ([object()], None)):
        sender.send_nowait(chunk, rows)
    assert 500_010 <= sender.statistics().bytes_held < 501_000


def test_a_sender_that_waits_says_that_the_window_is_full() -> None:
    sender: LocalSender[bytes]
    sender, _ = open_channel(byte_window=8)
    sender.send_nowait(b"sevenby", 1)
    with pytest.raises(WouldBlock, match="the chunk has 2 bytes; 7 of the byte window of 8 are out"):
        sender.send_nowait(b"22", 1)


def test_the_bytes_of_a_run_return_with_its_last_chunk() -> None:
    """Its chunks may be slices of one piece of memory."""
    sender: LocalSender[str]
    sender, receiver = open_channel(byte_window=8)
    assert sender.send_at_once(["a", "b"], [1, 1], (0, 4, 8)) == 2
    receiver.receive_nowait()
    assert receiver.statistics().inbox_bytes == 8
    receiver.receive_nowait()
    assert (receiver.statistics().inbox_bytes, sender.statistics().bytes_held) == (0, 0)


async def test_rows_of_one_size_are_counted_without_asking_their_chunks() -> None:
    channel: tuple[LocalSender[list[int]], LocalReceiver[list[int]]] = open_channel(byte_window=1_000, row_bytes=2.5)
    sender, receiver = channel
    sender.send_nowait([1, 2, 3])
    await sender.send_many(deque([[4], [5, 6]]))
    assert sender.statistics().bytes_held == 8 + 8  # rounded up, chunk by chunk or run by run
    assert [message.payload for message in await receiver.receive_many()] == [[1, 2, 3], [4], [5, 6]]


async def test_chunks_of_several_types_are_counted_each_by_its_own() -> None:
    sender, _ = open_channel()
    await sender.send_many(deque([b"12345", [0], b"678"]))
    assert sender.statistics().bytes_held == 8


@pytest.mark.parametrize(("row_bytes", "size_of"), [(-1.0, None), (float("nan"), None), (8.0, len)])
def test_bytes_of_a_row_are_refused(row_bytes: float, size_of: Callable[[bytes], int] | None) -> None:
    with pytest.raises(InvalidParametersError, match="row_bytes"):
        open_channel(row_bytes=row_bytes, size_of=size_of)
