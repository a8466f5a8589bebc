"""Whose turn it is to wait: one task's, then the next one's, in the order in which they came."""

import asyncio

from permitflow.transports.turn import Turn

from tests.support.number_streams import turns


class Queue:
    """Tasks that want a turn, and who has had it."""

    def __init__(self) -> None:
        self.turn = Turn()
        self.turn.is_taken = True
        self.came: list[str] = []

    async def wait(self, name: str) -> None:
        await self.turn.until_mine()
        self.came.append(name)


def test_the_turn_goes_from_one_to_the_next(run: asyncio.Runner) -> None:
    async def take_turns() -> None:
        queue = Queue()
        async with asyncio.TaskGroup() as group:
            for name in "abc":
                group.create_task(queue.wait(name))
            await turns()
            for came in ([], ["a"], ["a", "b"]):
                assert (queue.came, queue.turn.is_taken) == (came, True)
                queue.turn.pass_on()
                assert queue.turn.is_taken, "nobody may come in between"
                await turns()
            queue.turn.pass_on()
        assert (queue.came, queue.turn.is_taken) == (["a", "b", "c"], False)

    run.run(take_turns())


def test_who_is_cancelled_keeps_nobody_from_his_turn(run: asyncio.Runner) -> None:
    async def cancel(moment: str) -> None:
        queue = Queue()
        first, second = (asyncio.create_task(queue.wait(name)) for name in "ab")
        await turns()
        if moment == "before":
            first.cancel()
            await turns()
            assert len(queue.turn.behind) == 1, "who has gone is not waited for"
        if moment == "passed on before it has heard":
            first.cancel()
        queue.turn.pass_on()
        if moment == "after":
            first.cancel()
        await asyncio.wait((first, second))
        assert (first.cancelled(), queue.came, queue.turn.is_taken) == (True, ["b"], True)

    for moment in ("before", "passed on before it has heard", "after"):
        run.run(cancel(moment))


def test_a_turn_for_which_only_cancelled_tasks_have_waited_is_free(run: asyncio.Runner) -> None:
    async def cancel() -> None:
        queue = Queue()
        task = asyncio.create_task(queue.wait("a"))
        await turns()
        queue.turn.pass_on()
        task.cancel()
        await asyncio.wait((task,))
        assert (queue.came, queue.turn.is_taken) == ([], False)

    run.run(cancel())


def test_who_is_closed_keeps_nobody_from_his_turn(run: asyncio.Runner) -> None:
    async def close(moment: str) -> None:
        queue = Queue()
        first = queue.wait("a")
        first.send(None)
        second = asyncio.create_task(queue.wait("b"))
        await turns()
        if moment == "before":
            first.close()
        queue.turn.pass_on()
        if moment == "after":
            first.close()
        await turns()
        assert (second.done(), queue.came, queue.turn.is_taken) == (True, ["b"], True)

    for moment in ("before", "after"):
        run.run(close(moment))
