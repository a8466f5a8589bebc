"""Framing of bytes and text, and of chunks by rows (9.1, point 10: the example as it can be)."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow.errors import FrameTooLongError, InvalidParametersError, TruncatedFrameError, UnsplittableChunkError
from permitflow.stages import Source
from permitflow.stages.core.framing import Frames, Rechunk
from tests.support.stage_probe import Probe


async def framed(pieces: list[str], max_length: int = 20) -> list[str]:
    return [frame async for frame in Source(pieces).frames("!\n", max_length)]


async def test_bytes_are_framed_as_text_is() -> None:
    assert [frame async for frame in Source([b"a\nb", b"c\n\n"]).frames(b"\n", 9)] == [b"a", b"bc", b""]


@given(
    frames=st.lists(st.text("ab", max_size=5) | st.integers(1_015, 3_100).map("a-".__mul__), max_size=8),
    cuts=st.lists(st.integers(1, 7) | st.integers(1_015, 2_100), min_size=1, max_size=12),
    delimiter=st.sampled_from(["|", "||", "|-|"]),
)
def test_however_a_stream_is_cut_its_frames_are_the_same(frames: list[str], cuts: list[int], delimiter: str) -> None:
    stream = "".join(frame + delimiter for frame in frames)
    probe, found, number = Probe(Frames[str](delimiter, 6_200)), list[str](), 0
    while stream:
        found += probe.downstream.request(not probe.upstream.outlet.is_asked)
        if probe.upstream.outlet.is_asked:
            cut = cuts[number % len(cuts)]
            number += 1
            probe.upstream.send(stream[:cut])
            stream = stream[cut:]
            found += probe.downstream.received()
    probe.upstream.complete()
    while not probe.downstream.is_completed:
        found += probe.downstream.request()
    assert found == frames


async def test_a_frame_that_is_too_long_fails_the_stream() -> None:
    for pieces in (["abcd!\n"], ["abcd"], ["ab", "cd"]):
        with pytest.raises(FrameTooLongError, match="longer than max_length = 3"):
            await framed(pieces, max_length=3)
    assert await framed(["abc", "!", "\n"], max_length=3) == ["abc"]


@pytest.mark.parametrize("cut", [1_023, 1_024, 1_025, 4_999, 5_000, 5_001, 5_002])
async def test_a_long_frame_in_pieces_is_whole_wherever_it_is_cut(cut: int) -> None:
    long = "".join(map(str, range(2_000)))[:5_000]
    stream = long + "!\nshort!\n"
    for pieces in ([*stream[:cut], stream[cut:]], [stream[:cut], "", stream[cut:]]):
        assert await framed(pieces, max_length=5_000) == [long, "short"]
        with pytest.raises(FrameTooLongError, match="max_length = 4999"):
            await framed(pieces, max_length=4_999)
    with pytest.raises(TruncatedFrameError) as caught:
        await framed([*long, "!"], max_length=5_000)
    assert caught.value.undelivered == long + "!"


async def test_a_truncated_frame_is_an_error_that_holds_it() -> None:
    elements = Source(["ab|cd"]).frames("|", 9).open()
    assert await anext(elements) == "ab"
    with pytest.raises(TruncatedFrameError, match="after 2 of a frame") as caught:
        await anext(elements)
    assert caught.value.undelivered == "cd"


async def test_a_truncated_frame_may_be_allowed() -> None:
    assert [frame async for frame in Source(["ab|c", "d"]).frames("|", 9, allow_truncation=True)] == ["ab", "cd"]


@pytest.mark.parametrize(("allowed", "frames"), [(False, ["a", "b"]), (True, ["a", "b", "c"])])
def test_whole_frames_leave_before_an_error(allowed: bool, frames: list[str]) -> None:
    probe, error = Probe(Frames[str]("|", 9, allow_truncation=allowed)), OSError("lost")
    assert probe.downstream.request() == []
    probe.upstream.send("a|b|c")
    probe.upstream.fail(error)
    assert [*probe.downstream.received(), *probe.downstream.request(2)] == frames
    assert probe.downstream.failure is error


# By rows.


def batch(first: int, rows: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(first, first + rows), pa.int64())})


async def test_arrow_batches_are_cut_anew_by_rows() -> None:
    batches = [batch(0, 3), batch(3, 0), batch(3, 10), batch(13, 1)]
    cut = [chunk async for chunk in Source(batches).rechunk(4)]
    assert [chunk.num_rows for chunk in cut] == [4, 4, 4, 2]
    assert pa.Table.from_batches(cut).column(0).to_pylist() == [*range(14)]


async def test_a_large_batch_is_cut_without_a_copy() -> None:
    (whole,) = [batch(0, 8)]
    cut = [chunk async for chunk in Source([whole]).rechunk(4)]
    addresses = [chunk.column(0).buffers()[1].address for chunk in cut]
    assert addresses == [whole.column(0).buffers()[1].address] * 2
    assert [chunk.column(0).offset for chunk in cut] == [0, 4]


async def test_a_batch_of_the_right_size_is_passed_on_as_it_is() -> None:
    whole = batch(0, 4)
    assert [chunk is whole async for chunk in Source([whole]).rechunk(4)] == [True]


async def test_tables_and_lists_are_cut_anew_too() -> None:
    tables = [pa.Table.from_batches([batch(0, 3)]), pa.Table.from_batches([batch(3, 3)])]
    assert [table.num_rows async for table in Source(tables).rechunk(4)] == [4, 2]
    assert [chunk async for chunk in Source([[1], [2, 3, 4], [5]]).rechunk(2)] == [[1, 2], [3, 4], [5]]


async def test_chunks_are_joined_as_the_caller_says() -> None:
    stream = Source([[1], [2]]).rechunk(2, join=lambda chunks: [*chunks[1], *chunks[0]])
    assert [chunk async for chunk in stream] == [[2, 1]]


async def test_what_cannot_be_sliced_fails_the_stream() -> None:
    with pytest.raises(UnsplittableChunkError):
        [chunk async for chunk in Source([{1: "a", 2: "b"}.values()]).rechunk(1)]


@given(sizes=st.lists(st.integers(0, 9), max_size=20), rows=st.integers(1, 6))
def test_all_rows_leave_in_order_in_chunks_of_the_size(sizes: list[int], rows: int) -> None:
    probe, found, sent = Probe(Rechunk[list[int]](rows)), list[list[int]](), 0
    for size in sizes:
        while not probe.upstream.outlet.is_asked:
            found += probe.downstream.request()
        probe.upstream.send([*range(sent, sent + size)])
        sent += size
        found += probe.downstream.received()
    probe.upstream.complete()
    found += probe.downstream.received()
    while not probe.downstream.is_completed:
        found += probe.downstream.request()
    assert [row for chunk in found for row in chunk] == [*range(sent)]
    assert all(len(chunk) == rows for chunk in found[:-1])


async def test_rechunk_refuses_a_join_that_loses_rows() -> None:
    arrays: Any = [np.array([1, 2]), np.array([3, 4]), np.array([5])]
    with pytest.raises(InvalidParametersError, match=r"join must make 4 rows of 2 chunks, .*, not '2 rows of ndarray'"):
        await anext(Source(arrays).rechunk(4).open())
    joined = Source(arrays).rechunk(4, join=np.concatenate)
    assert [chunk.tolist() async for chunk in joined] == [[1, 2, 3, 4], [5]]
