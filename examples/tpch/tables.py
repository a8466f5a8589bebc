"""TPC-H for the demos: query 12, in one piece and in halves, and tables that are generated once and kept in a cache.

The batch demo runs the halves of query 12 in two Spark jobs, on either side of the exchange, and the whole for
comparison.  Query 12 counts late line items of two shipping modes in one year.  The streaming demo counts all late line
items by mode and year, so that many rows flow and each one counts.

Source: TPC-H standard specification, section 2.4.12, with the validation parameters MAIL, SHIP, 1994.
"""

import os
import shutil
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pyarrow as pa

from permitflow.errors import DemoError

from ..processes import Note, Part


class ShippingMode(NamedTuple):
    """One row of the answer."""

    mode: str
    high_line_count: int
    """Late line items of urgent and of high-priority orders."""
    low_line_count: int
    """All other late line items."""


WHOLE_QUERY = """
    SELECT l_shipmode,
           sum(CASE WHEN o_orderpriority = '1-URGENT' OR o_orderpriority = '2-HIGH' THEN 1 ELSE 0 END)
               AS high_line_count,
           sum(CASE WHEN o_orderpriority <> '1-URGENT' AND o_orderpriority <> '2-HIGH' THEN 1 ELSE 0 END)
               AS low_line_count
    FROM orders, lineitem
    WHERE o_orderkey = l_orderkey
      AND l_shipmode IN ('MAIL', 'SHIP')
      AND l_commitdate < l_receiptdate
      AND l_shipdate < l_commitdate
      AND l_receiptdate >= DATE '1994-01-01'
      AND l_receiptdate < DATE '1994-01-01' + INTERVAL '1' YEAR
    GROUP BY l_shipmode
    ORDER BY l_shipmode
"""

LATE_LINE_ITEMS = """
    SELECT l_orderkey, l_linenumber, l_shipmode, l_shipdate, l_commitdate, l_receiptdate
    FROM lineitem
    WHERE l_shipmode IN ('MAIL', 'SHIP')
      AND l_commitdate < l_receiptdate
      AND l_shipdate < l_commitdate
      AND year(l_receiptdate) = 1994
"""

PRIORITIES_OF_LATE_ITEMS = """
    SELECT l_shipmode,
           count_if(o_orderpriority IN ('1-URGENT', '2-HIGH')) AS high_line_count,
           count_if(o_orderpriority NOT IN ('1-URGENT', '2-HIGH')) AS low_line_count
    FROM late_line_items JOIN orders ON o_orderkey = l_orderkey
    GROUP BY l_shipmode
    ORDER BY l_shipmode
"""


ANSWER_MODES = ("MAIL", "SHIP")
ANSWER_YEAR = 1994

LINE_ITEM_SCHEMA = pa.schema(
    [
        ("l_orderkey", pa.int64()),
        ("l_linenumber", pa.int32()),
        ("l_shipmode", pa.string()),
        ("l_shipdate", pa.date32()),
        ("l_commitdate", pa.date32()),
        ("l_receiptdate", pa.date32()),
    ]
)
"""The schema of the rows that the producer sends."""

ALL_LATE_ITEMS = """
    SELECT l_orderkey, l_linenumber, l_shipmode, year(l_receiptdate) AS l_receiptyear,
           o_orderpriority IN ('1-URGENT', '2-HIGH') AS is_high
    FROM lineitem JOIN orders ON o_orderkey = l_orderkey
    WHERE l_commitdate < l_receiptdate AND l_shipdate < l_commitdate
"""
"""One text for the stream, where ``lineitem`` comes from the exchange, and for the files."""

TABLES = ("lineitem", "orders")
NOT_INSTALLED = "tpchgen-cli is not installed: pip install 'permitflow[demo]'"


def default_cache_dir() -> Path:
    """Where generated tables are kept: below the user's cache folder (XDG base directories)."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "permitflow" / "tpch"


async def cached_tables(scale: float, cache_dir: Path, note: Note = lambda text: None) -> Path:
    """The folder with one Parquet file per table; ``note`` is told where, and whether it had to be generated now.

    Cancellation leaves nothing behind; other processes may ask for the same tables at the same time.

    Raises:
        DemoError: the generator is missing or failed, or the cache cannot be written.
    """
    finished = cache_dir / f"scale-{scale:g}-tpchgen-{_generator_version()}"
    if finished.is_dir():
        note(f"found in {finished}")
        return finished
    try:
        with _new_folder(cache_dir) as partial:
            await _generate(scale, partial)
            # Another process may have published the same tables in the meantime; theirs are as good.
            if not finished.is_dir():
                partial.rename(finished)
    except OSError as error:
        if not finished.is_dir():
            what = f"the TPC-H tables cannot be kept in {cache_dir}: {error}; choose another --cache-dir"
            raise DemoError(what) from error
    note(f"generated in {finished}")
    return finished


@contextmanager
def _new_folder(cache_dir: Path) -> Iterator[Path]:
    """One that is removed at the end, unless it was renamed."""
    cache_dir.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".partial-", dir=cache_dir, ignore_cleanup_errors=True) as folder:
        tables = Path(folder) / "tables"
        tables.mkdir()
        yield tables


def _generator_version() -> str:
    # Another version of the generator may produce other rows.
    try:
        return version("tpchgen-cli")
    except PackageNotFoundError:
        raise DemoError(NOT_INSTALLED) from None


async def _generate(scale: float, folder: Path) -> None:
    command = [_generator(), "parquet", "--scale-factor", f"{scale:g}", "--tables", ",".join(TABLES), "--quiet"]
    await Part("tpchgen-cli", lambda _: [*command, "--output-dir", str(folder)], folder.with_name("tpchgen.log")).run()
    missing = [table for table in TABLES if not (folder / f"{table}.parquet").is_file()]
    if missing:
        raise DemoError(f"tpchgen-cli ended well but wrote no {missing[0]}.parquet")


def _generator() -> str:
    beside_python = Path(sysconfig.get_path("scripts")) / "tpchgen-cli"
    found = str(beside_python) if beside_python.is_file() else shutil.which("tpchgen-cli")
    if found is None:
        raise DemoError(NOT_INSTALLED)
    return found
