"""An archive of the classes that TLC loads, kept in the user's cache folder: with it, a run takes a fifth less.

It is Java's class data sharing (JEP 350): a run writes the archive when it ends, later ones map it into memory.  Java
itself sees whether an archive fits its release and the jar, and loads the classes one by one if not.
"""

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

_making = threading.Lock()
# Java's warnings would stand in TLC's output.
_QUIETLY = ("-XX:+IgnoreUnrecognizedVMOptions", "-Xlog:disable")


def archive_of(java: Path, jar: Path) -> Path:
    """Where the archive for this Java and this jar is, or will be."""
    root = os.environ.get("XDG_CACHE_HOME")
    cache = Path(root) if root else Path.home() / ".cache"
    files = [f"{file} {file.stat().st_mtime_ns}" for file in (java.resolve(), jar.resolve())]
    return cache / "permitflow" / f"tlc-{sha256(' '.join(files).encode()).hexdigest()[:16]}.jsa"


@contextmanager
def archive_options(java: Path, jar: Path, folder: Path) -> Iterator[list[str]]:
    """Options of Java for a run in this folder; of several runs at a time without an archive, one makes it."""
    archive = archive_of(java, jar)
    if archive.exists():
        yield [*_QUIETLY, f"-XX:SharedArchiveFile={archive}"]
    elif _making.acquire(blocking=False):
        try:
            made = folder / "classes.jsa"
            yield [*_QUIETLY, f"-XX:ArchiveClassesAtExit={made}"]
            # Without it, all works as well.
            with suppress(OSError):
                _keep(made, archive, jar)
        finally:
            _making.release()
    else:
        yield []


def _keep(made: Path, archive: Path, jar: Path) -> None:
    """Others see the whole archive or none, after a power loss as well: Java does not look whether it is whole."""
    for link in archive.parent.glob("tlc-*.jar"):
        if not link.exists():  # its jar is gone, as with the environment that had it
            link.with_suffix(".jsa").unlink(missing_ok=True)
            link.unlink()
    archive.parent.mkdir(parents=True, exist_ok=True)
    partial = archive.with_name(f"{archive.name}.{os.getpid()}")
    try:
        with made.open("rb") as source, partial.open("wb") as target:
            shutil.copyfileobj(source, target)
            target.flush()
            os.fsync(target.fileno())
        partial.replace(archive)
        archive.with_suffix(".jar").symlink_to(jar.resolve())
    finally:
        partial.unlink(missing_ok=True)
