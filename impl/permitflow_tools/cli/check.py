"""``permitflow check``: can a channel get stuck?  For numbers, for a file, or for all models of the specification."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from permitflow.errors import PermitflowError
from permitflow.flows.permits.parameters import ChannelParameters, Oversize
from permitflow_tools.checking import Check, deciding
from permitflow_tools.checking.deciding import PairVerdict
from permitflow_tools.checking.grid import MOST_STATES
from permitflow_tools.cli.check_gate import MOST_FLOATING, answer_for_gate
from permitflow_tools.cli.check_graph import answer_for_graph
from permitflow_tools.cli.check_models import Engine, check_models
from permitflow_tools.cli.check_sweep import check_sweep
from permitflow_tools.cli.console import open_console, print_lines, print_table, run_as_json, run_table
from permitflow_tools.cli.options import (
    Belonging,
    ChunkRows,
    DescribedChannel,
    FlushIdle,
    MaxChunkCost,
    PermitBatch,
    RowPermits,
    Sweep,
    SweepCsv,
    SweepPlot,
    given_options,
    one_of,
    option,
    readable,
    refuse_strange,
    rows,
    whole_number,
)
from permitflow_tools.cli.outcomes import Json, failed, print_json, stop, unusable
from permitflow_tools.cli.own import OwnParameters, answer_for_own, is_place
from permitflow_tools.cli.permits import IN_FILE, MODULE, setting_of, ways_to_live
from permitflow_tools.parameters.read import KEYS, read_description
from permitflow_tools.simulation.setting import SimulationSetting, agreement, costs_of, disagreements

# More sizes than these are not listed.
_MOST_LISTED = 6
_VARYING = ("--sweep", "--explore", "--spark", "--csv", "--plot", "--max-states")
_NUMBERS = ("--row-permits", "--permit-batch", "--max-chunk-cost", "--permit-batch-up", "--chunk-rows", "--flush-idle")
_OPTIONS = (
    Belonging(_NUMBERS, ("numbers",), "numbers of your own: leave it away, or what is named"),
    Belonging(_VARYING[:-1], ("file",), "a file whose numbers vary: name one, as in `permitflow check orders.toml`"),
    Belonging(_VARYING[-1:], ("file", "own"), "a file whose numbers vary, or a model of your own: name it"),
    Belonging(
        ("--inputs", "--exclusive", "--floating", "--no-stop", "--no-release", "--no-announce"),
        ("gate",),
        "a gate: `permitflow check gate --inputs 2 ...`",
    ),
    Belonging(("--engine", "--model"), ("models",), "the models of the specification: leave it or all else away"),
    Belonging(("--parameters",), ("own",), "a model of your own: `permitflow check my_protocol:SYSTEM ...`"),
)


def check(
    context: typer.Context,
    file: DescribedChannel = None,
    graph: Annotated[
        Path | None,
        typer.Argument(
            metavar="GRAPH",
            parser=readable,
            help="After the word graph: stages described in TOML, as above.",
        ),
    ] = None,
    row_permits: RowPermits = None,
    permit_batch: PermitBatch = None,
    max_chunk_cost: MaxChunkCost = None,
    permit_batch_up: Annotated[
        int | None, rows("The sender's own permit batch, if it differs: a chunk costs at most row permits less this.")
    ] = None,
    chunk_rows: ChunkRows = None,
    flush_idle: FlushIdle = False,
    sweep: Sweep = None,
    explore: Annotated[
        bool, typer.Option("--explore", help="Of a sweep: visit all states of each channel instead of proving.")
    ] = False,
    max_states: Annotated[
        int, option(whole_number(least=1), "N", "Explore nothing with more states. Default: 1,000,000.")
    ] = MOST_STATES,
    spark: Annotated[
        str | None, typer.Option(metavar="MASTER", help="Check a sweep there: local[*], spark://..., sc://...")
    ] = None,
    csv: SweepCsv = None,
    plot: SweepPlot = None,
    inputs: Annotated[int | None, option(whole_number(least=1), "N", "Of a gate: its inputs.")] = None,
    exclusive: Annotated[int | None, option(whole_number(least=0), "N", "Of a gate: buffers of each input.")] = None,
    floating: Annotated[
        int | None, option(whole_number(least=0, most=MOST_FLOATING), "N", "Of a gate: buffers that its inputs share.")
    ] = None,
    no_stop: Annotated[bool, typer.Option("--no-stop", help="Of a gate: a sender goes on behind its barrier.")] = False,
    no_release: Annotated[
        bool, typer.Option("--no-release", help="Of a gate: a blocked input keeps its floating buffers.")
    ] = False,
    no_announce: Annotated[
        bool, typer.Option("--no-announce", help="Of a gate: a sender without credit cannot say that it has data.")
    ] = False,
    engine: Annotated[
        Engine | None,
        option(one_of(Engine), "NAME", "What checks the models: explorer, tlc or both. Default: what is available."),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Check only this model, or those of 'life-*'; may be repeated."),
    ] = None,
    parameters: OwnParameters = None,
    as_json: Json = False,
) -> None:
    """Can it deadlock?

    With numbers, answer for these numbers, for good: the verdict is a theorem for all runs of any length, not a
    search that gave up somewhere. For a deadlock, show a shortest run into it and what to change. The numbers are
    those of the published protocol, unless --flush-idle says otherwise. The formulas of the theorems decide; where
    permitflow[proofs] is installed, a solver proves each verdict again.

    \b
      permitflow check --row-permits 2048 --permit-batch 256 --max-chunk-cost 1792   live
      permitflow check --row-permits 2048 --permit-batch 256 --max-chunk-cost 2048   a deadlock, step by step
      permitflow check --row-permits 8 --permit-batch 6 --permit-batch-up 4          two nodes, configured differently
      permitflow check --row-permits 2048 --permit-batch 256 --chunk-rows 1024,2048  if only these sizes occur

    With a file, answer for the two ends that it describes, which may disagree, and say what a handshake would make
    of them. An unknown section, key or kind is answered with the known ones. A plot of a sweep shows max_chunk_cost
    over permit_batch, row_permits or both.

    \b
      [upstream]               # the sender
      row_permits = 2_048
      permit_batch = 256
      [downstream]             # the receiver: what is left out is as upstream
      permit_batch = 1_024
      [chunks]
      rows = [1, 1_700]        # these sizes occur

    \b
      permitflow check orders.toml
      permitflow check orders.toml --sweep permit_batch=256..16384:x2 --sweep max_chunk_cost=1024,30000
      permitflow check grid.toml --explore --spark 'local[*]' --plot map.html

    For a gate, a consumer with several inputs that aligns their barriers, answer for its buffers.

    \b
      permitflow check gate --inputs 2 --exclusive 0 --floating 1                live
      permitflow check gate --inputs 2 --exclusive 0 --floating 1 --no-release   a deadlock, step by step

    For a graph of stages, such as a loop or a split that is joined again, answer whether stages can come to wait for
    each other in a ring; `permitflow explain` draws it.

    \b
      arcs = ["orders -> kept", "kept -> out"]
      [stages.orders]
      kind = "source"
      [stages.kept]
      kind = "buffer"
      capacity = 2
      [stages.out]
      kind = "sink"

    \b
      permitflow check graph loop.toml

    For a model of your own, explore all states: does one break an invariant, is one stuck, is a promise not kept?

    \b
      permitflow check my_protocol:SYSTEM --parameters SMALL

    Without any of these, check all models of the specification: each must come out as it is recorded, the ones with a
    seeded fault included.

    \b
      permitflow check
      permitflow check --engine explorer            without Java
      permitflow check --model one-above-stuck --json

    Exit code 0: live, or all models as recorded. 1: a deadlock, a graph that is not live or undecided, ends that refuse
    each other, something wrong with a model of your own, or a model differs. 2: unusable input.
    """
    given = given_options(context)
    subject = _subject_of(file, graph, given)
    refuse_strange(given, subject, _OPTIONS)
    if subject == "models":
        check_models(engine, model or [], as_json=as_json)
    if subject == "numbers":
        setting = setting_of(
            row_permits, permit_batch, max_chunk_cost, chunk_rows, permit_batch_up, flush_idle=flush_idle
        )
        _check_setting(setting, None, as_json=as_json)
    if subject == "gate":
        answer_for_gate(inputs, exclusive, floating, no_stop, no_release, no_announce, as_json=as_json)
    if subject == "graph":
        _check_graph(file, graph, as_json=as_json)
    assert file is not None, "what is left is in one"
    if subject == "own":
        answer_for_own(str(file), parameters, max_states, as_json=as_json)
    description = read_description(file)
    if any(name in _VARYING for name in given):
        how = Check.EXPLORE if explore else Check.DECIDE
        check_sweep(file, description, sweep or [], how, max_states, spark, csv, plot, as_json=as_json)
    _check_setting(description.setting, file, as_json=as_json)


def _subject_of(file: Path | None, graph: Path | None, given: Sequence[str]) -> str:
    """What is asked about, as in ``_OPTIONS``."""
    if graph is not None or str(file) == "graph":
        return "graph"
    if file is None:
        return "numbers" if any(name in _NUMBERS for name in given) else "models"
    if str(file) == "gate":
        return "gate"
    return "own" if is_place(file) else "file"


def _check_graph(file: Path | None, graph: Path | None, *, as_json: bool) -> NoReturn:
    from permitflow_tools.parameters.graph import read_graph

    if graph is None:
        unusable("graph needs a file: `permitflow check graph loop.toml`; permitflow check --help shows one")
    if str(file) != "graph":
        unusable(f"one file at a time, not {file} and {graph}; for a graph of stages: `permitflow check graph {graph}`")
    answer_for_graph(graph, read_graph(graph), as_json=as_json)


def answer_for(setting: SimulationSetting) -> PairVerdict:
    """Decide whether these two ends can get stuck; ends the command if that stays undecided."""
    from permitflow_model.thresholds import Undecided

    try:
        return deciding.answer_for(setting)
    except Undecided as error:
        failed(f"undecided: {error}")


def _check_setting(setting: SimulationSetting, file: Path | None, *, as_json: bool) -> NoReturn:
    """Decide for two ends, of a file or of the user's own numbers; print the verdict and end the command."""
    answer = answer_for(setting)
    decision = answer.decision
    costing = "of" if file is None else "that cost"
    if answer.verdict == "overspend":
        most = setting.receiver.row_permits
        advice = f"to be live, choose row_permits of at most {most:,} below [upstream], or more below [downstream]"
    elif answer.verdict == "refused":
        advice = "to be live, make the ends agree"
    elif decision.is_live:
        advice = _room_to_move(answer, costing)
    else:
        ways = ways_to_live(answer, IN_FILE) if file else ways_to_live(answer)
        advice = "to be live, choose " + ", or ".join(ways)
    if as_json:
        print_json({"file": None if file is None else str(file), **_as_json(answer), "advice": advice})
    else:
        name = "" if file is None else f"{file}: "
        more = [_about_slices(answer), *([] if file is None else _about_the_ends(setting))]
        _print_answer(f"{answer.verdict}: {name}{_question(answer, costing)}", answer, [*filter(None, more), advice])
    stop(holds=answer.verdict == "live")


def _as_json(answer: PairVerdict) -> dict[str, object]:
    setting, decision, run = answer.setting, answer.decision, answer.decision.run
    costs, agreed = costs_of(setting), agreement(setting)
    return {
        "row_permits": setting.sender.row_permits,
        "permit_batch": setting.receiver.permit_batch,
        "permit_batch_up": setting.sender.permit_batch,
        "upstream": _parameters_as_json(setting.sender),
        "downstream": _parameters_as_json(setting.receiver),
        "flush_idle": setting.flush_idle,
        "chunks": str(setting.chunks),
        "largest_cost": decision.largest_cost,
        "costs": None if costs is None else list(costs),
        "verdict": answer.verdict,
        "holds": answer.verdict == "live",
        "explanation": decision.explanation,
        "overspend": answer.overspend or None,
        "proved_again": deciding.is_proved_again(),
        "theorems": list(decision.theorems),
        "safe_max_chunk_cost": decision.safe_max_chunk_cost,
        "safe_permit_batch": decision.safe_permit_batch,
        "run": None if run is None else run_as_json(MODULE, run.start, run.steps),
        "disagreements": [
            {"key": found.name, "upstream": found.upstream, "downstream": found.downstream}
            for found in disagreements(setting)
        ],
        "handshake": {
            "agreed": None if isinstance(agreed, PermitflowError) else _parameters_as_json(agreed),
            "refused": agreed.message if isinstance(agreed, PermitflowError) else None,
        },
    }


def _parameters_as_json(parameters: ChannelParameters) -> dict[str, object]:
    return {name: getattr(parameters, name) for name in KEYS}


def _question(answer: PairVerdict, costing: str) -> str:
    setting, costs = answer.setting, costs_of(answer.setting)
    sender, receiver = setting.sender, setting.receiver
    batches = f"permit batch {receiver.permit_batch:,}"
    if sender.permit_batch != receiver.permit_batch:
        batches += f" at the receiver and {sender.permit_batch:,} at the sender"
    most = f"at most {answer.decision.largest_cost:,}"
    listed = most if costs is None or len(costs) > _MOST_LISTED else " or ".join(f"{cost:,}" for cost in costs)
    protocol = "with the idle flush" if setting.flush_idle else "published protocol"
    permits = f"{sender.row_permits:,}"
    if answer.verdict == "overspend":
        permits += f" at the sender and {receiver.row_permits:,} at the receiver"
    return f"row permits {permits}, {batches}, chunks {costing} {listed} ({protocol})"


def _about_slices(answer: PairVerdict) -> str:
    """A deadlock may need an order of costs in which slices of one chunk cannot come."""
    costs, possible = costs_of(answer.setting), answer.setting.chunks.possible
    if answer.decision.is_live or costs is None:
        return ""
    if {max(rows, 1) for rows in possible} >= set(costs) or answer.setting.sender.oversize is Oversize.WHOLE:
        return ""
    return (
        "chunks above max_chunk_cost are split; their slices are taken to come in any order, which is more than may "
        "happen"
    )


def _about_the_ends(setting: SimulationSetting) -> Iterator[str]:
    found = disagreements(setting)
    if not found:
        return
    listed = "; ".join(
        f"{name} is {_shown(ours)} upstream, {_shown(theirs)} downstream" for name, ours, theirs in found
    )
    yield f"the ends disagree: {listed}"
    agreed = agreement(setting)
    if isinstance(agreed, PermitflowError):
        yield f"permitflow's handshake would refuse this: {agreed.message}"
        return
    named = [name for name in KEYS if name != "initial_permits" or agreed.initial_permits < agreed.row_permits]
    numbers = ", ".join(f"{name} {_shown(getattr(agreed, name))}" for name in named)
    yield (
        f"permitflow's handshake would take the smaller of each, for both: {numbers}; that is live for every sequence "
        "of chunks"
    )


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _print_answer(headline: str, answer: PairVerdict, after: list[str]) -> None:
    """Print a verdict, why it holds, the run into a deadlock, the theorems behind it, and remarks."""
    from permitflow_model.thresholds import THEOREMS

    console, decision = open_console(), answer.decision
    proved = "proved, for runs of any length: " if decision.is_live else ""
    if answer.verdict in ("overspend", "refused"):
        why = answer.overspend or f"permitflow's handshake refuses these ends: {answer.refusal}"
        headline, proved = f"{headline}\n{why}", "if nothing were refused, proved for runs of any length: "
    print_lines(console, headline, f"{proved}{decision.explanation}")
    if decision.run is not None:
        print_lines(console, "A shortest run into it, in row permits; each line adds up to all of them:")
        print_table(console, run_table(MODULE, decision.run.start, decision.run.steps))
    behind = ((name, theorem) for name, theorem in THEOREMS.items() if name in decision.theorems)
    again = (
        []
        if deciding.is_proved_again() or not decision.is_live
        else ["permitflow[proofs] proves this again, for these numbers"]
    )
    told = (f"theorem {name} ({theorem.reference}): {theorem.text}" for name, theorem in behind)
    print_lines(console, *told, *again, *after)


def _room_to_move(answer: PairVerdict, costing: str) -> str:
    """How far the numbers of a live channel may be changed."""
    decision, chunk = answer.decision, f"{answer.decision.safe_max_chunk_cost:,}"
    if answer.setting.flush_idle:
        return f"live up to chunks {costing} {chunk}, whatever the batches"
    if costs_of(answer.setting) is not None:
        return f"if chunks of other sizes come too: live up to {chunk} with this permit batch"
    return (
        f"live up to chunks {costing} {chunk} with this permit batch, and up to a permit batch of "
        f"{decision.safe_permit_batch:,} with these chunks"
    )
