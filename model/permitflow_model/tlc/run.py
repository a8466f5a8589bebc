"""Run TLC, each time in a folder of its own."""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import copy

from permitflow_model.tlc.dump import read_dump
from permitflow_model.tlc.install import find_jar, find_java
from permitflow_model.tlc.output import TlcResult, read_output
from permitflow_model.tlc.processes import TlcProcesses

__all__ = ["TlcOutput", "output_of_tlc", "run_tlc"]

# Nearly all of our runs are over within a second or two, most of it the start of Java.  The stack is for recursive
# operators over thousands of messages, as recorded runs have them.
_JAVA_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss64m")


@dataclass(frozen=True, kw_only=True)
class TlcOutput:
    """What a run of TLC has written, not yet read."""

    text: str
    """Its standard output."""

    dump: str | None
    """All states and steps, if they were wanted."""

    seconds: float

    def read(self, properties: Sequence[str]) -> TlcResult:
        """What it says about a configuration with these temporal properties.

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
        spec_directory: where the modules are; they are copied.
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
        for path in spec_directory.glob("*.tla"):
            copy(path, folder)
        (folder / f"{module}.cfg").write_text(config, encoding="utf-8")
        # TLC unpacks its standard modules into java.io.tmpdir: parallel runs must not share it.
        (folder / "tmp").mkdir()
        command = [str(java), *_JAVA_OPTIONS, f"-Djava.io.tmpdir={folder / 'tmp'}", "-cp", str(jar), "tlc2.TLC"]
        command += ["-tool", "-workers", str(workers), "-metadir", str(folder / "meta"), "-config", f"{module}.cfg"]
        # Once, at the end: how far TLC has come at its earlier checks depends on the machine.
        command += ["-lncheck", "final"]
        if dump_graph:
            command += ["-dump", "dot,actionlabels", "graph.dot"]
        start = time.monotonic()
        text = processes.run([*command, f"{module}.tla"], folder, timeout_seconds)
        seconds = time.monotonic() - start
        return TlcOutput(text=text, dump=_dumped(folder / "graph.dot") if dump_graph else None, seconds=seconds)


def _dumped(path: Path) -> str:
    """Nothing where TLC has come to no verdict, as its words say."""
    return path.read_text(encoding="utf-8") if path.exists() else ""
