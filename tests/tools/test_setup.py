"""Set-up works on machines that lack something, does nothing twice, and says what to do when it cannot go on."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tools import setup as set_up


@pytest.fixture
def setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, at work on an empty checkout of its own, on a machine without any program."""
    checkout = tmp_path / "checkout"
    (checkout / ".venv/bin").mkdir(parents=True)
    (checkout / "pyproject.toml").write_text("[project]\n")
    for name, value in {
        "CHECKOUT": checkout,
        "VENV": checkout / ".venv",
        "VENV_PYTHON": checkout / ".venv/bin/python",
        "STAMP": checkout / ".venv/setup.stamp",
        "CONNECT": checkout / ".venv/connect",
        "JAVA_HOME_FILE": checkout / ".venv/java_home",
        "TRIED_FILE": checkout / ".venv/programs_tried",
        "JAVA_PLACES": (str(tmp_path / "jvm/*"),),
        "PIP_PAUSE_SECONDS": 0.0,
    }.items():
        monkeypatch.setattr(set_up, name, value)
    (tmp_path / "programs").mkdir()
    monkeypatch.setattr(sys, "argv", ["setup.py"])
    monkeypatch.setenv("PATH", str(tmp_path / "programs"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return set_up


def script(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["#!/bin/sh", *lines]) + "\n")
    path.chmod(0o755)
    return path


def java(home: Path, version: str) -> Path:
    """A home of a Java that claims this version."""
    script(home / "bin/java", f"""echo 'openjdk version "{version}" 2025-04-15' >&2""")
    return home


def test_a_java_home_that_is_too_old_is_passed_over(
    setup: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = java(tmp_path / "jvm/new", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "old", "11.0.2")))
    assert setup.find_java() == new


def test_without_java_and_package_manager_the_message_says_what_to_do(
    setup: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_info:
        setup.provide_java()
    assert exit_info.value.code == 1
    message = capsys.readouterr().err
    assert "Java 17 or newer" in message
    assert "none of the package managers apt-get, dnf, apk" in message
    assert "Install one, then run make setup again" in message


def test_a_second_set_up_runs_nothing(setup: ModuleType, tmp_path: Path) -> None:
    java(tmp_path / "jvm/a", "17.0.1")
    script(setup.VENV_PYTHON, f'echo "$*" >> {tmp_path}/log')
    setup.main()
    first = (tmp_path / "log").read_text()
    assert "install" in first
    setup.main()
    assert (tmp_path / "log").read_text() == first


def test_an_installation_that_failed_is_not_taken_for_done(setup: ModuleType, tmp_path: Path) -> None:
    java(tmp_path / "jvm/a", "17.0.1")
    script(setup.VENV_PYTHON, 'case "$*" in *install*) exit 1;; esac')
    with pytest.raises(SystemExit):
        setup.main()
    assert not setup.is_up_to_date(setup.fingerprint_of_inputs(), "demo")


def test_of_pip_errors_are_shown_and_no_warnings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nowhere"))
    pip = [sys.executable, *set_up.PIP_INSTALL, "--no-index", "no-such-package"]
    stderr = subprocess.run(pip, capture_output=True, text=True, check=False, timeout=250).stderr
    assert "No matching distribution found for no-such-package" in stderr
    assert "WARNING" not in stderr


def test_make_lists_its_targets_without_setting_anything_up(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text((repository / "Makefile").read_text())
    done = subprocess.run(["make"], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=250)
    for target in ("setup", "demo", "test", "check", "spec", "proofs"):
        assert f"make {target} " in done.stdout
    assert list(tmp_path.iterdir()) == [tmp_path / "Makefile"]


def test_the_demo_installs_its_own_extra_and_no_browser(
    setup: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java(tmp_path / "jvm/a", "17.0.1")
    script(setup.VENV_PYTHON, f'echo "$*" >> {tmp_path}/log')
    monkeypatch.setattr(sys, "argv", ["setup.py", "demo"])
    setup.main()
    assert ".[demo]" in (tmp_path / "log").read_text()
    assert not setup.TRIED_FILE.exists()


def test_what_contributors_need_serves_the_demo_as_well(setup: ModuleType) -> None:
    setup.VENV_PYTHON.touch()
    setup.STAMP.write_text("dev 1")
    assert setup.is_up_to_date("1", "demo")
    setup.STAMP.write_text("demo 1")
    assert not setup.is_up_to_date("1", "dev")


def test_only_for_the_longest_tests_a_client_of_connect_is_installed(
    setup: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java(tmp_path / "jvm/a", "17.0.1")
    script(setup.VENV_PYTHON, f'echo "$*" >> {tmp_path}/log')
    setup.main()
    assert ".[connect]" not in (tmp_path / "log").read_text()
    monkeypatch.setattr(sys, "argv", ["setup.py", "all"])
    setup.main()
    assert ".[connect]" in (tmp_path / "log").read_text()


def test_without_java_nothing_is_installed(setup: ModuleType, tmp_path: Path) -> None:
    script(setup.VENV_PYTHON, f'echo "$*" >> {tmp_path}/log')
    with pytest.raises(SystemExit):
        setup.main()
    assert "install" not in (tmp_path / "log").read_text()
