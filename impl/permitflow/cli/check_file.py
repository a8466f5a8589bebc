"""``permitflow check FILE``: two ends with numbers of their own, decided as they are, and as a handshake makes them."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from permitflow.checking import deciding
from permitflow.checking.deciding import Answer
from permitflow.cli.check_numbers import print_run, theorems_of
from permitflow.cli.console import open_console
from permitflow.cli.outcomes import ExitCode, complain, print_json, requires_extra, stop, unusable
from permitflow.errors import ParametersFileError, PermitflowError
from permitflow.parameters_file.read import KEYS, Description, read_description
from permitflow.protocol.parameters import ChannelParameters, Oversize
from permitflow.simulation.ends import Disagreement, agreement, costs_of, disagreements
from permitflow.simulation.setting import Setting

if TYPE_CHECKING:
    from permitflow_proofs import Decision

__all__ = ["answer_for", "check_file", "decided", "described"]

# More sizes than these are not listed.
_MOST_LISTED = 6


def described(path: Path) -> Description:
    """Read the file, or end the command and say what is wrong with it."""
    try:
        return read_description(path)
    except ParametersFileError as error:
        unusable(error.message)


def check_file(path: Path, *, as_json: bool) -> None:
    """Decide, print the verdict and end the command."""
    setting = described(path).setting
    answer = answer_for(setting)
    if as_json:
        print_json(_as_json(path, answer))
    else:
        _print(path, answer)
    stop(holds=answer.verdict == "live")


def decided(setting: Setting) -> "Decision":
    """Whether the sender of the one and the receiver of the other can get stuck; or end the command."""
    return answer_for(setting).decision


def answer_for(setting: Setting) -> Answer:
    """Everything that is to be said of two ends; or end the command."""
    with requires_extra("proofs"):
        from permitflow_proofs import Undecided
    try:
        return deciding.answer_for(setting)
    except Undecided as error:
        complain(f"undecided: {error}")
        raise typer.Exit(ExitCode.FAILS) from None


def _print(path: Path, answer: Answer) -> None:
    console = open_console()
    decision, setting = answer.decision, answer.setting
    lines = [f"{answer.verdict}: {path}: {_question(setting, decision)}"]
    if decision.is_live:
        lines.append(f"proved, for runs of any length: {decision.explanation}")
    else:
        lines.append(decision.explanation)
    console.print("\n".join(lines), soft_wrap=True)
    if not decision.is_live:
        print_run(console, decision)
    for theorem in theorems_of(decision):
        console.print(f"theorem {theorem.id} ({theorem.reference}): {theorem.statement}", soft_wrap=True)
    for line in filter(None, [_about_slices(answer), answer.overspend, *_about_the_ends(setting), _advice(answer)]):
        console.print(line, soft_wrap=True)


def _question(setting: Setting, decision: "Decision") -> str:
    sender, receiver, costs = setting.sender, setting.receiver, costs_of(setting)
    batches = f"batch {receiver.permit_batch:,}"
    if sender.permit_batch != receiver.permit_batch:
        batches = f"batch {receiver.permit_batch:,} at the receiver and {sender.permit_batch:,} at the sender"
    chunks = f"chunks that cost at most {decision.max_cost:,}"
    if costs is not None and len(costs) <= _MOST_LISTED:
        chunks = f"chunks that cost {' or '.join(f'{cost:,}' for cost in costs)}"
    protocol = "with the idle flush" if setting.flush_idle else "published protocol"
    return f"row count {sender.row_permits:,}, {batches}, {chunks} ({protocol})"


def _about_slices(answer: Answer) -> str:
    """A deadlock may need an order of costs in which slices of one chunk cannot come."""
    costs, possible = costs_of(answer.setting), answer.setting.chunks.possible
    if answer.decision.is_live or costs is None or possible is None:
        return ""
    if {max(rows, 1) for rows in possible} >= set(costs) or answer.setting.sender.oversize is Oversize.WHOLE:
        return ""
    return (
        "chunks above the clamp are split; their slices are taken to come in any order, which is more than may happen"
    )


def _about_the_ends(setting: Setting) -> list[str]:
    found = disagreements(setting)
    if not found:
        return []
    agreed = agreement(setting)
    listed = "; ".join(
        f"{KEYS[name]} is {_shown(ours)} upstream, {_shown(theirs)} downstream" for name, ours, theirs in found
    )
    return [f"the ends disagree: {listed}", f"permitflow's handshake {_outcome(agreed)}"]


def _outcome(agreed: ChannelParameters | PermitflowError) -> str:
    if isinstance(agreed, PermitflowError):
        return f"would refuse this: {agreed.message}"
    numbers = ", ".join(f"{key} {_shown(getattr(agreed, name))}" for name, key in KEYS.items())
    return f"would take the smaller of each, for both: {numbers}; that is live for every sequence of chunks"


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _advice(answer: Answer) -> str:
    decision, setting = answer.decision, answer.setting
    chunk, batch = decision.safe_max_cost, decision.safe_batch
    if decision.is_live and setting.flush_idle:
        return f"live up to chunks that cost {chunk:,}, whatever the batches"
    if decision.is_live and costs_of(setting) is not None:
        return f"if chunks of other sizes come too: live up to {chunk:,} with this batch"
    if decision.is_live:
        return (
            f"live up to chunks that cost {chunk:,} with this batch, and up to a batch of {batch:,} with these chunks"
        )
    ways = []
    if chunk > 0:
        ways.append(f"chunks of at most {chunk:,} (max_chunk = {chunk} below [upstream])")
    if batch > 0:
        ways.append(f"a batch of at most {batch:,} (batch = {batch} below [downstream])")
    if not setting.flush_idle and decision.max_cost <= setting.sender.row_permits:
        ways.append("a receiver that returns what it holds when it is idle (flush_idle = true below [downstream])")
    return "to be live, choose " + ", or ".join(ways)


def _as_json(path: Path, answer: Answer) -> dict[str, object]:
    from permitflow.cli.run_table import run_as_json

    setting, decision, run = answer.setting, answer.decision, answer.decision.run
    agreed = agreement(setting)
    return {
        "file": str(path),
        "upstream": _numbers(setting.sender),
        "downstream": _numbers(setting.receiver),
        "flush_idle": setting.flush_idle,
        "chunks": str(setting.chunks),
        "max_cost": decision.max_cost,
        "costs": None if (costs := costs_of(setting)) is None else list(costs),
        "verdict": answer.verdict,
        "holds": answer.verdict == "live",
        "explanation": decision.explanation,
        "overspend": answer.overspend or None,
        "theorems": list(decision.theorems),
        "safe_max_cost": decision.safe_max_cost,
        "safe_batch": decision.safe_batch,
        "run": None if run is None else run_as_json(run.start, run.steps),
        "disagreements": [_disagreement(found) for found in disagreements(setting)],
        "handshake": _handshake(agreed),
        "advice": _advice(answer),
    }


def _handshake(agreed: ChannelParameters | PermitflowError) -> dict[str, object]:
    if isinstance(agreed, PermitflowError):
        return {"agreed": None, "refused": agreed.message}
    return {"agreed": _numbers(agreed), "refused": None}


def _disagreement(found: Disagreement) -> dict[str, object]:
    return {"key": KEYS[found.name], "upstream": found.upstream, "downstream": found.downstream}


def _numbers(parameters: ChannelParameters) -> dict[str, object]:
    return {key: getattr(parameters, name) for name, key in KEYS.items()}
