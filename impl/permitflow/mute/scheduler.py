"""Pony's back-pressure: a scheduler that does not run the senders of an overloaded actor.  No I/O, no clock.

An actor that has work for a whole batch is *overloaded*; one that says so itself is *under pressure*.  A sender to
such an actor, or to a muted one, is muted when its behaviour returns: it does not run until all its muters are
released.  Its messages are delivered all the same, and its mailbox grows.  So nothing is lost, and nothing is bounded.

Rules as in ponyc's ``actor.c`` and ``scheduler.c``, with one run queue in place of one for each thread.
"""

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from permitflow.callables import plain, plain_of_one
from permitflow.errors import InvalidParametersError, LocalProtocolError
from permitflow.mute.actors import Actors, RecordStep

M = TypeVar("M")

BATCH = 100
"""Messages in one run of an actor: Pony's ``PONY_SCHED_BATCH``."""

Send = Callable[[str, M], None]
"""Sends a message to the actor of this name."""
Behaviour = Callable[[M, "Send[M]"], None]
"""What an actor does with a message."""


class MuteScheduler(Generic[M]):
    """Actors with mailboxes, run one at a time, each for at most a batch of messages."""

    def __init__(
        self,
        choose: Callable[[int], int] = lambda ready: 0,
        *,
        batch: int = BATCH,
        record: RecordStep | None = None,
    ) -> None:
        """No actor is there yet.

        Args:
            choose: the place, in the run queue of this many actors, of the one that runs next; by default the first.
                The method ``randrange`` of a seeded ``random.Random`` makes a run that can be repeated.
            batch: messages in one run.
            record: is told each step as it was made: an action of ``MuteScheduler.tla``, and its actors.  It may look
                at the scheduler, and not change it.

        Raises:
            AsyncFunctionError: ``choose`` or ``record`` is a coroutine function, which nobody would await.
            InvalidParametersError: ``batch`` is below 1.
        """
        if batch < 1:
            raise InvalidParametersError(name="batch", value=batch, rule="must be at least 1")
        self._choose = plain_of_one(choose, place="choose")
        self._actors: Actors[M] = Actors(batch, None if record is None else plain(record, place="record"))
        self._behaviours: dict[str, Behaviour[M]] = {}
        # The run queue: no actor is in it twice.
        self._ready: dict[str, None] = {}
        self._running: str | None = None

    def spawn(self, name: str, behaviour: Behaviour[M]) -> None:
        """Add an actor.

        Raises:
            AsyncFunctionError: the behaviour is a coroutine function, which nobody would await.
            LocalProtocolError: the name is taken.
        """
        behaviour = plain(behaviour, place="behaviour")
        self._actors.add(name)
        self._behaviours[name] = behaviour

    def send(self, to: str, message: M) -> None:
        """Deliver a message; if an actor that runs has sent it, that one may be muted.

        Raises:
            LocalProtocolError: there is no such actor.
        """
        if self._running is None:
            self._actors.post(to, message)
        else:
            self._actors.send(self._running, to, message)
        self._schedule(to)

    def apply_pressure(self, name: str) -> None:
        """An actor cannot keep up, for a reason of its own: its senders are muted from now on.

        Raises:
            LocalProtocolError: there is no such actor.
        """
        if not self._actors[name].is_under_pressure:
            self._actors.apply_pressure(name)

    def release_pressure(self, name: str) -> None:
        """The reason is gone; its senders run again, unless it is overloaded, or muted itself.

        Raises:
            LocalProtocolError: there is no such actor.
        """
        if self._actors[name].is_under_pressure:
            self._actors.release_pressure(name)
            self._settle()

    def run_one(self) -> bool:
        """Run an actor for at most a batch; False if none can run.

        Raises:
            LocalProtocolError: a behaviour has called this.
            Exception: of the behaviour; its actor is done with this message, and the others go on.
        """
        if self._running is not None:
            raise LocalProtocolError(f"actor {self._running!r} is running: a behaviour must not run the scheduler")
        if not self._ready:
            return False
        name = [*self._ready][self._choose(len(self._ready))]
        del self._ready[name]
        try:
            if self._actors[name].may_rest:
                self._actors.unset_overloaded(name)
            else:
                while self._behave(name):
                    pass
        finally:
            self._settle()
            self._schedule(name)
        return True

    def _behave(self, name: str) -> bool:
        """One behaviour; does the run go on?"""
        message, self._running = self._actors.begin_behaviour(name), name
        try:
            self._behaviours[name](message, self.send)
        finally:
            self._running = None
            goes_on = self._actors.end_behaviour(name)
        return goes_on

    def run(self, most_runs: int | None = None) -> int:
        """Run until no actor can, or this many times; returns how many times."""
        runs = 0
        while (most_runs is None or runs < most_runs) and self.run_one():
            runs += 1
        return runs

    def _schedule(self, name: str) -> None:
        if name in self._ready:
            return
        actor = self._actors[name]
        if actor.may_begin or actor.may_rest:
            self._ready[name] = None

    def _settle(self) -> None:
        """All hear who can keep up, but the one that runs: it hears when its behaviour has ended."""
        while heard := [(name, muter) for name, muter in self._actors.freed if name != self._running]:
            for name, muter in heard:
                if self._actors.unmute_sender(name, muter):
                    self._schedule(name)

    def is_overloaded(self, name: str) -> bool:
        """Did its last run take a whole batch?"""
        return self._actors[name].is_overloaded

    def is_muted(self, name: str) -> bool:
        """Does it not run, because others cannot keep up?"""
        return self._actors[name].is_muted

    def muted_by(self, name: str) -> frozenset[str]:
        """The actors that must be released before it runs."""
        return frozenset(self._actors[name].muters)

    def waiting(self) -> Mapping[str, int]:
        """Messages in each mailbox."""
        return {name: len(self._actors[name].mailbox) for name in self._actors.names}
