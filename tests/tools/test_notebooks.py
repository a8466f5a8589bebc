"""The notebooks show what they print."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples/notebooks"


@pytest.mark.long
def test_notebooks_print_and_draw_what_they_show(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "tools.notebooks", tmp_path], cwd=FOLDER.parents[1], check=True, timeout=250)
    shown = {path.name: outputs(path) for path in FOLDER.glob("*.ipynb")}
    assert sum(pictures for _, pictures in shown.values()) >= 4
    assert {path.name: outputs(path) for path in tmp_path.glob("*.ipynb")} == shown, "run python -m tools.notebooks"


def outputs(path: Path) -> tuple[str, int]:
    """What was printed, and how many pictures were drawn; their bytes depend on the release of Matplotlib."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    found = [output for cell in cells for output in cell.get("outputs", ())]
    printed = "".join("".join(output.get("text", ())) for output in found)
    return printed, sum("image/png" in output.get("data", ()) for output in found)
