"""``nox -s graphs``: 500 graphs of stages run for real, against what ``check_graph`` says of them.

    python -m tests.graphs                    500 graphs, then analysers with a mistake
    python -m tests.graphs --seed 17          one graph, with all that is said of it

Exit code 0: verdicts and runs agree, and every mistake is found.  1: not so.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Final

from permitflow_tools.checking import check_graph
from permitflow_tools.checking.graphs import decide
from tests.graphs.generated import generated
from tests.graphs.judging import WATCHES, disagreements, told_by_runs
from tests.graphs.mistakes import MISTAKES

GRAPHS: Final = 500
LEAST: Final = {
    ("", "live"): 150,
    ("", "deadlock"): 150,
    ("", "starves"): 20,
    ("", "never completes"): 20,
    **{
        (shape, "deadlock"): 20
        for shape in (
            "full loop",
            "growing loop",
            "filtering loop",
            "zip loop",
            "kicked loop",
            "grouping diamond",
            "filtering diamond",
            "concat of branches",
            "echo",
            "two sinks",
        )
    },
}
"""So many graphs at least of each shape, empty for all, with a verdict: else too little is judged."""
MOST_UNKNOWN: Final = 0.05


def _judged(seed: int) -> tuple[int, str, str, float, list[str]]:
    shape, blueprint = generated(seed)
    started = time.process_time()
    verdict = check_graph(blueprint)
    seconds = time.process_time() - started
    told = [*disagreements(blueprint, verdict), *told_by_runs(blueprint, verdict, WATCHES[:3])]
    return seed, shape, verdict.verdict, seconds, told


def _missed(mistake: str) -> str:
    make, seed = MISTAKES[mistake]
    _, blueprint = generated(seed)
    with make():
        found = [*disagreements(blueprint, decide(blueprint))]
    return "" if found else mistake


def main() -> int:
    """Judge."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seed", type=int, help="only this graph")
    given = arguments.parse_args()
    if given.seed is not None:
        return _show(given.seed)
    with ProcessPoolExecutor() as pool:
        results = [*pool.map(_judged, range(GRAPHS), chunksize=5)]
        missed = [mistake for mistake in pool.map(_missed, MISTAKES) if mistake]
    counts = Counter((shape, verdict) for _, shape, verdict, _, _ in results)
    for (_, verdict), number in Counter(counts).items():
        counts["", verdict] += number
    for (shape, verdict), number in sorted(counts.items()):
        print(f"{shape or 'all shapes':20} {verdict:16} {number:4}")
    print(f"slowest verdict: {max(seconds for *_, seconds, _ in results):.2f} s of processor time")
    problems = [*_problems(counts)]
    problems += [
        f"seed {seed}, {shape}: {verdict}, but {told}"
        for seed, shape, verdict, _, all_told in results
        for told in all_told
    ]
    problems += [f"a mistake is not found: {mistake}" for mistake in missed]
    print(*problems, sep="\n")
    print(f"{len(results)} graphs, {len(MISTAKES)} mistakes: {len(problems) or 'no'} problems")
    return 1 if problems else 0


def _problems(counts: Counter[tuple[str, str]]) -> Iterator[str]:
    for (shape, verdict), least in LEAST.items():
        if counts[shape, verdict] < least:
            yield f"{shape or 'all shapes'}: {verdict} {counts[shape, verdict]} times only, {least} are wanted"
    if counts["", "unknown"] > MOST_UNKNOWN * GRAPHS:
        yield f"{counts['', 'unknown']} of {GRAPHS} are unknown"


def _show(seed: int) -> int:
    shape, blueprint = generated(seed)
    verdict = check_graph(blueprint)
    print(shape, *blueprint.stages.items(), *blueprint.arcs, sep="\n")
    print(verdict.verdict, verdict.reason, *verdict.ring, sep="\n")
    found = [*disagreements(blueprint, verdict), *told_by_runs(blueprint, verdict, WATCHES[:3])]
    print(*found, sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
