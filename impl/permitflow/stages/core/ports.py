"""Connections between stages, and the island that runs them; no I/O, no clock: ``now`` is an argument.

A connection joins the outlet of one stage to the inlet of the next.  An element moves only when it was asked for::

    inlet.pull()  ->  on_pull  ->  outlet.push(element)  ->  on_push  ->  inlet.grab()

Calls do not run the other stage: they put an event into the island's queue, and the island runs the handlers one after
the other, so that a long chain needs no deep stack.  Names and rules are those of Pekko's GraphInterpreter.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Set
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

from permitflow.errors import LocalProtocolError

A = TypeVar("A")
B = TypeVar("B")
T = TypeVar("T")

# Exactly one of the first four holds: where the only token of a connection is.
IN_READY: Final = 1
"""The inlet may pull."""
PULLING: Final = 2
"""A pull is on its way to the outlet."""
PUSHING: Final = 4
"""An element is on its way to the inlet."""
OUT_READY: Final = 8
"""The outlet may push."""
IN_CLOSED: Final = 16
"""The inlet has cancelled, or has seen the end."""
OUT_CLOSED: Final = 32
"""The outlet has completed or failed, or has seen the cancellation."""
IN_FAILED: Final = 64
"""The outlet has failed."""

_PULL_START: Final = IN_READY | PULLING
_PULL_END: Final = PULLING | OUT_READY
_PUSH_START: Final = OUT_READY | PUSHING
_PUSH_END: Final = PUSHING | IN_READY
_CLOSED: Final = IN_CLOSED | OUT_CLOSED
_PULLABLE: Final = IN_READY | _CLOSED
_ASKABLE: Final = IN_READY | IN_CLOSED
_PUSHABLE: Final = OUT_READY | _CLOSED
_LIVE_PULL: Final = PULLING | _CLOSED
_LIVE_PUSH: Final = PUSHING | _CLOSED


class _Empty:
    """The type of ``EMPTY``."""

    def __repr__(self) -> str:
        return "EMPTY"


EMPTY: Final[Any] = _Empty()
"""No element; every other object, None too, can be one."""


class Connection(Generic[T]):
    """An outlet and the inlet that it feeds: at most one pull or one element is between them.

    A call that breaks the rules raises ``LocalProtocolError`` and changes nothing.
    """

    __slots__ = ("_queue", "consumer", "element", "failure", "producer", "state")

    def __init__(self, producer: "Stage[Any, T]", consumer: "Stage[T, Any]", queue: "deque[Connection[Any]]") -> None:
        """``queue`` takes the connections that have an event."""
        self._queue = queue
        self.producer = producer
        self.consumer = consumer
        self.state: int = IN_READY
        self.element: T = EMPTY
        """The element on its way, or arrived and not grabbed."""
        self.failure: BaseException | None = None

    # The inlet's side.

    @property
    def is_available(self) -> bool:
        """Can the inlet grab an element?  Also after the end, if it has not grabbed the last one."""
        return self.state & IN_READY != 0 and self.element is not EMPTY

    @property
    def has_been_pulled(self) -> bool:
        """Has the inlet asked for an element that has not arrived?"""
        return not self.state & (IN_READY | IN_CLOSED)

    @property
    def is_in_closed(self) -> bool:
        """Has the inlet cancelled, or seen the end?"""
        return self.state & IN_CLOSED != 0

    def pull(self) -> None:
        """Ask for an element.  An element that was not grabbed is dropped.

        Raises:
            LocalProtocolError: the inlet is closed, or has already asked.

        Spec: Pull of PortMachine.
        """
        state = self.state
        if state & _PULLABLE == IN_READY:
            self.state = state ^ _PULL_START
            self.element = EMPTY
            self._queue.append(self)
            return
        if state & IN_CLOSED:
            raise LocalProtocolError("pull: this inlet is closed; look at is_in_closed first")
        if not state & IN_READY:
            raise LocalProtocolError("pull: this inlet has already asked; look at has_been_pulled first")
        # The end is on its way: nobody will answer, and the inlet need not know yet.
        self.state = state ^ _PULL_START
        self.element = EMPTY

    def grab(self) -> T:
        """Take the element that has arrived.

        Raises:
            LocalProtocolError: no element is here, or it was already taken.

        Spec: Grab of PortMachine.
        """
        element = self.element
        if element is EMPTY or not self.state & IN_READY:
            raise LocalProtocolError("grab: no element is here; look at is_available first")
        self.element = EMPTY
        return element

    def cancel(self) -> None:
        """Ask for nothing any more; elements on their way are dropped.  Has no effect after the end.

        Spec: Cancel of PortMachine.
        """
        state = self.state
        self.state = state | IN_CLOSED
        if state & IN_CLOSED:
            return
        self.element = EMPTY
        if not state & (OUT_CLOSED | PULLING | PUSHING):
            self._queue.append(self)

    # The outlet's side.

    @property
    def is_asked(self) -> bool:
        """May the outlet push?"""
        return self.state & (OUT_READY | OUT_CLOSED) == OUT_READY

    @property
    def is_out_closed(self) -> bool:
        """Has the outlet completed or failed, or seen the cancellation?"""
        return self.state & OUT_CLOSED != 0

    def push(self, element: T) -> None:
        """Send an element.

        Raises:
            LocalProtocolError: the outlet is closed, or was not asked.

        Spec: Push of PortMachine.
        """
        state = self.state
        if state & _PUSHABLE == OUT_READY:
            self.state = state ^ _PUSH_START
            self.element = element
            self._queue.append(self)
            return
        if state & OUT_CLOSED:
            raise LocalProtocolError("push: this outlet is closed; look at is_out_closed first")
        if not state & OUT_READY:
            raise LocalProtocolError("push: this outlet was not asked for an element; look at is_asked first")
        # The cancellation is on its way: the element is not wanted.
        self.state = state ^ _PUSH_START

    def complete(self) -> None:
        """End the stream, after an element on its way.  Has no effect on a closed outlet.

        Spec: Complete of PortMachine.
        """
        state = self.state
        self.state = state | OUT_CLOSED
        if not state & (_CLOSED | PULLING | PUSHING):
            self._queue.append(self)

    def fail(self, error: BaseException) -> None:
        """End the stream with an error, after an element on its way.  Has no effect on a closed outlet.

        Spec: Fail of PortMachine.
        """
        if not self.state & _CLOSED:
            self.state |= IN_FAILED
            self.failure = error
        self.complete()

    def __repr__(self) -> str:
        flags = {
            IN_READY: "InReady",
            PULLING: "Pulling",
            PUSHING: "Pushing",
            OUT_READY: "OutReady",
            IN_CLOSED: "InClosed",
            OUT_CLOSED: "OutClosed",
            IN_FAILED: "InFailed",
        }
        shown = " ".join(name for flag, name in flags.items() if self.state & flag)
        return f"<{type(self.producer).__name__} -> {type(self.consumer).__name__}: {shown}>"


class Stage(Generic[A, B]):
    """A step of a stream: handlers for what happens at its ports.

    An exception that a handler raises, of whatever type, fails the stage: its outlets fail with it, and its inlets are
    cancelled.  A stage belongs to one run.
    """

    acts_alone: ClassVar[bool] = False
    """Does it ask, or emit, without being asked?  Then the run needs tasks."""

    def __init__(self) -> None:
        self.island: Island
        self.inlets: list[Connection[A]] = []
        self.outlets: list[Connection[B]] = []
        self.inlet: Connection[A]
        """The first inlet."""
        self.outlet: Connection[B]
        """The first outlet."""

    def start(self) -> None:
        """The run begins."""

    def on_push(self, inlet: Connection[A]) -> None:
        """An element has arrived."""
        raise NotImplementedError

    def on_pull(self, outlet: Connection[B]) -> None:
        """An element is asked for.  By default, the stage asks its first inlet."""
        self.inlet.pull()

    def on_upstream_finish(self, inlet: Connection[A]) -> None:
        """The stream before an inlet has ended.  By default, the stage completes."""
        self.complete_stage()

    def on_upstream_failure(self, inlet: Connection[A], error: BaseException) -> None:
        """The stream before an inlet has failed.  By default, the stage fails."""
        self.fail_stage(error)

    def on_downstream_finish(self, outlet: Connection[B]) -> None:
        """Nothing more is wanted at an outlet.  By default, the stage completes."""
        self.complete_stage()

    def on_timer(self) -> None:
        """The time that the stage has set has come."""

    def may_act_at(self, coming: Set[Connection[Any]]) -> Iterable[Connection[Any]]:
        """The connections at which it might ask, emit or end, if at these something came from the other end.

        It may name too many, and never too few.
        """
        return (*self.inlets, *self.outlets) if coming else ()

    def ask(self, inlet: Connection[A]) -> None:
        """Ask for an element, unless the inlet has asked, has one, or is closed."""
        if inlet.state & _ASKABLE == IN_READY and inlet.element is EMPTY:
            inlet.pull()

    def release(self) -> None:
        """The stage ends: give back what it has opened.  An exception fails the stage, if it has not failed."""

    def complete_stage(self) -> None:
        """Complete all outlets and cancel all inlets."""
        self.release()
        self.island.forget_timer(self)
        for outlet in self.outlets:
            outlet.complete()
        for inlet in self.inlets:
            inlet.cancel()

    def fail_stage(self, error: BaseException) -> None:
        """Fail all outlets and cancel all inlets."""
        try:
            self.release()
        except BaseException as another:
            error.add_note(f"ending the stage has failed, too: {another!r}")
        self.island.forget_timer(self)
        for outlet in self.outlets:
            outlet.fail(error)
        for inlet in self.inlets:
            inlet.cancel()


class HoldingStage(Stage[A, B]):
    """A stage that keeps elements which it has grabbed: they leave before it completes or fails."""

    def __init__(self) -> None:
        super().__init__()
        self.is_ended = False
        """Has the stream before it ended or failed?"""
        self._failure: BaseException | None = None

    def holds(self) -> bool:
        """Is there anything that must still leave?"""
        raise NotImplementedError

    def may_act_behind_what_is_held(self, coming: Set[Connection[Any]]) -> Iterable[Connection[Any]]:
        """As ``may_act_at``, where what is held must be asked for before anything else can leave."""
        is_blocked = self.holds() and not self.outlet.is_asked and self.outlet not in coming
        return self.inlets if is_blocked and coming else super().may_act_at(coming)

    @property
    def has_failed(self) -> bool:
        """Has the stream before it failed?"""
        return self._failure is not None

    def end(self) -> None:
        """Complete, or fail, as the stream before did."""
        if self._failure is None:
            self.complete_stage()
        else:
            self.fail_stage(self._failure)

    def on_upstream_finish(self, inlet: Connection[A]) -> None:
        """Complete once nothing is held."""
        self.is_ended = True
        if not self.holds():
            self.end()

    def on_upstream_failure(self, inlet: Connection[A], error: BaseException) -> None:
        """Fail once nothing is held."""
        self._failure = error
        self.on_upstream_finish(inlet)


class Outside(Protocol):
    """What the island's shell does for its stages."""

    def call(
        self, made: Awaitable[B], stage: Stage[Any, Any], done: Callable[[B, BaseException | None], None]
    ) -> Callable[[], object]:
        """Await something, then call ``done`` for the stage, and run the island; returns what cancels it."""
        ...

    def read(self, entry: Stage[Any, Any], reads: Any) -> None:
        """Read for an entry that was added while the island runs."""
        ...


class Island:
    """Stages that run together, one event after the other."""

    outside: Outside
    """Where stages act alone."""

    def __init__(self) -> None:
        self._queue: deque[Connection[Any]] = deque()
        self._timers: dict[Stage[Any, Any], float] = {}
        self._stages: dict[Stage[Any, Any], None] = {}
        self.now = 0.0
        """The time of the current run, in seconds."""
        self.has_loop = False

    def connect(self, producer: Stage[Any, T], consumer: Stage[T, Any], *, is_back: bool = False) -> Connection[T]:
        """Join the next outlet of a stage to the next inlet of another one; ``is_back``: it closes a loop."""
        self.has_loop = self.has_loop or is_back
        connection: Connection[T] = Connection(producer, consumer, self._queue)
        for stage in (producer, consumer):
            stage.island = self
            self._stages[stage] = None
        if not producer.outlets:
            producer.outlet = connection
        if not consumer.inlets:
            consumer.inlet = connection
        producer.outlets.append(connection)
        consumer.inlets.append(connection)
        return connection

    @property
    def acts_alone(self) -> bool:
        """Does any of the stages ask, or emit, without being asked?"""
        return any(stage.acts_alone for stage in self._stages)

    @property
    def stages_with_timers(self) -> Iterable[Stage[Any, Any]]:
        """The stages that will act by themselves."""
        return self._timers

    @property
    def next_connection(self) -> Connection[Any] | None:
        """The connection whose event runs next."""
        return self._queue[0] if self._queue else None

    @property
    def has_events(self) -> bool:
        """Has ``run`` anything to do?"""
        return bool(self._queue)

    def start(self, now: float) -> None:
        """Begin the run; ``run`` must follow."""
        self.now = now
        self.begin(self._stages)

    def run(self, most_events: int, now: float = 0.0) -> bool:
        """Run the events in the queue, and those that follow from them.

        Returns:
            True if events are left: the caller lets others run, and calls again.

        Spec: ProcessEvent of PortMachine.
        """
        self.now = now
        queue = self._queue
        while queue:
            if most_events <= 0:
                return True
            most_events -= 1
            connection = queue.popleft()
            state = connection.state
            stage: Stage[Any, Any]
            if state & _LIVE_PUSH == PUSHING:
                stage = connection.consumer
                connection.state = state ^ _PUSH_END
                try:
                    stage.on_push(connection)
                except BaseException as error:
                    stage.fail_stage(error)
            elif state & _LIVE_PULL == PULLING:
                stage = connection.producer
                connection.state = state ^ _PULL_END
                try:
                    stage.on_pull(connection)
                except BaseException as error:
                    stage.fail_stage(error)
            else:
                self._close(connection)
        return False

    def _close(self, connection: Connection[Any]) -> None:
        """One end has closed the connection: tell the other end, after an element on its way."""
        closed = connection.state & _CLOSED
        stage: Stage[Any, Any] = connection.consumer
        try:
            if closed == IN_CLOSED:
                connection.state |= OUT_CLOSED
                stage = connection.producer
                stage.on_downstream_finish(connection)
                if self.has_loop:
                    self._cancel_unwanted()
            elif closed == OUT_CLOSED and connection.state & PUSHING:
                connection.state ^= _PUSH_END
                self._queue.append(connection)
                stage.on_push(connection)
            elif closed == OUT_CLOSED:
                connection.state |= IN_CLOSED
                if connection.failure is None:
                    stage.on_upstream_finish(connection)
                else:
                    stage.on_upstream_failure(connection, connection.failure)
            # Otherwise both ends have closed it: they need not hear of each other.
        except BaseException as error:
            stage.fail_stage(error)

    def _cancel_unwanted(self) -> None:
        """What leads to no end any more but round in a loop would run for nobody, and for ever."""
        wanted = [stage for stage in self._stages if not stage.outlets]
        seen = {*wanted}
        while wanted:
            for inlet in wanted.pop().inlets:
                if not inlet.is_in_closed and inlet.producer not in seen:
                    seen.add(inlet.producer)
                    wanted.append(inlet.producer)
        for stage in self._stages:
            if stage not in seen:
                for inlet in stage.inlets:
                    inlet.cancel()

    # Stages that come and go while the island runs.

    def begin(self, stages: Iterable[Stage[Any, Any]]) -> None:
        """Begin with stages that were connected meanwhile."""
        for stage in stages:
            try:
                stage.start()
            except BaseException as error:
                stage.fail_stage(error)

    def forget(self, stages: Iterable[Stage[Any, Any]]) -> None:
        """Keep no stage that is over."""
        for stage in stages:
            self._stages.pop(stage, None)

    # Time.

    def set_timer(self, stage: Stage[Any, Any], seconds: float) -> None:
        """Call ``on_timer`` of a stage this many seconds from now; a stage has one timer."""
        self._timers[stage] = self.now + seconds

    def forget_timer(self, stage: Stage[Any, Any]) -> None:
        """The stage needs its timer no more."""
        self._timers.pop(stage, None)

    @property
    def deadline(self) -> float | None:
        """When ``on_time`` must be called at the latest."""
        return min(self._timers.values()) if self._timers else None

    def on_time(self, now: float) -> None:
        """Call the timers that are due, the earliest first; ``run`` must follow."""
        self.now = now
        due = sorted((at, number) for number, at in enumerate(self._timers.values()) if at <= now)
        stages = list(self._timers)
        for _, number in due:
            stage = stages[number]
            if self._timers.pop(stage, None) is not None:
                try:
                    stage.on_timer()
                except BaseException as error:
                    stage.fail_stage(error)
