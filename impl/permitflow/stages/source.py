"""Streams as blueprints: ``Source(elements).map(f).buffer(16)`` describes a stream, and each iteration runs it anew."""

import asyncio
import logging
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence, Sized
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from inspect import isasyncgenfunction
from math import inf
from typing import Any, AnyStr, Final, Generic, TypeVar, cast, overload

from permitflow.callables import NoStream, plain, require_plain
from permitflow.channels.interface import ReceiveEnd, SendEnd, require_count
from permitflow.dispatch.dispatcher import HashDispatcher
from permitflow.errors import ChannelCancelledError, EndOfStream, InvalidParametersError
from permitflow.flows.messages import Kind, Message
from permitflow.stages.blueprint import (
    BalanceNode,
    Blueprint,
    BoundaryNode,
    BroadcastNode,
    BufferNode,
    ConcatNode,
    ConflateNode,
    ExpandNode,
    MergeNode,
    MergePreferredNode,
    Node,
    SourceNode,
    StageNode,
    UnboundedNode,
    ZipNode,
)
from permitflow.stages.core.asynchronous import FlatMap, GroupedWithin, IdleTimeout, MapAsync
from permitflow.stages.core.boundary import AsyncBoundary
from permitflow.stages.core.drop_queue import Overflow
from permitflow.stages.core.edges import Entry, Exit
from permitflow.stages.core.elements import Filter, Map, MapConcat, Take
from permitflow.stages.core.framing import Frames, Rechunk
from permitflow.stages.core.graph import Balance, Broadcast, Concat, Merge, Zip
from permitflow.stages.core.ports import Island, Stage
from permitflow.stages.core.rates import Batch, Buffer, Depth, Expand, Supervision, Throttle, ThrottleMode, Unbounded
from permitflow.stages.running import Elements, Plan, elements_of, opened
from permitflow.stages.threads import InThread
from permitflow.stages.wiring import UNKNOWN, Back, Outlet, Step, blueprint_before, connected
from permitflow.stream.frames import EndOutcome

T = TypeVar("T")
U = TypeVar("U")

DEFAULT_PREFETCH = 16
CLOSING_SECONDS = 5.0

_ONE_FOR_ONE: Final = StageNode()
_SOME: Final = StageNode(gives=(0, 1))

_log = logging.getLogger(__name__)


class Source(Generic[T]):
    """A stream: where its elements come from, and the stages they pass.  Iterate over it to run it.

    An element is asked for only when it is wanted: a consumer that stands still stops whatever the stream reads.  A
    source is never changed: each method returns a new one, and each iteration makes all stages anew.
    """

    __slots__ = ("_outlet",)

    def __init__(self, elements: AsyncIterable[T] | Iterable[T]) -> None:
        """The elements come from an iterable, asynchronous or not.  A run closes the iterator that it has opened.

        A generator is for one run; a second one raises ``SpentSourceError``.  ``from_iterator`` takes what makes one.
        """
        count = len(elements) if isinstance(elements, Sized) else None
        self._outlet = Outlet(Step("source", Entry, (SourceNode(count),), reads=elements), 0)

    @classmethod
    def _at(cls, step: Step | Back, outlet: int = 0) -> "Source[Any]":
        source = cls.__new__(cls)
        source._outlet = Outlet(step, outlet)
        return source

    @classmethod
    def from_iterator(cls, make: Callable[[], AsyncIterable[U] | Iterable[U]]) -> "Source[U]":
        """The elements of what ``make`` returns, such as a generator; it is called once in each run.

        Raises:
            AsyncFunctionError: ``make`` is a coroutine function.
        """
        return Source(_Made(make))

    @classmethod
    def in_thread(
        cls, iterable: Iterable[U], *, ahead: int = DEFAULT_PREFETCH, closing_seconds: float = CLOSING_SECONDS
    ) -> "Source[U]":
        """The elements of an iterable that blocks, such as a cursor or a file: each run reads it in a thread.

        The thread begins with the first element that is asked for.  When the run is over, it closes the iterator, if
        that has ``close``, and the run waits for it.

        Args:
            iterable: the thread alone uses it.
            ahead: elements that it reads before they are asked for.
            closing_seconds: how long a run that is over waits for a thread that does not come back from ``next``; then
                it raises ``BlockedThreadError``, and the thread is left.

        Raises:
            InvalidParametersError: a number is out of its range.
        """
        return Source(InThread(iterable, ahead, closing_seconds))

    @classmethod
    def receive(cls, receiver: ReceiveEnd[U]) -> "Source[Message[U]]":
        """The messages of a channel, until its end; ``message.payload`` is what was sent.

        A message is consumed, and its permits return, when the next one is asked for.  The run does not close the
        receiver; a message for which no successor was asked stays taken.
        """
        return Source(_Messages(receiver))

    # Element by element.

    @overload
    def map(self, function: Callable[[T], Coroutine[Any, Any, Any]]) -> NoStream: ...  # type: ignore[overload-overlap]  # refused

    @overload
    def map(self, function: Callable[[T], U]) -> "Source[U]": ...

    def map(self, function: Callable[[T], Any]) -> Any:
        """Emit the function's result for each element."""
        return self._checked("map", lambda: Map(function), _ONE_FOR_ONE)

    @overload
    def filter(self, predicate: Callable[[T], Coroutine[Any, Any, Any]]) -> NoStream: ...  # type: ignore[overload-overlap]  # refused

    @overload
    def filter(self, predicate: Callable[[T], object]) -> "Source[T]": ...

    def filter(self, predicate: Callable[[T], object]) -> Any:
        """Emit the elements for which the predicate holds."""
        return self._checked("filter", lambda: Filter(predicate), _SOME)

    def map_concat(self, function: Callable[[T], Iterable[U]]) -> "Source[U]":
        """Emit all that the function makes of each element, one by one."""
        return self._checked("map_concat", lambda: MapConcat(function), UNKNOWN)

    def take(self, count: int) -> "Source[T]":
        """Emit ``count`` elements, and end; a further one is not asked for.

        Raises:
            InvalidParametersError: ``count`` is below 0.
        """
        return self._checked("take", lambda: Take(count), _ONE_FOR_ONE)

    def map_async(
        self,
        function: Callable[[T], Awaitable[U]],
        at_most: int,
        *,
        is_ordered: bool = True,
        supervision: Supervision = Supervision.STOP,
    ) -> "Source[U]":
        """Emit what the function's result gives when it is awaited, for at most ``at_most`` elements at a time.

        Calls that run are cancelled, and awaited, when the run ends, and when a call before them fails; the results
        before a failed call leave first.

        Args:
            function: a coroutine function, as a rule.
            at_most: calls that run, and results that wait for the consumer, together.
            is_ordered: in the order of the elements; else as the results come.
            supervision: RESUME and RESTART drop an element whose call fails.

        Raises:
            InvalidParametersError: ``at_most`` is below 1.
            NotAwaitableError: in a run: a result cannot be awaited.
        """
        make = partial(MapAsync, function, at_most, is_ordered=is_ordered, supervision=supervision)
        return self._checked(
            "map_async", make, *([_SOME] if supervision is not Supervision.STOP else []), BufferNode(at_most)
        )

    def flat_map(
        self, function: "Callable[[T], Source[U] | AsyncIterable[U] | Iterable[U]]", at_most: int = 1
    ) -> "Source[U]":
        """Emit the elements of the streams that the function makes: one after the other, or ``at_most`` at a time.

        Raises:
            InvalidParametersError: ``at_most`` is below 1.
        """
        require_plain_stream(function)
        return self._checked("flat_map", lambda: FlatMap(function, _connect_stream, at_most), UNKNOWN)

    # Framing.

    def frames(
        self: "Source[AnyStr]", delimiter: AnyStr, max_length: int, *, allow_truncation: bool = False
    ) -> "Source[AnyStr]":
        """Emit the frames between delimiters, of bytes or text, however the stream is cut.

        Raises:
            InvalidParametersError: ``delimiter`` is empty, or ``max_length`` is below 1.
        """
        return self._checked(
            "frames", lambda: Frames(delimiter, max_length, allow_truncation=allow_truncation), UNKNOWN
        )

    def rechunk(self, rows: int, join: Callable[[Sequence[T]], T] | None = None) -> "Source[T]":
        """Emit chunks of exactly ``rows`` rows, and a smaller last one: Arrow's batches and tables, or any sequences.

        Raises:
            InvalidParametersError: ``rows`` is below 1.
        """
        return self._checked("rechunk", lambda: Rechunk(rows, join), UNKNOWN)

    # Rates.

    def buffer(
        self,
        capacity: int,
        overflow: Overflow = Overflow.BLOCK,
        *,
        when_dropped: Callable[[T], object] | None = None,
    ) -> "Source[T]":
        """Keep up to ``capacity`` elements ahead of the consumer; ``overflow`` says what gives way when it is full.

        ``when_dropped`` is called with each element that gives way, to count it or to tell its sender.

        Raises:
            InvalidParametersError: ``capacity`` is below 1.
        """
        make = partial(Buffer[T], capacity, overflow, when_dropped=when_dropped)
        return self._checked("buffer", make, BufferNode(capacity, overflow))

    def conflate(
        self,
        aggregate: Callable[[U, T], U],
        seed: Callable[[T], U] | None = None,
        *,
        supervision: Supervision = Supervision.STOP,
    ) -> "Source[U]":
        """Gather elements into one while the consumer is slower; ``seed`` makes it of the first, by default itself."""
        return self._batch("conflate", inf, lambda _: 0, seed, aggregate, supervision, ConflateNode())

    def batch(
        self,
        max_elements: int,
        aggregate: Callable[[U, T], U],
        seed: Callable[[T], U] | None = None,
        *,
        supervision: Supervision = Supervision.STOP,
    ) -> "Source[U]":
        """As ``conflate``, of at most ``max_elements``; then the source has to wait.

        Raises:
            InvalidParametersError: ``max_elements`` is below 1.
        """
        require_count(max_elements, name="max_elements")
        nodes = BufferNode(max_elements + 1), _SOME
        return self._batch("batch", max_elements, lambda _: 1, seed, aggregate, supervision, *nodes)

    def batch_weighted(
        self,
        max_weight: float,
        weigh: Callable[[T], float],
        aggregate: Callable[[U, T], U],
        seed: Callable[[T], U] | None = None,
        *,
        supervision: Supervision = Supervision.STOP,
    ) -> "Source[U]":
        """As ``batch``, up to a weight; an element that is heavier passes alone.

        Raises:
            InvalidParametersError: ``max_weight`` is not above 0.
        """
        return self._batch("batch", max_weight, weigh, seed, aggregate, supervision, BufferNode(2), _SOME)

    def _batch(
        self,
        name: str,
        max_weight: float,
        weigh: Callable[[T], float],
        seed: Callable[[T], U] | None,
        aggregate: Callable[[U, T], U],
        supervision: Supervision,
        *nodes: Node,
    ) -> "Source[U]":
        begin = seed or (lambda element: cast("U", element))
        return self._checked(name, lambda: Batch(max_weight, weigh, begin, aggregate, supervision), *nodes)

    def expand(self, extrapolate: Callable[[T], Iterable[U]]) -> "Source[U]":
        """Emit, as often as the consumer asks, what the function makes of the newest element; it may be endless."""
        return self._checked("expand", lambda: Expand(extrapolate), ExpandNode())

    def throttle(
        self,
        cost: int,
        per_seconds: float,
        *,
        burst: int | None = None,
        cost_of: Callable[[T], int] | None = None,
        mode: ThrottleMode = ThrottleMode.SHAPE,
    ) -> "Source[T]":
        """Let elements pass at a rate: ``cost`` in ``per_seconds``, and up to ``burst`` at once after a pause.

        Args:
            cost: the elements that pass in ``per_seconds``, or their costs.
            per_seconds: of the loop's clock.
            burst: by default what passes in a tenth of a second, and at least 1; 0: even the first one waits.  The loop
                wakes a waiting element about a millisecond late, and tokens beyond ``burst`` are not kept meanwhile: to
                keep a rate above some hundreds in a second, let ``burst`` be what passes in ten milliseconds or more.
            cost_of: the cost of an element; by default 1.
            mode: let early elements wait, or fail.

        Raises:
            InvalidParametersError: a number is out of its range.
        """
        make = partial(Throttle[T], cost, per_seconds, burst=burst, cost_of=cost_of, mode=mode)
        return self._checked("throttle", make, _ONE_FOR_ONE)

    def grouped_within(self, max_elements: int, seconds: float) -> "Source[list[T]]":
        """Emit lists of up to ``max_elements``: when one is full, or ``seconds`` after its first element has come.

        Raises:
            InvalidParametersError: a number is out of its range.
        """
        return self._checked(
            "grouped_within", lambda: GroupedWithin(max_elements, seconds), BufferNode(max_elements), _SOME
        )

    def idle_timeout(self, seconds: float) -> "Source[T]":
        """Fail with ``IdleTimeoutError`` if an element that was asked for does not come within ``seconds``.

        Raises:
            InvalidParametersError: ``seconds`` is not above 0.
        """
        return self._checked("idle_timeout", lambda: IdleTimeout(seconds), _ONE_FOR_ONE)

    def async_boundary(self, prefetch: int = DEFAULT_PREFETCH) -> "Source[T]":
        """Let the stages before this one run ahead, by up to ``prefetch`` elements, a power of two.

        It asks for ``prefetch`` elements at first, and for half as many whenever half of them were taken.

        Raises:
            InvalidParametersError: ``prefetch`` is not a power of two.
        """
        return self._checked("async_boundary", lambda: AsyncBoundary(prefetch), BoundaryNode(prefetch))

    def unbounded(
        self, *, alarm: int, when_alarmed: Callable[[int], object] | None = None, depth: Depth | None = None
    ) -> "Source[T]":
        """Keep any number of elements: what is before this stage is never held back, on purpose, such as in a loop.

        Memory is the only bound.  So it is told when ``alarm`` elements wait, and each time that number has doubled.

        Args:
            alarm: a number of waiting elements that is never reached if all is well.
            when_alarmed: called with the number of waiting elements; by default, a warning is logged.
            depth: tells the waiting elements, and the peak; for one run at a time.

        Raises:
            InvalidParametersError: ``alarm`` is below 1.
        """
        make = partial(Unbounded[T], alarm, when_alarmed or _warn, depth)
        return self._checked("unbounded", make, UnboundedNode(alarm))

    # Several streams.

    def merge(self, *others: "Source[T]") -> "Source[T]":
        """Emit the elements of all sources as they come."""
        return self._joined("merge", Merge, MergeNode(), *others)

    def merge_preferred(self, *others: "Source[T]") -> "Source[T]":
        """As ``merge``, but an element of this source overtakes those of the others."""
        return self._joined("merge_preferred", partial(Merge, prefers_first=True), MergePreferredNode(), *others)

    def concat(self, *others: "Source[T]") -> "Source[T]":
        """Emit the elements of this source, then those of the others, each when the one before it has ended."""
        return self._joined("concat", Concat, ConcatNode(), *others)

    def zip(self, other: "Source[U]") -> "Source[tuple[T, U]]":
        """Emit pairs, until one of the sources ends."""
        return self.zip_with(other, lambda mine, theirs: (mine, theirs))

    def zip_with(self, other: "Source[Any]", combine: Callable[[T, Any], U]) -> "Source[U]":
        """Emit ``combine`` of an element of each, until one of the sources ends."""
        Zip(combine)
        return self._joined("zip", lambda: Zip(combine), ZipNode(), other)

    def broadcast(self, branches: int) -> "tuple[Source[T], ...]":
        """Give each element to every branch, as fast as the slowest takes them.

        All branches belong to one run: join them again (``merge``, ``zip``), or open them together (``open_run``).

        Raises:
            InvalidParametersError: ``branches`` is below 1.
        """
        return self._branches("broadcast", Broadcast, BroadcastNode(), branches)

    def balance(self, branches: int) -> "tuple[Source[T], ...]":
        """Give each element to one branch: the one that has waited longest for it.

        So fast branches take more than slow ones.  All belong to one run, as for ``broadcast``.

        Raises:
            InvalidParametersError: ``branches`` is below 1.
        """
        return self._branches("balance", Balance, BalanceNode(), branches)

    def _branches(self, name: str, make: type[Stage[T, T]], node: Node, branches: int) -> "tuple[Source[T], ...]":
        require_count(branches, name="branches")
        step = Step(name, make, (node,), (self._outlet,), outlets=branches)
        return tuple(self._at(step, number) for number in range(branches))

    def via(self, make: Callable[[], Stage[T, U]], *, node: StageNode = UNKNOWN) -> "Source[U]":
        """Add a stage of your own; each run makes one.

        ``node`` tells ``blueprint_of`` how many elements it emits for how many; by default, that is not known.
        """
        require_plain(make, place="via(make)")
        return self._at(Step("stage", make, (node,), (self._outlet,)))

    def through(self, piece: Callable[["Source[T]"], U]) -> U:
        """Apply a function of a source: a reusable piece of several stages, or the end of a stream.

        It may be asynchronous: then what it returns is awaited by you.
        """
        return piece(self)

    def _joined(self, name: str, make: Callable[[], Stage[Any, U]], node: Node, *others: "Source[Any]") -> "Source[U]":
        for other in others:
            if not isinstance(other, Source):
                raise InvalidParametersError(name="another stream", value=other, rule="must be a Source(elements)")
        return self._at(Step(name, make, (node,), (self._outlet, *(other._outlet for other in others))))

    def _checked(self, name: str, make: Callable[[], Stage[Any, U]], *nodes: Node) -> "Source[U]":
        """Wrong parameters are refused here, and not when the stream runs."""
        make()
        return self._at(Step(name, make, nodes, (self._outlet,)))

    # Running.

    def open(self) -> Elements[T]:
        """The elements of a new run; needs a running event loop.  Use it in an ``async with`` block.

        Raises:
            InvalidParametersError: another branch of a broadcast is missing, or a branch is used twice.
        """
        (elements,) = elements_of(_plan([self._outlet]))
        return elements

    def __aiter__(self) -> Elements[T]:
        """Run the stream; as ``open``."""
        return self.open()

    async def run_to(self, sender: SendEnd[Any]) -> EndOutcome | None:
        """Send all elements into a channel, and end it: an element is asked for when the last one has left.

        Messages of another channel stay what they are: chunks, barriers, watermarks.  If the channel's consumer cancels
        it, the sources are closed, and that is not an error; if the channel fails, that is the call's error: at once,
        also while a source has nothing to give.  If the stream fails, or the call is cancelled, the channel is aborted;
        one that keeps the rows of a named producer stays open, and the next run goes on at ``first_row``.

        Returns:
            What ``sender.end`` returns.
        """
        try:
            async with self.open() as elements:
                await _send_all(elements, sender)
            return await sender.end()
        except BaseException as error:
            if getattr(sender, "first_row", None) is None:
                sender.abort(f"{type(error).__name__}: {error}")
            else:
                sender.close()
            raise

    async def dispatch_to(self, dispatcher: HashDispatcher[Any]) -> tuple[EndOutcome | None, ...]:
        """Send all elements by their keys into several channels, and end these; as ``run_to`` for one.

        Returns:
            What ``dispatcher.end`` returns.

        Raises:
            DispatchError: a channel takes no more; all of them were aborted.
        """
        try:
            async with self.open() as elements:
                await _send_all(elements, dispatcher)
            return await dispatcher.end()
        except BaseException as error:
            dispatcher.abort(f"{type(error).__name__}: {error}")
            raise


async def _send_all(elements: Elements[Any], sender: SendEnd[Any] | HashDispatcher[Any]) -> None:
    """Send each element when the last one has left, until none is left, or the channel's consumer has cancelled it."""
    refused = asyncio.create_task(sender.until_refused())
    reading = asyncio.timeout(None)
    is_reading = True

    def stop_reading(_: object) -> None:
        # The source may wait for what the refused messages would have led to: then it gives nothing more.
        if is_reading:
            reading.reschedule(0.0)

    try:
        async with reading:
            refused.add_done_callback(stop_reading)
            async for element in elements:
                is_reading = False
                try:
                    await _send(sender, element)
                except ChannelCancelledError:
                    return
                if refused.done():
                    break
                is_reading = True
            else:
                return
    except TimeoutError:
        if not reading.expired():
            raise
    finally:
        is_reading = False
        refused.cancel()
    error = refused.result()
    if not isinstance(error, ChannelCancelledError):
        raise error


async def _send(sender: SendEnd[Any] | HashDispatcher[Any], element: object) -> None:
    match element:
        case Message(kind=Kind.WATERMARK) if isinstance(sender, HashDispatcher):
            await sender.send_watermark(element.payload)
        case Message(kind=Kind.CHUNK) if isinstance(sender, HashDispatcher):
            await sender.send(element.payload)
        case Message(kind=Kind.BARRIER):
            await sender.send_barrier(element.payload)
        case Message(kind=Kind.WATERMARK):
            sender.send_watermark(element.payload)
        case Message() if not isinstance(sender, HashDispatcher):
            await sender.send(element.payload, element.rows)
        case _:
            await sender.send(element)


class _Made(AsyncIterable[T]):
    """Each iteration reads a new iterable."""

    def __init__(self, make: Callable[[], AsyncIterable[T] | Iterable[T]]) -> None:
        # An asynchronous generator is called, and what it returns iterated.
        self._make = make if isasyncgenfunction(make) else plain(make, place="from_iterator(make)")

    def __aiter__(self) -> AsyncIterator[T]:
        return opened(self._make())


class _Messages(AsyncIterator[Message[T]]):
    """The messages of a channel; each is consumed when the next one is asked for."""

    def __init__(self, receiver: ReceiveEnd[T]) -> None:
        self._receiver = receiver
        self._holds = False

    async def __anext__(self) -> Message[T]:
        if self._holds:
            self._holds = False
            self._receiver.consume()
        try:
            message = await self._receiver.take()
        except EndOfStream:
            raise StopAsyncIteration from None
        self._holds = True
        return message


def open_run(*sources: Source[T]) -> AbstractAsyncContextManager[tuple[Elements[T], ...]]:
    """One run of several sources, such as the branches of a broadcast: ``async with open_run(a, b) as (xs, ys)``.

    Each is consumed by a task of its own.

    Raises:
        InvalidParametersError: there is none; on entering: a branch of a broadcast is missing, or used twice.
    """
    require_count(len(sources), name="sources")
    return _opened_run(sources)


@asynccontextmanager
async def _opened_run(sources: "Sequence[Source[T]]") -> AsyncIterator[tuple[Elements[T], ...]]:
    run = tuple(elements_of(_plan([source._outlet for source in sources])))
    async with AsyncExitStack() as stack:
        for elements in run:
            await stack.enter_async_context(elements)
        yield run


def require_plain_stream(function: object) -> None:
    """Require what ``flat_map`` takes: an asynchronous generator makes a stream, a coroutine function does not."""
    if not isasyncgenfunction(function):
        require_plain(function, place="flat_map(function)", hint="map_async, then flat_map, awaits it")


class FeedbackLoop(Generic[T]):
    """The way back of a loop: its source is used before the stream that comes back exists, and ``close`` joins them::

        back = FeedbackLoop[int]()
        out, again = source.merge(back.source).broadcast(2)
        back.close(again.filter(is_unfinished))

    A loop runs on for as long as elements in it are asked for, and ends with the last stream that comes out of it.
    """

    def __init__(self, name: str = "back") -> None:
        """``name`` is for errors."""
        self._back = Back(name)
        self.source: Source[T] = Source._at(self._back)
        """The elements that come back; for one use."""

    def close(self, stream: Source[T]) -> None:
        """Let the elements of a stream come back; it comes from ``source``, by a branch of a broadcast or a balance.

        Raises:
            InvalidParametersError: it does not come from ``source``, or the loop was closed before.
        """
        if not isinstance(stream, Source):
            raise InvalidParametersError(name="stream", value=stream, rule="must be a source that comes back")
        self._back.close(stream._outlet)


def blueprint_of(*sources: Source[Any]) -> Blueprint:
    """What one run of several sources looks like, for ``check_graph``: its stages, and what joins them.

    An iterable that knows its length is a source of that many elements; any other is endless.  A stage whose
    function decides how much it emits is taken to emit anything, and a ``take`` to be a ``map``, which does not end.

    Raises:
        InvalidParametersError: as for ``open_run``, or one is not a stream.
        BlueprintError: it has too many stages.
    """
    require_count(len(sources), name="sources")
    for source in sources:
        if not isinstance(source, Source):
            raise InvalidParametersError(name="sources", value=source, rule="must be streams of permitflow.stages")
    return blueprint_before([source._outlet for source in sources])


def _warn(waiting: int) -> None:
    _log.warning("%d elements wait in an unbounded arc", waiting)


def _plan(outlets: Sequence[Outlet]) -> Plan:
    """Make the stages of a blueprint, and connect them."""
    island = Island()
    exits: list[Exit[Any]] = [Exit() for _ in outlets]
    entries, _ = connected(island, outlets, exits)
    return Plan(island, entries, exits)


def _connect_stream(island: Island, made: object, consumer: Stage[Any, Any]) -> list[Stage[Any, Any]]:
    """Add the stages of another stream to an island that runs."""
    source = made if isinstance(made, Source) else Source(cast("Iterable[Any]", made))
    entries, stages = connected(island, [source._outlet], [consumer])
    for entry, reads in entries:
        island.outside.read(entry, reads)
    return stages
