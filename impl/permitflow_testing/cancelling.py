"""Cancels an operation at each of its awaits, in turn.

The operation is cancelled at each await while it sleeps, after each message or permit that comes before it has all that
it needs; and at the moment at which it was woken and has not run yet.  It is alone, or another one waits behind it.  A
cancelled send has sent nothing, a cancelled receive has taken nothing; nothing else is lost, and who waits behind still
wakes: afterwards the channel is led by the model, for which nothing happened.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Mapping
from typing import Any, NamedTuple

from permitflow.errors import counted
from permitflow_testing import bounded
from permitflow_testing.adapter import Feature, ReceivedMessage
from permitflow_testing.bounded import SENDS, BoundedAdapter, Call, MakeBounded
from permitflow_testing.leading import Led, LedStep, steps_in_words
from permitflow_testing.moves import Divergence, Move
from permitflow_testing.outside import DONE, NOTHING, WITHDRAWN, Result, Seen, World
from permitflow_testing.rules import Outcome, Rule, Rulebook, RuleVerdict

MOST_AWAITS = 50
ONE, TWO, RECEIVE, BARRIER = Move("OfferChunk", (1,)), Move("OfferChunk", (2,)), Move("Receive"), Move("OfferBarrier")

ASLEEP, WOKEN = "asleep", "woken"
STATES = {ASLEEP: "asleep", WOKEN: "after it was woken, before it ran"}


class Operation(NamedTuple):
    """What is cancelled."""

    what: str
    moves: tuple[Move, ...]
    """Its forms; with weights, a chunk may get its permits in several portions, or all at once."""
    fill: Move | None
    """The move that is made until this one has to wait."""
    feed: Move
    """The move that causes a part of what the operation waits for."""
    behind: Move
    """The move of the one that waits behind it."""


SEND = Operation("send", (ONE, TWO), ONE, RECEIVE, ONE)
SEND_BARRIER = Operation("barrier", (BARRIER,), BARRIER, RECEIVE, BARRIER)
TAKE = Operation("receive", (RECEIVE,), None, ONE, RECEIVE)


def capacity_of(book: Rulebook, adapter: BoundedAdapter, filling: Move = ONE) -> int:
    """How many such messages fit into a chain of small channels, by the model."""
    outside = book.seen(book.plain, (1,), hops=adapter.hops)
    world, count = outside.start(), 0
    while True:
        ((seen, world), *_) = outside.make(world, filling)
        if seen.waiting:
            return count
        count += 1


class Counted:
    """An operation that counts its awaits, and tells when one of them was woken, before it runs on."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], number: int, when_woken: Callable[[], object]) -> None:
        """``when_woken`` is called at the await with this number (1: the first)."""
        self.awaits = 0
        self.was_woken = False
        self._coroutine = coroutine
        self._number = number
        self._when_woken = when_woken

    async def run(self) -> Any:
        """Run it, as a task may."""
        return await self

    def __await__(self) -> Generator[Any, Any, Any]:
        error: BaseException | None = None
        sent: Any = None
        try:
            while True:
                step = self._coroutine.send(sent) if error is None else self._coroutine.throw(error)
                sent = error = None
                try:
                    sent = yield from self._wait(step)
                except BaseException as thrown:
                    error = thrown
        except StopIteration as end:
            return end.value

    def _wait(self, awaited: Any) -> Generator[Any, Any, Any]:
        self.awaits += 1
        if self.awaits != self._number:
            return (yield awaited)
        if not asyncio.isfuture(awaited):  # it asks for a turn of the loop only: it is awake from the start
            self._woken()
            return (yield awaited)
        return (yield from _Between(awaited, self._woken).__await__())

    def _woken(self) -> None:
        self.was_woken = True
        self._when_woken()


class _Between(asyncio.Future[None]):
    """Ends one turn after the awaited future: in between, the operation was woken and has not run."""

    def __init__(self, awaited: "asyncio.Future[Any]", when_woken: Callable[[], None]) -> None:
        super().__init__(loop=awaited.get_loop())
        self._awaited = awaited
        self._when_woken = when_woken
        awaited.add_done_callback(self._end)

    def _end(self, awaited: "asyncio.Future[Any]") -> None:
        if not awaited.cancelled() and not self.done():
            self._when_woken()
        if not self.done():
            self.set_result(None)

    def cancel(self, msg: Any = None) -> bool:
        """As the operation would be cancelled without this."""
        return super().cancel(msg) if self._awaited.done() else self._awaited.cancel(msg)


class Swallowed(Divergence):
    """A cancelled send returns as if it had sent."""


def cancellations_in_words(met: Mapping[str, int], awaits: int, *, is_cut: bool = False) -> str:
    """What was cancelled, and in which state it was: only what happened."""
    where = f"at the first {awaits} awaits" if is_cut else f"at each of {counted(awaits, 'await')}"
    states = [f"{met[state]} {state}" for state in STATES if met[state]]
    missing = [f"never {state}" for state in STATES if not met[state]]
    return f"{counted(sum(met.values()), 'cancellation')} {where}: {', '.join((*states, *missing))}"


async def cancel_everywhere(operation: Operation, book: Rulebook, rule: Rule, make: MakeBounded) -> RuleVerdict:
    """Cancel at every await, asleep and woken, alone and with one behind, until a run breaks the rule."""
    met: Counter[str] = Counter()
    most_awaits, is_cut, refusal = 0, False, ""
    moves = operation.moves[:1] if Feature.WEIGHTS in make().lacks else operation.moves
    for move in moves:
        for has_next in (False, True):
            for number in range(1, MOST_AWAITS + 1):
                # Each time it gets one thing more of what it waits for, until that wakes it.
                feeds, state = 0, ASLEEP
                while state == ASLEEP:
                    one = _Cancelling(operation, move, book, make(), has_next=has_next)
                    try:
                        state = await one.cancel_at(number, feeds)
                    except Divergence as problem:
                        return one.verdict(rule, problem)
                    met[state] += 1
                    feeds += 1
                    refusal = refusal or one.refusal
                if state != WOKEN:
                    break
                most_awaits = max(most_awaits, number)
                is_cut = is_cut or number == MOST_AWAITS
    del met[""]
    if not met:
        return RuleVerdict(rule, Outcome.NOT_APPLICABLE, f"no {operation.what} ever waited, so none was cancelled")
    finding = cancellations_in_words(met, most_awaits, is_cut=is_cut)
    if refusal:
        finding += f"; a second {operation.what} at the same time is refused: {refusal}"
    return RuleVerdict(rule, Outcome.HOLDS, finding)


class _Cancelling:
    """One run: fill the channel, start the operation, let it reach an await, cancel it, and lead the channel on."""

    def __init__(
        self, operation: Operation, move: Move, book: Rulebook, adapter: BoundedAdapter, *, has_next: bool
    ) -> None:
        outside = book.seen(book.plain, (1, 2), hops=adapter.hops, lacks=adapter.lacks)
        self.led = Led(adapter, outside, book.plain)
        self._operation = operation
        self._move = move
        self._adapter = adapter
        self._has_next = has_next
        self._unit = book.unit
        self._capacity = capacity_of(book, adapter)
        self._fills = capacity_of(book, adapter, operation.fill) if operation.fill else 0
        self._state = ""
        self._awaits = 0
        self.refusal = ""
        """Why another one may not wait behind it."""
        self._led_before = 0
        """Steps before the cancellation."""
        self._made: list[tuple[Move, int, Result]] = []
        """Moves since the operation began, with the serial number of what was offered, and what came of each."""
        self._name = bounded.RECEIVE if move == RECEIVE else SENDS["barrier" if move == BARRIER else "chunk"]

    async def cancel_at(self, number: int, feeds: int) -> str:
        """Cancel at an await after this many feeds, or at its wake-up; return the state, or "" if it ends before it.

        Raises:
            Divergence: the channel does something else than the model.
        """
        task: Call | None = None
        behind: Call | None = None
        async with self.led.opened():
            for _ in range(self._fills):
                move = self._operation.fill or ONE
                self._follow(*await self._at_once(move))
            own = self.led.next_serial()
            steps = Counted(self._call(self._move, own), number, lambda: self._cancel(task, WOKEN, steps))
            task = self._adapter.begin(steps.run(), self._name)
            await self._adapter.pause()
            if self._has_next and not task.done():
                serial = self.led.next_serial()
                behind = self._adapter.begin(self._call(self._operation.behind, serial), self._name)
                await self._adapter.pause()
                if (error := self._adapter.error(behind)) is not None:
                    self.refusal = str(error)
                    return ""
                if self._operation.behind != RECEIVE:
                    self._made.append((self._operation.behind, serial, DONE))
                    self.led.note_send(serial, self._operation.behind, behind)
            try:
                await self._reach(task, steps, number, own)
                await self._feed(task, feeds, own)
                if not self._state and not task.done():
                    await self._cancel_asleep(task, steps, own)
            finally:
                has_ended = await self._adapter.give_up(task) if self._state else task.done()
            await self._judge(task, has_ended, own, behind)
            return self._state

    def verdict(self, rule: Rule, problem: Divergence) -> RuleVerdict:
        """The verdict after a run that diverges."""
        beside = ", another one waits behind it" if self._has_next else ""
        state = STATES.get(self._state, "and is not cancelled")
        what = f"a {self._operation.what}" + (" of two rows" if self._move == TWO else "")
        when = f"{what} is cancelled at its await number {self._awaits}, {state}{beside}"
        if not self._state:
            when = f"{what} waits{beside}"
        if isinstance(problem, Swallowed):
            return RuleVerdict(rule, Outcome.BREAKS, str(problem), (when,))
        if problem.__cause__ is not None:
            return RuleVerdict.raised(rule, problem.__cause__, (when,))
        steps = self.led.steps[self._led_before :]
        if not steps:
            return RuleVerdict(
                rule, Outcome.BREAKS, f"lets a {self._operation.what} sleep on", (when, f"then: {problem}")
            )
        return RuleVerdict(rule, Outcome.BREAKS, _fault(steps[-1], self._unit), (when, *steps_in_words(steps)))

    # The operation.

    def _call(self, move: Move, serial: int) -> Coroutine[Any, Any, Any]:
        match move:
            case Move("OfferChunk", (rows,)):
                return self._adapter.sending(serial, rows)
            case Move("OfferBarrier"):
                return self._adapter.sending_barrier()
        return self._adapter.taking()

    def _cancel(self, task: Call | None, state: str, steps: Counted) -> None:
        if not self._state and task is not None:
            self._state, self._awaits = state, steps.awaits
            task.cancel()

    async def _cancel_asleep(self, task: Call, steps: Counted, own: int) -> None:
        """Cancel it, if it has reason to sleep; else it is about to be woken, and cancelled then."""
        if self._waits(own):
            self._cancel(task, ASLEEP, steps)
        elif not await self._is_met(task):
            raise Divergence("what it waited for came, and it still waits")

    async def _is_met(self, task: Call) -> bool:
        """Wait until it was woken and cancelled, or has ended."""
        return bool(self._state) or await self._adapter.has_ended(task) or bool(self._state)

    async def _reach(self, task: Call, steps: Counted, number: int, own: int) -> None:
        """Let the operation reach this await, or end: feed it at each earlier one."""
        for _ in range(MOST_AWAITS):
            if self._state or task.done() or steps.awaits >= number:
                return
            if not self._waits(own):
                before = steps.awaits
                if not await self._adapter.has_ended(task) and steps.awaits == before:
                    raise Divergence("what it waited for came, and it still waits")
                continue
            await self._feed(task, 1, own)

    async def _feed(self, task: Call, feeds: int, own: int) -> None:
        """Let come what it waits for, bit by bit, as long as it waits."""
        for _ in range(feeds):
            if self._state or task.done() or not self._waits(own):
                return
            self._made.append(await self._at_once(self._operation.feed))
            await self._adapter.pause()

    async def _at_once(self, move: Move) -> tuple[Move, int, Result]:
        """Make a move that need not wait."""
        serial = 0 if move == RECEIVE else self.led.next_serial()
        call = self._adapter.begin(self._call(move, serial), bounded.RECEIVE if move == RECEIVE else SENDS["chunk"])
        if not await self._adapter.has_ended(call):
            await self._adapter.give_up(call)
            raise Divergence(f"{move!r} need not wait, and does")
        result = self._adapter.result(call)
        if move == RECEIVE:
            self._adapter.consume()
        return move, serial, result if move == RECEIVE else DONE

    # The model.

    def _follow(self, move: Move, serial: int, outcome: Result) -> None:
        if move != RECEIVE:
            self.led.offered.append(serial)
        self.led.follow(move, outcome)

    def _waits(self, own: int) -> bool:
        """Does the operation wait, by the model?"""
        led = self.led
        begun = [] if self._move == RECEIVE else [(self._move, own, DONE)]
        worlds, offered = led.worlds, list(led.offered)
        for move, serial, outcome in (*begun, *self._made):
            if move != RECEIVE:
                offered.append(serial)
            worlds = _after(led, worlds, move, outcome)
        if not worlds:
            raise Divergence("it lets come what the model does not")
        if self._move == RECEIVE:
            return all(seen.outcome == NOTHING for seen in led.outside.make_in(worlds, RECEIVE))
        return all(offered.index(own) in map(led.outside.number, world.hops[0].waiting) for world in worlds)

    async def _judge(self, task: Call, has_ended: bool, own: int, behind: Call | None) -> None:
        """Has the operation done all or nothing, and does the channel go on as the model does?"""
        if not has_ended:
            raise Swallowed(self._adapter.habits.faults[self._name])
        if not self._state:
            return  # nothing was cancelled: other rules judge what was seen
        made = list(self._made)
        if not task.cancelled():
            if (error := task.exception()) is not None:
                raise Divergence(f"it raises {error!r}") from error
            if self._move == RECEIVE:
                self._adapter.consume()
                made.append((RECEIVE, 0, task.result()))
            else:
                if self._waits(own):
                    raise Swallowed(
                        f"swallows a cancellation: its cancelled {self._name} returns as if it had been sent"
                    )
                made.insert(0, (self._move, own, DONE))
        if self._has_next and self._operation.behind == RECEIVE and behind is not None:
            made += await self._taken_behind(behind, made)
        for one in made:
            self._follow(*one)
        await self._check_rest()

    async def _taken_behind(self, behind: Call, made: list[tuple[Move, int, Result]]) -> list[tuple[Move, int, Result]]:
        """What the receive that waits behind gets: the message that the other has left, or the next one."""
        fed: list[tuple[Move, int, Result]] = []
        if sum(1 if move == ONE else -1 for move, *_ in made) == 0:
            fed = [await self._at_once(ONE)]
        if not await self._adapter.has_ended(behind):
            raise Divergence("a message is here, and the receive that waits behind sleeps on")
        received = self._adapter.result(behind)
        self._adapter.consume()
        return [*fed, (RECEIVE, 0, received)]

    async def _check_rest(self) -> None:
        """Exactly the sent messages are received, and the channel has as much room as before."""
        led = self.led
        self._led_before = len(led.steps)
        while isinstance(seen := (await led.make(RECEIVE)).seen, Seen) and seen.outcome != NOTHING:
            pass
        for _ in range(self._capacity + 1):
            await led.make(ONE)


def _fault(last: LedStep, unit: str) -> str:
    """What went wrong, by the step that the model does not allow."""
    seen, expected = last.seen, last.expected
    if isinstance(seen, Seen) and expected:
        is_received = isinstance(seen.outcome, ReceivedMessage)
        if isinstance(seen.outcome, ReceivedMessage) and seen.outcome.value == WITHDRAWN:
            return "has sent a chunk although its send was cancelled"
        if seen.outcome == NOTHING and all(one.outcome != NOTHING for one in expected):
            return "loses a message"
        if is_received and all(one.outcome == NOTHING for one in expected):
            return "hands over a message that was handed over before"
        if len(seen.waiting) > max(len(one.waiting) for one in expected):
            return f"loses {unit}"
        if len(seen.waiting) < min(len(one.waiting) for one in expected):
            return f"has {unit} too many"
    return "does something else than the model afterwards"


def _after(led: Led, worlds: tuple[World, ...], move: Move, outcome: Result) -> tuple[World, ...]:
    """The worlds after a move that somebody else has made, with any message of this kind and size."""
    possible = led.outside.make_in(worlds, move)
    return tuple(world for seen, after in possible.items() if _is_alike(seen.outcome, outcome) for world in after)


def _is_alike(one: Result, other: Result) -> bool:
    if isinstance(one, ReceivedMessage) and isinstance(other, ReceivedMessage):
        return (one.kind, one.rows) == (other.kind, other.rows)
    return one == other
