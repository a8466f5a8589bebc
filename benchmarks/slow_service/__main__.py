"""Run a slow service between two Spark jobs, without and with back-pressure, and draw what is held in memory.

python -m benchmarks.slow_service                    a minute and a half; draws docs/pictures/slow-service.svg
python -m benchmarks.slow_service --rows 50000       smaller
python -m benchmarks.slow_service --picture my.png   elsewhere
"""

import argparse
import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import TYPE_CHECKING

import psutil

from benchmarks.slow_service.settings import Settings
from permitflow.demo.children import Child, Event, child_process
from permitflow.errors import DemoError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DOCUMENTS = Path(__file__).resolve().parents[2] / "docs"
PICTURE = DOCUMENTS / "pictures/slow-service.svg"
DOCUMENT = DOCUMENTS / "start/tutorial.md"
BEGIN = "<!-- the results, written by make tutorial -->\n"
END = "<!-- end -->\n"

SAMPLE_SECONDS = 0.2
Note = Callable[[str], None]


@dataclass(frozen=True)
class Outcome:
    """The result of one way."""

    name: str
    seconds: list[float]
    """Since the orders could begin to flow, of each sample."""
    memory_bytes: list[int]
    """Resident, of all that is between the jobs."""
    sent_seconds: float
    """When the first job was done."""
    received_seconds: float
    """When the second job had all scores."""
    rows: int
    total: float
    """The sum of all scores: equal for both ways."""

    @property
    def growth_bytes(self) -> list[int]:
        """What was held, of each sample: Python, Arrow and gRPC take their share before the first row comes."""
        return [size - self.memory_bytes[0] for size in self.memory_bytes]


async def run_with_queue(settings: Settings, note: Note) -> Outcome:
    """The gateway takes whatever comes."""
    log = Path(settings.work_dir)
    async with _python("service", settings, log) as service:
        settings = replace(settings, service=await _url(service))
        async with _python("queue_gateway", settings, log) as gateway:
            settings = replace(settings, gateway=await _url(gateway))
            return await _measured("a queue in memory", settings, [gateway], note)


async def run_with_exchange(settings: Settings, note: Note) -> Outcome:
    """The gateway takes what the service is ready for."""
    log = Path(settings.work_dir)
    streams = [word for name in ("orders", "scores") for word in ("--stream", f"{name}:{settings.channels}")]
    window = ["--row-permits", str(settings.row_permits), "--address", "127.0.0.1:0", "--json"]
    command = [sys.executable, "-m", "permitflow.cli", "serve", *streams, *window]
    async with (
        _python("service", settings, log) as service,
        child_process("exchange", command, log=log / "exchange.log") as exchange,
    ):
        address = str((await exchange.event("listening"))["address"])
        settings = replace(settings, service=await _url(service), exchange=address)
        # It reports every second; if nothing reads that, its pipe fills up.
        listening = asyncio.create_task(_drain(exchange))
        async with _python("exchange_gateway", settings, log) as gateway:
            try:
                return await _measured("an exchange", settings, [exchange, gateway], note)
            finally:
                listening.cancel()
                with suppress(asyncio.CancelledError):
                    await listening


async def _measured(name: str, settings: Settings, between: list[Child], note: Note) -> Outcome:
    """Run the jobs, and look at the memory of what is between them meanwhile."""
    samples: list[tuple[float, int]] = []
    async with _job("send", settings) as sending, _job("receive", settings) as receiving:
        await asyncio.gather(sending.event("begun"), receiving.event("begun"))
        began = monotonic()
        sampling = asyncio.create_task(_sample(between, began, samples))
        watching = asyncio.create_task(_sent(sending, began))
        try:
            received = await receiving.event("received")
            received_seconds = monotonic() - began
            await asyncio.gather(watching, sending.succeed(), receiving.succeed())
        finally:
            sampling.cancel()
            watching.cancel()
    note(f"{name}: {received['text']}")
    return Outcome(
        name=name,
        seconds=[seconds for seconds, _ in samples],
        memory_bytes=[size for _, size in samples],
        sent_seconds=watching.result(),
        received_seconds=received_seconds,
        rows=int(str(received["rows"])),
        total=float(str(received["total"])),
    )


async def _sent(sending: Child, began: float) -> float:
    await sending.event("sent")
    return monotonic() - began


async def _sample(between: list[Child], began: float, into: list[tuple[float, int]]) -> None:
    processes = [psutil.Process(child.pid) for child in between]
    # The gateway ends by itself when it has forwarded everything.
    while True:
        size = 0
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                size += process.memory_info().rss
        into.append((monotonic() - began, size))
        await asyncio.sleep(SAMPLE_SECONDS)


async def _drain(child: Child) -> None:
    async for _event in child.events():
        pass


async def _url(server: Child) -> str:
    event: Event = await server.event("listening")
    return str(event["url"])


def _python(module: str, settings: Settings, folder: Path) -> AbstractAsyncContextManager[Child]:
    command = [sys.executable, "-m", f"benchmarks.slow_service.{module}", settings.to_json()]
    return child_process(module, command, log=folder / f"{module}.log")


def _job(job: str, settings: Settings) -> AbstractAsyncContextManager[Child]:
    command = [sys.executable, "-m", "benchmarks.slow_service.spark_jobs", job, settings.to_json()]
    return child_process(f"the job that will {job}", command, log=Path(settings.work_dir) / f"{job}.log")


def require_equal(outcomes: list[Outcome], rows: int) -> None:
    """Both ways must have come to the same end.

    Raises:
        DemoError: they have not.
    """
    if any(outcome.rows != rows or outcome.total != outcomes[0].total for outcome in outcomes):
        raise DemoError(f"the ways differ: {[(each.name, each.rows, each.total) for each in outcomes]}")


def draw(outcomes: Sequence[Outcome], settings: Settings, path: Path) -> None:
    """Write a picture in the format of the path's suffix."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # The same figures give the same file.
    with mpl.rc_context({"svg.hashsalt": "permitflow", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(8, 4), layout="constrained")
        _curves(figure.subplots(), outcomes, settings)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _curves(axes: "Axes", outcomes: Sequence[Outcome], settings: Settings) -> None:
    for number, outcome in enumerate(outcomes):
        memory = [size / 1e6 for size in outcome.growth_bytes]
        axes.plot(outcome.seconds, memory, color=f"C{number}", linewidth=2, label=outcome.name)
        axes.axvline(outcome.sent_seconds, color=f"C{number}", linestyle=":", linewidth=1)
    size = f"{settings.rows:,} rows, {settings.rows * settings.document_bytes / 1e6:,.0f} MB"
    axes.set_title(f"{size}, and a service of {settings.rows_per_second:,} rows/s; dotted: all was handed over")
    axes.set(
        xlabel="seconds since both jobs began", ylabel="memory between the jobs, MB more than at first", ylim=(0, None)
    )
    axes.legend(frameon=False)
    axes.grid(alpha=0.3)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run both, and report the results."""
    options = _parser().parse_args(arguments)
    with TemporaryDirectory(prefix="slow-service-") as folder:
        settings = Settings(rows=options.rows, rows_per_second=options.rows_per_second, work_dir=folder)
        try:
            outcomes = asyncio.run(_run(settings))
        except DemoError as error:
            print(error, file=sys.stderr)
            return 1
    print(table(outcomes))
    draw(outcomes, settings, options.picture)
    print(f"drawn: {options.picture}")
    if options.document:
        update(DOCUMENT, table(outcomes))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=Settings.rows, help="how many rows of 10,000 bytes")
    parser.add_argument("--rows-per-second", type=int, default=Settings.rows_per_second, help="of the service")
    parser.add_argument("--picture", type=Path, default=PICTURE, help="where to draw it; .svg, .png or .pdf")
    parser.add_argument("--document", action="store_true", help="write the table into docs/start/tutorial.md")
    return parser


async def _run(settings: Settings) -> list[Outcome]:
    outcomes = [await run_with_queue(settings, print), await run_with_exchange(settings, print)]
    require_equal(outcomes, settings.rows)
    return outcomes


def table(outcomes: Sequence[Outcome]) -> str:
    """The figures that the tutorial quotes."""
    lines = [
        "| Between the jobs | Memory at the beginning | Most above that | All handed over after | All scores after |",
        "|---|---:|---:|---:|---:|",
    ]
    for each in outcomes:
        lines.append(
            f"| {each.name} | {each.memory_bytes[0] / 1e6:,.0f} MB | {max(each.growth_bytes) / 1e6:,.0f} MB | "
            f"{each.sent_seconds:.0f} s | {each.received_seconds:.0f} s |"
        )
    return "\n".join(lines)


def update(path: Path, results: str) -> None:
    """Write the results between their marks."""
    text = path.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    path.write_text(f"{before}{BEGIN}\n{results}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
