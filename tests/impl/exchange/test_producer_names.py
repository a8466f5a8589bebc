"""Who may write under a producer's name: one at a time."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest

from permitflow.errors import PermitflowError
from permitflow.exchange.replay_channel import ReplayChannel
from permitflow.exchange.replay_producing import ReplayProducer
from permitflow.testing.kept_rows import keeping, settle
from permitflow.transports.remote_receiver import RemoteReceiver
from permitflow.transports.same_host import SameHost

Complete = Callable[[Coroutine[Any, Any, Any]], Any]


class Deaf:
    """The end of a producer that still writes its last rows, whatever it is told."""

    def break_off(self, error: PermitflowError) -> None:
        """Nobody hears it."""


def dialled(channel: ReplayChannel, peer: str) -> ReplayProducer:
    return channel.producing(cast("RemoteReceiver", Deaf()), peer, SameHost.NEVER)


async def gave_up(work: Coroutine[Any, Any, Any]) -> None:
    """Somebody who waits has hung up."""
    waiting = asyncio.create_task(work)
    await settle()
    assert not waiting.done()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


def test_who_gives_up_waiting_for_a_name_takes_it_from_nobody(complete: Complete) -> None:
    async def test() -> None:
        channel = keeping()
        await channel.claim("p", dialled(channel, "first"))
        second = dialled(channel, "second")
        await gave_up(channel.claim("p", second))
        channel.disclaim("p", second)
        await gave_up(channel.claim("p", dialled(channel, "third")))  # it waits for the first one, too

    complete(test())
