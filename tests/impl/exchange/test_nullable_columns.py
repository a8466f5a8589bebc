"""A producer's columns may refuse nulls that its channel allows, but not the other way round."""

import pyarrow as pa
import pytest

from permitflow.client import StagedPart, Staging, control, get, put
from permitflow.errors import SchemaMismatchError
from permitflow.exchange import Exchange, ExchangeServer, Retention
from tests.support.kept_rows import refused
from tests.support.number_streams import CHANNEL


def _schema(*, nullable: bool, dictionary: bool) -> pa.Schema:
    inner = pa.field("x", pa.int64(), nullable)
    lists = [pa.list_(inner), pa.large_list(inner), pa.list_(inner, 1)]
    kinds = [pa.int64(), *lists, pa.struct([inner]), pa.map_(pa.string(), inner)]
    words = [pa.dictionary(pa.int8(), pa.string())] if dictionary else []
    return pa.schema([pa.field(str(place), kind, nullable) for place, kind in enumerate([*kinds, *words])])


def _rows(schema: pa.Schema) -> pa.RecordBatch:
    values = [1, [1], [1], [1], {"x": 1}, [("k", 1)], "word"][: len(schema)]
    arrays = [pa.array([value], field.type) for value, field in zip(values, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


@pytest.mark.parametrize("dictionary", [False, True], ids=["plain", "with a dictionary"])
@pytest.mark.parametrize("how", ["once", "kept", "staged", "appended in the program"])
async def test_a_producer_may_refuse_nulls_that_its_channel_allows(how: str, *, dictionary: bool) -> None:
    wide, narrow = (_schema(nullable=each, dictionary=dictionary) for each in (True, False))
    exchange = Exchange()
    exchange.add_channel(CHANNEL, schema=wide, retention=Retention.ONCE if how == "once" else Retention.REPLAY)
    staging = Staging("q", 0, 0, "a") if how == "staged" else None
    async with ExchangeServer(exchange) as server:
        if how == "appended in the program":
            await exchange.replay_channel(CHANNEL).append(_rows(narrow))
        else:
            async with put(server.address, CHANNEL, narrow, staging=staging) as sender:
                assert sender.schema == narrow
                await sender.send(_rows(narrow))
                await sender.end(closes_channel=False)
        if staging is not None:
            async with control(server.address) as orders:
                await orders.publish("q", 0, [StagedPart(CHANNEL, 0, "a", 1)])
        async with get(server.address, CHANNEL, schema=wide) as receiver:
            assert (await receiver.receive()).payload == _rows(wide)


@pytest.mark.parametrize("retention", Retention)
async def test_a_producer_of_nulls_is_refused_where_there_are_none(retention: Retention) -> None:
    exchange = Exchange()
    exchange.add_channel(CHANNEL, schema=_schema(nullable=False, dictionary=False), retention=retention)
    async with ExchangeServer(exchange) as server:

        async def come() -> None:
            async with put(server.address, CHANNEL, _schema(nullable=True, dictionary=False)):
                pass

        assert "this producer has 0: int64, 1: list<x: int64>" in str(await refused(come(), SchemaMismatchError))
