"""The site holds every document, links lead to pages, nothing is fetched from elsewhere, and everybody can use it."""

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from permitflow_tools.explain.playgrounds import PLAYGROUNDS
from tests.support.axe import violations
from tests.support.browser import Scheme, find_chromium, open_browser

if TYPE_CHECKING:
    from playwright.sync_api import ViewportSize

REPOSITORY = Path(__file__).resolve().parents[2]
FETCHED = re.compile(r"""<(?:script|link|img|iframe)[^>]*\s(?:src|href)=["']?(https?://[^"'\s>]+)""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.long
def test_each_document_is_a_page(site: Path) -> None:
    documents = [path.relative_to(REPOSITORY / "docs") for path in (REPOSITORY / "docs").rglob("*.md")]
    pages = {Path("README.md"): "contents.html", Path("decisions/README.md"): "decisions/index.html"}
    missing = [path for path in documents if not (site / pages.get(path, path.with_suffix(".html"))).is_file()]
    assert missing == []


@pytest.mark.long
def test_a_specification_that_a_document_names_is_a_page(site: Path) -> None:
    page = (site / "sources/spec/permit_channel/PermitChannel.tla.html").read_text()
    assert "MODULE PermitChannel" in page


@pytest.mark.long
def test_a_door_has_the_docstrings_of_its_names(site: Path) -> None:
    assert "returns its sender" in (site / "reference/python/permitflow.html").read_text()


@pytest.mark.long
@pytest.mark.parametrize(
    ("page", "generated"),
    [
        ("reference/api", 'href="python/permitflow.client.html"'),
        ("reference/wire_errors", "<code>ChannelAbortedError</code></td>"),
        ("reference/proved-code", 'id="code-gate-sender"'),
    ],
)
def test_a_page_has_what_only_the_site_generates(site: Path, page: str, generated: str) -> None:
    assert generated in (site / f"{page}.html").read_text()


@pytest.mark.long
def test_no_page_fetches_anything_from_elsewhere(site: Path) -> None:
    fetched = {found for page in site.rglob("*.html") for found in FETCHED.findall(page.read_text())}
    assert fetched == set()


@pytest.mark.long
def test_the_site_has_each_page_to_play_with_and_leads_there(site: Path) -> None:
    exercise = (site / "start/play.html").read_text()
    for name in PLAYGROUNDS:
        assert f'href="../play/{name}.html"' in exercise
        assert 'class="card knobs"' in (site / f"play/{name}.html").read_text()


@pytest.mark.long
def test_the_guide_to_graphs_leads_to_the_page_of_each(site: Path) -> None:
    guide = (site / "guides/graphs.html").read_text()
    for graph in (REPOSITORY / "docs/examples/graphs").rglob("*.toml"):
        assert f'href="../graphs/{graph.stem}.html"' in guide
        assert 'id="stages-heading"' in (site / f"graphs/{graph.stem}.html").read_text()


@pytest.mark.long
def test_a_picture_is_no_text(site: Path) -> None:
    assert [page.name for page in site.rglob("*.html") if "mermaid" in page.read_text()] == []


@pytest.fixture
def served(site: Path) -> Iterator[str]:
    """The address of the site, as a web server shows it."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(site))) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.long
@pytest.mark.parametrize(("scheme", "width"), [("light", 390), ("dark", 1280)])
def test_everybody_can_use_the_main_pages(served: str, scheme: Scheme, width: int) -> None:
    """On a telephone, too, where wide tables scroll; served, since files have no search."""
    chromium = find_chromium()
    if chromium is None:
        pytest.skip("there is no Chromium")
    found = {}
    with open_browser(chromium) as browser:
        for name in ("index", "start/play", "guides/parameters", "reference/cli", "concepts/architecture", "compare"):
            screen: ViewportSize = {"width": width, "height": 900}
            page = browser.new_context(color_scheme=scheme, viewport=screen).new_page()
            page.goto(f"{served}/{name}.html")
            found[name] = violations(page)
            page.context.close()
    assert {name: broken for name, broken in found.items() if broken} == {}
