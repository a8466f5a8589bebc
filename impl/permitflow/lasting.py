"""Tasks that go on until they are cancelled, which nobody awaits before."""

import asyncio
from collections.abc import Coroutine


def lasting_task(work: Coroutine[object, object, None], *, name: str) -> asyncio.Task[None]:
    """Begin such a task.  If it ends by an error, the loop's exception handler is told at once, which logs it.

    asyncio itself would tell only once nothing refers to the task any more, and its owner does, to the end.
    """
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(_tell)
    return task


def _tell(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        context = {"message": f"a task has failed: {task.get_name()}", "exception": error, "task": task}
        task.get_loop().call_exception_handler(context)
