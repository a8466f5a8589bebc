"""Pull with permits: ends that do something else than their model are found out; recorded runs are judged."""

import asyncio
from collections import deque
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from permitflow.channels.local import LocalReceiver, LocalSender, open_channel
from permitflow.protocol.permits import ChannelParameters, Permits
from permitflow.protocol.recording import ENDS
from permitflow.testing.moves import Divergence, walk
from permitflow.testing.referee import ask_tlc
from permitflow.testing.subjects.permits import CorePair
from permitflow.testing.traces import judge
from permitflow.tracing import ChannelTrace, MemoryTrace
from permitflow_model.permit_channel import SYSTEM, Parameters
from tests.support.recordings import audited

# The model leads the ends in test_core_follows_model.py; here are ends with mistakes.


class GrantsTwice(CorePair):
    """Grants what was withheld when the application asks, and once more."""

    def add_permits(self) -> None:
        withheld = self.receiver.withheld
        super().add_permits()
        if withheld:
            self.feedback.append(Permits(withheld))


class NeverGrants(CorePair):
    """Keeps what it withholds."""

    def add_permits(self) -> None:
        self.receiver.ask()
        self.receiver.take_feedback(residue=False)
        super().add_permits()


class SendsUnasked(CorePair):
    """Has all permits from the start, as if the application had asked."""

    def offer_chunk(self, rows: int) -> None:
        super().offer_chunk(rows)
        if self.receiver.ask():
            self.sender.on_feedback(self.receiver.take_feedback())


@pytest.mark.parametrize("wrong", [GrantsTwice, NeverGrants, SendsUnasked])
def test_ends_that_grant_twice_or_never_or_unasked_are_found_out(wrong: type[CorePair]) -> None:
    pull = Parameters(
        row_permits=3,
        initial_permits=1,
        permit_batch=2,
        max_chunk_cost=2,
        sizes=(1,),
        barrier_permits=1,
        flush_idle=True,
        withdrawals=True,
    )
    agreed = ChannelParameters(row_permits=3, permit_batch=2, max_chunk_cost=2, initial_permits=1)
    never = ("OfferWatermark", "OfferBarrier")
    walk(SYSTEM, CorePair(agreed), pull, never=never)
    with pytest.raises(Divergence):
        walk(SYSTEM, wrong(agreed), pull, never=never)


# Recorded runs.


def recorded() -> ChannelTrace:
    """A run of ten chunks in a channel that is pulled."""
    trace = MemoryTrace()

    async def stream() -> None:
        sender: LocalSender[list[int]]
        receiver: LocalReceiver[list[int]]
        agreed = ChannelParameters(row_permits=8, permit_batch=2, initial_permits=0)
        sender, receiver = open_channel(agreed, name="c", record=trace.recorder)
        async with asyncio.TaskGroup() as group:
            group.create_task(sender.send_many(deque([[1, 2, 3]] * 10)))
            for _ in range(10):
                await receiver.receive()

    asyncio.run(stream())
    return trace.trace().channels["c"]


def changed(channel: ChannelTrace, grants: list[int]) -> ChannelTrace:
    """The same, with other permits in the first returns; none: that return is left out."""
    (log,) = channel.logs
    numbers, wanted = {end: count(1) for end in ENDS}, iter(grants)
    events = []
    for event in log:
        if event.action == "AddPermits" and (rows := next(wanted, event.arguments[1])) != event.arguments[1]:
            if not rows:
                continue
            event = event._replace(arguments=(0, rows, 0, 0), counters=())
        events.append(event._replace(sequence=next(numbers[event.end])))
    return replace(channel, logs=(tuple(events),))


def test_a_recorded_run_is_a_behaviour_in_the_opinion_of_model_tlc_and_audit(tmp_path: Path) -> None:
    channel = recorded()
    for by_end in (False, True):
        verdict = judge(channel, by_end=by_end)
        assert verdict.is_valid, verdict.describe()
        assert verdict.is_at_rest
        assert verdict.peaks is not None
        assert verdict.peaks.row_permits_in_use == 6
    for end in ENDS:
        alone = replace(
            channel, ends=frozenset({end}), logs=(tuple(event for event in channel.logs[0] if event.end == end),)
        )
        assert judge(alone).is_valid
    assert ask_tlc(channel).agrees
    audit = audited(channel, tmp_path)
    assert audit.holds, audit.violations


@pytest.mark.parametrize("grants", [[16], [0]], ids=["twice", "never"])
def test_a_run_in_which_withheld_permits_are_granted_twice_or_never_is_none(grants: list[int], tmp_path: Path) -> None:
    channel = changed(recorded(), grants)
    assert not judge(channel).is_valid
    assert not audited(channel, tmp_path).holds
