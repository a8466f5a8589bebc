"""A real browser to look at pages with, without a network but to a page's own server: for tests and for screenshots."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

Scheme = Literal["light", "dark"]

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


class Visit:
    """A page that was opened in a window of its own, and everything it did that a reader would not see."""

    complaints: list[str]
    """Requests for anything but the file itself or its server, messages on the console, errors, dialogs."""

    def __init__(
        self,
        browser: "Browser",
        file: Path | str,
        *,
        fragment: str = "",
        scheme: Scheme = "light",
        width: int = 1280,
        height: int = 900,
        scripts: bool = True,
    ) -> None:
        """Sizes in CSS pixels; ``fragment`` is what follows the # in the address; a text is a server's address."""
        context = browser.new_context(
            color_scheme=scheme,
            viewport={"width": width, "height": height},
            java_script_enabled=scripts,
            reduced_motion="reduce",
            offline=isinstance(file, Path),
            ignore_https_errors=True,  # a test's CA is nobody's
        )
        self.page: Page = context.new_page()
        self.complaints = []
        self._address = file.resolve().as_uri() if isinstance(file, Path) else file
        self._is_served = not isinstance(file, Path)
        self.page.on("request", lambda request: self._note_request(request.url))
        self.page.on("console", lambda message: self.complaints.append(f"console: {message.text}"))
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))
        self.page.goto(self._address + (f"#{fragment}" if fragment else ""))

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def close(self) -> None:
        self.page.context.close()

    def _note_request(self, url: str) -> None:
        is_own = url.startswith(self._address) if self._is_served else url.partition("#")[0] == self._address
        if not is_own and not url.startswith("data:"):
            self.complaints.append(f"request: {url}")
