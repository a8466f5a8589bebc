"""The rules of Reactive Streams as tests of your own publishers, subscribers and processors, sync or asyncio.

Subclass ``PublisherVerification``, ``SubscriberBlackboxVerification``, ``SubscriberWhiteboxVerification`` or
``IdentityProcessorVerification``; pytest then collects a test for each rule: docs/guides/reactive-streams.md.

Tests have the numbers of the TCK of reactive-streams-jvm.  Those that it leaves untested because it cannot choose how
threads interleave are tested here, on schedules that are the same in every run.
"""

from permitflow.testing.reactive_streams.probes import RuleBroken, WhiteboxProbe
from permitflow.testing.reactive_streams.processors import IdentityProcessorVerification
from permitflow.testing.reactive_streams.publishers import PublisherVerification
from permitflow.testing.reactive_streams.subscribers import (
    SubscriberBlackboxVerification,
    SubscriberWhiteboxVerification,
)

__all__ = [
    "IdentityProcessorVerification",
    "PublisherVerification",
    "RuleBroken",
    "SubscriberBlackboxVerification",
    "SubscriberWhiteboxVerification",
    "WhiteboxProbe",
]
