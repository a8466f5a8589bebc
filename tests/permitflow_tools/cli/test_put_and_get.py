"""``permitflow put`` and ``get``: rows of files and pipes through an exchange, and what is said if it goes wrong."""

import asyncio
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from permitflow import ChannelParameters
from permitflow.client import Retention, put
from permitflow.dispatch import spread, vnode_of
from permitflow.exchange import AccessControl, Exchange
from permitflow.exchange.books.bridge import BridgeState
from permitflow.names import stream_channels
from permitflow_tools.row_files import writing
from tests.permitflow_tools.cli.conftest import Answer, Command
from tests.support.served import served
from tests.support.turns import until

NAME = "orders/0"
PARAMETERS = ChannelParameters(row_permits=256, permit_batch=8)
ROWS = "n,s\n" + "".join(f"{number},row {number}\n" for number in range(100))


class Shell:
    """Runs commands beside the exchange's event loop."""

    def __init__(self, command: Command, exchange: Exchange, address: str) -> None:
        self.exchange, self.address, self._command = exchange, address, command

    async def __call__(self, *arguments: str) -> Answer:
        return await asyncio.to_thread(self._command, *arguments, "--address", self.address)

    @property
    def state(self) -> BridgeState:
        return BridgeState(self.exchange.statistics()[0].state)


@asynccontextmanager
async def beside(command: Command, retention: Retention = Retention.ONCE) -> AsyncIterator[Shell]:
    opened = served(NAME, parameters=PARAMETERS, listen="tcp://127.0.0.1:0", retention=retention)
    async with opened as (exchange, address):
        yield Shell(command, exchange, address)


def written(folder: Path, name: str, content: str) -> str:
    path = folder / name
    path.write_text(content)
    return str(path)


async def test_a_file_goes_through_a_channel_into_another_format(command: Command, tmp_path: Path) -> None:
    source, target = written(tmp_path, "orders.csv", ROWS), tmp_path / "out.parquet"
    async with beside(command) as shell:
        assert await shell("put", NAME, source) == (0, "put 100 rows into orders/0: the exchange has them\n", "")
        assert await shell("get", NAME, str(target)) == (0, "", f"wrote 100 rows of orders/0 to {target}\n")
    assert pyarrow.parquet.read_table(target)["n"].to_pylist() == [*range(100)]
    assert {*os.listdir(tmp_path)} == {"orders.csv", "out.parquet"}


async def test_rows_with_a_key_go_to_the_channels_of_their_stream(command: Command, tmp_path: Path) -> None:
    source = written(tmp_path, "orders.csv", ROWS)
    async with served(*stream_channels("orders", 3), parameters=PARAMETERS) as (exchange, address):
        shell = Shell(command, exchange, address)
        code, out, error = await shell("put", "orders", source, "--key", "s,n", "--rows", "90")
        assert (code, out) == (0, "put 90 rows into orders: the exchange has them\n"), error
        for channel in range(3):
            _, out, _ = await shell("get", f"orders/{channel}")
            mine = [n for n in range(90) if spread(3)[vnode_of([f"row {n}", n])] == channel]
            assert [json.loads(line)["n"] for line in out.splitlines()] == mine


async def test_a_key_that_cannot_be_is_told_before_a_row_is_put(command: Command, tmp_path: Path) -> None:
    source = written(tmp_path, "orders.csv", ROWS)
    async with beside(command) as shell:
        for arguments, words in (
            (("orders", source, "--key", "nr"), "--key: nr must be a column of the rows (n, s)"),
            (("orders", source, "--key", ""), "--key: '' must be a column of the rows (n, s)"),
            (("order", source, "--key", "n"), "the exchange has no channel order/0"),
            (("orders:x", source, "--key", "n"), "must be NAME or NAME:N with at least one channel"),
            (("orders", source, "--key", "n", "--producer", "p"), "--producer cannot be combined with --key"),
        ):
            code, _, error = await shell("put", *arguments)
            assert (code, words in error) == (2, True), error
        assert shell.state is BridgeState.WAITING


async def test_rows_with_a_key_need_all_channels_or_their_number(command: Command, tmp_path: Path) -> None:
    source = written(tmp_path, "orders.csv", ROWS)
    async with served("orders/0", "orders/2", parameters=PARAMETERS) as (exchange, address):
        shell = Shell(command, exchange, address)
        code, _, error = await shell("put", "orders", source, "--key", "n")
        assert (code, "orders/2 is there, but not orders/1" in error) == (2, True), error
        code, _, error = await shell("put", "orders:3", source, "--key", "n")
        assert (code, "unknown channel 'orders/1'" in error) == (2, True), error
        exchange.add_channel("orders/1")
        code, _, error = await shell("put", "orders:2", source, "--key", "n")
        assert (code, "channels must be at least 3" in error) == (2, True), error
        with_one_away = Shell(command, exchange, f"{address},127.0.0.1:1")
        code, _, error = await with_one_away("put", "orders", source, "--key", "n")
        assert (code, "127.0.0.1:1 is gone" in error, "as in orders:4" in error) == (1, True, True), error
        assert (await shell("put", "orders:3", source, "--key", "n"))[0] == 0


async def test_a_channel_at_two_exchanges_is_neither_put_nor_got(command: Command, tmp_path: Path) -> None:
    source = written(tmp_path, "orders.csv", ROWS)
    async with served("orders/0", parameters=PARAMETERS) as (exchange, one), served("orders/0") as (_, other):
        shell = Shell(command, exchange, f"{one},{other}")
        for arguments in (("put", NAME, source), ("put", "orders", source, "--key", "n"), ("get", NAME)):
            code, _, error = await shell(*arguments)
            assert (code, "must be at one exchange (127.0.0.1:" in error) == (2, True), error
        assert shell.state is BridgeState.WAITING


async def test_another_stream_at_two_exchanges_stops_no_put(command: Command, tmp_path: Path) -> None:
    source = written(tmp_path, "orders.csv", ROWS)
    async with served("orders/0", "lines/0") as (exchange, one), served("lines/0") as (_, other):
        code, _, error = await Shell(command, exchange, f"{one},{other}")("put", "orders", source, "--key", "n")
        assert code == 0, error


async def test_rows_are_spread_by_who_may_only_produce(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = written(tmp_path, "orders.csv", ROWS)
    async with spreading(command, tmp_path, monkeypatch, "orders/*") as shell:
        code, out, error = await shell("put", "orders", source, "--key", "n")
    assert (code, out) == (0, "put 100 rows into orders: the exchange has them\n"), error


async def test_who_sees_some_channels_spreads_over_none(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = written(tmp_path, "orders.csv", ROWS)
    async with spreading(command, tmp_path, monkeypatch, "orders/0") as shell:
        code, _, error = await shell("put", "orders", source, "--key", "n")
        assert (code, "must be at least 2, because the exchange has orders/1" in error) == (2, True), error
        assert shell.state is BridgeState.WAITING


@asynccontextmanager
async def spreading(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allowed: str
) -> AsyncIterator[Shell]:
    """An exchange with two channels of a stream, of which a producer may use some."""
    digest = hashlib.sha256(b"a-token-of-some-length").hexdigest()
    rights = written(tmp_path, "r.toml", f'[identities.etl]\ntokens = ["sha256:{digest}"]\nproduce = ["{allowed}"]\n')
    monkeypatch.setenv("PERMITFLOW_TOKEN", "a-token-of-some-length")
    access = AccessControl(rights=rights)
    async with served(*stream_channels("orders", 2), parameters=PARAMETERS, of_server={"access": access}) as exchange:
        yield Shell(command, *exchange)


async def test_only_so_many_rows_are_put_and_got(command: Command, tmp_path: Path) -> None:
    source = written(tmp_path, "orders.csv", ROWS)
    async with beside(command) as shell:
        code, out, _ = await shell("put", NAME, source, "--rows", "7", "--keep-open", "--json")
        assert (code, json.loads(out)["rows"], shell.state) == (0, 7, BridgeState.OPEN)
        code, out, error = await shell("get", NAME, "--rows", "2")
        assert (code, out) == (0, '{"n": 0, "s": "row 0"}\n{"n": 1, "s": "row 1"}\n')
        assert error.endswith("wrote 2 rows of orders/0\n")
        await until(lambda: shell.state is BridgeState.SPENT)


async def test_a_wrong_row_is_told_and_what_comes_before_it_is_put(command: Command, tmp_path: Path) -> None:
    source = written(tmp_path, "orders.jsonl", '{"n": 1}\n{"n": 2}\n{"n": "x"}\n')
    async with beside(command) as shell:
        code, _, error = await shell("put", NAME, source, "--schema", "n:int64")
        assert code == 2
        assert error == (
            f"Error: {source}, line 3: Column(/n) changed from number to string; the 2 rows before it are in orders/0, "
            "which stays open: put the rest\n"
        )
        assert shell.state is BridgeState.OPEN
        assert (await shell("put", NAME, written(tmp_path, "rest.jsonl", '{"n": 3}\n')))[0] == 0
        assert (await shell("get", NAME, "--format", "csv"))[1] == '"n"\n1\n2\n3\n'


async def test_a_row_that_is_too_large_is_told_by_its_number(command: Command, tmp_path: Path) -> None:
    source = tmp_path / "wide.parquet"
    pa.parquet.write_table(pa.table({"s": ["a", "b", "x" * (17 << 20), "d"]}), source)
    async with beside(command) as shell:
        code, _, error = await shell("put", NAME, str(source))
        assert code == 2
        assert f"Error: {source}, row 3: a chunk that cannot be cut (rows: 1)" in error
        assert error.endswith("; the 2 rows before it are in orders/0, which stays open: put the rest\n")
        assert (await shell("get", NAME, "--rows", "2"))[1] == '{"s": "a"}\n{"s": "b"}\n'


@pytest.mark.parametrize("rows_of_a_chunk", [1, 100])
async def test_dictionaries_that_are_too_large_are_told_of_no_row(
    command: Command, tmp_path: Path, rows_of_a_chunk: int
) -> None:
    source = tmp_path / "words.arrow"
    words = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 50, pa.int32()), ["a", "x" * (17 << 20)])
    table = pa.table({"s": words})
    with pa.ipc.new_file(source, table.schema) as file:
        file.write_table(table, rows_of_a_chunk)
    async with beside(command) as shell:
        code, _, error = await shell("put", NAME, str(source))
        assert (code, error.startswith("Error: a chunk that cannot be cut (rows: ")) == (1, True)


async def test_a_named_producer_goes_on_where_it_has_stopped(command: Command, tmp_path: Path) -> None:
    source = written(tmp_path, "orders.csv", ROWS)
    async with beside(command, Retention.REPLAY) as shell:
        named = ("put", NAME, source, "--producer", "nightly")
        assert (await shell(*named, "--rows", "30", "--keep-open"))[0] == 0
        code, out, _ = await shell(*named)
        assert (code, out) == (0, "put 70 rows into orders/0, behind 30 that were there: the exchange has them\n")
        assert shell.exchange.replay_channel(NAME).books.next_row == 100


async def test_a_named_put_again_behind_its_end_succeeds(command: Command, tmp_path: Path) -> None:
    source = written(tmp_path, "orders.csv", ROWS)
    async with beside(command, Retention.REPLAY) as shell:
        named = ("put", NAME, source, "--producer", "nightly")
        assert (await shell(*named, "--rows", "60"))[0] == 0
        there = "put 0 rows into orders/0, behind {} that were there: the exchange has them\n"
        assert await shell(*named, "--rows", "60") == (0, there.format(60), "")
        assert await shell(*named, "--rows", "7") == (0, there.format(7), "")


@pytest.mark.parametrize(("producer", "rows"), [("nightly", 60), ("daily", 0)])
async def test_a_put_with_more_than_is_there_fails(command: Command, tmp_path: Path, producer: str, rows: int) -> None:
    source = written(tmp_path, "orders.csv", ROWS)
    async with beside(command, Retention.REPLAY) as shell:
        assert (await shell("put", NAME, source, "--producer", "nightly", "--rows", "60"))[0] == 0
        code, out, error = await shell("put", NAME, source, "--producer", producer)
        assert (code, out) == (1, "")
        assert f"has ended, with {rows} rows of producer '{producer}'" in error
        assert error.endswith("; the input has more rows than that\n")
        assert shell.exchange.replay_channel(NAME).books.next_row == 60


@pytest.mark.parametrize("ends", [(), ("--keep-open",)], ids=["ended", "open"])
async def test_another_input_of_a_name_is_noticed_by_its_rows(
    command: Command, tmp_path: Path, ends: tuple[str, ...]
) -> None:
    async with beside(command, Retention.REPLAY) as shell:
        named = ("--producer", "nightly", *ends)
        assert (await shell("put", NAME, written(tmp_path, "monday.csv", ROWS), *named))[0] == 0
        code, out, error = await shell("put", NAME, written(tmp_path, "tuesday.csv", "n,s\n1,a\n"), *named)
        assert (code, out) == (2, "")
        assert "the input has 1 rows, and orders/0 has 100 of producer 'nightly': this is another input" in error
        assert shell.exchange.statistics()[0].state == ("open" if ends else "ended")


async def test_rows_that_were_written_are_acknowledged_if_asked(command: Command, tmp_path: Path) -> None:
    source, target = written(tmp_path, "orders.csv", ROWS), tmp_path / "out.arrow"
    async with beside(command, Retention.REPLAY) as shell:
        assert (await shell("put", NAME, source))[0] == 0
        assert (await shell("get", NAME, str(target), "--rows", "40"))[0] == 0
        books = shell.exchange.replay_channel(NAME).books
        assert books.acknowledged == {"default": 0}
        assert (await shell("get", NAME, str(target), "--rows", "40", "--acknowledge"))[0] == 0
        assert books.acknowledged == {"default": 40}
        assert (await shell("get", NAME, "--acknowledge"))[1].count("\n") == 60
        assert books.acknowledged == {"default": 100}
    assert pa.ipc.open_file(target).read_all().num_rows == 40


async def test_a_consumer_whose_rows_expired_may_go_on_behind_them(command: Command, tmp_path: Path) -> None:
    source, target = written(tmp_path, "orders.csv", ROWS), str(tmp_path / "out.csv")
    async with beside(command, Retention.REPLAY) as shell:
        assert (await shell("put", NAME, source))[0] == 0
        channel = shell.exchange.replay_channel(NAME)
        await channel.expire(40)
        code, _, told = await shell("get", NAME, target)
        assert (code, "permitflow get --from-row 40" in told) == (1, True), told
        answer = await shell("get", NAME, target, "--from-row", "40", "--rows", "10", "--acknowledge")
        assert answer == (0, "", f"wrote 10 rows of orders/0 to {target}\n")
        assert channel.books.acknowledged == {"default": 50}
        assert (await shell("get", NAME, target))[0] == 0


@pytest.mark.parametrize("target", ["-", "out.csv"])
async def test_rows_left_out_are_acknowledged_without_others(command: Command, tmp_path: Path, target: str) -> None:
    source = written(tmp_path, "orders.csv", ROWS)
    target = target if target == "-" else str(tmp_path / target)
    async with beside(command, Retention.REPLAY) as shell:
        assert (await shell("put", NAME, source))[0] == 0
        channel = shell.exchange.replay_channel(NAME)
        await channel.expire(100)
        code, _, told = await shell("get", NAME, target, "--from-row", "100", "--acknowledge")
        assert (code, told.startswith("wrote 0 rows")) == (0, True), told
        assert channel.books.acknowledged == {"default": 100}


async def test_rows_left_out_make_room_for_those_to_come(command: Command) -> None:
    batch = pa.record_batch({"n": range(PARAMETERS.max_chunk_cost)})
    async with (
        beside(command, Retention.REPLAY) as shell,
        put(shell.address, NAME, batch.schema) as sender,
        asyncio.TaskGroup() as tasks,
    ):
        await sender.send(batch)
        tasks.create_task(sender.send(batch))  # waits for the room of the first chunk
        first = ("--from-row", str(batch.num_rows), "--rows", str(batch.num_rows))
        code, out, _ = await shell("get", NAME, *first, "--acknowledge")
        assert (code, out.count("\n")) == (0, batch.num_rows)


async def test_a_broken_channel_leaves_what_has_come(command: Command, tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    schema = pa.schema([("n", pa.int64())])
    async with beside(command) as shell:
        async with put(shell.address, NAME, schema) as sender:
            await sender.send(pa.record_batch({"n": [1, 2]}))
            getting = asyncio.create_task(shell("get", NAME, str(target)))
            await until(lambda: (tmp_path / "out.csv.part").exists())
            await until(lambda: shell.exchange.statistics()[0].rows_out == 2)
            await until(lambda: shell.exchange.statistics()[0].rows_with_consumers <= 2)
            sender.abort("it has seen enough")
        code, _, error = await getting
    assert code == 1
    assert "was aborted" in error
    assert not target.exists()
    rows = (tmp_path / "out.csv.part").read_text().count("\n") - 1 if "rows that have come" in error else 0
    assert f"{rows:,} rows " in error


async def test_what_fails_behind_a_whole_file_names_the_file(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = writing.OutputFile.finish

    def finish_and_interrupt(output: writing.OutputFile) -> None:
        finish(output)
        raise KeyboardInterrupt

    monkeypatch.setattr(writing.OutputFile, "finish", finish_and_interrupt)
    out = tmp_path / "out.csv"
    async with beside(command) as shell:
        await shell("put", NAME, written(tmp_path, "orders.csv", ROWS))
        _, _, error = await shell("get", NAME, str(out))
    assert error == f"Error: interrupted; 100 rows that have come are in {out}\n"


async def test_a_waiting_command_says_for_whom(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("permitflow_tools.cli.patiently.SLICE_SECONDS", 0.05)
    async with beside(command) as shell:
        code, _, error = await shell("get", NAME, "--timeout", "200ms")
        assert code == 1
        assert error.startswith("waiting: ")
        assert "no producer" in error
        assert error.splitlines()[-1].startswith("Error: the exchange at ")
        async with put(shell.address, NAME, pa.schema([("n", pa.int64())])):
            code, _, error = await shell("get", NAME, "--timeout", "200ms")
            assert error.splitlines()[-1].startswith("Error: the exchange at ")


@pytest.mark.parametrize(
    ("target", "words"),
    [("no/out.arrow", "there is no folder"), ("out.csv", "csv cannot hold"), ("old.arrow", "earlier run")],
)
async def test_an_output_that_cannot_be_leaves_the_channel_as_it_is(
    command: Command, tmp_path: Path, target: str, words: str
) -> None:
    (tmp_path / "old.arrow.part").write_text("rows of an earlier run")
    source = written(tmp_path, "lists.jsonl", '{"n": [1, 2]}\n')
    async with beside(command) as shell:
        await shell("put", NAME, source)
        code, _, error = await shell("get", NAME, str(tmp_path / target))
        assert code == 2
        assert words in error
        assert (await shell("get", NAME))[:2] == (0, '{"n": [1, 2]}\n')


@pytest.mark.parametrize(
    ("kind", "suffix"),
    [
        (pa.month_day_nano_interval(), "csv"),
        (pa.month_day_nano_interval(), "parquet"),
        (pa.dictionary(pa.int32(), pa.list_(pa.int64())), "parquet"),
    ],
)
async def test_a_type_that_a_format_lacks_leaves_the_channel_as_it_is(
    command: Command, tmp_path: Path, kind: pa.DataType, suffix: str
) -> None:
    rows = pa.record_batch([pa.nulls(2, kind)], names=["n"])
    with pa.ipc.new_file(str(tmp_path / "rows.arrow"), rows.schema) as file:
        file.write(rows)
    async with beside(command) as shell:
        await shell("put", NAME, str(tmp_path / "rows.arrow"))
        code, _, error = await shell("get", NAME, str(tmp_path / f"out.{suffix}"))
        assert (code, f"{suffix} cannot hold the rows" in error) == (2, True)
        assert os.listdir(tmp_path) == ["rows.arrow"]
        assert (await shell("get", NAME))[:2] == (0, '{"n": null}\n' * 2)


async def test_rows_that_a_format_cannot_hold_are_counted(command: Command, tmp_path: Path) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None]))
    rows = pa.record_batch([column], names=["n"])
    with pa.ipc.new_file(str(tmp_path / "rows.arrow"), rows.schema) as file:
        file.write(rows)
    async with beside(command) as shell:
        await shell("put", NAME, str(tmp_path / "rows.arrow"))
        code, _, error = await shell("get", NAME, str(tmp_path / "out.parquet"))
    assert (code, "2 rows have come" in error) == (1, True)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
async def test_a_full_disk_does_not_hide_rows_that_have_come(command: Command, tmp_path: Path) -> None:
    async with beside(command) as shell:
        await shell("put", NAME, written(tmp_path, "orders.csv", ROWS))
        code, _, error = await shell("get", NAME, "/dev/full", "--format", "csv")
    assert (
        code,
        "No space left on device; 100 rows have come, it is not known which of them were written" in error,
    ) == (1, True)


async def test_a_refused_get_leaves_no_file(command: Command, tmp_path: Path) -> None:
    async with beside(command) as shell, put(shell.address, NAME, pa.schema([("n", pa.int64())])):
        code, _, error = await shell("get", NAME, str(tmp_path / "out.csv"), "--consumer", "nobody")
        assert (code, os.listdir(tmp_path)) == (1, [])
        assert "one consumer at a time" in error


def test_closed_streams_are_told(process: Command) -> None:
    run = "os.execv(sys.executable, [sys.executable, '-m', 'permitflow_tools.cli', {1!r}, 'a/0'])"
    program = f"import os, sys; os.close({{0}}); {run}"
    assert "standard input is closed: name a file" in process(program=program.format(0, "put"))[2]
    assert "standard output is closed: name a file" in process(program=program.format(1, "get"))[2]


# Real pipes and signals.


NOBODY_READS = "Error: nobody reads the output any more"


class Piped:
    """A command as a process, with pipes."""

    def __init__(self, *arguments: str) -> None:
        pipe = subprocess.PIPE
        command = [sys.executable, "-m", "permitflow_tools.cli", *arguments]
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)

    async def over(self) -> tuple[int, bytes, str]:
        out, error = await asyncio.to_thread(self.process.communicate)
        return self.process.returncode, out, error.decode()


@asynccontextmanager
async def piped(shell: Shell, *commands: tuple[str, ...]) -> AsyncIterator[list[Piped]]:
    started = [Piped(*command, "--address", shell.address) for command in commands]
    try:
        yield started
    finally:
        for each in started:
            each.process.kill()
            each.process.wait()


async def test_a_line_goes_through_and_a_broken_pipe_is_told(command: Command) -> None:
    lines = ("put", NAME, "--schema", "n:int64")
    async with beside(command) as shell, piped(shell, lines, ("get", NAME)) as (putting, getting):
        assert putting.process.stdin is not None
        assert getting.process.stdout is not None
        putting.process.stdin.write(b'{"n": 1}\n')
        putting.process.stdin.flush()
        assert await asyncio.to_thread(getting.process.stdout.readline) == b'{"n": 1}\n'
        getting.process.stdout.close()
        getting.process.stdout = None
        putting.process.stdin.write(b'{"n": 2}\n')
        putting.process.stdin.flush()
        code, _, error = await getting.over()
        assert (code, error) == (1, f"{NOBODY_READS}; 2 rows have come, at least 1 of them were written\n")
        code, _, error = await putting.over()
        assert code == 1
        assert "; 2 rows were read, at least " in error


@pytest.mark.parametrize("unbuffered", ["1", ""])
async def test_rows_that_are_taken_in_part_are_not_acknowledged(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unbuffered: str
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    lines = "".join(json.dumps({"s": text}) + "\n" for text in ("a", "b", "x" * (1 << 17)))
    source = written(tmp_path, "large.jsonl", lines)
    async with beside(command, Retention.REPLAY) as shell:
        assert (await shell("put", NAME, source))[0] == 0
        async with piped(shell, ("get", NAME, "--acknowledge")) as (getting,):
            assert getting.process.stdout is not None
            assert await asyncio.to_thread(getting.process.stdout.readline) == b'{"s": "a"}\n'
            assert await asyncio.to_thread(getting.process.stdout.readline) == b'{"s": "b"}\n'
            getting.process.stdout.close()
            getting.process.stdout = None
            code, _, error = await getting.over()
        assert (code, error) == (1, f"{NOBODY_READS}; 3 rows have come, it is not known which of them were written\n")
        (channel,) = shell.exchange.statistics()
        assert channel.kept is not None
        assert channel.kept.acknowledged == {"default": 0}


async def test_parquet_in_a_pipe_is_acknowledged_with_its_end(command: Command, tmp_path: Path) -> None:
    source = written(tmp_path, "orders.csv", ROWS)
    async with beside(command, Retention.REPLAY) as shell:
        assert (await shell("put", NAME, source, "--keep-open"))[0] == 0
        async with piped(shell, ("get", NAME, "--acknowledge", "--format", "parquet")) as (getting,):
            assert getting.process.stdout is not None
            assert await asyncio.to_thread(getting.process.stdout.read, 4) == b"PAR1"
            getting.process.stdout.close()
            getting.process.stdout = None
            assert (await shell("put", NAME, source))[0] == 0
            code, _, error = await getting.over()
        assert (code, error) == (1, f"{NOBODY_READS}; 200 rows have come, it is not known which of them were written\n")
        (channel,) = shell.exchange.statistics()
        assert channel.kept is not None
        assert channel.kept.acknowledged == {"default": 0}


async def test_rows_of_a_first_batch_that_was_interrupted_are_kept(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = writing.open_writer

    def interrupted(*arguments: Any, **options: Any) -> writing.RowWriter:
        writer = opened(*arguments, **options)
        write = writer.write

        def write_and_interrupt(batch: pa.RecordBatch) -> None:
            write(batch)
            raise KeyboardInterrupt

        monkeypatch.setattr(writer, "write", write_and_interrupt)
        return writer

    monkeypatch.setattr(writing, "open_writer", interrupted)
    out = tmp_path / "out.csv"
    async with beside(command) as shell:
        await shell("put", NAME, written(tmp_path, "orders.csv", ROWS))
        _, _, error = await shell("get", NAME, str(out))
    assert f"Error: interrupted; 100 rows have come, it is not known which of them are in {out}.part" in error
    assert (await asyncio.to_thread(Path(f"{out}.part").read_text)).count("\n") == 101


@pytest.mark.long  # for five seconds it says nothing
async def test_an_interrupted_get_says_that_no_rows_have_come(command: Command) -> None:
    async with beside(command) as shell, piped(shell, ("get", NAME)) as (getting,):
        assert getting.process.stderr is not None
        assert await asyncio.to_thread(getting.process.stderr.readline)  # for whom it waits
        getting.process.send_signal(signal.SIGINT)
        code, _, error = await getting.over()
    assert (code, error.splitlines()[-1]) == (130, "Error: interrupted; no rows have come")


@pytest.mark.parametrize(
    ("retention", "what_helps"),
    [
        (Retention.ONCE, "permitflow channel reset makes the channel usable again"),
        (Retention.REPLAY, "permitflow channel reset opens it again, and its rows stay"),
    ],
)
async def test_an_interrupted_put_breaks_the_channel(command: Command, retention: Retention, what_helps: str) -> None:
    async with beside(command, retention) as shell, piped(shell, ("put", NAME, "--schema", "n:int64")) as (putting,):
        assert putting.process.stdin is not None
        putting.process.stdin.write(b'{"n": 1}\n')
        putting.process.stdin.flush()
        await until(lambda: shell.exchange.statistics()[0].rows_in == 1)
        putting.process.send_signal(signal.SIGINT)
        code, _, error = await putting.over()
        assert code == 130
        assert error.startswith("Error: interrupted; 1 rows were read, at least ")
        await until(lambda: shell.state is BridgeState.BROKEN)
        _, _, error = await shell("put", NAME, os.devnull, "--format", "jsonl", "--schema", "n:int64")
        assert error.endswith(f"its producer was interrupted; {what_helps}\n")


async def test_an_interrupted_put_with_a_name_can_go_on(command: Command, tmp_path: Path) -> None:
    named = ("put", NAME, "--schema", "n:int64,s:string", "--producer", "nightly")
    async with beside(command, Retention.REPLAY) as shell, piped(shell, named) as (putting,):
        assert putting.process.stdin is not None
        putting.process.stdin.write(b'{"n": 0, "s": "row 0"}\n')
        putting.process.stdin.flush()
        await until(lambda: shell.exchange.statistics()[0].rows_in == 1)
        putting.process.send_signal(signal.SIGINT)
        code, _, error = await putting.over()
        assert (code, error.rpartition("; ")[2]) == (
            130,
            "the same input, put again, sends only what is missing\n",
        )
        assert shell.state is BridgeState.OPEN
        source = written(tmp_path, "orders.csv", ROWS)
        told = "put 99 rows into orders/0, behind 1 that were there: the exchange has them\n"
        assert await shell("put", NAME, source, "--producer", "nightly") == (0, told, "")
