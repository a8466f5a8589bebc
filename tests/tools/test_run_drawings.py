"""The drawings of the protocols' pages show what the explorer finds now."""

import pytest

from permitflow_model.manifest import read_manifest
from tools.run_drawings import DRAWN, FILM, FOLDER, PACKAGES, drawing_of, film_of_the_readme, packages


@pytest.mark.parametrize("name", DRAWN)
def test_a_drawing_is_up_to_date(name: str) -> None:
    kept = (FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    assert kept == drawing_of(read_manifest()[name]), "run `nox -s pictures`"
    assert "violated" in kept


def test_the_readmes_film_is_up_to_date_and_ends_stuck() -> None:
    kept = (FOLDER / FILM).read_text(encoding="utf-8")
    assert kept == film_of_the_readme(), "run `nox -s pictures`"
    assert "the next chunk needs 7" in kept


def test_the_drawing_of_the_packages_is_up_to_date() -> None:
    assert (FOLDER / PACKAGES).read_text(encoding="utf-8") == packages(), "run `nox -s pictures`"
