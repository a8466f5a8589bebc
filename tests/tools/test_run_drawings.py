"""What documents show of runs is what the explorer finds now."""

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import networkx as nx
import pytest

from tests.test_architecture import imports_among, modules
from tools.run_drawings import (
    BOXES,
    FILM,
    FOLDER,
    IMPORTS,
    PACKAGES,
    PAGES,
    REFUTED,
    TABLES,
    film,
    packages,
    refuted,
    with_tables,
)


@pytest.mark.parametrize("page", TABLES)
def test_the_runs_in_a_page_are_up_to_date(page: str) -> None:
    assert (PAGES / page).read_text(encoding="utf-8") == with_tables(page), "run `nox -s pictures`"


def test_the_readmes_film_is_up_to_date_and_ends_stuck() -> None:
    kept = (FOLDER / FILM).read_text(encoding="utf-8")
    assert kept == film(), "run `nox -s pictures`"
    assert ">2 until it holds 3, and nothing can move.<" in kept


def test_the_drawing_of_a_refuted_claim_is_up_to_date() -> None:
    assert (FOLDER / REFUTED).read_text(encoding="utf-8") == refuted(), "run `nox -s pictures`"


def test_the_drawing_of_the_packages_is_up_to_date() -> None:
    assert (FOLDER / PACKAGES).read_text(encoding="utf-8") == packages(), "run `nox -s pictures`"


def test_the_drawing_of_the_packages_shows_who_imports_whom(repository: Path) -> None:
    """A package stands in a box by its own name or among others; an arrow may be the sum of others."""
    box_of = {word: name for name, (_, _, content) in BOXES.items() for word in (name, *re.findall(r"[a-z]+", content))}
    packages = {path.parent.name for path in (repository / "impl/permitflow").glob("*/__init__.py")}
    assert packages <= {*box_of}
    sources = {name: path.read_text() for name, path in modules(repository).items() if name.startswith("permitflow.")}

    def imported() -> Iterator[tuple[str, str]]:
        for importer, targets in imports_among(sources).items():
            for ends in product([importer], targets - {"permitflow.wire.v1"}):  # generated: each flow has its own
                boxes = tuple(box_of.get(end.split(".")[1], "") for end in ends)
                if all(boxes) and boxes[0] != boxes[1]:
                    yield boxes[0], boxes[1]

    found = {*imported()}
    drawn = {arrow for arrow in IMPORTS if arrow[0] != "permitflow_tools"}
    assert drawn <= found
    assert found <= {*nx.transitive_closure(nx.DiGraph(drawn)).edges}
