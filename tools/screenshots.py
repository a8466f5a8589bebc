"""Take the pictures of docs/pictures again: ``permitflow`` makes the pages, a real browser shows them."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import sleep
from typing import TYPE_CHECKING

from tests.support.browser import Scheme, Visit, find_chromium, open_browser
from tests.support.watched_exchange import BUSY, busy, serving_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "pictures"
DEADLOCK = ("--row-permits", "8", "--permit-batch", "3", "--max-chunk-cost", "7")
TRACE = FOLDER.parent / "examples" / "doubled.jsonl"
LOOP = FOLDER.parent / "examples" / "graphs" / "loop.toml"


@dataclass(frozen=True, kw_only=True)
class Shot:
    """A page, and how to look at it."""

    name: str
    explain: Sequence[str]
    fragment: str = ""
    steps: Sequence[str] = ()
    """To be taken by clicks."""
    scheme: Scheme = "light"
    width: int = 1280
    height: int = 900


SHOTS = (
    Shot(name="deadlock", explain=DEADLOCK, fragment="step=5", height=1120),
    Shot(
        name="live-dark",
        explain=("--row-permits", "2048", "--permit-batch", "256", "--barriers"),
        fragment="step=14",
        scheme="dark",
        height=860,
    ),
    Shot(
        name="play",
        explain=("--play", "permit-channel"),
        fragment="set=4-3-3-0",
        steps=("OfferChunk(2)", "SendChunk", "Deliver"),
        width=560,
        height=1236,
    ),
    Shot(name="recorded", explain=(str(TRACE),), height=1120),
    Shot(name="narrow", explain=DEADLOCK, fragment="step=4", width=390, height=860),
    Shot(
        name="states",
        explain=("--graph", "--row-permits", "3", "--permit-batch", "2", "--max-chunk-cost", "3"),
        width=1240,
        height=780,
    ),
    Shot(name="graph", explain=(str(LOOP),), height=900),
)
SWEEP_SHOT = Shot(name="sweep", explain=(), height=1000)
WORDCOUNT_SHOT = Shot(name="wordcount", explain=(), width=1200, height=870)
JOBS_SHOT = Shot(name="jobs", explain=(), width=1200, height=860)
DASHBOARDS: Sequence[tuple[str, Scheme, int, int]] = (
    ("dashboard", "light", 1280, 1000),
    ("dashboard-dark", "dark", 1280, 1000),
    ("dashboard-narrow", "light", 390, 1000),
)
WATCHED_SECONDS = 90
SWEEP = FOLDER.parent / "examples" / "sweep.toml"
GRID = FOLDER.parent / "examples" / "grid.toml"
DRAWINGS = {
    "deadlock": DEADLOCK,
    "states": ("--graph", "--row-permits", "2", "--permit-batch", "2", "--max-chunk-cost", "2"),
}


def main() -> None:
    chromium = find_chromium()
    if chromium is None:
        raise SystemExit("screenshots need Chromium, and there is none; `make setup` tries to install it")
    FOLDER.mkdir(exist_ok=True)
    for name, options in DRAWINGS.items():
        run("explain", *options, "--svg", str(FOLDER / f"{name}.svg"))
    run("simulate", str(SWEEP), "--plot", str(FOLDER / "sweep.svg"))
    run("check", str(GRID), "--explore", "--plot", str(FOLDER / "grid.svg"))
    with TemporaryDirectory() as folder:
        run("simulate", str(SWEEP), "--plot", str(Path(folder) / f"{SWEEP_SHOT.name}.html"))
        run("demo", "wordcount", "--kill", "-o", str(Path(folder) / f"{WORDCOUNT_SHOT.name}.html"))
        jobs = ("--kills", "2", "--lose", "0.3", "-o", str(Path(folder) / f"{JOBS_SHOT.name}.html"))
        run("demo", "jobs", *jobs)
        for shot in SHOTS:
            run("explain", *shot.explain, "-o", f"{shot.name}.html", folder=folder)
        with open_browser(chromium) as browser:
            take_dashboard(browser)
            for shot in (*SHOTS, SWEEP_SHOT, WORDCOUNT_SHOT, JOBS_SHOT):
                take(shot, Path(folder), browser)


def take(shot: Shot, folder: Path, browser: "Browser") -> None:
    visit = Visit(
        browser,
        folder / f"{shot.name}.html",
        fragment=shot.fragment,
        scheme=shot.scheme,
        width=shot.width,
        height=shot.height,
    )
    for step in shot.steps:
        visit.page.get_by_role("button", name=step, exact=True).click()
    visit.page.screenshot(path=FOLDER / f"{shot.name}.png")
    visit.close()
    if visit.complaints:
        raise SystemExit(f"{shot.name}: {'; '.join(visit.complaints)}")


def take_dashboard(browser: "Browser") -> None:
    """The page of a running exchange, once it has something to show."""
    with serving_page(*BUSY) as (address, page), busy(address):
        sleep(WATCHED_SECONDS)
        for name, scheme, width, height in DASHBOARDS:
            visit = Visit(browser, page, scheme=scheme, width=width, height=height)
            visit.page.get_by_role("heading", name="refunds/0").wait_for()
            visit.page.screenshot(path=FOLDER / f"{name}.png")
            visit.close()


def run(*arguments: str, folder: str | None = None) -> None:
    """Run a command; exit code 1, for a deadlock, is expected."""
    command = [sys.executable, "-m", "permitflow_tools.cli", *arguments]
    done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL, cwd=folder)
    if done.returncode not in (0, 1):
        raise SystemExit(f"permitflow {' '.join(arguments)} ended with {done.returncode}")


if __name__ == "__main__":
    main()
