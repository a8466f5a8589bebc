"""Every mistake is made on purpose, and the kit names it.

The mistaken channel is the mistaken model itself; pairs of ends that are wrong, and sabotaged streams, break the right
rule.
"""

import asyncio
import subprocess
import sys

import pytest

from permitflow.protocol.messages import Kind
from permitflow.protocol.permits import ChannelParameters, held
from permitflow.protocol.recording import RecorderFactory
from permitflow.testing import ChannelAdapter, Received, Refused, judge_adapter, judge_pair
from permitflow.testing.subjects.permits import CorePair
from permitflow.testing.kit.adapter import Feature
from permitflow.testing.kit.judging import pair_rules
from permitflow.testing.kit.mistakes import spoilt
from permitflow.testing.kit.outside import NOTHING, REFUSED, WITHDRAWN, Outside, World
from permitflow.testing.kit.probes import parameters_of
from permitflow.testing.kit.report import Report
from permitflow.testing.kit.rules import PROBED_RULES, Mistake, Rule, constants
from permitflow.testing.moves import Move

RIGHT = Mistake("makes no mistake", constants(2), ())
MISTAKES = [(rule, mistake) for rule in PROBED_RULES for mistake in rule.mistakes]


class ModelChannel(ChannelAdapter):
    """A channel that asks the model, perhaps with a mistake, what to do."""

    lacks = frozenset({Feature.END, Feature.ABORT})

    def __init__(self, mistake: Mistake) -> None:
        self.mistake = mistake

    async def open(self, parameters: ChannelParameters, record: RecorderFactory) -> None:
        of = parameters_of(parameters, (4,))
        self.outside: Outside = self.mistake.outside(
            type(of)(**{**vars(of), "waiters": 50}), system=spoilt(dict(self.mistake.actions))
        )
        self.world = self.outside.start()
        self.serials: dict[int, int] = {}
        self.changed = asyncio.Event()

    def go(self, world: World) -> None:
        self.world = self.outside.settled(world)[0]
        self.changed.set()
        self.changed = asyncio.Event()

    def waits(self, number: int) -> bool:
        return any(message.id == number for message in self.world.hops[0].waiting)

    async def offer_chunk(self, serial: int, rows: int) -> None:
        number = self.world.hops[0].offered
        self.serials[number] = serial
        self.go(self.outside.act(self.world, 0, "OfferChunk", rows))
        await self.leaves(number, "WithdrawChunk")

    async def leaves(self, number: int, withdraw: str) -> None:
        try:
            while self.waits(number):
                await self.changed.wait()
        except asyncio.CancelledError:
            if self.waits(number):
                self.go(self.outside.act(self.world, 0, withdraw))
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
        self.go(self.outside.act(self.world, 0, "OfferBarrier"))
        await self.leaves(number, "WithdrawBarrier")

    def offer_watermark(self, value: int) -> None:
        self.go(self.outside.announce(self.world, 0, value))

    async def take(self) -> Received:
        while (taken := self.outside.take(self.world))[0] == NOTHING:
            await self.changed.wait()
        received, world = taken
        assert isinstance(received, Received)
        self.go(world)
        if received.kind is not Kind.CHUNK:
            return received
        number = received.value
        return received._replace(value=number if number == WITHDRAWN else self.serials[number or 0])

    def consume(self) -> None:
        self.go(self.outside.consume(self.world))


@pytest.mark.parametrize(("rule", "mistake"), MISTAKES, ids=lambda one: getattr(one, "name", ""))
def test_the_rule_is_broken_and_the_mistake_is_named(rule: Rule, mistake: Mistake) -> None:
    report = judge_adapter(lambda: ModelChannel(mistake), only=[rule.id])

    assert report.broken == (rule.id,)
    # Two mistakes against one rule may look alike in the shortest run.
    assert report[rule.id].finding in {one.name for one in rule.mistakes if one.agreed == mistake.agreed}


def test_the_model_without_a_mistake_keeps_all_rules() -> None:
    report = judge_adapter(lambda: ModelChannel(RIGHT), only=[rule.id for rule in PROBED_RULES])

    assert report.held == tuple(rule.id for rule in PROBED_RULES)


def test_a_mistake_that_hides_others_does_not_hide_that_they_are_made() -> None:
    """A channel that counts chunks and also loses permits breaks both rules, and no other."""
    both = {rule.id: rule.mistakes[0] for rule in PROBED_RULES if rule.id in ("cost-is-rows", "none-lost")}
    actions = {name: perform for mistake in both.values() for name, perform in mistake.actions.items()}
    mistake = Mistake("makes two mistakes", constants(2), (Move("Take"),), actions)

    report = judge_adapter(
        lambda: ModelChannel(mistake), only=["window", "cost-is-rows", "none-lost", "oldest-leaves-first"]
    )

    assert report.broken == tuple(both)
    assert [report[rule].finding for rule in both] == [mistake.name for mistake in both.values()]


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
    """Loses every message, but not its permits."""

    def deliver(self) -> None:
        if self.wire:
            self.grants.append(held(self.wire.popleft(), self.receiver.parameters))
        else:
            super().deliver()


class NeverFlushes(CorePair):
    """Keeps the residue."""

    def flush(self) -> None:
        self.receiver.take_feedback()


def judged(wrong: type[CorePair], only: str) -> Report:
    return judge_pair(lambda agreed, tags, record: wrong(agreed, tags=tags, record=record), name="wrong", only=[only])


@pytest.mark.parametrize(
    ("wrong", "rule", "finding"),
    [
        (GrantsOnArrival, "returned-when-consumed", "returns permits when a message arrives"),
        (LosesMessages, "exactly-once", "does something else than the model"),
        (StackedWire, "oldest-arrives-first", "does something else than the model"),
        (NeverFlushes, "residue-returned", "does something else than the model"),
        (NeverFlushes, "every-edge", "does something else than the model"),
    ],
)
def test_a_wrong_pair_breaks_the_rule(wrong: type[CorePair], rule: str, finding: str) -> None:
    report = judged(wrong, rule)

    assert report.broken == (rule,)
    assert report[rule].finding.startswith(finding)
    assert report[rule].counterexample


def test_a_rule_that_cannot_be_told_behind_another_mistake_is_not_called_broken() -> None:
    report = judged(GrantsOnArrival, "none-lost")

    assert report.broken == ()
    assert report["none-lost"].finding == (
        "cannot be told: before it comes to that, it returns permits when a message arrives"
    )


def test_a_right_pair_keeps_all_rules_that_do_not_need_long_runs() -> None:
    only = [rule.id for rule in pair_rules() if rule.mistakes]

    report = judge_pair(lambda agreed, tags, record: CorePair(agreed, tags=tags, record=record), name="core", only=only)

    assert report.held == tuple(only)


SABOTAGED = """
import sys
from unittest.mock import ANY
from permitflow.testing import judge_adapter, sabotage
from permitflow.testing.kit.examples.our_channels import ExchangeChannel
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
        ("twice", "none-created"),
        ("on-receipt", "returned-when-consumed"),
        ("on-receipt", "recorded-run"),
    ],
)
def test_a_sabotaged_stream_breaks_the_right_rule(sabotage: str, rule: str) -> None:
    # Sabotage lasts as long as its process.
    command = [sys.executable, "-c", SABOTAGED, sabotage, rule]

    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"breaks rule '{rule}'" in done.stdout
