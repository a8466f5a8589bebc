"""The blocking clients over connections that are cut."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from permitflow.client.blocking import open_sink, open_source, probe
from permitflow.errors import PeerTimeoutError, ResumeTimeoutError
from permitflow.stream.frames import EndOutcome
from tests.support.cutting_proxy import Cut, Direction, cutting_beside
from tests.support.served_exchange import SCHEMA, SHORT_SECONDS, ServedExchange, numbers, values

ROWS = 4_000
CHUNK_ROWS = 20
LONG_SECONDS = 20.0


def sent(address: str, channel: str, *, resume_seconds: float = LONG_SECONDS) -> EndOutcome:
    with open_sink(address, channel, SCHEMA, timeout_seconds=LONG_SECONDS, resume_seconds=resume_seconds) as sink:
        for first in range(0, ROWS, CHUNK_ROWS):
            sink.send(numbers(first, first + CHUNK_ROWS))
        return sink.end(closes_channel=True)


def test_ten_cuts_of_each_end_lose_and_double_no_row(exchange: ServedExchange, pool: ThreadPoolExecutor) -> None:
    channel = exchange.channel()
    up_cuts, down_cuts = ([Cut(1_000 * n, direction) for n in range(1, 11)] for direction in Direction)
    with cutting_beside(exchange.address, up_cuts) as up, cutting_beside(exchange.address, down_cuts) as down:
        sending = pool.submit(sent, up.address, channel)
        with open_source(down.address, channel, resume_seconds=LONG_SECONDS) as source:
            assert values(list(source)) == [*range(ROWS)]
            assert source.statistics().resumes > 0
        assert sending.result() is EndOutcome.CONSUMED
        assert up.cuts == down.cuts == 10


def test_a_network_that_stays_away_ends_a_call_with_what_to_do(exchange: ServedExchange) -> None:
    with (
        cutting_beside(exchange.address, [Cut(1_000, is_last=True)]) as way,
        pytest.raises(ResumeTimeoutError, match="resume_seconds"),
    ):
        sent(way.address, exchange.channel(), resume_seconds=SHORT_SECONDS)


def test_a_question_about_a_schema_is_told_of_the_lost_network(exchange: ServedExchange) -> None:
    with cutting_beside(exchange.address, [Cut(100, is_last=True)]) as way, pytest.raises(ResumeTimeoutError):
        probe(way.address, exchange.channel(), timeout_seconds=LONG_SECONDS, resume_seconds=SHORT_SECONDS)


def test_a_shorter_time_out_names_the_lost_connection(exchange: ServedExchange) -> None:
    with (
        cutting_beside(exchange.address) as way,
        open_sink(exchange.address, channel := exchange.channel(), SCHEMA),
        open_source(way.address, channel, resume_seconds=LONG_SECONDS) as source,
    ):
        way.break_for_ever()
        source.timeout_seconds = SHORT_SECONDS
        with pytest.raises(PeerTimeoutError, match="its connection has been lost for"):
            list(source)
