"""What was delivered of each partition and what of it was consumed: when to mute, and what to commit; sans-IO.

Each record that was delivered holds a permit of the window until it and all records before it in its partition are
consumed.  So the window bounds the records in the stages, and those that would come again after a crash.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


class RecordPlace(NamedTuple):
    """Where a record is."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """A record of a topic, as it was delivered."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    """When it was made or appended, since 1970; -1: the broker does not say."""
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    content: Any = None
    """What ``decode`` has made of it."""

    @property
    def place(self) -> RecordPlace:
        """Where it is."""
        return RecordPlace(self.topic, self.partition, self.offset)


@dataclass
class _Delivered:
    """What was delivered of one partition, for as long as it is assigned."""

    held: deque[Record] = field(default_factory=deque)
    """The records from the oldest unconsumed one on."""
    consumed: set[Record] = field(default_factory=set)
    """Those of ``held`` that are consumed."""
    due: int | None = None
    """The offset to commit next: the first one that may have to come again."""
    told: int | None = None
    """The offset that is being committed, or was."""


class Ledger:
    """The permits of one consumer of a group."""

    def __init__(self, window: int, batch: int) -> None:
        """``window``: the most records that are out; muted partitions go on when ``batch`` permits are back."""
        self._window = window
        self._batch = batch
        self._partitions: dict[Partition, _Delivered] = {}
        self._out = 0
        self.is_muted = False

    @property
    def room(self) -> int:
        """How many records may be delivered now."""
        return self._window - self._out

    @property
    def out(self) -> int:
        """Records that hold a permit."""
        return self._out

    @property
    def oldest(self) -> Record | None:
        """The oldest record of a partition that is not consumed: in the partition where most records wait behind it."""
        firsts = [(len(each.held), each.held[0]) for each in self._partitions.values() if each.held]
        return max(firsts, key=lambda first: first[0])[1] if firsts else None

    def mutes(self) -> bool:
        """Mute, if there is no permit; tell whether that is new."""
        is_new = not self.is_muted and self.room <= 0
        self.is_muted = self.is_muted or is_new
        return is_new

    def unmutes(self) -> bool:
        """Go on, if enough permits are back; tell whether that is new."""
        is_new = self.is_muted and self.room >= self._batch
        self.is_muted = self.is_muted and not is_new
        return is_new

    def assign(self, partitions: Iterable[Partition]) -> None:
        """These are read from now on."""
        for partition in partitions:
            self._partitions.setdefault(partition, _Delivered())

    def revoke(self, partitions: Iterable[Partition]) -> None:
        """These belong to another consumer: what is still out of them counts no more."""
        for partition in partitions:
            gone = self._partitions.pop(partition, None)
            self._out -= len(gone.held) if gone else 0

    def deliver(self, record: Record) -> bool:
        """A record goes to the stages; False: its partition is no longer ours."""
        delivered = self._partitions.get(Partition(record.topic, record.partition))
        if delivered is None:
            return False
        delivered.held.append(record)
        self._out += 1
        return True

    def is_ours(self, record: Record) -> bool:
        """Does its partition still belong to this consumer, since it was delivered?"""
        delivered = self._partitions.get(Partition(record.topic, record.partition))
        return delivered is not None and bool(delivered.held) and delivered.held[0].offset <= record.offset

    def consume(self, record: Record) -> bool:
        """A record was consumed; tell whether it was out.  Permits return in the order of the partition."""
        delivered = self._partitions.get(Partition(record.topic, record.partition))
        if delivered is None or not delivered.held or record in delivered.consumed:
            return False
        held, consumed = delivered.held, delivered.consumed
        if held[0] is not record:
            if not held[0].offset < record.offset <= held[-1].offset:
                return False
            consumed.add(record)
            return True
        held.popleft()
        self._out -= 1
        last = record
        while held and held[0] in consumed:
            last = held.popleft()
            consumed.remove(last)
            self._out -= 1
        delivered.due = last.offset + 1
        return True

    def take_due(self, partitions: Iterable[Partition] | None = None) -> Mapping[Partition, int]:
        """The offsets that are to be committed now: of these partitions, or of all."""
        wanted = self._partitions if partitions is None else [each for each in partitions if each in self._partitions]
        found: dict[Partition, int] = {}
        for partition in wanted:
            delivered = self._partitions[partition]
            if delivered.due is not None and delivered.due != delivered.told:
                found[partition] = delivered.told = delivered.due
        return found

    def was_not_committed(self, partition: Partition, offset: int) -> None:
        """The broker has refused, or was not there: the offset is due again, unless a later one is."""
        delivered = self._partitions.get(partition)
        if delivered is not None and delivered.told == offset:
            delivered.told = None
