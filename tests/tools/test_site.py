"""The site holds every document, each link leads to a page, and it fetches nothing from elsewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

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
    pages = {Path("README.md"): "contents.html"}
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
def test_no_page_fetches_anything_from_elsewhere(site: Path) -> None:
    fetched = {found for page in site.rglob("*.html") for found in FETCHED.findall(page.read_text())}
    assert fetched == set()
