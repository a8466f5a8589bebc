"""RisingWave's plan of query 12, and the experiment from which its permits came, on this plan.

python -m examples.tpch.q12 answer --scale 1            the answer through the plan, and directly
python -m examples.tpch.q12 imbalance --plot rates.svg  the rates of the two inputs: chunks and bytes, then rows
"""

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from permitflow.errors import DemoError
from permitflow.exchange import Exchange, ExchangeServer

from ..processes import child_output, first_error, run_interruptible
from .q12_plan import COLUMNS, LINE_ITEM, ORDERS, PROCESSES, WARM_UP_SHARE, Bounds, PlanSettings, late_items, priorities
from .tables import ShippingMode, cached_tables, default_cache_dir

# Both processes are connected by then; on a busy machine the rest comes later, and nothing is wrong.
START_SECONDS = 2.0


def experiment(settings: PlanSettings, seconds: float) -> PlanSettings:
    """The settings with which rates are measured for so long.

    The joiners are the bottleneck, also on a slow machine.  Chunks in channels have one row, so that windows are full.
    """
    return replace(settings, measured_seconds=seconds, join_seconds=1e-3, row_permits=384, slice_rows=1, turn_rows=32)


class Outcome(NamedTuple):
    """What the plan has found."""

    answer: tuple[ShippingMode, ...]
    barriers: tuple[int, ...]
    """How many barriers came through each joiner and aggregator."""
    rows: Mapping[str, int]
    """Rows that the joiners have read from each side, while it was measured."""
    seconds: float


Run = Callable[[PlanSettings, int, Path], Awaitable[Mapping[str, Any]]]
"""Runs the parts of one process; a folder is there for its log."""


async def run_process(settings: PlanSettings, number: int, folder: Path) -> Mapping[str, Any]:
    """Run the parts of a process in one.

    Raises:
        DemoError: it failed; the message ends with its log.
    """
    name = f"process {number} of the plan"
    command = [sys.executable, "-m", f"{__package__}.q12_plan", str(number), settings.to_json()]
    code, output = await child_output(command, name=name, log=(log := folder / f"{number}.log"))
    if code:
        raise DemoError(f"{name} failed; its log ends:\n{log.read_text(errors='replace')[-4_000:]}")
    found: dict[str, Any] = json.loads(output)
    return found


async def run_plan(settings: PlanSettings, run: Run = run_process) -> Outcome:
    """Run both processes with an exchange between them.

    Raises:
        DemoError: a process failed.
    """
    exchange = Exchange()
    for channel in settings.channels():
        if not settings.is_local(channel):
            parameters, window = settings.channel_bounds(is_local=False)
            exchange.add_channel(channel.name, parameters, channel.schema, byte_window=window)
    began = time.monotonic()
    with TemporaryDirectory(prefix="permitflow-q12-") as folder:
        async with ExchangeServer(exchange) as server:
            started = replace(settings, address=server.address, start=time.monotonic() + START_SECONDS)
            async with asyncio.TaskGroup() as group:
                runs = [group.create_task(_ran(run(started, number, Path(folder)))) for number in range(PROCESSES)]
    found = [run.result() for run in runs]
    counts = Counter({(mode, high): rows for each in found for mode, high, rows in each["counts"]})
    modes = sorted({mode for mode, _ in counts})
    answer = tuple(ShippingMode(mode, counts[mode, True], counts[mode, False]) for mode in modes)
    rows = sum((Counter[str](each["rows"]) for each in found), Counter[str]())
    barriers = tuple(number for each in found for number in each["barriers"])
    return Outcome(answer, barriers, rows, time.monotonic() - began)


async def _ran(run: Awaitable[Mapping[str, Any]]) -> Mapping[str, Any]:
    return await run


def direct_answer(tables: Path) -> tuple[ShippingMode, ...]:
    """The same query by Arrow alone, from the files."""
    items = pq.read_table(tables / f"{LINE_ITEM}.parquet", columns=COLUMNS[LINE_ITEM])
    orders = pq.read_table(tables / f"{ORDERS}.parquet", columns=COLUMNS[ORDERS])
    late = pa.Table.from_batches([late_items(batch, any_year=False) for batch in items.to_batches()])
    high = pa.Table.from_batches([priorities(batch) for batch in orders.to_batches()])
    joined = late.join(high, "l_orderkey", "o_orderkey", join_type="inner")
    found = []
    for mode in sorted(pc.unique(joined["l_shipmode"]).to_pylist()):
        of_mode = joined.filter(pc.equal(joined["l_shipmode"], mode))
        high_rows = pc.sum(of_mode["is_high"]).as_py() or 0
        found.append(ShippingMode(mode, high_rows, of_mode.num_rows - high_rows))
    return tuple(found)


class Measured(NamedTuple):
    """One run of the experiment."""

    bounds: Bounds
    rates: Mapping[str, float]
    """Rows a second that the joiners have read, by side."""
    barriers: int
    """Barriers that came through everything."""

    @property
    def ratio(self) -> float:
        """The ratio of the faster input to the slower one."""
        return max(self.rates.values()) / max(1e-9, min(self.rates.values()))


async def measure(settings: PlanSettings, bounds: Bounds) -> Measured:
    """Run the plan for a while, and count what the joiners read of each input."""
    outcome = await run_plan(replace(settings, bounds=bounds))
    seconds = (1 - WARM_UP_SHARE) * settings.measured_seconds
    rates = {side: outcome.rows.get(side, 0) / seconds for side in (LINE_ITEM, ORDERS)}
    return Measured(bounds, rates, min(outcome.barriers))


def plot(found: Sequence[Measured], path: Path) -> None:
    """A pair of bars for each kind of bounds."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 3.6), layout="constrained")
    axes = figure.subplots()
    for number, (side, colour) in enumerate(((LINE_ITEM, "#3b6ea5"), (ORDERS, "#c8762b"))):
        places = [position + (number - 0.5) * 0.36 for position in range(len(found))]
        bars = axes.bar(places, [each.rates[side] for each in found], width=0.34, color=colour, label=side)
        axes.bar_label(bars, [f"{each.rates[side]:,.0f}" for each in found])
    axes.set_xticks(range(len(found)), [f"bounds: {each.bounds}\n{each.ratio:.2f} : 1" for each in found])
    axes.set_ylabel("rows a second, all joiners")
    axes.set_title("What the joins of query 12 read of their two inputs")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


async def _answer(options: argparse.Namespace) -> int:
    tables = await cached_tables(options.scale, options.cache_dir)
    settings = _settings(options, tables)
    outcome = await run_plan(settings)
    direct = direct_answer(tables)
    for mode in outcome.answer:
        print(f"{mode.mode}: {mode.high_line_count:,} of high priority, {mode.low_line_count:,} others")
    is_equal = outcome.answer == direct
    print(f"{'equal to' if is_equal else 'DIFFERENT from'} the direct answer, at scale {options.scale:g}")
    passed = f"{min(outcome.barriers)} to {max(outcome.barriers)} barriers through each part"
    print(f"{options.joiners} joiners, {options.aggregators} aggregators, {passed}, in {outcome.seconds:.1f} s")
    return 0 if is_equal else 1


async def _imbalance(options: argparse.Namespace) -> int:
    tables = await cached_tables(options.scale, options.cache_dir)
    settings = experiment(_settings(options, tables), options.seconds)
    found = [await measure(settings, bounds) for bounds in (Bounds.CHUNKS_AND_BYTES, Bounds.ROWS)]
    for each in found:
        rates = ", ".join(f"{side} {rate:,.0f} rows/s" for side, rate in each.rates.items())
        print(f"{each.bounds}: {rates}; ratio {each.ratio:.2f}; {each.barriers} barriers")
    if options.plot:
        plot(found, options.plot)
    return 0


def _settings(options: argparse.Namespace, tables: Path) -> PlanSettings:
    return PlanSettings(
        address="",
        tables=str(tables),
        start=0.0,
        joiners=options.joiners,
        aggregators=options.aggregators,
        barrier_seconds=options.barrier_seconds,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(prog="python -m examples.tpch.q12", description="RisingWave's plan of query 12.")
    parser.add_argument("what", choices=["answer", "imbalance"])
    parser.add_argument("--scale", type=float, default=0.1, help="of TPC-H; 1 has six million line items")
    parser.add_argument("--joiners", type=int, default=4)
    parser.add_argument("--aggregators", type=int, default=2)
    parser.add_argument("--barrier-seconds", type=float, default=1.0)
    parser.add_argument("--seconds", type=float, default=30.0, help="imbalance: how long each run is")
    parser.add_argument("--plot", type=Path, help="imbalance: a picture, .svg or .png")
    parser.add_argument("--cache-dir", type=Path, default=default_cache_dir(), help="where generated tables are kept")
    options = parser.parse_args(arguments)
    try:
        with first_error(DemoError):
            return run_interruptible(_answer(options) if options.what == "answer" else _imbalance(options))
    except DemoError as failure:
        print(failure, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
