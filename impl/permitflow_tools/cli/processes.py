"""An exchange of several processes, as ``permitflow serve --processes`` has it; this process is its door.

Each of the others has some of the channels, and a port of its own.  The door has no channel: it tells clients where
to find one, passes control requests on, and merges the answers.
"""

import asyncio
import logging
import os
import signal
import socket
import sys
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial, reduce
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any, Protocol, TypeVar

from permitflow.cancelling import cancel_all
from permitflow.carriers.addresses import parsed, written
from permitflow.errors import (
    InvalidParametersError,
    MovedError,
    PeerGoneError,
    PeerTimeoutError,
    PermitflowError,
    UnknownChannelError,
)
from permitflow.exchange.access import Access
from permitflow.exchange.administration import Change
from permitflow.exchange.draining import Remainder, drain
from permitflow.exchange.limits import Limits
from permitflow.exchange.registry import Exchange
from permitflow.flows.permits.parameters import ONCE_PARAMETERS
from permitflow.flows.seam import Parameters
from permitflow.lasting import lasting_task
from permitflow.metrics import ExchangeCollector, ExchangeFigures
from permitflow.names import require_once_each
from permitflow.patience import patience
from permitflow.stream.control import (
    AddStream,
    AskChannels,
    AskPositions,
    AskStatistics,
    Channels,
    ChannelState,
    ControlReply,
    ControlRequest,
    ListedChannel,
    Purge,
    RemoveChannels,
    ResetChannels,
    Retention,
    Right,
)
from permitflow.stream.divided_control import about, merged
from permitflow.stream.traffic import SILENT, ChannelTraffic, Statistics
from permitflow_tools.cli.logs import LogLevel
from permitflow_tools.cli.one_process import Begun, Line, Order, OrderOutcome, ProcessShare
from permitflow_tools.cli.serve_reports import in_words

_log = logging.getLogger(__name__)

T = TypeVar("T")

_MAIN = "from permitflow_tools.cli.one_process import main; main"
# Python and its libraries are loaded meanwhile, on a busy machine.
_LONGEST_START_SECONDS = 60.0
_LONGEST_ORDER_SECONDS = 30.0
# Less than the patience of who asks: a client, then a scraper.
_LONGEST_ANSWER_SECONDS = 8.0
_LONGEST_LOOK_SECONDS = 3.0
# One that has not answered for so long hangs; it is asked each second.
_HANGS_SECONDS = 8.0
_BETWEEN_LOOKS_SECONDS = 1.0
# One that has hung for so long is killed, so that it can be started again; its streams are over by then.
_LEAST_HANGING_SECONDS = 60.0
# What makes more starts of one process necessary within this time does not go away by itself.
_MOST_STARTS = 5
_STARTS_SECONDS = 600.0
_BETWEEN_STARTS_SECONDS = 1.0
# What was refused, such as a port that is in use, goes away once somebody has done something.
_BETWEEN_REFUSALS_SECONDS = 5.0
_LONGEST_ANSWER_OF_HANGING_SECONDS = 1.0
# What is drained, and told to stop, has only to leave.
_LONGEST_EXIT_SECONDS = 5.0


class Losses(Protocol):
    """Who is told of processes that end by themselves."""

    def process_lost(self, number: int, end: str, channels: Sequence[str]) -> None:
        """One has ended, in these words, and what was in its channels is lost; it is started again."""

    def process_started(self, number: int) -> None:
        """It serves its channels again, as broken ones."""

    def processes_given_up(self, reason: str) -> None:
        """None is started any more, and the exchange ends."""


class Child(Protocol):
    """As ``asyncio.subprocess.Process``."""

    @property
    def returncode(self) -> int | None:
        """None: it still runs."""
        ...

    async def wait(self) -> int:
        """Until it has ended; its exit code."""
        ...

    def kill(self) -> None:
        """End it at once."""


async def child_process(end: socket.socket) -> Child:
    """Another process of this program, which serves what is said at the other end of this socket."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-c", f"{_MAIN}({end.fileno()})"),
        pass_fds=(end.fileno(),),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        start_new_session=True,  # Ctrl-C is for the door
    )


class _Process:
    """One of the others, as the door knows it."""

    def __init__(
        self,
        number: int,
        share: ProcessShare,
        start: Callable[[socket.socket], Awaitable[Child]],
        on_lost: Callable[["_Process"], None],
        on_hanging: Callable[["_Process"], None],
    ) -> None:
        self.who = f"process {number} of the exchange"
        self.number = number
        self.channels: dict[str, AddStream[Any] | None] = dict.fromkeys(share.channels)
        """What has added each of them; None: it was there from the beginning."""
        for request, names in share.added:
            self.channels.update(dict.fromkeys(names, request))
        self._share = share
        serving = share.serving
        over = serving["silence_seconds"] + serving["resume_seconds"]
        self._most_hanging_seconds = max(_LEAST_HANGING_SECONDS, over)
        self.is_lost = False
        self.hangs = False
        """It does not answer."""
        self._start, self._on_lost, self._on_hanging = start, on_lost, on_hanging
        self._numbers = count()
        self._awaited: dict[int, asyncio.Future[Any]] = {}
        self._is_stopping = False
        self._end = ""
        """What it has said of its end, or why it was killed."""
        self._child: Child | None = None
        self._line: Line | None = None
        self._tasks: Sequence[asyncio.Task[None]] = ()

    async def begin(self) -> None:
        """Start it; it listens then.  It must be left, also if this fails.

        Raises:
            PermitflowError: it cannot serve its share.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._child = await self._start(theirs)
            except BaseException:
                ours.close()
                raise
        line = self._line = await Line.over(ours)
        await line.write(self._share)
        try:
            async with patience(_LONGEST_START_SECONDS):
                begun = await line.read()
        except TimeoutError:
            raise PeerTimeoutError(
                who=self.who, reason=f"it was not ready within {_LONGEST_START_SECONDS:g} s"
            ) from None
        if isinstance(begun, Exception):
            raise begun
        if not isinstance(begun, Begun):
            raise PeerGoneError(who=self.who, reason=f"it ended before it was ready ({await self.ending()})")
        self.port, self.most_bytes, self.before_streams_bytes = begun
        self._tasks = (
            asyncio.create_task(self._hear(line), name=f"hearing {self.who}"),
            lasting_task(self._look(), name=f"looking at {self.who}"),
        )

    async def _hear(self, line: Line) -> None:
        try:
            await self._hear_outcomes(line)
        except Exception as error:
            self._kill(f"an answer of it cannot be read: {_in_words(error)}")
        self.is_lost = True
        for awaited in self._awaited.values():
            if not awaited.done():
                awaited.set_exception(self.loss("what was asked with it"))
        if not self._is_stopping:
            self._on_lost(self)

    async def _hear_outcomes(self, line: Line) -> None:
        while isinstance(answer := await line.read(), OrderOutcome):
            awaited = self._awaited.pop(answer.number, None)
            if awaited is None or awaited.done():  # it was too late
                continue
            if isinstance(answer.outcome, Exception):
                awaited.set_exception(answer.outcome)
            else:
                awaited.set_result(answer.outcome)
        if isinstance(answer, Exception):
            self._end = _in_words(answer)

    async def _look(self) -> None:
        """Find out whether it hangs, until it is lost; end it if it does so for long."""
        silent_seconds = 0.0
        while silent_seconds < self._most_hanging_seconds:
            try:
                await self.ask("live", seconds=_HANGS_SECONDS)
                silent_seconds = 0.0
            except PeerTimeoutError:
                silent_seconds += _HANGS_SECONDS
            except PeerGoneError:
                return
            if (hangs := silent_seconds > 0) is not self.hangs:
                self.hangs = hangs
                self._on_hanging(self)
            await asyncio.sleep(_BETWEEN_LOOKS_SECONDS)
        self._kill_hanging()

    def as_unseen(self, name: str, default: Parameters) -> ListedChannel[Any]:
        """How a channel of it is told of until it is started again, or while it does not answer."""
        traffic = ChannelTraffic(
            channel=name,
            state=ChannelState.BROKEN if self.is_lost else SILENT,
            reason=f"{self.who} {'has ended, and is not started again yet' if self.is_lost else 'does not answer'}",
            window_rows=None,
            producers=0,
            consumers=0,
            rows_in=0,
            rows_out=0,
            rows_held=0,
            peak_rows_held=0,
            rows_with_consumers=0,
            waiting_seconds=0.0,
            consumer_waiting_seconds=0.0,
        )
        added = self.channels[name]
        return ListedChannel(
            traffic=traffic,
            retention=Retention.ONCE,
            parameters=(added and added.parameters) or default,
            schema=added and added.schema,
        )

    @property
    def answer_seconds(self) -> float:
        """How long to wait for its answer to a question."""
        return _LONGEST_ANSWER_OF_HANGING_SECONDS if self.hangs else _LONGEST_ANSWER_SECONDS

    async def ask(self, name: str, argument: object = None, *, seconds: float | None = _LONGEST_ORDER_SECONDS) -> Any:
        """Have an order carried out; None: wait until it is, or the process is lost.

        Raises:
            PeerGoneError: the process has ended, or does not answer.
            PermitflowError: the order was refused.
        """
        if self.is_lost or self._line is None:
            raise self.loss("what was asked with it")
        number = next(self._numbers)
        awaited = self._awaited[number] = asyncio.get_running_loop().create_future()
        try:
            async with patience(seconds):
                await self._line.write(Order(number, name, argument))
                return await awaited
        except PermitflowError:  # some are TimeoutErrors
            raise
        except TimeoutError:
            raise PeerTimeoutError(who=self.who, reason=f"no answer within {seconds:g} s") from None
        finally:
            self._awaited.pop(number, None)

    def loss(self, what: str) -> PeerGoneError:
        """The error that a lost process leaves behind."""
        return PeerGoneError(who=self.who, reason=f"it has ended, and {what}")

    async def stop(self) -> tuple[Statistics, Remainder]:
        """End its streams; its last numbers."""
        self._is_stopping = True
        return await self.ask("stop")  # type: ignore[no-any-return]

    async def ending(self) -> str:
        """How it has ended, in words; it must have been left."""
        assert self._child is not None, "it has begun"
        with suppress(TimeoutError):
            async with asyncio.timeout(_LONGEST_EXIT_SECONDS):
                await self._child.wait()
        code = self._child.returncode
        if self._end:
            return self._end
        if code is None:
            return "it still runs"
        return f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"

    async def kill(self) -> None:
        """End it, because it does not answer; it is noted as lost then."""
        self._kill_hanging()
        await asyncio.wait(self._tasks)

    def _kill_hanging(self) -> None:
        self._kill("it did not answer, and was killed")

    def _kill(self, reason: str) -> None:
        assert self._child is not None, "it has begun"
        self._end = reason
        with suppress(ProcessLookupError):
            self._child.kill()

    def again(self, end: str, door_port: int) -> ProcessShare:
        """The share of the process that takes the place of this one, which has ended in these words."""
        added: dict[int, tuple[AddStream[Any], list[str]]] = {}
        for name, request in self.channels.items():
            if request is not None:
                added.setdefault(id(request), (request, []))[1].append(name)
        return replace(
            self._share,
            address=written(parsed(self._share.address, least_port=0)._replace(port=self.port)),
            channels=tuple(name for name, request in self.channels.items() if request is None),
            added=tuple(added.values()),
            door_port=door_port,
            loss=f"{self.who} has ended ({end}), and what was in its channels is lost",
        )

    async def leave(self) -> None:
        """Hang up, and see that it ends."""
        self._is_stopping = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._line is not None:
            self._line.close()
        if self._child is not None:
            await self.ending()
            if self._child.returncode is None:
                self._child.kill()
                await self._child.wait()


class Processes:
    """All processes of an exchange.  It begins with ``begin``, and must be closed."""

    def __init__(
        self,
        number: int,
        channels: Sequence[str],
        address: str,
        *,
        settings: Mapping[str, Any],
        limits: Limits,
        serving: Mapping[str, Any],
        rights: Path | None,
        token_file: Path | None,
        log_level: LogLevel | None,
        losses: Losses,
        start: Callable[[socket.socket], Awaitable[Child]] = child_process,
    ) -> None:
        """Start nothing yet.

        Args:
            number: of processes that have channels.
            channels: their names; the processes get them by turns.
            address: of the door.  With a port, the others have those that follow.
            settings: of the ``Exchange`` of each.
            limits: of each; the memory is that of all, and suffices for each.
            serving: arguments of the ``ExchangeServer`` of each.
            rights: as for ``AccessControl``.
            token_file: likewise.
            log_level: of each; None: warnings.
            losses: hears of processes that end by themselves.
            start: begins one, which serves what is said at the other end of a socket.
        """
        self.most_memory = limits.max_memory
        self.exchange = Exchange(limits=replace(limits, max_memory=None), elsewhere=self, **settings)
        """The door's own, which has no channel."""
        before = self.exchange.admission.memory.before_streams_bytes
        share = None if self.most_memory is None else (self.most_memory - before) // number
        where = parsed(address, least_port=0)
        shares = [
            ProcessShare(
                channels=tuple(channels[position::number]),
                address=written(where._replace(port=where.port + position + 1 if where.port else 0)),
                settings=settings,
                limits=replace(limits, max_memory=share),
                serving=serving,
                rights=rights,
                token_file=token_file,
                log_level=log_level,
            )
            for position in range(number)
        ]
        self._told, self._start = losses, start
        self._default: Parameters = settings.get("parameters") or ONCE_PARAMETERS
        self._processes = [self._process(number, share) for number, share in enumerate(shares, 1)]
        self._owners: dict[str, _Process] = {}
        self._names = tuple(channels)
        self._adding: dict[str, _Process] = {}
        """The names of channels that a process was told to add, and has not answered."""
        self._orders = set[asyncio.Task[Any]]()
        self._port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._lost = set[int]()
        self._losses = 0
        self._started_at: Mapping[int, deque[float]] = defaultdict(lambda: deque(maxlen=_MOST_STARTS))
        """By the number of a process: its last starts."""
        self._telling, self._starting = set[asyncio.Task[None]](), set[asyncio.Task[None]]()
        self._is_ending = False

    def _process(self, number: int, share: ProcessShare) -> _Process:
        return _Process(number, share, self._start, self._note_lost, self._note_hanging)

    @property
    def has_failed(self) -> bool:
        """See ``Whole``: a process is lost."""
        return bool(self._lost)

    async def aclose(self) -> None:
        """End all processes."""
        await cancel_all(*self._orders)
        await self._end_starting()
        await cancel_all(*self._telling)
        async with asyncio.TaskGroup() as group:
            for process in self._processes:
                group.create_task(process.leave())

    async def begin(self, on_over: Callable[[], None]) -> None:
        """Start the processes; ``on_over`` is called when so many are lost that the exchange must end.

        Raises:
            PermitflowError: one of them cannot serve its share.
        """
        self._on_over = on_over
        try:
            async with asyncio.TaskGroup() as group:
                for process in self._processes:
                    group.create_task(process.begin())
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None
        owners = {name: process for process in self._processes for name in process.channels}
        self._owners = {name: owners[name] for name in self._names}

    async def opened(self, address: str) -> None:
        """The door can be dialled; tell the others where."""
        self._port.set_result(port := parsed(address).port)
        await self._gathered(process.ask("know", port) for process in self._processes)

    @property
    def names(self) -> Sequence[str]:
        """The names of the channels that processes have, in the order of adding."""
        return [*self._owners]

    @property
    def most_bytes(self) -> int:
        """As ``Exchange.most_bytes``, of all processes."""
        return sum(process.most_bytes or 0 for process in self._processes)

    @property
    def before_streams_bytes(self) -> int:
        """As ``Memory.before_streams_bytes``, of all processes and the door."""
        door = self.exchange.admission.memory.before_streams_bytes
        return door + sum(process.before_streams_bytes for process in self._processes)

    # What clients ask of the door.

    @property
    def known(self) -> Collection[str]:
        """See ``Elsewhere``."""
        return self._owners.keys()

    def missing(self, channel: str) -> PermitflowError:
        """See ``Elsewhere``."""
        process = self._owners.get(channel)
        if process is None:
            return UnknownChannelError(channel=channel, known=tuple(self._owners))
        what = f"channel {channel!r}"
        if process.is_lost:
            return process.loss(f"{what} is not served until it was started again")
        return MovedError(what=what, port=process.port)

    async def carry_out(self, request: ControlRequest, access: Access) -> ControlReply[Any]:
        """See ``Elsewhere``.

        Questions and orders go to all processes concerned.  All of these check an order before the first one changes
        something.

        Raises:
            PeerGoneError: the process of one of the channels has ended.  If it has ended just now, or a channel is used
                just now, the other processes may have carried the order out.
        """
        try:
            if isinstance(request, AskStatistics | AskChannels):
                return await self._ask_about(request, access)
            return await self._carry_out_whole(request)
        except MovedError:  # a process had the channel when it was asked; another order has removed it since
            if not request.named:
                return await self.carry_out(request, access)
            gone = next((name for name in request.named if name not in self._owners), request.named[0])
            raise UnknownChannelError(channel=gone, known=tuple(self._owners)) from None

    async def _carry_out_whole(self, request: ControlRequest) -> ControlReply[Any]:
        # It goes on even if its client leaves, or hears that it takes too long: the door must know what has become of
        # the channels.
        order = asyncio.create_task(self._order(request))
        self._orders.add(order)
        order.add_done_callback(self._forget_order)
        try:
            async with patience(_LONGEST_ORDER_SECONDS):
                return await asyncio.shield(order)
        except PermitflowError:  # some are TimeoutErrors
            raise
        except TimeoutError:
            who = next((each.who for each in self._processes if each.hangs), "the exchange")
            raise PeerTimeoutError(who=who, reason=f"no answer within {_LONGEST_ORDER_SECONDS:g} s") from None

    def _forget_order(self, order: asyncio.Task[Any]) -> None:
        self._orders.discard(order)
        if not order.cancelled():
            order.exception()  # taken, else the loop logs that of an order whose client has given up

    async def _ask_about(self, request: AskStatistics | AskChannels, access: Access) -> ControlReply[Any]:
        require_once_each(names := request.channels)
        # Who asks for the counts of a channel by its name acts on them: an error is better than none.
        may_be_silent = not names or isinstance(request, AskChannels)
        if not names:
            sees = access.sees if isinstance(request, AskStatistics) else partial(access.allows, Right.ADMINISTER)
            names = request.portion_of(self.names if access.is_open else [name for name in self.names if sees(name)])
        request = replace(request, channels=names)
        asked: dict[_Process, list[str]] = {}
        for name in names:
            if (process := self._owners.get(name)) is None:
                raise self.missing(name)
            asked.setdefault(process, []).append(name)

        async def answer(process: _Process, some: Sequence[str]) -> ControlReply[Any]:
            if not (process.is_lost or (may_be_silent and process.hangs)):
                part, seconds = about(request, some), process.answer_seconds
                try:
                    return await process.ask("carry_out", part, seconds=seconds)  # type: ignore[no-any-return]
                except PeerGoneError:
                    if not may_be_silent:
                        raise
            # Another order may have removed one just before.
            return reply(process.as_unseen(name, self._default) for name in some if name in process.channels)

        def reply(unseen: Iterable[ListedChannel[Any]]) -> ControlReply[Any]:
            if isinstance(request, AskChannels):
                return Channels(tuple(unseen))
            return Statistics(monotonic(), tuple(each.traffic for each in unseen))

        replies = await asyncio.gather(*map(answer, asked, asked.values()))
        return merged([*replies, reply(())], names, monotonic())

    async def _order(self, request: ControlRequest) -> ControlReply[Any]:
        if isinstance(request, AddStream):
            return await self._add(request)
        if len(owners := {self._owner(name) for name in request.named}) > 1:
            if not isinstance(request, RemoveChannels | ResetChannels | Purge):
                return await self._order(AskPositions(request.named[:1]))  # refused: no channel here keeps its rows
            return await self._change(request, owners)
        process = next(iter(owners), self._processes[0])
        return await self._carry_out_in(process, request)

    async def _change(self, request: Change, owners: Iterable[_Process]) -> ControlReply[Any]:
        parts = {process: about(request, process.channels) for process in owners}
        checks = (process.ask("check", part, seconds=process.answer_seconds) for process, part in parts.items())
        await asyncio.gather(*checks)
        replies: list[ControlReply[Any]] = []
        # All are heard, even after an error: the door must know what has become of the channels.
        carried_out = (self._carry_out_in(process, part) for process, part in parts.items())
        for reply in await asyncio.gather(*carried_out, return_exceptions=True):
            if isinstance(reply, BaseException):
                raise reply
            replies.append(reply)
        return merged(replies, request.channels, monotonic())

    async def _carry_out_in(self, process: _Process, request: ControlRequest) -> ControlReply[Any]:
        reply: ControlReply[Any] = await process.ask("carry_out", request, seconds=None)
        if isinstance(request, RemoveChannels):
            for name in request.channels:
                self._owners.pop(name, None)
                process.channels.pop(name, None)
        return reply

    async def _add(self, request: AddStream[Any]) -> ControlReply[Any]:
        if request.retention is not Retention.ONCE:
            rule = "is not served by an exchange of several processes: start one with --processes 1"
            raise InvalidParametersError(name="retention", value=request.retention.value, rule=rule)
        for name in request.named:
            if name in self._owners:
                raise InvalidParametersError(name="channel", value=name, rule="must be a name that is not in use")
            if (process := self._adding.get(name)) is not None:
                rule = f"must be a name that no other order adds just now: {process.who} has not answered it yet"
                raise InvalidParametersError(name="channel", value=name, rule=rule)
        living = [process for process in self._processes if not process.is_lost]
        if not living:
            raise self._processes[0].loss("all the others with it")
        added = Counter(self._adding.values())
        process = min(living, key=lambda each: (each.hangs, len(each.channels) + added[each]))
        self._adding.update(dict.fromkeys(request.named, process))
        try:
            reply: ControlReply[Any] = await process.ask("carry_out", request, seconds=None)
        finally:
            for name in request.named:
                del self._adding[name]
        for name in request.named:
            self._owners[name] = process
            process.channels[name] = request
        return reply

    def _owner(self, name: str) -> _Process:
        process = self._owners.get(name)
        if process is None or process.is_lost:
            raise self.missing(name)
        return process

    # What the command asks.

    async def traffic(self) -> Statistics:
        """The statistics of all channels that processes have."""
        return Statistics(monotonic(), tuple((await self.figures()).channels))

    async def figures(self) -> ExchangeFigures:
        """The figures of the door, and of all processes that answer soon."""
        answers = await self._gathered(
            process.ask("figures", seconds=_LONGEST_LOOK_SECONDS) for process in self._processes if not process.hangs
        )
        channels, whole = reduce(ExchangeFigures.plus, answers, await ExchangeFigures.of(self.exchange))
        found = {each.channel: each for each in channels}
        for name, process in self._owners.items():
            if process.is_lost:
                found[name] = process.as_unseen(name, self._default).traffic
        # Of memory the door has its share beside those of the processes.
        own = {"memory_limit_bytes": self.most_memory, "lost_processes": self._losses}
        return ExchangeFigures([found[name] for name in self._owners if name in found], {**whole, **own})

    def collector(self) -> ExchangeCollector:
        """For Prometheus."""
        return ExchangeCollector(self.exchange, self.figures)

    async def drain(self, seconds: float) -> None:
        """As ``exchange.draining.drain``, in all processes at once; one that does not answer is killed."""
        await self._end_starting()
        await asyncio.gather(
            drain(self.exchange, seconds), *(self._drain(process, seconds) for process in self._processes)
        )
        if self._telling:
            await asyncio.wait(self._telling)

    async def _drain(self, process: _Process, seconds: float) -> None:
        try:
            await process.ask("drain", seconds, seconds=seconds + _LONGEST_ANSWER_SECONDS)
        except PeerTimeoutError:
            await process.kill()
        except PeerGoneError:
            pass

    async def stop(self) -> tuple[Statistics, Remainder]:
        """End all streams; the last numbers."""
        found = await self._gathered(process.stop() for process in self._processes)
        at_seconds, left = monotonic(), Remainder({}, {})
        for _, rest in found:
            left.stored.update(rest.stored)
            left.lost.update(rest.lost)
        told = {each.channel: each for statistics, _ in found for each in statistics.channels}
        return Statistics(at_seconds, tuple(told[name] for name in self._owners if name in told)), left

    async def _gathered(self, asked: Iterable[Any]) -> list[Any]:
        """The answers of those that give one; the others are lost, or hang."""
        answers = await asyncio.gather(*asked, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, PeerGoneError):
                raise answer
        return [answer for answer in answers if not isinstance(answer, BaseException)]

    def _note_hanging(self, process: _Process) -> None:
        self._note_whole()
        if process.hangs:
            _log.warning("%s has not answered for %g s: %s", process.who, _HANGS_SECONDS, in_words(process.channels))
        else:
            _log.warning("%s answers again: %s", process.who, in_words(process.channels))

    def _note_whole(self) -> None:
        self.exchange.readiness.note_whole(not any(each.is_lost or each.hangs for each in self._processes))

    def _note_lost(self, process: _Process) -> None:
        self._lost.add(process.number)
        self._losses += 1
        self._note_whole()
        _begin(self._tell_lost(process), self._telling, f"the end of {process.who}")

    async def _tell_lost(self, lost: _Process) -> None:
        end = await lost.ending()
        await lost.leave()
        self._told.process_lost(lost.number, end, [*lost.channels])
        if not self._is_ending:
            _begin(self._start_again(lost, end), self._starting, f"starting {lost.who} again")

    async def _start_again(self, lost: _Process, end: str) -> None:
        """Start another process in the place of one that has ended, until it serves the same channels.

        A refusal is not counted: all of the exchange would be refused, too, and the other channels keep their rows.
        """
        share = lost.again(end, await self._port)
        is_refused = False
        while is_refused or self._may_start(lost):
            process = self._process(lost.number, share)
            try:
                await process.begin()
            except Exception as error:
                _log.warning("%s cannot be started again: %s", lost.who, _in_words(error))
                await process.leave()
                # Else it has died, or a fault of ours has ended it.
                is_refused = isinstance(error, PermitflowError | OSError) and not isinstance(error, PeerGoneError)
                await asyncio.sleep(_BETWEEN_REFUSALS_SECONDS if is_refused else _BETWEEN_STARTS_SECONDS)
                continue
            except BaseException:
                await process.leave()
                raise
            self._processes[lost.number - 1] = process
            self._owners.update(dict.fromkeys(process.channels, process))
            self._lost.discard(lost.number)
            self._note_whole()
            self._told.process_started(lost.number)
            return

    def _may_start(self, lost: _Process) -> bool:
        """Count a start of this process; end the exchange instead if there were too many."""
        starts, now = self._started_at[lost.number], asyncio.get_running_loop().time()
        if len(starts) < _MOST_STARTS or starts[0] < now - _STARTS_SECONDS:
            starts.append(now)
            return True
        if not self._is_ending:
            self._is_ending = True
            times = f"{_MOST_STARTS} times within {_STARTS_SECONDS / 60:g} minutes"
            self._told.processes_given_up(f"{lost.who} was started again {times}")
            self._on_over()
        return False

    async def _end_starting(self) -> None:
        """Start no process any more."""
        self._is_ending = True
        await cancel_all(*self._starting)


def _in_words(error: Exception) -> str:
    return str(error) if isinstance(error, PermitflowError) else repr(error)


def _begin(work: Coroutine[object, object, None], tasks: set[asyncio.Task[None]], name: str) -> None:
    tasks.add(task := lasting_task(work, name=name))
    task.add_done_callback(tasks.discard)
