"""``permitflow channel``: what people and scripts see of the channels of an exchange, and what they change."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace

import pyarrow as pa
import pytest

from permitflow.client import RemoteSender, Retention, StagedPart, Staging, control, put
from permitflow.exchange import Exchange, ExchangeServer
from tests.permitflow_tools.cli.conftest import Answer, Command
from tests.support.served import served

BATCH = pa.record_batch({"n": pa.array([1, 2, 3], pa.int64()), "s": ["a", None, "\x1bc"]})
TCP = "tcp://127.0.0.1:0"


@asynccontextmanager
async def asked(command: Command, *channels: str) -> AsyncIterator[tuple[Exchange, "Shell"]]:
    async with served(*channels, listen=TCP) as (exchange, address):
        yield exchange, Shell(command, address)


class Shell:
    """Runs the command beside the exchange's event loop."""

    def __init__(self, command: Command, address: str) -> None:
        self.address, self._command = address, command

    async def __call__(self, *arguments: str) -> Answer:
        name, *others = arguments
        return await asyncio.to_thread(self._command, "channel", name, *others, "--address", self.address)


async def fill(address: str, name: str) -> None:
    async with put(address, name, BATCH.schema) as sender:
        await sender.send(BATCH)
        await sender.end(closes_channel=True)


async def test_a_spent_channel_is_listed_with_its_reason_and_reset(command: Command) -> None:
    async with asked(command, "orders/0", "orders/1") as (exchange, shell):
        await fill(shell.address, "orders/1")
        code, out, _ = await shell("list", "orders")
        assert code == 0
        assert "ended" in out
        assert "schema n int64, s string" in out
        code, _, error = await shell("reset", "orders")
        assert code == 1
        assert error == (
            "Error: channel 'orders/1' cannot be reset: 3 rows and 1 messages wait; "
            "with force their streams end with an error, and the rows are dropped\n"
        )
        assert await shell("reset", "orders", "--force") == (0, "reset orders/0\nreset orders/1: 3 rows dropped\n", "")
        assert [each.state for each in exchange.statistics()] == ["waiting", "waiting"]


async def test_only_the_broken_channels_of_a_stream_are_reset(command: Command) -> None:
    async with asked(command, "orders/0", "orders/1") as (exchange, shell):
        exchange.channel("orders/0").abort("its producer is gone")
        await fill(shell.address, "orders/1")
        assert await shell("reset", "orders", "--broken") == (0, "reset orders/0\n", "")
        assert [each.state for each in exchange.statistics()] == ["waiting", "ended"]
        assert await shell("reset", "orders", "--broken") == (0, "none of these channels is broken\n", "")


async def test_those_of_several_exchanges_that_answer_are_listed(command: Command) -> None:
    async with asked(command, "orders/0") as (_, one), asked(command, "orders/0", "orders/1") as (_, other):
        both, away = (
            Shell(command, f"{one.address},{other.address}"),
            Shell(command, f"{one.address},tcp://127.0.0.1:1"),
        )
        code, out, error = await both("list")
        assert (code, out.count("orders/")) == (1, 2), error
        assert "channel 'orders/0' must be at one exchange (tcp://127.0.0.1:" in error
        assert [line.split()[1] for line in out.splitlines()[3:]] == [other.address]
        code, out, error = await away("list", "--json")
        assert (code, [*json.loads(out)["unanswered"]]) == (1, ["tcp://127.0.0.1:1"]), error
        for names in ((), ("orders/1",)):
            told = json.loads((await both("list", *names, "--json"))[1])["channels"]
            assert (told[-1]["channel"], told[-1]["exchange"]) == ("orders/1", other.address)
        assert "no answer from tcp://127.0.0.1:1, its channels are missing here: " in error
        assert (await away("list", "orders/0"))[0] == 0
        code, _, error = await away("remove", "orders")
        assert (code, "127.0.0.1:1 is gone" in error) == (1, True), error


async def test_what_a_hostile_exchange_tells_commands_no_terminal(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asked(command, "orders/0") as (exchange, shell):
        (honest,) = exchange.statistics()
        endless = "\x1b[2J" * 100_000
        hostile = replace(honest, channel=endless, state=endless, reason=endless)
        monkeypatch.setattr(exchange, "statistics", lambda _: [hostile])
        code, out, _ = await shell("list")
    assert (code, len(out) < 100_000, "\x1b" in out, "399,800 more" in out) == (0, True, False, True)


async def test_a_peek_shows_rows_and_a_purge_counts_them(command: Command) -> None:
    async with asked(command, "orders/0") as (_, shell):
        await fill(shell.address, "orders/0")
        code, out, _ = await shell("peek", "orders/0")
        assert (code, [line.split() for line in out.splitlines()[2:]]) == (
            0,
            [["1", "a"], ["2", "None"], ["3", "\\x1bc"]],
        )
        code, out, _ = await shell("peek", "orders/0", "--rows", "1", "--json")
        assert json.loads(out)["rows"] == [{"n": 1, "s": "a"}]
        assert await shell("purge", "orders/0") == (0, "purged orders/0: 3 rows dropped\n", "")
        assert (await shell("peek", "orders/0"))[1] == "no rows wait\n"


async def test_a_long_value_is_cut_in_a_peek(command: Command) -> None:
    async with asked(command, "orders/0") as (_, shell):
        async with put(shell.address, "orders/0", BATCH.schema) as sender:
            await sender.send(pa.record_batch([[1], [3_000 * "x"]], BATCH.schema))
            await sender.end()
        _, out, _ = await shell("peek", "orders/0")
    assert out.count("x") == 1_000
    assert "… (2,000 more characters)" in " ".join(out.split())


async def test_a_peek_has_values_that_python_or_json_has_not(command: Command) -> None:
    values = [pa.array([1], pa.timestamp("ns", "No/Where")), pa.array([b"\xff"]), pa.array([float("nan")])]
    batch = pa.record_batch(values, names=["at", "b", "f"])
    async with asked(command, "orders/0") as (_, shell):
        async with put(shell.address, "orders/0", batch.schema) as sender:
            await sender.send(batch)
            await sender.end()
        _, out, _ = await shell("peek", "orders/0")
        assert out.splitlines()[-1].split() == ["1970-01-01T00:00:00.000000001+00:00", r"b'\xff'", "nan"]
        _, out, _ = await shell("peek", "orders/0", "--json")
    assert json.loads(out)["rows"] == [{"at": "1970-01-01T00:00:00.000000001+00:00", "b": "/w==", "f": None}]


async def test_rows_in_doubt_are_shown_until_they_are_rolled_back(command: Command) -> None:
    exchange = Exchange(staging_timeout_seconds=-1)
    exchange.add_channel("orders/0", retention=Retention.REPLAY)
    async with ExchangeServer(exchange, TCP) as server:
        shell, stated = Shell(command, server.address), StagedPart("orders/0", 0, "x", BATCH.num_rows)

        def attempt(partition: int) -> AbstractAsyncContextManager[RemoteSender]:
            staging = Staging("q", 0, partition, stated.attempt)
            return put(server.address, stated.channel, BATCH.schema, staging=staging)

        # While it goes on, nothing of its query expires.
        async with attempt(1), attempt(0) as sender, control(server.address) as orders:
            await sender.send(BATCH)
            await sender.end(closes_channel=False)
            await orders.prepare("q", 0, [stated])
        assert "3 rows in doubt" in (await shell("list"))[1]
        code, _, error = await shell("remove", "orders")
        assert (code, error.partition(" rows are prepared")[0]) == (1, "Error: channel 'orders/0' cannot be removed: 3")
        assert await shell("rollback", "orders") == (0, "rolled back orders/0: 3 rows dropped\n", "")
        assert "in doubt" not in (await shell("list"))[1]
        assert (await shell("rollback", "orders/0"))[1] == "rolled back orders/0: 0 rows dropped\n"
        assert await shell("remove", "orders") == (0, "removed orders/0\n", "")


async def test_what_keeps_no_rows_cannot_be_rolled_back(command: Command) -> None:
    async with asked(command, "orders/0") as (_, shell):
        code, _, error = await shell("rollback", "orders")
        assert (code, "keeps no rows" in error) == (2, True)


async def test_a_stream_is_added_with_the_options_of_serve(command: Command) -> None:
    async with asked(command) as (exchange, shell):
        options = ("--retention", "replay", "--consumer", "etl", "--kept-rows", "64")
        assert await shell("add", "more:2", *options) == (0, "added more/0\nadded more/1\n", "")
        code, out, _ = await shell("list", "--json")
        listed = json.loads(out)["channels"]
        assert [(one["channel"], one["retention"], one["limit_rows"]) for one in listed] == [
            ("more/0", "replay", 64),
            ("more/1", "replay", 64),
        ]
        code, _, error = await shell("add", "more")
        assert (code, error) == (2, "Error: channel must be a name that is not in use, not 'more/0'\n")
        code, _, error = await shell("add", "other", "--kept-rows", "5")
        assert (code, error.split(":")[1].strip()) == (2, "--kept-rows")
        assert (await shell("remove", "more"))[:2] == (0, "removed more/0\nremoved more/1\n")
        assert not exchange.names


async def test_an_unknown_channel_or_consumer_is_unusable_input(command: Command) -> None:
    async with asked(command, "orders/0") as (_, shell):
        for arguments in (("remove", "orders/1"), ("reset", "strange"), ("peek", "x"), ("list", "x")):
            code, _, error = await shell(*arguments)
            assert code == 2
            assert "known channels: orders/0" in error
        assert (await shell("purge", "orders/0", "--consumer", "x"))[0] == 2
        code, _, error = await shell("list", "localhost:50051")
        assert (code, error.endswith("; an exchange is named with --address\n")) == (2, True), error


def test_an_exchange_that_is_not_there_is_a_failure(command: Command) -> None:
    code, _, error = command("channel", "list", "--address", "tcp://127.0.0.1:1")
    assert code == 1
    assert error.startswith("Error: the exchange at tcp://127.0.0.1:1")
