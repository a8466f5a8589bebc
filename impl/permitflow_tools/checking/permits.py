"""Explores two ends with their own numbers in the model: visits every reachable state."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from permitflow_model.kernel.explore import Graph, StateLimitReached, explore
from permitflow_model.permit_channel import SYSTEM, Parameters, State
from permitflow_tools.checking.deciding import ChannelVerdict, Finding, overspend_of
from permitflow_tools.simulation.setting import SimulationSetting, costs_of, largest_cost

_COUNTABLE = 10**18


def model_of(setting: SimulationSetting, sizes: tuple[int, ...] | None = None) -> Parameters:
    """The model of these ends: chunks without numbers, no barriers, no watermarks; those cannot change the verdict.

    Nor can what is withheld at the start: a channel that has granted it is where one that withholds nothing would be.
    """
    largest, costs = largest_cost(setting), costs_of(setting)
    return Parameters(
        row_permits=setting.sender.row_permits,
        permit_batch=setting.receiver.permit_batch,
        max_chunk_cost=largest,
        # Chunks of equal cost behave alike, so each cost stands for all sizes that have it.
        sizes=sizes or costs or tuple(range(1, largest + 1)),
        flush_idle=setting.flush_idle,
    )


def explored_finding(setting: SimulationSetting, values: Mapping[str, int], *, max_states: int) -> Finding:
    """The result for one combination of numbers, after visiting all of its states."""
    parameters = model_of(setting)
    # With chunks of one row every counted state is reachable, so the count alone shows that the limit is exceeded.
    if 1 in parameters.sizes and (states := most_states(parameters)) > max_states:
        return _too_large(values, "it has", states, max_states)
    try:
        graph = explore(SYSTEM, parameters, max_states=max_states)
    except StateLimitReached:
        return _too_large(values, "it has up to", most_states(parameters), max_states)
    verdict, reason, run = _verdict(setting, parameters, graph)
    return Finding(
        values=values,
        verdict=verdict,
        reason=reason,
        run=run,
        largest_cost=parameters.max_chunk_cost,
        states=graph.state_count,
        depth=graph.depth,
    )


def _too_large(values: Mapping[str, int], it_has: str, states: int, max_states: int) -> Finding:
    counted = f"{states:,}" if states <= _COUNTABLE else "more than 10^18"
    reason = f"{it_has} {counted} states, and at most {max_states:,} are explored"
    return Finding(values=values, verdict="too large", reason=reason)


def _verdict(
    setting: SimulationSetting, parameters: Parameters, graph: Graph[State]
) -> tuple[ChannelVerdict, str, tuple[str, ...]]:
    """The verdict, its reason, and the run that shows it."""
    broken = {violation.invariant: violation for violation in graph.violations}
    stuck = broken.pop("NeverStuck", None) or graph.deadlock
    if broken:
        name, violation = next(iter(broken.items()))
        return "violation", f"{name} does not hold", tuple(step.call for step in violation.steps)
    if stuck is not None:
        end = stuck.steps[-1].state
        (waiting,) = end.waiting
        reason = (
            f"a chunk of {waiting.cost:,} waits for ever: of {parameters.row_permits:,} permits the sender has "
            f"{end.permits.rows:,}, the receiver keeps back {end.unreturned:,}"
        )
        return "deadlock", reason, tuple(step.call for step in stuck.steps)
    if overspend := overspend_of(setting):
        return "overspend", overspend, ()
    return "live", f"all {graph.state_count:,} states were visited, and none of them is stuck", ()


def most_states(parameters: Parameters) -> int:
    """The number of ways to spread the permits of a channel over the places where permits can be.

    No more states than these can be reached; where chunks of every size may come, exactly these.  Counted, not
    listed: as the coefficient of a product of power series, one for each place, in time linear in the row permits.
    Beyond 10^18 the result is not a count any more, only larger than that.

    Spec: Conservation, TypeOK, GrantsBatched.
    """
    costs = [cost for cost in sorted(set(parameters.sizes)) if cost <= parameters.row_permits]
    least_grant = 1 if parameters.flush_idle else parameters.permit_batch
    most_grant = parameters.permit_batch - 1 + (costs[-1] if costs else 0)
    ways = [1] * (parameters.row_permits + 1)  # n permits at the sender: one way, for each n
    ways = _queued(ways, costs)  # the wire
    ways = _queued(ways, costs)  # the inbox
    ways = _queued(ways, range(least_grant, most_grant + 1))  # permits on their way back
    waiting = 1 + len(set(parameters.sizes))  # none, or a chunk of one of the sizes
    return waiting * sum(ways[-parameters.permit_batch :])  # unreturned: less than a batch


def _queued(ways: Sequence[int], parts: Iterable[int]) -> list[int]:
    """The ways with a queue of such parts in addition: it is empty, or a part follows a queue."""
    neighbours = list(spans(parts))
    result: list[int] = []
    sums = [0]  # sums[n]: of the first n results
    for total, before in enumerate(ways):
        ways_here = before + sum(
            sums[total - first + 1] - sums[max(0, total - last)] for first, last in neighbours if first <= total
        )
        if ways_here > _COUNTABLE:
            # With more permits there are never fewer ways; numbers of thousands of digits would help no reader.
            return [*result, *[ways_here] * (len(ways) - total)]
        result.append(ways_here)
        sums.append(sums[-1] + ways_here)
    return result


def spans(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Neighbouring numbers together, as (first, last): all sizes from 1 on are one span."""
    for _, neighbours in groupby(enumerate(numbers), lambda each: each[1] - each[0]):
        together = [number for _, number in neighbours]
        yield together[0], together[-1]
