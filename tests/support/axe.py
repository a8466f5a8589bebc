"""axe-core: what of a page people with assistive technology, or without a mouse, cannot use."""

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

VERSION = "4.11.4"
INSTALLING_SECONDS = 120
_FOLDER = Path(__file__).resolve().parents[2] / ".cache" / f"axe-core-{VERSION}"


def axe_script() -> str:
    """The text of axe-core: from npm, once; a test that has none is skipped."""
    script = _FOLDER / "node_modules" / "axe-core" / "axe.min.js"
    if not script.is_file():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("npm is needed for axe-core")
        command = [npm, "install", "--prefix", str(_FOLDER), "--no-audit", "--no-fund", f"axe-core@{VERSION}"]
        _FOLDER.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALLING_SECONDS, check=False)
        if done.returncode:
            pytest.skip(f"npm cannot install axe-core: {done.stderr[-300:]}")
    return script.read_text(encoding="utf-8")


def violations(page: "Page") -> list[str]:
    """Each rule that the page breaks, with the first elements that break it."""
    page.evaluate(axe_script())
    found: list[dict[str, Any]] = page.evaluate("async () => (await axe.run()).violations")
    return [f"{each['id']}: {[node['target'] for node in each['nodes'][:3]]}" for each in found]
