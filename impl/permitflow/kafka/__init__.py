"""Kafka's topics as a source and a sink of stages, and from and to the channels of an exchange.

A consumer that falls behind mutes its partitions (``pause``, ``resume``) and stays in its group; offsets are committed
only after what was consumed.  Needs ``permitflow[kafka]``.
"""

from permitflow.kafka.bridging import TOPIC_SCHEMA, channel_to_topic, topic_to_channel
from permitflow.kafka.consuming import KafkaRecords
from permitflow.kafka.ledger import Record, RecordPlace
from permitflow.kafka.producing import KafkaProducer

__all__ = [
    "TOPIC_SCHEMA",
    "KafkaProducer",
    "KafkaRecords",
    "Record",
    "RecordPlace",
    "channel_to_topic",
    "topic_to_channel",
]
