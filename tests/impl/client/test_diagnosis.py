"""Why a wait has taken too long: who is there and who is not, as the exchange tells it."""

import socket
from dataclasses import replace
from typing import Any, NoReturn

import pytest

from permitflow.client.diagnosis import Explain, explained, why_no_permits, why_no_room, why_no_rows, why_no_schema
from permitflow.errors import PeerGoneError, PermitflowError, UnknownChannelError
from permitflow.stream.traffic import ChannelTraffic, KeptRows
from tests.support.served import served

QUIET = ChannelTraffic(
    channel="orders/0",
    state="open",
    reason="",
    window_rows=8,
    producers=0,
    consumers=0,
    rows_in=0,
    rows_out=0,
    rows_held=0,
    peak_rows_held=8,
    rows_with_consumers=0,
    waiting_seconds=0.0,
    consumer_waiting_seconds=0.0,
)
FULL = replace(QUIET, rows_held=8, kept=KeptRows(next_row=20, acknowledged={"audit": 12, "etl": 20}))

MANY_BEHIND = KeptRows(next_row=20_000, acknowledged={f"c{number}": number for number in range(20_000)})


@pytest.mark.parametrize(
    ("explain", "traffic", "words"),
    [
        (why_no_schema, QUIET, "no schema, because no producer has dialled: has the writing job started"),
        (why_no_schema, replace(QUIET, producers=1), "its first agreement is slow"),
        (why_no_rows, QUIET, "no producer is connected, and the channel has not ended"),
        (why_no_rows, replace(QUIET, producers=2), "2 producers are connected and silent"),
        (why_no_permits, QUIET, "no consumer is connected; all channels of a stream must be read at the same time"),
        (
            why_no_permits,
            replace(QUIET, consumers=1, rows_with_consumers=5, rows_held=3),
            "1 consumer is connected and slow or stuck: 5 rows are with it, 3 wait in the channel",
        ),
        (why_no_permits, FULL, "these have not, by this many rows: audit 8"),
        (why_no_permits, replace(QUIET, kept=MANY_BEHIND), ": c0 20,000, c1 19,999, "),
        (why_no_permits, replace(QUIET, kept=MANY_BEHIND), ", c19 19,981, and 19,980 more"),
        (why_no_permits, replace(QUIET, kept=KeptRows(next_row=9, acknowledged={"etl": 9})), "the exchange is slow"),
        (
            why_no_room,
            replace(QUIET, kept=KeptRows(next_row=20, acknowledged={"etl": 12}, staged_rows=1, published_rows=31)),
            "31 rows of earlier batches are beyond the channel's permits; rows are kept until all consumers have "
            "acknowledged them; these have not, by this many rows: etl 8",
        ),
        (
            why_no_room,
            replace(QUIET, kept=KeptRows(next_row=20, acknowledged={"etl": 20}, staged_rows=32)),
            "32 rows are staged by batches that were not published yet; do other queries write into this channel",
        ),
    ],
)
def test_the_cause_is_what_the_numbers_say(explain: Explain, traffic: ChannelTraffic, words: str) -> None:
    assert words in explain(traffic)


async def test_an_exchange_that_does_not_answer_is_the_cause_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("permitflow.client.diagnosis._LONGEST_ANSWER_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        address = f"tcp://127.0.0.1:{deaf.getsockname()[1]}"
        is_alive, cause = await explained(address, "orders/0", why_no_rows, "something else")
    assert not is_alive
    assert "it answers no questions either" in cause


async def test_an_exchange_whose_error_has_a_strange_fact_is_believed() -> None:
    class Strange:
        known = ()

        def missing(self, channel: str) -> PermitflowError:
            return UnknownChannelError(channel=channel, known=())

        async def carry_out(self, request: object, access: object) -> NoReturn:
            who: Any = 7
            raise PeerGoneError(who=who, reason="it slept")

    async with served(elsewhere=Strange()) as (_, address):
        assert await explained(address, "orders/0", None, "something else") == (False, "7 is gone: it slept")
