"""Who tries an option of another source is told what to do instead."""

import re
from collections.abc import Callable

import pytest

from permitflow.errors import InvalidOptionError
from permitflow.spark.options import CHANNEL_OPTIONS, ReadOptions, StreamOptions, WriteOptions
from permitflow.spark.other_sources import BY_PREFIX, INSTEAD

Parse = Callable[[dict[str, str]], object]

READ, READ_STREAM = ReadOptions.parse, StreamOptions.parse
WRITE, WRITE_STREAM = WriteOptions.parse, WriteOptions.parse_stream
GOOD = {"address": "localhost:5433", "stream": "orders", "channels": "2"}


@pytest.mark.parametrize(
    ("parse", "option", "words"),
    [
        (READ_STREAM, "subscribePattern", "`permitflow channel list`"),
        (READ, "kafka.ssl.truststore.location", "'tlsCa'"),
        (READ, "kafka.max.poll.records", "leave it out"),
        (READ_STREAM, "max.poll.records", "option 'maxRowsPerTrigger'"),
        (WRITE, "batch.size", "for Kafka's client, which is not used here"),
        (WRITE_STREAM, "spark.speculation", "spark.conf.set"),
    ],
)
def test_an_option_of_another_source_is_answered(parse: Parse, option: str, words: str) -> None:
    for spelled in (option, option.lower()):  # Spark passes lower case on
        with pytest.raises(InvalidOptionError) as caught:
            parse({**GOOD, spelled: "a secret"})
        assert caught.value.option == spelled
        assert words in str(caught.value)
        assert caught.value.value is None, "it may be a secret"


def test_an_answer_names_options_that_there_are() -> None:
    answers = " ".join({*INSTEAD.values(), *BY_PREFIX.values()})
    assert {*re.findall(r"options? '(\w+)'", answers)} < CHANNEL_OPTIONS.keys()


def test_no_option_that_there_is_has_such_an_answer() -> None:
    assert not INSTEAD.keys() & {name.lower() for name in CHANNEL_OPTIONS}


def test_a_table_without_options_is_told_how_it_has_some() -> None:
    with pytest.raises(InvalidOptionError, match=r"SELECT \* FROM t WITH \(address="):
        READ({})
    with pytest.raises(InvalidOptionError) as caught:
        READ({"stream": "orders", "channels": "2"})
    assert "WITH" not in str(caught.value)
