"""Set-up works on machines that lack something, does nothing twice, and says what to do when it cannot go on."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def setup(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module, at work on an empty checkout of its own, on a machine without any program."""
    spec = importlib.util.spec_from_file_location("setup_under_test", repository / "tools/setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
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
        "CHROMIUM_TRIED_FILE": checkout / ".venv/chromium_tried",
        "JAVA_PLACES": (str(tmp_path / "jvm/*"),),
        "PIP_PAUSE_SECONDS": 0.0,
    }.items():
        monkeypatch.setattr(module, name, value)
    (tmp_path / "programs").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "programs"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return module


def script(path: Path, *lines: str) -> Path:
    """A program that runs these lines of shell."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["#!/bin/sh", *lines]) + "\n")
    path.chmod(0o755)
    return path


def java(home: Path, version: str) -> Path:
    """A home of a Java that claims this version."""
    script(home / "bin/java", f"""echo 'openjdk version "{version}" 2025-04-15' >&2""")
    return home


# Java.


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


def test_java_is_installed_by_the_distribution(
    setup: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first package does not exist there, as openjdk-17 does not in newer Debian."""
    log = tmp_path / "log"
    java(tmp_path / "brought", "21.0.2")
    script(tmp_path / "programs/env", 'exec /usr/bin/env "$@"')
    (tmp_path / "jvm").mkdir()
    script(
        tmp_path / "programs/apt-get",
        f'echo "$DEBIAN_FRONTEND $*" >> {log}',
        'case "$*" in *openjdk-17*) exit 100;; esac',
        f'case "$*" in *openjdk-21*) /bin/ln -s {tmp_path}/brought {tmp_path}/jvm/21;; esac',
    )
    monkeypatch.delenv("DEBIAN_FRONTEND", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    setup.provide_java()
    assert log.read_text().splitlines() == [
        " update --quiet",
        "noninteractive install --yes --quiet --no-install-recommends openjdk-17-jre-headless",
        "noninteractive install --yes --quiet --no-install-recommends openjdk-21-jre-headless",
    ]
    assert setup.JAVA_HOME_FILE.read_text() == f"{tmp_path}/jvm/21\n"


def test_set_up_asks_for_no_password(
    setup: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script(tmp_path / "programs/apt-get", f"echo called > {tmp_path}/called")
    script(tmp_path / "programs/sudo", '[ "$1" = --non-interactive ] && exit 1', f"echo asked > {tmp_path}/called")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(SystemExit):
        setup.provide_java()
    assert not (tmp_path / "called").exists()
    assert "installing it with apt-get needs root" in capsys.readouterr().err


# Chromium.


# Python.


def test_pip_is_tried_again_when_the_network_fails(setup: ModuleType, tmp_path: Path) -> None:
    script(setup.VENV_PYTHON, f"echo attempt >> {tmp_path}/log", f"[ $(/usr/bin/wc -l < {tmp_path}/log) -ge 3 ]")
    setup.install_requirements()
    assert (tmp_path / "log").read_text().split() == ["attempt"] * 3


def test_a_second_set_up_runs_nothing(setup: ModuleType, tmp_path: Path) -> None:
    java(tmp_path / "jvm/a", "17.0.1")
    script(setup.VENV_PYTHON, f'echo "$*" >> {tmp_path}/log')
    setup.main()
    first = (tmp_path / "log").read_text()
    assert "install" in first
    setup.main()
    assert (tmp_path / "log").read_text() == first


def test_changed_requirements_are_installed(setup: ModuleType, tmp_path: Path) -> None:
    java(tmp_path / "jvm/a", "17.0.1")
    script(setup.VENV_PYTHON, f'echo "$*" >> {tmp_path}/log')
    setup.main()
    first = (tmp_path / "log").read_text()
    (setup.CHECKOUT / "pyproject.toml").write_text("[project]\nname = 'changed'\n")
    setup.main()
    assert (tmp_path / "log").read_text() != first


def test_an_installation_that_failed_is_not_taken_for_done(setup: ModuleType) -> None:
    script(setup.VENV_PYTHON, 'case "$*" in *install*) exit 1;; esac')
    with pytest.raises(SystemExit):
        setup.main()
    assert not setup.is_up_to_date(setup.fingerprint_of_inputs())


def test_an_old_python_says_which_one_it_is(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 2))
    with pytest.raises(SystemExit):
        setup.main()
    assert f"{sys.executable} is Python 3.9, but permitflow needs 3.11 or newer" in capsys.readouterr().err


def test_make_lists_its_targets_without_setting_anything_up(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text((repository / "Makefile").read_text())
    done = subprocess.run(["make"], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=250)
    for target in ("setup", "demo", "test", "check", "spec", "proofs"):
        assert f"make {target} " in done.stdout
    assert list(tmp_path.iterdir()) == [tmp_path / "Makefile"]
