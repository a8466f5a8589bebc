"""What librdkafka tells, as values and errors of this package."""

from confluent_kafka import KafkaError, Message

from permitflow.errors import KafkaRefusedError
from permitflow.kafka.ledger import Record, RecordPlace


def place_of(message: Message) -> RecordPlace:
    """Where a record is."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    # The stubs say None for what only an error lacks.
    assert topic is not None
    assert partition is not None
    assert offset is not None
    return RecordPlace(topic, partition, offset)


def record_of(message: Message) -> Record:
    """A record."""
    _, timestamp_ms = message.timestamp()
    headers = message.headers() or ()
    pairs = headers.items() if isinstance(headers, dict) else headers
    told = tuple((name, value.encode() if isinstance(value, str) else value) for name, value in pairs)
    return Record(*place_of(message), timestamp_ms, message.key(), message.value(), told)


def refused(error: KafkaError, place: str) -> KafkaRefusedError:
    """An error that does not pass; ``place`` is a topic, or the client."""
    return KafkaRefusedError(place=place, code=error.name(), reason=error.str())
