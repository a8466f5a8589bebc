"""Run a slow service between two Spark jobs, without and with back-pressure, and draw the memory between them.

python -m benchmarks.slow_service                    a minute and a half; draws docs/pictures/slow-service.svg
python -m benchmarks.slow_service --rows 50000       smaller
python -m benchmarks.slow_service --picture my.png   elsewhere
"""

import argparse
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING

from psutil import NoSuchProcess, Process

from benchmarks.harness import Partner, serving
from benchmarks.results import Row, table
from benchmarks.slow_service import exchange_gateway, spark_jobs
from benchmarks.slow_service.programs import Settings, gateway, serve, service
from tools.marks import pasted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DOCUMENTS = Path(__file__).resolve().parents[2] / "docs"
PICTURE = DOCUMENTS / "pictures/slow-service.svg"
DOCUMENT = DOCUMENTS / "start/tutorial.md"
MARK = "the results, written by nox -s tutorial"

SAMPLE_SECONDS = 0.2


@dataclass(frozen=True)
class Outcome:
    """The result of one way."""

    name: str
    seconds: Sequence[float]
    """Since the orders could begin to flow, of each sample."""
    memory_bytes: Sequence[int]
    """Resident memory of all processes between the jobs."""
    sent_seconds: float
    """When the first job was done."""
    received_seconds: float
    """When the second job had all scores."""
    rows: int
    total: float
    """The sum of all scores: equal for both ways."""

    @property
    def row(self) -> Row:
        """The figures that the tutorial quotes."""
        return {
            "Between the jobs": self.name,
            "Memory at the beginning": f"{self.memory_bytes[0] / 1e6:,.0f} MB",
            "Most above that": f"{max(self.growth_bytes) / 1e6:,.0f} MB",
            "All handed over after": f"{self.sent_seconds:.0f} s",
            "All scores after": f"{self.received_seconds:.0f} s",
        }

    @property
    def growth_bytes(self) -> list[int]:
        """Memory above that before the first row, of each sample: Python, Arrow and gRPC take some at once."""
        return [size - self.memory_bytes[0] for size in self.memory_bytes]


def run_with_queue(settings: Settings) -> Outcome:
    with Partner(serve, service, settings) as slow:
        settings = replace(settings, service=slow.hears())
        with Partner(serve, gateway, settings) as queue:
            return _measured("a queue in memory", replace(settings, gateway=queue.hears()), [queue.pid])


def run_with_exchange(settings: Settings) -> Outcome:
    """The gateway takes what the service is ready for."""
    streams = [word for name in ("orders", "scores") for word in ("--stream", f"{name}:{settings.channels}")]
    window = ["--row-permits", str(settings.row_permits), "--address", "127.0.0.1:0"]
    with Partner(serve, service, settings) as slow, serving(*streams, *window) as (address, pid):
        settings = replace(settings, service=slow.hears(), exchange=address)
        with Partner(exchange_gateway.run, settings) as forwarding:
            return _measured("an exchange", settings, [pid, forwarding.pid])


def _measured(name: str, settings: Settings, between: list[int]) -> Outcome:
    """Run the jobs, and sample the memory of the processes between them."""
    samples: list[tuple[float, int]] = []
    is_over = Event()
    with (
        Partner(spark_jobs.run, "send", settings) as sending,
        Partner(spark_jobs.run, "receive", settings) as receiving,
    ):
        sending.hears()
        receiving.hears()
        began = monotonic()
        sampling = Thread(target=_sample, args=([Process(pid) for pid in between], began, samples, is_over))
        sampling.start()
        try:
            sending.hears()
            sent_seconds = monotonic() - began
            rows, total = receiving.hears()
            received_seconds = monotonic() - began
        finally:
            is_over.set()
            sampling.join()
    print(f"{name}: {rows:,} scores have come")
    seconds, memory_bytes = zip(*samples, strict=True)
    return Outcome(name, seconds, memory_bytes, sent_seconds, received_seconds, rows, total)


def _sample(between: list[Process], began: float, into: list[tuple[float, int]], is_over: Event) -> None:
    while not into or not is_over.wait(SAMPLE_SECONDS):
        size = 0
        for process in between:
            # The gateway ends by itself when it has forwarded everything.
            with suppress(NoSuchProcess):
                size += process.memory_info().rss
        into.append((monotonic() - began, size))


def draw(outcomes: Sequence[Outcome], settings: Settings, path: Path) -> None:
    """Write a picture in the format of the path's suffix."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # The same figures give the same file.
    with mpl.rc_context({"svg.hashsalt": "permitflow", "svg.fonttype": "none", "font.size": 10}):
        figure = Figure(figsize=(5.2, 3.9), layout="constrained")
        _curves(figure.subplots(), outcomes, settings)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _curves(axes: "Axes", outcomes: Sequence[Outcome], settings: Settings) -> None:
    for number, outcome in enumerate(outcomes):
        memory = [size / 1e6 for size in outcome.growth_bytes]
        axes.plot(outcome.seconds, memory, color=f"C{number}", linewidth=2, label=outcome.name)
        axes.axvline(outcome.sent_seconds, color=f"C{number}", linestyle=":", linewidth=1)
    size = f"{settings.rows:,} rows, {settings.rows * settings.document_bytes / 1e6:,.0f} MB"
    axes.set_title(f"{size}, and a service of {settings.rows_per_second:,} rows/s;\ndotted: all was handed over")
    axes.set(xlabel="seconds since both jobs began", ylabel="MB more between the jobs", ylim=(0, None))
    axes.legend(frameon=False)
    axes.grid(alpha=0.3)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=Settings.rows, help="how many rows of 10,000 bytes")
    parser.add_argument("--rows-per-second", type=int, default=Settings.rows_per_second, help="of the service")
    parser.add_argument("--picture", type=Path, default=PICTURE, help="where to draw it; .svg, .png or .pdf")
    parser.add_argument("--document", action="store_true", help="write the table into docs/start/tutorial.md")
    options = parser.parse_args(arguments)
    with TemporaryDirectory(prefix="slow-service-") as folder:
        settings = Settings(rows=options.rows, rows_per_second=options.rows_per_second, work_dir=folder)
        outcomes = [run_with_queue(settings), run_with_exchange(settings)]
    if {(each.rows, each.total) for each in outcomes} != {(settings.rows, outcomes[0].total)}:
        print(f"the ways differ: {[(each.name, each.rows, each.total) for each in outcomes]}", file=sys.stderr)
        return 1
    print(told := table([outcome.row for outcome in outcomes]))
    draw(outcomes, settings, options.picture)
    print(f"drawn: {options.picture}")
    if options.document:
        text = pasted(DOCUMENT.read_text(encoding="utf-8"), MARK, f"\n{told}\n\n")
        DOCUMENT.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
