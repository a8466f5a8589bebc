"""Actors that a scheduler mutes: their mailboxes, and who waits for whom.  No I/O, no clock, no order of turns.

Each method is an action of ``MuteScheduler.tla``, or refuses and changes nothing.  Rules as in ponyc's
``src/libponyrt/actor/actor.c`` and ``src/libponyrt/sched/scheduler.c``.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from permitflow.errors import LocalProtocolError

M = TypeVar("M")

RecordStep = Callable[[str, tuple[str, ...]], object]
"""Is told each step: an action of ``MuteScheduler.tla``, and the actors that it is about."""


@dataclass(slots=True)
class Actor(Generic[M]):
    """An actor: its messages, and whether it may run."""

    mailbox: deque[M] = field(default_factory=deque)
    is_inside: bool = False
    """Is it in a behaviour?"""
    done: int = 0
    """Messages that it has done in this run."""
    is_overloaded: bool = False
    is_under_pressure: bool = False
    is_muted: bool = False
    muters: dict[str, None] = field(default_factory=dict)
    """The actors that mute it: Pony's map of muters, and the count in each actor, in one."""

    @property
    def is_busy(self) -> bool:
        """Is it overloaded, or under pressure?  Such actors are not muted: they are what others wait for."""
        return self.is_overloaded or self.is_under_pressure

    @property
    def mutes_senders(self) -> bool:
        """Does it mute those that send to it?"""
        return self.is_overloaded or self.is_under_pressure or self.is_muted

    @property
    def may_begin(self) -> bool:
        """May it take a message?"""
        return not (self.is_inside or self.is_muted) and len(self.mailbox) > 0

    @property
    def may_rest(self) -> bool:
        """Is it overloaded without messages?  It runs once more: only then is it overloaded no longer."""
        return self.is_overloaded and not (self.is_inside or self.is_muted or self.mailbox)


class Actors(Generic[M]):
    """All actors, one step at a time."""

    def __init__(self, batch: int, record: RecordStep | None = None) -> None:
        """``batch``: messages in one run; ``record`` is told each step that was made."""
        self._batch, self._record = batch, record
        self._actors: dict[str, Actor[M]] = {}
        self._freed: dict[tuple[str, str], None] = {}

    def add(self, name: str) -> None:
        """Add an actor.

        Raises:
            LocalProtocolError: the name is taken.
        """
        if name in self._actors:
            raise LocalProtocolError(f"there is an actor {name!r} already; each needs a name of its own")
        self._actors[name] = Actor()

    def __getitem__(self, name: str) -> Actor[M]:
        """The actor of this name.

        Raises:
            LocalProtocolError: there is none.
        """
        try:
            return self._actors[name]
        except KeyError:
            raise LocalProtocolError(f"there is no actor {name!r}") from None

    @property
    def names(self) -> tuple[str, ...]:
        """All of them, in the order in which they were added."""
        return tuple(self._actors)

    @property
    def freed(self) -> tuple[tuple[str, str], ...]:
        """The actors that have not heard yet that a muter can keep up, each with that muter; the oldest first."""
        return tuple(self._freed)

    def _note(self, action: str, *names: str) -> None:
        if self._record is not None:
            self._record(action, names)

    # The environment.

    def post(self, to: str, message: M) -> None:
        """A message comes from outside.

        Spec: Post of MuteScheduler.
        """
        self[to].mailbox.append(message)
        self._note("Post", to)

    def send(self, sender: str, to: str, message: M) -> None:
        """Deliver a message that an actor sends in a behaviour; the sender may be muted for it when the behaviour ends.

        Spec: Send of MuteScheduler.

        Source: ponyc, maybe_mark_should_mute.
        """
        actor, receiver = self._inside(sender), self[to]
        if sender != to and receiver.mutes_senders and not actor.is_busy:
            actor.muters[to] = None
        receiver.mailbox.append(message)
        self._note("Send", sender, to)

    def apply_pressure(self, name: str) -> None:
        """An actor is put under pressure.

        Spec: ApplyPressure of MuteScheduler.

        Source: ponyc, pony_apply_backpressure.
        """
        actor = self[name]
        if actor.is_under_pressure:
            raise LocalProtocolError(f"actor {name!r} is under pressure already")
        actor.is_under_pressure = True
        self._note("ApplyPressure", name)

    def release_pressure(self, name: str) -> None:
        """An actor is no longer under pressure; its senders are freed unless it is overloaded, or muted itself.

        Spec: ReleasePressure of MuteScheduler.

        Source: ponyc, pony_release_backpressure, which only an actor that runs can call.
        """
        actor = self[name]
        if not actor.is_under_pressure:
            raise LocalProtocolError(f"actor {name!r} is not under pressure")
        actor.is_under_pressure = False
        if not (actor.is_overloaded or actor.is_muted):
            self._free_senders(name)
        self._note("ReleasePressure", name)

    # The protocol.

    def begin_behaviour(self, name: str) -> M:
        """An actor takes a message.

        Spec: BeginBehaviour of MuteScheduler.
        """
        actor = self[name]
        if not actor.may_begin:
            raise LocalProtocolError(f"actor {name!r} is in a behaviour, muted, or without a message")
        actor.is_inside = True
        message = actor.mailbox.popleft()
        self._note("BeginBehaviour", name)
        return message

    def end_behaviour(self, name: str) -> bool:
        """A behaviour ends: the actor is muted, or overloaded, or can keep up; or its run goes on, which is True.

        An actor is muted before its batch is counted: it is not overloaded by this run.

        Spec: EndBehaviour of MuteScheduler.

        Source: ponyc, maybe_should_mute, batch_limit_reached, actor_unsetoverloaded.
        """
        actor = self._inside(name)
        actor.is_inside = False
        actor.done += 1
        goes_on = False
        if actor.muters:
            actor.is_muted = True
        elif actor.done >= self._batch:
            actor.is_overloaded = True
        elif actor.mailbox:
            goes_on = True
        elif actor.is_overloaded:
            self._keep_up(name, actor)
        if not goes_on:
            actor.done = 0
        self._note("EndBehaviour", name)
        return goes_on

    def unset_overloaded(self, name: str) -> None:
        """An overloaded actor without messages can keep up.

        Spec: UnsetOverloaded of MuteScheduler.

        Source: ponyc, actor_unsetoverloaded.
        """
        actor = self[name]
        if not actor.may_rest:
            raise LocalProtocolError(f"actor {name!r} is not overloaded, or has a message, or does not run")
        actor.done = 0
        self._keep_up(name, actor)
        self._note("UnsetOverloaded", name)

    def _keep_up(self, name: str, actor: Actor[M]) -> None:
        actor.is_overloaded = False
        if not actor.is_under_pressure:
            self._free_senders(name)

    def unmute_sender(self, name: str, muter: str) -> bool:
        """An actor hears that a muter can keep up; after its last one it runs again (True), and frees its senders.

        It frees them even if it is under pressure: they are muted again if they send to it again.

        Spec: UnmuteSender of MuteScheduler.

        Source: ponyc, ponyint_sched_unmute_senders, sched_reschedule_unmuted.
        """
        actor = self[name]
        if (name, muter) not in self._freed or actor.is_inside:
            raise LocalProtocolError(f"actor {name!r} is in a behaviour, or {muter!r} has not freed it")
        del self._freed[name, muter]
        actor.muters.pop(muter, None)
        is_last = actor.is_muted and not actor.muters
        if is_last:
            actor.is_muted = False
            self._free_senders(name)
        self._note("UnmuteSender", name, muter)
        return is_last

    def _free_senders(self, muter: str) -> None:
        for name, actor in self._actors.items():
            if muter in actor.muters:
                self._freed[name, muter] = None

    def _inside(self, name: str) -> Actor[M]:
        actor = self[name]
        if not actor.is_inside:
            raise LocalProtocolError(f"actor {name!r} is in no behaviour")
        return actor
