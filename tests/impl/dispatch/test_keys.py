"""Rows go to the channel of their key, in every type of key, and updates stay whole where they can."""

import json
import re
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from zlib import crc32

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow.dispatch import Splitter, spread, vnode_of
from permitflow.errors import InvalidParametersError, SchemaMismatchError

COLUMNS = {
    "int64": pa.array([1, None, -5, 2**40]),
    "int8": pa.array([1, None, -5, 3], pa.int8()),
    "uint64": pa.array([1, None, 0, 2**64 - 1], pa.uint64()),
    "bool": pa.array([True, None, False, True]),
    "null": pa.nulls(4),
    "text": pa.array(["a", None, "", "é"]),
    "large_text": pa.array(["a", None, "", "é"], pa.large_string()),
    "dictionary": pa.array(["a", None, "", "a"]).dictionary_encode(),
    "bytes": pa.array([b"a", None, b"", b"\0"]),
    "fixed_bytes": pa.array([b"a", None, b"b", b"\0"], pa.binary(1)),
    "date": pa.array([date(1969, 1, 1), None, date(2020, 2, 29), date(1970, 1, 1)]),
    "date64": pa.array([date(1969, 1, 1), None, date(2020, 2, 29), date(1970, 1, 1)], pa.date64()),
    "local_time": pa.array([datetime(1969, 1, 1, 1, 1, 1, 7), None, datetime(2020, 1, 1), datetime(1970, 1, 1)]),
    "seconds": pa.array([datetime(1969, 1, 1), None, datetime(2020, 1, 1), datetime(1970, 1, 1)], pa.timestamp("s")),
    "zoned": pa.array([datetime(1969, 1, 1, 9, tzinfo=UTC), None, None, None], pa.timestamp("us", "Asia/Tokyo")),
    "time": pa.array([time(1, 2, 3, 4), None, time(0), time(23)]),
    "time32": pa.array([time(1, 2, 3), None, time(0), time(23)], pa.time32("s")),
    "decimal": pa.array([Decimal("1.10"), None, Decimal("-3.00"), Decimal("0.00")], pa.decimal128(10, 2)),
    "decimal64": pa.array([Decimal("1.10"), None, Decimal("-3.00"), Decimal("0.00")], pa.decimal64(10, 2)),
}  # fmt: skip
BATCH = pa.record_batch(COLUMNS)
NUMBERS = pa.schema([("n", pa.int64())])


@pytest.mark.parametrize("key", [*([name] for name in COLUMNS), ["int64", "text", "decimal"]])
@pytest.mark.parametrize("vnodes", [256, 7])
def test_a_batch_and_single_keys_agree(key: list[str], vnodes: int) -> None:
    splitter = Splitter(BATCH.schema, key, vnodes=vnodes)
    wanted = [vnode_of([BATCH.column(name)[row].as_py() for name in key], vnodes) for row in range(4)]
    assert splitter.vnodes_of(BATCH).to_pylist() == wanted
    assert splitter.vnodes_of(BATCH.slice(1, 2)).to_pylist() == wanted[1:3]


def test_the_keys_on_the_page_have_these_bytes_and_nodes() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs/protocols/hash-dispatch.md").read_text()
    rows = re.findall(r"^\| `(\[.*\])` \| `([0-9a-f ]+)` \| (\d+) \|$", page, re.MULTILINE)
    assert [vnode_of(json.loads(key)) for key, _, _ in rows] == [int(node) for _, _, node in rows]
    assert [crc32(bytes.fromhex(key)) % 256 for _, key, _ in rows] == [int(node) for _, _, node in rows]
    assert len(rows) == 3


def test_a_key_of_64_bits_has_the_virtual_node_of_risingwave() -> None:
    # From its e2e_test/batch/functions/vnode.slt.part: a key of two numbers of 32 bits has the bytes of one of 64.
    key = 114 + (514 << 32)
    for vnodes, node in ((256, 97), (4_096, 1_377), (32_768, 21_857)):
        assert vnode_of([key], vnodes) == node
        assert Splitter(NUMBERS, ["n"], vnodes=vnodes).vnodes_of(pa.record_batch([[key]], NUMBERS)).to_pylist() == [
            node
        ]
    assert vnode_of([114, 514]) != 97, "we give each column 8 bytes"


def test_a_time_finer_than_a_microsecond_is_rounded_down() -> None:
    times = pa.array([-1, -1000, 1999], pa.timestamp("ns"))
    numbers = pa.array([-1, -1, 1])
    found = [Splitter(pa.schema({"k": column.type}), ["k"]).vnodes_of(pa.record_batch({"k": column})).to_pylist()
             for column in (times, numbers)]  # fmt: skip
    assert found[0] == found[1]


@given(st.lists(st.integers(-3, 40), max_size=30), st.integers(1, 5))
def test_each_row_goes_once_to_the_channel_of_its_key_in_order(keys: list[int], channels: int) -> None:
    owners = spread(channels)
    batch = pa.record_batch({"k": pa.array(keys, pa.int64()), "row": pa.array(range(len(keys)), pa.int64())})
    parts = Splitter(batch.schema, ["k"]).split(batch, owners)
    assert len(parts) == channels
    for channel, part in enumerate(parts):
        wanted = [(key, row) for row, key in enumerate(keys) if owners[vnode_of([key])] == channel]
        assert wanted == ([] if part is None else [(each["k"], each["row"]) for each in part.to_pylist()])


def of_channel(channel: int, nth: int = 0) -> int:
    """A key of one of two channels."""
    owners = spread(2)
    return [key for key in range(100) if owners[vnode_of([key])] == channel][nth]


LEFT, ALSO_LEFT, RIGHT = of_channel(0), of_channel(0, 1), of_channel(1)


def split_changes(*rows: tuple[str, int]) -> list[list[tuple[str, int]]]:
    changes, keys = zip(*rows, strict=True)
    batch = pa.record_batch({"change": pa.array(changes), "k": pa.array(keys)})
    parts = Splitter(batch.schema, ["k"], changes="change").split(batch, spread(2))
    return [[] if part is None else [(row["change"], row["k"]) for row in part.to_pylist()] for part in parts]


def test_an_update_for_one_channel_stays_an_update() -> None:
    update = [("-U", LEFT), ("+U", ALSO_LEFT)]
    assert split_changes(("+I", LEFT), *update, ("-D", RIGHT)) == [[("+I", LEFT), *update], [("-D", RIGHT)]]


def test_an_update_over_two_channels_is_deleted_and_inserted() -> None:
    assert split_changes(("-U", LEFT), ("+U", RIGHT)) == [[("-D", LEFT)], [("+I", RIGHT)]]


def test_the_words_of_deltas_change_feed_are_known() -> None:
    found = split_changes(("update_preimage", RIGHT), ("update_postimage", LEFT))
    assert found == [[("insert", LEFT)], [("delete", RIGHT)]]


CHANGES = st.one_of(
    st.tuples(st.sampled_from(["+I", "-D"]), st.integers(0, 9)).map(lambda row: [row]),
    st.tuples(st.integers(0, 9), st.integers(0, 9)).map(lambda keys: [("-U", keys[0]), ("+U", keys[1])]),
)


@given(st.lists(CHANGES, min_size=1, max_size=12))
def test_updates_stay_beside_each_other_or_come_apart_whole(changes: list[list[tuple[str, int]]]) -> None:
    expected: list[list[tuple[str, int]]] = [[], []]
    for change in changes:
        owners = [spread(2)[vnode_of([key])] for _, key in change]
        alone = {"-U": "-D", "+U": "+I"} if len({*owners}) > 1 else {}
        for owner, (word, key) in zip(owners, change, strict=True):
            expected[owner].append((alone.get(word, word), key))
    assert split_changes(*(row for change in changes for row in change)) == expected


def test_half_an_update_without_the_other_in_its_chunk_goes_alone() -> None:
    assert split_changes(("+U", LEFT), ("-U", LEFT)) == [[("+I", LEFT), ("-D", LEFT)], []]


@pytest.mark.parametrize(
    ("column", "key", "options", "told"),
    [
        (pa.array([1.5]), ["k"], {}, "k: double"),
        (pa.array([[1]]), ["k"], {}, "k: list"),
        (pa.array(["a"], pa.string_view()), ["k"], {}, "cast views"),
        (pa.array([1]), ["K"], {}, "must be a column of the rows .k., not 'K'"),
        (pa.array([1]), [], {}, "at least one"),
        (pa.array([1]), ["k", "k"], {}, "each of them once"),
        (pa.array([1]), ["k"], {"changes": "k"}, "must be a column of text"),
    ],
)
def test_what_is_no_key_is_refused(column: pa.Array, key: list[str], options: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidParametersError, match=told):
        Splitter(pa.schema({"k": column.type}), key, **options)


def test_a_batch_of_another_schema_is_refused() -> None:
    splitter = Splitter(pa.schema({"k": pa.int64()}), ["k"])
    with pytest.raises(SchemaMismatchError, match=r"k: int64.*K: int64"):
        splitter.split(pa.record_batch({"K": pa.array([1])}), spread(2))


def test_an_unknown_change_is_refused_with_its_word() -> None:
    with pytest.raises(InvalidParametersError, match="not 'U-'"):
        split_changes(("U-", LEFT))


def test_a_float_is_no_key() -> None:
    with pytest.raises(InvalidParametersError, match=r"not 1\.5"):
        vnode_of([1.5])  # type: ignore[list-item]
