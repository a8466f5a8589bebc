"""The model of a channel that keeps its rows as the judge of each step of a simulated one.

The books of the exchange tell when rows are kept, acknowledged or gone, and when a consumer may read; consumers tell
what they take.  Each is a step of ``permitflow_model.kept_channel``, and afterwards the books and the model must count
the same.  Three things are seen later than they happen, or not at all:

- A row is sent as soon as there is a stream for it: what a consumer may take is at most what was sent to it.
- A consumer that comes again reads what it has not acknowledged, and takes no row twice: the model's stream begins
  where it goes on.
- What the store has when an exchange is started again, and the last one did not live to count, has happened before.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from permitflow.errors import RowsExpiredError
from permitflow.exchange.books.replay import ReplayBooks
from permitflow_model.kept_channel import SYSTEM, Parameters, State, first_of
from permitflow_model.kernel.guards import false_guard
from permitflow_model.kernel.system import Disabled

UNLIMITED: Final = 1 << 62


class KeptOracle:
    """Judges one channel over all lives of its exchange."""

    def __init__(
        self,
        parameters: Parameters,
        consumers: Sequence[str],
        broken: list[str],
        key_of: Callable[[State], Any] | None = None,
    ) -> None:
        """Nothing has happened yet.

        Args:
            parameters: of the model.
            consumers: the names of the model's.
            broken: gets what the model does not allow; after the first, nothing more is judged.
            key_of: gives a state the form in which it is counted; None: it is not.
        """
        self.steps: Counter[str] = Counter()
        self.states: set[Any] = set()
        self._parameters, self._state = parameters, SYSTEM.initial(parameters)
        self._names = {name: number for number, name in enumerate(consumers)}
        self._broken, self._key_of = broken, key_of
        self._books: WatchedBooks | None = None
        """Those of the exchange that lives; one that is dead says nothing any more."""
        self.published_rows = 0
        """How many rows the store has of published batches, whenever an exchange is started."""

    def books(self, limit_rows: int, consumers: Sequence[str], **found: Any) -> "WatchedBooks":
        """The books of an exchange that is started; instead of ``ReplayBooks``."""
        books = WatchedBooks(self, limit_rows, consumers, **found)
        before, self._books = self._books, books
        self._catch_up(books)
        if before is not None:
            self._perform("ChangeExchange")
        self.compare(books)
        return books

    def _catch_up(self, books: ReplayBooks) -> None:
        if books.expired_row > self._state.expired:
            self._perform("Expire", books.expired_row)
        for name, row in books.acknowledged.items():
            if row > self._state.consumers.get(self._names[name]).acknowledged:
                self._perform("Acknowledge", self._names[name], row)
        batch_rows = self.published_rows - self.steps["ProduceBatch"]
        self.keep(books, books.next_row - self._state.next - batch_rows, "Produce")
        self.keep(books, batch_rows, "ProduceBatch")

    # What the books tell.

    def keep(self, books: ReplayBooks, rows: int, action: str) -> None:
        """Rows are kept; those who read are sent them."""
        if books is self._books:
            for _ in range(rows):
                self._perform(action)
                for number in self._names.values():
                    self._send(number)

    def acknowledge(self, books: ReplayBooks, consumer: str, row: int) -> None:
        """A consumer needs no row below this one."""
        if books is self._books:
            self._perform("Acknowledge", self._names[consumer], row)
            self.compare(books)

    def expire(self, books: ReplayBooks, row: int) -> None:
        """Rows below this one are gone."""
        if books is self._books:
            self._perform("Expire", row)
            self.compare(books)

    def begin(self, books: ReplayBooks, consumer: str) -> None:
        """A consumer may read."""
        number = self._names[consumer]
        if books is self._books and self._state.consumers.get(number).phase == "away":
            self._perform("BeginReading", number)
            if self._state.consumers.get(number).phase == "told":
                self._broken.append(f"{consumer} reads on, though rows are gone: {self._state}")
            self._send(number)

    def tell(self, books: ReplayBooks, consumer: str) -> None:
        """A consumer is told that rows are gone, which it goes on behind."""
        number = self._names[consumer]
        one = self._state.consumers.get(number)
        if books is self._books and one.handled < first_of(one, self._state.expired):
            self.lose(consumer)
            self._perform("BeginReading", number)
            self._perform("SkipRows", number)

    def compare(self, books: ReplayBooks) -> None:
        """Do the books count as the model does?"""
        state = self._state
        # Who was told that rows are gone may not have acknowledged them yet: they are gone all the same.
        positions = {name: first_of(state.consumers.get(number), state.expired) for name, number in self._names.items()}
        ours = state.next, state.first, state.expired, positions
        gone = books.expired_row
        theirs = books.next_row, books.first_kept_row, gone, {n: max(r, gone) for n, r in books.acknowledged.items()}
        if ours != theirs and not self._broken:
            self._broken.append(f"the exchange counts {theirs}, and the model {ours}")

    # What consumers tell.

    def lose(self, consumer: str) -> None:
        """A consumer has no stream."""
        if self._state.consumers.get(self._names[consumer]).phase == "reading":
            self._perform("LoseReading", self._names[consumer])

    def take(self, consumer: str, row: int) -> None:
        """A consumer gets a row, which it may have had before."""
        number = self._names[consumer]
        if row == self._state.consumers.get(number).handled:
            self._begin_again(consumer)
        handled = self._state.consumers.get(number).handled
        if row == handled:
            self._perform("TakeRow", number)
        elif row > handled and not self._broken:
            self._broken.append(f"{consumer} gets row {row}, and the next one is {handled}")

    def end(self, consumer: str) -> None:
        """A consumer reads the end; before the first one does, nobody knows when it was."""
        if not self._state.ended:
            self._perform("EndLog")
        if self._state.consumers.get(self._names[consumer]).phase != "done":
            self._begin_again(consumer)
            self._perform("ReadLogEnd", self._names[consumer])

    def _begin_again(self, consumer: str) -> None:
        """What comes late of a stream that the exchange has lost might as well come of the next one."""
        if self._books is not None:
            self.tell(self._books, consumer)
            self.begin(self._books, consumer)

    # The model.

    def _send(self, number: int) -> None:
        while not self._broken:
            one = self._state.consumers.get(number)
            if one.phase != "reading" or one.sent == self._state.next:
                return
            self._perform("SendRow", number)

    def _perform(self, action: str, *arguments: int) -> None:
        if self._broken:
            return
        try:
            self._state = SYSTEM.perform(action, self._state, self._parameters, *arguments)
        except Disabled as error:
            self._broken.append(f"{action}{arguments} is no step of the model: {false_guard(error)}; {self._state}")
            return
        self.steps[action] += 1
        if self._key_of is not None:
            self.states.add(self._key_of(self._state))
        if broken := SYSTEM.broken_invariants(self._state, self._parameters):
            self._broken.append(f"after {action}{arguments}: {', '.join(broken)}; {self._state}")


class WatchedBooks(ReplayBooks):
    """Tells the oracle what it notes."""

    def __init__(self, oracle: KeptOracle, limit_rows: int, consumers: Sequence[str], **found: Any) -> None:
        """See ``ReplayBooks``."""
        super().__init__(limit_rows, consumers, **found)
        self._oracle = oracle

    def produce(self, rows: int) -> int:
        """See ``ReplayBooks``."""
        first = super().produce(rows)
        self._oracle.keep(self, rows, "Produce")
        self._oracle.compare(self)
        return first

    def publish(self, rows: int) -> int:
        """See ``ReplayBooks``."""
        first = super().publish(rows)
        self._oracle.keep(self, rows, "ProduceBatch")
        self._oracle.compare(self)
        return first

    def acknowledge(self, consumer: str, row: int) -> int:
        """See ``ReplayBooks``."""
        freed = super().acknowledge(consumer, row)
        self._oracle.acknowledge(self, consumer, row)
        return freed

    def expire(self, row: int) -> int:
        """See ``ReplayBooks``."""
        freed = super().expire(row)
        if freed:
            self._oracle.expire(self, row)
        return freed

    def require_readable(self, consumer: str, from_row: int | None = None, to_row: int | None = None) -> int:
        """See ``ReplayBooks``."""
        try:
            start = super().require_readable(consumer, from_row, to_row)
        except RowsExpiredError:
            self._oracle.tell(self, consumer)
            raise
        self._oracle.begin(self, consumer)
        return start
