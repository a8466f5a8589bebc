"""TLS over gRPC and TCP with real certificates: who is trusted, what an error says, what a renewed one changes."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pytest
from xxhash import xxh3_64

from permitflow.client import Security, control, describe, get, put
from permitflow.client.blocking import open_source
from permitflow.client.health import is_serving
from permitflow.client.remote_receiver import RemoteReceiver
from permitflow.client.remote_sender import RemoteSender
from permitflow.errors import InvalidParametersError, TlsError
from permitflow.exchange import ExchangeServer
from permitflow.exchange.registry import Exchange
from tests.support.certificates import FUTURE, LOCAL, PAST, Certificates
from tests.support.cutting_proxy import Cut, CutLink, Direction, cutting
from tests.support.served import served
from tests.support.turns import until

GRPC, TCP = "127.0.0.1:0", "tcp://127.0.0.1:0"
SCHEMA = pa.schema([("n", pa.int64())])
Ends: TypeAlias = tuple[RemoteSender, RemoteReceiver]
Pair: TypeAlias = Callable[[Certificates], tuple[Security | None, Security | None]]

pytestmark = pytest.mark.parametrize("listen", [GRPC, TCP])


def batch(rows: int, first: int = 0) -> pa.RecordBatch:
    return pa.record_batch([pa.array(range(first, first + rows), pa.int64())], schema=SCHEMA)


def served_with(security: Security | None, listen: str, *channels: str):  # type: ignore[no-untyped-def]
    of_server = {} if security is None else {"security": security}
    return served(*(channels or ("c",)), schema=SCHEMA, listen=listen, of_server=of_server)


@asynccontextmanager
async def both(address: str, security: Security | None, channel: str = "c") -> AsyncIterator[Ends]:
    async with (
        put(address, channel, SCHEMA, security=security) as sender,
        get(address, channel, security=security) as receiver,
    ):
        yield sender, receiver


async def all_passed(sender: RemoteSender, receiver: RemoteReceiver, *batches: pa.RecordBatch) -> list[int]:
    async def send() -> None:
        for each in batches:
            await sender.send(each)
        await sender.end()

    async with asyncio.TaskGroup() as group:
        group.create_task(send())
        return [number for message in [m async for m in receiver] for number in message.payload["n"].to_pylist()]


async def test_rows_of_any_size_pass(listen: str, certificates: Certificates) -> None:
    sizes = (1, 50, 4_000, 30_000)
    async with (
        served_with(certificates.mutual, listen) as (_, address),
        both(address, certificates.client()) as ends,
    ):
        expected = [number for rows in sizes for number in range(rows)]
        assert await all_passed(*ends, *map(batch, sizes)) == expected


async def test_only_first_messages_have_checksums(
    listen: str, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = list[int]()

    def summed(*, seed: int) -> xxh3_64:
        numbers.append(seed)
        return xxh3_64(seed=seed)

    monkeypatch.setattr("permitflow.wire.checksum.xxh3_64", summed)
    async with served_with(certificates.server, listen) as (_, address), both(address, certificates.trusting) as ends:
        await all_passed(*ends, *map(batch, (1, 2, 3, 4)))
    assert set(numbers) == {0}  # of each end that dials, before it knows what the exchange decides


PAIRS: dict[str, Pair] = {
    "its certificate has expired": lambda made: (
        Security(certificate=made.made("old server", *LOCAL, life=PAST)),
        made.trusting,
    ),
    "its certificate is not for '127.0.0.1'": lambda made: (
        Security(certificate=made.made("elsewhere", "elsewhere.example")),
        made.trusting,
    ),
    "not signed by a CA that is in": lambda made: (made.server, made.others.trusting),
    "it speaks TLS only": lambda made: (made.server, None),
    "it speaks no TLS at this address": lambda made: (None, made.trusting),
    "it wants a certificate of this client": lambda made: (made.mutual, made.trusting),
    "has (that )?expired": lambda made: (made.mutual, made.client(life=PAST)),
    "valid (already|yet)": lambda made: (made.mutual, made.client(life=FUTURE)),
    "--tls-client-ca": lambda made: (made.mutual, replace(made.others.client(), ca=made.ca)),
}


@pytest.mark.parametrize("words", PAIRS)
async def test_the_error_says_what_is_wrong(listen: str, words: str, certificates: Certificates) -> None:
    server, client = PAIRS[words](certificates)
    async with served_with(server, listen) as (_, address):
        with pytest.raises(TlsError, match=f"^no TLS with the exchange at {address}.*{words}"):
            # Not after the time-out, nor after attempts to resume.
            async with get(address, "c", security=client, connect_timeout_seconds=60, resume_seconds=60):
                pass


async def test_an_exchange_warns_of_its_expired_certificate(
    listen: str, certificates: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = certificates.write(tmp_path / "server.pem", *LOCAL)
    async with served_with(Security(certificate=file, ca=certificates.ca), listen) as (_, address):
        assert "certificate" not in caplog.text
        certificates.write(file, *LOCAL, life=PAST)
        with pytest.raises(TlsError):
            await describe(address, "c", security=certificates.client())
        await until(lambda: "server.pem: clients refuse it: it has expired" in caplog.text)


@pytest.mark.parametrize("stated", ["certificate", "server_name"])
async def test_a_client_is_told_that_it_would_use_no_tls(listen: str, stated: str, certificates: Certificates) -> None:
    whole = replace(certificates.client(), server_name="localhost")
    async with served_with(None, listen) as (_, address):
        with pytest.raises(InvalidParametersError, match=f"^{stated} needs the CA .* without it, there is no TLS"):
            await describe(address, "c", security=replace(Security(), **{stated: getattr(whole, stated)}))


async def test_a_name_in_the_certificate_may_be_stated(listen: str, certificates: Certificates) -> None:
    server = Security(certificate=certificates.made("elsewhere", "elsewhere.example"))
    client = replace(certificates.trusting, server_name="elsewhere.example")
    async with served_with(server, listen) as (_, address), both(address, client) as ends:
        assert await all_passed(*ends, batch(3)) == [0, 1, 2]


async def test_questions_and_blocking_clients_use_it(listen: str, certificates: Certificates) -> None:
    async with served_with(certificates.server, listen) as (_, address):
        assert (await describe(address, "c", security=certificates.trusting)).schema == SCHEMA
        async with control(address, security=certificates.trusting) as orders:
            assert [each.channel for each in (await orders.statistics()).channels] == ["c"]
        source = await asyncio.to_thread(open_source, address, "c", security=certificates.trusting)
        await asyncio.to_thread(source.close)


async def test_a_renewed_certificate_is_for_new_connections(
    listen: str, certificates: Certificates, tmp_path: Path
) -> None:
    file = certificates.write(tmp_path / "server.pem", *LOCAL)
    async with (
        served_with(Security(certificate=file), listen, "c", "d") as (_, address),
        both(address, certificates.trusting) as (sender, receiver),
    ):
        await sender.send(batch(2))
        certificates.others.write(file, *LOCAL)
        async with both(address, certificates.others.trusting, "d") as ends:
            assert await all_passed(*ends, batch(1)) == [0]
        with pytest.raises(TlsError, match="not signed by a CA"):
            await describe(address, "d", security=certificates.trusting)
        assert await all_passed(sender, receiver, batch(2, first=2)) == [0, 1, 2, 3]


async def test_files_that_became_unusable_change_nothing(
    listen: str, certificates: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = certificates.write(tmp_path / "server.pem", *LOCAL)
    ca = tmp_path / "ca.pem"
    ca.write_bytes(certificates.ca.read_bytes())
    async with served_with(Security(certificate=file), listen) as (_, address):
        await describe(address, "c", security=Security(ca=ca))
        file.write_text("half")
        ca.unlink()
        with caplog.at_level(logging.WARNING):
            await describe(address, "c", security=Security(ca=ca))
        assert "the former ones hold" in caplog.text


async def test_a_stream_goes_on_after_a_cut(listen: str, certificates: Certificates) -> None:
    batches = [batch(500, first=500 * number) for number in range(20)]
    cuts = [Cut(20_000, Direction.DOWN), Cut(40_000, Direction.DOWN)]
    async with (
        served_with(certificates.server, listen) as (_, address),
        cutting(address, cuts) as link,
        put(address, "c", SCHEMA, security=certificates.trusting) as sender,
        get(link.address, "c", security=certificates.trusting, resume_seconds=60) as receiver,
    ):
        assert await all_passed(sender, receiver, *batches) == [*range(10_000)]
        assert link.cuts == 2
        # The second cut may come before the stream has gone on over that connection: the proxy reads far ahead.
        assert receiver.statistics().resumes in (1, 2)


async def test_what_was_altered_on_the_way_comes_again(
    listen: str, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CutLink, "suffer", lambda *_: True)  # the bit has been flipped; nothing is cut
    async with (
        served_with(certificates.server, listen) as (_, address),
        cutting(address, [Cut(20_000, Direction.DOWN, flips=1)]) as link,
        put(address, "c", SCHEMA, security=certificates.trusting) as sender,
        get(link.address, "c", security=certificates.trusting, resume_seconds=60) as receiver,
    ):
        batches = [batch(500, first=500 * number) for number in range(20)]
        assert await all_passed(sender, receiver, *batches) == [*range(10_000)]
        assert receiver.statistics().resumes == 1


def test_a_network_wants_tls(listen: str, certificates: Certificates) -> None:
    beyond = listen.replace("127.0.0.1", "0.0.0.0")
    with pytest.raises(InvalidParametersError, match=r"loopback.*--tls-cert.*--insecure"):
        ExchangeServer(Exchange(), beyond)
    ExchangeServer(Exchange(), beyond, security=Security(insecure=True))
    ExchangeServer(Exchange(), beyond, security=certificates.server)


async def test_health_is_asked_over_tls(listen: str, certificates: Certificates) -> None:
    if listen == GRPC:
        async with served_with(certificates.server, listen) as (_, address):
            assert await asyncio.to_thread(is_serving, address, security=certificates.trusting)
            with pytest.raises(TlsError, match="it speaks TLS only"):
                await asyncio.to_thread(is_serving, address)
            with pytest.raises(InvalidParametersError, match="server_name needs the CA"):
                is_serving(address, security=Security(server_name="exchange"))
