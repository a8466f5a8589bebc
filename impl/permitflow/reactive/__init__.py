"""Reactive Streams: publishers over everything that stages read, and any publisher as a source of stages.

The rules are those of https://github.com/reactive-streams/reactive-streams-jvm.  This module loads the standard
library only.
"""

from permitflow.reactive.interfaces import Processor, Publisher, Subscriber, Subscription
from permitflow.reactive.publishers import IterablePublisher, SourcePublisher
from permitflow.reactive.subscribers import ReadingSubscriber, SendingSubscriber, StagesProcessor, from_publisher

__all__ = [
    "IterablePublisher",
    "Processor",
    "Publisher",
    "ReadingSubscriber",
    "SendingSubscriber",
    "SourcePublisher",
    "StagesProcessor",
    "Subscriber",
    "Subscription",
    "from_publisher",
]
