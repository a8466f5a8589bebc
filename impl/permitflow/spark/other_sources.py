"""Options of Spark's other sources that people try here, and what to do instead.

Options with the same meaning are accepted under both names, as ``maxOffsetsPerTrigger``: see ``Option.also``.
"""

from collections.abc import Mapping

_KAFKA = "is an option of Spark's Kafka source; here: "
_ADDRESS = "where the exchange listens is option 'address', as in .option('address', 'exchange.example:50051')"
_NAMES = "the channels are option 'stream' with their number as 'channels', or their names as 'channels': 'a,b'"
_CONSUMER = (
    "who reads is option 'consumer', of those that the channel was opened with (permitflow serve --consumer NAME)"
)
_TIME = (
    "rows are found by their number: .option('startingOffsets', ...) takes earliest, latest, or numbers as "
    '{"orders/0": 1200}; the time at which the exchange took a row is column _time, with .option("includeTime", "true")'
)
_RETENTION = (
    "is an option of a topic; here the exchange has it: permitflow serve --expire-seconds SECONDS --expire-bytes SIZE, "
    "or channel add with these; without them, rows stay until every consumer has acknowledged them"
)
_TLS = "TLS is options 'tlsCa', 'tlsCert', 'tlsKey' and 'tlsServerName', and a token is a file: 'tokenFile'"
_WAITS = "waits are options 'timeoutSeconds' and 'resumeSeconds'"
_COLUMNS = "rows have columns with types, and need no serializers"
_FILES = "is an option of Spark's file sources; here: the most rows of a batch are option 'maxRowsPerTrigger'"
_NO_SCHEMA_OPTION = "is an option of Spark's file sources; a channel states its schema itself"

INSTEAD: Mapping[str, str] = {
    **dict.fromkeys(
        ("kafka.bootstrap.servers", "bootstrap.servers", "bootstrapservers", "brokers", "servers"), _KAFKA + _ADDRESS
    ),
    **dict.fromkeys(("host", "hostname", "port", "url", "uri", "endpoint"), f"is not known; {_ADDRESS}"),
    **dict.fromkeys(("subscribe", "assign", "topics"), _KAFKA + _NAMES),
    "topic": f"{_KAFKA}{_NAMES}; task p writes into channel p modulo their number, or rows go by option 'key'",
    "subscribepattern": f"{_KAFKA}{_NAMES}; `permitflow channel list` shows all names",
    **dict.fromkeys(("kafka.group.id", "groupid", "group.id", "groupidprefix", "subscription"), _KAFKA + _CONSUMER),
    **dict.fromkeys(
        (
            "startingtimestamp",
            "endingtimestamp",
            "startingoffsetsbytimestamp",
            "endingoffsetsbytimestamp",
            "startingoffsetsbytimestampstrategy",
        ),
        _KAFKA + _TIME,
    ),
    "auto.offset.reset": f"{_KAFKA}where a new query begins is option 'startingOffsets': earliest, latest, or numbers",
    "enable.auto.commit": f"{_KAFKA}nothing is to be set, since a query acknowledges what is in its checkpoint",
    **dict.fromkeys(
        (
            "kafkaconsumer.polltimeoutms",
            "fetchoffset.numretries",
            "fetchoffset.retryintervalms",
            "kafka.request.timeout.ms",
            "kafka.session.timeout.ms",
        ),
        _KAFKA + _WAITS,
    ),
    "includeheaders": f"{_KAFKA}a row has no headers: write them into columns",
    **dict.fromkeys(
        (
            "key.deserializer",
            "value.deserializer",
            "kafka.key.deserializer",
            "kafka.value.deserializer",
            "key.serializer",
            "value.serializer",
            "kafka.key.serializer",
            "kafka.value.serializer",
        ),
        _KAFKA + _COLUMNS,
    ),
    **dict.fromkeys(
        ("retention.ms", "retention.bytes", "kafka.retention.ms", "kafka.retention.bytes", "log.retention.ms"),
        _RETENTION,
    ),
    **dict.fromkeys(("maxfilespertrigger", "latestfirst", "maxfileage"), _FILES),
    **dict.fromkeys(("inferschema", "header", "multiline"), _NO_SCHEMA_OPTION),
    **dict.fromkeys(
        ("startingversion", "readchangefeed"),
        "is an option of Delta's source; here: where a new query begins is option 'startingOffsets'",
    ),
    "txnappid": "is an option of Delta's sink; here: option 'query', with delivery=staged, and 'batch' beside it",
    "txnversion": "is an option of Delta's sink; here: option 'batch', with delivery=staged, and 'query' beside it",
    **dict.fromkeys(
        ("token", "password", "authorization", "authtoken"),
        "would be in query plans and event logs; write it into a file, and name that with option 'tokenFile'",
    ),
    **dict.fromkeys(("user", "username"), f"is not known; {_TLS}"),
    **dict.fromkeys(("ssl", "tls", "usessl"), f"is not known; {_TLS}"),
    **dict.fromkeys(
        ("numpartitions", "partitions"),
        "is not known; the number of channels is option 'channels', of which each is a task",
    ),
    **dict.fromkeys(
        ("owner", "provider", "external", "location"),
        "is a property of CREATE TABLE without columns: state the table's columns, and its options in each statement, "
        "as in SELECT * FROM t WITH (address='...'); or CREATE TEMPORARY VIEW t USING permitflow OPTIONS (...)",
    ),
    **dict.fromkeys(
        ("trigger", "triggerinterval", "processingtime", "availablenow", "once", "continuous"),
        "is not an option: a trigger is set with writeStream.trigger(processingTime='1 second') or (availableNow=True)",
    ),
    **dict.fromkeys(
        ("keycolumn", "keycolumns", "partitionkey", "partitionby"),
        "is not known; each row goes to the channel of its key with option 'key', the names of columns",
    ),
    **dict.fromkeys(
        ("offset", "offsets", "fromrow", "torow"),
        "is not known; rows are options 'startingOffsets' and 'endingOffsets'",
    ),
    "schema": "is not an option: call .schema('id LONG') of the reader, or leave it to the channel",
    "retention": "is the exchange's: permitflow serve --retention replay, or channel add with it",
    "acks": f"{_KAFKA}nothing is to be set, since a job ends when the exchange has accepted its rows",
    "max.poll.records": f"{_KAFKA}the most rows of a batch are option 'maxRowsPerTrigger'",
    **dict.fromkeys(
        ("transactional.id", "enable.idempotence", "isolation.level"),
        f"{_KAFKA}rows are published once and all together with delivery=staged, which no reader has to be told",
    ),
    **dict.fromkeys(
        ("mode", "outputmode"), "is not an option: call .mode('append') or .outputMode('append') of the writer"
    ),
}
"""By name in lower case."""

BY_PREFIX: Mapping[str, str] = {
    "kafka.ssl.": _KAFKA + _TLS,
    "kafka.sasl.": _KAFKA + _TLS,
    "kafka.security.": _KAFKA + _TLS,
    "kafka.": "is for Kafka's client, which is not used here: leave it out",
    "spark.": "belongs to the session: spark.conf.set, or spark-submit --conf",
}


NO_OPTIONS = (
    "; of a table, Spark does not pass on the options of CREATE TABLE: state them in each statement, as in "
    "SELECT * FROM t WITH (address='...'), or CREATE TEMPORARY VIEW t USING permitflow OPTIONS (...)"
)
"""What is said to somebody who has set no option at all."""


def instead_of(name: str) -> str | None:
    """What is wrong with an option of another source, and what to do instead; None: nobody is known to have it."""
    folded = name.lower()
    if (advice := INSTEAD.get(folded)) is not None:
        return advice
    advice = next((advice for prefix, advice in BY_PREFIX.items() if folded.startswith(prefix)), None)
    return advice or (BY_PREFIX["kafka."] if "." in folded else None)
