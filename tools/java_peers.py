"""Builds the Java programs of interop/java, and runs the TCK of Reactive Streams against them.

    python -m tools.java_peers build
    python -m tools.java_peers tck

Jars come from the folders and files in PERMITFLOW_JARS, separated by colons; by default from /usr/share/java, where
Debian's packages put them.  The TCK is not among these packages: name its jar in REACTIVE_STREAMS_TCK.
"""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import shorten
from typing import NamedTuple
from xml.etree import ElementTree

import pyarrow as pa

from permitflow import ChannelParameters, Demand, Parameters
from permitflow.exchange import Exchange, ExchangeServer

REPOSITORY = Path(__file__).resolve().parent.parent
JAVA = REPOSITORY / "interop" / "java"
NUMBERS = REPOSITORY / "tests" / "support" / "numbers.proto"
BUILD = REPOSITORY / "build" / "java"
DEBIAN = (
    "libgrpc-java libnetty-java libperfmark-java libprotobuf-java libreactive-streams-java "
    "libgeronimo-annotation-1.3-spec-java"
)
DEBIAN_PROTOC = "protobuf-compiler protobuf-compiler-grpc-java-plugin"

# The programs need these; the names are those of Debian and, before a version, of Maven's repository.
NEEDED = (
    *("grpc-api", "grpc-context", "grpc-core", "grpc-netty", "grpc-protobuf", "grpc-protobuf-lite", "grpc-stub"),
    *("protobuf", "guava", "opencensus-api", "perfmark-api", "reactive-streams", "geronimo-annotation-1.3-spec"),
    *("netty-buffer", "netty-codec", "netty-codec-http", "netty-codec-http2", "netty-codec-socks", "netty-common"),
    *("netty-handler", "netty-handler-proxy", "netty-resolver", "netty-transport"),
)
FOR_THE_TCK = ("testng", "jcommander", "bsh")
TESTS = ("ChannelPublisherTest", "ChannelSubscriberBlackboxTest", "ChannelSubscriberWhiteboxTest")
# Each test of the TCK uses up a channel, one of them a hundred.
CHANNELS = 400


class CannotBuildError(Exception):
    """Something is missing on this machine; the message says what, and how to get it."""


def tool(name: str) -> str:
    """Where a program is.

    Raises:
        CannotBuildError: it is not on the path.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(name, path=f"{home}/bin") if home else None
    if found := found or shutil.which(name):
        return found
    raise CannotBuildError(f"{name} is not on the path; Debian's packages: default-jdk-headless {DEBIAN_PROTOC}")


def jars(names: Sequence[str]) -> list[Path]:
    """The jars with these names, each in the first place that has it.

    Raises:
        CannotBuildError: one is nowhere.
    """
    places = [Path(place) for place in os.environ.get("PERMITFLOW_JARS", "/usr/share/java").split(":")]
    files = [jar for place in places for jar in (sorted(place.glob("*.jar")) if place.is_dir() else [place])]
    found = {name: next((jar for jar in files if _has_name(jar, name)), None) for name in names}
    if missing := [name for name, jar in found.items() if jar is None]:
        raise CannotBuildError(
            f"no jars for {', '.join(missing)} in {':'.join(map(str, places))}: name their folders in PERMITFLOW_JARS, "
            f"or install Debian's packages: {DEBIAN}"
        )
    return [jar for jar in found.values() if jar is not None]


def _has_name(jar: Path, name: str) -> bool:
    rest = jar.name.removeprefix(name)
    return rest == ".jar" or (rest != jar.name and rest[0] == "-" and rest[1:2].isdigit())


def built(sources: str, *, beside: Sequence[Path] = ()) -> list[Path]:
    """Compile a folder of interop/java, unless that was done; the class path.

    Args:
        sources: the folder's name.
        beside: other classes and jars that it needs.

    Raises:
        CannotBuildError: a program or a jar is missing.
    """
    classes, generated = BUILD / sources, BUILD / f"{sources}-generated"
    class_path = [*beside, *jars(NEEDED)]
    made_of = sorted((JAVA / sources).rglob("*.java"))
    definitions = definitions_of(sources)
    newest = max(path.stat().st_mtime for path in [*made_of, *definitions])
    stamp = classes / "built"
    if not stamp.exists() or stamp.stat().st_mtime < newest:
        shutil.rmtree(classes, ignore_errors=True)
        shutil.rmtree(generated, ignore_errors=True)
        classes.mkdir(parents=True)
        generated.mkdir(parents=True)
        _protoc(definitions, generated)
        files = [*made_of, *sorted(generated.rglob("*.java"))]
        command = [tool("javac"), "--release", "17", "-Xlint:-options", "-nowarn", "-d", str(classes)]
        _run([*command, "-cp", joined(class_path), *map(str, files)])
        stamp.touch()
    return [classes, *class_path]


def definitions_of(sources: str) -> list[Path]:
    """The definitions of which a folder uses the messages."""
    wire = REPOSITORY / "proto" / "permitflow" / "wire" / "v1"
    return {"src": [wire / "exchange.proto", wire / "permits.proto", wire / "demand.proto"], "numbers": [NUMBERS]}.get(
        sources, []
    )


def _protoc(definitions: Sequence[Path], into: Path) -> None:
    for definition in definitions:
        root = NUMBERS.parent if definition == NUMBERS else REPOSITORY / "proto"
        command = [tool("protoc"), f"-I{root}", f"--java_out={into}", str(definition)]
        if definition == NUMBERS:
            command += [f"--plugin=protoc-gen-grpc-java={tool('grpc_java_plugin')}", f"--grpc-java_out={into}"]
        _run(command)


def joined(class_path: Sequence[Path]) -> str:
    """As Java wants it."""
    return ":".join(map(str, class_path))


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotBuildError(f"{' '.join(command[:2])} … failed:\n{done.stdout}{done.stderr}")


def bridge() -> list[Path]:
    """The class path of the bridge, built if necessary."""
    return built("src")


def tck_jars() -> list[Path]:
    """The TCK, and what it needs.

    Raises:
        CannotBuildError: the variable does not name it.
    """
    named = os.environ.get("REACTIVE_STREAMS_TCK", "")
    if not named or not all(Path(each).exists() for each in named.split(":")):
        raise CannotBuildError(
            f"REACTIVE_STREAMS_TCK is {named!r}: set it to the jar of the TCK, or to the folder of its classes "
            "(org.reactivestreams:reactive-streams-tck in Maven's repository, or built from the folder tck of "
            "github.com/reactive-streams/reactive-streams-jvm)"
        )
    return [*map(Path, named.split(":")), *jars(FOR_THE_TCK)]


class TckResult(NamedTuple):
    """One test of the TCK."""

    name: str
    status: str
    """PASS, FAIL or SKIP."""
    message: str


async def run_tck(parameters: Parameters) -> list[TckResult]:
    """Run the TCK against a new exchange whose channels have these parameters.

    Raises:
        CannotBuildError: something is missing.
    """
    class_path = built("tck", beside=[*tck_jars(), *bridge()])
    batch = pa.record_batch({"number": [1]})
    exchange = Exchange(parameters=parameters)
    exchange.add_channels([f"tck/{number}" for number in range(CHANNELS)])
    with tempfile.TemporaryDirectory() as folder:
        files = {"schema": batch.schema.serialize(), "row": batch.serialize()}
        properties = {"flow": parameters.flow.table.flow}
        for name, content in files.items():
            path = Path(folder) / name
            path.write_bytes(content)
            properties[name] = str(path)
        async with ExchangeServer(exchange, "127.0.0.1:0") as server:
            properties["exchange"] = server.address
            command = [
                *(tool("java"), "-cp", joined(class_path)),
                *(f"-Dpermitflow.{name}={value}" for name, value in properties.items()),
                *("org.testng.TestNG", "-d", f"{folder}/report", "-verbose", "0"),
                *("-testclass", ",".join(f"permitflow.reactive.{test}" for test in TESTS)),
            ]
            java = await asyncio.create_subprocess_exec(*command)
            await java.wait()
        return list(_verdicts(Path(folder) / "report" / "testng-results.xml"))


def _verdicts(report: Path) -> Iterator[TckResult]:
    for test in ElementTree.parse(report).iter("test-method"):
        if test.get("is-config") is None:
            message = test.findtext("exception/message", "").strip()
            yield TckResult(test.get("name", ""), test.get("status", ""), message)


FLOWS: tuple[Parameters, ...] = (ChannelParameters(row_permits=8), Demand(size=8))
"""Both flows that the bridge knows, with windows smaller than what the TCK requests."""


def reported(parameters: Parameters) -> int:
    """Run the TCK, and print what was found; 1 if a test has failed."""
    verdicts = asyncio.run(run_tck(parameters))
    counts = Counter(verdict.status for verdict in verdicts)
    for verdict in verdicts:
        is_untested = verdict.name.startswith("untested_")
        if verdict.status != "PASS" and not is_untested:
            print(f"{verdict.status}  {verdict.name}: {shorten(verdict.message, 200, placeholder=' …')}")
    print(f"{parameters}: {counts['PASS']} passed, {counts['FAIL']} failed, {counts['SKIP']} skipped")
    return int(counts["FAIL"] > 0 or not counts["PASS"])


def main(arguments: Sequence[str]) -> int:
    """The command."""
    try:
        if list(arguments) == ["build"]:
            print(joined(bridge()))
            return 0
        if list(arguments) != ["tck"]:
            print(__doc__)
            return 2
        return max([reported(parameters) for parameters in FLOWS])
    except CannotBuildError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
