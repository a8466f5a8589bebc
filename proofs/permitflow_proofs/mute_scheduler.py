"""A scheduler that mutes senders, for any number of actors, any batch, mailboxes and pressure.

Actors are looked at by symbolic names: one that acts, the one it acts on, and any two others, or the same.  That actors
do not wait for each other in a circle is shown by numbers: each waits for one with a larger number, however many there
are; and who begins to wait gets a number below all others, because nobody waits for it.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

from permitflow_model.mute_scheduler import (
    SYSTEM,
    Actor,
    Parameters,
    State,
    is_busy,
    is_muted_if_held,
    is_woken,
    mailbox_of,
    waits_for,
)
from permitflow_proofs.kernel.arbitrary import any_parameters_of
from permitflow_proofs.kernel.chapter import Chapter, claim
from permitflow_proofs.kernel.frame import Change, Frame
from permitflow_proofs.kernel.indexed import Indexed, member_by_name, own
from permitflow_proofs.kernel.induction import Subject
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.symbols import (
    all_of,
    any_of,
    assume,
    equal,
    function,
    implies,
    integer,
    merged,
    negated,
    relation,
    suppose,
)
from permitflow_proofs.kernel.theorem import Theorem

_NAMES = tuple(function("name")(number) for number in range(4))
_ACTOR, _OTHER, _ONE, _TWO = _NAMES
"""Who acts, on whom, and any two actors, of which a clause is shown."""

_number = function("number")
"""The number of an actor: it waits for one with a larger number."""


def _type_ok(state: State, parameters: Parameters, _name: int) -> bool:
    return SYSTEM.invariants["TypeOK"](state, parameters)


def _muted_if_held(state: State, _parameters: Parameters, name: int) -> bool:
    """An actor is muted if somebody mutes it, and only then; in a behaviour it is not yet."""
    return is_muted_if_held(state, name)


def _not_by_self(state: State, _parameters: Parameters, name: int) -> bool:
    return not state.waits.get(name).get(name) and not state.freed.get(name).get(name)


def _woken(state: State, _parameters: Parameters, name: int, muter: int) -> bool:
    """No wake-up is lost: a muter cannot keep up, or the message that it can is on its way."""
    return is_woken(state, name, muter)


_CLAUSES: dict[str, tuple[Callable[..., bool], int]] = {
    "TypeOK": (_type_ok, 1),
    "MutedIfHeld": (_muted_if_held, 1),
    "NotBySelf": (_not_by_self, 1),
    "Woken": (_woken, 2),
}
"""What every reachable state satisfies, of each actor, or of each two; proved by induction."""


def _of_any(clause: Callable[..., bool], arity: int) -> Callable[[State, Parameters], bool]:
    def holds(state: State, parameters: Parameters) -> bool:
        return merged(partial(clause, state, parameters, *(_ONE, _TWO)[:arity]))

    return holds


INVARIANT = {name: _of_any(clause, arity) for name, (clause, arity) in _CLAUSES.items()}


def _is_numbered(state: State, name: int, muter: int) -> bool:
    return implies(merged(partial(waits_for, state, name, muter)), _number(name) < _number(muter))


def any_state(parameters: Parameters) -> State:
    """Any state of any number of actors that satisfies the invariant."""
    for name in _NAMES:
        assume(all_of((name >= 0, name < parameters.actors)))
    state = _linked(Indexed.any_family(member_by_name(Actor, "actor."), parameters.actors, *_NAMES))
    # Each is any actor: where one is another one, what is assumed of the one is assumed of the other.
    suppose(partial(_type_ok, state, parameters, _ACTOR))
    for name in (_ACTOR, _ONE):
        assume(merged(partial(_muted_if_held, state, parameters, name)))
    assume(merged(partial(_not_by_self, state, parameters, _ONE)))
    assume(merged(partial(_woken, state, parameters, _ONE, _TWO)))
    assume(_is_numbered(state, _ONE, _TWO))
    return state


def _linked(actors: Indexed[Actor]) -> State:
    """Who waits for whom, and is freed by whom, in any way."""
    waits, freed = (actors.beside(partial(_row, actors, relation(own(name)))) for name in ("waits", "freed"))
    return State(actors, waits=cast(Any, waits), freed=cast(Any, freed))


def _row(actors: Indexed[Actor], link: Callable[[int, int], bool], name: int) -> Indexed[bool]:
    return actors.beside(partial(link, name))


_ARGUMENTS: Mapping[str, Callable[[Parameters], tuple[int, ...]]] = {
    **dict.fromkeys(
        ("Post", "ApplyPressure", "ReleasePressure", "BeginBehaviour", "EndBehaviour", "UnsetOverloaded"),
        lambda _: (_ACTOR,),
    ),
    **dict.fromkeys(("Send", "UnmuteSender"), lambda _: (_ACTOR, _OTHER)),
}

SUBJECT = Subject(SYSTEM, partial(any_parameters_of, Parameters), any_state, _ARGUMENTS)
"""Any number of actors, batch, mailboxes and pressure."""

_CHAPTER = Chapter(SUBJECT, INVARIANT, "mute-scheduler-", promises=frozenset({"acyclic", "rest", "woken"}))


def _is_freed_by_none(state: State, parameters: Parameters, muter: int) -> bool:
    return not SYSTEM.is_enabled("UnmuteSender", state, parameters, _ONE, muter)


def _links(state: State, name: int, muter: int, waits: bool, freed: bool) -> State:
    return state._replace(
        waits=state.waits.put(name, state.waits.get(name).put(muter, waits)),
        freed=state.freed.put(name, state.freed.get(name).put(muter, freed)),
    )


def _asleep(state: State, _parameters: Parameters) -> State:
    """One waits for another that can keep up and has not freed it."""
    awake = state.actors.get(_TWO)._replace(overloaded=False, pressed=False, muted=False)
    return _links(state._replace(actors=state.actors.put(_TWO, awake)), _ONE, _TWO, True, False)


def _muted_for_nothing(state: State, _parameters: Parameters) -> State:
    idle = state.actors.get(_ONE)._replace(muted=True, inside=True)
    return state._replace(actors=state.actors.put(_ONE, idle))


def _nobody_waits(state: State, wrong: bool) -> bool:
    return bool(waits_for(state, _ONE, _TWO)) is wrong


def _goes_up(more: int, before: State, after: State, _parameters: Parameters) -> bool:
    """Who begins to wait gets a number below all others; then each waits for one with a number that is larger."""
    lowest = integer("lowest")
    assume(all_of(lowest < _number(name) for name in _NAMES))
    begins = all_of(
        (
            merged(partial(waits_for, after, _ACTOR, _OTHER)),
            negated(merged(partial(waits_for, before, _ACTOR, _OTHER))),
        )
    )

    def number(name: int) -> int:
        return lowest if name == _ACTOR and begins else _number(name)

    return not waits_for(after, _ONE, _TWO) or number(_ONE) + more < number(_TWO)


def _acyclic() -> tuple[SymbolicObligation, ...]:
    def initially(wrong: int) -> bool:
        return _nobody_waits(SYSTEM.initial(SUBJECT.any_parameters()), wrong == 1)

    steps = SUBJECT.step_obligations(
        [action.name for action in SYSTEM.actions], partial(_goes_up, 0), partial(_goes_up, 1), "by two at least"
    )
    return (claim("initially nobody waits", initially, "somebody does"), *steps)


def _is_awake(actor: Actor) -> bool:
    return not actor.muted


def _is_woken_at_last(late: int) -> bool:
    """Where no message is on its way, and no actor is busy, none is muted: the last that waits waits in vain."""
    state, parameters = SUBJECT.any_case()
    actors = cast("Indexed[Actor]", state.actors)
    last = actors.last_without(_is_awake, _number)
    assume(merged(partial(_muted_if_held, state, parameters, last.name)))

    def has_rested(name: int) -> bool:
        return negated(is_busy(state.actors.get(name)))

    def has_heard(muter: int) -> bool:
        is_freed = state.freed.get(last.name).get(muter)
        return all_of((_woken(state, parameters, last.name, muter), negated(is_freed)))

    actors.assume_every(has_rested)
    actors.assume_every(lambda muter: _is_numbered(state, last.name, muter))
    if not late:
        actors.assume_every(has_heard)
    return actors.every(_is_awake)


# Frames: in a step one actor acts, perhaps on another one; any third one stays as it is.


def _is_refused_at_the_limit(before: State, after: State, parameters: Parameters) -> bool:
    more = 1 if _has_room(before, parameters) else 0
    return after.actors.get(_ACTOR).mailbox == before.actors.get(_ACTOR).mailbox + more


def _is_held(state: State) -> bool:
    return negated(state.waits.get(_ACTOR).every(negated))


def _frees(when: bool, before: State, after: State) -> bool:
    """Then all that wait for it are freed, else nobody."""
    return all_of(
        after.freed.get(name).get(_ACTOR)
        == any_of(
            (
                before.freed.get(name).get(_ACTOR),
                all_of(
                    (
                        when,
                        before.waits.get(name).get(_ACTOR),
                    )
                ),
            )
        )
        for name in (_ACTOR, _OTHER, _ONE)
    )


def _ends_its_run(before: State, after: State, parameters: Parameters) -> bool:
    """Who has done a batch is overloaded, unless it is held: then it is muted; who has no message can keep up."""
    actor, ended = before.actors.get(_ACTOR), after.actors.get(_ACTOR)
    if _is_held(before):
        return ended.muted and ended.done == 0 and ended.overloaded == actor.overloaded
    if actor.done + 1 >= parameters.batch:
        return ended.overloaded and ended.done == 0 and not ended.muted
    if actor.mailbox > 0:
        return ended.done == actor.done + 1 and ended.overloaded == actor.overloaded and not ended.muted
    rests = not ended.overloaded and ended.done == 0 and not ended.muted
    return rests and _frees(actor.overloaded and not actor.pressed, before, after)


def _runs_if_nobody_mutes(before: State, after: State, _parameters: Parameters) -> bool:
    """Who was muted runs again when nobody mutes it any more, and not before; then it frees its own senders."""
    was_muted = before.actors.get(_ACTOR).muted
    is_last = was_muted and not _is_held(after)
    return after.actors.get(_ACTOR).muted == (was_muted and not is_last) and _frees(is_last, before, after)


def _waits_for_the_muting(before: State, after: State, _parameters: Parameters) -> bool:
    """Who sends to an actor that is overloaded, under pressure or muted waits for it, unless it is busy itself."""
    one, other = before.actors.get(_ACTOR), before.actors.get(_OTHER)
    mutes = any_of((other.overloaded, other.pressed, other.muted))
    begins = all_of((mutes, negated(any_of((one.overloaded, one.pressed)))))
    return after.waits.get(_ACTOR).get(_OTHER) == any_of((before.waits.get(_ACTOR).get(_OTHER), begins))


def _rests(before: State, after: State, _parameters: Parameters) -> bool:
    was_pressed = before.actors.get(_ACTOR).pressed
    return after.actors.get(_ACTOR).done == 0 and _frees(not was_pressed, before, after)


def _is_relieved(before: State, after: State, _parameters: Parameters) -> bool:
    actor = before.actors.get(_ACTOR)
    return _frees(not (actor.overloaded or actor.muted), before, after)


# Guards.


def _has_room(state: State, parameters: Parameters) -> bool:
    return state.actors.sum_of(mailbox_of) < parameters.messages


def _may_be_pressed(state: State, parameters: Parameters, name: int) -> bool:
    return parameters.pressures and not state.actors.get(name).pressed


def _may_be_released(state: State, parameters: Parameters, name: int) -> bool:
    is_helped = not parameters.helped or state.actors.get(parameters.actors - 1).inside
    return state.actors.get(name).pressed and is_helped


def _may_send(state: State, parameters: Parameters, name: int, _to: int) -> bool:
    return state.actors.get(name).inside and _has_room(state, parameters)


def _may_begin(state: State, _parameters: Parameters, name: int) -> bool:
    actor = state.actors.get(name)
    return not actor.inside and not actor.muted and actor.mailbox > 0


def _may_end(state: State, _parameters: Parameters, name: int) -> bool:
    return state.actors.get(name).inside


def _may_rest(state: State, _parameters: Parameters, name: int) -> bool:
    actor = state.actors.get(name)
    return actor.overloaded and not actor.inside and not actor.muted and actor.mailbox == 0


def _may_hear(state: State, _parameters: Parameters, name: int, muter: int) -> bool:
    return state.freed.get(name).get(muter) and not state.actors.get(name).inside


_OTHERS_FREED: dict[str, Change] = {"freed.1.0": None, "freed.others.0": None}
_FREED: dict[str, Change] = {"freed.0.0": None, **_OTHERS_FREED}
_SENDS = "in a behaviour, where mailboxes have room"

FRAMES: tuple[Frame[State, Parameters], ...] = (
    Frame("Post", {"actors.0.mailbox": None}, _is_refused_at_the_limit, "+1, or refused where mailboxes are full"),
    Frame(
        "ApplyPressure",
        {"actors.0.pressed": True},
        when=_may_be_pressed,
        possible="with Pressures, if it is under none",
    ),
    Frame(
        "ReleasePressure",
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
        "BeginBehaviour",
        {"actors.0.inside": True, "actors.0.mailbox": -1},
        when=_may_begin,
        possible="in no behaviour, not muted, with a message",
    ),
    Frame(
        "EndBehaviour",
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
        "UnsetOverloaded",
        {"actors.0.overloaded": False, "actors.0.done": None, **_FREED},
        _rests,
        "frees all that wait for it, unless it is under pressure",
        when=_may_rest,
        possible="overloaded, in no behaviour, not muted, without a message",
    ),
    Frame(
        "UnmuteSender",
        {"waits.0.1": False, "freed.0.1": False, "actors.0.muted": None, **_OTHERS_FREED},
        _runs_if_nobody_mutes,
        "when nobody mutes it any more, it runs, and frees all that wait for it",
        when=_may_hear,
        possible="freed by that muter, in no behaviour",
    ),
)
"""What each action changes."""


def _any_actors(parameters: Parameters) -> State:
    for name in (_ACTOR, _OTHER):
        assume(all_of((name >= 0, name < parameters.actors)))
    assume(negated(equal(_ACTOR, _OTHER)))
    return _linked(
        Indexed.any_family(member_by_name(Actor, "actor."), parameters.actors, focus={"0": _ACTOR, "1": _OTHER})
    )


def _several() -> Parameters:
    parameters = any_parameters_of(Parameters)
    assume(parameters.actors >= 2)
    return parameters


ANY = Subject(
    SYSTEM,
    _several,
    _any_actors,
    dict.fromkeys(
        ("Post", "ApplyPressure", "ReleasePressure", "BeginBehaviour", "EndBehaviour", "UnsetOverloaded"),
        lambda _: (_ACTOR,),
    )
    | {"UnmuteSender": lambda _: (_ACTOR, _OTHER)},
    names=(_ACTOR, _OTHER),
)
"""Any number of actors from two on, in any state at all."""


def theorems() -> tuple[Theorem, ...]:
    """All of them."""
    return (
        _CHAPTER.kept(
            "type-ok",
            "TypeOK",
            "No mailbox is ever negative, and no run longer than a batch.",
            lambda state, parameters: state._replace(
                actors=state.actors.put(_ONE, state.actors.get(_ONE)._replace(done=parameters.batch))
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
            "No actor mutes itself, or is freed by itself.",
            lambda state, _: _links(state, _ONE, _ONE, True, False),
            "after the step one does",
        ),
        _CHAPTER.theorem(
            "freed-by-another",
            "UnmuteSender",
            "UnmuteSender is about two actors, as its frame says: it is never possible of an actor and itself.",
            SUBJECT.holds_whenever_invariant(
                "of any actor",
                partial(_is_freed_by_none, muter=_ONE),
                partial(_is_freed_by_none, muter=_TWO),
                "nor of any two",
            ),
        ),
        _CHAPTER.kept(
            "woken",
            "Woken",
            "No wake-up is lost: an actor that mutes another one cannot keep up, or its message that it can is on its "
            "way.",
            _asleep,
            "after the step one waits for another that can keep up",
        ),
        _CHAPTER.theorem(
            "acyclic",
            "MutedByIsAcyclic",
            "Actors that send to each other do not wait for each other in a circle, of whatever length, because busy "
            "ones are not muted: they can be numbered so that each waits for one with a larger number.",
            *_acyclic(),
        ),
        _CHAPTER.theorem(
            "rest",
            "Woken",
            "When no actor is busy, and all have heard who is free, none is muted.",
            claim("any number of actors", _is_woken_at_last, "one has not heard"),
        ),
        _CHAPTER.framed(FRAMES, ANY),
    )
