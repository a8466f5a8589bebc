"""Every mistake of the catalogue is made on purpose, in a channel that is the mistaken model itself, and recognised."""

import asyncio

import pytest

from permitflow.protocol.messages import Kind
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.recording import RecorderFactory
from permitflow.testing import ChannelAdapter, Received, Refused, judge_adapter
from permitflow.testing.kit.adapter import Feature
from permitflow.testing.kit.mistakes import spoilt
from permitflow.testing.kit.outside import NOTHING, REFUSED, WITHDRAWN, Outside, World
from permitflow.testing.kit.probes import parameters_of
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
