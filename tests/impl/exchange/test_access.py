"""Tokens, certificates and rights: who is let in, what each may do, and what happens when a right is taken away."""

import gc
import hashlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pytest

from permitflow.carriers.addresses import parsed
from permitflow.carriers.calling import calling
from permitflow.carriers.carrier import Conversation
from permitflow.carriers.connection import CLIENT_OPTIONS, GET_STREAM
from permitflow.carriers.reaching import Destination
from permitflow.client import Security, control, describe, get, put
from permitflow.errors import (
    ForbiddenError,
    InvalidParametersError,
    ResumeRefusedError,
    SecurityError,
    UnauthenticatedError,
    UnknownChannelError,
)
from permitflow.exchange import AccessControl, ExchangeServer, Retention
from permitflow.exchange.access import Hold
from permitflow.exchange.registry import Exchange
from permitflow.stream.control import Right
from permitflow.stream.resuming import TOKEN_BYTES, Resume
from permitflow.wire.checksum import Checksums
from permitflow.wire.connection_frames import encode_connection_frame
from tests.support.certificates import Certificates
from tests.support.peers_by_hand import encoded, get_frame
from tests.support.served import served
from tests.support.turns import until

SCHEMA = pa.schema([("n", pa.int64())])
BATCH = pa.record_batch([pa.array([1, 2, 3], pa.int64())], schema=SCHEMA)
ADDRESSES = ("127.0.0.1:0", "tcp://127.0.0.1:0", "udp://127.0.0.1:0")
TOKENS = {name: f"{name}-0123456789abcdef" for name in ("etl", "audit", "operator")}


def digest(token: str) -> str:
    return f"sha256:{hashlib.sha256(token.encode()).hexdigest()}"


RIGHTS = f"""
[identities.etl]
tokens = ["{digest(TOKENS["etl"])}"]
certificates = ["etl.example"]
produce = ["orders/*"]
consume = ["orders/*"]

[identities.audit]
tokens = ["{digest(TOKENS["audit"])}"]
consume = ["orders/0"]

[identities.operator]
tokens = ["{digest(TOKENS["operator"])}"]
administer = ["*"]
"""


@pytest.fixture
def rights(tmp_path: Path) -> Path:
    file = tmp_path / "rights.toml"
    file.write_text(RIGHTS)
    return file


@pytest.fixture
def clients(tmp_path: Path) -> dict[str, Security]:
    made = {}
    for name, token in {**TOKENS, "stranger": "stranger-0123456789abcdef"}.items():
        file = tmp_path / f"{name}.token"
        file.write_text(f"{token}\n")
        made[name] = Security(token_file=file)
    return made


def served_to(rights: Path, listen: str, *, security: Security | None = None):  # type: ignore[no-untyped-def]
    of_server = {"access": AccessControl(rights=rights), "security": security or Security()}
    return served("orders/0", "orders/1", "secret", schema=SCHEMA, listen=listen, of_server=of_server)


def change(file: Path, before: str, after: str) -> None:
    file.write_text(RIGHTS.replace(before, after))


@asynccontextmanager
async def ending(kind: type[SecurityError]) -> AsyncIterator[None]:
    with pytest.raises(kind):
        yield


@pytest.mark.parametrize("listen", ADDRESSES)
async def test_a_client_may_do_what_its_rights_say(rights: Path, clients: dict[str, Security], listen: str) -> None:
    async with served_to(rights, listen) as (_, address):
        async with (
            put(address, "orders/0", SCHEMA, security=clients["etl"]) as sender,
            get(address, "orders/0", security=clients["audit"]) as receiver,
        ):
            await sender.send(BATCH)
            await receiver.take()
            receiver.consume()
            await sender.end()
        refused = (
            ("etl", "secret", "'etl' may not consume channel 'secret'"),
            ("audit", "orders/1", "'audit' may not consume"),
            ("operator", "orders/1", "'operator' may not consume"),
        )
        for name, channel, words in refused:
            with pytest.raises(ForbiddenError, match=words):
                async with get(address, channel, security=clients[name], resume_seconds=60):
                    pass
        with pytest.raises(ForbiddenError, match="'audit' may not produce"):
            async with put(address, "orders/0", SCHEMA, security=clients["audit"]):
                pass
        for strange in (None, clients["stranger"]):
            with pytest.raises(UnauthenticatedError, match=r"no token|its token is unknown"):
                await describe(address, "orders/1", security=strange, resume_seconds=60)


async def test_who_may_not_consume_waits_for_no_producer(rights: Path, clients: dict[str, Security]) -> None:
    of_server = {"access": AccessControl(rights=rights)}
    async with served("orders/0", listen="tcp://127.0.0.1:0", of_server=of_server) as (_, address):
        with pytest.raises(ForbiddenError, match="'operator' may not consume"):
            await describe(address, "orders/0", security=clients["operator"])


async def test_nobody_learns_of_channels_without_a_right(rights: Path, clients: dict[str, Security]) -> None:
    async with served_to(rights, "tcp://127.0.0.1:0") as (_, address):
        for name, seen in (("etl", ["orders/0", "orders/1"]), ("audit", ["orders/0"])):
            async with control(address, security=clients[name]) as orders:
                assert [each.channel for each in (await orders.statistics()).channels] == seen
                with pytest.raises(ForbiddenError, match="may not ask about channel 'secret': it has no right there"):
                    await orders.statistics(["secret"])
        with pytest.raises(SecurityError) as caught:
            await describe(address, "orders/none", security=clients["audit"])
        assert "secret" not in str(caught.value)
        with pytest.raises(UnknownChannelError) as unknown:
            await describe(address, "orders/none", security=clients["etl"])
        assert unknown.value.known == ("orders/0", "orders/1")
        others = ["secret", "none"]
        async with put(address, "orders/0", SCHEMA, security=clients["etl"], job_channels=others) as sender:
            await sender.end()


async def test_each_order_needs_its_own_right(rights: Path, clients: dict[str, Security]) -> None:
    of_server = {"access": AccessControl(rights=rights)}
    async with (
        served("orders/0", retention=Retention.REPLAY, schema=SCHEMA, of_server=of_server) as (_, address),
        control(address, security=clients["audit"]) as orders,
    ):
        assert (await orders.positions(["orders/0"]))[0].next_row == 0
        with pytest.raises(ForbiddenError, match="'audit' may not produce"):
            await orders.close_channels(["orders/0"])


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "tcp://127.0.0.1:0"])
async def test_a_certificate_says_who_a_client_is(rights: Path, certificates: Certificates, listen: str) -> None:
    async with served_to(rights, listen, security=certificates.mutual) as (_, address):
        assert (await describe(address, "orders/0", security=certificates.client("etl.example"))).schema == SCHEMA
        with pytest.raises(UnauthenticatedError, match=r"none of the names .*: other\.example"):
            await describe(address, "orders/0", security=certificates.client("other.example"))


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "tcp://127.0.0.1:0"])
@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ('consume = ["orders/0"]', 'consume = ["other"]', ForbiddenError),
        (digest(TOKENS["audit"]), digest("another"), UnauthenticatedError),
    ],
)
async def test_a_right_that_is_taken_away_ends_the_stream(
    rights: Path, clients: dict[str, Security], listen: str, before: str, after: str, kind: type[SecurityError]
) -> None:
    async with (
        served_to(rights, listen) as (_, address),
        put(address, "orders/0", SCHEMA, security=clients["etl"]) as sender,
        ending(kind),
        get(address, "orders/0", security=clients["audit"], resume_seconds=60) as receiver,
    ):
        await sender.send(BATCH)
        await receiver.take()
        receiver.consume()
        change(rights, before, after)
        # Anybody's question makes the exchange look at once.
        with pytest.raises(UnauthenticatedError):
            await describe(address, "orders/1")
        await receiver.take()


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "tcp://127.0.0.1:0"])
async def test_a_certificate_that_is_taken_back_ends_the_stream(
    rights: Path, certificates: Certificates, listen: str
) -> None:
    client = certificates.client("etl.example")
    async with (
        served_to(rights, listen, security=certificates.mutual) as (_, address),
        ending(UnauthenticatedError),
        put(address, "orders/0", SCHEMA, security=client) as sender,
        get(address, "orders/0", security=client, resume_seconds=60) as receiver,
    ):
        await sender.send(BATCH)
        await receiver.take()
        change(rights, 'certificates = ["etl.example"]', "")
        with pytest.raises(UnauthenticatedError, match=r"none of the names in its certificate"):
            await describe(address, "orders/1", security=client)
        await receiver.take()


async def test_streams_that_are_over_hold_no_right(rights: Path, clients: dict[str, Security]) -> None:
    def holds() -> int:
        gc.collect()
        return sum(isinstance(each, Hold) for each in gc.get_objects())

    before = holds()
    async with served_to(rights, "tcp://127.0.0.1:0") as (_, address):
        async with (
            put(address, "orders/0", SCHEMA, security=clients["etl"]) as sender,
            get(address, "orders/0", security=clients["audit"]) as receiver,
        ):
            assert holds() == before + 2
            await sender.end()
            assert [message async for message in receiver] == []
        await until(lambda: holds() == before)


async def test_a_token_that_is_taken_away_gives_no_more_orders(rights: Path, clients: dict[str, Security]) -> None:
    async with (
        served_to(rights, "tcp://127.0.0.1:0") as (_, address),
        control(address, security=clients["audit"]) as orders,
    ):
        await orders.statistics()
        change(rights, digest(TOKENS["audit"]), digest("another"))
        with pytest.raises(UnauthenticatedError, match="its token is unknown"):
            await orders.statistics()


async def test_a_broken_file_changes_no_rights(
    rights: Path, clients: dict[str, Security], caplog: pytest.LogCaptureFixture
) -> None:
    async with served_to(rights, "tcp://127.0.0.1:0") as (_, address):
        change(rights, "]", "")
        with caplog.at_level(logging.WARNING):
            await describe(address, "orders/0", security=clients["etl"])
        assert "the former ones hold" in caplog.text


def test_a_file_that_can_be_used_again_is_told_once(rights: Path, caplog: pytest.LogCaptureFixture) -> None:
    control, good = AccessControl(rights=rights), rights.read_text()
    with caplog.at_level(logging.WARNING):
        for text in ("[half", good, f"{good}\n"):
            rights.write_text(text)
            control.look()
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "changed files cannot be used, and the former ones hold",
        "changed files can be used again, and hold",
    ]


async def test_the_exchange_looks_at_the_file_by_itself(
    rights: Path, clients: dict[str, Security], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("permitflow.exchange.access._LOOK_SECONDS", 0.01)
    async with (
        served_to(rights, "tcp://127.0.0.1:0") as (_, address),
        ending(ForbiddenError),
        get(address, "orders/0", security=clients["audit"]) as receiver,
    ):
        change(rights, 'consume = ["orders/0"]', "")
        await receiver.take()


async def test_all_bearers_of_a_token_may_do_everything(clients: dict[str, Security], tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"{TOKENS['etl']}\n{TOKENS['audit']}\n")
    of_server = {"access": AccessControl(token_file=file)}
    async with served("c", schema=SCHEMA, of_server=of_server) as (_, address):
        for name in ("etl", "audit"):
            assert (await describe(address, "c", security=clients[name])).schema == SCHEMA
        with pytest.raises(UnauthenticatedError):
            await describe(address, "c", security=clients["operator"])


@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
async def test_over_grpc_the_word_bearer_may_be_in_any_letters(tmp_path: Path, scheme: str) -> None:
    """As in HTTP: RFC 9110, 11.1."""
    file = tmp_path / "tokens"
    file.write_text(TOKENS["etl"])
    of_server = {"access": AccessControl(token_file=file)}
    async with (
        served("c", schema=SCHEMA, of_server=of_server) as (_, address),
        grpc.aio.insecure_channel(address, options=CLIENT_OPTIONS) as channel,
    ):
        stream: Any = channel.stream_stream(GET_STREAM)(metadata=[("authorization", f"{scheme} {TOKENS['etl']}")])
        await stream.write(b"".join(Checksums(wanted=True).add([encoded(GET_STREAM, get_frame(channel="c"))])))
        assert isinstance(await stream.read(), bytes), "it is let in"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "one table"),
        ("x = 1", "nothing else"),
        ("[identities]\netl = 1", r"\[identities.etl\] as a table"),
        ("[identities.etl]\nread = ['a']", "not have 'read'"),
        ("[identities.etl]\nconsume = 'a'", "a list of texts as consume"),
        ("[identities.etl]\ntokens = ['a-token-0123456789']", "not tokens themselves"),
        (
            f"[identities.a]\ntokens = ['{digest('x')}']\n[identities.b]\ntokens = ['{digest('x')}']",
            r"each token once, not in \[identities.a\]",
        ),
        ("[identities.a]\ncertificates = ['n']\n[identities.b]\ncertificates = ['n']", r"not in \[identities.a\]"),
        (f"x = {5_000 * '9'}", "a file of TOML"),
        ("=", "a file of TOML"),
        (f"x = {100_000 * '['}", "a file of TOML"),
    ],
)
def test_a_wrong_file_is_refused_in_words(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "rights.toml"
    file.write_text(text)
    with pytest.raises(InvalidParametersError, match=words) as caught:
        AccessControl(rights=file)
    assert "a-token" not in str(caught.value)


def test_patterns_are_those_of_a_shell(rights: Path) -> None:
    access = AccessControl(rights=rights).admit(TOKENS["etl"])
    assert access.allows(Right.PRODUCE, "orders/0/deep")
    assert not access.allows(Right.PRODUCE, "ORDERS/0")
    assert not access.allows(Right.ADMINISTER, "orders/0")


async def test_a_token_needs_tls_beyond_the_loopback(clients: dict[str, Security]) -> None:
    for address in ("192.0.2.1:1", "tcp://192.0.2.1:1", "udp://192.0.2.1:1"):
        with pytest.raises(InvalidParametersError, match="only over TLS"):
            await describe(address, "c", security=clients["etl"])


async def test_udp_carries_no_tls(certificates: Certificates) -> None:
    with pytest.raises(InvalidParametersError, match="there is no TLS over UDP"):
        await describe("udp://127.0.0.1:1", "c", security=certificates.trusting)
    with pytest.raises(InvalidParametersError, match="take gRPC or TCP with TLS"):
        ExchangeServer(Exchange(), "udp://0.0.0.0:0", security=certificates.server)


@pytest.mark.parametrize("text", ["", "short", "two tokens of words", "ü" * 20, "x" * 5_000])
async def test_what_is_no_token_is_refused_and_not_shown(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    monkeypatch.setenv("SOME_TOKEN", text)
    for security in (Security(token_file=file), Security(token_variable="SOME_TOKEN")):
        with pytest.raises(InvalidParametersError, match="must hold a token of 16") as caught:
            await describe("127.0.0.1:1", "c", security=security)
        assert not text or text not in str(caught.value)


async def test_no_secret_is_in_logs_or_errors(
    rights: Path, clients: dict[str, Security], certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    shown = [repr(clients["etl"])]
    with caplog.at_level(logging.DEBUG):
        for listen in ADDRESSES[:2]:
            async with served_to(rights, listen, security=certificates.server) as (_, address):
                for name in ("stranger", "audit", "etl"):
                    security = replace(clients[name], ca=certificates.ca)
                    try:
                        async with get(address, "orders/1", security=security):
                            pass
                    except SecurityError as error:
                        shown.extend((repr(error), str(error), str(error.facts), *getattr(error, "__notes__", ())))
    text = "\n".join([*shown, caplog.text])
    assert "may not consume" in text
    assert not [token for token in (*TOKENS.values(), "stranger-0123") if token in text]
    assert "PRIVATE KEY" not in text


async def test_nobody_resumes_the_stream_of_another_client(
    rights: Path, clients: dict[str, Security], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of a stream is random; even so, who learns it gets nothing."""
    name = b"t" * TOKEN_BYTES
    monkeypatch.setattr("permitflow.carriers.resuming.secrets.token_bytes", lambda _: name)
    async with (
        served_to(rights, "tcp://127.0.0.1:0") as (_, address),
        get(address, "orders/0", security=clients["etl"], resume_seconds=60),
        calling(Destination(address, GET_STREAM, "the exchange", 60, security=clients["audit"])) as carrier,
    ):
        conversation = Conversation(carrier)
        await conversation.write(encode_connection_frame(Resume(name, 1, 0)))
        with pytest.raises(ResumeRefusedError, match="it belongs to another client"):
            await conversation.read()


def test_a_token_is_read_anew_for_each_connection(tmp_path: Path) -> None:
    file = tmp_path / "token"
    security = Security(token_file=file)
    for token in ("first-0123456789ab", "second-0123456789"):
        file.write_text(token)
        assert security.token_for(parsed("127.0.0.1:1")) == token
