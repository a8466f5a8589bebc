"""``permitflow simulate`` without a sweep: one run, and the window that it would need."""

import math
from dataclasses import asdict
from importlib.util import find_spec
from typing import TYPE_CHECKING

from permitflow.cli.check_file import decided
from permitflow.cli.console import open_console, open_table, print_table
from permitflow.cli.outcomes import print_json, stop
from permitflow.cli.progress import late_progress
from permitflow.errors import InvalidParametersError
from permitflow.parameters_file.quantities import duration_text
from permitflow.parameters_file.read import Description
from permitflow.simulation.channel import Whereabouts
from permitflow.simulation.run import LEAST_CHUNKS, Figures, SimulatedRun, run_length, simulate
from permitflow.simulation.setting import Setting
from permitflow.simulation.window import Window, smallest_window

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["in_words", "limits_in_words", "run_as_json", "simulate_once"]

_PLACES = {
    "permits": "at the sender",
    "wire": "in flight",
    "inbox": "in the inbox",
    "unreturned": "consumed, kept back",
    "grants": "on their way back",
}


def simulate_once(description: Description, *, full_share: float, as_json: bool) -> None:
    """Run, report and end the command."""
    setting = description.setting
    length = run_length(setting, least_chunks=description.least_chunks or LEAST_CHUNKS)
    with late_progress("simulating") as report:
        run = simulate(setting, seed=description.seed, length=length, on_progress=report)
    window, trouble = None, ""
    if run.verdict == "flows":
        try:
            with late_progress("searching the smallest window") as report:
                window = smallest_window(setting, seed=description.seed, full_share=full_share, on_progress=report)
        except InvalidParametersError as error:
            trouble = f"the smallest row count that keeps the pipe full was not searched: it {error.rule}"
    may_deadlock = _may_deadlock(setting)
    if as_json:
        found = None if window is None else _window_as_json(window)
        print_json(run_as_json(run) | {"may_deadlock": may_deadlock, "window": found})
        stop(holds=run.verdict == "flows")
    console = open_console()
    console.print(f"{run.verdict}: {in_words(setting)}", soft_wrap=True)
    _print_run(console, run)
    if trouble:
        console.print(trouble, soft_wrap=True)
    elif run.verdict == "flows":
        _print_window(console, setting, window)
    if run.verdict == "flows" and may_deadlock:
        console.print(
            "warning: this run went well, but another need not: permitflow check finds a run into a deadlock",
            soft_wrap=True,
        )
    stop(holds=run.verdict == "flows")


def _may_deadlock(setting: Setting) -> bool | None:
    """What ``permitflow check`` says; None where the extra for proofs is not installed."""
    return None if find_spec("z3") is None else not decided(setting).is_live


def in_words(setting: Setting) -> str:
    """What is simulated, in a line."""
    sender, receiver = setting.sender, setting.receiver
    batch = f"batch {receiver.permit_batch:,}"
    if receiver.row_permits != sender.row_permits:
        batch += f" and row count {receiver.row_permits:,} at the receiver"
    protocol = "with the idle flush" if setting.flush_idle else "published protocol"
    return (
        f"row count {sender.row_permits:,}, {batch}, chunks of {setting.chunks}, at most {sender.max_chunk_cost:,} "
        f"at once ({protocol})"
    )


def _print_run(console: "Console", run: SimulatedRun) -> None:
    if run.figures is not None:
        print_table(console, _figures_table(run, run.figures))
        warm_up, measured = run.length.warm_up_rows, run.figures.rows
        console.print(
            f"measured: {run.figures.chunks:,} chunks, {measured:,} rows, {duration_text(run.figures.seconds)} of "
            f"simulated time, after a warm-up of {warm_up:,} rows; seed {run.seed}",
            soft_wrap=True,
        )
        return
    if run.refusal is not None:
        console.print(f"the receiver refuses a chunk, and the stream is over: {run.refusal.message}", soft_wrap=True)
        return
    assert run.stuck is not None  # one of the three
    stuck = run.stuck
    console.print(
        f"after {stuck.chunks:,} chunks, at {duration_text(stuck.seconds)}, nothing will ever happen again: the next "
        f"chunk needs {stuck.waiting_cost:,} row permits, {stuck.whereabouts.permits:,} are at the sender, and the "
        f"receiver keeps {stuck.whereabouts.unreturned:,} until it holds {run.setting.receiver.permit_batch:,}",
        soft_wrap=True,
    )
    console.print(_places(stuck.whereabouts), soft_wrap=True)
    console.print("permitflow check finds a shortest run into it, and says what to change", soft_wrap=True)


def _figures_table(run: SimulatedRun, figures: Figures) -> "Table":
    setting = run.setting
    table = open_table("figure", "value", "remark", right=("value",), wrap=("remark",))
    table.add_row("throughput", f"{figures.throughput:,.0f} rows/s", limits_in_words(setting))
    if setting.bottleneck_rate < math.inf:
        table.add_row("utilisation", f"{figures.utilisation:.1%}", f"of the slowest, {_slowest(setting)}")
    if figures.link_utilisation is not None:
        table.add_row("utilisation of the link", f"{figures.link_utilisation:.1%}", "of what fits onto the wire")
    table.add_row("back-pressure", f"{figures.back_pressure:.1%}", "of the time, the producer waits for permits")
    table.add_row(
        "latency, half of the chunks", duration_text(figures.latency_p50_seconds), "from offer to consumption"
    )
    table.add_row("latency, 99 % of the chunks", duration_text(figures.latency_p99_seconds), "")
    table.add_row("messages with permits, per row", f"{figures.grants_per_row:.2g}", _rows_of_a_message(figures))
    table.add_row("most rows in the channel", f"{run.peak_rows:,}", f"of {setting.sender.row_permits:,}")
    for place, name in _PLACES.items():
        permits = getattr(figures.whereabouts, place)
        share = f"{permits / setting.sender.row_permits:.1%} of all, on average"
        table.add_row(f"row permits {name}", f"{permits:,.0f}", share)
    return table


def _rows_of_a_message(figures: Figures) -> str:
    if not figures.grants_per_row:
        return "none"
    rows = round(1 / figures.grants_per_row)
    return "one message for each row" if rows == 1 else f"one message for {rows:,} rows"


def limits_in_words(setting: Setting) -> str:
    """The rates that are limited, in rows a second, and the delay."""
    rates = {"producer": setting.producer_rate, "link": setting.link_rate, "consumer": setting.consumer_rate}
    stated = [f"{name} {rate:,.0f} rows/s" for name, rate in rates.items() if rate < math.inf]
    return ", ".join([*stated, f"round trip {duration_text(setting.rtt_seconds)}"])


def _slowest(setting: Setting) -> str:
    rates = {"producer": setting.producer_rate, "link": setting.link_rate, "consumer": setting.consumer_rate}
    slowest = [name for name, rate in rates.items() if rate == setting.bottleneck_rate]
    return f"the {' and the '.join(slowest)}: {setting.bottleneck_rate:,.0f} rows/s"


def _places(whereabouts: Whereabouts) -> str:
    parts = [f"{getattr(whereabouts, place):,.0f} {name}" for place, name in _PLACES.items()]
    return f"row permits: {', '.join(parts)}"


def _print_window(console: "Console", setting: Setting, window: Window | None) -> None:
    if window is None:
        console.print("no window keeps the pipe full: nothing but the window limits the flow", soft_wrap=True)
        return
    share = "" if window.full_share == 1 else f" to {window.full_share:g} of the most it carries"
    found = f"the smallest row count that keeps the pipe full{share}: {window.smallest:,}, found by bisection over runs"
    console.print(found, soft_wrap=True)
    table = open_table("part", "rows", "remark", right=("rows",), wrap=("remark",))
    product = window.bandwidth_delay_product
    rate, rtt = f"{setting.bottleneck_rate:,.0f} rows/s", duration_text(setting.rtt_seconds)
    table.add_row("bandwidth-delay product", f"{product:,.0f}", f"{rate} * {rtt}")
    if (terms := window.terms) is not None:
        own_time = (
            f"+{terms.under_way - product:,.0f}" if terms.under_way >= product else f"{terms.under_way - product:,.0f}"
        )
        table.add_row("whole chunks", own_time, "chunks are not cut at will, and each takes time of its own")
        table.add_row("the batch", f"+{terms.returned_at_once:,}", "permits return by whole chunks, at least a batch")
        if terms.room:
            table.add_row("room for a chunk", f"+{terms.room:,}", "the clamp is row count less batch")
        table.add_row("by the formula", f"{window.exact:,}", "for equal chunks at steady rates")
    if window.enough is not None:
        reason = "rate * round trip + batch + two of the largest chunk (three, if there is a link rate)"
        table.add_row("always enough", f"{window.enough:,}", reason)
    print_table(console, table)


def run_as_json(run: SimulatedRun) -> dict[str, object]:
    """A run for programs; times in seconds, rates in rows a second."""
    figures, stuck, setting = run.figures, run.stuck, run.setting
    return {
        "verdict": run.verdict,
        "holds": run.verdict == "flows",
        "row_count": setting.sender.row_permits,
        "batch": setting.receiver.permit_batch,
        "max_chunk": setting.sender.max_chunk_cost,
        "chunks": str(setting.chunks),
        "rtt_seconds": setting.rtt_seconds,
        "bandwidth_delay_product": _finite(setting.bandwidth_delay_product),
        "seed": run.seed,
        "warm_up_rows": run.length.warm_up_rows,
        "peak_rows": run.peak_rows,
        "figures": None if figures is None else _figures_as_json(figures),
        "stuck": None if stuck is None else asdict(stuck) | {"whereabouts": stuck.whereabouts._asdict()},
        "refusal": None if run.refusal is None else run.refusal.message,
    }


def _figures_as_json(figures: Figures) -> dict[str, object]:
    numbers = {name: _finite(value) for name, value in asdict(figures).items() if name != "whereabouts"}
    return {**numbers, "whereabouts": figures.whereabouts._asdict()}


def _finite(value: float | None) -> float | None:
    """JSON has no other numbers; a run may be so short that no chunk was consumed whole."""
    return value if value is not None and math.isfinite(value) else None


def _window_as_json(window: Window) -> dict[str, object]:
    terms = None if window.terms is None else window.terms._asdict()
    return asdict(window) | {"terms": terms, "exact": window.exact}
