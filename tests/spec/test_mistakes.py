"""A mistake in a model breaks the invariant in the specification, too: TLC says so of the state where its run ends."""

from collections.abc import Mapping
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from shutil import copy
from typing import Any

import pytest

from permitflow_model.manifest import module_paths, whole_text
from permitflow_model.mistakes import Mistake
from permitflow_model.tla_values import TlaValue, camel_case, config_text, format_value, state_to_tla, to_tla
from permitflow_model.tlc import run_tlc
from tests.support.mistaken import is_seen_in_tla, run_into, system_with, tables

SAMPLE = {"stop_and_wait", "staging"}


def module_text(module: str, ends: Mapping[int, tuple[str, Any]]) -> str:
    """A module whose only states are these, each with its number; in each one the invariant beside it is broken."""
    states = {
        number: " /\\ ".join(f"{name} = {format_value(value)}" for name, value in state_to_tla(state).items())
        for number, (_, state) in ends.items()
    }
    return "\n".join(
        [
            f"---- MODULE Mistaken ----\nEXTENDS {module}\nVARIABLE mistake",
            "MistakenStates ==",
            *(f"    \\/ mistake = {number} /\\ {state}" for number, state in states.items()),
            "MistakenBreaks == CASE "
            + " [] ".join(f"mistake = {number} -> ~{name}" for number, (name, _) in ends.items()),
            "SpecMistaken == MistakenStates /\\ [][UNCHANGED <<vars, mistake>>]_<<vars, mistake>>\n====\n",
        ]
    )


def constants_of(parameters: Any, text: str) -> dict[str, TlaValue]:
    """Those of the specification: its sets of numbers are tuples in Python."""
    values = {camel_case(f"_{name}"): value for name, value in asdict(parameters).items()}
    constants = {name: to_tla(frozenset(it) if isinstance(it, tuple) else it) for name, it in values.items()}
    return {**constants, "Fair": frozenset()} if "\n    Fair" in text else constants


def parameters_of(mistake: Mistake) -> str:
    return repr(mistake.parameters)


CASES = [
    pytest.param(protocol, [*same], id=f"{protocol}-{number}", marks=() if protocol in SAMPLE else pytest.mark.long)
    for protocol, table in tables().items()
    for number, (_, same) in enumerate(
        groupby(sorted((each for each in table if is_seen_in_tla(protocol, each)), key=parameters_of), parameters_of)
    )
]


@pytest.mark.parametrize(("protocol", "mistakes"), CASES)
def test_a_mistake_breaks_its_invariant_in_both_languages(
    protocol: str, mistakes: list[Mistake], spec_directory: Path, tmp_path: Path
) -> None:
    system = system_with(protocol)
    ends = {}
    for number, mistake in enumerate(mistakes):
        run = run_into(system, mistake)
        assert run is not None
        ends[number] = (mistake.breaks, run.steps[-1].state)
    for path in module_paths(spec_directory).values():
        copy(path, tmp_path)
    (tmp_path / "Mistaken.tla").write_text(module_text(system.module, ends), encoding="utf-8")
    constants = constants_of(mistakes[0].parameters, whole_text(system.module))
    config = config_text(constants, specification="SpecMistaken", invariants=["MistakenBreaks"])
    found = run_tlc("Mistaken", config, spec_directory=tmp_path)
    assert (str(found.verdict), found.states) == ("success", len(ends))
