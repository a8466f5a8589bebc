"""What a user installs is complete: all packages, typed, with the specification as data, and it works from there."""

import re
import subprocess
import sys
import tomllib
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest

from tools.release import give_address

PACKAGES = {
    "permitflow": "impl/permitflow",
    "permitflow_testing": "impl/permitflow_testing",
    "permitflow_tools": "impl/permitflow_tools",
    "pyspark_permitflow": "impl/pyspark_permitflow",
    "pyspark_permitflow_grpc": "impl/pyspark_permitflow_grpc",
    "permitflow_model": "model/permitflow_model",
    "permitflow_proofs": "proofs/permitflow_proofs",
    "permitflow_examples": "examples",
}


@pytest.fixture(scope="module")
def wheel(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel, built without isolation: with what is installed, without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=repository, check=True, capture_output=True, timeout=250)
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


def test_an_editable_installation_can_be_made(repository: Path, tmp_path: Path) -> None:
    program = f"from hatchling.build import build_editable; build_editable({str(tmp_path)!r})"
    done = subprocess.run([sys.executable, "-c", program], cwd=repository, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def installed(wheel: zipfile.ZipFile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, unpacked far away from the checkout."""
    folder = tmp_path_factory.mktemp("installed")
    wheel.extractall(folder)
    return folder


def run_installed(installed: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Run a program that sees the unpacked wheel, and never the checkout."""
    preamble = (
        "import sys; sys.path[:] = [p for p in sys.path if not p.endswith(('/impl', '/model', '/proofs'))]; "
        f"sys.path.insert(0, {str(installed)!r}); "
    )
    command = [sys.executable, "-I", "-c", preamble + program]
    return subprocess.run(command, cwd=installed, capture_output=True, text=True, timeout=250, check=False)


def test_the_wheel_holds_typed_packages_and_specification_only(wheel: zipfile.ZipFile, repository: Path) -> None:
    expected = {
        f"{package}/{path.relative_to(repository / source).as_posix()}"
        for package, source in PACKAGES.items()
        for pattern in ("*.py", "*.pyi", "*.html", "*.css", "*.js")
        for path in (repository / source).rglob(pattern)
    }
    specification = repository / "spec"
    expected |= {f"permitflow_spec/{path.relative_to(specification)}" for path in specification.rglob("*.tla")}
    expected |= {f"{package}/py.typed" for package in PACKAGES} | {"permitflow_spec/permit_channel/models.toml"}
    assert expected <= set(wheel.namelist())
    tops = {name.partition("/")[0] for name in wheel.namelist()}
    info = {top for top in tops if top.endswith(".dist-info")}
    assert len(info) == 1
    assert tops - info == {*PACKAGES, "permitflow_spec"}


def test_the_licence_travels_with_the_wheel(wheel: zipfile.ZipFile) -> None:
    (licence,) = [name for name in wheel.namelist() if name.endswith("/licenses/LICENSE")]
    assert wheel.read(licence).decode().lstrip().startswith("Apache License")


def test_the_library_itself_demands_only_what_the_command_line_needs(wheel: zipfile.ZipFile) -> None:
    (metadata,) = [name for name in wheel.namelist() if name.endswith("/METADATA")]
    requirements = HeaderParser().parsestr(wheel.read(metadata).decode()).get_all("Requires-Dist", [])
    names = {re.split(r"[^\w-]", requirement)[0] for requirement in requirements if "extra ==" not in requirement}
    assert names == {"typer", "rich"}


def test_the_installed_specification_is_found(installed: Path) -> None:
    done = run_installed(
        installed,
        "import permitflow; from permitflow_model.manifest import find_spec_directory, read_manifest; "
        "print(permitflow.__file__, find_spec_directory(), len(read_manifest()))",
    )
    assert done.returncode == 0, done.stderr
    package, folder, count = done.stdout.split()
    assert package.startswith(str(installed))
    assert folder == str(installed / "permitflow_spec")
    assert int(count) > 0


def test_the_installed_command_line_answers(installed: Path) -> None:
    (entry_points,) = installed.glob("*.dist-info/entry_points.txt")
    assert "permitflow = permitflow_tools.command:main" in entry_points.read_text()
    done = run_installed(
        installed,
        "sys.argv[1:] = ['check', '--row-permits', '8', '--permit-batch', '3', '--max-chunk-cost', '7']; "
        "from permitflow_tools.command import main; main()",
    )
    assert done.returncode == 1, done.stderr
    assert "deadlock" in done.stdout


@pytest.fixture(scope="module")
def installed_help(installed: Path, repository: Path) -> str:
    """The help of all commands, as the wheel prints it."""
    program = (repository / "tools/cli_reference.py").read_text(encoding="utf-8")
    done = run_installed(installed, f"{program}\nprint(reference())")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_no_help_names_a_file_that_only_a_checkout_has(installed_help: str) -> None:
    assert "## permitflow conform" in installed_help
    named = re.findall(r"\b(?:docs|spec|tests|tools|examples|deploy|interop)/\S*|\S+\.md\b", installed_help)
    assert named == []


def test_what_the_help_shows_with_pydoc_is_in_the_wheel(installed: Path, installed_help: str) -> None:
    names = set(re.findall(r"python -m pydoc\s+([\w.]+)`", installed_help))
    assert "permitflow_testing.ChannelAdapter" in names
    done = run_installed(installed, f"import pydoc; [pydoc.resolve(name) for name in {sorted(names)}]")
    assert done.returncode == 0, done.stderr


def test_a_release_has_a_readme_whose_links_lead_out_of_the_package(repository: Path, tmp_path: Path) -> None:
    for name in ("pyproject.toml", "README.md"):
        (tmp_path / name).write_text((repository / name).read_text())
    give_address(tmp_path, "https://example.org/permitflow")
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]
    assert project["urls"] == {"Repository": "https://example.org/permitflow"}
    readme = (tmp_path / "README.md").read_text()
    assert re.findall(r"\]\((?!https://)[^)]*\)", readme) == []
    tag = f"v{project['version']}"
    assert f"](https://example.org/permitflow/raw/{tag}/docs/pictures/deadlock-film.svg)" in readme
    assert f"](https://example.org/permitflow/blob/{tag}/docs/claims.md)" in readme


def test_the_wheel_carries_the_examples_that_the_demo_runs(installed: Path) -> None:
    """In processes of their own, which find them where they were installed."""
    arguments = ["permitflow", "demo", "wordcount", "--stalls", "1", "--stall-seconds", "0.5", "--flow-seconds", "0.2"]
    program = f"sys.argv = {arguments!r}; from permitflow_tools.cli import main; main()"
    done = run_installed(installed, program)
    assert "exact" in done.stdout, done.stderr
