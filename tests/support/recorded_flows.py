"""What the tests of every flow ask of recorded runs: drawn at random, cut, audited, and carried by an exchange."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from permitflow.audit import audit_files
from permitflow.errors import TraceMismatchError
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.protocol.flow import Parameters
from permitflow.protocol.recording import ENDS, RecorderFactory
from permitflow.testing.core_pair import FlowPair
from permitflow.testing.moves import Move, attempt, moves_of, walk
from permitflow.testing.traces import Verdict, judge, judge_all
from permitflow.tracing import ChannelTrace, FileTrace, MemoryTrace, read_trace
from permitflow.transports.grpc_aio import get, put
from permitflow_model.kernel.explore import explore
from permitflow_model.kernel.system import System
from tests.support.recordings import audited

CHUNK = pa.record_batch({"n": [1, 2, 3]})


def assert_every_edge_is_taken(system: System[Any, Any], pair: FlowPair, parameters: Any) -> None:
    """The ends take every step of the model's whole state graph, and refuse everything else."""
    graph = explore(system, parameters)
    assert not graph.violations
    done = walk(system, pair, parameters)
    assert (done.states, done.edges) == (len(graph.states), len(graph.edges))
    assert done.refusals > 0


def drawn_run(
    system: System[Any, Any],
    parameters: Any,
    make_pair: Callable[[RecorderFactory], FlowPair],
    *,
    seed: int,
    steps: int,
    weight: Callable[[Move], int] | None = None,
) -> ChannelTrace:
    """What a random run of both ends recorded."""
    trace, choose = MemoryTrace(), random.Random(seed)
    pair, state = make_pair(trace.recorder), system.initial(parameters)

    def is_possible(move: Move) -> bool:
        return system.is_enabled(move.action, state, parameters, *move.arguments)

    for _ in range(steps):
        moves = [*filter(is_possible, moves_of(system, parameters))]
        move = choose.choices(moves, [*map(weight, moves)])[0] if weight else choose.choice(moves)
        attempt(pair, move)
        state = system.perform(move.action, state, parameters, *move.arguments)
    return trace.trace().channels["channel"]


def place_of(channel: ChannelTrace, action: str, after: int = 100) -> int:
    """Where the first such event behind the first hundred is."""
    (log,) = channel.logs
    return next(place for place, event in enumerate(log) if place > after and event.action == action)


def without(channel: ChannelTrace, place: int) -> ChannelTrace:
    """The run without the event at this place, numbered again."""
    (log,) = channel.logs
    kept, counts = [*log[:place], *log[place + 1 :]], {end: count(1) for end in ENDS}
    return replace(channel, logs=(tuple(event._replace(sequence=next(counts[event.end])) for event in kept),))


def assert_one_end_is_not_judged(channel: ChannelTrace) -> None:
    """The events of one end alone do not determine the other's."""
    sender = tuple(event for event in channel.logs[0] if event.end == "sender")
    with pytest.raises(TraceMismatchError, match="both ends must have been recorded"):
        judge(replace(channel, ends=frozenset({"sender"}), logs=(sender,)))


def broken_clauses(channel: ChannelTrace, folder: Path) -> set[str]:
    """The laws that an audit finds broken."""
    return {violation.clause for violation in audited(channel, folder).violations}


async def through_an_exchange(parameters: Parameters, address: str, chunks: int, path: Path) -> list[Verdict]:
    """Send chunks and a barrier through an exchange; the verdicts on what was recorded, which an audit accepts, too."""
    with FileTrace(path) as trace:
        exchange = Exchange(record=trace.recorder)
        exchange.add_channel("c", parameters)
        async with (
            ExchangeServer(exchange, address) as server,
            put(server.address, "c", CHUNK.schema, record=trace.recorder) as sender,
            get(server.address, "c", record=trace.recorder) as receiver,
            asyncio.TaskGroup() as group,
        ):

            async def produce() -> None:
                for _ in range(chunks):
                    await sender.send(CHUNK)
                await sender.send_barrier("epoch")
                await sender.end()

            group.create_task(produce())
            assert len([message async for message in receiver]) == chunks + 1
    audit = audit_files(path)
    assert audit.holds, audit.violations
    verdicts = list(judge_all(read_trace(path)))
    assert len(verdicts) == 3  # the producer's stream, the channel, the consumer's stream
    return verdicts
