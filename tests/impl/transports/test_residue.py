"""When the residue of an idle receiver returns: not with each chunk that comes alone, but soon."""

import pytest

from permitflow.protocol.permits import ChannelParameters
from permitflow.transports import remote_receiver
from tests.support.carriers import played_stream
from tests.support.number_streams import turns

# A residue of up to nine rows may wait.
WINDOW = ChannelParameters(row_permits=160, permit_batch=40, max_chunk_cost=121)
FOR_EVER_SECONDS = 3_600.0


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What may wait does, however slow the machine is."""
    monkeypatch.setattr(remote_receiver, "RESIDUE_SECONDS", FOR_EVER_SECONDS)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time for which it may wait is over at once."""
    monkeypatch.setattr(remote_receiver, "RESIDUE_SECONDS", 0.0)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(("rows", "returned"), [(9, []), (10, [10])], ids=["less than a sixteenth", "a sixteenth"])
async def test_a_residue_below_a_sixteenth_of_the_window_waits(rows: int, returned: list[int]) -> None:
    async with played_stream(WINDOW) as (producer, receiver):
        producer.send(rows)
        await receiver.receive()
        await turns()
        assert producer.returned_rows == returned


@pytest.mark.usefixtures("patient")
async def test_a_residue_returns_with_the_permits_that_make_it_a_sixteenth() -> None:
    async with played_stream(WINDOW) as (producer, receiver):
        for _ in range(4):
            producer.send(4)
            await receiver.receive()
            await turns()
        assert producer.returned_rows == [12]


@pytest.mark.usefixtures("hasty")
async def test_a_residue_that_waits_returns_by_itself() -> None:
    async with played_stream(WINDOW) as (producer, receiver):
        for _ in range(3):
            producer.returned_rows.clear()
            producer.send(4)
            await receiver.receive()
            await turns()
            assert producer.returned_rows == [4]


@pytest.mark.usefixtures("hasty")
async def test_a_residue_stays_while_a_message_is_held() -> None:
    async with played_stream(WINDOW) as (producer, receiver):
        producer.send(4)
        await receiver.receive()
        producer.send(4)
        await receiver.take()
        await turns()
        assert producer.returned_rows == []
        receiver.consume()
        await turns()
        assert producer.returned_rows == [8]


@pytest.mark.usefixtures("patient")
async def test_no_chunk_needs_the_residue_that_waits() -> None:
    async with played_stream(WINDOW) as (producer, receiver):
        producer.send(9)
        await receiver.receive()
        await turns()
        assert WINDOW.max_chunk_cost <= WINDOW.row_permits - receiver.statistics().gauges["unreturned_permits"]
        producer.send(WINDOW.max_chunk_cost)
        await receiver.receive()
        await turns()
        assert producer.returned_rows == [9 + WINDOW.max_chunk_cost]


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("is_end_first", [True, False], ids=["the end is known", "the end comes"])
async def test_at_the_end_no_residue_waits(*, is_end_first: bool) -> None:
    async with played_stream(WINDOW) as (producer, receiver):
        producer.send(4)
        if is_end_first:
            producer.end()
            await turns()
        await receiver.receive()
        await turns()
        if not is_end_first:
            producer.end()
            await turns()
        assert producer.returned_rows == [4]
