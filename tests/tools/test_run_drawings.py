"""What documents show of runs is what the explorer finds now."""

import pytest

from tools.run_drawings import (
    FILM,
    FOLDER,
    PACKAGES,
    PAGES,
    REFUTED,
    TABLES,
    film_of_the_readme,
    packages,
    refuted,
    with_tables,
)


@pytest.mark.parametrize("page", TABLES)
def test_the_runs_in_a_page_are_up_to_date(page: str) -> None:
    assert (PAGES / page).read_text(encoding="utf-8") == with_tables(page), "run `nox -s pictures`"


def test_the_readmes_film_is_up_to_date_and_ends_stuck() -> None:
    kept = (FOLDER / FILM).read_text(encoding="utf-8")
    assert kept == film_of_the_readme(), "run `nox -s pictures`"
    assert "the next chunk needs 7" in kept


def test_the_drawing_of_a_refuted_claim_is_up_to_date() -> None:
    assert (FOLDER / REFUTED).read_text(encoding="utf-8") == refuted(), "run `nox -s pictures`"


def test_the_drawing_of_the_packages_is_up_to_date() -> None:
    assert (FOLDER / PACKAGES).read_text(encoding="utf-8") == packages(), "run `nox -s pictures`"
