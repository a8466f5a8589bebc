"""A browser to look at pages with."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.browser import Visit, find_chromium, open_browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# Far above what any page takes to show what is expected.
HANG_MILLISECONDS = 60_000


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    """Real, headless Chromium.

    Not for the whole session: as long as it is there, Playwright keeps an event loop running in this thread, beside
    which no other can run.
    """
    chromium = find_chromium()
    if chromium is None:
        pytest.skip("there is no Chromium, and `make setup` could not install it: pages were not looked at")
    from playwright.sync_api import expect

    expect.set_options(timeout=HANG_MILLISECONDS)
    with open_browser(chromium) as browser:
        yield browser


@pytest.fixture
def visit(browser: "Browser", tmp_path: Path) -> Iterator[Callable[..., Visit]]:
    """Open a page; the options are those of ``Visit``.  At the end, no page must have complained."""
    visits: list[Visit] = []

    def open_page(content: str, **options: Any) -> Visit:
        file = tmp_path / f"page{len(visits)}.html"
        file.write_text(content, encoding="utf-8")
        visits.append(Visit(browser, file, **options))
        return visits[-1]

    yield open_page
    for opened in visits:
        opened.close()
    assert [complaint for opened in visits for complaint in opened.complaints] == []
