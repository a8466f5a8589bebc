"""What an exchange serves at most, and what becomes of a peer that wants more: one table.

The options of ``permitflow serve``, the refusals and the table in docs/guides/limits.md come from here.  Limits of
single messages are constants of the rooms that enforce them, because both ends must know them;
``tools/limits_table.py`` adds these to the table.
"""

from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, NamedTuple, Self

from permitflow.errors import InvalidParametersError, LimitReachedError, PermitflowError, ResumeRefusedError


class Limit(NamedTuple):
    """A row of the table."""

    name: str
    """The name of the field of ``Limits``; empty: it cannot be chosen."""
    what: str
    """What is counted, as in "streams of one peer"."""
    most: int | None
    """The default; None: no limit, unless one is chosen."""
    unit: str
    """``""`` for a number of things, ``bytes``, or another one."""
    beyond: type[PermitflowError] | None
    """What who exceeds it gets; None: ``why`` tells."""
    why: str
    """Why there is this limit, and what else becomes of who exceeds it."""

    @property
    def option(self) -> str:
        """The option of ``permitflow serve``; empty: there is none."""
        return f"--{self.name.replace('_', '-')}" if self.name else ""


def _most(most: int | None, what: str, why: str, *, unit: str = "", beyond: Any = LimitReachedError) -> Any:
    return field(default=most, metadata={"limit": Limit("", what, most, unit, beyond, why)})


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What an exchange serves at most, to all its peers and to each.

    A peer is an address: a host of IPv4, or a network of IPv6 with a prefix of 64 bits, because a host there has all
    addresses of its network.

    Raises:
        InvalidParametersError: a limit is below 1.
    """

    max_channels: int = _most(
        100_000, "channels", "each takes some kilobytes before anything flows; who adds one more is refused"
    )
    max_streams: int = _most(16_384, "streams", "of producers, consumers and control clients, suspended ones included")
    max_streams_per_peer: int = _most(4_096, "streams of one peer", "one peer cannot take all of them")
    max_connections: int = _most(
        16_384,
        "connections",
        "each takes a descriptor over TCP, and buffers; gRPC hangs up on further ones without a word. So does the "
        "exchange if the peers that it has refused do not leave",
    )
    max_connections_per_peer: int = _most(
        4_096,
        "connections of one peer",
        "gRPC's are counted twice a second, on Linux, and those beyond are hung up on without a word",
    )
    max_failures_per_peer: int = _most(
        100,
        "failed connections of one peer",
        "on average: over TCP and UDP those that are refused, wrong, or lost; a stream that ends with an error "
        "within a second counts as five. Over gRPC a call that ends before the exchange has heard what it wants "
        "counts as one, as do, on Linux, 8 KiB that are no message, such as pings. After a burst of five times as "
        "many, its further connections wait. Over TCP and UDP those that would wait for longer than a handshake may "
        "take are hung up on; over gRPC, on Linux, the one that goes on so is hung up on, and for four seconds at "
        "most others are not let in: their systems dial again, within seven. Streams that are open go on",
        unit="a second",
        beyond=None,
    )
    max_handshakes: int = _most(
        512,
        "handshakes under way",
        "connections and calls that have not said what they want, of which each may hold 1.1 MiB; over gRPC, who "
        "sends more is hung up on, within some hundredths of a second, on Linux. The one that has waited longest makes "
        "room for a new one",
    )
    max_handshakes_per_peer: int = _most(
        128, "handshakes of one peer under way", "likewise: of this peer, the one that has waited longest makes room"
    )
    max_suspended: int = _most(
        1_024,
        "suspended streams",
        "those that have lost their connection and wait for another one; of the peer that has most of them, the one "
        "that has waited longest is given up",
        beyond=ResumeRefusedError,
    )
    max_suspended_bytes: int = _most(
        256 << 20, "messages that suspended streams keep", "likewise", unit="bytes", beyond=ResumeRefusedError
    )

    max_memory: int | None = _most(
        None,
        "memory",
        "of messages: the byte windows of channels and of open streams, a message under way for each stream, "
        "handshakes, calls that wait in gRPC, and what suspended streams keep; further channels and streams are "
        "refused. Kept rows, which are bounded by their number, are not counted, nor is the memory of Python and of "
        "libraries",
        unit="bytes",
    )
    max_memory_per_peer: int | None = _most(
        None,
        "memory of one peer",
        "of the open and suspended streams of one peer, counted as above: what others have is theirs",
        unit="bytes",
    )

    def __post_init__(self) -> None:
        for limit in OPTIONS:
            value = getattr(self, limit.name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise InvalidParametersError(name=limit.name, value=value, rule="must be a whole number of at least 1")

    def within(self, descriptors: int) -> Self:
        """These, with no more connections than the descriptors suffice for; one peer gets at most half of them."""
        most = max(2, min(self.max_connections, descriptors - _OTHER_DESCRIPTORS))
        per_peer = min(self.max_connections_per_peer, most if most == self.max_connections else most // 2)
        return replace(self, max_connections=most, max_connections_per_peer=per_peer)


_OTHER_DESCRIPTORS = 64
"""Descriptors of files, of the event loop, of gRPC and of libraries."""


OPTIONS: Final = tuple(each.metadata["limit"]._replace(name=each.name) for each in fields(Limits))
"""The limits that can be chosen, by the fields of ``Limits``."""
