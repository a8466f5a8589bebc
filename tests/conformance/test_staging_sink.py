"""The model leads Spark's staged sink through its state graph: its orders, its decisions, and what follows a restart.

Exchanges are books, the checkpoint is a folder.  A call of the sink is made again from its beginning each time, with
the answers that it got before, and stops at the first order that has none: so the model chooses which order is carried
out next, and a driver that stands there can be copied, killed and started again.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from permitflow.client import Published, StagedPart, blocking
from permitflow.errors import PeerGoneError, PermitflowError
from permitflow.spark import sink
from permitflow.spark.decisions import Decision, Decisions
from permitflow.spark.options import BatchKey, WriteOptions
from permitflow.spark.patience import Patience
from permitflow.spark.sink import StagedMessage, StagedStreamWriter
from permitflow.stream.control import Discarded
from permitflow_model.staging import SYSTEM, Parameters, State
from permitflow_testing.moves import Divergence, Lockstep, compare, require, walk
from tests.conformance.test_staging import BATCHES, QUERY, SMALL, WALKS, DrivenStaging, channel
from tests.support.staged import publish

T = TypeVar("T")

SCHEMA = StructType([StructField("n", LongType())])
ADDRESSES = ("127.0.0.1:1", "127.0.0.1:2")


class Order(NamedTuple):
    """What the sink is about to do, which the model may let it."""

    action: str
    exchange: int = 0


class Stopped(BaseException):
    """The sink stands at orders of which none is to be carried out now."""


@dataclass
class Call:
    """A call of the sink, and what it was told so far."""

    answers: list[object] = field(default_factory=list)
    is_start: bool = False
    """Is it the beginning of a driver?  Else it is a commit."""
    is_over: bool = False


class DrivenSink(DrivenStaging):
    """The sink decides what the driver does; of Spark there is what it would do."""

    def __init__(self, parameters: Parameters, folder: Path, writer: type[StagedStreamWriter] = StagedStreamWriter):
        super().__init__(parameters)
        self.folder = folder
        self.files: dict[str, bytes] = {}
        """What the checkpoint has."""
        self.options = WriteOptions.parse_stream(
            {
                "address": ",".join(ADDRESSES[: parameters.exchanges]),
                "stream": "orders",
                "channels": str(parameters.tasks),
                "checkpointLocation": str(folder),
            }
        )
        self.make_writer = writer
        self.call: Call | None = None
        self.position = 0
        self.go: Order | None = None
        self.at: Sequence[Order] = ()
        self.lost = ""
        """Is the next answer of an exchange lost: "before" the order is carried out, or "after"?"""
        self.start_sink()

    # What the sink is told.

    def told(self, act: Callable[[], T], *, is_remote: bool = False) -> T:
        """What it was told at this place; if nothing yet, what it is told now."""
        assert self.call is not None
        answers = self.call.answers
        if self.position == len(answers):
            answers.append(self._answer(act) if is_remote else act())
        answer: Any = answers[self.position]
        self.position += 1
        if isinstance(answer, PermitflowError):
            raise answer
        return answer  # type: ignore[no-any-return]

    def _answer(self, act: Callable[[], object]) -> object:
        lost, self.lost = self.lost, ""
        gone = PeerGoneError(who="the exchange", reason="the connection is lost")
        if lost == "before":
            return gone
        try:
            answer = act()
        except PermitflowError as error:
            answer = error
        return gone if lost else answer

    def choose(self, possible: Callable[[], Sequence[Order]]) -> Order | None:
        """The order that is carried out here, of those that are possible; None: there is none."""

        def now() -> Order | None:
            self.at = possible()
            if self.at and self.go not in self.at:
                raise Stopped
            chosen, self.go = (self.go, None) if self.at else (None, self.go)
            self.at = ()
            return chosen

        return self.told(now)

    def on_disk(self, do: Callable[[Decisions], T]) -> T:
        """Do something with the decisions of the checkpoint."""
        folder = self.folder / "permitflow"
        folder.mkdir(exist_ok=True)
        for path in folder.glob("*"):  # of another copy
            path.unlink()
        for name, content in self.files.items():
            (folder / name).write_bytes(content)
        decisions = Decisions(str(self.folder))
        result = do(decisions)
        self.files = {path.name: path.read_bytes() for path in folder.glob("*")}
        pending = decisions.pending()
        assert len(pending) <= 1
        self.decided = sum(each.batch for each in pending)
        for at, task in enumerate(self.tasks, 1):
            task.decided = sum(self.named(part) for each in pending for part in each.parts if part.partition == at)
        return result

    @staticmethod
    def named(part: StagedPart) -> int:
        return int(part.attempt.removeprefix("attempt ")) + 1

    @contextmanager
    def led(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(blocking, "control", lambda address, **_: LedControl(self, address))
            patch.setattr(blocking, "require_single_places", lambda *_, **__: ())
            patch.setattr(sink, "Decisions", lambda _: LedDecisions(self))
            patch.setattr(sink, "Patience", partial(Patience, clock=lambda: 0.0, pause=lambda _: None))
            yield

    # Calls.

    def start_sink(self) -> None:
        self.call = Call(is_start=True)
        self.go_on()

    def go_on(self, order: Order | None = None) -> None:
        """Let the sink carry this out, and stand at what comes next."""
        call = self.call
        assert call is not None
        self.position, self.go, self.at = 0, order, ()
        try:
            with self.led():
                if call.is_start:
                    self.writer = self.make_writer(self.options, SCHEMA)
                else:
                    self.writer.commit([self.message(task.chosen - 1) for task in self.tasks], self.batch)
        except Stopped:
            pass
        except PermitflowError:
            self.call, self.phase = None, "down"
            return
        else:
            call.is_over = True
        if call.is_start:
            self.phase, self.call = ("running", None) if call.is_over else ("recovering", call)
        elif self.parameters.exchanges > 1:
            self.phase = "publishing" if self.is_decided else "running"

    @property
    def is_decided(self) -> bool:
        return not any(each.action in ("prepare", "decide") for each in self.at)

    def stands_at(self) -> Sequence[Order]:
        """Its next orders; Spark commits when it has a message of each task."""
        if self.call is None and self.phase == "running" and all(task.chosen for task in self.tasks):
            self.call = Call()
        if self.call is None or self.call.is_over:
            return ()
        self.go_on()
        return self.at

    def carry_out(self, order: Order) -> None:
        self.hear_again()
        require(order in self.stands_at())
        self.go_on(order)

    def hear_again(self) -> None:
        """The sink asks all exchanges; those that have published change nothing, so the model need not ask them."""
        while (at := self.stands_at()) and all(map(self.has_published, at)):
            self.go_on(at[0])

    def has_published(self, order: Order) -> bool:
        return order.action == "publish" and self.books[order.exchange].was_published(QUERY, self.order()[0])

    def message(self, name: int) -> StagedMessage:
        return StagedMessage(QUERY, [self.stated(name)], None)

    # The actions of the driver.

    def prepare_batch(self, name: int) -> None:
        self.carry_out(Order("prepare", name))

    def decide_batch(self) -> None:
        require(self.phase == "running")
        if self.parameters.exchanges > 1:
            self.carry_out(Order("decide"))
        else:
            require(Order("publish") in self.stands_at())
            self.phase = "publishing"

    def publish_batch(self, name: int) -> None:
        require(self.phase in ("publishing", "recovering"))
        if (order := Order("publish", name)) in self.stands_at():
            self.go_on(order)
        else:  # it arrives twice
            require(self.publish_at(name, *self.order()).was_published)

    def forget_decision(self) -> None:
        self.carry_out(Order("forget"))

    def finish_batch(self) -> None:
        require(self.phase == "publishing")
        self.hear_again()
        require(self.call is not None and self.call.is_over)
        self.batch += 1
        self.begin()
        self.call = None

    def restart_driver(self) -> None:
        super().restart_driver()
        self.start_sink()

    def crash_driver(self) -> None:
        super().crash_driver()
        self.call = None

    def discard_attempt(self, name: int) -> None:
        one = self.started(name)
        require(self.phase == "down" or one.run < self.run)
        if not self.is_aborted(name):  # as a decision stands; an abort that was sent before may come all the same
            require(self.tasks[one.task - 1].decided != name + 1)
        require(bool(self.home(one.task).discard(QUERY, one.batch, [self.stated(name)], now=0.0)))

    def is_aborted(self, name: int) -> bool:
        """Does an abort that names this attempt reach the exchanges?"""
        call, self.call, self.position = self.call, Call(), 0
        with self.led():
            self.writer.abort([self.message(name)], self.attempts[name].batch)
        sent = any(isinstance(answer, Discarded) for answer in self.call.answers)
        self.call = call
        return sent

    # What exchanges do.

    def exchanges_of(self, parts: Sequence[StagedPart]) -> list[int]:
        return sorted({(part.partition - 1) % self.parameters.exchanges for part in parts})

    def is_prepared(self, exchange: int, batch: int, parts: Sequence[StagedPart]) -> bool:
        here = [part for part in parts if self.exchanges_of([part]) == [exchange]]
        prepared = all(self.attempts[self.named(part) - 1].phase == "prepared" for part in here)
        return prepared or self.books[exchange].was_published(QUERY, batch)

    def prepare_as_told(self, exchange: int, query: str, batch: int, parts: Sequence[StagedPart]) -> None:
        here = [part for part in parts if self.exchanges_of([part]) == [exchange]]
        self.books[exchange].prepare(self.books[exchange].planning(query, batch, here), now=0.0)

    def publish_as_told(self, exchange: int, query: str, batch: int, parts: Sequence[StagedPart]) -> Published:
        was_published = publish(self.books[exchange], query, batch, parts, now=0.0).was_published
        return Published(was_published, self.books[exchange].published_batches[query])


class LedControl:
    """Orders to one or several exchanges."""

    def __init__(self, driven: DrivenSink, address: str) -> None:
        self.driven = driven
        self.exchanges = [ADDRESSES.index(each) for each in address.split(",")]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        pass

    def positions(self, _channels: Sequence[str], *, consumer: str) -> tuple[()]:
        """None whose schema is not known."""
        return ()

    def prepare(self, query: str, batch: int, parts: Sequence[StagedPart]) -> None:
        driven = self.driven

        def possible() -> list[Order]:
            named = driven.exchanges_of(parts)
            return [Order("prepare", each) for each in named if not driven.is_prepared(each, batch, parts)]

        while (order := driven.choose(possible)) is not None:
            driven.told(partial(driven.prepare_as_told, order.exchange, query, batch, parts), is_remote=True)

    def by_exchange(self, _channels: Sequence[str]) -> "AnyOrder":
        return AnyOrder(self.driven)

    def publish(self, query: str, batch: int, parts: Sequence[StagedPart]) -> Published:
        driven, (exchange,) = self.driven, self.exchanges
        if driven.parameters.exchanges == 1:
            driven.choose(lambda: [Order("publish")])
        return driven.told(partial(driven.publish_as_told, exchange, query, batch, parts), is_remote=True)

    def discard(self, query: str, batch: int, parts: Sequence[StagedPart]) -> Discarded:
        return self.driven.told(lambda: Discarded(sum(part.rows for part in parts)))


class AnyOrder(dict[str, tuple[str, ...]]):
    """The exchanges in the order in which the model goes through them."""

    def __init__(self, driven: DrivenSink) -> None:
        self.driven = driven

    def items(self) -> Iterator[tuple[str, list[str]]]:  # type: ignore[override]  # lazily
        driven, left = self.driven, [*range(self.driven.parameters.exchanges)]
        while (order := driven.choose(lambda: [Order("publish", each) for each in left])) is not None:
            left.remove(order.exchange)
            tasks = range(1, driven.parameters.tasks + 1)
            here = [channel(task) for task in tasks if driven.home(task) is driven.books[order.exchange]]
            yield ADDRESSES[order.exchange], here


class LedDecisions:
    """The decisions of the checkpoint."""

    def __init__(self, driven: DrivenSink) -> None:
        self.driven = driven

    def pending(self) -> list[Decision]:
        return self.driven.told(lambda: self.driven.on_disk(Decisions.pending))

    def decide(self, decision: Decision) -> Decision:
        self.driven.choose(lambda: [Order("decide")])
        return self.driven.told(lambda: self.driven.on_disk(lambda files: files.decide(decision)))

    def forget(self, decision: Decision) -> None:
        self.driven.choose(lambda: [Order("forget")])
        self.driven.told(lambda: self.driven.on_disk(lambda files: files.forget(decision)))

    def where(self, decision: Decision) -> str:
        return decision.name


ACTIONS = {"prepare": "PrepareBatch", "publish": "PublishBatch"}


def lose_answers(fresh: Callable[[], DrivenSink], state: State) -> None:
    """An exchange is away before it has carried an order out, or after that: the sink asks until it knows."""
    driven = fresh()
    for order in driven.stands_at():
        name = ACTIONS.get(order.action)
        if name is None or not SYSTEM.is_enabled(name, state, driven.parameters, order.exchange):
            continue
        after = SYSTEM.perform(name, state, driven.parameters, order.exchange)
        for lost in ("before", "after"):
            driven = fresh()
            assert order in driven.stands_at()
            driven.lost = lost
            driven.go_on(order)
            is_done = lost == "after" and after.phase != "down"
            compare(driven.observe(), after if is_done else state, f"{order} whose answer was lost, {lost} it, {state}")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "small" else pytest.mark.long) for name in WALKS]
)
def test_the_sink_takes_every_edge_of_the_model(name: str, tmp_path: Path) -> None:
    parameters = WALKS[name]
    done = walk(SYSTEM, DrivenSink(parameters, tmp_path), parameters, in_each_state=lose_answers)
    assert done.states >= 162
    assert min(done.edges, done.refusals) > done.states


@pytest.mark.parametrize("seed", range(4))
def test_the_sink_publishes_all_batches_whatever_answers_are_lost(seed: int, tmp_path: Path) -> None:
    parameters, random = replace(BATCHES, tasks=2, attempts=8), Random(seed)
    run = Lockstep(SYSTEM, DrivenSink(parameters, tmp_path), parameters)
    while run.state.batch <= parameters.batches:
        move = random.choice(run.enabled())
        is_answered = SYSTEM.perform(move.action, run.state, parameters, *move.arguments).phase == "down"
        run.adapter.lost = "" if is_answered else random.choice(("", "after"))
        run.make(move)
        run.adapter.lost = ""


class Hasty(StagedStreamWriter):
    """It publishes before it decides."""

    def _decide(self, decisions: Decisions, decision: Decision) -> Published:
        self._insist(lambda control: control.prepare(decision.query, decision.batch, decision.parts))
        published = self._carry_out(decision)
        decisions.forget(decisions.decide(decision))
        return published


class Unprepared(StagedStreamWriter):
    """It decides what no exchange has prepared."""

    def _decide(self, decisions: Decisions, decision: Decision) -> Published:
        published = self._carry_out(decisions.decide(decision))
        decisions.forget(decision)
        return published


class Forgetful(StagedStreamWriter):
    """It forgets what it has decided before all have published."""

    def _decide(self, decisions: Decisions, decision: Decision) -> Published:
        self._insist(lambda control: control.prepare(decision.query, decision.batch, decision.parts))
        decisions.forget(decisions.decide(decision))
        return self._carry_out(decision)


class Heedless(StagedStreamWriter):
    """The next driver does not look at what was decided."""

    def _carry_out_earlier(self, before: Decision | None = None) -> None:
        pass


class Sweeping(StagedStreamWriter):
    """An abort takes what was decided."""

    def _discard(self, key: BatchKey, messages: Sequence[StagedMessage]) -> None:
        parts = [part for message in messages for part in message.parts]
        self._insist(lambda control: control.discard(key.query, key.batch, parts))


class Resigned(StagedStreamWriter):
    """An answer that is lost is a no."""

    def _insist(self, order: Callable[[Any], T], timeout_seconds: float | None = None) -> T:
        with self._dialled(self._options.exchange.address, 1.0) as dialled:
            return order(dialled)


@pytest.mark.parametrize("wrong", [Hasty, Unprepared, Forgetful, Heedless, Sweeping, Resigned])
def test_the_walk_notices_a_sink_that_is_wrong(wrong: type[StagedStreamWriter], tmp_path: Path) -> None:
    with pytest.raises(Divergence):
        walk(SYSTEM, DrivenSink(SMALL, tmp_path, wrong), SMALL, in_each_state=lose_answers)
