"""``permitflow check``: can a channel get stuck?  For numbers, for a file, or for all models of the specification."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from permitflow.checking import Check, deciding
from permitflow.checking.deciding import Answer
from permitflow.checking.grid import MOST_STATES
from permitflow.cli.check_gate import MOST_FLOATING, GateOptions, check_gate_options
from permitflow.cli.check_sweep import SweepOptions, check_sweep
from permitflow.cli.console import open_console, open_table, print_table, tracked
from permitflow.cli.options import (
    DescribedChannel,
    FlushIdle,
    MaxChunkCost,
    PermitBatch,
    RowPermits,
    Sizes,
    axis,
    option,
    whole_number,
)
from permitflow.cli.outcomes import ExitCode, Json, complain, print_json, requires_extra, stop, unusable
from permitflow.cli.permits import MODULE, Numbers, numbers_of, ways_to_live
from permitflow.cli.run_table import run_as_json, run_table
from permitflow.errors import ParametersFileError, PermitflowError
from permitflow.parameters_file.read import KEYS, read_description
from permitflow.protocol.permits import ChannelParameters, Oversize
from permitflow.simulation.setting import Axis, Setting, agreement, costs_of, disagreements

if TYPE_CHECKING:
    from permitflow_model.tlc.check import ModelResult
    from permitflow_proofs import Decision

# More sizes than these are not listed.
_MOST_LISTED = 6

_IN_FILE = (
    "max_chunk_cost = {} below [upstream]",
    "permit_batch = {} below [downstream]",
    "flush_idle = true below [downstream]",
)


class Engine(StrEnum):
    """Which program checks the models."""

    EXPLORER = "explorer"
    """Breadth-first search over the model in Python."""
    TLC = "tlc"
    """TLA+'s own model checker, over the specification."""
    BOTH = "both"
    """Both, separately; where the manifest asks for it, their state graphs must be equal."""


def check(
    file: DescribedChannel = None,
    row_permits: RowPermits = None,
    permit_batch: PermitBatch = None,
    max_chunk_cost: MaxChunkCost = None,
    permit_batch_up: Annotated[
        int | None,
        option(
            whole_number(least=0),
            "ROWS",
            "The sender's own permit batch, if it differs: a chunk costs at most row permits less this.",
        ),
    ] = None,
    sizes: Sizes = None,
    flush_idle: FlushIdle = False,
    sweep: Annotated[
        list[Axis] | None, option(axis, "NAME=VALUES", "Vary what the file says: 1,16,256 or 256..4096:x2; repeatable.")
    ] = None,
    explore: Annotated[
        bool, typer.Option("--explore", help="Of a sweep: visit all states of each channel instead of proving.")
    ] = False,
    max_states: Annotated[
        int | None, option(whole_number(least=1), "N", "Explore no channel with more states. Default: 1,000,000.")
    ] = None,
    spark: Annotated[
        str | None, typer.Option(metavar="MASTER", help="Check a sweep there: local[*], spark://..., sc://...")
    ] = None,
    csv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the verdicts of a sweep.", dir_okay=False)
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Draw max_chunk_cost over permit_batch and row_permits: .html, .svg, .png or .pdf.",
            dir_okay=False,
        ),
    ] = None,
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
        typer.Option(metavar="NAME", help="What checks the models: explorer, tlc or both. Default: what is available."),
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Check only this model; may be repeated.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Can it deadlock?

    With numbers, answer for these numbers, for good: the verdict is a theorem for all runs of any length, not a
    search that gave up somewhere. For a deadlock, show a shortest run into it and what to change. The numbers are
    those of the published protocol, unless --flush-idle says otherwise.

    \b
      permitflow check --row-permits 2048 --permit-batch 256 --max-chunk-cost 1792   live
      permitflow check --row-permits 2048 --permit-batch 256 --max-chunk-cost 2048   a deadlock, step by step
      permitflow check --row-permits 8 --permit-batch 6 --permit-batch-up 4          two nodes, configured differently
      permitflow check --row-permits 2048 --permit-batch 256 --sizes 1024,2048       if only these sizes occur

    With a file, answer for the two ends that it describes, which may disagree, and say what a handshake would make
    of them.

    \b
      permitflow check orders.toml
      permitflow check orders.toml --sweep permit_batch=256..16384:x2 --sweep max_chunk_cost=1024,30000
      permitflow check grid.toml --explore --spark 'local[*]' --plot map.html

    For a gate, a consumer with several inputs that aligns their barriers, answer for its buffers.

    \b
      permitflow check gate --inputs 2 --exclusive 0 --floating 1                live
      permitflow check gate --inputs 2 --exclusive 0 --floating 1 --no-release   a deadlock, step by step

    Without any of these, check all models of the specification (spec/*/models.toml): each must come out as it records,
    the ones with a seeded fault included.

    \b
      permitflow check
      permitflow check --engine explorer            without Java
      permitflow check --model one-above-stuck --json

    Exit code 0: live, or all models as recorded. 1: a deadlock, or a model differs. 2: unusable input.
    """
    numbers = {
        "--row-permits": row_permits,
        "--permit-batch": permit_batch,
        "--max-chunk-cost": max_chunk_cost,
        "--permit-batch-up": permit_batch_up,
        "--sizes": sizes,
        "--flush-idle": flush_idle or None,
    }
    sweeping = {"--explore": explore, "--max-states": max_states, "--spark": spark, "--csv": csv, "--plot": plot}
    of_sweep = [name for name, value in sweeping.items() if value]
    given = [name for name, value in numbers.items() if value is not None]
    gate = GateOptions(
        inputs=inputs,
        exclusive=exclusive,
        floating=floating,
        no_stop=no_stop,
        no_release=no_release,
        no_announce=no_announce,
    )
    if file is not None and str(file) == "gate":
        others = [*given, *(["--sweep"] if sweep else []), *of_sweep]
        others += [name for name, value in (("--engine", engine), ("--model", model)) if value]
        if others:
            unusable(f"{others[0]} says nothing about a gate: leave it away")
        check_gate_options(gate, as_json=as_json)
    if gate.given:
        unusable(f"{gate.given[0]} belongs to a gate: `permitflow check gate {gate.given[0]} ...`")
    if file is not None:
        given += [name for name, value in (("--engine", engine), ("--model", model)) if value]
        if given:
            unusable(f"{given[0]} and a file do not go together: leave one of them away")
        try:
            description = read_description(file)
        except ParametersFileError as error:
            unusable(error.message)
        if sweep or of_sweep:
            how, limit = Check.EXPLORE if explore else Check.DECIDE, max_states or MOST_STATES
            options = SweepOptions(check=how, max_states=limit, spark=spark, plot=plot, csv=csv, as_json=as_json)
            check_sweep(file, description, sweep or [], options)
        _check_file(file, description.setting, as_json=as_json)
    if sweep or of_sweep:
        unusable(f"{'--sweep varies' if sweep else f'{of_sweep[0]} is about varying'} what a file says: name a file")
    if not given:
        _check_models(engine, model or [], as_json=as_json)
    if engine is not None or model:
        unusable(f"--engine and --model belong to the models of the manifest; leave them or {given[0]} away")
    asked = numbers_of(
        row_permits, permit_batch, max_chunk_cost, sizes, flush_idle=flush_idle, permit_batch_up=permit_batch_up
    )
    _check_numbers(asked, as_json=as_json)


def _check_numbers(numbers: Numbers, *, as_json: bool) -> None:
    """Decide, print the verdict and end the command."""
    with requires_extra("proofs"):
        from permitflow_proofs import Undecided, decide
    try:
        decision = decide(
            numbers.row_permits,
            numbers.permit_batch,
            numbers.largest_cost,
            sizes=numbers.sizes,
            flush_idle=numbers.flush_idle,
            permit_batch_up=numbers.permit_batch_up,
        )
    except Undecided as error:
        _give_up(error)
    verdict = "live" if decision.is_live else "deadlock"
    if decision.is_live:
        advice = _room_to_move(decision, "of", flush_idle=numbers.flush_idle, only_these=numbers.sizes is not None)
    else:
        ways = ways_to_live(decision, numbers.row_permits, flush_idle=numbers.flush_idle)
        advice = "to be live, choose " + ", or ".join(ways)
    if as_json:
        document = {
            "row_permits": numbers.row_permits,
            "permit_batch": numbers.permit_batch,
            "permit_batch_up": numbers.sender_permit_batch,
            "largest_cost": decision.largest_cost,
            "sizes": None if numbers.sizes is None else list(numbers.sizes),
            "flush_idle": numbers.flush_idle,
            "verdict": verdict,
            "holds": decision.is_live,
            "explanation": decision.explanation,
            **_reasons_as_json(decision),
            "advice": advice,
        }
        print_json(document)
    else:
        chunks = f"chunks of at most {decision.largest_cost:,}"
        if numbers.sizes is not None:
            chunks = f"chunks of {' or '.join(f'{size:,}' for size in numbers.sizes)} rows"
        question = _question(
            numbers.row_permits, numbers.permit_batch, numbers.permit_batch_up, chunks, flush_idle=numbers.flush_idle
        )
        _print_decision(f"{verdict}: {question}", decision, [advice])
    stop(holds=decision.is_live)


def decided(setting: Setting) -> "Decision":
    """Decide whether these two ends can get stuck; ends the command if that stays undecided."""
    return _answer_for(setting).decision


def _answer_for(setting: Setting) -> Answer:
    with requires_extra("proofs"):
        from permitflow_proofs import Undecided
    try:
        return deciding.answer_for(setting)
    except Undecided as error:
        _give_up(error)


def _check_file(path: Path, setting: Setting, *, as_json: bool) -> None:
    """Decide for two ends with numbers of their own, print the verdict and end the command."""
    answer = _answer_for(setting)
    decision, costs, agreed = answer.decision, costs_of(setting), agreement(setting)
    if decision.is_live:
        only_these = costs is not None
        advice = _room_to_move(decision, "that cost", flush_idle=setting.flush_idle, only_these=only_these)
    else:
        ways = ways_to_live(decision, setting.sender.row_permits, _IN_FILE, flush_idle=setting.flush_idle)
        advice = "to be live, choose " + ", or ".join(ways)
    if as_json:
        document = {
            "file": str(path),
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
            **_reasons_as_json(decision),
            "disagreements": [
                {"key": found.name, "upstream": found.upstream, "downstream": found.downstream}
                for found in disagreements(setting)
            ],
            "handshake": {
                "agreed": None if isinstance(agreed, PermitflowError) else _parameters_as_json(agreed),
                "refused": agreed.message if isinstance(agreed, PermitflowError) else None,
            },
            "advice": advice,
        }
        print_json(document)
    else:
        chunks = f"chunks that cost at most {decision.largest_cost:,}"
        if costs is not None and len(costs) <= _MOST_LISTED:
            chunks = f"chunks that cost {' or '.join(f'{cost:,}' for cost in costs)}"
        sender, receiver = setting.sender, setting.receiver
        permit_batch_up = None if sender.permit_batch == receiver.permit_batch else sender.permit_batch
        question = _question(
            sender.row_permits, receiver.permit_batch, permit_batch_up, chunks, flush_idle=setting.flush_idle
        )
        after = filter(None, [_about_slices(answer), answer.overspend, *_about_the_ends(setting), advice])
        _print_decision(f"{answer.verdict}: {path}: {question}", decision, after)
    stop(holds=answer.verdict == "live")


def _about_slices(answer: Answer) -> str:
    """A deadlock may need an order of costs in which slices of one chunk cannot come."""
    costs, possible = costs_of(answer.setting), answer.setting.chunks.possible
    if answer.decision.is_live or costs is None or possible is None:
        return ""
    if {max(rows, 1) for rows in possible} >= set(costs) or answer.setting.sender.oversize is Oversize.WHOLE:
        return ""
    return (
        "chunks above max_chunk_cost are split; their slices are taken to come in any order, which is more than may "
        "happen"
    )


def _about_the_ends(setting: Setting) -> Iterator[str]:
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
    said = [name for name in KEYS if name != "initial_permits" or agreed.initial_permits < agreed.row_permits]
    numbers = ", ".join(f"{name} {_shown(getattr(agreed, name))}" for name in said)
    yield (
        f"permitflow's handshake would take the smaller of each, for both: {numbers}; that is live for every sequence "
        "of chunks"
    )


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _parameters_as_json(parameters: ChannelParameters) -> dict[str, object]:
    return {name: getattr(parameters, name) for name in KEYS}


def _give_up(error: Exception) -> NoReturn:
    complain(f"undecided: {error}")
    raise typer.Exit(ExitCode.FAILS) from None


def _question(
    row_permits: int, permit_batch: int, permit_batch_up: int | None, chunks: str, *, flush_idle: bool
) -> str:
    batches = f"permit batch {permit_batch:,}"
    if permit_batch_up is not None:
        batches = f"permit batch {permit_batch:,} at the receiver and {permit_batch_up:,} at the sender"
    protocol = "with the idle flush" if flush_idle else "published protocol"
    return f"row permits {row_permits:,}, {batches}, {chunks} ({protocol})"


def _print_decision(headline: str, decision: "Decision", after: Iterable[str]) -> None:
    """Print a verdict, why it holds, the run into a deadlock, the theorems behind it, and remarks."""
    from permitflow_proofs import catalogue

    console = open_console()
    console.print(headline, soft_wrap=True)
    proved = "proved, for runs of any length: " if decision.is_live else ""
    console.print(f"{proved}{decision.explanation}", soft_wrap=True)
    if decision.run is not None:
        console.print("A shortest run into it, in row permits; each line adds up to all of them:")
        print_table(console, run_table(MODULE, decision.run.start, decision.run.steps))
    for theorem in catalogue():
        if theorem.id in decision.theorems:
            console.print(f"theorem {theorem.id} ({theorem.reference}): {theorem.statement}", soft_wrap=True)
    for line in after:
        console.print(line, soft_wrap=True)


def _room_to_move(decision: "Decision", costing: str, *, flush_idle: bool, only_these: bool) -> str:
    """How far the numbers of a live channel may be changed."""
    chunk = f"{decision.safe_max_chunk_cost:,}"
    if flush_idle:
        return f"live up to chunks {costing} {chunk}, whatever the batches"
    if only_these:
        return f"if chunks of other sizes come too: live up to {chunk} with this permit batch"
    return (
        f"live up to chunks {costing} {chunk} with this permit batch, and up to a permit batch of "
        f"{decision.safe_permit_batch:,} with these chunks"
    )


def _reasons_as_json(decision: "Decision") -> dict[str, object]:
    run = decision.run
    return {
        "theorems": list(decision.theorems),
        "safe_max_chunk_cost": decision.safe_max_chunk_cost,
        "safe_permit_batch": decision.safe_permit_batch,
        "run": None if run is None else run_as_json(MODULE, run.start, run.steps),
    }


def _check_models(engine: Engine | None, names: Sequence[str], *, as_json: bool) -> None:
    """Check the models of the manifest, print the report and end the command."""
    from permitflow_model.manifest import ManifestError, find_spec_directory, read_manifest
    from permitflow_model.tlc.check import run_manifest

    try:
        known = read_manifest()
    except ManifestError as error:
        unusable(str(error))
    if unknown := [name for name in names if name not in known]:
        near = get_close_matches(unknown[0], known, n=3)
        advice = f"did you mean {' or '.join(near)}?" if near else "`permitflow check` lists them"
        unusable(f"--model: the manifest has no model {unknown[0]!r}; {advice}")
    models = [name for name in known if not names or name in names]
    engine, remark = _available(engine)
    parallel = min(4, os.cpu_count() or 1)
    results = run_manifest(engine=engine.value, names=models, parallel=parallel, spec_directory=find_spec_directory())
    outcomes = list(tracked(results, len(models), lambda outcome: outcome.model.name))
    holds = all(outcome.ok for outcome in outcomes)
    if as_json:
        print_json({"engine": engine.value, "holds": holds, "models": [_model_as_json(one) for one in outcomes]})
    else:
        _print_models(outcomes, remark)
        if names:
            _print_counterexamples(outcomes)
    stop(holds=holds)


def _available(wanted: Engine | None) -> tuple[Engine, str]:
    """The engine to use, and why; without TLC the explorer does what it can, unless TLC was asked for."""
    from permitflow_model.tlc import TlcNotFoundError, find_jar, find_java

    if wanted is Engine.EXPLORER:
        return wanted, "the explorer alone, as asked"
    try:
        find_java()
        find_jar()
    except TlcNotFoundError as error:
        if wanted is not None:
            unusable(f"--engine {wanted}: {error}")
        return Engine.EXPLORER, f"the explorer alone: {error}"
    return wanted or Engine.BOTH, "TLC" if wanted is Engine.TLC else "TLC and the explorer"


def _print_models(outcomes: "Sequence[ModelResult]", remark: str) -> None:
    console = open_console()
    console.print(f"models of the manifest, checked by {remark}", soft_wrap=True)
    table = open_table("model", "expected", "states", "depth", "checked by", "s", "", right=("states", "depth", "s"))
    for outcome in outcomes:
        between = ", " if outcome.graphs_equal is None else " = " if outcome.graphs_equal else " ≠ "
        table.add_row(
            outcome.model.name,
            str(outcome.model.expect),
            f"{outcome.model.states:,}",
            str(outcome.model.depth),
            between.join(finding.engine for finding in outcome.findings),
            f"{sum(finding.seconds for finding in outcome.findings):.1f}" if outcome.is_checked else "",
            _verdict(outcome),
        )
    print_table(console, table)
    for outcome in outcomes:
        for problem in outcome.problems:
            console.print(f"{outcome.model.name}: {problem}", soft_wrap=True)
    counts = Counter(map(_verdict, outcomes))
    unchecked = f", {counts['needs TLC']} not checked: they need TLC" if counts["needs TLC"] else ""
    console.print(f"{counts['ok']} as expected, {counts['differs']} differ{unchecked}")


def _verdict(outcome: "ModelResult") -> str:
    if outcome.problems:
        return "differs"
    return "ok" if outcome.is_checked else "needs TLC"


def _print_counterexamples(outcomes: "Sequence[ModelResult]") -> None:
    from permitflow_model.registry import system_of

    console = open_console()
    for outcome in outcomes:
        for run in (finding.counterexample for finding in outcome.findings if finding.counterexample):
            console.print(f"\n{outcome.model.name}: {outcome.model.reason}", soft_wrap=True)
            console.print(f"a shortest run into the violation of {run.invariant}:")
            found = system_of(outcome.model.module)
            assert found is not None, "only a model has found a run"
            print_table(console, run_table(found.system.module, run.start, run.steps))


def _model_as_json(outcome: "ModelResult") -> dict[str, object]:
    return {
        "name": outcome.model.name,
        "module": outcome.model.module,
        "reason": outcome.model.reason,
        "expect": str(outcome.model.expect),
        "states": outcome.model.states,
        "depth": outcome.model.depth,
        "findings": [
            {
                "engine": finding.engine,
                "verdict": None if finding.verdict is None else str(finding.verdict),
                "states": finding.states,
                "depth": finding.depth,
                "seconds": round(finding.seconds, 3),
            }
            for finding in outcome.findings
        ],
        "problems": list(outcome.problems),
    }
