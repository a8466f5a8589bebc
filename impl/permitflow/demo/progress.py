"""What a demo tells while it works, how long its parts take, and the folder in which they write."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import Protocol

from permitflow.errors import DemoError, InvalidOptionError

__all__ = ["PartClock", "Progress", "require_packages", "work_folder"]


class Progress(Protocol):
    """Is told how far the demo is."""

    def begin(self, part: str) -> None:
        """A part has begun; see ``PARTS``."""
        ...

    def note(self, text: str) -> None:
        """Something happened in the current part."""
        ...

    def end(self, part: str, seconds: float) -> None:
        """A part is done."""
        ...


class PartClock:
    """Times the parts and tells the progress."""

    def __init__(self, progress: Progress) -> None:
        """Nothing has begun."""
        self.seconds: dict[str, float] = {}
        self.progress = progress

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Time the block."""
        began = monotonic()
        self.progress.begin(name)
        yield
        self.seconds[name] = monotonic() - began
        self.progress.end(name, self.seconds[name])


def require_packages(*names: str) -> None:
    """Notice now what the demo's processes would find out one after the other.

    Raises:
        DemoError: a package is missing.
    """
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        raise DemoError(f"{', '.join(missing)} cannot be imported: pip install 'permitflow[demo]'")


@asynccontextmanager
async def work_folder(keep: Path | None) -> AsyncIterator[Path]:
    """A folder for logs and traces: the one to keep, or one that is gone at the end.

    Raises:
        InvalidOptionError: the one to keep cannot be made.
    """
    if keep is not None:
        try:
            await asyncio.to_thread(keep.mkdir, parents=True, exist_ok=True)
        except OSError as error:
            reason = f"cannot be made ({error.strerror})"
            raise InvalidOptionError(option="--keep", value=str(keep), reason=reason) from error
        yield keep
        return
    folder = Path(tempfile.mkdtemp(prefix="permitflow-demo-"))
    try:
        yield folder
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
