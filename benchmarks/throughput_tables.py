"""Tables of how fast the ways are."""

from collections.abc import Callable, Collection

from benchmarks.markdown_table import NOT_MEASURED, table
from benchmarks.payloads import PAYLOADS
from benchmarks.results import Results
from benchmarks.series import compact
from benchmarks.throughput import Cell

__all__ = ["memory", "processor", "reading", "settings", "throughput"]


def _by_way(cells: list[Cell], shown: Callable[[Cell], str], unit: str) -> str:
    sizes = [name for name in PAYLOADS if any(cell.payload == name for cell in cells)]
    tuned = {cell.way for cell in cells if cell.is_tuned}
    # Those that were measured at their best have a row for the defaults as well.
    by_key = {
        (f"{cell.way}, defaults" if _is_beside_best(cell, tuned) else cell.way, cell.payload): cell for cell in cells
    }
    names = dict.fromkeys(name for name, _ in by_key)
    rows = [
        [name, *(shown(by_key[name, size]) if (name, size) in by_key else NOT_MEASURED for size in sizes)]
        for name in names
    ]
    return table([unit, *sizes], rows)


def _is_beside_best(cell: Cell, tuned: Collection[str]) -> bool:
    """Was the way of a cell, one of those that are tuned, measured with the default numbers?"""
    return cell.way in tuned and not cell.is_tuned


def _cells(results: Results, touch: str) -> list[Cell]:
    return [cell for cell in results.get("throughput", Cell) if cell.touch == touch]


def throughput(results: Results) -> str:
    """Of a consumer that sums up one column."""
    return _by_way(_cells(results, "column"), lambda cell: cell.chunks_per_second.told(), "chunks/s, median (range)")


def reading(results: Results) -> str:
    """Of a consumer that sums up every column."""
    return _by_way(_cells(results, "columns"), lambda cell: cell.chunks_per_second.told(), "chunks/s, median (range)")


def processor(results: Results) -> str:
    """Seconds of both processes for a gigabyte."""
    return _by_way(_cells(results, "column"), lambda cell: compact(cell.cpu_seconds_per_gigabyte.median), "CPU s/GB")


def memory(results: Results) -> str:
    """Of both processes."""
    return _by_way(_cells(results, "column"), lambda cell: f"{cell.peak_memory_bytes.median / 2**20:.0f}", "MiB")


def settings(results: Results) -> str:
    """Window and batch of each way."""
    return _by_way(
        _cells(results, "column"), lambda cell: f"{cell.row_permits // 1024}k / {cell.permit_batch / 1024:g}k", "rows"
    )
