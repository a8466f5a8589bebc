"""permitflow between processes of one host: an exchange in the producer's process, chunks through shared memory."""

from benchmarks.jobs import Job, Tally
from benchmarks.peers.permitflow_grpc import ExchangeProducer, GrpcBlockingConsumer, GrpcConsumer
from benchmarks.peers.way import Group, Way
from permitflow.transports.grpc_aio import SameHost
from permitflow.transports.wakefulness import poll_busily

__all__ = ["WAYS"]

# More than the pause of a producer in the measurement of latency.
BUSY_POLL_SECONDS = 0.005


class SameHostConsumer(GrpcConsumer):
    """As over gRPC, but the stream is refused if it cannot leave gRPC for shared memory."""

    SAME_HOST = SameHost.REQUIRE


class BusyPollingConsumer(SameHostConsumer):
    """Its event loop does not sleep between chunks that are a few milliseconds apart."""

    async def receive_all(self, job: Job, tally: Tally) -> None:
        """Dial and read."""
        poll_busily(BUSY_POLL_SECONDS)
        await super().receive_all(job, tally)


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
        "permitflow, same host, busy polling",
        Group.OURS,
        "the same, whose consumer looks for the next chunk instead of sleeping (`poll_busily`)",
        ExchangeProducer,
        BusyPollingConsumer,
        is_for_latency=True,
    ),
    Way(
        "permitflow, same host, blocking client",
        Group.OURS,
        "`open_source` and `joined` through shared memory, as Spark's workers use them",
        ExchangeProducer,
        SameHostBlockingConsumer,
    ),
)
