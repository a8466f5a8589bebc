"""The model leads the books of a channel that keeps its rows: what each consumer may read, and when rows are forgotten.

The exchange's store has what the books say; of streams and consumers there is what they would do.
"""

from dataclasses import dataclass, replace

import pytest

from permitflow.errors import RowsExpiredError, RowsForgottenError, RowsNotThereError
from permitflow.exchange.books.replay import ReplayBooks
from permitflow_model.kept_channel import SYSTEM, Consumer, Parameters, Phase, State
from permitflow_model.kernel.family import Members
from permitflow_testing.moves import ActionRefused, Divergence, require, walk

TWO = Parameters(consumers=2, row_permits=2, horizon=3, faults=1)
SMALL = Parameters(consumers=1, row_permits=1, staging_rows=1, horizon=2, expires=True, faults=1)
WALKS = {
    "two consumers": TWO,
    "small": SMALL,
    "published": replace(SMALL, row_permits=2, horizon=4),
    "two consumers, and rows expire": Parameters(consumers=2, row_permits=1, horizon=2, expires=True, faults=1),
}


@dataclass
class Reader:
    """A consumer, and its stream."""

    name: str
    handled: int = 0
    skipped: int = 0
    is_purged: bool = False
    phase: Phase = "away"
    at: int = 0
    """The row of its stream that it takes next."""
    sent: int = 0

    def stop(self) -> None:
        self.at = self.sent = 0
        if self.phase == "reading":
            self.phase = "away"


class DrivenLog:
    """Its books decide; a row is its number."""

    books_type: type[ReplayBooks] = ReplayBooks

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.readers = [Reader(f"consumer {number}") for number in range(parameters.consumers)]
        self.books = self.books_type(parameters.row_permits, [reader.name for reader in self.readers])
        self.ended = False
        self.faults = self.misplaced = 0
        self.rows: dict[int, str] = {}
        """What the store has."""

    def fail(self) -> None:
        require(self.faults < self.parameters.faults)
        self.faults += 1

    def forget(self) -> None:
        """The store keeps what the books keep."""
        self.rows = {row: found for row, found in self.rows.items() if row >= self.books.first_kept_row}

    def come(self) -> None:
        require(not self.ended and self.books.next_row < self.parameters.horizon)

    def produce(self) -> None:
        self.come()
        row = self.books.produce(1)
        self.rows[row] = f"row {row}"

    def produce_batch(self) -> None:
        """Its room is that of the staging area, which has books of its own."""
        self.come()
        require(self.books.excess_rows < self.parameters.staging_rows or self.books.has_room(1))
        row = self.books.publish(1)
        self.rows[row] = f"row {row}"

    def end_log(self) -> None:
        require(not self.ended)
        self.ended = True

    def begin_reading(self, name: int) -> None:
        reader = self.readers[name]
        require(reader.phase == "away")
        try:
            reader.at = reader.sent = self.books.require_readable(reader.name, reader.handled)
        except (RowsExpiredError, RowsForgottenError):
            reader.phase = "told"
        else:
            reader.phase = "reading"

    def send_row(self, name: int) -> None:
        reader = self.readers[name]
        require(reader.phase == "reading" and reader.sent < self.books.next_row)
        try:
            self.books.require_readable(reader.name, reader.sent)
        except (RowsExpiredError, RowsForgottenError):
            reader.stop()
            return
        self.misplaced += reader.sent not in self.rows
        reader.sent += 1

    def take_row(self, name: int) -> None:
        reader = self.readers[name]
        require(reader.phase == "reading" and reader.at < reader.sent)
        self.misplaced += reader.at != reader.handled
        reader.at += 1
        reader.handled += 1

    def acknowledge(self, name: int, row: int) -> None:
        require(row <= self.readers[name].handled)
        self.books.acknowledge(self.readers[name].name, row)
        self.forget()

    def skip_rows(self, name: int) -> None:
        reader = self.readers[name]
        require(reader.phase == "told")
        try:
            self.books.require_readable(reader.name, reader.handled)
        except (RowsExpiredError, RowsForgottenError) as error:
            row = error.first_kept_row
        reader.skipped += row - reader.handled
        reader.handled, reader.phase, reader.is_purged = row, "away", False
        self.books.acknowledge(reader.name, row)
        self.forget()

    def read_log_end(self, name: int) -> None:
        reader = self.readers[name]
        require(reader.phase == "reading" and self.ended and reader.at == reader.sent == self.books.next_row)
        reader.stop()
        reader.phase = "done"

    def lose_reading(self, name: int) -> None:
        require(self.readers[name].phase == "reading")
        self.fail()
        self.readers[name].stop()

    def change_exchange(self) -> None:
        """The next one has what the store has."""
        self.fail()
        books = self.books
        self.books = self.books_type(
            self.parameters.row_permits,
            [reader.name for reader in self.readers],
            next_row=books.next_row,
            acknowledged=books.acknowledged,
            expired_row=books.expired_row,
        )
        for reader in self.readers:
            reader.stop()

    def expire(self, row: int) -> None:
        require(self.parameters.expires)
        try:
            require(self.books.expire(row) > 0)
        except RowsNotThereError as error:
            raise ActionRefused(str(error)) from error
        self.forget()

    def purge_consumer(self, name: int) -> None:
        reader, books = self.readers[name], self.books
        require(self.parameters.expires and books.acknowledged_by(reader.name) < books.next_row)
        books.acknowledge(reader.name, books.next_row)
        reader.is_purged = True
        self.forget()

    def done(self) -> None:
        require(all(reader.phase == "done" for reader in self.readers))

    def observe(self) -> State:
        books = self.books
        assert sorted(self.rows) == [*range(books.first_kept_row, books.next_row)]
        assert books.kept_rows == len(self.rows)
        return State(
            next=books.next_row,
            first=books.first_kept_row,
            expired=books.expired_row,
            ended=self.ended,
            faults=self.faults,
            misplaced=self.misplaced,
            consumers=Members(
                Consumer(
                    acknowledged=books.acknowledged_by(reader.name),
                    handled=reader.handled,
                    taken=reader.handled - reader.skipped,
                    skipped=reader.skipped,
                    is_purged=reader.is_purged,
                    phase=reader.phase,
                    at=reader.at,
                    sent=reader.sent,
                )
                for reader in self.readers
            ),
        )


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "small" else pytest.mark.long) for name in WALKS]
)
def test_the_books_take_every_edge_of_the_model(name: str) -> None:
    done = walk(SYSTEM, DrivenLog(WALKS[name]), WALKS[name])
    assert min(done.states, done.edges, done.refusals) > 600


class OfFastest(ReplayBooks):
    """What one consumer has acknowledged is gone."""

    @property
    def first_kept_row(self) -> int:
        """Of the fastest."""
        return max(self.expired_row, *self.acknowledged.values())


class Silent(ReplayBooks):
    """A reader of what has expired gets the rows behind it."""

    def require_readable(self, consumer: str, from_row: int | None = None, to_row: int | None = None) -> int:
        """Without an error."""
        start = max(from_row or 0, self.expired_row, self.acknowledged_by(consumer))
        return super().require_readable(consumer, start, to_row)


class Moving(ReplayBooks):
    """Positions move with what expires: nobody hears of it."""

    def expire(self, row: int) -> int:
        """It is as if all had acknowledged it."""
        freed = super().expire(row)
        for name in self.acknowledged:
            super().acknowledge(name, row)
        return freed


@pytest.mark.parametrize(("wrong", "of"), [(OfFastest, "two"), (Silent, "small"), (Moving, "small")])
def test_the_walk_notices_books_that_are_wrong(wrong: type[ReplayBooks], of: str) -> None:
    parameters = SMALL if of == "small" else replace(TWO, horizon=1)
    driven = DrivenLog(parameters)
    driven.books_type = wrong
    driven.books = wrong(parameters.row_permits, [reader.name for reader in driven.readers])
    with pytest.raises((Divergence, AssertionError)):
        walk(SYSTEM, driven, parameters)
