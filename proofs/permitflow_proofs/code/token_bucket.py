"""``TokenBucket`` refines the model of that name: it lets an element wait just as long.

The model counts ticks; the code looks at a clock only when an element comes.  A bucket *stands for* a state at a time
if the tokens that have come since it looked last are those that the model has counted.
"""

from typing import Any, NamedTuple

from permitflow.errors import InvalidParametersError
from permitflow.stages.core import parameters as checks
from permitflow.stages.core import token_bucket as core
from permitflow_model.token_bucket import SYSTEM, Parameters, State, ticks_to_wait
from permitflow_proofs.code.refinement import attempt, fields_of, put
from permitflow_proofs.code.stand_ins import standing_in
from permitflow_proofs.kernel.chapter import claim
from permitflow_proofs.kernel.symbols import all_of, assume, equal, integer, merged, natural
from permitflow_proofs.kernel.theorem import Theorem
from permitflow_proofs.token_bucket import SUBJECT


def _least(one: int, other: int) -> int:
    return one if one <= other else other


class _Look(NamedTuple):
    """When a bucket for which nobody waits looked at the clock last, and what it had then."""

    kept: int
    periods: int
    """This many have passed since."""

    def tells(self, state: State, made: Parameters) -> bool:
        """Are the tokens that have come since those of the state?"""
        return equal(state.level, _least(self.kept + self.periods, made.capacity))


def _any_look(state: State, made: Parameters) -> _Look:
    look = _Look(natural("available"), natural("periods"))
    assume(look.kept <= made.capacity)
    assume(equal(state.pending, 0))
    assume(merged(lambda: look.tells(state, made)))
    return look


def _at_rest(state: State, made: Parameters) -> tuple[Any, int]:
    """A bucket for which nobody waits, and now."""
    now, look = integer("now"), _any_look(state, made)
    bucket = core.TokenBucket(0, 1, 0)
    last = now - look.periods * made.period - state.phase
    return put(bucket, {"capacity": made.capacity, "period": made.period, "_available": look.kept, "_last": last}), now


def _is_at_rest(bucket: Any, state: State, now: int, wrong: int) -> bool:
    """Does it stand for a state in which nobody waits, as if it had just looked?"""
    fields = dict(fields_of(bucket))
    return all_of([equal(fields["_available"], state.level + wrong), equal(fields["_last"], now - state.phase)])


def _takes_tokens(wrong: int) -> bool:
    """TakeTokens: the same delay, and the bucket stands for the state after it."""
    state, made = SUBJECT.any_case()
    bucket, now = _at_rest(state, made)
    cost = natural("cost", 1)
    assume(cost <= made.max_cost)
    after = SYSTEM.perform("TakeTokens", state, made, cost)
    with standing_in([core, checks]):
        delay = bucket.offer(cost, now)
    if not after.pending > 0:
        return bool(equal(delay, 0)) and _is_at_rest(bucket, after, now, wrong)
    due = ticks_to_wait(after, made)
    fields = dict(fields_of(bucket))
    return all_of([equal(delay, due + wrong), equal(fields["_available"], 0), equal(fields["_last"], now + due)])


def _goes_on(wrong: int) -> bool:
    """Tick, while nobody waits: the bucket, which did not look, stands for the next state a tick later."""
    state, made = SUBJECT.any_case()
    look = _any_look(state, made)
    if not SYSTEM.is_enabled("Tick", state, made):
        return True
    after = SYSTEM.perform("Tick", state, made)
    is_period = bool(state.phase + 1 >= made.period)
    later = look._replace(periods=look.periods + is_period)
    return (
        look.tells(state, made)
        and later.tells(after, made)
        and equal(after.phase + wrong, 0 if is_period else state.phase + 1)
    )


def _waits(wrong: int) -> bool:
    """Tick, while an element waits: the tick for which the bucket waits comes nearer, and then nothing is owed."""
    state, made = SUBJECT.any_case()
    assume(state.pending > 0)
    if not SYSTEM.is_enabled("Tick", state, made):
        return True
    after = SYSTEM.perform("Tick", state, made)
    if after.pending > 0:
        return equal(ticks_to_wait(after, made) + 1 + wrong, ticks_to_wait(state, made))
    return all_of([equal(after.level, wrong), equal(after.phase, 0), equal(ticks_to_wait(state, made), 1)])


def _refuses(wrong: int) -> bool:
    """A negative cost is refused, and takes nothing."""
    state, made = SUBJECT.any_case()
    bucket, now = _at_rest(state, made)
    before, cost = dict(fields_of(bucket)), integer("cost")
    assume(cost < wrong)
    with standing_in([core, checks]):
        outcome = attempt(bucket, lambda bucket: bucket.offer(cost, now))
    after = dict(fields_of(bucket))
    is_refused = isinstance(outcome.refusal, InvalidParametersError)
    return is_refused and all_of([equal(after[name], value) for name, value in before.items()])


def _costs_nothing(wrong: int) -> bool:
    """What the model does not have: an element that costs nothing passes at once, and takes nothing."""
    state, made = SUBJECT.any_case()
    bucket, now = _at_rest(state, made)
    with standing_in([core, checks]):
        delay = bucket.offer(0, now)
    return bool(equal(delay, 0)) and _is_at_rest(bucket, state, now, wrong)


def _starts(wrong: int) -> bool:
    """Init: the bucket is full."""
    made, now = SUBJECT.any_parameters(), integer("now")
    with standing_in([core, checks]):
        bucket = core.TokenBucket(made.capacity, made.period, now)
    return _is_at_rest(bucket, SYSTEM.initial(made), now, wrong)


def theorems() -> tuple[Theorem, ...]:
    """The claims about the bucket."""
    return (
        Theorem(
            id="code-token-bucket",
            statement=(
                "The running TokenBucket, which looks at a clock only when an element comes, says the delays that its "
                "model has, which counts each tick; and it stands for the model's state at every tick."
            ),
            module="TokenBucket",
            operator="TakeTokens",
            obligations=(
                claim("it starts full", _starts, "with one token more"),
                claim("an element comes", _takes_tokens, "one more"),
                claim("time passes, and nobody waits", _goes_on, "a tick more"),
                claim("time passes, and an element waits", _waits, "a tick more"),
                claim("an element costs nothing", _costs_nothing, "one token more"),
                claim("a negative cost is refused", _refuses, "also none"),
            ),
        ),
    )
