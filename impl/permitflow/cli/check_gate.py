"""``permitflow check gate``: can a consumer with several inputs get stuck while it aligns barriers?"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from permitflow.cli.console import open_console, print_table
from permitflow.cli.outcomes import print_json, stop, unusable
from permitflow.cli.run_table import run_as_json, run_table

if TYPE_CHECKING:
    from permitflow.checking.gate import GateFinding

MOST_FLOATING = 10_000
"""A run into a deadlock has a step for each floating buffer."""


@dataclass(frozen=True, kw_only=True)
class GateOptions:
    """What the user says of a gate."""

    inputs: int | None
    exclusive: int | None
    floating: int | None
    no_stop: bool
    no_release: bool
    no_announce: bool

    @property
    def given(self) -> list[str]:
        """The options that are there, by their names."""
        return [f"--{name.replace('_', '-')}" for name, value in vars(self).items() if value not in (None, False)]


def check_gate_options(options: GateOptions, *, as_json: bool) -> NoReturn:
    """Decide, print the verdict and end the command."""
    from permitflow.checking.gate import check_gate

    inputs, exclusive, floating = options.inputs, options.exclusive, options.floating
    if inputs is None or exclusive is None or floating is None:
        missing = next(name for name in ("inputs", "exclusive", "floating") if getattr(options, name) is None)
        unusable(f"--{missing} is missing: a gate needs --inputs, --exclusive and --floating")
    finding = check_gate(
        inputs=inputs,
        exclusive=exclusive,
        floating=floating,
        stop=not options.no_stop,
        release=not options.no_release,
        announce=not options.no_announce,
    )
    if as_json:
        print_json(_as_json(finding, options))
    else:
        _print(finding, inputs, exclusive, floating)
    stop(holds=finding.verdict == "live")


def _as_json(finding: "GateFinding", options: GateOptions) -> dict[str, object]:
    from permitflow_model.input_gate import SYSTEM

    run = run_as_json(SYSTEM.module, SYSTEM.initial(finding.parameters), finding.steps) if finding.steps else None
    return {
        **vars(options),
        "verdict": finding.verdict,
        "holds": finding.verdict == "live",
        "how": finding.how,
        "theorem": finding.theorem or None,
        "reason": finding.reason,
        "advice": finding.advice or None,
        "run": run,
        "is_shortest": finding.is_shortest if finding.steps else None,
    }


def _print(finding: "GateFinding", inputs: int, exclusive: int, floating: int) -> None:
    from permitflow_model.input_gate import SYSTEM

    console = open_console()
    question = f"inputs {inputs:,}, exclusive buffers of each {exclusive:,}, floating buffers {floating:,}"
    console.print(f"{finding.verdict}: {question}", soft_wrap=True)
    if finding.how == "proved":
        console.print(f"proved: {finding.reason} (theorem {finding.theorem})", soft_wrap=True)
    else:
        console.print(finding.reason, soft_wrap=True)
    if finding.steps:
        print_table(console, run_table(SYSTEM.module, SYSTEM.initial(finding.parameters), finding.steps))
        if not finding.is_shortest:
            text = "one run of many: a single input takes the whole pool; a shorter one may exist"
            console.print(text, soft_wrap=True)
    if finding.advice:
        console.print(f"to be live, {finding.advice}", soft_wrap=True)
