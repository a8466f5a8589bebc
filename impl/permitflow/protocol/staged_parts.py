"""What is staged: one attempt at a part of a batch, and the room that a channel has for such."""

from collections.abc import Callable, Iterator
from enum import StrEnum
from math import inf
from typing import NamedTuple

from permitflow.errors import InvalidParametersError, StagedPartError, StagingFullError
from permitflow.protocol.frames import Staging
from permitflow.protocol.names import require_name
from permitflow.protocol.replay import ReplayBooks

__all__ = [
    "YIELD_SECONDS",
    "Part",
    "PartState",
    "Publication",
    "StagedQuery",
    "StagingArea",
    "require_batch",
    "require_key",
    "require_room",
]

# Of two attempts at the same, one is mostly killed at once: the other should not push it out before.
YIELD_SECONDS = 10.0


class PartState(StrEnum):
    """How far an attempt has come."""

    OPEN = "open"
    """Its stream goes on."""
    ENDED = "ended"
    """All of its rows are here: it can be published."""
    PUBLISHED = "published"
    """Its rows are part of the channel."""
    LATE = "late"
    """Its batch was published without it: what it has is thrown away, and so is what comes."""
    FORGOTTEN = "forgotten"
    """Its rows are gone, and nobody has published them."""


class Part:
    """One attempt at one partition of a batch, as far as it goes into one channel.  ``StagingBooks`` changes it."""

    __slots__ = (
        "batch_number",
        "channel",
        "chunks",
        "number",
        "reason",
        "rows",
        "staging",
        "state",
        "wanted_rows",
        "wanted_since",
    )

    def __init__(self, channel: str, staging: Staging, number: int, batch_number: int) -> None:
        """Numbers count up: this attempt's, and that of the first attempt at anything of its batch."""
        self.channel = channel
        self.staging = staging
        self.number = number
        self.batch_number = batch_number
        self.state = PartState.OPEN
        self.rows = 0
        """That were staged."""
        self.chunks = 0
        self.reason = ""
        """Why it was forgotten."""
        self.wanted_rows = 0
        """Of the chunk that waits for room; 0: none does."""
        self.wanted_since = inf

    @property
    def place(self) -> tuple[int, str]:
        """What one attempt of a batch is published at: the order of its rows in the channel."""
        return self.staging.partition, self.channel

    @property
    def is_kept(self) -> bool:
        """Is what it stages kept?"""
        return self.state is PartState.OPEN

    @property
    def turn(self) -> tuple[int, float, int]:
        """Who is first in line: of the oldest batch, who has waited longest."""
        return self.batch_number, self.wanted_since, self.number

    def error(self, reason: str) -> StagedPartError:
        """What is wrong with it."""
        return StagedPartError(channel=self.channel, **self.staging._asdict(), reason=reason)

    def __repr__(self) -> str:
        return f"Part({self.channel!r}, {self.staging!r}, {self.state.value}, rows={self.rows})"


class StagingArea:
    """The room of one channel for staged rows; published rows that are beyond the channel's permits take it as well."""

    __slots__ = ("limit_rows", "line", "log", "parts", "quiet_since", "staged_rows")

    def __init__(self, limit_rows: int, log: ReplayBooks) -> None:
        """Empty; ``log`` are the books of the channel."""
        self.limit_rows = limit_rows
        self.log = log
        self.parts: set[Part] = set()
        """Not published."""
        self.line: set[Part] = set()
        """Those with a chunk that waits for room."""
        self.staged_rows = 0
        self.quiet_since = -inf
        """When rows were given up for the last time, or published ones were in the way."""

    @property
    def free_rows(self) -> int:
        """How many more it takes."""
        return self.limit_rows - self.staged_rows - self.log.excess_rows

    def has_room(self, part: Part, rows: int) -> bool:
        """Can it take so many rows of a part now?  Those who are before it in the line come first."""
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
        part.chunks += len(chunk_rows)
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

    def require_fitting(self, part: Part, rows: int) -> None:
        """Refuse a chunk that could never be here with the rest of its batch.

        Raises:
            StagingFullError: it could not.
        """
        least_rows, limit_rows = self.least_rows(part) + rows, self.limit_rows
        if least_rows > limit_rows:
            query, batch, *_ = part.staging
            raise StagingFullError(
                channel=part.channel, query=query, batch=batch, rows=least_rows, limit_rows=limit_rows
            )

    def least_rows(self, part: Part) -> int:
        """Rows of this part's batch that must be here at once: of each partition, the attempt that has the fewest."""
        fewest: dict[int, int] = {}
        for other in self.parts:
            partition = other.staging.partition
            if other.staging[:2] == part.staging[:2] and partition != part.staging.partition:
                fewest[partition] = min(other.rows, fewest.get(partition, other.rows))
        return sum(fewest.values()) + part.rows

    def giving_way(self, now: float, is_silent: Callable[[Part], bool]) -> Iterator[Part]:
        """Who is to be forgotten, so that who is first in line can go on; asks again after each of them.

        Nobody, while published rows take room that acknowledgements will free: the consumer is slow, and that is all.
        Of older batches only those whose query ``is_silent``: it may have died.
        """
        if self.log.excess_rows:
            self.quiet_since = now
        if not self.line or self.log.excess_rows:
            return
        first = min(self.line, key=lambda part: part.turn)
        if now - max(first.wanted_since, self.quiet_since) < YIELD_SECONDS:
            return
        silent = [
            part for part in self.parts if part.rows and part.batch_number < first.batch_number and is_silent(part)
        ]
        for other in [*self._rivals(first), *self._younger(first), *silent]:
            if first.wanted_rows <= self.free_rows:
                return
            yield other

    def _rivals(self, part: Part) -> list[Part]:
        """Older attempts at the same, of which one at most will be published."""
        same = [other for other in self.parts if other.staging[:3] == part.staging[:3] and other.rows]
        return sorted((other for other in same if other.number < part.number), key=lambda other: other.number)

    def _younger(self, part: Part) -> list[Part]:
        """Of younger batches: the youngest first, and of it those first whose producers can be told."""
        younger = [other for other in self.parts if other.batch_number > part.batch_number and other.rows]
        return sorted(younger, key=lambda other: (-other.batch_number, other.state is PartState.ENDED, -other.number))


class Publication(NamedTuple):
    """What publishing does."""

    was_published: bool
    """Somebody has published this batch before, and nothing of it is taken now."""
    published: tuple[Part, ...]
    """In the order of their rows in their channels."""
    late: tuple[Part, ...]
    """Whose rows are thrown away."""
    forgotten: tuple[str, ...]
    """Queries whose last published batch is remembered no longer."""


class StagedQuery:
    """What a query has staged and not published."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.parts: dict[Part, None] = {}
        """In the order in which they began."""
        self.heard = 0.0
        """When something was last heard of it."""

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
    """Refuse what is no batch.

    Raises:
        InvalidParametersError: the query has no name or too long a one, or the batch is below 0.
    """
    if not query:
        raise InvalidParametersError(name="query", value=query, rule="must not be empty")
    require_name("query", query)
    if batch < 0:
        raise InvalidParametersError(name="batch", value=batch, rule="must be at least 0")


def require_room(limit_rows: int) -> None:
    """Refuse an area without room.

    Raises:
        InvalidParametersError: there is no room for a row.
    """
    if limit_rows < 1:
        raise InvalidParametersError(name="staging_rows", value=limit_rows, rule="must be at least 1")
