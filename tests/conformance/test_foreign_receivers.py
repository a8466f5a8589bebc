"""Receivers of other people return permits as they like: the exchange, its recording and both judges agree on them."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from permitflow import Permits
from permitflow.carriers.connection import GET_STREAM
from permitflow.client import put
from permitflow.errors import PermitOverrunError, UnexpectedFrameError
from permitflow.exchange import Exchange, ExchangeServer
from permitflow.stream.frames import End, Ended, EndOutcome, Feedback
from permitflow.tracing import FileTrace, Trace, read_trace
from permitflow.wire.codec import decode_upstream
from permitflow_testing.referee import ask_tlc
from permitflow_testing.traces import judge_all
from tests.support.number_streams import SMALL
from tests.support.peers_by_hand import BATCH, dialling, encoded, get_frame

AT_ONCE = [Permits(6, 1)]
BIT_BY_BIT = [Permits(1), Permits(1), Permits(2), Permits(0, 1), Permits(1), Permits(1)]
BARRIER_FIRST = [Permits(0, 1), Permits(5), Permits(1)]


async def run(path: Path, portions: Sequence[Permits]) -> None:
    """Two chunks of three rows and a barrier go to a consumer that returns these permits, and no others."""
    with FileTrace(path) as trace:
        exchange = Exchange(parameters=SMALL, record=trace.recorder)
        exchange.add_channel("orders/0", schema=BATCH.schema)
        async with (
            ExchangeServer(exchange) as server,
            put(server.address, "orders/0", BATCH.schema) as sender,
            dialling(server.address, GET_STREAM) as consumer,
        ):
            for _ in range(2):
                await sender.send(BATCH)
            await sender.send_barrier(7)
            await sender.end()
            await consumer.write([encoded(GET_STREAM, get_frame())])
            while not any(isinstance(frame, End) for frame in decode_upstream(await consumer.read() or b"")):
                pass
            for permits in portions:
                await consumer.write([encoded(GET_STREAM, Feedback(permits))])
            await consumer.write([encoded(GET_STREAM, Ended(EndOutcome.CONSUMED))])
            consumer.half_close()
            while await consumer.read() is not None:
                pass


def of_exchange(path: Path) -> Trace:
    """What was recorded of a run; both judges must find nothing wrong with it."""
    trace = read_trace(path)
    assert [verdict.describe() for verdict in judge_all(trace) if not verdict.is_valid] == []
    return trace


@pytest.mark.parametrize("portions", [AT_ONCE, BIT_BY_BIT, BARRIER_FIRST], ids=["sum", "bits", "barrier first"])
def test_permits_may_come_back_in_any_portions(tmp_path: Path, portions: Sequence[Permits]) -> None:
    asyncio.run(run(tmp_path / "run.jsonl", portions))
    returned = of_exchange(tmp_path / "run.jsonl").channels["orders/0#get1"].logs[0]
    assert [event.arguments[1:] for event in returned if event.action == "AddPermits"] == list(portions)


def test_tlc_agrees_where_permits_came_back_in_portions(tmp_path: Path) -> None:
    asyncio.run(run(tmp_path / "run.jsonl", BIT_BY_BIT))
    referee = ask_tlc(read_trace(tmp_path / "run.jsonl").channels["orders/0#get1"])
    assert referee.agrees, referee.describe()


@pytest.mark.parametrize(
    ("portions", "kind"),
    [([Permits(1), Permits()], UnexpectedFrameError), ([Permits(1), Permits(6)], PermitOverrunError)],
    ids=["no permits", "more than it holds"],
)
def test_a_wrong_return_of_permits_ends_the_stream_unrecorded(
    tmp_path: Path, portions: Sequence[Permits], kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        asyncio.run(run(tmp_path / "run.jsonl", portions))
    returned = of_exchange(tmp_path / "run.jsonl").channels["orders/0#get1"].logs[0]
    assert [event.arguments[1:] for event in returned if event.action == "AddPermits"] == [Permits(1)]
