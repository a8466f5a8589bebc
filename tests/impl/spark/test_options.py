"""Options are checked once, and an error names the option, the value and what would be right."""

import pickle

import pytest

from permitflow.errors import InvalidOptionError
from permitflow.spark.options import BatchKey, Delivery, ReadOptions, StreamOptions, WriteOptions

GOOD = {"address": "localhost:5433", "stream": "orders", "channels": "2"}


def test_a_stream_and_a_number_name_the_channels() -> None:
    options = ReadOptions.parse({**GOOD, "channels": " 3 "})
    assert options.channels == ("orders/0", "orders/1", "orders/2")
    assert options.address == "localhost:5433"
    assert options.wanted is None


def test_channels_can_be_listed_by_name() -> None:
    options = ReadOptions.parse({"address": "tcp://localhost:5433", "channels": "late, early"})
    assert options.channels == ("late", "early")


def test_writing_has_options_of_its_own() -> None:
    options = WriteOptions.parse({**GOOD, "chunk_rows": "256", "end": "False", "timeout_seconds": "0.5"})
    assert (options.chunk_rows, options.ends_stream, options.exchange.timeout_seconds) == (256, False, 0.5)
    defaults = WriteOptions.parse(GOOD)
    assert (defaults.chunk_rows, defaults.ends_stream, defaults.exchange.timeout_seconds) == (0, True, 120.0)


@pytest.mark.parametrize(
    ("change", "option", "words"),
    [
        ({"address": None}, "address", "is missing"),
        ({"address": "localhost"}, "address", "must be host:port"),
        ({"address": "a:1,b:2"}, "address", "must be a single host:port"),
        ({"channels": None}, "channels", "is missing"),
        ({"channels": "0"}, "channels", "whole number from 1"),
        ({"channels": "100000"}, "channels", "to 10000"),
        ({"stream": None}, "channels", "needs option 'stream'"),
        ({"stream": None, "channels": "a,,b"}, "channels", "must list names"),
        ({"stream": None, "channels": "a,b,a"}, "channels", "'a' is twice in"),
        ({"stream": " "}, "stream", "must be a name"),
        ({"timeout_seconds": "0"}, "timeout_seconds", "above 0"),
        ({"row_permits": "1"}, "row_permits", "from 2"),
        ({"row_permits": "64", "permit_batch": "64"}, "permit_batch", "below row_permits = 64"),
        ({"permit_batch": "8"}, "permit_batch", "needs option 'row_permits'"),
        ({"chunk_rows": "256"}, "chunk_rows", "is for writing only"),
        ({"adress": "localhost:1"}, "adress", "did you mean 'address'?"),
        ({"colour": "blue"}, "colour", "is unknown (known: address,"),
        ({"maxRowsPerBatch": "10"}, "maxRowsPerBatch", "is for streams only"),
        ({"consumer": " "}, "consumer", "must be a name"),
        ({"same_host": "yes"}, "same_host", "must be one of auto, never, require"),
        ({"compression": "gzip"}, "compression", "must be one of auto, none, lz4, zstd"),
        ({"path": "orders"}, "path", "without a path"),
    ],
)
def test_a_wrong_option_is_named(change: dict[str, str | None], option: str, words: str) -> None:
    options = {name: value for name, value in {**GOOD, **change}.items() if value is not None}
    with pytest.raises(InvalidOptionError) as caught:
        ReadOptions.parse(options)
    assert caught.value.option == option
    assert f"option {option!r}" in str(caught.value)
    assert words in str(caught.value)
    given = change.get(option)
    assert given is None or given.strip() in str(caught.value)


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("chunk_rows", "0", "whole number from 1"),
        ("end", "yes", "must be true or false"),
        ("consumer", "etl", "is for reading only"),
    ],
)
def test_a_wrong_option_of_a_writer_is_named(option: str, value: str, words: str) -> None:
    with pytest.raises(InvalidOptionError, match=words) as caught:
        WriteOptions.parse({**GOOD, option: value})
    assert (caught.value.option, caught.value.value) == (option, value)


def test_a_stream_has_a_consumer_and_a_limit_for_batches() -> None:
    plain = StreamOptions.parse(GOOD)
    assert (plain.exchange.consumer, plain.max_rows) == ("", None)
    options = StreamOptions.parse({**GOOD, "consumer": "audit", "maxRowsPerBatch": "500"})
    assert (options.exchange.consumer, options.max_rows) == ("audit", 500)
    assert StreamOptions.parse({**GOOD, "max_rows_per_batch": "7"}).max_rows == 7
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"maxRowsPerBatch": "0"}, "option 'maxRowsPerBatch' must be a whole number from 1"),
        ({"maxRowsPerBatch": "5", "max_rows_per_batch": "5"}, "is the same as 'maxRowsPerBatch'"),
        ({"maxRowsPerTrigger": "5"}, "did you mean 'maxrowsperbatch'"),
        ({"end": "true"}, "is for writing only"),
    ],
)
def test_a_wrong_option_of_a_stream_is_named(change: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidOptionError, match=words):
        StreamOptions.parse({**GOOD, **change})


def test_a_batch_job_is_direct_and_a_stream_is_staged_and_ends_nothing() -> None:
    job, stream = WriteOptions.parse(GOOD), WriteOptions.parse_stream({**GOOD, "checkpointLocation": "/somewhere"})
    assert (job.delivery, job.ends_stream) == (Delivery.DIRECT, True)
    assert (stream.delivery, stream.ends_stream) == (Delivery.STAGED, False)
    assert WriteOptions.parse({**GOOD, "delivery": "Staged"}).delivery is Delivery.STAGED


def test_a_staged_job_has_a_key_that_no_other_has_or_the_one_it_was_given() -> None:
    options = WriteOptions.parse({**GOOD, "delivery": "staged"})
    assert options.batch_key() != options.batch_key()
    given = {**GOOD, "delivery": "staged", "query": "nightly", "batch": "7"}
    assert WriteOptions.parse(given).batch_key() == BatchKey(query="nightly", batch=7)


@pytest.mark.parametrize(
    ("change", "option", "words"),
    [
        ({"delivery": "later"}, "delivery", "must be one of direct, staged"),
        ({"query": "q", "batch": "1"}, "query", "needs option 'delivery' to be 'staged'"),
        ({"delivery": "staged", "query": "q"}, "query", "needs option 'batch' beside it"),
        ({"delivery": "staged", "batch": "1"}, "batch", "needs option 'query' beside it"),
        ({"delivery": "staged", "query": "q", "batch": "-1"}, "batch", "must be a whole number from 0"),
        ({"delivery": "staged", "query": " ", "batch": "1"}, "query", "must be a name"),
        ({"consumer": "etl"}, "consumer", "is for reading only"),
    ],
)
def test_options_of_staged_jobs_are_checked(change: dict[str, str], option: str, words: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        WriteOptions.parse({**GOOD, **change})
    assert (caught.value.option, words in str(caught.value)) == (option, True), caught.value


@pytest.mark.parametrize(
    ("change", "option", "words"),
    [
        ({"delivery": "direct"}, "delivery", "must be 'staged' for a streaming query"),
        ({"end": "true"}, "end", "is for batch jobs only"),
        ({"query": "q"}, "query", "is for batch jobs only"),
        ({"maxRowsPerBatch": "5"}, "maxRowsPerBatch", "is for reading only"),
    ],
)
def test_options_of_writing_streams_are_checked(change: dict[str, str], option: str, words: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        WriteOptions.parse_stream({**GOOD, **change})
    assert (caught.value.option, words in str(caught.value)) == (option, True), caught.value
