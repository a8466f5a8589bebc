"""The properties bite: mistakes made on purpose in a copy of the specification are noticed, and by what."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from permitflow_model.manifest import ManifestError, Model, module_paths, whole_text
from permitflow_model.tlc import TlcError
from permitflow_model.tlc.mutants import BY_GRAPH, Mutant, Outcome, read_mutants, try_mutant
from tests.support.mistaken import is_seen_in_tla, system_with, tables
from tests.support.specification import MODELS

CHECKOUT = Path(__file__).parents[2]
LISTS = Path(__file__).with_name("mutants")
FOLDERS = {name: path.parent for name, path in module_paths(CHECKOUT / "spec").items()}
# Read while tests are collected: they are the tests' parameters.
MUTANTS = {mutant.name: mutant for mutant in read_mutants(LISTS, MODELS)}

Tried = Callable[[str], Outcome]


@pytest.fixture(scope="module")
def tried(request: pytest.FixtureRequest, models: dict[str, Model], spec_directory: Path) -> Iterator[Tried]:
    """What became of a mutant, by its name; those that the selected tests name are tried two at a time."""
    attempt = partial(try_mutant, models=models, spec_directory=spec_directory)
    with ThreadPoolExecutor(max_workers=2, thread_name_prefix="mutant") as pool:
        futures: dict[str, Future[Outcome]] = {}
        for item in request.session.items:
            parameters = item.callspec.params if hasattr(item, "callspec") else {}
            if (name := parameters.get("mutant_name")) is not None:
                futures[name] = pool.submit(attempt, MUTANTS[name])
        yield lambda name: futures[name].result()
        pool.shutdown(cancel_futures=True)


# Of models over which TLC is soon: what an invariant notices, what a graph shows, a chunk that leaves without permits.
SAMPLE = {
    "the server has one place more than its buffer",
    "each message is requested again at once",
    "a chunk leaves only if a permit remains",
}


# Tables of mistakes in the models break these; test_mistakes.py asks TLC.
IN_TABLES = {
    (system_with(protocol).module, f"invariant {mistake.breaks}")
    for protocol, table in tables().items()
    for mistake in table
    if is_seen_in_tla(protocol, mistake)
}

# Mistakes in a property that something else breaks, too.
MORE = {
    # The bounds are tight: one below them this mistake is harmless.
    "a chunk leaves only if a permit remains",
    # Only TLA+ has this mapping.
    "the mapping puts the inbox behind the wire",
    # Pages tell of these designs, and no mistake of a model is one of them.
    "the batch does not follow the target",
    "a chunk larger than the window waits for it",
    "a large chunk waits until nothing is outstanding",
    "the receiver's batch is larger than the sender's",
    "rows are returned only together with a batch of bytes",
    "an owner connects again while another session has the lock",
}


@pytest.mark.parametrize(
    "mutant_name",
    [pytest.param(name, marks=() if name in SAMPLE else pytest.mark.long) for name in MUTANTS],
)
def test_a_mistake_in_the_specification_is_noticed(mutant_name: str, tried: Tried) -> None:
    outcome = tried(mutant_name)
    assert outcome.noticed_by == MUTANTS[mutant_name].expect
    assert not outcome.is_survivor


def test_each_edit_fits_the_text() -> None:
    files = {edit.file for mutant in MUTANTS.values() for edit in mutant.edits}
    texts = {file: whole_text(file.removesuffix(".tla")) for file in files}
    unfit = [
        (mutant.name, edit.old)
        for mutant in MUTANTS.values()
        for edit in mutant.edits
        if texts[edit.file].count(edit.old) != 1
    ]
    assert unfit == []


def stated_in(module: str, name: str) -> Path:
    """The folder of the text that states this property: where it is another module's, of that one."""
    text = whole_text(module)
    if found := re.search(rf"^{name} == (\w+)!{name}$", text, re.MULTILINE):
        (other,) = re.findall(rf"^{found[1]} == INSTANCE (\w+)", text, re.MULTILINE)
        return stated_in(other, name)
    return FOLDERS[module]


def test_every_property_notices_a_mistake() -> None:
    checked = {
        (stated_in(model.module, name), f"{kind} {name}")
        for model in MODELS.values()
        for kind, names in (("invariant", model.invariants), ("property", model.properties))
        for name in names
        if not name.endswith("Probe")
    }
    # Models break properties as well: they lack a fairness condition, have a mistaken action, or wrong numbers.
    broken = {(FOLDERS[model.module], str(model.expect)) for model in MODELS.values()}
    broken |= {(FOLDERS[MODELS[mutant.model].module], mutant.expect) for mutant in MUTANTS.values()}
    broken |= {(FOLDERS[module], name) for module, name in IN_TABLES}
    assert len(checked) >= 16
    assert checked <= broken


def test_nothing_else_breaks_the_property_of_a_mutant() -> None:
    broken: set[tuple[Path | None, str]] = {(FOLDERS[model.module], str(model.expect)) for model in MODELS.values()}
    broken |= {(FOLDERS[module], name) for module, name in IN_TABLES}
    again = set()
    for mutant in MUTANTS.values():
        # All graphs are compared in one way.
        place = None if mutant.expect == BY_GRAPH else FOLDERS[MODELS[mutant.model].module]
        if (place, mutant.expect) in broken and not mutant.is_control:
            again.add(mutant.name)
        broken.add((place, mutant.expect))
    assert again == MORE


# A check that cannot fail is none.


def test_a_mistake_that_nothing_notices_survives(models: dict[str, Model], spec_directory: Path) -> None:
    control = next(mutant for mutant in MUTANTS.values() if mutant.is_control)
    careless = Mutant(**{**vars(control), "name": "careless", "expect": "invariant NeverStuck"})
    outcome = try_mutant(careless, models=models, spec_directory=spec_directory)
    assert outcome.is_survivor
    assert not outcome.is_as_expected


def test_a_mutant_that_is_no_specification_is_an_error(models: dict[str, Model], spec_directory: Path) -> None:
    first = next(iter(MUTANTS.values()))
    (edit,) = first.edits
    broken = Mutant(**{**vars(first), "edits": (replace(edit, new="inbox' = ("),)})
    with pytest.raises(TlcError):
        try_mutant(broken, models=models, spec_directory=spec_directory)


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ('model = "live"\nexpect = "graph"', "changes nothing"),
        ('model = "lively"\nexpect = "graph"\nconstants = { PermitBatch = 1 }', "the manifest has no model 'lively'"),
        (
            'model = "live"\nexpect = "success"\nconstants = { PermitBatch = 1 }',
            "no other entry notices the same edits",
        ),
        ('model = "live"\nexpect = "graph"\nedit = []', "unknown key 'edit'"),
    ],
)
def test_a_list_that_cannot_be_used_is_refused(entry: str, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "PermitChannel.toml"
    path.write_text(f'[[mutant]]\nname = "x"\n{entry}\n')
    with pytest.raises(ManifestError, match=complaint):
        read_mutants(path, MODELS)


def test_an_edit_that_does_not_fit_the_text_is_refused(models: dict[str, Model], spec_directory: Path) -> None:
    first = next(iter(MUTANTS.values()))
    (edit,) = first.edits
    unfit = Mutant(**{**vars(first), "edits": (replace(edit, old=" == "),)})
    with pytest.raises(ManifestError, match="must stand there once, but stands"):
        try_mutant(unfit, models=models, spec_directory=spec_directory)


def run_tool(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(CHECKOUT / "tools/spec_mutants.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)


@pytest.mark.long
def test_the_command_names_the_witness_and_fails_for_a_survivor(tmp_path: Path) -> None:
    text = (LISTS / "PermitChannel.toml").read_text()
    name = "a chunk leaves only if a permit remains, one below the tight bound"
    other = "the idle flush forgets the smallest residue"
    path = tmp_path / "PermitChannel.toml"
    entries = [f"[[mutant]]{entry}" for entry in text.split("[[mutant]]") if name in entry or other in entry]
    path.write_text("".join(entries).replace('expect = "success"', 'expect = "invariant NeverStuck"'))

    run = run_tool("--list", str(path))

    assert run.returncode == 1
    chunk, flush, count, by = run.stdout.splitlines()
    assert flush.startswith(f"{other} ")
    assert flush.endswith("invariant WholeWhenIdle in flush-idle")
    assert "SURVIVED in mismatch-smaller-batch, where invariant NeverStuck should have noticed it" in chunk
    assert count.startswith("1 of 2 noticed")
    assert by == "noticed by: invariant WholeWhenIdle"


def test_the_command_refuses_a_name_that_is_not_listed() -> None:
    run = run_tool("--only", "no such mistake")
    assert (run.returncode, run.stderr) == (2, "no mutant is called 'no such mistake'\n")
