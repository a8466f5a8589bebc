"""Options are checked once, and an error names the option, the value and what would be right."""

import pickle
from collections.abc import Callable

import pytest

from permitflow.carriers.security import Security
from permitflow.errors import InvalidOptionError
from permitflow.spark.options import BatchKey, Delivery, Epochs, ReadOptions, StreamOptions, WriteOptions
from permitflow.spark.places import EARLIEST, LATEST, Places
from permitflow.spark.stream_planning import BatchLimits

Parse = Callable[[dict[str, str]], object]

READ, READ_STREAM = ReadOptions.parse, StreamOptions.parse
WRITE, WRITE_STREAM = WriteOptions.parse, WriteOptions.parse_stream
GOOD = {"address": "localhost:5433", "stream": "orders", "channels": "2"}


def test_a_stream_and_a_number_name_the_channels() -> None:
    options = ReadOptions.parse({**GOOD, "channels": " 3 "})
    assert options.channels == ("orders/0", "orders/1", "orders/2")
    assert options.address == "localhost:5433"
    assert options.wanted is None


def test_channels_can_be_listed_by_name() -> None:
    options = ReadOptions.parse({"address": "tcp://localhost:5433", "channels": "late, early"})
    assert options.channels == ("late", "early")


def test_paths_say_what_an_end_shows_and_trusts() -> None:
    options = ReadOptions.parse({**GOOD, "tls_ca": "system", "token_file": __file__})
    assert options.security == Security(ca="system", token_file=__file__)
    assert ReadOptions.parse(GOOD).security is None


def test_writing_has_options_of_its_own() -> None:
    options = WriteOptions.parse({**GOOD, "chunk_rows": "256", "end": "False", "timeout_seconds": "0.5"})
    assert (options.chunk_rows, options.end, options.exchange.timeout_seconds) == (256, False, 0.5)
    defaults = WriteOptions.parse(GOOD)
    assert (defaults.chunk_rows, defaults.end, defaults.exchange.timeout_seconds) == (0, True, 120.0)


@pytest.mark.parametrize(
    ("parse", "change", "option", "words"),
    [
        (READ, {"address": None}, "address", "is missing"),
        (READ, {"address": "localhost"}, "address", "must be host:port"),
        (READ, {"address": "http://localhost:5433"}, "address", "without http://"),
        (READ, {"address": "grpc://localhost:5433"}, "address", "without grpc://"),
        (READ, {"address": "a:1,,b:2"}, "address", "must be host:port"),
        (READ, {"channels": None}, "channels", "is missing"),
        (READ, {"channels": "0"}, "channels", "whole number from 1"),
        (READ, {"channels": "100000"}, "channels", "to 10000"),
        (READ, {"stream": None}, "channels", "needs option 'stream'"),
        (READ, {"stream": None, "channels": "a,,b"}, "channels", "must list names"),
        (READ, {"stream": None, "channels": "a,b,a"}, "channels", "'a' is twice in"),
        (READ, {"stream": " "}, "stream", "must be a name"),
        (READ, {"timeoutSeconds": "0"}, "timeoutSeconds", "above 0"),
        (READ, {"rowPermits": "1"}, "rowPermits", "from 2"),
        (READ, {"rowPermits": "64", "permitBatch": "64"}, "permitBatch", "below rowPermits = 64"),
        (READ, {"permitBatch": "8"}, "permitBatch", "needs option 'rowPermits'"),
        (READ, {"byteWindow": "4m"}, "byteWindow", "must be a size, as in 4MiB or 4194304 (B, kB, KiB"),
        (READ, {"byteWindow": "0"}, "byteWindow", "a whole number from 1"),
        (READ, {"chunkRows": "256"}, "chunkRows", "is for writing only"),
        (READ, {"adress": "localhost:1"}, "adress", "did you mean 'address'?"),
        (READ, {"hue": "blue"}, "hue", "is unknown (known: address,"),
        (READ, {"maxRowsPerTrigger": "10"}, "maxRowsPerTrigger", "is for streaming queries only"),
        (READ, {"tlsKey": __file__}, "tlsKey", "needs the certificate beside it"),
        (READ, {"tlsCert": __file__}, "tlsCert", "needs the CA to trust beside it"),
        (READ, {"tlsServerName": "exchange"}, "tlsServerName", "without it, there is no TLS"),
        (READ, {"tlsCa": "/no/ca"}, "tlsCa", "must be a file that can be read (No such file or directory): '/no/ca'"),
        (WRITE, {"tokenFile": "/"}, "tokenFile", "must be a file that can be read (Is a directory)"),
        (READ, {"tokenFiles": "a"}, "tokenFiles", "is unknown; did you mean 'tokenFile'?"),
        (READ, {"failOnDataLoss": "no"}, "failOnDataLoss", "must be true or false"),
        (READ_STREAM, {"failOnDataLoss": "false", "epochs": "aligned"}, "failOnDataLoss", "must be true with epochs"),
        (READ_STREAM, {"failOnDataLoss": "false", "traceDir": "/t"}, "failOnDataLoss", "the model skips no rows"),
        (READ, {"consumer": " "}, "consumer", "must be a name"),
        (READ, {"sameHost": "yes"}, "sameHost", "must be one of auto, never, require"),
        (READ, {"resumeSeconds": "soon"}, "resumeSeconds", "must be a number of seconds"),
        (WRITE, {"resumeSeconds": "-1"}, "resumeSeconds", "must be 0 (never), or at least 0.1"),
        (READ, {"compression": "gzip"}, "compression", "must be one of auto, none, lz4, zstd"),
        (READ, {"path": "orders"}, "path", "without a path"),
        (WRITE, {"chunkRows": "0"}, "chunkRows", "whole number from 1"),
        (WRITE, {"end": "yes"}, "end", "must be true or false"),
        (WRITE, {"consumer": "etl"}, "consumer", "is for reading only"),
        (WRITE, {"delivery": "later"}, "delivery", "must be one of direct, staged"),
        (WRITE, {"query": "q", "batch": "1"}, "query", "needs option 'delivery' to be 'staged'"),
        (WRITE, {"delivery": "staged", "query": "q"}, "query", "needs option 'batch' beside it"),
        (WRITE, {"delivery": "staged", "batch": "1"}, "batch", "needs option 'query' beside it"),
        (WRITE, {"delivery": "staged", "query": "q", "batch": "-1"}, "batch", "must be a whole number from 0"),
        (WRITE, {"delivery": "staged", "query": " ", "batch": "1"}, "query", "must be a name"),
        (WRITE, {"key": "a,,b"}, "key", "must list names of columns"),
        (WRITE, {"key": "a,b,a"}, "key", "each of them once"),
        (WRITE, {"stream": "s", "channels": "300", "key": "a"}, "channels", "at most 256 where rows are spread"),
        (WRITE, {"changeColumn": "op"}, "changeColumn", "needs option 'key' beside it"),
        (READ, {"key": "a"}, "key", "is for writing only"),
        (READ_STREAM, {"maxRowsPerTrigger": "0"}, "maxRowsPerTrigger", "must be a whole number from 1"),
        (
            READ_STREAM,
            {"maxRowsPerTrigger": "5", "max_rows_per_batch": "5"},
            "max_rows_per_batch",
            "is the same as 'maxRowsPerTrigger': set one of them",
        ),
        (READ_STREAM, {"maxRowPerTriggers": "5"}, "maxRowPerTriggers", "did you mean 'maxRowsPerTrigger'"),
        (READ, {"maxRowsPerTriger": "5"}, "maxRowsPerTriger", "did you mean 'maxRowsPerTrigger'"),
        (READ_STREAM, {"maxRows": "5"}, "maxRows", "did you mean 'maxRowsPerTrigger'"),
        (READ, {"channels": "a,b"}, "channels", "a whole number from 1 to 10000, beside option 'stream'; to list"),
        (READ_STREAM, {"startingOffsets": '{"0": 7}'}, "startingOffsets", "it reads channel 'orders/0' and 1 more"),
        (READ_STREAM, {"end": "true"}, "end", "is for writing only"),
        (READ_STREAM, {"startingOffsets": "first"}, "startingOffsets", "must be earliest, latest, or row numbers"),
        (READ_STREAM, {"startingOffsets": '{"orders/0": "7"}'}, "startingOffsets", "row numbers as JSON"),
        (READ_STREAM, {"startingOffsets": "[1]"}, "startingOffsets", "row numbers as JSON"),
        (READ_STREAM, {"startingOffsets": 100_000 * "["}, "startingOffsets", "row numbers as JSON"),
        (READ_STREAM, {"startingOffsets": "latest", "epochs": "aligned"}, "startingOffsets", "must be earliest with"),
        (READ_STREAM, {"startingOffsets": "latest", "traceDir": "/t"}, "startingOffsets", "the model skips no rows"),
        (READ_STREAM, {"endingOffsets": "latest"}, "endingOffsets", "is for batch jobs only"),
        (READ, {"endingOffsets": "earliest"}, "endingOffsets", "no row is before the earliest"),
        (READ, {"columns": "a,,b"}, "columns", "must list names of columns"),
        (READ, {"includeMetadata": "yes"}, "includeMetadata", "must be true or false"),
        (READ, {"minPartitions": "4", "maxPartitions": "2"}, "maxPartitions", "at least option 'minPartitions'"),
        (READ_STREAM, {"minPartitions": "4", "traceDir": "/t"}, "minPartitions", "reads a range in one task"),
        (READ_STREAM, {"minRowsPerTrigger": "5", "maxRowsPerTrigger": "4"}, "minRowsPerTrigger", "at most option"),
        (READ_STREAM, {"maxTriggerDelay": "5m"}, "maxTriggerDelay", "needs option 'minRowsPerTrigger'"),
        (READ_STREAM, {"maxTriggerDelay": "5"}, "maxTriggerDelay", "must be a time with its unit"),
        (READ_STREAM, {"maxBytesPerTrigger": "much"}, "maxBytesPerTrigger", "must be a size"),
        (READ_STREAM, {"epochs": "aligned", "maxBytesPerTrigger": "1MiB"}, "maxBytesPerTrigger", "all rows of its"),
        (
            READ_STREAM,
            {"epochs": "aligned", "maxrowspertrigger": "10"},
            "maxRowsPerTrigger",
            "has all rows of its epoch",
        ),
        (READ_STREAM, {"stallSeconds": "10"}, "stallSeconds", "needs option 'epochs' to be 'aligned'"),
        (READ_STREAM, {"epochs": "yes"}, "epochs", "must be one of none, aligned"),
        (WRITE_STREAM, {"delivery": "direct"}, "delivery", "must be 'staged' for a streaming query"),
        (WRITE_STREAM, {"end": "true"}, "end", "is for batch jobs only"),
        (WRITE_STREAM, {"query": "q"}, "query", "is for batch jobs only"),
        (WRITE_STREAM, {"maxRowsPerTrigger": "5"}, "maxRowsPerTrigger", "is for reading only"),
    ],
)
def test_a_wrong_option_is_named(parse: Parse, change: dict[str, str | None], option: str, words: str) -> None:
    options = {name: value for name, value in {**GOOD, **change}.items() if value is not None}
    with pytest.raises(InvalidOptionError) as caught:
        parse(options)
    assert caught.value.option == option
    assert f"option {option!r}" in str(caught.value)
    assert words in str(caught.value)
    given = change.get(option)
    assert given is None or caught.value.value is None or given.strip() in str(caught.value)


def test_a_stream_has_a_consumer_a_limit_for_batches_and_epochs() -> None:
    plain = StreamOptions.parse(GOOD)
    assert (plain.exchange.consumer, plain.limits.max_rows) == ("", None)
    options = StreamOptions.parse({**GOOD, "consumer": "audit", "maxRowsPerTrigger": "500"})
    assert (options.exchange.consumer, options.limits.max_rows) == ("audit", 500)
    assert StreamOptions.parse({**GOOD, "max_rows_per_batch": "7"}).limits.max_rows == 7
    assert pickle.loads(pickle.dumps(options)) == options
    assert plain.epochs is Epochs.NONE
    aligned = StreamOptions.parse({**GOOD, "epochs": "Aligned", "stallSeconds": "5"})
    assert (aligned.epochs, aligned.stall_seconds) == (Epochs.ALIGNED, 5.0)


def test_a_batch_job_is_direct_and_a_stream_is_staged() -> None:
    job, stream = WriteOptions.parse(GOOD), WriteOptions.parse_stream({**GOOD, "checkpointLocation": "/somewhere"})
    assert (job.delivery, job.end) == (Delivery.DIRECT, True)
    assert (stream.delivery, stream.end) == (Delivery.STAGED, False)
    assert WriteOptions.parse({**GOOD, "delivery": "Staged"}).delivery is Delivery.STAGED


def test_a_staged_job_has_the_given_key_or_one_of_its_own() -> None:
    options = WriteOptions.parse({**GOOD, "delivery": "staged"})
    assert options.batch_key() != options.batch_key()
    given = {**GOOD, "delivery": "staged", "query": "nightly", "batch": "7"}
    assert WriteOptions.parse(given).batch_key() == BatchKey(query="nightly", batch=7)


@pytest.mark.parametrize("spelled", ["row_permits", "rowpermits", "rowPermits", "ROW_PERMITS"])
def test_an_option_may_be_spelled_as_before(spelled: str) -> None:
    wanted = ReadOptions.parse({**GOOD, spelled: "64"}).wanted
    assert wanted is not None
    assert wanted.row_permits == 64


@pytest.mark.parametrize("name", ["maxRowsPerTrigger", "maxRowsPerBatch", "max_rows_per_batch", "maxOffsetsPerTrigger"])
def test_the_limit_of_a_batch_has_the_names_of_other_sources(name: str) -> None:
    assert StreamOptions.parse({**GOOD, name: "7"}).limits.max_rows == 7


@pytest.mark.parametrize(
    ("text", "size_bytes"), [("4MiB", 4 << 20), ("4 MiB", 4 << 20), ("1.5kB", 1_500), ("4194304", 4 << 20)]
)
def test_a_size_has_a_unit_or_is_in_bytes(text: str, size_bytes: int) -> None:
    assert ReadOptions.parse({**GOOD, "byteWindow": text}).byte_window == size_bytes


def test_places_are_written_as_for_kafka_or_by_channel() -> None:
    by_stream = StreamOptions.parse({**GOOD, "startingOffsets": '{"orders": {"0": 7, "1": -1}}'}).exchange.starting
    by_channel = ReadOptions.parse({**GOOD, "startingOffsets": '{"orders/0": 7, "orders/1": -1}'}).starting
    assert by_stream == by_channel == Places(EARLIEST, (("orders/0", 7), ("orders/1", LATEST)))
    assert ReadOptions.parse({**GOOD, "endingOffsets": '{"orders/0": 9}'}).ending == Places(LATEST, (("orders/0", 9),))
    with pytest.raises(InvalidOptionError, match="names channel 'orders/2', which this query does not read"):
        ReadOptions.parse({**GOOD, "startingOffsets": '{"orders": {"2": 0}}'})


def test_a_batch_has_limits_in_rows_bytes_and_time() -> None:
    most = {"maxRowsPerTrigger": "9", "maxBytesPerTrigger": "1MiB"}
    limits = StreamOptions.parse({**GOOD, **most, "minOffsetsPerTrigger": "3", "maxTriggerDelay": "2 m"}).limits
    assert limits == BatchLimits(max_rows=9, max_bytes=1 << 20, min_rows=3, max_delay_seconds=120.0)
    assert StreamOptions.parse(GOOD).limits == BatchLimits()
