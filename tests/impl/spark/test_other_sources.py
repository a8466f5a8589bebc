"""Who tries an option of another source is told what to do instead."""

from collections.abc import Callable

import pytest

from permitflow.errors import InvalidOptionError
from permitflow.spark.options import ReadOptions, StreamOptions, WriteOptions

Parse = Callable[[dict[str, str]], object]

READ, READ_STREAM = ReadOptions.parse, StreamOptions.parse
WRITE, WRITE_STREAM = WriteOptions.parse, WriteOptions.parse_stream
GOOD = {"address": "localhost:5433", "stream": "orders", "channels": "2"}


@pytest.mark.parametrize(
    ("parse", "option", "text", "words"),
    [
        (READ_STREAM, "kafka.bootstrap.servers", "a:9092", "option 'address'"),
        (READ_STREAM, "subscribe", "orders", "option 'stream' with their number as 'channels'"),
        (READ_STREAM, "subscribePattern", "ord.*", "`permitflow channel list`"),
        (READ_STREAM, "assign", '{"orders": [0]}', "their names as 'channels'"),
        (WRITE_STREAM, "topic", "orders", "task p writes into channel p modulo"),
        (READ_STREAM, "kafka.group.id", "etl", "option 'consumer'"),
        (READ_STREAM, "groupIdPrefix", "etl", "option 'consumer'"),
        (READ_STREAM, "startingTimestamp", "0", "column _time"),
        (READ_STREAM, "startingOffsetsByTimestamp", "{}", "column _time"),
        (READ_STREAM, "auto.offset.reset", "latest", "option 'startingOffsets'"),
        (READ_STREAM, "retention.ms", "1", "--expire-seconds"),
        (READ, "kafka.retention.bytes", "1", "--expire-bytes"),
        (READ_STREAM, "enable.auto.commit", "false", "acknowledges what is in its checkpoint"),
        (READ_STREAM, "kafkaConsumer.pollTimeoutMs", "100", "'timeoutSeconds' and 'resumeSeconds'"),
        (READ, "includeHeaders", "true", "write them into columns"),
        (READ, "value.deserializer", "x", "need no serializers"),
        (READ, "kafka.ssl.truststore.location", "/a", "'tlsCa'"),
        (READ, "kafka.sasl.jaas.config", "x", "'tokenFile'"),
        (READ, "kafka.max.poll.records", "5", "leave it out"),
        (READ_STREAM, "maxFilesPerTrigger", "1", "option 'maxRowsPerTrigger'"),
        (READ, "inferSchema", "true", "a channel states its schema itself"),
        (READ_STREAM, "startingVersion", "3", "option 'startingOffsets'"),
        (WRITE, "txnAppId", "etl", "option 'query', with delivery=staged"),
        (WRITE, "txnVersion", "7", "option 'batch', with delivery=staged"),
        (READ, "host", "localhost", "option 'address'"),
        (READ, "token", "secret", "option 'tokenFile'"),
        (READ, "numPartitions", "8", "option 'channels'"),
        (READ, "provider", "permitflow", "CREATE TEMPORARY VIEW t USING permitflow OPTIONS"),
        (READ, "owner", "root", "CREATE TEMPORARY VIEW t USING permitflow OPTIONS"),
        (WRITE, "outputMode", "append", ".outputMode('append') of the writer"),
        (READ_STREAM, "availableNow", "true", "writeStream.trigger(processingTime='1 second') or (availableNow=True)"),
        (WRITE, "keyColumn", "id", "option 'key', the names of columns"),
        (READ, "fromRow", "5", "'startingOffsets' and 'endingOffsets'"),
        (READ, "schema", "id LONG", ".schema('id LONG') of the reader"),
        (WRITE, "retention", "replay", "permitflow serve --retention replay"),
        (WRITE, "acks", "all", "ends when the exchange has accepted its rows"),
        (WRITE, "batch.size", "16384", "for Kafka's client, which is not used here"),
        (READ_STREAM, "max.poll.records", "5", "option 'maxRowsPerTrigger'"),
        (READ_STREAM, "isolation.level", "read_committed", "with delivery=staged"),
        (WRITE, "spark.speculation", "false", "spark.conf.set"),
    ],
)
def test_an_option_of_another_source_is_answered(parse: Parse, option: str, text: str, words: str) -> None:
    for spelled in (option, option.lower()):  # Spark passes lower case on
        with pytest.raises(InvalidOptionError) as caught:
            parse({**GOOD, spelled: text})
        assert caught.value.option == spelled
        assert words in str(caught.value)
        assert caught.value.value is None, "it may be a secret"


def test_a_table_without_options_is_told_how_it_has_some() -> None:
    with pytest.raises(InvalidOptionError, match=r"SELECT \* FROM t WITH \(address="):
        READ({})
    with pytest.raises(InvalidOptionError) as caught:
        READ({"stream": "orders", "channels": "2"})
    assert "WITH" not in str(caught.value)
