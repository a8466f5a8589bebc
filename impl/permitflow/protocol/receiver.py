"""The receiver's end of a channel: what has arrived, what has been consumed, which permits go back and when.

The inbox has no limit of its own; the permits bound it.  Taking a message out (``take``) and having consumed it
(``consume``) are two steps: permits return only for what was consumed, so a consumer that holds a message holds
its permits.

Nobody else writes down when a message is accepted or a permit returns, or changes what is counted here.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import accumulate, islice, repeat, starmap
from typing import Generic, TypeVar

from permitflow.errors import LocalProtocolError, OverspendError, WouldBlock
from permitflow.protocol.messages import Kind, Message, Permits, message_of
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.recording import Recorder

__all__ = ["PermitReceiver"]

T = TypeVar("T")

_CHUNK = Kind.CHUNK  # reading an enumeration's attribute costs more than the whole decision


class PermitReceiver(Generic[T]):
    """Keeps what has arrived, and collects the permits of what was consumed.

    Not thread-safe; does no I/O.  Where finalizers run in the middle of a call, because objects were made or freed, the
    books stay right: what changes the inbox makes no object meanwhile, and payloads are freed last.

    Spec: PermitChannel, the variables inbox and unreturned.
    """

    __slots__ = (
        "_barrier_permits",
        "_batch",
        "_consumed_chunks",
        "_consumed_rows",
        "_costs",
        "_due_barriers",
        "_due_rows",
        "_due_watermarks",
        "_inbox_rows",
        "_payloads",
        "_peak_inbox_rows",
        "_record",
        "_row_permits",
        "_taken",
        "_unreturned",
        "_watermark_permits",
        "parameters",
    )

    def __init__(self, parameters: ChannelParameters, *, record: Recorder | None = None) -> None:
        """Start empty."""
        self.parameters = parameters
        self._consumed_chunks = self._consumed_rows = 0
        self._inbox_rows = 0
        self._peak_inbox_rows = 0
        self._batch = parameters.permit_batch
        self._row_permits, self._barrier_permits = parameters.row_permits, parameters.barrier_permits
        self._watermark_permits = 1
        # The inbox.  A cost of 0 marks a payload that is a whole message: all but chunks that cost their rows.
        # Garbage collection would look at every message again and again, at numbers and payloads it does not.
        self._payloads: deque[T | Message[T]] = deque()
        self._costs: deque[int] = deque()
        self._taken = self._unreturned = 0
        self._due_rows = self._due_barriers = self._due_watermarks = 0
        self._record = record

    # What there is.

    @property
    def granted(self) -> Permits:
        """Permits that the peer may still spend, as far as this end knows."""
        return Permits(self._row_permits, self._barrier_permits, self._watermark_permits)

    @property
    def granted_rows(self) -> int:
        """Row permits that the peer may still spend."""
        return self._row_permits

    @property
    def inbox(self) -> tuple[Message[T], ...]:
        """What has arrived and was not consumed, oldest first; what the application has taken is at the front."""
        return tuple(map(message_of, self._payloads, self._costs))

    @property
    def payloads(self) -> Sequence[T | Message[T]]:
        """As ``inbox``, to look at: the payload of a chunk that costs its rows, else the message."""
        return self._payloads

    @property
    def inbox_rows(self) -> int:
        """Rows that have arrived and are not consumed yet."""
        return self._inbox_rows

    @property
    def peak_inbox_rows(self) -> int:
        """The most rows that were ever here and not consumed."""
        return self._peak_inbox_rows

    @property
    def consumed_chunks(self) -> int:
        """Chunks that were consumed."""
        return self._consumed_chunks

    @property
    def consumed_rows(self) -> int:
        """Rows of the chunks that were consumed."""
        return self._consumed_rows

    @property
    def is_empty(self) -> bool:
        """Has everything that arrived been consumed?"""
        return not self._costs

    @property
    def untaken(self) -> int:
        """Messages that the application has not taken yet."""
        return len(self._costs) - self._taken

    @property
    def has_untaken(self) -> bool:
        """Is there a message that the application has not taken yet?"""
        return self._taken < len(self._costs)

    @property
    def unreturned(self) -> int:
        """Row permits of consumed chunks that have not been returned yet."""
        return self._unreturned

    def gauges(self) -> dict[str, int]:
        """What only permits count, by name: ``GAUGE_HELP`` has the words."""
        return {"unreturned_permits": self._unreturned}

    @property
    def due_rows(self) -> int:
        """Row permits to give back now."""
        return self._due_rows

    @property
    def is_due(self) -> bool:
        """Are there permits to give back now?  ``take_due`` has them."""
        return bool(self._due_rows or self._due_barriers or self._due_watermarks)

    @property
    def is_idle(self) -> bool:
        """Has the consumer caught up while a residue is left to return?"""
        return not self._costs and self._unreturned > 0

    @property
    def has_returns(self) -> bool:
        """May permits go back now: because they are due, or a residue because all that came was consumed?"""
        return self.is_due or self.is_idle

    # Arriving.

    def deliver(self, message: Message[T]) -> None:
        """Accept a message from the wire.

        Raises:
            OverspendError: the peer had no permits for it; nothing was changed.

        Spec: Deliver.
        """
        if message.kind is _CHUNK:
            is_plain = message.cost == message.rows
            entry = message.payload if is_plain else message
            self._accept((entry,), (message.cost,), (message.cost if is_plain else 0,), message.rows)
        else:
            self._accept_control(message)
        if self._record is not None:
            self._record("Deliver", (message.rows, *message.held()), self._counters())

    def deliver_many(self, payloads: Sequence[T], rows: Sequence[int]) -> None:
        """Accept chunks from the wire that travel for as many permits as they have rows.

        Raises:
            OverspendError: the peer had no permits for all of them; nothing was changed.

        Spec: Deliver.
        """
        if rows:
            self._accept(payloads, rows, rows, sum(rows))
            if self._record is not None:
                self._record_delivered(self._record, rows)

    def _accept(
        self, entries: Sequence[T | Message[T]], costs: Sequence[int], entry_costs: Sequence[int], rows: int
    ) -> None:
        """The guard and the update of Deliver for chunks: each holds a permit, and all no more than there are."""
        permits = sum(costs)
        if permits > self._row_permits or min(costs) < 1:
            cost = permits if permits > self._row_permits else min(costs)
            raise OverspendError(permit_class="rows", cost=cost, available=self._row_permits)
        new_entries, new_costs = iter(entries), iter(entry_costs)
        self._row_permits -= permits
        self._inbox_rows += rows
        if self._inbox_rows > self._peak_inbox_rows:
            self._peak_inbox_rows = self._inbox_rows
        self._payloads.extend(new_entries)
        self._costs.extend(new_costs)

    def _accept_control(self, message: Message[T]) -> None:
        """The guard and the update of Deliver for barriers and watermarks."""
        is_barrier = message.kind is Kind.BARRIER
        available = self._barrier_permits if is_barrier else self._watermark_permits
        if not 1 <= message.cost <= available:
            permit_class = "barriers" if is_barrier else "watermarks"
            raise OverspendError(permit_class=permit_class, cost=message.cost, available=available)
        if is_barrier:
            self._barrier_permits -= message.cost
        else:
            self._watermark_permits -= message.cost
        self._payloads.append(message)
        self._costs.append(0)

    def _record_delivered(self, record: Recorder, rows: Sequence[int]) -> None:
        """Tell the recorder of chunks that have come at once as if they had come one by one."""
        messages, here = len(self._costs) - len(rows), self._inbox_rows - sum(rows)
        for count, (cost, sum_rows) in enumerate(zip(rows, accumulate(rows), strict=True), start=1):
            record("Deliver", (cost, cost, 0, 0), (messages + count, here + sum_rows, self._unreturned))

    def replace_newest(self, payloads: Sequence[T | Message[T]]) -> None:
        """Let these stand where the newest so many of ``payloads`` do; nothing that is counted changes."""
        new_payloads = iter(payloads)
        for _ in range(len(payloads)):
            self._payloads.pop()
        self._payloads.extend(new_payloads)

    # Taking.

    def hold(self, count: int) -> None:
        """Note that the application has so many more of the messages here; their permits stay.

        Raises:
            WouldBlock: there are not so many that it has not taken yet.
        """
        if count > self.untaken:
            raise WouldBlock("no message is here")
        self._taken += count

    def take(self) -> Message[T]:
        """Hand the oldest message that was not taken yet to the application; its permits stay.

        Raises:
            WouldBlock: there is none.
        """
        position = self._taken
        self.hold(1)
        return message_of(self._payloads[position], self._costs[position])

    def take_many(self, most: int) -> list[Message[T]]:
        """Hand the oldest messages over that were not taken yet, at most so many; their permits stay."""
        start = self._taken
        payloads = list(islice(self._payloads, start, start + most))
        costs = list(islice(self._costs, start, start + most))
        self._taken = start + len(costs)
        return _messages(payloads, costs)

    def chunks_at_hand(self, most: int, most_rows: int) -> list[T]:
        """The oldest chunks that cost their rows, at most so many, up to the first other message; they stay.

        None while the application holds a message.  No more than would have ``most_rows`` if all were as long as the
        first one, and another.
        """
        if self._taken or not self._costs:
            return []
        most = min(most, 1 + most_rows // max(1, self._costs[0]))
        costs = list(islice(self._costs, max(0, most)))
        count = costs.index(0) if 0 in costs else len(costs)
        return list(islice(self._payloads, count))  # type: ignore[arg-type]  # a cost above 0 says that it is a T

    # Consuming.

    def consume(self) -> Permits | None:
        """Note that the application has consumed the oldest message it took.

        Returns the permits to give back now, if any: rows in batches, barriers and watermarks at once.

        Raises:
            LocalProtocolError: the application holds no message.

        Spec: Consume.
        """
        self.consume_many(1)
        return self.take_due() if self.is_due else None

    def consume_many(self, count: int) -> None:
        """Note that the application has consumed so many of the oldest messages it took.

        Permits that are to be given back now are left in ``take_due``.

        Raises:
            LocalProtocolError: the application holds fewer; nothing was changed.

        Spec: Consume.
        """
        if count > self._taken:
            if not self._taken:
                raise LocalProtocolError("nothing was taken that could have been consumed")
            raise LocalProtocolError(f"{self._taken} messages were taken, not the {count} that are said to be consumed")
        self._taken -= count
        self._note_consumed(*self._pop(count))

    def pass_by(self, count: int) -> None:
        """Take so many of the oldest messages, of which the caller knows what they are, and consume them at once.

        Permits that are to be given back now are left in ``take_due``.

        Raises:
            LocalProtocolError: the application holds a message, which is the oldest one; nothing was changed.

        Spec: Consume.
        """
        self.require_none_taken()
        self._note_consumed(*self._pop(count))

    def receive_many(self, most: int) -> list[Message[T]]:
        """Take the oldest messages and consume them at once, at most so many.

        Permits that are to be given back now are left in ``take_due``.

        Raises:
            LocalProtocolError: the application holds a message, so that "the oldest it took" is another one.

        Spec: Consume.
        """
        self.require_none_taken()
        payloads, costs = self._pop(most)
        self._note_consumed(payloads, costs)
        return _messages(payloads, costs)

    def try_receive(self) -> Message[T] | None:
        """As ``receive_many``, of one message; None if nothing is here."""
        if self._taken:
            self.require_none_taken()
        if not self._costs:
            return None
        cost, payload = self._costs.popleft(), self._payloads.popleft()
        self._note_consumed((payload,), (cost,))
        return message_of(payload, cost)

    def require_none_taken(self) -> None:
        """Insist that the application holds no message; raises as ``receive_many``."""
        if self._taken:
            raise LocalProtocolError(f"{self._taken} messages were taken and not consumed: consume them first")

    def _pop(self, most: int) -> tuple[Sequence[T | Message[T]], Sequence[int]]:
        """Take the oldest entries out of the inbox; no object is made between the first and the last of them."""
        payloads, costs = self._payloads, self._costs
        if most >= len(costs):
            no_payloads: deque[T | Message[T]] = deque()
            no_costs: deque[int] = deque()
            payloads, self._payloads, costs, self._costs = self._payloads, no_payloads, self._costs, no_costs
            return payloads, costs
        some_payloads: list[T | Message[T]] = []
        some_costs: list[int] = []
        payloads_out, costs_out = starmap(payloads.popleft, repeat((), most)), starmap(costs.popleft, repeat((), most))
        some_payloads.extend(payloads_out)
        some_costs.extend(costs_out)
        return some_payloads, some_costs

    def _note_consumed(self, payloads: Sequence[T | Message[T]], costs: Sequence[int]) -> None:
        """The update of Consume, for messages that were just taken out of the inbox."""
        of_chunks, permits = costs, sum(costs)
        chunks, rows = len(costs), permits
        if 0 in costs:
            messages = _messages(payloads, costs)
            of_chunks = [message.cost for message in messages if message.kind is _CHUNK]
            permits, chunks = sum(of_chunks), len(of_chunks)
            rows = sum(message.rows for message in messages)
            self._due_barriers += sum(message.cost for message in messages if message.kind is Kind.BARRIER)
            self._due_watermarks += sum(message.cost for message in messages if message.kind is Kind.WATERMARK)
        before = self._unreturned
        batches = _batches(before, of_chunks, self._batch) if before + permits >= self._batch else _NO_BATCH
        # Increments: a finalizer may have consumed something meanwhile.
        self._unreturned += permits - batches[-1]
        self._due_rows += batches[-1]
        self._consumed_chunks += chunks
        self._consumed_rows += rows
        self._inbox_rows -= rows
        if self._record is not None:
            self._record_consumed(self._record, payloads, costs, before, batches)

    def _record_consumed(
        self,
        record: Recorder,
        payloads: Sequence[T | Message[T]],
        costs: Sequence[int],
        unreturned: int,
        batches: Sequence[int],
    ) -> None:
        """Tell the recorder of messages that were consumed at once as if that had been one by one."""
        messages = _messages(payloads, costs)
        count, rows = len(self._costs) + len(messages), self._inbox_rows + sum(message.rows for message in messages)
        for message in messages:
            count -= 1
            rows -= message.rows
            unreturned += message.cost if message.kind is _CHUNK else 0
            last_batch = batches[bisect_right(batches, unreturned) - 1]
            record("Consume", (message.rows, *message.held()), (count, rows, unreturned - last_batch))

    # Permits that go back.

    def take_due(self) -> Permits:
        """The permits that are to be given back now, if any; they are the sender's from here on."""
        due = Permits(self._due_rows, self._due_barriers, self._due_watermarks)
        self._row_permits += self._due_rows
        self._barrier_permits += self._due_barriers
        self._watermark_permits += self._due_watermarks
        self._due_rows = self._due_barriers = self._due_watermarks = 0
        return due

    def flush(self) -> Permits | None:
        """Return the residue if the consumer is idle; otherwise do nothing.

        Spec: Flush.
        """
        return self.take_due() if self.release_residue() else None

    def release_residue(self) -> bool:
        """Let the residue be due if the consumer is idle, and say so; otherwise do nothing.  ``take_due`` has it.

        Spec: Flush.
        """
        if self._costs or not self._unreturned:
            return False
        residue, self._unreturned = self._unreturned, 0
        self._due_rows += residue
        if self._record is not None:
            self._record("Flush", (0, residue, 0, 0), self._counters())
        return True

    def take_returns(self) -> Permits | None:
        """The permits that are to be given back now and, if the consumer is idle, the residue; None if there are none.

        Spec: Flush.
        """
        if not self._costs and self._unreturned:
            self.release_residue()
        return self.take_due() if self._due_rows or self._due_barriers or self._due_watermarks else None

    def _counters(self) -> tuple[int, int, int]:
        return len(self._costs), self._inbox_rows, self._unreturned

    def drop(self) -> None:
        """Forget what has arrived and was not consumed: the stream is over, its permits with it."""
        self._inbox_rows = self._taken = 0
        self._costs.clear()
        self._payloads.clear()  # last, because freeing payloads may run anybody's code


_NO_BATCH = (0,)


def _messages(payloads: Iterable[T | Message[T]], costs: Iterable[int]) -> list[Message[T]]:
    return [message_of(payload, cost) for payload, cost in zip(payloads, costs, strict=True)]


def _batches(unreturned: int, costs: Sequence[int], permit_batch: int) -> Sequence[int]:
    """At which sums of permits a batch of them is together, while chunks of these costs are consumed, if there is one.

    Permits are collected until there are at least ``permit_batch`` of them; then all of them are due.  The first of the
    sums is 0, and the last one is what is due once all are consumed.
    """
    if len(costs) == 1:
        return 0, unreturned + costs[0]
    sums = list(accumulate(costs, initial=unreturned))
    batches = [0]
    while sums[-1] - batches[-1] >= permit_batch:
        batches.append(sums[bisect_left(sums, batches[-1] + permit_batch)])
    return batches
