"""Does a driver's end keep the byte window?  A run of its own, because the window of all others is never full."""

from collections.abc import Callable, Coroutine

from permitflow.errors import PermitflowError
from permitflow.tracing.file import MemoryTrace
from permitflow_testing.bounded import AdapterError, BoundedAdapter, Habits, own_runner
from permitflow_testing.foreign.command import CommandAdapter
from permitflow_testing.rules import Outcome, Rule, Rulebook, RuleVerdict

BYTE_WINDOW = Rule(
    "",
    "byte-window",
    "Chunks leave that fit into the byte window, or while less than a quarter of it is out; consumed bytes return.",
    "",
    contract="byte_window in exchange.proto",
)
_SMALL = 1
"""A window in bytes: no chunk fits, so each leaves alone."""


def judge_byte_window(adapter: type[CommandAdapter], book: Rulebook) -> RuleVerdict:
    """The verdict about the ends that such an adapter opens."""
    if not adapter.said.counts_bytes:
        return RuleVerdict(BYTE_WINDOW, Outcome.NOT_APPLICABLE, "lacks bytes")
    small = type(adapter.__name__, (adapter,), {"byte_window": _SMALL})
    judged = {"sender": _send, "receiver": _receive}[adapter.end_name]
    with own_runner() as runner:
        return runner.run(_judged(judged, BoundedAdapter(small(), Habits()), book))


async def _judged(
    judged: Callable[[BoundedAdapter], Coroutine[None, None, str]], adapter: BoundedAdapter, book: Rulebook
) -> RuleVerdict:
    try:
        async with adapter.opened(book.plain, MemoryTrace().recorder):
            finding = await judged(adapter)
    except (AdapterError, PermitflowError) as error:
        finding = str(error)
    if finding:
        return RuleVerdict(BYTE_WINDOW, Outcome.BREAKS, finding)
    return RuleVerdict(BYTE_WINDOW, Outcome.HOLDS, "each of 3 chunks alone, in a window of 1 byte")


async def _send(adapter: BoundedAdapter) -> str:
    """Three chunks, each of which must wait for the bytes of the one before it."""
    sends = [adapter.send(1, 1)]
    for serial in (2, 3, 0):
        if not await adapter.has_ended(sends[-1]):
            return f"keeps chunk {len(sends)} back, although no byte is out: a larger one than the window leaves alone"
        adapter.result(sends[-1])
        if serial:
            sends.append(adapter.send(serial, 1))
        await adapter.pause()
        if serial and sends[-1].done():
            return "sends a chunk that does not fit into the byte window"
        await adapter.has_ended(taken := adapter.take())
        adapter.result(taken)
        adapter.consume()
        await adapter.pause()
    return ""


async def _receive(adapter: BoundedAdapter) -> str:
    """Three chunks, each sent when the bytes of the one before it have come back: settling checks that."""
    for serial in (1, 2, 3):
        for call in (adapter.send(serial, 1), adapter.take()):
            await adapter.has_ended(call)
            adapter.result(call)
        adapter.consume()
        await adapter.pause()
    return ""
