"""How the exchange uses gRPC: the names of its methods, the limits, the watch over dead peers, the memory of messages.

The clients and the server use the same numbers.
"""

import os
from functools import cache
from math import ceil
from typing import TypeAlias

from permitflow.carriers.deadlines import HANDSHAKE_SECONDS, SILENCE_SECONDS
from permitflow.errors import ForkedError
from permitflow.pauses import FIRST_SECONDS, LONGEST_SECONDS
from permitflow.wire.arrow import MAX_MESSAGE_BYTES
from permitflow.wire.control_codec import MOST_REPLY_BYTES
from permitflow.wire.v1 import exchange_pb2 as pb

Options: TypeAlias = tuple[tuple[str, int], ...]

_SERVICE = pb.DESCRIPTOR.services_by_name["ExchangeService"]
SERVICE: str = _SERVICE.full_name
GET_STREAM = f"/{SERVICE}/{_SERVICE.methods_by_name['GetStream'].name}"
PUT_STREAM = f"/{SERVICE}/{_SERVICE.methods_by_name['PutStream'].name}"
CONTROL = f"/{SERVICE}/{_SERVICE.methods_by_name['Control'].name}"
MAX_ANSWER_BYTES = max(MAX_MESSAGE_BYTES, MOST_REPLY_BYTES + (1 << 10))
"""The longest message that an exchange sends: a reply, with what is beside it."""
METADATA_BYTES, HARD_METADATA_BYTES = 8 << 10, 16 << 10
"""Bytes of a call's headers: gRPC refuses some calls from the first number on, all from the second: its defaults."""
METADATA_PAIR_BYTES = 32
"""What a pair counts beyond its letters (RFC 9113, 6.5.2)."""
HEALTH_CHECK = "/grpc.health.v1.Health/Check"
"""The method of gRPC's own health protocol."""

# The kernel keeps the connections of a stopped process or of a cut cable open for minutes or for ever, and a stream
# may be silent for hours while it waits for permits.  So each end pings the other and waits some time: gRPC's own
# threads answer, however busy Python is; other implementations may have to compute first.  By default no end pings.
_PING_EVERY_MS = 2_000
# Permits bound the rows in flight.  HTTP/2 has windows of its own, in bytes, which gRPC grows to some 4 MiB per round
# trip: over long distances they bind first, and a larger row_permits only covers the time of one trip.
_WINDOW_BYTES = 1 << 30
MOST_UNREAD_BYTES = 32 << 20
"""The window of what clients send: gRPC keeps as much of a call that an exchange does not read.  It gives room back
when half of it is used, so this is twice the usual byte window."""
_MOST_CONNECTIONS = 16_384
MOST_CALLS = 128
"""Calls on one gRPC connection.  Our own clients make one each, those of other languages may make some hundred."""
MOST_PENDING = 512
"""Calls that wait in gRPC for their turn, each with its metadata: from half of these on gRPC refuses some by chance."""

_COMMON: Options = (
    # gRPC measures round trips to fit the window to them, and would shrink it.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.keepalive_time_ms", _PING_EVERY_MS),
    # Pings must go on however long a stream is silent.
    ("grpc.http2.max_pings_without_data", 0),
)


def _limits(*, sent: int, received: int) -> Options:
    return (("grpc.max_send_message_length", sent), ("grpc.max_receive_message_length", received))


def _patient(silence_seconds: float) -> Options:
    silence_ms = int(1_000 * silence_seconds)
    return (("grpc.keepalive_timeout_ms", silence_ms), ("grpc.http2.ping_timeout_ms", silence_ms))


def client_options(silence_seconds: float = SILENCE_SECONDS) -> Options:
    """gRPC's options of a client."""
    return (
        *_limits(sent=MAX_MESSAGE_BYTES, received=MAX_ANSWER_BYTES),
        *_COMMON,
        ("grpc.http2.lookahead_bytes", _WINDOW_BYTES),
        *_patient(silence_seconds),
        # Streams of one process would share a connection and its HTTP/2 window: one slow reader could stop all others.
        ("grpc.use_local_subchannel_pool", 1),
        # An exchange is in the same cluster; a proxy for the internet cannot reach it.
        ("grpc.enable_http_proxy", 0),
        # While an exchange is not there yet, gRPC dials again by itself: by default after up to two minutes.
        ("grpc.initial_reconnect_backoff_ms", int(1_000 * FIRST_SECONDS)),
        ("grpc.max_reconnect_backoff_ms", int(1_000 * LONGEST_SECONDS)),
        # Our code judges errors: gRPC must not repeat a broken stream by itself.
        ("grpc.enable_retries", 0),
    )


def server_options(
    handshake_seconds: float = HANDSHAKE_SECONDS,
    silence_seconds: float = SILENCE_SECONDS,
    most_connections: int = _MOST_CONNECTIONS,
) -> Options:
    """gRPC's options of an exchange."""
    handshake_ms = max(1, int(1_000 * handshake_seconds))
    return (
        *_limits(sent=MAX_ANSWER_BYTES, received=MAX_MESSAGE_BYTES),
        *_COMMON,
        ("grpc.http2.lookahead_bytes", MOST_UNREAD_BYTES),
        *_patient(silence_seconds),
        # Accept the clients' pings: by default the server hangs up on a peer that pings more often than every 5 min.
        ("grpc.http2.min_ping_interval_without_data_ms", _PING_EVERY_MS // 2),
        ("grpc.http2.max_ping_strikes", 0),
        # By default a second server may listen on the same port and take away half of the streams.
        ("grpc.so_reuseport", 0),
        # Of a connection that never becomes one of HTTP/2, and of one without any stream.
        ("grpc.server_handshake_timeout_ms", handshake_ms),
        # Of one that does not acknowledge our settings: until then gRPC holds its peer to none of them, and takes
        # headers of 16 MiB.  By default it waits for a minute.
        ("grpc.http2.settings_timeout", handshake_ms),
        ("grpc.max_connection_idle_ms", handshake_ms),
        # A client that dials on and on must not take all descriptors; one that calls on and on, not all memory.
        ("grpc.max_allowed_incoming_connections", most_connections),
        ("grpc.max_concurrent_streams", MOST_CALLS),
        # The peers that have made the connections that wait.
        ("grpc.server.max_pending_requests", MOST_PENDING // 2),
        ("grpc.server.max_pending_requests_hard_limit", MOST_PENDING),
        # By default they wait for half a minute.
        ("grpc.server_max_unrequested_time_in_server", max(1, ceil(handshake_seconds))),
        ("grpc.max_metadata_size", METADATA_BYTES),
        ("grpc.absolute_max_metadata_size", HARD_METADATA_BYTES),
        # Identity only: fifteen kilobytes of gzip become the longest message before anybody has looked at them.
        ("grpc.compression_enabled_algorithms_bitset", 1),
    )


CLIENT_OPTIONS = client_options()
SERVER_OPTIONS = server_options()


# Several messages of gRPC.
_EXPECTED_BYTES = 8 << 20


@cache
def expect_large_blocks() -> None:
    """Make glibc keep freed blocks of some MiB, once per process: gRPC allocates and frees them all the time.

    By default glibc gets each block above 128 KiB from the kernel and returns it at once, so that gRPC spends more time
    on getting fresh pages than on moving data.  It adapts to the first such block that is freed, see ``mallopt(3)``:
    from then on it keeps blocks up to that size, and returns free memory beyond twice as much, in each thread's heap:
    some tens of MiB stay with a process that moves large chunks.  This function frees an untouched block before the
    first message.  A user's own setting (``MALLOC_MMAP_THRESHOLD_``, ``mallopt``) disables the adaptation, and stands.
    """
    bytearray(_EXPECTED_BYTES)


_dialling = dict[str, int]()


def refuse_after_fork(address: str) -> None:
    """Note that this process dials with gRPC, whose threads do not survive a fork: a child that dialled would crash.

    Raises:
        ForkedError: a process from which this one was forked has dialled.
    """
    if _dialling.setdefault("process", os.getpid()) != os.getpid():
        raise ForkedError(what=f"gRPC, which was used before the fork, cannot dial {address}")
