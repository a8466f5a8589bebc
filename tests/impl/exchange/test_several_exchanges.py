"""A stream over several exchanges: clients with a list of addresses find the one that has a channel."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import NoReturn

import psutil
import pyarrow as pa
import pytest

from permitflow.carriers.addresses import ranked
from permitflow.client import (
    Retention,
    StagedPart,
    blocking,
    control,
    describe,
    dispatch,
    get,
    put,
    require_single_places,
)
from permitflow.client.blocking_dispatch import open_dispatch
from permitflow.errors import (
    InvalidParametersError,
    PeerGoneError,
    RowsNotThereError,
    StoreTakenOverError,
    UnknownChannelError,
)
from permitflow.exchange import Exchange, ExchangeServer
from permitflow.names import stream_channels

BATCH = pa.record_batch({"x": [1, 2, 3]})
CHANNELS = stream_channels("orders", 6)
ADDRESSES = ("a:1", "tcp://b:1", "c:1", "d:1")


def test_a_further_exchange_gets_channels_of_all_and_moves_no_others() -> None:
    channels = stream_channels("orders", 1_000)
    before = {channel: ranked(ADDRESSES[:3], channel)[0] for channel in channels}
    after = {channel: ranked(ADDRESSES, channel)[0] for channel in channels}
    moved = [channel for channel in channels if before[channel] != after[channel]]
    assert {after[channel] for channel in moved} == {"d:1"}
    assert {before[channel] for channel in moved} == set(ADDRESSES[:3])
    assert 200 < len(moved) < 300
    assert all(ranked(ADDRESSES[::-1], channel) == ranked(ADDRESSES, channel) for channel in channels)


def test_which_exchange_has_a_channel_is_the_same_everywhere() -> None:
    assert [ranked(ADDRESSES, channel)[0] for channel in CHANNELS] == ["a:1", "c:1", "d:1", "d:1", "d:1", "d:1"]


def divided(retention: Retention = Retention.ONCE) -> list[Exchange]:
    """Three exchanges, each with two of the channels."""
    exchanges = [Exchange() for _ in range(3)]
    for position, channel in enumerate(CHANNELS):
        exchanges[position % 3].add_channel(channel, retention=retention)
    return exchanges


@asynccontextmanager
async def serving(*exchanges: Exchange, scheme: str = "tcp://") -> AsyncIterator[list[ExchangeServer]]:
    servers = [ExchangeServer(exchange, f"{scheme}127.0.0.1:0") for exchange in exchanges]
    try:
        for server in servers:
            await server.__aenter__()
        yield servers
    finally:
        for server in servers:
            await server.stop()


def listed(servers: list[ExchangeServer]) -> str:
    return ", ".join(server.address for server in servers)


@pytest.mark.parametrize("scheme", ["", "tcp://"])
async def test_clients_find_each_channel_at_the_exchange_that_has_it(scheme: str) -> None:
    async with serving(*divided(), scheme=scheme) as servers:
        address = listed(servers)
        for channel in CHANNELS:
            async with put(address, channel, BATCH.schema) as sender, get(address, channel) as receiver:
                await sender.send(BATCH)
                assert (await receiver.receive()).rows == 3
                assert (await describe(address, channel)).schema == BATCH.schema
        with pytest.raises(UnknownChannelError) as caught:
            await describe(address, "none")
        assert set(caught.value.known) == {*CHANNELS}


async def test_a_blocking_control_asks_each_exchange_about_its_channels() -> None:
    async with serving(*divided()) as servers:
        address = listed(servers)

        def ask() -> tuple[list[str], list[str], dict[str, tuple[str, ...]]]:
            with blocking.control(address) as orders:
                counted = orders.statistics(CHANNELS).channels
                return (
                    [each.traffic.channel for each in orders.channels(CHANNELS)],
                    [each.channel for each in counted],
                    orders.by_exchange(CHANNELS),
                )

        names, counted, places = await asyncio.to_thread(ask)
    assert (names, counted) == ([*CHANNELS], [*CHANNELS])
    assert {server.address: places[server.address] for server in servers} == {
        server.address: tuple(CHANNELS[position::3]) for position, server in enumerate(servers)
    }


async def test_while_an_exchange_is_away_its_channels_are_waited_for() -> None:
    exchanges = divided()
    async with serving(*exchanges) as servers:
        address, away = listed(servers), servers[1].address
        await servers[1].stop()
        with pytest.raises(PeerGoneError, match=away.removeprefix("tcp://")):
            await describe(address, CHANNELS[1], connect_timeout_seconds=None)
        async with put(address, CHANNELS[0], BATCH.schema):
            pass
        async with asyncio.TaskGroup() as group:
            sending = group.create_task(open_and_close(address, CHANNELS[1]))
            async with ExchangeServer(exchanges[1], away):
                await sending


async def open_and_close(address: str, channel: str) -> None:
    async with put(address, channel, BATCH.schema, connect_timeout_seconds=60):
        pass


async def test_a_channel_that_another_exchange_has_taken_over_is_found() -> None:
    async with serving(Exchange(), *divided()[1:]) as servers:
        address = listed(servers)
        await servers[0].stop()
        for channel in (CHANNELS[1], CHANNELS[2]):
            async with put(address, channel, BATCH.schema):
                pass
        async with control(address) as orders:
            told = await orders.statistics([CHANNELS[2], CHANNELS[1]])
        assert [each.channel for each in told.channels] == [CHANNELS[2], CHANNELS[1]]


async def test_an_exchange_whose_store_was_taken_over_is_passed_by(monkeypatch: pytest.MonkeyPatch) -> None:
    exchanges, names = [Exchange(), Exchange()], stream_channels("many", 50)
    for exchange in exchanges:
        exchange.add_channels(names)
    async with serving(*exchanges) as servers:
        places = [server.address for server in servers]
        channel = next(name for name in names if ranked(places, name)[0] == places[0])

        def refuse(_: str) -> NoReturn:
            raise StoreTakenOverError(path="postgresql://db", by="the other exchange")

        monkeypatch.setattr(exchanges[0], "served", refuse)
        async with put(listed(servers), channel, BATCH.schema):
            pass
        with pytest.raises(StoreTakenOverError):
            await put(places[0], channel, BATCH.schema).__aenter__()


async def test_questions_and_orders_go_to_the_exchanges_concerned() -> None:
    exchanges = divided(Retention.REPLAY)
    async with serving(*exchanges) as servers, control(listed(servers)) as orders:
        await exchanges[1].replay_channel(CHANNELS[1]).append(BATCH)
        assert [each.next_row for each in await orders.positions(CHANNELS)] == [0, 3, 0, 0, 0, 0]
        assert [each.channel for each in (await orders.statistics()).channels] == [
            *CHANNELS[0::3],
            *CHANNELS[1::3],
            *CHANNELS[2::3],
        ]
        assert [each.traffic.channel for each in await orders.channels(CHANNELS[::-1])] == [*CHANNELS[::-1]]
        acknowledged = await orders.acknowledge({CHANNELS[0]: 0, CHANNELS[1]: 2})
        assert [each.acknowledged_row for each in acknowledged] == [0, 2]
        assert (await orders.peek(CHANNELS[1])).num_rows == 1
        assert [each.channel for each in await orders.close_channels(CHANNELS)] == [*CHANNELS]
        found = await orders.by_exchange(CHANNELS)
        assert found == {server.address: CHANNELS[position::3] for position, server in enumerate(servers)}


async def test_all_channels_are_those_of_all_exchanges_or_partial() -> None:
    exchanges = divided()
    async with serving(*exchanges) as servers, control(listed(servers), connect_timeout_seconds=0.3) as orders:
        away = servers[1].address
        await servers[1].stop()
        told = await orders.statistics(partial=True)
        assert [each.channel for each in told.channels] == [*CHANNELS[0::3], *CHANNELS[2::3]]
        assert [each.traffic.channel for each in await orders.channels(partial=True)] == [
            each.channel for each in told.channels
        ]
        assert [*orders.survey.unanswered] == [away]
        async with ExchangeServer(exchanges[1], away):
            assert len((await orders.statistics(partial=True)).channels) == 6
            assert orders.survey.is_whole
        with pytest.raises(PeerGoneError, match=away.removeprefix("tcp://")):
            await orders.channels()


async def test_an_exchange_that_hangs_up_often_costs_one_connection() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1 << 10)
        writer.write_eof()
        await reader.read()
        writer.close()

    async with serving(Exchange()) as servers, await asyncio.start_server(hang_up, "127.0.0.1", 0) as other:
        port = other.sockets[0].getsockname()[1]
        async with control(f"{listed(servers)},tcp://127.0.0.1:{port}", resume_seconds=0) as orders:
            for _ in range(3):
                await orders.statistics(partial=True)
            held = [each for each in psutil.Process().net_connections("tcp") if each.raddr and each.raddr.port == port]
            assert len(held) == 1


async def test_a_channel_at_two_exchanges_is_named() -> None:
    exchanges = divided()
    exchanges[0].add_channel(CHANNELS[1])
    async with serving(*exchanges) as servers:
        places = ranked([servers[0].address, servers[1].address], CHANNELS[1])
        async with control(listed(servers)) as orders:
            told = await orders.statistics(partial=True)
            assert sorted(each.channel for each in told.channels) == [*CHANNELS]
            assert orders.survey.twice == {CHANNELS[1]: places}
            with pytest.raises(InvalidParametersError, match=f"{places[0]} and {places[1]} have it: remove.*orders/1"):
                await orders.channels()


async def test_a_channel_at_two_exchanges_is_refused() -> None:
    exchanges = divided(Retention.REPLAY)
    exchanges[0].add_channel(CHANNELS[1])
    async with serving(*exchanges) as servers:
        address = listed(servers)
        first, second = ranked([servers[0].address, servers[1].address], CHANNELS[1])
        words = f"channel must be at one exchange ({first} and {second} have it: remove all but one), not 'orders/1'"
        for refused in (
            describe(address, CHANNELS[1]),
            require_single_places(address, CHANNELS),
            dispatch(address, CHANNELS, BATCH.schema, key=["x"]).__aenter__(),
            asyncio.to_thread(open_dispatch, address, CHANNELS, BATCH.schema, key=["x"]),
            asked(address, CHANNELS[1]),
        ):
            with pytest.raises(InvalidParametersError, match=re.escape(words)):
                await refused
        await require_single_places(address, CHANNELS[2:])


@pytest.mark.parametrize(("channels", "rule"), [("orders/0", "names, not one name"), ((), "at least one name")])
async def test_places_are_asked_for_by_names(channels: Sequence[str], rule: str) -> None:
    with pytest.raises(InvalidParametersError, match=rule):
        await require_single_places("localhost:1,localhost:2", channels)


async def test_a_channel_at_no_exchange_is_refused_before_others_get_rows() -> None:
    async with serving(*divided()) as servers:
        asking = require_single_places(listed(servers), (*CHANNELS, "orders/6"))
        with pytest.raises(UnknownChannelError, match="unknown channel 'orders/6'"):
            await asking
        await servers[2].stop()  # it may have it
        await require_single_places(listed(servers), (*CHANNELS, "orders/6"))


async def asked(address: str, channel: str) -> None:
    async with control(address) as orders:
        await orders.positions([channel])


async def test_a_further_channel_at_any_exchange_is_refused() -> None:
    async with serving(*divided()) as servers:
        asking = require_single_places(listed(servers), CHANNELS[:3], spread_over=3)
        with pytest.raises(InvalidParametersError, match=r"channels must be at least 6, because .* has orders/5"):
            await asking
        await servers[2].stop()  # does not count
        await require_single_places(listed(servers), CHANNELS[:5], spread_over=5)


@pytest.mark.parametrize("scheme", ["", "tcp://", "udp://"])
async def test_an_exchange_that_is_not_there_is_not_waited_for(scheme: str) -> None:
    async with serving(*divided(), scheme=scheme) as servers:
        await servers[2].stop()
        async with control(listed(servers), connect_timeout_seconds=None) as orders:
            await orders.statistics(partial=True)
        (why,) = orders.survey.unanswered.values()
        assert (" is gone: " in why, "no connection within" in why) == (True, False), why
        with pytest.raises(PeerGoneError) as caught:
            await put(listed(servers), CHANNELS[2], BATCH.schema, connect_timeout_seconds=0.1).__aenter__()
        assert "no connection within" not in str(caught.value)


async def test_what_is_all_or_none_is_refused_over_several_exchanges() -> None:
    async with serving(*divided(Retention.REPLAY)) as servers:
        parts = [StagedPart(channel, 0, "a", 1) for channel in CHANNELS]
        async with control(listed(servers)) as orders:
            with pytest.raises(InvalidParametersError, match="of one exchange"):
                await orders.publish("q", 0, parts)
        async with control(listed(servers)) as orders:
            with pytest.raises(InvalidParametersError, match="a single exchange"):
                await orders.add_stream("more")
        async with control(listed(servers)) as orders:
            with pytest.raises(UnknownChannelError, match="none"):
                await orders.positions(["none"])


async def test_an_error_of_one_exchange_leaves_the_caller_uncancelled() -> None:
    exchanges = divided(Retention.REPLAY)
    async with serving(*exchanges) as servers, control(listed(servers)) as orders:
        with pytest.raises(RowsNotThereError):
            await orders.acknowledge(dict.fromkeys(CHANNELS, 1))
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0


@pytest.mark.parametrize("text", ["a:1,", "a:1,a:1", "a:1;b:1"])
async def test_a_list_of_addresses_that_is_wrong_is_refused(text: str) -> None:
    with pytest.raises(InvalidParametersError, match="address"):
        await describe(text, "orders/0")
