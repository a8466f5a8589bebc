"""Counts what the peers of an exchange have open, and refuses what exceeds its limits.

A refusal is a matter of the peer that exceeds a limit; what others have open stays.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network, ip_address
from time import monotonic
from typing import Final, NamedTuple, Self

from permitflow.carriers.byte_stream import FRAMES_BYTES
from permitflow.carriers.connection import HARD_METADATA_BYTES, MOST_PENDING
from permitflow.errors import InvalidParametersError, LimitReachedError, PermitflowError, ResumeRefusedError
from permitflow.exchange.limits import OPTIONS, Limits
from permitflow.wire.arrow import MAX_MESSAGE_BYTES

GiveUp = Callable[[PermitflowError], None]
_LIMITS: Final = {limit.name: limit for limit in OPTIONS}
_HOST_BITS_OF_IPV6 = 64
MOST_REFUSED = 256
"""Peers over their limit that may stay until they have heard so; others are hung up on without a word."""

_WAITING_CALLS_BYTES: Final = MOST_PENDING * HARD_METADATA_BYTES
"""The metadata of calls that gRPC has taken and nobody has looked at, of peers that have acknowledged its settings."""
_BURST_SECONDS: Final = 5.0
"""A peer may have failed as often as it may in so long, all at once."""
_OF_STREAM: Final = 5
"""A stream's failure counts as this many: to begin and end a stream takes the exchange some milliseconds."""
_OF_NOISE_BYTES: Final = 8 << 10
"""So many bytes over gRPC that are no messages count as a failure: gRPC spends up to 0.5 ms on them, in settings."""
_MOST_SHUT_OUT_SECONDS: Final = 4.0
"""Others behind its address dial again after 1, 3 and 7 s, and give up after 10."""
_LIVED_SECONDS: Final = 1.0
"""The least that a stream must have lived: a failing network or host may lose all its streams at once."""
_MOST_PEERS = 1_024
"""Peers that have not failed lately are forgotten once there are this many."""


@lru_cache(_MOST_PEERS)  # each connection is counted in several places
def peer_key(peer: str) -> str:
    """The name under which a peer's places are counted.

    Args:
        peer: its address, as in ``tcp:203.0.113.5:4242`` or ``ipv6:[2001:db8::1]:4242``.
    """
    address = peer.partition(":")[2] or peer
    host = address.rpartition(":")[0].strip("[]").partition("%")[0] or address
    try:
        found = ip_address(host)
    except ValueError:
        return host
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(IPv6Network((found, _HOST_BITS_OF_IPV6), strict=False))
    return str(found)


def limit_reached(name: str, most: int) -> LimitReachedError:
    """The refusal of what exceeds the limit of this name."""
    limit = _LIMITS[name]
    what = f"bytes of {limit.what} ({most / (1 << 20):,.1f} MiB)" if limit.unit == "bytes" else limit.what
    return LimitReachedError(what=what, most=most, option=limit.option)


class Slot:
    """One of a limited number; to be left."""

    def __init__(self, leave: Callable[[], None]) -> None:
        """``leave`` is called once."""
        self._leave: Callable[[], None] | None = leave

    def leave(self) -> None:
        """Let another one have it; twice is harmless."""
        leave, self._leave = self._leave, None
        if leave is not None:
            leave()

    def __enter__(self) -> Self:
        """It is held already."""
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()


class _Places:
    """Places of one kind, in all and for each peer."""

    def __init__(self, limits: Limits, name: str) -> None:
        self._name, self._name_per_peer = name, f"{name}_per_peer"
        self._most: int = getattr(limits, name)
        self._most_per_peer: int = getattr(limits, self._name_per_peer)
        self.by_peer = Counter[str]()
        self.taken = 0

    def take(self, key: str) -> Slot:
        """Take one.

        Raises:
            LimitReachedError: there is none left, or none for this peer.
        """
        if self.by_peer[key] >= self._most_per_peer:
            raise limit_reached(self._name_per_peer, self._most_per_peer)
        if self.taken >= self._most:
            raise limit_reached(self._name, self._most)
        self.taken += 1
        self.by_peer[key] += 1
        return Slot(lambda: self._leave(key))

    def _leave(self, key: str) -> None:
        self.taken -= 1
        self.by_peer[key] -= 1
        if not self.by_peer[key]:
            del self.by_peer[key]


class Attempt:
    """A connection whose outcome is open: it counts as a failed one until it has become a stream."""

    def __init__(self, failures: "_Failures", key: str, seconds: float) -> None:
        """Counted already."""
        self._failures, self._key = failures, key
        self.seconds = seconds
        """How long it has to wait before it is heard."""
        self._counts, self._weight = True, 1
        self._began_at: float | None = None

    def has_become_stream(self, is_new: bool) -> None:
        """It has not failed so far.  ``is_new``: it goes on with no stream that has lost its connection."""
        self._began_at, self._weight = self._failures.now(), _OF_STREAM if is_new else 1
        self._take_back()

    def _take_back(self) -> None:
        if self._counts:
            self._counts = False
            self._failures.count(self._key, -1)

    def is_not_heard(self) -> None:
        """It is hung up on, which costs nearly nothing: others need not wait for longer because of it."""
        self._take_back()

    def has_failed(self) -> None:
        """It has become no stream, or one that was lost or ended with an error; not if that has lived for a while."""
        is_young = self._began_at is None or self._failures.now() - self._began_at < _LIVED_SECONDS
        if is_young and not self._counts:
            self._counts = True
            self._failures.count(self._key, self._weight)


class _Failures:
    """Failed connections by peer: when each peer would have made its own if it had made them evenly (GCRA)."""

    def __init__(self, limits: Limits, now: Callable[[], float]) -> None:
        self._each_seconds = 1.0 / limits.max_failures_per_peer
        self.now = now
        self._due: dict[str, float] = {}
        self._most_due = _MOST_PEERS

    def attempt(self, key: str) -> Attempt:
        return Attempt(self, key, self.count(key, 1))

    def count(self, key: str, number: float) -> float:
        """Count this many more; how long the last one is too early."""
        now = self.now()
        if key not in self._due and len(self._due) >= self._most_due:
            self._due = {key: due for key, due in self._due.items() if due > now - _BURST_SECONDS}
            self._most_due = max(_MOST_PEERS, 2 * len(self._due))  # few are looked at for each that comes
        due = max(self._due.get(key, 0.0), now - _BURST_SECONDS) + number * self._each_seconds
        self._due[key] = due
        return max(0.0, due - now)


class _Waiting(NamedTuple):
    """Who waits, and can be given up."""

    key: str
    size_bytes: int
    give_up: GiveUp


class _Handshakes:
    """Those that are under way, in the order in which they have begun; the first one makes room for others."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._waiting = OrderedDict[object, _Waiting]()
        self._by_peer: dict[str, OrderedDict[object, None]] = {}

    @property
    def taken(self) -> int:
        return len(self._waiting)

    @contextmanager
    def one(self, key: str, give_up: GiveUp) -> Iterator[None]:
        """Another one, which is under way in the block."""
        limits, ticket = self._limits, object()
        if len(own := self._by_peer.get(key, ())) >= limits.max_handshakes_per_peer:
            self._end(next(iter(own)), "max_handshakes_per_peer", limits.max_handshakes_per_peer)
        elif len(self._waiting) >= limits.max_handshakes:
            self._end(next(iter(self._waiting)), "max_handshakes", limits.max_handshakes)
        self._waiting[ticket] = _Waiting(key, 0, give_up)
        self._by_peer.setdefault(key, OrderedDict())[ticket] = None
        try:
            yield
        finally:
            self._forget(ticket)

    def _end(self, ticket: object, name: str, most: int) -> None:
        give_up = self._waiting[ticket].give_up
        self._forget(ticket)
        give_up(limit_reached(name, most))

    def _forget(self, ticket: object) -> None:
        if (waiting := self._waiting.pop(ticket, None)) is not None:
            own = self._by_peer[waiting.key]
            del own[ticket]
            if not own:
                del self._by_peer[waiting.key]


class Suspended:
    """The streams that wait for another connection.

    Beyond a limit, the peer with the most of them loses the one that has waited longest: who lets many streams wait
    does not cost others theirs.
    """

    def __init__(self, limits: Limits) -> None:
        """None waits."""
        self._limits = limits
        self._waiting = OrderedDict[bytes, _Waiting]()
        self._number, self._bytes = Counter[str](), Counter[str]()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, token: bytes, peer: str, size_bytes: int, give_up: GiveUp) -> None:
        """Another one waits.

        Args:
            token: of the stream.
            peer: its address.
            size_bytes: of the messages that it keeps.
            give_up: ends it for this reason.
        """
        self.discard(token)
        key = peer_key(peer)
        self._waiting[token] = _Waiting(key, size_bytes, give_up)
        self._number[key] += 1
        self._bytes[key] += size_bytes
        while len(self._waiting) > self._limits.max_suspended:
            self._end_one_of(self._number)
        while self._waiting and self._bytes.total() > self._limits.max_suspended_bytes:
            self._end_one_of(self._bytes)

    def discard(self, token: bytes) -> None:
        """This one waits no more, if it has waited."""
        if (waiting := self._waiting.pop(token, None)) is None:
            return
        for counts, count in ((self._number, 1), (self._bytes, waiting.size_bytes)):
            counts[waiting.key] -= count
            if not counts[waiting.key]:
                del counts[waiting.key]

    def _end_one_of(self, counts: Counter[str]) -> None:
        ((key, _),) = counts.most_common(1)
        token, waiting = next((token, each) for token, each in self._waiting.items() if each.key == key)
        self.discard(token)
        reason = "too many streams wait for their connections, and of this peer's, this one has waited longest"
        waiting.give_up(ResumeRefusedError(who="the exchange", reason=reason))


def before_streams_bytes(limits: Limits) -> int:
    """The most that handshakes, calls that wait in gRPC and suspended streams hold."""
    return limits.max_handshakes * FRAMES_BYTES + _WAITING_CALLS_BYTES + limits.max_suspended_bytes


def stream_bytes(window_bytes: int) -> int:
    """The most that a stream with such a window holds: it, and a message under way."""
    return window_bytes + MAX_MESSAGE_BYTES


class Memory:
    """What messages may take at most, if all windows are full."""

    def __init__(self, limits: Limits) -> None:
        """Reserve what peers may take before they have a stream.

        Raises:
            InvalidParametersError: the limit is below that.
        """
        self._most, self._most_per_peer = limits.max_memory, limits.max_memory_per_peer
        self._by_peer = Counter[str]()
        self.before_streams_bytes = before_streams_bytes(limits)
        """See the function of this name."""
        self.reserved_bytes = self.before_streams_bytes
        """What those, channels, and open streams have reserved."""
        if self._most is not None and self._most < self.reserved_bytes:
            rule = (
                f"must be at least {self.reserved_bytes} bytes ({self.reserved_bytes / (1 << 20):,.1f} MiB), for "
                f"{limits.max_handshakes} handshakes, {MOST_PENDING} calls that wait in gRPC and "
                f"{limits.max_suspended_bytes} bytes of suspended streams; "
                "lower these limits (--max-handshakes, --max-suspended-bytes), or raise this one"
            )
            raise InvalidParametersError(name="max_memory", value=self._most, rule=rule)

    def take(self, size_bytes: int) -> Slot:
        """Reserve so much.

        Raises:
            LimitReachedError: it would be more than there is.
        """
        if self._most is not None and self.reserved_bytes + size_bytes > self._most:
            raise limit_reached("max_memory", self._most)
        self.reserved_bytes += size_bytes

        def leave() -> None:
            self.reserved_bytes -= size_bytes

        return Slot(leave)

    def take_stream(self, window_bytes: int, peer: str) -> Slot:
        """Reserve what a stream of this peer may hold: its window, and a message under way.

        Raises:
            LimitReachedError: it would be more than there is, or than this peer may have.
        """
        size_bytes, key = stream_bytes(window_bytes), peer_key(peer)
        if self._most_per_peer is not None and self._by_peer[key] + size_bytes > self._most_per_peer:
            raise limit_reached("max_memory_per_peer", self._most_per_peer)
        place = self.take(size_bytes)
        self._by_peer[key] += size_bytes

        def leave() -> None:
            place.leave()
            self._by_peer[key] -= size_bytes
            if not self._by_peer[key]:
                del self._by_peer[key]

        return Slot(leave)


class Admission:
    """What is open at an exchange, whichever of its servers it came through.  For one event loop."""

    def __init__(self, limits: Limits) -> None:
        """Nothing is open."""
        self.limits = limits
        self._streams = _Places(limits, "max_streams")
        self._connections = _Places(limits, "max_connections")
        self._handshakes = _Handshakes(limits)
        self._failures = _Failures(limits, monotonic)
        self._refused = 0
        self.suspended = Suspended(limits)
        self.memory = Memory(limits)
        self.dropped_packets = Counter[str]()
        """Packets over UDP that nobody took, by the reason."""

    @property
    def streams(self) -> int:
        """How many streams are open."""
        return self._streams.taken

    @property
    def connections(self) -> int:
        """How many connections are open; over gRPC, when it was last looked."""
        return self._connections.taken

    @property
    def handshakes(self) -> int:
        """How many peers have not said yet what they want."""
        return self._handshakes.taken

    def stream(self, peer: str, identity: str = "") -> Slot:
        """Let a peer have a stream; who has shown an identity is counted by it, wherever it is.

        Raises:
            LimitReachedError: it has the most, or all peers together have.
        """
        return self._streams.take(f"identity {identity}" if identity else peer_key(peer))

    def connection(self, peer: str) -> Slot:
        """Let a peer have a connection.

        Raises:
            LimitReachedError: it has the most, or all peers together have.
        """
        return self._connections.take(peer_key(peer))

    def attempt(self, peer: str) -> Attempt:
        """A peer wants to be heard; when, depends on how many of its connections have failed."""
        return self._failures.attempt(peer_key(peer))

    def noise(self, peer: str, size_bytes: int) -> float:
        """A peer has sent so many bytes that belong to none of its calls; how long it is not to be let in."""
        return self.failed_calls(peer, size_bytes / _OF_NOISE_BYTES)

    def failed_calls(self, peer: str, number: float = 1) -> float:
        """So many calls of a peer count as failed connections; how long it is not to be let in."""
        key = peer_key(peer)
        seconds = self._failures.count(key, number)
        if seconds > _MOST_SHUT_OUT_SECONDS:
            seconds = self._failures.count(key, (_MOST_SHUT_OUT_SECONDS - seconds) * self.limits.max_failures_per_peer)
        return seconds

    def refusal(self) -> Slot | None:
        """Let a peer whose connection is refused stay until it has heard why; None: too many do."""
        if self._refused >= MOST_REFUSED:
            return None
        self._refused += 1

        def leave() -> None:
            self._refused -= 1

        return Slot(leave)

    def handshake(self, peer: str, give_up: GiveUp) -> AbstractContextManager[None]:
        """A peer has not said yet what it wants, as long as the block runs.

        Args:
            peer: its address.
            give_up: ends it for this reason: others want to be heard, and it has waited longest.
        """
        return self._handshakes.one(peer_key(peer), give_up)
