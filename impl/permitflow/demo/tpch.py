"""TPC-H tables for the demo, generated once and kept in a cache; half-written data is never seen under its name."""

import asyncio
import os
import shutil
import sysconfig
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from permitflow.demo.children import run_to_end
from permitflow.errors import DemoError

__all__ = ["TABLES", "cached_tables", "default_cache_dir"]

TABLES = ("lineitem", "orders")
NOT_INSTALLED = "tpchgen-cli is not installed: pip install 'permitflow[demo]'"


def default_cache_dir() -> Path:
    """Where generated tables are kept: below the user's cache folder (XDG base directories)."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "permitflow" / "tpch"


async def cached_tables(scale: float, cache_dir: Path) -> tuple[Path, bool]:
    """The folder with one Parquet file per table, and whether it had to be generated now.

    Cancellation leaves nothing behind; other processes may ask for the same tables at the same time.

    Raises:
        DemoError: the generator is missing or failed, or the cache cannot be written.
    """
    finished = cache_dir / f"scale-{scale:g}-tpchgen-{_generator_version()}"
    if finished.is_dir():
        return finished, False
    partial = _new_folder(cache_dir)
    try:
        await _generate(scale, partial)
        _publish(partial, finished)
    finally:
        await asyncio.to_thread(shutil.rmtree, partial, ignore_errors=True)
    return finished, True


def _generator_version() -> str:
    # Another version of the generator may produce other rows.
    try:
        return version("tpchgen-cli")
    except PackageNotFoundError:
        raise DemoError(NOT_INSTALLED) from None


def _new_folder(cache_dir: Path) -> Path:
    try:
        cache_dir.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=".partial-", dir=cache_dir))
    except OSError as error:
        raise DemoError(
            f"the TPC-H tables cannot be kept in {cache_dir}: {error}; choose another --cache-dir"
        ) from error


async def _generate(scale: float, folder: Path) -> None:
    command = [_generator(), "parquet", "--scale-factor", f"{scale:g}", "--tables", ",".join(TABLES), "--quiet"]
    log = folder / "tpchgen.log"
    await run_to_end([*command, "--output-dir", str(folder)], what="tpchgen-cli", log=log)
    log.unlink()
    missing = [table for table in TABLES if not (folder / f"{table}.parquet").is_file()]
    if missing:
        raise DemoError(f"tpchgen-cli ended well but wrote no {missing[0]}.parquet")


def _generator() -> str:
    beside_python = Path(sysconfig.get_path("scripts")) / "tpchgen-cli"
    found = str(beside_python) if beside_python.is_file() else shutil.which("tpchgen-cli")
    if found is None:
        raise DemoError(NOT_INSTALLED)
    return found


def _publish(partial: Path, finished: Path) -> None:
    try:
        partial.rename(finished)
    except OSError:
        # Another process may have published the same tables in the meantime; theirs are as good.
        if not finished.is_dir():
            raise
