"""permitflow between processes of one host: an exchange in the producer's process, chunks through shared memory."""

from benchmarks.peers.permitflow_grpc import (
    ExchangeProducer,
    GrpcBlockingConsumer,
    GrpcConsumer,
)
from benchmarks.peers.way import Group, Way
from permitflow.transports.grpc_aio import SameHost

__all__ = ["WAYS"]


class SameHostConsumer(GrpcConsumer):
    """As over gRPC, but the stream is refused if it cannot leave gRPC for shared memory."""

    SAME_HOST = SameHost.REQUIRE


class SameHostBlockingConsumer(GrpcBlockingConsumer):
    """The same for threads and scripts."""

    SAME_HOST = SameHost.REQUIRE


WAYS = (
    Way(
        "permitflow, same host",
        Group.OURS,
        "as `permitflow, gRPC`, through shared memory",
        ExchangeProducer,
        SameHostConsumer,
        target="same host",
        is_tuned=True,
    ),
    Way(
        "permitflow, same host, blocking client",
        Group.OURS,
        "`open_source` and `joined` through shared memory, as Spark's workers use them",
        ExchangeProducer,
        SameHostBlockingConsumer,
    ),
)
