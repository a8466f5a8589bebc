"""Books of staged rows, and the words to use them in, for tests."""

from permitflow.protocol.control import StagedPart
from permitflow.protocol.frames import Staging
from permitflow.protocol.replay import DEFAULT_CONSUMER, ReplayBooks
from permitflow.protocol.staged_parts import YIELD_SECONDS
from permitflow.protocol.staging import Part, StagingArea, StagingBooks

LIMIT_ROWS = 10
TIMEOUT_SECONDS = 100.0
LATER = YIELD_SECONDS + 1


class Exchange:
    """Books of two channels, and the words to use them in."""

    def __init__(self) -> None:
        """Nothing is staged."""
        self.books = StagingBooks(TIMEOUT_SECONDS)
        self.logs = {name: ReplayBooks(row_permits=0) for name in "ab"}
        """Of channels without permits: all that is published takes room, until it is acknowledged."""
        self.areas: dict[str, StagingArea] = {
            name: self.books.add_channel(name, LIMIT_ROWS, log) for name, log in self.logs.items()
        }
        self._published: list[Part] = []

    def open(
        self, partition: int = 0, attempt: str = "x", *, batch: int = 0, query: str = "q", channel: str = "a"
    ) -> Part:
        """An attempt that has begun."""
        return self.books.open(channel, Staging(query, batch, partition, attempt), now=0.0)

    def staged(
        self, rows: int, partition: int = 0, attempt: str = "x", *, query: str = "q", channel: str = "a"
    ) -> Part:
        """An attempt at batch 0 that has ended."""
        part = self.open(partition, attempt, query=query, channel=channel)
        assert self.books.stage(part, rows, now=0.0)
        self.books.end(part, now=0.0)
        return part

    def publish(self, *parts: Part, batch: int = 0, query: str = "q") -> bool:
        """Was it published before?"""
        stated = [StagedPart(part.channel, part.staging.partition, part.staging.attempt, part.rows) for part in parts]
        publication = self.books.publish(query, batch, stated, now=0.0)
        self._published += publication.published
        return publication.was_published

    def acknowledge(self, rows: int, channel: str = "a") -> None:
        """A consumer needs so many rows less."""
        log = self.logs[channel]
        log.acknowledge(DEFAULT_CONSUMER, log.first_kept_row + rows)

    def drain(self, channel: str = "a") -> list[Part]:
        """Whose rows have been published since this was asked last, in order; all of them are acknowledged."""
        found = [part for part in self._published if part.channel == channel and part.rows]
        self._published = [part for part in self._published if part.channel != channel]
        assert self.logs[channel].kept_rows == sum(part.rows for part in found)
        self.acknowledge(self.logs[channel].kept_rows, channel)
        return found
