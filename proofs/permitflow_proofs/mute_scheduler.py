"""A scheduler that mutes senders, for any batch, mailboxes and pressure: no wake-up is lost, nobody waits in vain.

A step concerns one actor and another; so three stand for all: the two, and a third one that waits, or is waited for.
"""

from functools import partial
from itertools import permutations, product

from permitflow_model.kernel.family import Members
from permitflow_model.mute_scheduler import (
    SYSTEM,
    Actor,
    Parameters,
    State,
    is_circle,
    is_muted_if_held,
    is_woken,
    waits_for,
)
from permitflow_proofs.kernel.arbitrary import any_parameters_of, arbitrary, assume_all
from permitflow_proofs.kernel.chapter import Chapter, claim
from permitflow_proofs.kernel.frame import Change, Frame
from permitflow_proofs.kernel.induction import Subject
from permitflow_proofs.kernel.symbols import all_of, any_of, assume, implies, merged, suppose, truth
from permitflow_proofs.kernel.theorem import Theorem

_THREE = range(3)


# Clauses of single actors and pairs are merged one by one: together they have too many cases.


def muted_if_held(state: State, _parameters: Parameters) -> bool:
    """An actor is muted if somebody mutes it, and only then; in a behaviour it is not yet."""
    return all_of(merged(partial(is_muted_if_held, state, name)) for name in _THREE)


def woken(state: State, _parameters: Parameters) -> bool:
    """No wake-up is lost: a muter cannot keep up, or the message that it can is on its way."""
    return all_of(merged(partial(is_woken, state, *pair)) for pair in product(_THREE, repeat=2))


def acyclic(state: State, _parameters: Parameters) -> bool:
    """No two and no three actors wait for each other in a circle."""
    circles = [*permutations(_THREE, 2), (0, 1, 2), (0, 2, 1)]
    return all_of(_is_false(merged(partial(is_circle, state, *names))) for names in circles)


def _is_false(condition: bool) -> bool:
    """Is it false?  Does not fork."""
    return implies(condition, False)


INVARIANT = {
    "TypeOK": SYSTEM.invariants["TypeOK"],
    "MutedIfHeld": muted_if_held,
    "NotBySelf": SYSTEM.invariants["NotBySelf"],
    "Woken": woken,
    "MutedByIsAcyclic": acyclic,
}
"""What every reachable state satisfies; proved by induction."""


def any_parameters() -> Parameters:
    """Any batch, mailboxes and pressure, with the two rules that matter."""
    return any_parameters_of(Parameters, actors=3, spares_busy=True, frees_running=True)


def _any_links(name: str) -> Members[Members[bool]]:
    return Members([Members([truth(f"{name}.{actor}.{muter}") for muter in _THREE]) for actor in _THREE])


def any_state(parameters: Parameters) -> State:
    """Any state of three actors that satisfies the invariant."""
    actors = Members([arbitrary(Actor, f"actor.{name}.") for name in _THREE])
    return assume_all(INVARIANT.values(), State(actors, _any_links("waits"), _any_links("freed")), parameters)


SUBJECT = Subject(
    SYSTEM,
    any_parameters,
    any_state,
    {
        **dict.fromkeys(("Post", "Press", "Release", "Begin", "End", "Rest"), lambda _: (0,)),
        "Send": lambda _: (0, 0) if truth("to itself") else (0, 1),
        "Hear": lambda _: (0, 1),
    },
)
"""Three actors."""

_CHAPTER = Chapter(SUBJECT, INVARIANT, "mute-scheduler-", promises=frozenset({"acyclic", "rest", "woken"}))


def _links(state: State, name: int, muter: int, waits: bool, freed: bool) -> State:
    return state._replace(
        waits=state.waits.put(name, state.waits.get(name).put(muter, waits)),
        freed=state.freed.put(name, state.freed.get(name).put(muter, freed)),
    )


def _asleep(state: State, _parameters: Parameters) -> State:
    """One waits for another that can keep up and has not freed it."""
    awake = state.actors.get(2)._replace(overloaded=False, pressed=False, muted=False)
    return _links(state._replace(actors=state.actors.put(2, awake)), 1, 2, True, False)


def _in_a_circle(state: State, _parameters: Parameters) -> State:
    return _links(_links(state, 1, 2, True, False), 2, 1, True, False)


def _muted_for_nothing(state: State, _parameters: Parameters) -> State:
    idle = state.actors.get(2)._replace(muted=True, inside=True)
    return state._replace(actors=state.actors.put(2, idle))


def _nobody_waits_for_a_sender(spared: int) -> bool:
    """An actor that is muted for what it sends has freed all that wait for it; so no circle of any length closes."""
    state, parameters = SUBJECT.any_case()
    after = SYSTEM.perform("Send", state, parameters, 0, 1)
    suppose(lambda: after.waits.get(0).get(1))
    if not spared:
        assume(_is_false(state.waits.get(0).get(1)))
    return not waits_for(after, 2, 0)


def _is_woken_at_last(late: int) -> bool:
    """Where no message is on its way, and no actor is busy, none is muted: of two that wait, the last waits in vain."""
    state, _ = SUBJECT.any_case()
    for name in _THREE:
        assume(_is_false(state.actors.get(name).overloaded))
        assume(_is_false(state.actors.get(name).pressed))
        for muter in _THREE:
            if late == 0 or name != 0:
                assume(_is_false(state.freed.get(name).get(muter)))
    return not any(state.actors.get(name).muted for name in _THREE)


# Frames: in a step one actor acts, perhaps on another one; a third one stays as it is.


def _is_refused_at_the_limit(before: State, after: State, parameters: Parameters) -> bool:
    more = 1 if _has_room(before, parameters) else 0
    return after.actors.get(0).mailbox == before.actors.get(0).mailbox + more


def _frees(when: bool, before: State, after: State, parameters: Parameters) -> bool:
    """Then all that wait for it are freed, else nobody; without FreesRunning only those that are muted."""
    return all_of(
        after.freed.get(name).get(0)
        == any_of(
            (
                before.freed.get(name).get(0),
                all_of(
                    (
                        when,
                        before.waits.get(name).get(0),
                        any_of((parameters.frees_running, before.actors.get(name).muted)),
                    )
                ),
            )
        )
        for name in _THREE
    )


def _ends_its_run(before: State, after: State, parameters: Parameters) -> bool:
    """Who has done a batch is overloaded, unless it is held: then it is muted; who has no message can keep up."""
    actor, ended = before.actors.get(0), after.actors.get(0)
    if any(before.waits.get(0)):
        return ended.muted and ended.done == 0 and ended.overloaded == actor.overloaded
    if actor.done + 1 >= parameters.batch:
        return ended.overloaded and ended.done == 0 and not ended.muted
    if actor.mailbox > 0:
        return ended.done == actor.done + 1 and ended.overloaded == actor.overloaded and not ended.muted
    rests = not ended.overloaded and ended.done == 0 and not ended.muted
    return rests and _frees(actor.overloaded and not actor.pressed, before, after, parameters)


def _runs_if_nobody_mutes(before: State, after: State, parameters: Parameters) -> bool:
    """Who was muted runs again when nobody mutes it any more, and not before; then it frees its own senders."""
    was_muted, is_held = before.actors.get(0).muted, any_of(after.waits.get(0))
    is_last = was_muted and not is_held
    return after.actors.get(0).muted == (was_muted and not is_last) and _frees(is_last, before, after, parameters)


def _waits_for_the_muting(before: State, after: State, parameters: Parameters) -> bool:
    """Who sends to an actor that is overloaded, under pressure or muted waits for it, unless it is busy itself."""
    one, other = before.actors.get(0), before.actors.get(1)
    mutes = any_of((other.overloaded, other.pressed, other.muted))
    is_spared = all_of((parameters.spares_busy, any_of((one.overloaded, one.pressed))))
    begins = all_of((mutes, _is_false(is_spared)))
    return after.waits.get(0).get(1) == any_of((before.waits.get(0).get(1), begins))


def _rests(before: State, after: State, parameters: Parameters) -> bool:
    return after.actors.get(0).done == 0 and _frees(not before.actors.get(0).pressed, before, after, parameters)


def _is_relieved(before: State, after: State, parameters: Parameters) -> bool:
    actor = before.actors.get(0)
    return _frees(not (actor.overloaded or actor.muted), before, after, parameters)


# Guards: the actor is 0, the other one 1.


def _has_room(state: State, parameters: Parameters) -> bool:
    return sum(state.actors.get(name).mailbox for name in _THREE) < parameters.messages


def _may_be_pressed(state: State, parameters: Parameters, _name: int) -> bool:
    return parameters.pressures and not state.actors.get(0).pressed


def _may_be_released(state: State, parameters: Parameters, _name: int) -> bool:
    return state.actors.get(0).pressed and (not parameters.helped or state.actors.get(2).inside)


def _may_send(state: State, parameters: Parameters, _name: int, _to: int) -> bool:
    return state.actors.get(0).inside and _has_room(state, parameters)


def _may_begin(state: State, _parameters: Parameters, _name: int) -> bool:
    actor = state.actors.get(0)
    return not actor.inside and not actor.muted and actor.mailbox > 0


def _may_end(state: State, _parameters: Parameters, _name: int) -> bool:
    return state.actors.get(0).inside


def _may_rest(state: State, _parameters: Parameters, _name: int) -> bool:
    actor = state.actors.get(0)
    return actor.overloaded and not actor.inside and not actor.muted and actor.mailbox == 0


def _may_hear(state: State, _parameters: Parameters, _name: int, _muter: int) -> bool:
    return state.freed.get(0).get(1) and not state.actors.get(0).inside


_OTHERS_FREED: dict[str, Change] = {"freed.1.0": None, "freed.2.0": None}
_FREED: dict[str, Change] = {"freed.0.0": None, **_OTHERS_FREED}
_SENDS = "in a behaviour, where mailboxes have room"

FRAMES: tuple[Frame[State, Parameters], ...] = (
    Frame("Post", {"actors.0.mailbox": None}, _is_refused_at_the_limit, "+1, or refused where mailboxes are full"),
    Frame("Press", {"actors.0.pressed": True}, when=_may_be_pressed, possible="with Pressures, if it is under none"),
    Frame(
        "Release",
        {"actors.0.pressed": False, **_FREED},
        _is_relieved,
        "frees all that wait for it, unless it is overloaded or muted",
        when=_may_be_released,
        possible="under pressure; where only the last actor helps, in a behaviour of that",
    ),
    Frame(
        "Send",
        {"actors.1.mailbox": +1, "waits.0.1": None},
        _waits_for_the_muting,
        "it waits for one that mutes, unless it is busy",
        when=_may_send,
        possible=_SENDS,
        arguments=(0, 1),
    ),
    Frame("Send", {"actors.0.mailbox": +1}, when=_may_send, possible=_SENDS, arguments=(0, 0)),
    Frame(
        "Begin",
        {"actors.0.inside": True, "actors.0.mailbox": -1},
        when=_may_begin,
        possible="in no behaviour, not muted, with a message",
    ),
    Frame(
        "End",
        {
            "actors.0.inside": False,
            "actors.0.done": None,
            "actors.0.overloaded": None,
            "actors.0.muted": None,
            **_OTHERS_FREED,
        },
        _ends_its_run,
        "who is held is muted, who has done a batch is overloaded, who was and has no message frees all that wait for "
        "it, unless it is under pressure",
        when=_may_end,
        possible="in a behaviour",
    ),
    Frame(
        "Rest",
        {"actors.0.overloaded": False, "actors.0.done": None, **_FREED},
        _rests,
        "frees all that wait for it, unless it is under pressure",
        when=_may_rest,
        possible="overloaded, in no behaviour, not muted, without a message",
    ),
    Frame(
        "Hear",
        {"waits.0.1": False, "freed.0.1": False, "actors.0.muted": None, **_OTHERS_FREED},
        _runs_if_nobody_mutes,
        "when nobody mutes it any more, it runs, and frees all that wait for it",
        when=_may_hear,
        possible="freed by that muter, in no behaviour",
    ),
)
"""What each action changes."""


def _any_three(_parameters: Parameters) -> State:
    actors = Members([arbitrary(Actor, f"actor.{name}.") for name in _THREE])
    return State(actors, _any_links("waits"), _any_links("freed"))


ANY = Subject(SYSTEM, partial(any_parameters_of, Parameters, actors=3), _any_three, SUBJECT.any_arguments)
"""Three actors in any state at all, whatever the rules."""


def theorems() -> tuple[Theorem, ...]:
    """All of them."""
    return (
        _CHAPTER.kept(
            "type-ok",
            "TypeOK",
            "No mailbox is ever negative, and no run longer than a batch.",
            lambda state, parameters: state._replace(
                actors=state.actors.put(2, state.actors.get(2)._replace(done=parameters.batch))
            ),
            "after the step an actor goes on beyond its batch",
        ),
        _CHAPTER.kept(
            "muted-if-held",
            "MutedIfHeld",
            "An actor is muted if and only if one that it has sent to has not freed it, and its behaviour has ended.",
            _muted_for_nothing,
            "after the step an actor is muted in its behaviour",
        ),
        _CHAPTER.kept(
            "not-by-self",
            "NotBySelf",
            "No actor mutes itself.",
            lambda state, _: _links(state, 2, 2, True, False),
            "after the step one does",
        ),
        _CHAPTER.kept(
            "woken",
            "Woken",
            "No wake-up is lost: an actor that mutes another one cannot keep up, or its message that it can is on its "
            "way.",
            _asleep,
            "after the step one waits for another that can keep up",
        ),
        _CHAPTER.kept(
            "acyclic",
            "MutedByIsAcyclic",
            "No two and no three of three actors that send to each other wait for each other in a circle, because "
            "busy ones are not muted.",
            _in_a_circle,
            "after the step two do",
        ),
        _CHAPTER.theorem(
            "no-circle-closes",
            "MutedByIsAcyclic",
            "An actor that begins to wait has freed all that wait for it. (So no circle of any length closes: this is "
            "argued, and no formula.)",
            claim("it sends", _nobody_waits_for_a_sender, "it waited already"),
        ),
        _CHAPTER.theorem(
            "rest",
            "Woken",
            "Of three actors: when none is busy, and all have heard who is free, none is muted.",
            claim("three actors", _is_woken_at_last, "one has not heard"),
        ),
        _CHAPTER.framed(FRAMES, ANY),
    )
