"""Cancellation at every await: the operation is driven step by step, and cancelled at its first, second, third … step.

At each step it is cancelled twice, in two runs: while it sleeps, and once more after it was woken and before it runs.
A cancelled send has sent nothing, a cancelled receive has taken nothing; nothing else is lost, and nobody who waits
behind is forgotten.
"""

import asyncio
from collections.abc import Coroutine, Generator
from contextlib import suppress
from typing import TypeVar

from permitflow.testing.kit.cancelled_operations import PLAIN, Cancelling, give_up
from permitflow.testing.kit.leading import TURNS
from permitflow.testing.kit.report import Outcome, RuleVerdict
from permitflow.testing.kit.rules import MakeAdapter, Rule
from permitflow.testing.moves import Divergence
from permitflow.tracing.memory import MemoryTrace

__all__ = ["cancel_everywhere"]

T = TypeVar("T")

MOST_AWAITS = 50


class Counted:
    """An operation that counts how often it has been suspended."""

    def __init__(self, coroutine: Coroutine[object, object, T]) -> None:
        """It has not begun."""
        self._coroutine = coroutine
        self.awaits = 0

    def __await__(self) -> Generator[object, object, T]:
        steps = self._coroutine.__await__()
        try:
            yielded = next(steps)
            while True:
                self.awaits += 1
                try:
                    sent = yield yielded
                except BaseException as error:
                    yielded = steps.throw(error)
                else:
                    yielded = steps.send(sent)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


async def cancel_everywhere(rule: Rule, kind: type[Cancelling], make: MakeAdapter) -> RuleVerdict:
    """Cancel at every await, asleep and awake; stop at the first run that leaves something behind."""
    awaits = 0
    while awaits < MOST_AWAITS:
        has_ended = False
        for is_awake in (False, True):
            one = kind(make())
            try:
                has_ended = await _cancel_at(one, awaits + 1, is_awake=is_awake)
            except (Divergence, TimeoutError) as problem:
                state = "after it was woken, before it ran" if is_awake else "asleep"
                run = (
                    f"a {kind.what} is cancelled at its await number {one.cancelled_at}, {state}",
                    f"then: {problem}",
                )
                return RuleVerdict(rule, Outcome.BREAKS, f"has {problem}", run)
        if has_ended:
            break
        awaits += 1
    return RuleVerdict(rule, Outcome.HOLDS, f"{2 * awaits} cancellations, at every await, asleep and awake")


async def _cancel_at(run: Cancelling, number: int, *, is_awake: bool) -> bool:
    """Cancel at an await; say if the operation has no so many."""
    await run.adapter.open(PLAIN, MemoryTrace().recorder)
    try:
        await run.prepare()
        counted = Counted(run.operation())
        task = asyncio.create_task(_awaited(counted))
        try:
            is_there = await _reach(run, task, counted, number)
            if is_there:
                if is_awake:
                    await run.feed()
                run.cancelled_at = counted.awaits
                task.cancel()
            with suppress(asyncio.CancelledError):
                run.note(await task)
        finally:
            await give_up(task)
        await run.check_rest()
        return not is_there
    finally:
        await run.adapter.close()


async def _awaited(counted: Counted) -> object:
    return await counted


async def _reach(run: Cancelling, task: "asyncio.Task[object]", counted: Counted, number: int) -> bool:
    """Let the operation come to an await; what it waits for at those before is done."""
    for _ in range(MOST_AWAITS):
        for _ in range(TURNS):
            if counted.awaits >= number or task.done():
                break
            await asyncio.sleep(0)
        else:
            await run.feed()
            await run.pause()
        if counted.awaits >= number and not task.done():
            return True
        if task.done():
            return False
    raise Divergence("forgotten it: what it waited for came, and it sleeps on")
