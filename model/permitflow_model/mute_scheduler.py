"""``MuteScheduler.tla``, action for action: actors that send to one which cannot keep up do not run until it can.

Actors are numbered from 0; docs/protocols/mute.md explains the rules, which are Pony's.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import permutations, product
from typing import NamedTuple, cast

from permitflow_model.kernel.family import Family, Members, family
from permitflow_model.kernel.parameters import Bounded, Positive
from permitflow_model.kernel.system import Action, System, require
from permitflow_model.registry import Registered


@dataclass(frozen=True, kw_only=True)
class Parameters(Bounded):
    """The constants of the specification."""

    actors: Positive
    """How many there are."""

    batch: Positive
    """With this many messages in a run an actor is overloaded."""

    messages: Positive
    """Messages that may be in mailboxes at once."""

    pressures: bool = False
    """May actors be put under pressure?"""

    helped: bool = False
    """Does the last actor alone release the others from pressure, in a behaviour?"""


class Actor(NamedTuple):
    """An actor: its messages, and whether it may run."""

    mailbox: int
    inside: bool
    """Is it in a behaviour?"""
    done: int
    """Messages that it has done in this run."""
    overloaded: bool
    pressed: bool
    """Is it under pressure?"""
    muted: bool


class State(NamedTuple):
    """The variables of the specification."""

    actors: Family[Actor]
    waits: Members[Members[bool]]
    """``waits[a][m]``: does actor m mute actor a?"""
    freed: Members[Members[bool]]
    """``freed[a][m]``: is the message on its way that m can keep up, to the scheduler of a?"""


IDLE = Actor(mailbox=0, inside=False, done=0, overloaded=False, pressed=False, muted=False)
"""An actor without messages."""


def initial(parameters: Parameters) -> State:
    """No actor has a message."""
    nobody = cast("Members[Members[bool]]", family(family(False, parameters.actors), parameters.actors))
    return State(actors=family(IDLE, parameters.actors), waits=nobody, freed=nobody)


def mailbox_of(actor: Actor) -> int:
    """The messages of an actor."""
    return actor.mailbox


def is_busy(actor: Actor) -> bool:
    """Is it overloaded, or under pressure?"""
    return actor.overloaded or actor.pressed


def mutes_senders(actor: Actor) -> bool:
    """Does it mute those that send to it?"""
    return is_busy(actor) or actor.muted


def _is_held(state: State, name: int) -> bool:
    return not state.waits.get(name).every(_is_not)


def _is_not(link: bool) -> bool:
    return not link


def waits_for(state: State, name: int, muter: int) -> bool:
    """Does one actor wait for another, which has not freed it?"""
    return state.waits.get(name).get(muter) and not state.freed.get(name).get(muter)


def _with(matrix: Members[Members[bool]], name: int, muter: int, value: bool) -> Members[Members[bool]]:
    return matrix.put(name, matrix.get(name).put(muter, value))


def _changed(state: State, name: int, actor: Actor) -> State:
    return state._replace(actors=state.actors.put(name, actor))


def _free_senders(state: State, muter: int) -> State:
    """Free the actors that an actor mutes; ``state``: with the flags of before this step."""
    return state._replace(freed=state.freed.map_by_name(_freed_if_waiting, state, muter))


def _freed_if_waiting(name: int, freed: Members[bool], state: State, muter: int) -> Members[bool]:
    """By whom an actor is freed, when a muter frees all that wait for it."""
    return freed.put(muter, True) if state.waits.get(name).get(muter) else freed


def post(state: State, parameters: Parameters, name: int) -> State:
    """A message comes from outside; at the limit it is refused."""
    actor = state.actors.get(name)
    if state.actors.sum_of(mailbox_of) >= parameters.messages:
        return state
    return _changed(state, name, actor._replace(mailbox=actor.mailbox + 1))


def apply_pressure(state: State, parameters: Parameters, name: int) -> State:
    """An actor is put under pressure."""
    actor = state.actors.get(name)
    require(parameters.pressures)
    require(not actor.pressed)
    return _changed(state, name, actor._replace(pressed=True))


def release_pressure(state: State, parameters: Parameters, name: int) -> State:
    """An actor is no longer under pressure."""
    actor = state.actors.get(name)
    require(actor.pressed)
    if parameters.helped:
        require(state.actors.get(parameters.actors - 1).inside)
    if not (actor.overloaded or actor.muted):
        state = _free_senders(state, name)
    return _changed(state, name, actor._replace(pressed=False))


def send(state: State, parameters: Parameters, name: int, to: int) -> State:
    """In a behaviour an actor sends a message."""
    actor, receiver = state.actors.get(name), state.actors.get(to)
    require(actor.inside)
    require(state.actors.sum_of(mailbox_of) < parameters.messages)
    if name != to and mutes_senders(receiver) and not is_busy(actor):
        state = state._replace(waits=_with(state.waits, name, to, True))
    return _changed(state, to, receiver._replace(mailbox=receiver.mailbox + 1))


def begin_behaviour(state: State, _parameters: Parameters, name: int) -> State:
    """An actor takes a message."""
    actor = state.actors.get(name)
    require(not actor.inside)
    require(not actor.muted)
    require(actor.mailbox > 0)
    return _changed(state, name, actor._replace(inside=True, mailbox=actor.mailbox - 1))


def end_behaviour(state: State, parameters: Parameters, name: int) -> State:
    """A behaviour ends: the actor is muted, or overloaded, or can keep up, or goes on with its batch."""
    actor = state.actors.get(name)
    require(actor.inside)
    ended = actor._replace(inside=False)
    if _is_held(state, name):
        return _changed(state, name, ended._replace(muted=True, done=0))
    if actor.done + 1 >= parameters.batch:
        return _changed(state, name, ended._replace(overloaded=True, done=0, muted=False))
    if actor.mailbox > 0:
        return _changed(state, name, ended._replace(done=actor.done + 1, muted=False))
    if actor.overloaded and not actor.pressed:
        state = _free_senders(state, name)
    return _changed(state, name, ended._replace(overloaded=False, done=0, muted=False))


def unset_overloaded(state: State, _parameters: Parameters, name: int) -> State:
    """An overloaded actor without messages can keep up."""
    actor = state.actors.get(name)
    require(actor.overloaded)
    require(not actor.inside)
    require(not actor.muted)
    require(actor.mailbox == 0)
    if not actor.pressed:
        state = _free_senders(state, name)
    return _changed(state, name, actor._replace(overloaded=False, done=0))


def unmute_sender(state: State, _parameters: Parameters, name: int, muter: int) -> State:
    """A scheduler hears that a muter can keep up; an actor that nobody mutes any more frees its own senders.

    It does so even if it is under pressure, as in Pony: they are muted again if they send to it again.
    """
    actor = state.actors.get(name)
    require(state.freed.get(name).get(muter))
    require(not actor.inside)
    is_last = actor.muted and state.waits.get(name).put(muter, False).every(_is_not)
    heard = state._replace(freed=_with(state.freed, name, muter, False))
    if is_last:
        heard = _free_senders(heard, name)
    heard = heard._replace(waits=_with(state.waits, name, muter, False))
    return _changed(heard, name, actor._replace(muted=actor.muted and not is_last))


# Invariants.


def _actor_ok(actor: Actor, parameters: Parameters) -> bool:
    return actor.mailbox >= 0 and 0 <= actor.done < parameters.batch


def type_ok(state: State, parameters: Parameters) -> bool:
    """Every variable is in its range."""
    return state.actors.every(_actor_ok, parameters)


def is_muted_if_held(state: State, name: int) -> bool:
    """Is an actor muted if somebody mutes it, unless it is in a behaviour?"""
    actor = state.actors.get(name)
    return actor.muted == _is_held(state, name) if not actor.inside else not actor.muted


def muted_if_held(state: State, parameters: Parameters) -> bool:
    """An actor is muted if somebody mutes it, and only then; in a behaviour it is not yet."""
    return all(is_muted_if_held(state, name) for name in range(parameters.actors))


def not_by_self(state: State, parameters: Parameters) -> bool:
    """No actor mutes itself."""
    return not any(state.waits.get(name).get(name) for name in range(parameters.actors))


def is_woken(state: State, name: int, muter: int) -> bool:
    """Is an actor's muter unable to keep up, or the message that it can keep up on its way?"""
    if not state.waits.get(name).get(muter) or state.freed.get(name).get(muter):
        return True
    return mutes_senders(state.actors.get(muter))


def woken(state: State, parameters: Parameters) -> bool:
    """No wake-up is lost: a muter cannot keep up, or the message that it can is on its way."""
    return all(is_woken(state, name, muter) for name, muter in _pairs(parameters))


def is_circle(state: State, *names: int) -> bool:
    """Does each of these actors wait for the next one, and the last for the first?"""
    return all(waits_for(state, name, muter) for name, muter in zip(names, (*names[1:], names[0]), strict=True))


def muted_by_is_acyclic(state: State, parameters: Parameters) -> bool:
    """Actors do not wait for each other in a circle, but for those that are freed."""
    return not any(
        is_circle(state, *names) for number in (2, 3) for names in permutations(range(parameters.actors), number)
    )


def releasable(state: State, parameters: Parameters) -> bool:
    """The actor that alone can release another one from pressure is not muted by it."""
    return not parameters.helped or not any(
        state.actors.get(name).pressed and waits_for(state, parameters.actors - 1, name)
        for name in range(parameters.actors)
    )


def never_stuck(state: State, parameters: Parameters) -> bool:
    """As long as there is a message, and no actor is under pressure, something moves."""
    if state.actors.sum_of(mailbox_of) == 0 or any(state.actors.get(name).pressed for name in range(parameters.actors)):
        return True
    return SYSTEM.can_step(state, parameters)


# Probes.


def _one_muter(state: State, parameters: Parameters) -> bool:
    return all(sum(state.waits.get(name)) <= 1 for name in range(parameters.actors))


def _not_transitive(state: State, parameters: Parameters) -> bool:
    return not any(
        state.waits.get(name).get(muter) and state.actors.get(muter).muted for name, muter in _pairs(parameters)
    )


def _mailbox_rests(actor: Actor) -> bool:
    return not actor.muted or actor.mailbox == 0


def _names(parameters: Parameters) -> Iterable[tuple[int]]:
    return ((name,) for name in range(parameters.actors))


def _pairs(parameters: Parameters) -> Iterable[tuple[int, int]]:
    return product(range(parameters.actors), range(parameters.actors))


SYSTEM: System[State, Parameters] = System(
    module="MuteScheduler",
    initial=initial,
    actions=(
        Action("Post", post, _names, is_environment=True),
        Action("ApplyPressure", apply_pressure, _names, is_environment=True),
        Action("ReleasePressure", release_pressure, _names, is_environment=True),
        Action("Send", send, _pairs, is_environment=True),
        Action("BeginBehaviour", begin_behaviour, _names),
        Action("EndBehaviour", end_behaviour, _names),
        Action("UnsetOverloaded", unset_overloaded, _names),
        Action("UnmuteSender", unmute_sender, _pairs),
    ),
    invariants={
        "TypeOK": type_ok,
        "MutedIfHeld": muted_if_held,
        "NotBySelf": not_by_self,
        "Woken": woken,
        "MutedByIsAcyclic": muted_by_is_acyclic,
        "Releasable": releasable,
        "NeverStuck": never_stuck,
    },
    probes={
        "OneMuterProbe": _one_muter,
        "NotTransitiveProbe": _not_transitive,
        "MailboxRestsProbe": lambda state, _: state.actors.every(_mailbox_rests),
    },
)

REGISTERED = Registered(system=SYSTEM, parameters=Parameters, theorems="permitflow_proofs.mute_scheduler:theorems")
