"""Deliberate mistakes in a copy of the specification: the listed check must notice each.

    python tools/spec_mutants.py                     all of tests/spec/mutants
    python tools/spec_mutants.py --only "the queue has no bound"

Exit code 0: all were noticed as listed; 1: one survived or was noticed by something else; 2: the list cannot be used.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from permitflow_model.manifest import ManifestError, read_manifest
from permitflow_model.tlc import TlcError, TlcNotFoundError
from permitflow_model.tlc.mutants import Mutant, Outcome, read_mutants, run_mutants

CHECKOUT = Path(__file__).resolve().parent.parent
SPECIFICATION = CHECKOUT / "spec"
LISTS = CHECKOUT / "tests/spec/mutants"
JOBS = min(2, os.cpu_count() or 1)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", type=Path, default=LISTS, help="a list of mutants (TOML), or a folder of them")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="try this one; may be repeated")
    parser.add_argument("--jobs", type=int, default=JOBS, help="how many to try at once")
    options = parser.parse_args(arguments)
    started = time.monotonic()
    outcomes: list[Outcome] = []
    try:
        mutants = _chosen(read_mutants(options.list, read_manifest(SPECIFICATION)), options.only)
        width = max(len(mutant.name) for mutant in mutants)
        for outcome in run_mutants(mutants, spec_directory=SPECIFICATION, parallel=options.jobs):
            print(f"{outcome.mutant.name:<{width}}  {outcome.seconds:5.1f} s  {_word(outcome)}", flush=True)
            outcomes.append(outcome)
    except (ManifestError, TlcNotFoundError, TlcError) as error:
        print(error, file=sys.stderr)
        return 2
    real = [outcome for outcome in outcomes if not outcome.mutant.is_control]
    noticed = sum(not outcome.is_survivor for outcome in real)
    print(f"{noticed} of {len(real)} noticed, {time.monotonic() - started:.0f} s")
    print(f"noticed by: {', '.join(sorted({outcome.noticed_by for outcome in real if not outcome.is_survivor}))}")
    return 0 if all(outcome.is_as_expected for outcome in outcomes) else 1


def _chosen(mutants: Sequence[Mutant], names: Sequence[str]) -> list[Mutant]:
    if unknown := set(names) - {mutant.name for mutant in mutants}:
        raise ManifestError(f"no mutant is called {sorted(unknown)[0]!r}")
    return [mutant for mutant in mutants if not names or mutant.name in names]


def _word(outcome: Outcome) -> str:
    by = f"{outcome.noticed_by} in {outcome.mutant.model}"
    if outcome.is_survivor:
        return f"SURVIVED in {outcome.mutant.model}, where {outcome.mutant.expect} should have noticed it"
    if not outcome.is_as_expected:
        return f"{by}, but the list says {outcome.mutant.expect}"
    return f"not visible in {outcome.mutant.model} (another entry notices it)" if outcome.mutant.is_control else by


if __name__ == "__main__":
    sys.exit(main())
