"""``permitflow simulate``: how fast a channel is, and how large its window has to be; one run, or a sweep."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from permitflow.errors import InvalidParametersError
from permitflow.flows.permits.parameters import StatedParameters
from permitflow_tools.cli.check import answer_for
from permitflow_tools.cli.console import late_progress, open_console, open_table, print_lines, print_table
from permitflow_tools.cli.options import (
    DescribedChannel,
    MaxChunkCost,
    PermitBatch,
    RowPermits,
    Sweep,
    SweepCsv,
    SweepPlot,
    chunk_sizes,
    distinct,
    duration,
    option,
    rows_per_second,
    share,
    size_in_bytes,
    whole_number,
)
from permitflow_tools.cli.outcomes import Json, print_json, stop, unusable
from permitflow_tools.cli.own import is_place
from permitflow_tools.cli.sweeps import Column, Outcome, report_sweep, require_sweep
from permitflow_tools.explain.plots import Series, SweepPicture
from permitflow_tools.parameters.quantities import duration_text, size_text
from permitflow_tools.parameters.read import Description, read_description, refusal_in_words
from permitflow_tools.simulation.chunk_sizes import ChunkSizes
from permitflow_tools.simulation.run import LEAST_CHUNKS, Figures, Progress, SimulatedRun, run_length
from permitflow_tools.simulation.run import simulate as simulated
from permitflow_tools.simulation.setting import SimulationSetting, combinations, varied
from permitflow_tools.simulation.window import Window, enough_bytes, smallest_window

_MOST_POINTS = 10_000
_LABELS = {
    "row_permits": "row permits",
    "permit_batch": "permit batch, rows",
    "max_chunk_cost": "largest cost of a chunk, rows",
    "chunk_rows": "rows of a chunk",
    "rtt": "round-trip time, ms",
    "producer_rate": "rate of the producer, rows/s",
    "consumer_rate": "rate of the consumer, rows/s",
    "link_rate": "rate of the link, rows/s",
    "row_bytes": "bytes of a row",
    "byte_window": "byte window, bytes",
    "target_latency": "latency that the window adapts to, ms",
}
_MILLISECONDS = 1_000
_PLACES = {
    "permits": "at the sender",
    "wire": "in flight",
    "inbox": "in the inbox",
    "unreturned": "consumed, kept back",
    "grants": "on their way back",
}


def simulate(
    file: DescribedChannel = None,
    row_permits: RowPermits = None,
    permit_batch: PermitBatch = None,
    max_chunk_cost: MaxChunkCost = None,
    chunk_rows: Annotated[
        ChunkSizes | None, option(chunk_sizes, "ROWS,...", "Rows of a chunk; several occur equally often.")
    ] = None,
    rtt: Annotated[float | None, option(duration, "DURATION", "Round-trip time, as in 40ms.")] = None,
    producer_rate: Annotated[
        float | None, option(rows_per_second, "N", "Rows a second while it does not wait, or unlimited.")
    ] = None,
    consumer_rate: Annotated[float | None, option(rows_per_second, "N", "Rows a second, or unlimited.")] = None,
    link_rate: Annotated[
        float | None, option(rows_per_second, "N", "Rows a second that fit onto the wire, or unlimited.")
    ] = None,
    row_bytes: Annotated[
        int | None, option(whole_number(least=1), "N", "Bytes of a row, for the byte window. Default: not counted.")
    ] = None,
    byte_window: Annotated[
        int | None, option(size_in_bytes, "SIZE", "Bytes that may be out at once, with --row-bytes. Default: 16MiB.")
    ] = None,
    flush_idle: Annotated[
        bool | None,
        typer.Option("--flush-idle/--no-flush-idle", help="An idle receiver returns less than a permit batch."),
    ] = None,
    seed: Annotated[int | None, option(whole_number(least=0), "N", "For sizes that are drawn. Default: 0.")] = None,
    chunks: Annotated[
        int | None, option(whole_number(least=1), "N", "Measure at least this many chunks. Default: 2,000.")
    ] = None,
    full: Annotated[
        float, option(share, "SHARE", "A pipe counts as full at this share of the most it carries, as in 99%.")
    ] = 1.0,
    sweep: Sweep = None,
    plot: SweepPlot = None,
    csv: SweepCsv = None,
    as_json: Json = False,
) -> None:
    """How fast is it, and how large must the window be?

    Run the protocol in simulated time: the real sender and receiver, with delays and rates of your own. Options
    change what the file says. Reports throughput, back-pressure, where the permits are, latencies, and the fewest
    row permits that keep the pipe full, in comparison with the bandwidth-delay product.

    \b
      permitflow simulate orders.toml
      permitflow simulate orders.toml --rtt 80ms --full 99%
      permitflow simulate --row-permits 32768 --chunk-rows 1024 --rtt 40ms --consumer-rate 800000

    Vary something and compare; with --plot, draw it:

    \b
      permitflow simulate orders.toml --sweep row_permits=4096..65536:x2 --sweep permit_batch=256,4096
      permitflow simulate orders.toml --sweep row_permits=4096..65536:+2048 --plot sweep.html

    Names to vary: row_permits, permit_batch, max_chunk_cost, chunk_rows, rtt, producer_rate, consumer_rate, link_rate,
    row_bytes, byte_window, target_latency: how long rows may wait at a receiver whose window adapts.

    Exit code 0: it flows. 1: a deadlock, or the receiver refuses what the sender sends; of a sweep, anywhere.
    2: unusable input.
    """
    numbers = {"row_permits": row_permits, "permit_batch": permit_batch, "max_chunk_cost": max_chunk_cost}
    others = {
        "chunks": chunk_rows,
        "forward_seconds": None if rtt is None else rtt / 2,
        "return_seconds": None if rtt is None else rtt / 2,
        "producer_rate": producer_rate,
        "consumer_rate": consumer_rate,
        "link_rate": link_rate,
        "flush_idle": flush_idle,
        "row_bytes": row_bytes,
        "byte_window": byte_window,
    }
    try:
        description = _description(file, _given(numbers), _given(others))
        description = replace(
            description,
            seed=description.seed if seed is None else seed,
            least_chunks=chunks or description.least_chunks,
            axes=distinct(sweep or description.axes),
        )
        if description.axes:
            if full != 1.0:
                unusable("--full is about the smallest window of a single run: leave it, or what varies, away")
            _simulate_sweep(description, csv, plot, as_json=as_json)
        if plot is not None or csv is not None:
            unusable(f"{'--plot' if plot else '--csv'} needs something to vary: --sweep row_permits=256..65536:x2")
        _simulate_once(description, full_share=full, as_json=as_json)
    except InvalidParametersError as error:
        value = "unlimited" if error.value == math.inf else error.value
        unusable(f"--{error.name.replace('_', '-')} {error.rule}, not {value}")


def _given(options: Mapping[str, object]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _description(file: Path | None, numbers: Mapping[str, Any], others: Mapping[str, Any]) -> Description:
    """What the file says, changed by the options: numbers are for both ends, the others are between them."""
    if file is not None:
        if is_place(file):
            unusable(f"{file}: a model of your own has no rates: permitflow check and permitflow explain take it")
        read = read_description(file)
        setting = replace(
            read.setting,
            upstream=read.setting.upstream._replace(**numbers),
            downstream=read.setting.downstream._replace(**dict.fromkeys(numbers, None)),
            **others,
        )
        return replace(read, setting=setting)
    for name, is_given in (("--row-permits", "row_permits" in numbers), ("--chunk-rows", "chunks" in others)):
        if not is_given:
            unusable(f"{name} is missing: name a file, or give at least --row-permits and --chunk-rows")
    setting = SimulationSetting(upstream=StatedParameters(**numbers), **others)
    return Description(setting=setting, seed=0, least_chunks=None, axes=())


def _simulate_once(description: Description, *, full_share: float, as_json: bool) -> NoReturn:
    """Run once, find the window that would be needed, report and end the command."""
    setting = description.setting
    length = run_length(setting, least_chunks=description.least_chunks or LEAST_CHUNKS)
    with late_progress("simulating") as report:
        run = simulated(setting, seed=description.seed, length=length, on_progress=report)
    flows = run.verdict == "flows"
    window, trouble = None, ""
    if flows:
        try:
            with late_progress("searching the smallest window") as report:
                window = smallest_window(setting, seed=description.seed, full_share=full_share, on_progress=report)
        except InvalidParametersError as error:
            trouble = f"the fewest row permits that keep the pipe full were not searched: {error.name} {error.rule}"
    # As ``permitflow check`` says; None where the extra for proofs is not installed.
    may_deadlock = None if find_spec("z3") is None else not answer_for(setting).decision.is_live
    if as_json:
        found = None
        if window is not None:
            terms = None if window.terms is None else window.terms._asdict()
            found = asdict(window) | {"terms": terms, "exact": window.exact}
        print_json(_run_as_json(run) | {"may_deadlock": may_deadlock, "window": found})
        stop(holds=flows)
    console = open_console()
    print_lines(console, f"{run.verdict}: {_in_words(setting)}")
    _print_run(console, run)
    if trouble:
        print_lines(console, trouble)
    elif flows:
        _print_window(console, setting, window)
    if flows and may_deadlock:
        print_lines(
            console, "warning: this run went well, but another need not: permitflow check finds a run into a deadlock"
        )
    stop(holds=flows)


def _in_words(setting: SimulationSetting) -> str:
    """The simulated channel, in a line."""
    sender, receiver = setting.sender, setting.receiver
    batch = f"permit batch {receiver.permit_batch:,}"
    if receiver.row_permits != sender.row_permits:
        batch += f" and row permits {receiver.row_permits:,} at the receiver"
    protocol = "with the idle flush" if setting.flush_idle else "published protocol"
    return (
        f"row permits {sender.row_permits:,}, {batch}, chunks of {setting.chunks}, at most "
        f"{sender.max_chunk_cost:,} at once ({protocol})"
    )


def _print_run(console: Console, run: SimulatedRun) -> None:
    if (figures := run.figures) is not None:
        print_table(console, _figures_table(run, figures))
        print_lines(
            console,
            f"measured: {figures.chunks:,} chunks, {figures.rows:,} rows, {duration_text(figures.seconds)} of "
            f"simulated time, after a warm-up of {run.length.warm_up_rows:,} rows; seed {run.seed}",
        )
    elif run.refusal is not None:
        print_lines(console, f"the receiver refuses a chunk, and the stream is over: {run.refusal.message}")
    else:
        assert run.stuck is not None  # one of the three
        stuck, places = run.stuck, run.stuck.whereabouts
        print_lines(
            console,
            f"after {stuck.chunks:,} chunks, at {duration_text(stuck.seconds)}, nothing will ever happen again: the "
            f"next chunk needs {stuck.waiting_cost:,} row permits, {places.permits:,} are at the sender, and the "
            f"receiver keeps {places.unreturned:,} until it holds {run.setting.receiver.permit_batch:,}",
            f"row permits: {', '.join(f'{getattr(places, place):,.0f} {name}' for place, name in _PLACES.items())}",
            "permitflow check finds a shortest run into it, and says what to change",
        )


def _figures_table(run: SimulatedRun, figures: Figures) -> Table:
    setting = run.setting
    table = open_table("figure", "value", "remark", right=("value",), wrap=("remark",))
    table.add_row("throughput", f"{figures.throughput:,.0f} rows/s", _limits_in_words(setting))
    if setting.bottleneck_rate < math.inf:
        table.add_row("utilisation", f"{figures.utilisation:.1%}", f"of the slowest, {_slowest(setting)}")
    if figures.link_utilisation is not None:
        table.add_row("utilisation of the link", f"{figures.link_utilisation:.1%}", "of what fits onto the wire")
    lacks = "permits or bytes" if setting.row_bytes else "permits"
    table.add_row("back-pressure", f"{figures.blocked_share:.1%}", f"of the time, the producer waits for {lacks}")
    table.add_row(
        "latency, half of the chunks", duration_text(figures.latency_p50_seconds), "from offer to consumption"
    )
    table.add_row("latency, 99 % of the chunks", duration_text(figures.latency_p99_seconds), "")
    table.add_row("messages with permits, per row", f"{figures.grants_per_row:.2g}", _rows_of_a_message(figures))
    table.add_row("most rows in the channel", f"{run.peak_rows:,}", f"of {setting.sender.row_permits:,}")
    if setting.row_bytes:
        table.add_row("most bytes out", size_text(run.peak_bytes), f"of a window of {size_text(setting.byte_window)}")
    for place, name in _PLACES.items():
        permits = getattr(figures.whereabouts, place)
        share = f"{permits / setting.sender.row_permits:.1%} of all, on average"
        table.add_row(f"row permits {name}", f"{permits:,.0f}" if permits >= 100 else f"{permits:.3g}", share)
    return table


def _rows_of_a_message(figures: Figures) -> str:
    if not figures.grants_per_row:
        return "none"
    rows = round(1 / figures.grants_per_row)
    return "one message for each row" if rows == 1 else f"one message for {rows:,} rows"


def _limits_in_words(setting: SimulationSetting) -> str:
    """The rates that are limited, in rows a second, and the delay."""
    stated = [f"{name} {rate:,.0f} rows/s" for name, rate in _rates(setting).items() if rate < math.inf]
    return ", ".join([*stated, f"round trip {duration_text(setting.rtt_seconds)}"])


def _slowest(setting: SimulationSetting) -> str:
    slowest = [name for name, rate in _rates(setting).items() if rate == setting.bottleneck_rate]
    return f"the {' and the '.join(slowest)}: {setting.bottleneck_rate:,.0f} rows/s"


def _rates(setting: SimulationSetting) -> dict[str, float]:
    return {"producer": setting.producer_rate, "link": setting.link_rate, "consumer": setting.consumer_rate}


def _print_window(console: Console, setting: SimulationSetting, window: Window | None) -> None:
    if window is None:
        print_lines(console, "no window keeps the pipe full: nothing but the window limits the flow")
        return
    share = "" if window.full_share == 1 else f" to {window.full_share:g} of the most it carries"
    found = f"the fewest row permits that keep the pipe full{share}: {window.smallest:,}, found by bisection over runs"
    print_lines(console, found)
    table = open_table("part", "rows", "remark", right=("rows",), wrap=("remark",))
    product = window.bandwidth_delay_product
    rate, rtt = f"{setting.bottleneck_rate:,.0f} rows/s", duration_text(setting.rtt_seconds)
    table.add_row("bandwidth-delay product", f"{product:,.0f}", f"{rate} * {rtt}")
    if (terms := window.terms) is not None:
        own_time = f"{terms.under_way - product:+,.0f}"
        table.add_row("whole chunks", own_time, "chunks are not cut at will, and each takes time of its own")
        table.add_row("the batch", f"+{terms.returned_at_once:,}", "permits return by whole chunks, at least a batch")
        if terms.room:
            table.add_row("room for a chunk", f"+{terms.room:,}", "a chunk costs at most row permits less permit batch")
        table.add_row("by the formula", f"{window.exact:,}", "for equal chunks at steady rates")
    if window.enough is not None:
        reason = "rate * round trip + batch + two of the largest chunk (three, if there is a link rate)"
        table.add_row("always enough", f"{window.enough:,}", reason)
    print_table(console, table)
    if (size_bytes := enough_bytes(setting)) is not None:
        print_lines(
            console, f"a byte window that is always enough: {size_text(size_bytes)}, a quarter of which is the batch"
        )


def _run_as_json(run: SimulatedRun) -> dict[str, object]:
    """A run for programs; times in seconds, rates in rows a second."""
    figures, stuck, setting = run.figures, run.stuck, run.setting
    return {
        "verdict": run.verdict,
        "holds": run.verdict == "flows",
        "row_permits": setting.sender.row_permits,
        "permit_batch": setting.receiver.permit_batch,
        "max_chunk_cost": setting.sender.max_chunk_cost,
        "chunks": str(setting.chunks),
        "rtt_seconds": setting.rtt_seconds,
        "bandwidth_delay_product": _finite(setting.bandwidth_delay_product),
        "seed": run.seed,
        "warm_up_rows": run.length.warm_up_rows,
        "peak_rows": run.peak_rows,
        "peak_bytes": run.peak_bytes,
        "figures": None
        if figures is None
        else {name: _finite(value) for name, value in asdict(figures).items() if name != "whereabouts"}
        | {"whereabouts": figures.whereabouts._asdict()},
        "stuck": None if stuck is None else asdict(stuck) | {"whereabouts": stuck.whereabouts._asdict()},
        "refusal": None if run.refusal is None else run.refusal.message,
    }


def _finite(value: float | None) -> float | None:
    """JSON has no other numbers; a run may be so short that no chunk was consumed whole."""
    return value if value is not None and math.isfinite(value) else None


# The figures of a sweep.
_FIGURES: Mapping[str, Column] = {
    "throughput": Column("rows/s", "{:,.0f}".format),
    "utilisation": Column("utilisation", "{:.1%}".format),
    "blocked_share": Column("back-pressure", "{:.1%}".format),
    "latency_p50_seconds": Column("latency p50", duration_text),
    "latency_p99_seconds": Column("latency p99", duration_text),
    "grants_per_row": Column("permit messages/row", "{:.2g}".format),
}


_FIGURES_OF_BYTES: Mapping[str, Column] = {**_FIGURES, "peak_bytes": Column("most bytes", "{:,.0f}".format)}


def _figures_of(description: Description) -> Mapping[str, Column]:
    """The figures of its sweep: of bytes only where they are counted."""
    counts = description.setting.row_bytes or any(axis.name == "row_bytes" for axis in description.axes)
    return _FIGURES_OF_BYTES if counts else _FIGURES


class _Row(NamedTuple):
    """One combination of parameters, and its run; None where it is impossible."""

    outcome: Outcome
    run: SimulatedRun | None


def _simulate_sweep(description: Description, csv: Path | None, plot: Path | None, *, as_json: bool) -> NoReturn:
    """Run all combinations, report and end the command."""
    points = list(combinations(description.axes))
    require_sweep(description.inputs, csv, plot, len(points), _MOST_POINTS)
    with late_progress(f"simulating {len(points):,} channels") as report:
        rows = [
            _row(description, point, lambda share, done=done: report((done + share) / len(points)))  # type: ignore[misc]
            for done, point in enumerate(points)
        ]
    report_sweep(
        [row.outcome for row in rows],
        _figures_of(description),
        title=f"varied from: {_in_words(description.setting)}",
        explained=("impossible",),
        csv=csv,
        plot=plot,
        picture=lambda suffix: _picture(description, rows, suffix),
        warnings=_short_latencies(rows),
        as_json=as_json,
    )


def _short_latencies(rows: Sequence[_Row]) -> list[str]:
    """A warning of target latencies that cannot be met."""
    runs = [row.run for row in rows if row.run is not None and row.run.setting.target_latency_seconds]
    short = [run for run in runs if run.setting.target_latency_seconds < run.setting.least_target_latency_seconds]
    if not short:
        return []
    setting = short[0].setting
    wanted, least = map(duration_text, (setting.target_latency_seconds, setting.least_target_latency_seconds))
    return [
        f"warning: {len(short)} of {len(runs)} target latencies cannot be met; for example, {wanted} would have to be "
        f"{least} for chunks of {setting.chunks}, {_limits_in_words(setting)}"
    ]


def _row(description: Description, values: dict[str, float], report: Progress) -> _Row:
    try:
        setting = varied(description.setting, values)
        length = run_length(setting, least_chunks=description.least_chunks or LEAST_CHUNKS)
        run = simulated(setting, seed=description.seed, length=length, on_progress=report)
    except InvalidParametersError as error:
        reason, verdict = refusal_in_words(error), "impossible"
        document = {"varied": values, "verdict": verdict, "holds": False, "reason": reason}
        return _Row(Outcome(values, verdict, False, reason, dict.fromkeys(_figures_of(description)), document), None)
    figures = {name: getattr(run.figures, name, None) for name in _figures_of(description)}
    if "peak_bytes" in figures:
        figures["peak_bytes"] = run.peak_bytes
    document = {"varied": values, **_run_as_json(run)}
    if setting.target_latency_seconds:
        document["least_target_latency_seconds"] = setting.least_target_latency_seconds
    return _Row(Outcome(values, run.verdict, run.verdict == "flows", "", figures, document), run)


def _picture(description: Description, rows: Sequence[_Row], suffix: str) -> bytes:
    """The drawing, as a file of this kind."""
    names = [axis.name for axis in description.axes]
    x_name = "row_permits" if "row_permits" in names else names[0]
    others = [name for name in names if name != x_name]
    rates = {row.run.setting.bottleneck_rate for row in rows if row.run is not None}
    most = rates.pop() if len(rates) == 1 else math.inf
    groups: dict[tuple[float, ...], list[_Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row.outcome.values[name] for name in others), []).append(row)
    columns = _figures_of(description)
    picture = SweepPicture(
        title="Throughput and back-pressure of a permit channel",
        sentence=f"Varied from {_in_words(description.setting)}; {_limits_in_words(description.setting)}.",
        x_label=_LABELS[x_name],
        series=[_series(group, x_name, others) for group in groups.values()],
        most=most if most < math.inf else None,
        head=[*names, "verdict", *(column.heading for column in columns.values())],
        rows=[(row.outcome.holds, row.outcome.row(columns)) for row in rows],
    )
    return picture.as_file(suffix)


def _series(group: Sequence[_Row], x_name: str, others: Sequence[str]) -> Series:
    unit = _MILLISECONDS if x_name in ("rtt", "target_latency") else 1
    runs = [(row.outcome.values[x_name] * unit, row.run) for row in group if row.run is not None]
    flowing = [(x, run.figures) for x, run in runs if run.figures is not None]
    products = {run.setting.bandwidth_delay_product for _, run in runs}
    product = products.pop() if x_name == "row_permits" and len(products) == 1 else math.inf
    shown = dict(zip(group[0].outcome.values, group[0].outcome.shown_values(), strict=True))
    return Series(
        label=", ".join(f"{name} {shown[name]}" for name in others) or "simulated",
        xs=[x for x, _ in flowing],
        throughputs=[figures.throughput for _, figures in flowing],
        back_pressures=[figures.blocked_share for _, figures in flowing],
        failures=[x for x, run in runs if run.figures is None],
        mark=product if 0 < product < math.inf else None,
    )
