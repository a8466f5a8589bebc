"""The model leads the books of a channel that is read once: who may put and read it, and what each is told."""

from dataclasses import dataclass, replace

import pytest

from permitflow.errors import ChannelError, ChannelResetError, PeerGoneError, PermitflowError
from permitflow.exchange.books.bridge import BridgeBooks, BridgeState
from permitflow.stream.frames import EndOutcome
from permitflow_model.bridge import (
    SYSTEM,
    Channel,
    Consumer,
    ConsumerLife,
    Parameters,
    Producer,
    ProducerLife,
    Seen,
    State,
    Told,
)
from permitflow_testing.moves import ActionRefused, Divergence, require, walk

TWO = Parameters(producer_window=1, channel_window=1, consumer_window=1, total=1, consumers=2)
ONE = replace(TWO, consumers=1)


@dataclass
class Reader:
    """A consumer, and its stream."""

    peer: str
    credit: int
    life: ConsumerLife = "reading"
    handed: int = 0
    wire: int = 0
    inbox: int = 0
    returned: int = 0
    has_end: bool = False
    seen: Seen = "none"


class DrivenBridge:
    """Its books decide; the rest is what streams and bridges would do."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.books: BridgeBooks[Reader] = BridgeBooks("orders")
        self.life: ProducerLife = "open"
        self.told: Told = "none"
        self.offered = self.incoming = self.held = self.taken = self.consumed = self.lost = self.purged = 0
        self.credit, self.returned = parameters.producer_window, 0
        self.comers = parameters.consumers
        self.awaited: Reader | None = None
        self.last = 0
        self.is_awaited = False
        self.seen: Seen = "none"
        """What the last consumer was told."""

    # What streams and bridges would do.

    @property
    def reader(self) -> Reader:
        reader = self.books.consumer
        require(reader is not None)
        assert reader is not None
        return reader

    @property
    def is_live(self) -> bool:
        return self.life in ("open", "ended") and self.told == "none"

    def drop(self) -> None:
        self.lost += self.incoming + self.held
        self.incoming = self.held = 0

    def tell_broken(self) -> None:
        """Each producer that is connected gets the refusal."""
        if self.is_live:
            assert isinstance(self.books.refusal(), ChannelError)
            self.told = "error"

    def leave(self, reader: Reader, word: Seen) -> None:
        self.lost += reader.wire + reader.inbox
        self.seen = word if reader.seen == "none" else reader.seen

    # The applications.

    def done(self) -> None:
        require(self.books.consumer is None and (not self.is_live or self.comers == 0))

    def offer(self) -> None:
        require(self.life == "open" and self.told == "none" and self.credit > 0)
        require(self.offered < self.parameters.total)
        self.offered, self.credit, self.incoming = self.offered + 1, self.credit - 1, self.incoming + 1

    def end_stream(self) -> None:
        require(self.life == "open" and self.told == "none")
        self.life = "ended"

    def abort(self) -> None:
        require(self.life == "open" and self.told == "none")
        self.life = "aborted"
        if self.books.break_off("it gave up"):
            self.drop()

    def lose_producer(self) -> None:
        require(self.parameters.faults and self.is_live)
        has_finished = self.books.state is not BridgeState.OPEN
        self.life = "gone"
        if not has_finished and self.books.break_off("it is gone"):
            self.drop()

    def claim(self) -> None:
        require(self.comers > 0)
        try:
            self.books.claim(Reader("peer", self.parameters.consumer_window))
        except PermitflowError as error:
            raise ActionRefused(str(error)) from error
        self.comers -= 1
        self.seen = "none"

    def consume(self) -> None:
        reader = self.reader
        require(reader.life in ("reading", "suspended") and reader.inbox > 0 and reader.seen == "none")
        reader.inbox, reader.returned, self.consumed = reader.inbox - 1, reader.returned + 1, self.consumed + 1

    def cancel(self) -> None:
        require(self.reader.life == "reading" and self.reader.seen == "none")
        self.reader.seen = "cancelled"

    def suspend_consumer(self) -> None:
        require(self.parameters.faults and self.reader.life == "reading")
        self.reader.life = "suspended"

    def resume_consumer(self) -> None:
        require(self.reader.life == "suspended")
        self.reader.life = "reading"

    def lose_reader(self) -> None:
        require(self.parameters.faults and self.reader.life == "reading")
        self.reader.life = "gone"

    def purge(self) -> None:
        require(self.parameters.faults and not self.books.is_over and self.held > 0)
        self.books.purge(self.held)
        self.purged += self.held
        self.lost += self.held
        self.held = 0

    def reset(self) -> None:
        require(self.parameters.faults and not self.books.is_retired)
        self.books.retire(ChannelResetError)
        reader = self.books.consumer
        if reader is not None:
            self.leave(reader, "error")
            self.books.release()
        if self.books.break_off("it was reset"):
            self.drop()
            self.tell_broken()

    # The bridges.

    def take_in(self) -> None:
        require(self.books.state is BridgeState.OPEN and self.incoming > 0)
        require(self.held < self.parameters.channel_window)
        self.incoming, self.held, self.taken = self.incoming - 1, self.held + 1, self.taken + 1
        self.returned += 1

    def hear_permit(self) -> None:
        require(self.returned > 0)
        self.returned, self.credit = self.returned - 1, self.credit + 1

    def pass_on(self) -> None:
        require(not self.books.is_over and self.held > 0 and self.reader.credit > 0)
        self.held -= 1
        reader = self.reader
        reader.handed, reader.credit, reader.wire = reader.handed + 1, reader.credit - 1, reader.wire + 1

    def deliver(self) -> None:
        reader = self.reader
        require(reader.life == "reading" and reader.wire > 0 and reader.seen == "none")
        reader.wire, reader.inbox = reader.wire - 1, reader.inbox + 1

    @property
    def heard(self) -> Reader:
        require(self.reader.life in ("reading", "gone"))
        return self.reader

    def hear_consumed(self) -> None:
        reader = self.heard
        require(reader.returned > 0)
        reader.returned, reader.credit = reader.returned - 1, reader.credit + 1

    def end_channel(self) -> None:
        require(self.life == "ended" and self.incoming == 0)
        require(self.books.end("the producer"))
        self.awaited = self.books.awaited(EndOutcome.CONSUMED if self.parameters.waits else EndOutcome.ACCEPTED)
        self.is_awaited = self.awaited is not None
        if self.awaited is not None:
            self.last = self.books.last_message(self.held, self.awaited.handed)

    @property
    def has_consumed_all(self) -> bool:
        """Of the awaited consumer: the last message has left for it, and nothing is with it any more."""
        reader = self.awaited
        if reader is None or reader is not self.books.consumer:
            return False
        return self.books.has_left(self.last, reader.handed) and reader.credit == self.parameters.consumer_window

    def answer_end(self) -> None:
        require(self.life == "ended" and self.told == "none")
        require(self.books.state in (BridgeState.ENDED, BridgeState.SPENT))
        heard = self.has_consumed_all
        require(not self.is_awaited or heard or self.books.state is BridgeState.SPENT)
        told: Told
        told = "consumed" if self.outcome(heard) is EndOutcome.CONSUMED else "accepted"
        self.told = told

    def outcome(self, has_consumed_all: bool) -> EndOutcome:
        return self.books.outcome(has_consumed_all=has_consumed_all, has_cancelled=False)

    def pass_end(self) -> None:
        require(self.books.state is BridgeState.ENDED and self.held == 0 and not self.reader.has_end)
        self.reader.has_end = True

    def read_end(self) -> None:
        reader = self.reader
        require(reader.life == "reading" and reader.has_end and reader.seen == "none")
        require(reader.wire + reader.inbox == 0)
        reader.seen = "end"

    def spend(self) -> None:
        require(self.heard.seen == "end" and self.heard.returned == 0)
        self.seen = "end"
        self.books.spend()

    def pass_abort(self) -> None:
        require(self.books.state is BridgeState.BROKEN)
        self.leave(self.reader, "abort")
        self.books.release()

    def hear_cancel(self) -> None:
        reader = self.heard
        require(reader.seen == "cancelled" and not self.books.is_over)
        self.leave(reader, "cancelled")
        assert self.books.cancel("enough")
        self.drop()
        if self.is_live:
            self.told = "cancelled"

    def give_up_consumer(self) -> None:
        reader = self.reader
        require(reader.life in ("suspended", "gone"))
        breaks = self.books.lose_consumer("it is gone", has_taken=reader.handed > 0)
        self.leave(reader, "error")
        if breaks:
            self.drop()
            self.tell_broken()
        else:  # nobody waits for it any more
            self.is_awaited = False

    # What can be seen.

    @property
    def is_open_to_producers(self) -> bool:
        try:
            self.books.require_producible()
        except PermitflowError:
            return False
        return True

    def observe(self) -> State:
        reader, books = self.books.consumer, self.books
        consumer = Consumer("none", 0, 0, 0, 0, 0, False, self.seen)
        if reader is not None:
            consumer = Consumer(**{name: getattr(reader, name) for name in Consumer._fields})
        assert self.is_open_to_producers == (books.state is BridgeState.OPEN)
        return State(
            Producer(self.life, self.offered, self.credit, self.returned, self.told),
            incoming=self.incoming,
            channel=Channel(
                phase=books.state.value,  # type: ignore[arg-type]
                held=self.held,
                taken=self.taken,
                purged=self.purged,
                is_awaited=self.is_awaited,
                is_cancelled=books.is_cancelled,
                is_lost=books.has_lost_consumer,
                is_retired=books.is_retired,
            ),
            consumer=consumer,
            comers=self.comers,
            consumed=self.consumed,
            lost=self.lost,
        )


def test_the_books_take_every_edge_of_the_model() -> None:
    done = walk(SYSTEM, DrivenBridge(ONE), ONE)
    assert min(done.states, done.edges, done.refusals) > 1_000


@pytest.mark.long
@pytest.mark.parametrize("parameters", [TWO, replace(TWO, total=2), replace(ONE, waits=False)], ids=str)
def test_the_books_take_every_edge_of_larger_models(parameters: Parameters) -> None:
    walk(SYSTEM, DrivenBridge(parameters), parameters)


class Hasty(BridgeBooks[Reader]):
    """Who has left for the consumer counts as consumed by it, also if it is purged."""

    def outcome(self, *, has_consumed_all: bool, has_cancelled: bool) -> EndOutcome:
        """Likewise."""
        self._purged_messages = 0
        return super().outcome(has_consumed_all=has_consumed_all, has_cancelled=has_cancelled)


class Forgiving(BridgeBooks[Reader]):
    """Another consumer may go on where one has left halfway."""

    def lose_consumer(self, reason: str, *, has_taken: bool) -> bool:
        """It takes nothing with it."""
        return super().lose_consumer(reason, has_taken=False)


class Stubborn(BridgeBooks[Reader]):
    """A lost consumer changes the reason why the channel is broken."""

    def lose_consumer(self, reason: str, *, has_taken: bool) -> bool:
        """It does so, whatever was before."""
        if self.is_over:
            self._loss = PeerGoneError(who="peer", reason="it is gone")
        return super().lose_consumer(reason, has_taken=has_taken)


@pytest.mark.parametrize("wrong", [Hasty, Forgiving, Stubborn])
def test_the_walk_notices_books_that_are_wrong(wrong: type[BridgeBooks[Reader]]) -> None:
    driven = DrivenBridge(ONE)
    driven.books = wrong("orders")
    with pytest.raises(Divergence):
        walk(SYSTEM, driven, ONE, never=("SuspendConsumer",))
