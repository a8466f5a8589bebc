"""Run TLC, each time in a folder of its own."""

import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from shutil import copy

from permitflow_model.tlc.dump import read_dump
from permitflow_model.tlc.install import find_jar, find_java
from permitflow_model.tlc.output import TlcError, TlcResult, read_output

__all__ = ["run_tlc"]

# Nearly all of our runs are over within a second or two, most of it the start of Java.  The stack is for recursive
# operators over thousands of messages, as recorded runs have them.
_JAVA_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss64m")


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
        output = _run([*command, f"{module}.tla"], folder, timeout_seconds)
        seconds = time.monotonic() - start
        result = replace(read_output(output, properties=properties), seconds=seconds)
        if not dump_graph:
            return result
        return replace(result, graph=read_dump((folder / "graph.dot").read_text(encoding="utf-8")))


def _run(command: list[str], folder: Path, timeout_seconds: float) -> str:
    try:
        run = subprocess.run(
            command,
            cwd=folder,
            # A copy: without it a thread that changes the environment meanwhile can make the start fail.
            env=dict(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            timeout=timeout_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TlcError(f"TLC did not finish within {timeout_seconds:g} s; choose smaller constants") from None
    return run.stdout
