"""Worker processes that end with this process, and at once when it is interrupted."""

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from typing import TypeVar

T = TypeVar("T")

# A signal to another thread does not wake up this one while it waits for a lock, so it polls.
_LOOK_UP_SECONDS = 0.2


def in_processes(work: Callable[..., T], *arguments: Iterable[object], processes: int) -> Generator[T, None, None]:
    """Like ``map``: yield results in the order of the arguments, each as soon as it and all before it are ready.

    The caller gets Ctrl-C.  To stop before the last result, close the generator: that ends the running work without
    waiting for it.

    Raises:
        concurrent.futures.process.BrokenProcessPool: a process was killed, perhaps for want of memory.
    """
    # New processes, not copies of this one: threads and solvers do not survive copying.
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=_begin_work)
    try:
        with _interrupts_held_back():
            coming = deque(pool.submit(work, *each) for each in zip(*arguments, strict=False))
        while coming:
            yield result_of(coming.popleft())
    except BaseException:
        _break_off(pool)
        raise
    pool.shutdown()


def in_turns(
    work: Callable[[T], T], items: Sequence[T], is_over: Callable[[T], bool], *, processes: int
) -> Generator[tuple[int, T], None, None]:
    """Let each item become ``work(item)``, again and again until it is over.

    Yields each result as soon as it is there, with its item's number.  Interrupts and errors are as of
    ``in_processes``.
    """
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=_begin_work)
    try:
        with _interrupts_held_back():
            coming = {pool.submit(work, item): number for number, item in enumerate(items) if not is_over(item)}
        while coming:
            for future in wait(coming, _LOOK_UP_SECONDS, FIRST_COMPLETED).done:
                number, item = coming.pop(future), future.result()
                if not is_over(item):
                    coming[pool.submit(work, item)] = number
                yield number, item
    except BaseException:
        _break_off(pool)
        raise
    pool.shutdown()


def result_of(future: "Future[T]") -> T:
    """Like ``future.result()``, but Ctrl-C interrupts the wait.

    Raises:
        Exception: the future's exception.
    """
    while not wait([future], _LOOK_UP_SECONDS).done:
        pass
    return future.result()


def _break_off(pool: ProcessPoolExecutor) -> None:
    # Python 3.14 has kill_workers(); before, nothing public names them.
    workers, results = list((pool._processes or {}).values()), pool._result_queue
    # First, so that the pool's own thread drops cancelled work before it finds its workers dead.
    pool.shutdown(wait=False, cancel_futures=True)
    for worker in workers:
        worker.kill()
    for worker in workers:
        worker.join()
    # The pool's thread may be reading a half-written result: now no process can write the rest.
    results._writer.close()  # type: ignore[attr-defined]  # it has one


def _begin_work() -> None:
    """Ignore Ctrl-C, because the parent handles it and ends this process; end when the parent was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        # It was started while these were held back.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGHUP})
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Block ending signals in processes started meanwhile; this process gets them afterwards."""
    if not hasattr(signal, "pthread_sigmask"):  # on Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
