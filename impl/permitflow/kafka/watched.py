"""Work that ends as soon as something that it does not wait for has failed."""

import asyncio
from collections.abc import Coroutine
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")


async def watched(work: Coroutine[Any, Any, T], watch: Coroutine[Any, Any, NoReturn]) -> T:
    """The result of the work; if the watch fails first, its error, and the work is cancelled.  Both are over then."""
    working, watching = asyncio.create_task(work), asyncio.create_task(watch)
    try:
        await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
    finally:
        working.cancel()
        watching.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)
    if watching.cancelled() or (not working.cancelled() and working.exception() is not None):
        return working.result()
    raise watching.exception() or AssertionError("a watch does not end without an error")
