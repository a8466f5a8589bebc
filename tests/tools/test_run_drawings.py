"""The drawings of the protocols' pages show what the explorer finds now."""

import pytest

from permitflow_model.manifest import read_manifest
from tools.run_drawings import DRAWN, FOLDER, drawing_of


@pytest.mark.parametrize("name", DRAWN)
def test_a_drawing_is_up_to_date(name: str) -> None:
    kept = (FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    assert kept == drawing_of(read_manifest()[name]), "run `make pictures`"
    assert "violated" in kept
