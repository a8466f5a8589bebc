"""Spark jobs whose stages are run again, fifty times: each row comes once, or the job fails.

    python -m tests.reruns                            50 trials
    python -m tests.reruns --seed 3 --only 17         one of them again

A trial writes directly, staged, or into a service, or reads a service.  Meanwhile shuffle files are deleted, an
executor is killed, or Spark starts a second attempt beside a slow one.  A seed determines everything but the order in
which processes run.

Exit code 0: all laws hold.  1: some were broken.  2: it could not be found out.  130: stopped by Ctrl-C.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

from tests.reruns.running import Result, run_all
from tests.reruns.trials import Harm, Job, draw


def summary(results: Sequence[Result], seconds: float) -> Iterator[str]:
    """How often what came, and how it ended."""
    yield f"{'job':<22} {'harm':<22} {'trials':>7} {'came':>6} {'all well':>9} {'failed':>7} {'broken':>7}"
    for job, harm in product(Job, Harm):
        own = [result for result in results if (result.trial.job, result.trial.harm) == (job, harm)]
        came, broken = sum(result.has_come for result in own), sum(bool(result.broken) for result in own)
        failed = sum(bool(result.found.failure) for result in own)
        yield f"{job:<22} {harm:<22} {len(own):>7} {came:>6} {len(own) - failed:>9} {failed:>7} {broken:>7}"
    came, broken = sum(result.has_come for result in results), sum(bool(result.broken) for result in results)
    words = f"{broken} broken" if broken else "each row once or a failed job"
    yield f"{len(results)} trials in {seconds:.0f} s, {came} with tasks that were run again: {words}"


def again(result: Result) -> str:
    """The command that runs a trial again."""
    return f"python -m tests.reruns --seed {result.trial.seed} --only {result.trial.number}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the trials, and print what they have found."""
    options = _parser().parse_args(arguments)
    trials = [draw(options.seed, number) for number in options.only or range(options.trials)]
    folder = Path(tempfile.mkdtemp(prefix="permitflow-reruns-"))
    began, results = time.monotonic(), list[Result]()
    try:
        for result in run_all(trials, folder):
            results.append(result)
            print(result, flush=True)
            if result.broken:
                print(f"    again: {again(result)}", flush=True)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        print(f"it could not be found out: {error!r}; logs: {folder}", file=sys.stderr)
        return 2
    print("\n".join(summary(results, time.monotonic() - began)))
    is_broken = any(result.broken for result in results)
    if is_broken:
        print(f"logs: {folder}")
    else:
        shutil.rmtree(folder)
    return int(is_broken)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="of all that is drawn (default: 1)")
    parser.add_argument("--trials", type=int, default=50, help="how many (default: 50)")
    parser.add_argument("--only", type=int, action="append", metavar="N", help="trial N; may be repeated")
    return parser


if __name__ == "__main__":
    sys.exit(main())
