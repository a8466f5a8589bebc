"""A real browser to look at pages with: for tests and for screenshots."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["find_chromium", "open_browser"]

# Debian and Fedora, Ubuntu, and what else a developer may have.
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

# As root there is no sandbox; the rest keeps the browser from talking to anybody.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def find_chromium() -> str | None:
    """The path of an installed Chromium, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@contextmanager
def open_browser(chromium: str) -> Iterator["Browser"]:
    """Run a headless browser with a fresh profile; it ends with the context.  Needs the package playwright."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()
