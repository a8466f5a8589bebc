"""The page of a running exchange in a real browser: live, in the dark, on a telephone; a reset by a click."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.support.axe import violations
from tests.support.browser import Scheme, Visit
from tests.support.certificates import LOCAL, Certificates
from tests.support.watched_exchange import BUSY, busy, serving_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.long
CONTRASTS = Path(__file__).with_name("contrasts.js").read_text()
TOKEN = "a-token-of-operators"


@pytest.fixture(scope="module")
def page() -> Iterator[str]:
    """The page of a busy exchange."""
    with serving_page(*BUSY) as (address, page), busy(address):
        yield page


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 390), ("dark", 320)])
def test_everybody_can_read_the_page(page: str, browser: "Browser", scheme: Scheme, width: int) -> None:
    opened = Visit(browser, page, scheme=scheme, width=width)
    expect(opened.page.get_by_label("Channel returns/0")).to_contain_text("broken")
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(opened.page) == []
    low = [found for found in opened.page.evaluate(CONTRASTS) if found[1] < 4.5]
    assert (low, opened.complaints) == ([], [])
    opened.close()


def test_the_page_says_who_waits_and_how_full_each_window_is(page: str, browser: "Browser") -> None:
    opened = Visit(browser, page)
    unread, wide = (opened.page.get_by_label(f"Channel {name}", exact=True) for name in ("orders/1", "pictures/0"))
    expect(unread).to_contain_text("Producers wait for a consumer: none is connected")
    expect(unread.get_by_role("meter").nth(0)).to_have_attribute("aria-valuenow", "131000")
    expect(wide).to_contain_text("Producers wait for the consumer, which is slower")
    expect(wide.locator(".words").nth(1)).to_have_text(re.compile(r"1\d(\.\d)? MiB of 16 MiB held"))
    expect(opened.page.locator("#sentence")).to_contain_text("held up: orders/1, pictures/0")
    opened.page.get_by_label("Channels whose names contain").fill("pictures")
    expect(opened.page.locator("#channels > section")).to_have_count(1)
    assert opened.complaints == []
    opened.close()


def test_a_click_resets_a_channel_and_a_second_one_ends_its_streams(page: str, browser: "Browser") -> None:
    opened = Visit(browser, page)
    broken, used = (opened.page.get_by_label(f"Channel {name}", exact=True) for name in ("returns/0", "orders/1"))
    broken.get_by_role("button", name="Reset returns/0", exact=True).click()
    expect(broken.get_by_role("status")).to_have_text("reset: 0 rows dropped, 0 streams ended")
    expect(broken.locator(".state")).to_have_text("waiting")
    expect(opened.page.locator("#events")).to_contain_text("was broken, is waiting")
    assert opened.complaints == []
    used.get_by_role("button", name="Reset orders/1", exact=True).click()
    expect(used.get_by_role("status")).to_contain_text("1 producer at")
    assert violations(opened.page) == []
    used.get_by_role("button", name="Reset orders/1 all the same").click()
    expect(used.get_by_role("status")).to_have_text(re.compile(r"reset: 13\d,000 rows dropped, 1 stream ended"))
    assert ["409" in complaint for complaint in opened.complaints] == [True], "the browser itself tells of the refusal"
    opened.close()


@pytest.mark.parametrize(("scheme", "width"), [("light", 390), ("dark", 1280)])
def test_a_reader_without_a_token_sees_nothing(browser: "Browser", tmp_path: Path, scheme: Scheme, width: int) -> None:
    (tmp_path / "tokens").write_text(TOKEN)
    with serving_page("--stream", "secret", "--token-file", str(tmp_path / "tokens")) as (_, page):
        opened = Visit(browser, page, scheme=scheme, width=width)
        for token, outcome in (("a-token-of-nobody", "its token is unknown"), (TOKEN, "")):
            expect(opened.page.get_by_role("heading", name="Who are you?")).to_be_visible()
            assert "secret/0" not in opened.page.content()
            opened.page.get_by_label("Token").fill(token)
            opened.page.get_by_role("button", name="Show it").click()
            expect(opened.page.locator("#who-reason")).to_contain_text(outcome)
            assert violations(opened.page) == []
        expect(opened.page.get_by_role("heading", name="secret/0")).to_be_visible()
        assert TOKEN not in opened.page.content() + opened.page.url
        opened.close()


@pytest.mark.parametrize(
    ("token", "reason"),
    [("a-token-of-nobody", "its token is unknown"), ("a token", "no blanks"), ("t\u00f6ken", "ASCII")],
)
def test_why_a_token_is_refused_stays_while_the_page_asks_again(
    browser: "Browser", tmp_path: Path, token: str, reason: str
) -> None:
    (tmp_path / "tokens").write_text(TOKEN)
    tls = ("--tls-cert", str(Certificates(tmp_path).made("server", *LOCAL)))
    with serving_page("--stream", "secret", "--token-file", str(tmp_path / "tokens"), *tls) as (_, page):
        opened = Visit(browser, page)
        expect(opened.page.locator("#who-reason")).to_contain_text("it shows no token")
        opened.page.get_by_label("Token").fill(token)
        opened.page.get_by_role("button", name="Show it").click()
        expect(opened.page.locator("#who-reason")).to_contain_text(reason)
        with opened.page.expect_response("**/channels.json?*"), opened.page.expect_response("**/channels.json?*"):
            pass
        expect(opened.page.locator("#who-reason")).to_contain_text(reason)
        expect(opened.page.locator("#phase")).to_have_text("locked")
        expect(opened.page.locator("#news")).to_have_text("")
        opened.close()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_the_page_keeps_its_last_figures_when_the_exchange_is_gone(
    browser: "Browser", scheme: Scheme, width: int
) -> None:
    with serving_page("--stream", "s") as (_, page):
        opened = Visit(browser, page, scheme=scheme, width=width)
        expect(opened.page.locator("#phase")).to_have_text("running")
    expect(opened.page.locator("#phase")).to_have_text("no answer")
    expect(opened.page.locator("#news")).to_contain_text("The exchange does not answer since")
    expect(opened.page.get_by_role("heading", name="s/0")).to_be_visible()
    assert violations(opened.page) == []
    opened.close()
