"""Files that a command writes: whole, or not at all; a device, a pipe and a link stay what they are.

A file with results is replaced: they can be computed again.  For recordings, which can not, see ``recording``.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile

from permitflow_tools.cli.outcomes import unusable

STANDARD_OUTPUT = Path("/dev/stdout")

# Where names are those of what a process has open, or of devices.
_DESCRIPTORS = ("/dev", "/dev/fd", "/proc/self/fd")


def require_folder(option: str, path: Path | None) -> None:
    """End the command early if this file could not be written, for want of a folder, or because it is one."""
    if path is not None and path.is_dir():
        unusable(f"{option}: {path} is a folder; name a file in it")
    if path is not None and not path.parent.is_dir():
        unusable(f"{option}: there is no folder {path.parent}")


def require_apart(outputs: Mapping[str, Path | None], inputs: Iterable[Path] = ()) -> None:
    """End the command before a file that it reads, or has just written, is replaced.

    Args:
        outputs: the options that name a file to write, with what they name.
        inputs: the files that are read.
    """
    taken = {os.path.realpath(path): "is an input" for path in inputs}
    for option, path in outputs.items():
        if path is None or is_special(path):
            continue
        place = os.path.realpath(path)
        if place in taken:
            unusable(f"{option}: {path} {taken[place]}; name another file")
        taken[place] = f"is what {option} names, too"


def write_files(contents: Mapping[Path, str]) -> None:
    """Write texts, each file whole or not at all; ends the command if one cannot be written."""
    for path, content in contents.items():
        write_bytes(path, content.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file, or end the command."""
    try:
        if path.is_dir():
            raise IsADirectoryError(0, "it is a folder; name a file in it")
        if is_special(path):
            with path.open("ab") as special:
                special.write(content)
        else:
            # Of a link, what it points to.
            _replace(Path(os.path.realpath(path)), content)
    except OSError as error:
        unusable(f"cannot write {path}: {error.strerror or error}")


def _replace(path: Path, content: bytes) -> None:
    # Beside the file, so that it can take its place in one step.
    with NamedTemporaryFile("wb", dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        try:
            file.write(content)
            file.close()
            os.chmod(file.name, 0o666 & ~_umask())
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def is_special(path: Path) -> bool:
    """Must the file not be replaced?  Even if /dev/stdout leads to a file, other processes have it open."""
    return str(path.parent) in _DESCRIPTORS or (path.exists() and not path.is_file())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
