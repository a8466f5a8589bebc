"""Every mistake is made on purpose, and the kit names it.

The mistaken channel is the mistaken model itself; pairs of ends that are wrong, and sabotaged streams, break the right
rule.
"""

import asyncio
import subprocess
import sys
from collections.abc import Callable

import pytest

from permitflow import Kind, RecorderFactory
from permitflow.flows.demand.core import Request
from permitflow.flows.permits.parameters import held
from permitflow_model.mistakes import demand, permit_channel
from permitflow_testing import (
    ChannelAdapter,
    ConformanceReport,
    Feature,
    ReceivedMessage,
    Refused,
    judge_adapter,
    judge_pair,
)
from permitflow_testing.core_pair import FlowPair
from permitflow_testing.moves import Move
from permitflow_testing.outside import NOTHING, REFUSED, WITHDRAWN, World
from permitflow_testing.rulebooks.permits import constants
from permitflow_testing.rulebooks.table import flows, rulebook_of
from permitflow_testing.rules import Mistake, Rule
from permitflow_testing.subjects.demand import DemandPair
from permitflow_testing.subjects.permits import CorePair

MISTAKES = [
    (flow, rule, mistake) for flow in flows() for rule in rulebook_of(flow).probed_rules for mistake in rule.mistakes
] + [
    (flow, rule, Mistake(str(wrong), rule.mistakes[0].agreed, (), {wrong.action: wrong.perform}))
    for flow, table in (("demand", demand), ("permits", permit_channel))
    for wrong in table.MISTAKES
    if wrong.rule
    for rule in [next(rule for rule in rulebook_of(flow).probed_rules if rule.id == wrong.rule)]
]
"""The kit's own, and those of the models that break one of its rules."""


class ModelChannel(ChannelAdapter):
    """A channel that asks the model, perhaps with a mistake, what to do."""

    lacks = frozenset({Feature.END, Feature.ABORT})

    def __init__(self, flow: str, *mistakes: Mistake) -> None:
        self.book = rulebook_of(flow)
        self.mistakes = mistakes

    async def open(self, parameters: object, record: RecorderFactory) -> None:
        self.outside = self.book.seen(parameters, (4,), made=self.mistakes, waiters=50)
        self.world = self.outside.start()
        self.serials: dict[int, int] = {}
        self.changed = asyncio.Event()

    def go(self, world: World) -> None:
        self.world = self.outside.settled(world)[0]
        self.changed.set()
        self.changed = asyncio.Event()

    def line(self) -> list[int]:
        return [self.outside.number(message) for message in self.world.hops[0].waiting]

    async def offer_chunk(self, serial: int, rows: int) -> None:
        number = self.world.hops[0].offered
        self.serials[number] = serial
        self.go(self.outside.offer(self.world, 0, Kind.CHUNK, rows))
        await self.leaves(number)

    async def leaves(self, number: int) -> None:
        try:
            while number in self.line():
                await self.changed.wait()
        except asyncio.CancelledError:
            if number in self.line():
                self.go(self.outside.withdraw(self.world, self.line().index(number)))
            raise

    def send_chunk_now(self, serial: int, rows: int) -> None:
        number = self.world.hops[0].offered
        outcome, world = self.outside.send_now(self.world, rows)
        self.go(world)
        if outcome == REFUSED:
            raise Refused
        self.serials[number] = serial

    async def offer_barrier(self) -> None:
        number = self.world.hops[0].offered
        self.go(self.outside.offer(self.world, 0, Kind.BARRIER))
        await self.leaves(number)

    def offer_watermark(self, value: int) -> None:
        self.go(self.outside.announce(self.world, 0, value))

    async def take(self) -> ReceivedMessage:
        while (taken := self.outside.take(self.world))[0] == NOTHING:
            await self.changed.wait()
        received, world = taken
        assert isinstance(received, ReceivedMessage)
        self.go(world)
        if received.kind is not Kind.CHUNK:
            return received
        number = received.value
        return received._replace(value=number if number == WITHDRAWN else self.serials[number or 0])

    def consume(self) -> None:
        self.go(self.outside.consume(self.world))


@pytest.mark.parametrize(("flow", "rule", "mistake"), MISTAKES, ids=lambda one: getattr(one, "name", one))
def test_the_rule_is_broken_and_the_mistake_is_named(flow: str, rule: Rule, mistake: Mistake) -> None:
    report = judge_adapter(lambda: ModelChannel(flow, mistake), flow=flow, only=[rule.id])
    assert report.broken == (rule.id,)
    # Two mistakes against one rule may look alike in the shortest run; the kit has names for its own.
    names = {one.name for one in rule.mistakes if one.agreed == mistake.agreed}
    assert mistake not in rule.mistakes or report[rule.id].finding in names


@pytest.mark.parametrize("flow", flows())
def test_the_model_without_a_mistake_keeps_all_rules(flow: str) -> None:
    rules = tuple(rule.id for rule in rulebook_of(flow).probed_rules)
    report = judge_adapter(lambda: ModelChannel(flow), flow=flow, only=rules)
    assert report.held == rules


def test_a_mistake_that_hides_others_does_not_hide_that_they_are_made() -> None:
    """A channel that counts chunks and also loses permits breaks both rules, and no other."""
    rules = rulebook_of("permits").probed_rules
    both = {rule.id: rule.mistakes[0] for rule in rules if rule.id in ("cost-is-rows", "none-lost")}
    actions = {name: perform for mistake in both.values() for name, perform in mistake.actions.items()}
    mistake = Mistake("makes two mistakes", constants(2), (Move("Take"),), actions)
    report = judge_adapter(
        lambda: ModelChannel("permits", mistake), only=["window", "cost-is-rows", "none-lost", "oldest-leaves-first"]
    )
    assert report.broken == tuple(both)
    assert [report[rule].finding for rule in both] == [mistake.name for mistake in both.values()]


NEAREST, *OTHERS = rulebook_of("demand").probed_rules[0].mistakes


@pytest.mark.parametrize("mistake", [NEAREST, *(pytest.param(mistake, marks=pytest.mark.long) for mistake in OTHERS)])
def test_a_window_of_two_is_not_taken_for_other_mistakes(mistake: Mistake) -> None:
    only = ["window", "sent-when-requested", "requested-once", "every-message-requested", "exactly-once"]
    report = judge_adapter(lambda: ModelChannel("demand", mistake), flow="demand", only=only)
    assert report.broken == ("window",), str(report)


class RequestsOnArrival(DemandPair):
    def deliver(self) -> None:
        super().deliver()
        self.consume()


class LosesRequests(DemandPair):
    def consume(self) -> None:
        super().consume()
        self.feedback.clear()


class RequestsTwice(DemandPair):
    def consume(self) -> None:
        super().consume()
        self.feedback.extend([*self.feedback][-1:])


class Overtakes(DemandPair):
    """Lets the newest message leave first."""

    def send(self) -> None:
        self._waiting.reverse()
        super().send()


class DoesNotWait(DemandPair):
    """Takes what has left for requested again."""

    def send(self) -> None:
        super().send()
        self.sender.on_feedback(Request(1))


class GrantsOnArrival(CorePair):
    """Returns permits when a message arrives, and again when it is consumed."""

    def deliver(self) -> None:
        super().deliver()
        self.grants.append(held(self.receiver.inbox[-1], self.receiver.parameters))


class StackedWire(CorePair):
    """Delivers the newest message first."""

    def deliver(self) -> None:
        self.wire.reverse()
        super().deliver()
        self.wire.reverse()


class LosesMessages(CorePair):
    def deliver(self) -> None:
        if self.wire:
            self.grants.append(held(self.wire.popleft(), self.receiver.parameters))
        else:
            super().deliver()


class NeverFlushes(CorePair):
    def flush(self) -> None:
        self.receiver.take_feedback()


OF_DEMAND = (RequestsOnArrival, LosesRequests, RequestsTwice, Overtakes, DoesNotWait)


def judged(wrong: Callable[..., FlowPair], only: str) -> ConformanceReport:
    flow = "demand" if wrong in OF_DEMAND else "permits"
    return judge_pair(
        lambda agreed, tags, record: wrong(agreed, tags=tags, record=record), flow=flow, name="wrong", only=[only]
    )


@pytest.mark.parametrize(
    ("wrong", "rule", "finding"),
    [
        (GrantsOnArrival, "returned-when-consumed", "returns permits when a message arrives"),
        (LosesMessages, "exactly-once", "does something else than the model"),
        (StackedWire, "oldest-arrives-first", "does something else than the model"),
        (NeverFlushes, "residue-returned", "does something else than the model"),
        (NeverFlushes, "every-edge", "does something else than the model"),
        (RequestsOnArrival, "requested-when-consumed", "does something else than the model"),
        (LosesRequests, "every-message-requested", "leaves out a request"),
        (RequestsTwice, "requested-once", "sends a request twice"),
        (Overtakes, "oldest-leaves-first", "does something else than the model"),
        (DoesNotWait, "window", "does something else than the model"),
        *((wrong, "every-edge", "does something else") for wrong in OF_DEMAND),
        (DoesNotWait, "random-runs", "does something else"),
    ],
)
def test_a_wrong_pair_breaks_the_rule(wrong: Callable[..., FlowPair], rule: str, finding: str) -> None:
    report = judged(wrong, rule)
    assert report.broken == (rule,)
    assert report[rule].finding.startswith(finding)
    assert report[rule].counterexample


def test_a_rule_hidden_by_another_mistake_is_not_called_broken() -> None:
    report = judged(GrantsOnArrival, "none-lost")
    assert report.broken == ()
    assert report["none-lost"].finding == (
        "cannot be told: before it comes to that, it returns permits when a message arrives"
    )


SABOTAGED = """
import sys
from unittest.mock import ANY
from benchmarks import sabotage
from permitflow_testing import judge_adapter
from permitflow_testing.examples.our_channels import ExchangeChannel
sabotage.RETURN = ANY  # every return of permits, not only one
sabotage.SABOTAGES[sys.argv[1]]()
ExchangeChannel.timeout_seconds = 0.3
report = judge_adapter(ExchangeChannel, only=[sys.argv[2]])
print(report)
sys.exit(report.broken != (sys.argv[2],))
"""


@pytest.mark.parametrize(
    ("sabotage", "rule"),
    [
        ("lost", "none-lost"),
        pytest.param("twice", "none-created", marks=pytest.mark.long),
        ("on-receipt", "returned-when-consumed"),
        pytest.param("on-receipt", "recorded-run", marks=pytest.mark.long),
    ],
)
def test_a_sabotaged_stream_breaks_the_right_rule(sabotage: str, rule: str) -> None:
    # Sabotage lasts as long as its process.
    command = [sys.executable, "-c", SABOTAGED, sabotage, rule]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"breaks rule '{rule}'" in done.stdout
