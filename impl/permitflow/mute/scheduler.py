"""Pony's back-pressure: a scheduler that does not run the senders of an overloaded actor.  No I/O, no clock.

An actor that has work for a whole batch is *overloaded*; one that says so itself is *under pressure*.  A sender to
such an actor, or to a muted one, is muted when its behaviour returns: it does not run until all its muters are
released.  Its messages are delivered all the same, and its mailbox grows.  So nothing is lost, and nothing is bounded.

Rules as in ponyc's ``actor.c`` and ``scheduler.c``, with one run queue in place of one for each thread.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Generic, TypeVar

from permitflow.callables import plain, plain_of_one
from permitflow.errors import InvalidParametersError, LocalProtocolError

M = TypeVar("M")

BATCH = 100
"""Messages in one run of an actor: Pony's ``PONY_SCHED_BATCH``."""

Send = Callable[[str, M], None]
"""Sends a message to the actor of this name."""
Behaviour = Callable[[M, "Send[M]"], None]
"""What an actor does with a message."""


@dataclass
class _Actor(Generic[M]):
    behaviour: Behaviour[M]
    mailbox: deque[M] = field(default_factory=deque)
    is_overloaded: bool = False
    is_under_pressure: bool = False
    is_muted: bool = False
    muters: dict[str, None] = field(default_factory=dict)
    """Those that mute it: Pony's map of muters, and the count in each actor, in one."""

    @property
    def mutes_senders(self) -> bool:
        return self.is_overloaded or self.is_under_pressure or self.is_muted

    @property
    def can_be_muted(self) -> bool:
        # Muting them could lock up a cycle: they are what others wait for.
        return not (self.is_overloaded or self.is_under_pressure)


class MuteScheduler(Generic[M]):
    """Actors with mailboxes, run one at a time, each for at most a batch of messages."""

    def __init__(self, choose: Callable[[int], int] = lambda ready: 0, *, batch: int = BATCH) -> None:
        """No actor is there yet.

        Args:
            choose: the place, in the run queue of so many actors, of the one that runs next; by default the first.
                The method ``randrange`` of a seeded ``random.Random`` makes a run that can be repeated.
            batch: messages in one run.

        Raises:
            InvalidParametersError: ``batch`` is below 1.
        """
        if batch < 1:
            raise InvalidParametersError(name="batch", value=batch, rule="must be at least 1")
        self._choose, self._batch = plain_of_one(choose, place="choose"), batch
        self._actors: dict[str, _Actor[M]] = {}
        self._ready: list[str] = []
        self._running: str | None = None
        self._order = blake2b(digest_size=8)

    def spawn(self, name: str, behaviour: Behaviour[M]) -> None:
        """Add an actor.

        Raises:
            AsyncFunctionError: the behaviour is a coroutine function, which nobody would await.
            LocalProtocolError: the name is taken.
        """
        if name in self._actors:
            raise LocalProtocolError(f"there is an actor {name!r} already; each needs a name of its own")
        self._actors[name] = _Actor(plain(behaviour, place="behaviour"))

    def send(self, to: str, message: M) -> None:
        """Deliver a message; if an actor that runs has sent it, that one may be muted.

        Raises:
            LocalProtocolError: there is no such actor.
        """
        receiver = self._actor(to)
        receiver.mailbox.append(message)
        self._schedule(to)
        if self._running is not None and receiver.mutes_senders:
            sender = self._actors[self._running]
            # A message to oneself never mutes: an actor that mutes senders cannot be muted.
            if sender.can_be_muted:
                sender.muters[to] = None

    def apply_pressure(self, name: str) -> None:
        """An actor cannot keep up, for a reason of its own: its senders are muted from now on."""
        self._actor(name).is_under_pressure = True

    def release_pressure(self, name: str) -> None:
        """The reason is gone; its senders run again, unless it is overloaded."""
        actor = self._actor(name)
        actor.is_under_pressure = False
        if not actor.is_overloaded:
            self._unmute_senders_of(name)

    def run_one(self) -> bool:
        """Run an actor for at most a batch; False if none can run."""
        if not self._ready:
            return False
        name = self._ready.pop(self._choose(len(self._ready)))
        actor = self._actors[name]
        self._order.update(name.encode() + b"\n")
        done = 0
        while actor.mailbox and done < self._batch:
            self._behave(name, actor)
            done += 1
            if actor.muters and actor.can_be_muted:
                # At once, before the batch is counted: a muted actor is not overloaded by this run.
                actor.is_muted = True
                return True
        if done == self._batch:
            actor.is_overloaded = True
        elif actor.is_overloaded:
            actor.is_overloaded = False
            if not actor.is_under_pressure:
                self._unmute_senders_of(name)
        self._schedule(name)
        return True

    def _behave(self, name: str, actor: _Actor[M]) -> None:
        self._running = name
        try:
            actor.behaviour(actor.mailbox.popleft(), self.send)
        except BaseException:
            self._running = None
            self._schedule(name)
            raise
        self._running = None

    def run(self, most_runs: int | None = None) -> int:
        """Run until no actor can, or so many times; returns how many times."""
        runs = 0
        while (most_runs is None or runs < most_runs) and self.run_one():
            runs += 1
        return runs

    def _schedule(self, name: str) -> None:
        actor = self._actors[name]
        # An overloaded actor without messages runs once more: only then is it overloaded no longer.
        if not actor.is_muted and (actor.mailbox or actor.is_overloaded) and name not in (self._running, *self._ready):
            self._ready.append(name)

    def _unmute_senders_of(self, name: str) -> None:
        released = [name]
        while released:  # in place of Pony's recursion, which needs a stack
            muter = released.pop()
            for sender, actor in self._actors.items():
                if muter in actor.muters:
                    del actor.muters[muter]
                    if actor.is_muted and not actor.muters:
                        actor.is_muted = False
                        self._schedule(sender)
                        released.append(sender)

    def is_overloaded(self, name: str) -> bool:
        """Did its last run take a whole batch?"""
        return self._actor(name).is_overloaded

    def is_muted(self, name: str) -> bool:
        """Does it not run, because others cannot keep up?"""
        return self._actor(name).is_muted

    def muted_by(self, name: str) -> frozenset[str]:
        """The actors that must be released before it runs."""
        return frozenset(self._actor(name).muters)

    def waiting(self) -> Mapping[str, int]:
        """Messages in each mailbox."""
        return {name: len(actor.mailbox) for name, actor in self._actors.items()}

    @property
    def order_signature(self) -> str:
        """A hash of the order in which actors ran: the same choices give the same one."""
        return self._order.hexdigest()

    def _actor(self, name: str) -> _Actor[M]:
        if name not in self._actors:
            raise LocalProtocolError(f"there is no actor {name!r}")
        return self._actors[name]
