"""What an exchange's page is fed with, and whom it refuses: over HTTP, as a browser asks."""

import asyncio
import hashlib
import http.client
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from permitflow import ChannelParameters
from permitflow.errors import InvalidOptionError
from permitflow.exchange import Exchange
from permitflow.exchange.access import AccessControl
from permitflow_tools.dashboard.history import HISTORY_SECONDS, SAMPLE_SECONDS, History
from permitflow_tools.dashboard.server import GUARD, serving_dashboard
from tests.support.certificates import LOCAL, Certificates
from tests.support.pages import PageReader

ROWS = pa.record_batch({"n": pa.array(range(8), pa.int64())})
TOKENS = {"operator": "operator's-token-0", "guest": "guest's-token-00"}


class Reader:
    """A browser, as far as the server can tell."""

    def __init__(self, address: str, tls: ssl.SSLContext | None = None) -> None:
        self.host = address.split("//")[1].rstrip("/")
        self._tls = tls

    def _ask(self, method: str, path: str, headers: dict[str, str], body: str | None) -> tuple[int, str]:
        if self._tls is None:
            connection = http.client.HTTPConnection(self.host, timeout=30)
        else:
            connection = http.client.HTTPSConnection(self.host, timeout=30, context=self._tls)
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        return await asyncio.to_thread(self._ask, "GET", path, headers, None)

    async def channels(self, wanted: str = "", token: str | None = None) -> tuple[int, dict[str, Any]]:
        status, text = await self.get(f"/channels.json?{wanted}", **shown(token))
        return status, json.loads(text)

    async def guard(self) -> str:
        _, text = await self.get("/")
        found: str = json.loads(PageReader(text).data["dashboard"])["guard"]
        return found

    async def reset(
        self, order: object, token: str | None = None, guard: str | None = None
    ) -> tuple[int, dict[str, Any]]:
        headers = shown(token) | {GUARD: await self.guard() if guard is None else guard}
        status, text = await asyncio.to_thread(self._ask, "POST", "/reset", headers, json.dumps(order))
        return status, json.loads(text)


def shown(token: str | None) -> dict[str, str]:
    return {} if token is None else {"Authorization": f"Bearer {token}"}


@asynccontextmanager
async def watched(**options: Any) -> AsyncIterator[tuple[Exchange, Reader]]:
    """An exchange of two channels, ``full`` and ``empty``."""
    exchange = Exchange(parameters=ChannelParameters(row_permits=8, permit_batch=1, max_chunk_cost=8))
    exchange.add_channels(["full", "empty"], schema=ROWS.schema)
    await exchange.channel("full").sender.send(ROWS)
    async with serving_dashboard("127.0.0.1:0", exchange, ["127.0.0.1:1"], **options) as address:
        yield exchange, Reader(address)


async def test_each_channel_is_told_with_both_windows_and_its_past() -> None:
    async with watched() as (_, reader):
        status, told = await reader.channels()
    full, empty = told["channels"]
    assert (status, told["phase"], told["found"]) == (200, "ready", 2)
    assert (full["channel"], full["rows_held"], full["window_rows"], full["filled"]) == ("full", 8, 8, 1.0)
    assert 0 < full["bytes_held"] < full["byte_window"]
    assert dict(zip(told["figures"], full["history"][-1], strict=True))["filled"] == 1.0
    assert empty["rows_held"] == 0


@pytest.mark.parametrize(
    ("wanted", "names"),
    [("find=mpt", ["empty"]), ("first=1", ["empty"]), ("count=1", ["full"]), ("channel=full", ["full"])],
)
async def test_a_reader_asks_for_some_of_the_channels(wanted: str, names: list[str]) -> None:
    async with watched() as (_, reader):
        _, told = await reader.channels(wanted)
    assert [each["channel"] for each in told["channels"]] == names


@pytest.mark.parametrize(
    ("wanted", "status", "words"),
    [
        ("channel=other", 404, "'other'"),
        ("first=-1", 400, "first must be a whole number, not '-1'"),
        ("colour=red", 400, "not 'colour'"),
    ],
)
async def test_a_wrong_question_is_told_what_is_wrong(wanted: str, status: int, words: str) -> None:
    async with watched() as (_, reader):
        found, told = await reader.channels(wanted)
    assert found == status
    assert words in told["message"]


async def test_samples_that_a_reader_has_are_not_told_again() -> None:
    async with watched() as (_, reader):
        _, told = await reader.channels()
        _, again = await reader.channels(f"after={told['sample']}")
    assert len(again["channels"][0]["history"]) == again["sample"] - told["sample"]


async def test_the_past_is_bounded() -> None:
    exchange = Exchange()
    exchange.add_channel("s")
    history = History(exchange)
    most = round(HISTORY_SECONDS / SAMPLE_SECONDS)
    for _ in range(most + 5):
        await history.sample()
    assert len(history.since(0, "s")) == most
    assert history.taken == most + 5


async def test_what_happens_to_channels_is_remembered() -> None:
    exchange = Exchange()
    exchange.add_channels(["a", "b"])
    history = History(exchange)
    await history.sample()
    exchange.add_channel("c")
    await exchange.remove_channel("b")
    await history.sample()
    assert {(event.channel, event.text) for event in history.events(lambda _: True)} == {
        ("c", "was added"),
        ("b", "was removed"),
    }
    assert history.events(lambda name: name == "a") == []


async def test_a_foreign_name_for_this_host_is_refused() -> None:
    async with watched() as (_, reader):
        status, text = await reader.get("/channels.json", Host="rebound.example:80")
        own, _ = await reader.get("/channels.json", Host="localhost:80")
    assert (status, own) == (421, 200)
    assert "rebound.example" in text


async def test_a_reset_needs_the_header_that_only_the_page_knows() -> None:
    async with watched() as (exchange, reader):
        status, told = await reader.reset({"channels": ["full"], "force": True}, guard="guessed")
        assert exchange.channel("full").statistics().rows_held == 8
    assert status == 403
    assert "load the page again" in told["message"]


async def test_a_channel_in_use_is_reset_only_by_force() -> None:
    async with watched() as (_, reader):
        refused, told = await reader.reset({"channels": ["full"]})
        status, done = await reader.reset({"channels": ["full"], "force": True})
    assert (refused, told["error"], status) == (409, "ChannelInUseError", 200)
    assert done["changed"] == [{"channel": "full", "rows": 8, "barriers": 0, "streams": 0}]


@pytest.mark.parametrize(
    ("order", "status", "words"),
    [
        ({"channels": ["other"]}, 404, "'other'"),
        ({"channels": []}, 400, "at least one name"),
        ({"channels": "full"}, 400, "an order is JSON as in"),
        (["full"], 400, "an order is JSON as in"),
        ({"channels": ["full"], "force": 1}, 400, "an order is JSON as in"),
        ({"channels": ["x" * 70_000]}, 400, "at most 65,536"),
    ],
)
async def test_a_wrong_order_is_told_what_is_wrong(order: object, status: int, words: str) -> None:
    async with watched() as (_, reader):
        found, told = await reader.reset(order)
    assert found == status
    assert words in told["message"]


@pytest.fixture
def access(tmp_path: Path) -> AccessControl:
    """The operator administers ``full``; the guest may read ``empty``."""
    rights = tmp_path / "rights.toml"
    digests = {name: hashlib.sha256(token.encode()).hexdigest() for name, token in TOKENS.items()}
    rights.write_text(
        f'[identities.operator]\ntokens = ["sha256:{digests["operator"]}"]\nadminister = ["full"]\n'
        f'[identities.guest]\ntokens = ["sha256:{digests["guest"]}"]\nconsume = ["empty"]\n'
    )
    return AccessControl(rights=rights)


async def test_a_reader_sees_the_channels_at_which_it_has_a_right(access: AccessControl) -> None:
    async with watched(access=access) as (_, reader):
        nobody = await reader.channels()
        stranger = await reader.channels(token="a-token-of-nobody")
        _, told = await reader.channels(token=TOKENS["guest"])
        _, administered = await reader.channels(token=TOKENS["operator"])
    assert nobody[0] == stranger[0] == 401
    assert TOKENS["guest"] not in json.dumps([nobody, stranger])
    assert [(each["channel"], each["may_reset"]) for each in told["channels"]] == [("empty", False)]
    assert [(each["channel"], each["may_reset"]) for each in administered["channels"]] == [("full", True)]
    assert "full" not in json.dumps(told)


async def test_every_reader_hears_that_some_channels_are_not_watched(access: AccessControl) -> None:
    async with watched(access=access) as (exchange, reader):
        _, all_ = await reader.channels(token=TOKENS["guest"])
        exchange.add_channels([f"more/{number}" for number in range(1_000)])
        _, some = await reader.channels(token=TOKENS["guest"])
    assert (all_["watches_all"], some["watches_all"]) == (True, False)


async def test_a_browser_that_shows_nothing_hears_of_no_options(access: AccessControl) -> None:
    async with watched(access=access) as (_, reader):
        _, told = await reader.channels()
    assert told["message"] == "the exchange does not know this client: it shows no token"


async def test_a_reset_needs_the_right_to_administer(access: AccessControl) -> None:
    async with watched(access=access) as (_, reader):
        order = {"channels": ["full"], "force": True}
        statuses = [(await reader.reset(order, token))[0] for token in (None, TOKENS["guest"], TOKENS["operator"])]
        unseen = await reader.reset({"channels": ["empty"]}, TOKENS["operator"])
    assert statuses == [401, 403, 200]
    assert unseen[0] == 403


async def test_the_page_is_served_with_the_certificate_of_the_exchange(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    exchange = Exchange()
    async with serving_dashboard("127.0.0.1:0", exchange, [], security=certificates.server) as address:
        trusting = ssl.create_default_context(cafile=str(certificates.ca))
        status, text = await Reader(address, trusting).get("/")
    assert address.startswith("https://")
    assert (status, PageReader(text).scripts) == (200, 2)


async def test_the_page_is_served_with_a_renewed_certificate(tmp_path: Path) -> None:
    former = Certificates(tmp_path)
    renewed, file = former.others, former.made("server", *LOCAL)
    async with serving_dashboard("127.0.0.1:0", Exchange(), [], security=former.server) as address:
        for now, before in ((former, renewed), (renewed, former)):
            now.write(file, *LOCAL)
            status, _ = await Reader(address, ssl.create_default_context(cafile=str(now.ca))).get("/")
            assert status == 200
            with pytest.raises(ssl.SSLCertVerificationError):
                await Reader(address, ssl.create_default_context(cafile=str(before.ca))).get("/")


async def test_an_address_in_use_is_named() -> None:
    async with watched() as (exchange, reader):
        with pytest.raises(InvalidOptionError, match="--ui"):
            async with serving_dashboard(reader.host, exchange, []):
                pass


async def test_the_page_has_nothing_from_elsewhere_and_is_shown_in_no_frame() -> None:
    async with watched() as (_, reader):
        _, text = await reader.get("/")
    assert {address for address in PageReader(text).fetched if not address.startswith("data:")} == set()


async def test_beyond_the_loopback_nobody_resets_without_a_token() -> None:
    exchange = Exchange()
    exchange.add_channel("s")
    async with serving_dashboard("0.0.0.0:0", exchange, []) as address:
        reader = Reader(address)
        status, told = await reader.reset({"channels": ["s"], "force": True})
        _, seen = await reader.channels()
    assert (status, seen["channels"][0]["may_reset"]) == (403, False)
    assert "show a token" in told["message"]
