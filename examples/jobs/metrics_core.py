"""Metrics as packets: what is merged, and when a packet may leave.  No clock, no socket: ``now_ns`` is an argument.

A packet has the whole totals of one incarnation (one start) of a process, and a sequence number: the newest packet that
arrives makes those before it superfluous, whether they were lost, come twice, or come too late.  What is counted
between two packets is conflated: added up.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import isfinite

from permitflow.errors import InvalidOptionError, PermitflowError, printable
from permitflow.stages.core.token_bucket import TokenBucket

MOST_PACKET_BYTES = 1_400
"""So that no network cuts a packet in pieces."""
MOST_NAMES = 12
"""The most names of totals, and of gauges: so a packet never has too many bytes."""
LARGEST = 2**53
"""The largest number: a page's script knows whole numbers up to here."""
SECOND_NS = 1_000_000_000
REPEAT_NS = SECOND_NS // 2
"""After so long, totals that have not changed are sent again: the packet that had them may be lost."""

# Of one sender, in a window: one burst, as of any bucket; and one packet more, because the bucket is asked when a
# packet has left.  Asked before, it would not know for how long the operating system then holds the process.
_BURST = 1
_LEAVING = 1
# An incarnation is silent for so long first: the one before, which was killed, may have sent both until now.
_PERIODS_OF_SILENCE = _BURST + _LEAVING

_FORMAT = "permitflow-jobs-1"
_NAME = re.compile(r"[a-z][a-z_]{0,23}")
_SOURCE = re.compile(r"[a-z][a-z0-9-]{0,31}")


class MalformedPacketError(PermitflowError):
    """Bytes that came over UDP are no packet of metrics."""

    reason: str
    text = "this is no packet of metrics: {reason}"


def require_source(source: str) -> None:
    """Require a name that a process can have in packets.

    Raises:
        InvalidOptionError: a process cannot have it.
    """
    if not _SOURCE.fullmatch(source):
        reason = "must be up to 32 small letters, digits and hyphens, the first a letter"
        raise InvalidOptionError(option="source", value=source, reason=reason)


def packet_period_ns(packets_per_second: int, senders: int) -> int:
    """Nanoseconds from token to token, so that all senders together stay below what the receiver can take.

    In each window of a second leave a sender no more than two packets and one for each period, rounded up (theorem
    ``token-bucket-window``, with one packet more for the one that is leaving).

    Args:
        packets_per_second: what the receiver can take, in any window of a second.
        senders: how many processes send at a time.

    Raises:
        InvalidOptionError: that is less than three packets for each sender.
    """
    if senders < 1:
        raise InvalidOptionError(option="senders", value=senders, reason="must be at least 1")
    tokens = packets_per_second // senders - _BURST - _LEAVING
    if tokens < 1:
        least = (_BURST + _LEAVING + 1) * senders
        reason = f"must be at least {least}, three for each of {senders} senders"
        raise InvalidOptionError(option="packets_per_second", value=packets_per_second, reason=reason)
    return -(-SECOND_NS // tokens)


@dataclass(frozen=True, kw_only=True)
class Packet:
    """What a process says about itself, or about another one."""

    source: str
    incarnation: int
    """The number of the start."""
    sequence: int
    """The number of the packet among this incarnation's about the same process; from 1."""
    about: str = ""
    """Another process; empty: the source itself."""
    totals: Mapping[str, int]
    """Since the start."""
    gauges: Mapping[str, float]
    """Now."""

    def to_bytes(self) -> bytes:
        """As it is sent."""
        return json.dumps({"format": _FORMAT, **asdict(self)}, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> "Packet":
        """As it was received; anybody may have sent it.

        Raises:
            MalformedPacketError: these bytes are none.
        """
        if len(content) > MOST_PACKET_BYTES:
            raise MalformedPacketError(reason=f"it has more than {MOST_PACKET_BYTES:,} bytes")
        try:
            fields = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise MalformedPacketError(reason=f"it is no JSON ({printable(str(error))})") from error
        expected = {"format", "source", "incarnation", "sequence", "about", "totals", "gauges"}
        if not isinstance(fields, dict) or set(fields) != expected or fields.pop("format") != _FORMAT:
            raise MalformedPacketError(reason=f"it is no object of the format {_FORMAT}")
        for name, is_good in (
            ("source", _is_source(fields["source"])),
            ("about", fields["about"] == "" or _is_source(fields["about"])),
            ("incarnation", _is_whole(fields["incarnation"], 1)),
            ("sequence", _is_whole(fields["sequence"], 1)),
            ("totals", _are_named(fields["totals"]) and all(_is_whole(each, 0) for each in fields["totals"].values())),
            ("gauges", _are_named(fields["gauges"]) and all(map(_is_number, fields["gauges"].values()))),
        ):
            if not is_good:
                raise MalformedPacketError(reason=f"its {name} cannot be so")
        return cls(**fields)


def _require_name(name: str, known: Mapping[str, object]) -> None:
    if name not in known and not (_NAME.fullmatch(name) and len(known) < MOST_NAMES):
        reason = f"must be up to 24 small letters and underscores, and one of {MOST_NAMES} names at most"
        raise InvalidOptionError(option="name", value=name, reason=reason)


def _is_source(value: object) -> bool:
    return isinstance(value, str) and _SOURCE.fullmatch(value) is not None


def _is_whole(value: object, least: int) -> bool:
    return type(value) is int and least <= value <= LARGEST


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and isinstance(value, int | float) and abs(value) <= LARGEST and isfinite(value)


def _are_named(value: object) -> bool:
    return isinstance(value, dict) and len(value) <= MOST_NAMES and all(map(_NAME.fullmatch, value))


@dataclass
class _Account:
    """What is told about one process."""

    totals: dict[str, int] = field(default_factory=dict)
    gauges: dict[str, float] = field(default_factory=dict)
    sequence: int = 0
    has_changed: bool = False
    left_ns: int = 0
    """When its newest packet left."""


class Reporter:
    """What one incarnation of a process counts, and when it may say so.

    A driver calls ``packet`` at ``due_ns`` or later, sends it, and then calls ``has_left`` with the time after sending.
    """

    def __init__(self, source: str, incarnation: int, period_ns: int, now_ns: int) -> None:
        """Nothing is counted.

        Args:
            source: the process.
            incarnation: the number of its start, from 1.
            period_ns: from one packet to the next; see ``packet_period_ns``.
            now_ns: of a clock that never goes back.

        Raises:
            InvalidOptionError: the source or the incarnation cannot be so.
        """
        require_source(source)
        if not _is_whole(incarnation, 1):
            raise InvalidOptionError(option="incarnation", value=incarnation, reason="must be at least 1")
        self.source, self.incarnation = source, incarnation
        self._bucket = TokenBucket(_BURST, period_ns, now_ns)
        self.may_leave_ns = now_ns + _PERIODS_OF_SILENCE * period_ns
        """When the next packet may leave, whatever it says."""
        self._accounts = {"": _Account()}
        self._newest: dict[str, int] = {}
        """The newest incarnation of each other process."""
        self._leaving = ""

    @property
    def totals(self) -> Mapping[str, int]:
        """Its own, now."""
        return self._accounts[""].totals

    @property
    def accounts(self) -> int:
        """The number of processes of which it has something to say."""
        return len(self._accounts)

    def count(self, name: str, by: int = 1) -> None:
        """Add to a total of its own.

        Raises:
            InvalidOptionError: a packet cannot have this name.
        """
        self._add(self._accounts[""], name, by)

    def gauge(self, name: str, value: float) -> None:
        """Say how something is now.

        Raises:
            InvalidOptionError: a packet cannot have this name.
        """
        own = self._accounts[""]
        if own.gauges.get(name) != value:
            _require_name(name, own.gauges)
            own.gauges[name] = value
            own.has_changed = True

    def took_result(self, source: str, incarnation: int) -> None:
        """Count a result of another process, which may be killed before it can say so itself.

        Told are the results of all its incarnations, and of those of them that were before the newest.
        """
        account = self._accounts.setdefault(source, _Account())
        newest = self._newest.get(source, incarnation)
        if incarnation > newest:
            account.totals["results_before"] = account.totals["results"]
        elif incarnation < newest:
            self._add(account, "results_before", 1)
        self._newest[source] = max(newest, incarnation)
        account.gauges["incarnation"] = self._newest[source]
        self._add(account, "results", 1)

    def _add(self, account: _Account, name: str, by: int) -> None:
        _require_name(name, account.totals)
        account.totals[name] = account.totals.get(name, 0) + by
        account.has_changed = True

    def due_ns(self) -> int:
        """The first moment at which a packet may leave and there is something to send."""
        wanted_ns = min(self._wanted_ns(account) for account in self._accounts.values())
        return max(self.may_leave_ns, wanted_ns)

    def _wanted_ns(self, account: _Account) -> int:
        return 0 if account.has_changed else account.left_ns + REPEAT_NS

    def packet(self, now_ns: int) -> bytes:
        """The packet that leaves now; the account that has waited longest comes first, so that each has its turn."""
        wanted = [name for name, account in self._accounts.items() if self._wanted_ns(account) <= now_ns]
        self._leaving = min(wanted or self._accounts, key=lambda name: self._accounts[name].left_ns)
        account = self._accounts[self._leaving]
        account.sequence += 1
        account.has_changed = False
        return Packet(
            source=self.source,
            incarnation=self.incarnation,
            sequence=account.sequence,
            about=self._leaving,
            totals=account.totals,
            gauges=account.gauges,
        ).to_bytes()

    def has_left(self, now_ns: int) -> None:
        """Take a token for the packet that has left: the bucket counts it when it left, or later, and never earlier."""
        self._accounts[self._leaving].left_ns = now_ns
        self.may_leave_ns = now_ns + self._bucket.offer(1, now_ns)
