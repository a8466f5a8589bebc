"""Hostile peers of an exchange over memory, in simulated time: quick, and the same in each run.

The exchange is the production code from a carrier's message on; what a neighbour is promised is checked each time.
"""

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from permitflow.carriers.calling import calling
from permitflow.carriers.carrier import Conversation
from permitflow.carriers.reaching import Destination
from permitflow.client import SameHost, get, put
from permitflow.errors import PermitflowError
from permitflow.exchange import Exchange, Retention
from permitflow.wire.wire_errors import decode_error, encode_error
from tests.hostile.grammar import BATCH, KEPT, ONCE, PARAMETERS, Checked, Does, Says, Session, Waits
from tests.support.cut_lines import ADDRESS, Network
from tests.support.simulated_time import in_simulated_time

NEIGHBOUR = "neighbour"
LOOK_SECONDS = 7.0
PATIENCE_SECONDS = 60.0
"""So long a peer waits for the exchange's last word."""
OVER_SECONDS = 200.0
"""Longer than any deadline of an exchange: then everything about a peer that is gone is over."""


class Broken(AssertionError):
    """The exchange has not kept what it promises about hostile peers."""


def attack(sessions: Sequence[Session]) -> list[str]:
    """Let peers do all this at the same time, beside a neighbour; what each heard in the end, by its type.

    Raises:
        Broken: the exchange failed, answered without a type, kept something of a peer that is gone, or let a neighbour
            wait.
    """
    return in_simulated_time(_attack(sessions))


async def _attack(sessions: Sequence[Session]) -> list[str]:
    unhandled: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    exchange = Exchange(parameters=PARAMETERS, same_host=SameHost.NEVER)
    exchange.add_channels([ONCE, NEIGHBOUR], schema=BATCH.schema)
    exchange.add_channel(KEPT, schema=BATCH.schema, retention=Retention.REPLAY, kept_rows=8)
    async with (
        Network(exchange).opened() as network,
        put(ADDRESS, NEIGHBOUR, BATCH.schema) as sender,
        get(ADDRESS, NEIGHBOUR) as receiver,
    ):
        async with asyncio.TaskGroup() as group:
            peers = [group.create_task(_peer(session)) for session in sessions]
            while not all(peer.done() for peer in peers):
                await _pass(sender, receiver)
                await asyncio.sleep(LOOK_SECONDS)
        await asyncio.sleep(OVER_SECONDS)
        await _pass(sender, receiver)
        open_now = exchange.admission.streams, exchange.admission.handshakes, len(exchange.admission.suspended)
    if network.failures:
        raise Broken(f"the exchange failed: {network.failures[0]!r}") from network.failures[0]
    if unhandled:
        raise Broken(f"nobody handled: {unhandled[0]}")
    if open_now != (2, 0, 0):
        raise Broken(f"streams, handshakes, suspended streams that are left beside the neighbour's two: {open_now}")
    return [peer.result() for peer in peers]


async def _pass(sender: Any, receiver: Any) -> None:
    try:
        async with asyncio.timeout(1.0):
            await sender.send(BATCH)
            message = await receiver.receive()
    except TimeoutError:
        raise Broken("a neighbour's chunk did not pass within a second") from None
    if not message.payload.equals(BATCH):
        raise Broken(f"a neighbour received {message.payload}")


async def _peer(session: Session) -> str:
    heard = "nothing"
    steps = [*session.steps]
    while True:
        rest = steps[: steps.index(Does.CUTS)] if Does.CUTS in steps else steps
        steps = steps[len(rest) + 1 :]
        heard = await _connection(session.method, rest) or heard
        if not steps:
            return heard


async def _connection(method: str, steps: Sequence[Any]) -> str:
    checked = Checked(method)
    with suppress(TimeoutError):
        async with calling(Destination(ADDRESS, method, "the exchange", 10.0)) as carrier:
            conversation = Conversation(carrier)
            reading = asyncio.create_task(_read_all(conversation))
            try:
                for step in steps:
                    match step:
                        case Says():
                            await conversation.write([checked.message(step)])
                        case Waits(seconds):
                            await asyncio.sleep(seconds)
                        case Does.HALF_CLOSES:
                            conversation.half_close()
                await asyncio.wait({reading}, timeout=PATIENCE_SECONDS)
            except PermitflowError as error:
                return _typed(error)
            finally:
                reading.cancel()
                await asyncio.wait({reading})
            if not reading.cancelled() and (failure := reading.exception()) is not None:
                if not isinstance(failure, PermitflowError):
                    raise failure
                return _typed(failure)
    return ""


def _typed(error: PermitflowError) -> str:
    """The error's name; it is a type that crosses the wire."""
    again = decode_error(encode_error(error), who="the exchange")
    if type(again) is not type(error):
        raise Broken(
            f"{type(error).__name__} becomes {type(again).__name__} on the wire: {json.loads(encode_error(error))}"
        )
    return type(error).__name__


async def _read_all(conversation: Conversation) -> None:
    while await conversation.read() is not None:
        pass
