"""``permitflow check gate``: can a consumer with several inputs get stuck while it aligns barriers?"""

from typing import NoReturn

from permitflow_tools.cli.console import open_console, print_lines, print_table, run_as_json, run_table
from permitflow_tools.cli.outcomes import print_json, stop, unusable

MOST_FLOATING = 10_000
"""A run into a deadlock has a step for each floating buffer."""


def answer_for_gate(
    inputs: int | None,
    exclusive: int | None,
    floating: int | None,
    no_stop: bool,
    no_release: bool,
    no_announce: bool,
    *,
    as_json: bool,
) -> NoReturn:
    """Decide, print the verdict and end the command."""
    from permitflow_model.input_gate import SYSTEM
    from permitflow_tools.checking.gate import check_gate

    if inputs is None or exclusive is None or floating is None:
        missing = "inputs" if inputs is None else "exclusive" if exclusive is None else "floating"
        unusable(f"--{missing} is missing: a gate needs --inputs, --exclusive and --floating")
    asked = {"inputs": inputs, "exclusive": exclusive, "floating": floating}
    finding = check_gate(**asked, stop=not no_stop, release=not no_release, announce=not no_announce)
    run = SYSTEM.module, SYSTEM.initial(finding.parameters), finding.steps
    if as_json:
        document = {
            **asked,
            **{"no_stop": no_stop, "no_release": no_release, "no_announce": no_announce},
            "verdict": finding.verdict,
            "holds": finding.verdict == "live",
            "how": finding.how,
            "theorem": finding.theorem or None,
            "reason": finding.reason,
            "advice": finding.advice or None,
            "run": run_as_json(*run) if finding.steps else None,
            "is_shortest": finding.is_shortest if finding.steps else None,
        }
        print_json(document)
        stop(holds=finding.verdict == "live")
    console = open_console()
    question = f"inputs {inputs:,}, exclusive buffers of each {exclusive:,}, floating buffers {floating:,}"
    proved = f"proved: {finding.reason} (theorem {finding.theorem})"
    print_lines(console, f"{finding.verdict}: {question}", proved if finding.how == "proved" else finding.reason)
    if finding.steps:
        print_table(console, run_table(*run))
        if not finding.is_shortest:
            print_lines(console, "one run of many: a single input takes the whole pool; a shorter one may exist")
    if finding.advice:
        print_lines(console, f"to be live, {finding.advice}")
    stop(holds=finding.verdict == "live")
