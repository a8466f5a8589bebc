"""The books of staged rows in an exchange: which rows wait to be published, and which batches were published.

A producer stages rows as an attempt at one partition of one batch of a query; ``publish`` makes one attempt at each
partition part of its channel, all or none, once.  Where a batch lies at several exchanges, each of them first prepares
its attempts, which do not expire from then on.  Payloads are elsewhere: these are counts, and decisions.  Times are
given as seconds of any clock that does not go backwards.

Only a chunk may have to wait: the room of each channel is bounded, and published rows beyond the channel's permits
take some of it.  No wait is for ever as long as consumers acknowledge: an attempt whose stream breaks gives its room
back, and a batch that can never fit is refused.  Where unpublished rows block each other, the first chunk in line is
refused after ``ROOM_SECONDS``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from math import inf
from typing import NamedTuple

from permitflow.errors import (
    InvalidParametersError,
    PreparedRowsError,
    StagedPartError,
    StagingFullError,
    TooManyAttemptsError,
)
from permitflow.exchange.books.replay import ReplayBooks
from permitflow.names import require_name
from permitflow.stream.control import StagedPart
from permitflow.stream.frames import Staging

ROOM_SECONDS = 30.0
"""A chunk is refused if, for this long, it found no room and nothing left the area.  Spark's tasks wait for 60 s."""


class PartState(StrEnum):
    """How far an attempt has come."""

    OPEN = "open"
    """Its stream goes on."""
    ENDED = "ended"
    """All of its rows are here: it can be published."""
    PREPARED = "prepared"
    """It can be published, and does not expire: other exchanges may publish theirs."""
    PUBLISHED = "published"
    """Its rows are part of the channel."""
    LATE = "late"
    """Its batch was published without it: its rows are dropped, present and future ones."""
    FORGOTTEN = "forgotten"
    """Its rows are gone, and nobody has published them."""


@dataclass(slots=True, eq=False)
class Part:
    """One attempt at one partition of a batch, as far as it goes into one channel.  ``StagingBooks`` changes it."""

    channel: str
    staging: Staging
    number: int
    """It counts up."""
    batch_number: int
    """The number of the first attempt at anything of its batch."""
    state: PartState = PartState.OPEN
    rows: int = 0
    """The rows that were staged."""
    reason: str = ""
    """Why it was forgotten."""
    wanted_rows: int = 0
    """The rows of the chunk that waits for room; 0: no chunk waits."""
    wanted_since: float = inf
    prepared_since: float = inf

    @property
    def place(self) -> tuple[int, str]:
        """What one attempt of a batch is published at: the order of its rows in the channel."""
        return self.staging.partition, self.channel

    @property
    def is_kept(self) -> bool:
        """Is what it stages kept?"""
        return self.state is PartState.OPEN

    @property
    def is_whole(self) -> bool:
        """Can it be published?"""
        return self.state is PartState.ENDED or self.state is PartState.PREPARED

    @property
    def turn(self) -> tuple[int, float, int]:
        """The place in line: the oldest batch first, and in a batch the part that has waited longest."""
        return self.batch_number, self.wanted_since, self.number

    def error(self, reason: str) -> StagedPartError:
        """The error for this part, for this reason."""
        return StagedPartError(channel=self.channel, **self.staging._asdict(), reason=reason)


@dataclass(slots=True, eq=False)
class StagingArea:
    """The room of one channel for staged rows; published rows that are beyond the channel's permits take it as well."""

    limit_rows: int
    log: ReplayBooks
    """The books of the channel."""
    parts: set[Part] = field(default_factory=set)
    """Not published."""
    line: set[Part] = field(default_factory=set)
    """Parts with a chunk that waits for room."""
    staged_rows: int = 0
    quiet_since: float = -inf
    """When rows left it for the last time, or published ones were in the way."""

    @property
    def free_rows(self) -> int:
        """How many more it takes."""
        return self.limit_rows - self.staged_rows - self.log.excess_rows

    def has_room(self, part: Part, rows: int) -> bool:
        """Can it take this many rows of a part now?  Those who are before it in the line come first."""
        return rows <= self.free_rows and not any(other.turn < part.turn for other in self.line)

    def want(self, part: Part, rows: int, now: float) -> None:
        """A chunk of it waits for room."""
        part.wanted_rows, part.wanted_since = rows, min(part.wanted_since, now)
        self.line.add(part)

    def take(self, part: Part, *chunk_rows: int) -> None:
        """Chunks of it are here."""
        self._withdraw(part)
        rows = sum(chunk_rows)
        part.rows += rows
        self.staged_rows += rows

    def remove(self, part: Part, now: float) -> None:
        """Its rows are staged no more."""
        self._withdraw(part)
        self.parts.remove(part)
        self.staged_rows -= part.rows
        if part.rows:
            self.quiet_since = now

    def _withdraw(self, part: Part) -> None:
        part.wanted_rows, part.wanted_since = 0, inf
        self.line.discard(part)

    def require_hope(self, part: Part, now: float) -> None:
        """Refuse a chunk that waits for room, if there can be none, or has been none for too long.

        While published rows take room that acknowledgements will free, the consumer is merely slow.

        Raises:
            StagingFullError: the rest of its batch leaves no room for it, or it is first in line, and nothing has left
                the area for ``ROOM_SECONDS``.
        """
        if self.log.excess_rows:
            self.quiet_since = now
        rows = self.least_rows(part)
        is_first = part is min(self.line, key=lambda other: other.turn)
        is_stuck = is_first and now - max(part.wanted_since, self.quiet_since) >= ROOM_SECONDS
        needed_rows = rows + part.wanted_rows
        if needed_rows > self.limit_rows or is_stuck:
            self._withdraw(part)
            query, batch, *_ = part.staging
            raise StagingFullError(
                channel=part.channel,
                query=query,
                batch=batch,
                rows=needed_rows,
                limit_rows=self.limit_rows,
                other_rows=self.staged_rows - rows,
            )

    def least_rows(self, part: Part) -> int:
        """Rows of this part's batch that must be here at once: of each partition, the attempt that has the fewest."""
        fewest: dict[int, int] = {}
        for other in self.parts:
            partition = other.staging.partition
            if other.staging[:2] == part.staging[:2] and partition != part.staging.partition:
                fewest[partition] = min(other.rows, fewest.get(partition, other.rows))
        return sum(fewest.values()) + part.rows


class Publication(NamedTuple):
    """What publishing does."""

    was_published: bool
    """Somebody has published this batch before, and nothing of it is taken now."""
    published: tuple[Part, ...]
    """In the order of their rows in their channels."""
    late: tuple[Part, ...]
    """Whose rows are thrown away."""
    forgotten: tuple[str, ...]
    """Queries whose last published batch is no longer remembered."""


@dataclass(slots=True, eq=False)
class StagedQuery:
    """What a query has staged and not published."""

    batches: dict[int, dict[Part, None]] = field(default_factory=dict)
    """By number, in the order in which they began; so are the parts of each."""
    heard: float = 0.0
    """When something was last heard of it."""

    @property
    def parts(self) -> Iterator[Part]:
        """The parts of all its batches."""
        return (part for parts in self.batches.values() for part in parts)

    def add(self, part: Part) -> None:
        """A part has begun."""
        self.batches.setdefault(part.staging.batch, {})[part] = None

    def remove(self, part: Part) -> None:
        """It is staged no more."""
        parts = self.batches[part.staging.batch]
        del parts[part]
        if not parts:
            del self.batches[part.staging.batch]

    @property
    def is_present(self) -> bool:
        """Does a stream of it go on?"""
        return any(part.state is PartState.OPEN for part in self.parts)


def require_key(staging: Staging) -> None:
    """Refuse a key of an attempt that is incomplete or too long.

    Raises:
        InvalidParametersError: which of its fields, and why.
    """
    require_batch(staging.query, staging.batch)
    if staging.partition < 0:
        raise InvalidParametersError(name="partition", value=staging.partition, rule="must be at least 0")
    if not staging.attempt:
        raise InvalidParametersError(name="attempt", value=staging.attempt, rule="must not be empty")
    require_name("attempt", staging.attempt)


def require_batch(query: str, batch: int) -> None:
    """Refuse a query or a batch that cannot exist.

    Raises:
        InvalidParametersError: the query has no name or too long a one, or the batch is below 0.
    """
    if not query:
        raise InvalidParametersError(name="query", value=query, rule="must not be empty")
    require_name("query", query)
    if batch < 0:
        raise InvalidParametersError(name="batch", value=batch, rule="must be at least 0")


def require_room(**limits: int) -> None:
    """Refuse limits without room.

    Raises:
        InvalidParametersError: there is no room for a row.
    """
    for name, rows in limits.items():
        if rows < 1:
            raise InvalidParametersError(name=name, value=rows, rule="must be at least 1")


MOST_QUERIES = 65_536
"""Each batch job without a key of its own is a query, so there must be an end to remembering."""

DEFAULT_TIMEOUT_SECONDS = 3_600.0

MOST_ATTEMPTS = 131_072
"""That are neither published nor given up, in an exchange: twice as many as one order publishes.  Each takes up to a
kilobyte, with or without rows."""


def _staging_of(query: str, batch: int, part: StagedPart) -> Staging:
    return Staging(query, batch, part.partition, part.attempt)


class StagingBooks:
    """The books of all channels of an exchange.  Not thread-safe; does no I/O.

    Spec: Stage, StageLate, Publish, AbortLate of SparkMicroBatch.
    Spec: OpenAttempt, EndAttempt, PrepareBatch, PublishBatch, DiscardAttempt, ExpireAttempts, LoseAttempt,
    RemoveChannel of Staging.
    """

    def __init__(
        self,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        most_queries: int = MOST_QUERIES,
        most_attempts: int = MOST_ATTEMPTS,
    ) -> None:
        """Nothing is staged.

        Args:
            timeout_seconds: how long a query may be silent before what it has staged is forgotten.
            most_queries: of how many queries the last published batch is remembered.
            most_attempts: that are neither published nor given up.
        """
        self._most_attempts = most_attempts
        self._timeout_seconds = timeout_seconds
        self._areas: dict[str, StagingArea] = {}
        self._parts: dict[tuple[str, Staging], Part] = {}
        """Parts that are not published."""
        self._queries: dict[str, StagedQuery] = {}
        """Queries that have parts which are not published."""
        self._most_queries = most_queries
        self._published: dict[str, int] = {}
        """The last published batch of each query, in the order of publication."""
        self._count = 0

    def add_channel(self, channel: str, limit_rows: int, log: ReplayBooks) -> StagingArea:
        """Make room for this many rows of a channel; its books take over the published ones.

        Raises:
            InvalidParametersError: there is no room for a row.
        """
        require_room(staging_rows=limit_rows)
        area = self._areas[channel] = StagingArea(limit_rows, log)
        return area

    def remove_channel(self, channel: str, now: float) -> tuple[Part, ...]:
        """Forget a channel and the rows that are staged for it."""
        dropped = tuple(self._areas[channel].parts)
        for part in dropped:
            self._drop(part, PartState.FORGOTTEN, "is forgotten: its channel was removed", now)
        del self._areas[channel]
        return dropped

    @property
    def has_staged(self) -> bool:
        """Is anything staged and not published?"""
        return bool(self._parts)

    @property
    def published_batches(self) -> Mapping[str, int]:
        """The last published batch of each query, in the order of publication."""
        return self._published

    def was_published(self, query: str, batch: int) -> bool:
        """Is there nothing to be published of this batch any more?"""
        return batch <= self._published.get(query, -1)

    def restore(self, published_batches: Mapping[str, int]) -> None:
        """Go on with the batches that an exchange before this one has published."""
        self._published.update(published_batches)

    def restore_part(
        self, channel: str, staging: Staging, chunk_rows: Sequence[int], now: float, *, is_prepared: bool = False
    ) -> Part:
        """Go on with what an exchange before this one had of an attempt, whether or not there is room for it.

        If the attempt had not ended, publishing says that rows are missing.
        """
        part = self._open(channel, staging, now)
        if part.is_kept:
            self._areas[channel].take(part, *chunk_rows)
            part.state = PartState.ENDED
            if is_prepared:
                self._prepare(part, now)
        return part

    # Attempts.

    def open(self, channel: str, staging: Staging, now: float) -> Part:
        """Begin an attempt.  One at a batch that was published is late: what it stages is thrown away.

        Raises:
            InvalidParametersError: the key is incomplete, or a name of it too long.
            StagedPartError: this attempt has begun before.
            TooManyAttemptsError: others must be published or given up first.
        """
        require_key(staging)
        if len(self._parts) >= self._most_attempts and not self.was_published(staging.query, staging.batch):
            raise TooManyAttemptsError(channel=channel, query=staging.query, limit=self._most_attempts)
        return self._open(channel, staging, now)

    def _open(self, channel: str, staging: Staging, now: float) -> Part:
        self._count += 1
        part = Part(channel, staging, self._count, self._batch_number(staging))
        if self.was_published(staging.query, staging.batch):
            part.state = PartState.LATE
            return part
        if (channel, staging) in self._parts:
            raise part.error("has begun before: an attempt stages its rows once")
        self._parts[channel, staging] = part
        self._areas[channel].parts.add(part)
        query = self._queries.setdefault(staging.query, StagedQuery())
        query.add(part)
        query.heard = now
        return part

    def stage(self, part: Part, rows: int, now: float) -> bool:
        """Take a chunk of ``rows`` in; False: there is no room, and the chunk waits in line, to be offered again.

        Nothing of a late part is kept.

        Raises:
            StagingFullError: the batch can never be here as a whole, or others have held the room for too long.
            StagedPartError: the attempt was forgotten meanwhile.
        """
        if part.state is PartState.LATE:
            return True
        self._require_open(part, now)
        area = self._areas[part.channel]
        if not area.has_room(part, rows):
            area.want(part, rows, now)
            area.require_hope(part, now)
            return False
        area.take(part, rows)
        return True

    def end(self, part: Part, now: float) -> None:
        """All rows of the attempt are here.

        Raises:
            StagedPartError: the attempt was forgotten meanwhile.
        """
        if part.state is not PartState.LATE:
            self._require_open(part, now)
            part.state = PartState.ENDED

    def break_off(self, part: Part, now: float) -> bool:
        """The stream of an attempt is over without its end: it is forgotten.  Did that change anything?"""
        if part.state is not PartState.OPEN:
            return False
        self._drop(part, PartState.FORGOTTEN, "is forgotten: its stream broke off", now)
        self._hear(part.staging.query, now)
        return True

    def _require_open(self, part: Part, now: float) -> None:
        if part.state is not PartState.OPEN:
            raise part.error(part.reason or f"takes nothing more: it is {part.state.value}")
        self._hear(part.staging.query, now)

    # Batches.

    def planning(self, query: str, batch: int, parts: Sequence[StagedPart]) -> Publication:
        """What publishing attempts, or preparing them, would do: all of them in the order of their partitions, or none.

        All other attempts at this batch, and at older ones of the query, will be late.  Without parts the batch is
        empty.  Nothing is changed yet, and meanwhile nothing of this query may be published or discarded.

        Raises:
            InvalidParametersError: the query has no name, or the batch is below 0.
            StagedPartError: one of them is not here as a whole, has other rows, or has a rival among them.
        """
        require_batch(query, batch)
        if self.was_published(query, batch):
            return Publication(True, (), (), ())
        chosen: dict[tuple[int, str], Part] = {}
        for stated in parts:
            part = self._find(query, batch, stated)
            if part.place in chosen:
                raise part.error("is named beside another attempt at the same, or twice")
            chosen[part.place] = part
        published = tuple(chosen[place] for place in sorted(chosen))
        return Publication(False, published, (), self._displaced_by(query))

    def prepare(self, planned: Publication, now: float) -> None:
        """What is planned to be published does not expire from now on; as for ``carry_out``."""
        for part in planned.published:
            if part.state is PartState.ENDED:
                self._prepare(part, now)
                self._hear(part.staging.query, now)

    def _prepare(self, part: Part, now: float) -> None:
        part.state, part.prepared_since = PartState.PREPARED, now

    def carry_out(self, query: str, batch: int, planned: Publication, now: float) -> Publication:
        """Carry out a planned publication that was meanwhile written down; return what was published.

        Meanwhile, attempts may have begun and broken off, and channels may have been removed with what was staged for
        them; but nothing of this query was published or discarded.
        """
        published = tuple(part for part in planned.published if part.is_whole)
        for part in published:
            self._remove(part, PartState.PUBLISHED, now)
            self._areas[part.channel].log.publish(part.rows)
        late = tuple(part for part in self._of_query(query) if part.staging.batch <= batch)
        for part in late:
            self._drop(part, PartState.LATE, "", now)
        for other in (*self._displaced_by(query), query):
            self._published.pop(other, None)
        self._published[query] = batch
        self._hear(query, now)
        return planned._replace(published=published, late=late)

    def discard(self, query: str, batch: int, parts: Sequence[StagedPart], now: float) -> tuple[Part, ...]:
        """Forget attempts at a batch that are not published; some of them may not be here.

        Attempts that are not named stay: others may run the batch again, and this order may come late.
        """
        dropped = self.unpublished(query, batch, parts)
        for part in dropped:
            self._drop(part, PartState.FORGOTTEN, "was discarded: its batch was given up", now)
        self._hear(query, now)
        return dropped

    def unpublished(self, query: str, batch: int, parts: Sequence[StagedPart]) -> tuple[Part, ...]:
        """Those of these attempts at a batch that are here, and not published."""
        keys = dict.fromkeys((part.channel, _staging_of(query, batch, part)) for part in parts)
        return tuple(self._parts[key] for key in keys if key in self._parts)

    def _find(self, query: str, batch: int, stated: StagedPart) -> Part:
        staging = _staging_of(query, batch, stated)
        part = self._parts.get((stated.channel, staging))
        if part is None:
            missing = "is not staged: it never came, its stream broke off, or it was forgotten or discarded since"
            raise Part(stated.channel, staging, 0, 0).error(missing)
        if part.state is PartState.OPEN:
            raise part.error("has not ended")
        if part.rows != stated.rows:
            raise part.error(f"has staged {part.rows} rows here, and should have {stated.rows}")
        return part

    def require_none_prepared(self, channel: str, deed: str, now: float, alternative: str = "") -> None:
        """Refuse to end or remove a channel with prepared rows: other exchanges may publish the rest of their batch.

        Args:
            channel: its name.
            deed: what is to be done to it: "ended" or "removed".
            now: the time.
            alternative: what else its user can do.

        Raises:
            PreparedRowsError: some are prepared.
        """
        prepared = self._prepared(channel)
        if not prepared:
            return
        oldest = min(prepared, key=lambda part: part.prepared_since)
        raise PreparedRowsError(
            channel=channel,
            deed=deed,
            rows=sum(part.rows for part in prepared),
            query=oldest.staging.query,
            batch=oldest.staging.batch,
            seconds=now - oldest.prepared_since,
            advice=f"wait for the query, or roll them back once it has been silent for {self._timeout_seconds:g} s "
            f"(permitflow channel rollback){alternative}",
        )

    def _prepared(self, channel: str) -> list[Part]:
        return [part for part in self._areas[channel].parts if part.state is PartState.PREPARED]

    # Time.

    def expire(self, now: float) -> tuple[Part, ...]:
        """Forget the attempts of queries without any sign for too long; to be called now and then."""
        silent = [query for query in self._queries.values() if self._is_silent(query, now) and not query.is_present]
        reason = f"is forgotten: nothing was heard of its query for {self._timeout_seconds:g} s"
        gone = tuple(part for query in silent for part in query.parts if part.state is not PartState.PREPARED)
        for part in gone:
            self._drop(part, PartState.FORGOTTEN, reason, now)
        return gone

    def in_doubt(self, channel: str, now: float) -> tuple[Part, ...]:
        """The prepared attempts of queries without any sign for too long: were they to be published?"""
        prepared = self._prepared(channel)
        return tuple(part for part in prepared if self._is_silent(self._queries[part.staging.query], now))

    def rollback(self, doubtful: Iterable[Part], now: float) -> None:
        """Forget what was in doubt, by an administrator's order: it cannot be published any more."""
        for part in doubtful:
            if part.state is PartState.PREPARED:  # else its channel was removed meanwhile
                self._drop(part, PartState.FORGOTTEN, "was rolled back by an administrator", now)

    def _is_silent(self, query: StagedQuery, now: float) -> bool:
        return now - query.heard > self._timeout_seconds

    # Books.

    def _of_query(self, query: str) -> Iterable[Part]:
        return self._queries[query].parts if query in self._queries else ()

    def _batch_number(self, staging: Staging) -> int:
        """The number of the first attempt at anything of this batch; it may be the one that is counted now."""
        query = self._queries.get(staging.query)
        others = () if query is None else query.batches.get(staging.batch, ())
        return next((part.batch_number for part in others), self._count)

    def _displaced_by(self, query: str) -> tuple[str, ...]:
        """Queries that have not published for longest, and must make room when this query publishes."""
        excess = len(self._published) + (query not in self._published) - self._most_queries
        return tuple(islice((other for other in self._published if other != query), max(0, excess)))

    def _drop(self, part: Part, state: PartState, reason: str, now: float) -> None:
        self._remove(part, state, now)
        part.reason = reason

    def _remove(self, part: Part, state: PartState, now: float) -> None:
        """It is staged no more."""
        self._areas[part.channel].remove(part, now)
        del self._parts[part.channel, part.staging]
        part.state = state
        query = self._queries[part.staging.query]
        query.remove(part)
        if not query.batches:
            del self._queries[part.staging.query]

    def _hear(self, query: str, now: float) -> None:
        """It has given a sign; what a clock or an administrator removes is none."""
        if query in self._queries:
            self._queries[query].heard = now
