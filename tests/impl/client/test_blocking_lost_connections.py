"""The blocking clients over connections that are cut."""

import pytest

from permitflow.client.blocking import open_sink, open_source, probe
from permitflow.errors import PeerTimeoutError, ResumeTimeoutError
from tests.support.cutting_proxy import Cut, cutting_beside
from tests.support.served_exchange import SCHEMA, SHORT_SECONDS, ServedExchange, send_for_ever

LONG_SECONDS = 20.0


def test_a_network_that_stays_away_ends_a_call_with_what_to_do(exchange: ServedExchange) -> None:
    with (
        cutting_beside(exchange.address, [Cut(1_000, is_last=True)]) as way,
        open_sink(way.address, exchange.channel(), SCHEMA, resume_seconds=SHORT_SECONDS) as sink,
        pytest.raises(ResumeTimeoutError, match="resume_seconds"),
    ):
        send_for_ever(sink)


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
