"""A loop of any number of stations of any sizes: when it fills up and is dead, and what keeps it live.

Stations are looked at by symbolic names.  Three arguments go round the loop.

- A station that asks is *near* if there are few stations between the merge and it.  All before it are full, so the one
  before it can hand on, and then asks itself.  So an element from outside can come in after this many steps; and if no
  element ever leaves, the loop comes to be full: free places and the way to the nearest are a rank.
- If nothing moves, the station before one that asks is empty, so it asks, too; and so on round the loop.
- If a stage gives more than it takes, each element that passes it is one more, and the elements that do not pass it
  come nearer to it with each step.  There are places for only that many elements.

What sums of two measures say is shown apart (``_Sums``), of families that know them.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import cast

from permitflow_model.feedback_loop import (
    SYSTEM,
    Parameters,
    State,
    Station,
    held,
    is_empty,
    is_full,
    station_ok,
    takes,
)
from permitflow_model.kernel.queue import larger
from permitflow_model.kernel.runs import Move
from permitflow_proofs.kernel.arbitrary import any_parameters_of, any_value, assume_all
from permitflow_proofs.kernel.chapter import Chapter, claim
from permitflow_proofs.kernel.family import SymbolicFamily
from permitflow_proofs.kernel.frame import Frame
from permitflow_proofs.kernel.indexed import Indexed, LastOne, member_by_name
from permitflow_proofs.kernel.induction import Subject
from permitflow_proofs.kernel.obligation import take
from permitflow_proofs.kernel.ranking import Number, comes_to_rest, is_lower
from permitflow_proofs.kernel.symbols import all_of, assume, equal, function, integer, merged, negated
from permitflow_proofs.kernel.theorem import Theorem

INVARIANT = {"TypeOK": SYSTEM.invariants["TypeOK"]}
"""What every reachable state satisfies; proved by induction."""


_ACTING, _OTHER, _GROWING = (function("name")(number) for number in range(3))
_MORE = function("more")(0)
"""Elements that the stage gives beyond the least."""


def any_state(parameters: Parameters) -> State:
    """Any state of a loop of stations of any sizes that satisfies the invariant."""
    assume(all_of((_ACTING >= 0, parameters.stations > _ACTING)))
    names = (0, _ACTING, _ACTING + 1, _OTHER, parameters.stations - 1)
    stations = Indexed.any_family(member_by_name(Station, "station."), parameters.stations, *names)
    return assume_all(INVARIANT.values(), State(stations), parameters)


SUBJECT = Subject(
    SYSTEM,
    partial(any_parameters_of, Parameters),
    any_state,
    dict.fromkeys(("Feed", "HandOn"), lambda _: (_MORE,)),
    acting=_ACTING,
)
"""Any number of stations."""

_CHAPTER = Chapter(
    SUBJECT, INVARIANT, "feedback-", promises=frozenset({"dead", "grows", "live", "permits", "starves", "drops"})
)


def _stations(state: State) -> Indexed[Station]:
    return cast("Indexed[Station]", state.stations)


def _is_possible(state: State, parameters: Parameters, action: str, *arguments: int) -> bool:
    """Does not fork."""
    return merged(partial(SYSTEM.is_enabled, action, state, parameters, *arguments))


def _gives_at_most_one(station: Station) -> bool:
    return equal(station.most, 1)


def _keeps_all(station: Station) -> bool:
    """It drops nothing, and gives at least as many as it takes."""
    return all_of((negated(station.drops), station.least >= 1))


def _total(state: State) -> int:
    return state.stations.sum_of(held)


# An element from outside can come in.


def _any_one_for_one(parameters: Parameters) -> State:
    """Any state of stages that give at most one for one, with a merge that takes any."""
    state = SUBJECT.any_state(parameters)
    stations = _stations(state)
    assume(parameters.merge == "any")
    stations.assume_every(lambda name: _gives_at_most_one(stations.get(name)))
    return state


_ONE_FOR_ONE = replace(SUBJECT, any_state=_any_one_for_one)


def _nearest_that_asks(state: State) -> LastOne:
    return _stations(state).last_without(is_full, place=lambda name: -name)


def _steps_to_asking(state: State, _parameters: Parameters) -> int:
    """From the merge to the nearest station that asks; none if no station does."""
    nearest = _nearest_that_asks(state)
    return nearest.name * nearest.exists


def _free(_name: int, station: Station) -> int:
    return station.places - station.held


def _free_places(state: State, _parameters: Parameters) -> int:
    return _stations(state).sum_by_name(_free)


def _goes_on(rank: Sequence[Number[State, Parameters]], by: int, *, drops: bool) -> bool:
    """Unless no station asks, a step lowers a rank: the merge takes an element, or the station before the nearest that
    asks hands on.  Data let the stage give one for one.
    """
    before, parameters = _ONE_FOR_ONE.any_case()
    stations = _stations(before)
    if not drops:
        stations.assume_every(lambda name: negated(stations.get(name).drops))
    nearest = _nearest_that_asks(before)
    assume(nearest.exists)
    stations.know(nearest.name - 1)
    one = 1 - stations.get(nearest.name).least
    if nearest.name == 0 and drops:
        return _is_possible(before, parameters, "Feed", one)
    move: Move = ("Feed", (one,)) if nearest.name == 0 else ("HandOn", (nearest.name - 1, one))
    after = take(SYSTEM, parameters, before, [move])
    return after is not None and is_lower(rank, before, after, parameters, by=1 + by)


def _can_fill(by: int) -> bool:
    return _goes_on((_free_places, _steps_to_asking), by, drops=False)


def _can_come_in(by: int) -> bool:
    return _goes_on((_steps_to_asking,), by, drops=True)


def _are_places_natural(more: int) -> bool:
    state, parameters = _ONE_FOR_ONE.any_case()
    return _free_places(state, parameters) >= more


def _is_asking_near(more: int) -> bool:
    """No more steps than there are stations, with the one that takes an element."""
    state, parameters = _ONE_FOR_ONE.any_case()
    steps = _steps_to_asking(state, parameters)
    return all_of((steps >= 0, steps < parameters.stations - more))


def _following(parameters: Parameters, name: int = _ACTING) -> int:
    return name + 1 if parameters.stations - 1 > name else 0


def _is_dead_if_full(asking: int) -> bool:
    """Where no station asks, nothing moves, and something is there; the twin: one asks."""
    state, parameters = SUBJECT.any_case()
    stations = _stations(state)
    stations.assume_every(lambda name: merged(lambda: is_full(stations.get(name))) if asking == 0 else name >= 0)
    moves = (_is_possible(state, parameters, "Feed", _MORE), _is_possible(state, parameters, "HandOn", _ACTING, _MORE))
    return all_of((stations.get(0).held > 0, *(negated(each) for each in moves)))


# Nothing moves, and nothing is there.


def _rests_empty(unasked: int) -> bool:
    """If a station asks, and nothing moves, nothing is in the loop; the twin: none need ask."""
    state, parameters = SUBJECT.any_case()
    stations, size = _stations(state), parameters.stations
    asking = integer("asking")
    stations.know(asking)
    assume(all_of((asking >= 0, asking < size)))
    if not unasked:
        assume(merged(lambda: takes(stations.get(asking))))

    def rests(name: int) -> bool:
        return negated(_is_possible(state, parameters, "HandOn", name))

    stations.assume_every(rests)

    def place(name: int) -> int:
        """From the station that asks on, round the loop: it is the first, and the one before it the last."""
        return name - size * (name >= asking)

    # A station with an element would be the last one before those that are empty, so that the next one asks.
    full = stations.last_without(is_empty, place)
    stations.know(0)
    return all_of((negated(full.exists), stations.every(is_empty)))


def _asks_if_it_drops(unless: int) -> bool:
    state, _ = SUBJECT.any_case()
    station = state.stations.get(_ACTING)
    return takes(station) or (not station.drops and not unless)


# A place stays free.


def _keeps_a_place(wrong: int) -> bool:
    """After handing on, a station asks: the one that has done so; the twin: the next one."""
    before, after, parameters = SUBJECT.any_step("HandOn")
    _stations(before).assume_every(lambda name: _gives_at_most_one(before.stations.get(name)))
    return takes(after.stations.get(_following(parameters) if wrong else _ACTING))


def _leaves_the_last_place(fewer: int) -> bool:
    """After a merge that prefers what comes back has taken an element from outside, the last station asks."""
    _, after, parameters = SUBJECT.any_step("Feed")
    assume(parameters.merge == "preferred")
    assume(parameters.stations >= 2 - fewer)
    return takes(after.stations.get(parameters.stations - 1))


def _stays_within_permits(action: str, less: int) -> bool:
    before, after, parameters = SUBJECT.any_step(action)
    stations = _stations(before)
    stations.assume_every(lambda name: _gives_at_most_one(stations.get(name)))
    assume(parameters.merge == "permits")
    if action == "Feed":
        return _total(after) <= parameters.permits - less
    return _total(after) <= _total(before) - less


def _any_starving_state(parameters: Parameters) -> State:
    """Any state of stages that give one for one, with a merge that prefers what comes back."""
    state = SUBJECT.any_state(parameters)
    stations = _stations(state)
    assume(all_of((parameters.merge == "preferred", parameters.stations >= 2)))
    stations.assume_every(lambda name: _gives_at_most_one(stations.get(name)))
    stations.assume_every(lambda name: _keeps_all(stations.get(name)))
    # Besides the first and the last station, the others have no negative number of free places.
    last = parameters.stations - 1
    ends = stations.put(0, _filled(stations.get(0))).put(last, _filled(stations.get(last)))
    ends.sum_by_name(_free)
    return state


def _filled(station: Station) -> Station:
    return station._replace(held=station.places)


_STARVING = replace(SUBJECT, any_state=_any_starving_state)


def _still_to_come_in(state: State, parameters: Parameters) -> int:
    """Elements from outside: places before the last station, less all elements in the loop."""
    return larger(0, _free_places(state, parameters) - state.stations.get(parameters.stations - 1).places)


class _Sums:
    """A loop with one station in focus, any one, and any number of others.  It knows sums."""

    def __init__(self) -> None:
        self.stations: SymbolicFamily[Station] = SymbolicFamily.any_family("stations", any_value(Station))
        self.stations.assume_every(station_ok)
        self.stations.assume_every(_is_within_places)
        self.held, self.places = self.stations.sum_of(held), self.stations.sum_of(_places)


def _places(station: Station) -> int:
    return station.places


def _is_within_places(station: Station) -> bool:
    """It drops nothing, and its stage gives at most one, and so has nothing in its hand."""
    return all_of((_gives_at_most_one(station), negated(station.drops)))


def _has_place_within(beyond: int) -> bool:
    """Fewer elements than places: a station asks."""
    loop = _Sums()
    assume(loop.held < loop.places + beyond)
    return not loop.stations.every(is_full)


def _is_within_if_place(less: int) -> bool:
    """A station asks, any one: fewer elements than places, so that permits for all places keep nothing out."""
    loop = _Sums()
    assume(merged(lambda: takes(loop.stations.get(0))))
    return loop.held <= loop.places - 1 - less


def _room(station: Station) -> int:
    """With what the stage may have in its hand."""
    return station.places + station.most - 1


def _holds_at_most(less: int) -> bool:
    stations = SymbolicFamily.any_family("stations", any_value(Station))
    stations.assume_every(station_ok)
    return stations.sum_of(held) <= stations.sum_of(_room) - less


# A stage that gives more than it takes.


def _steps_to_growing(name: int, size: int) -> int:
    """Steps of an element until the next one is through the growing stage."""
    ahead = _GROWING - name - 1
    return ahead + size * (ahead < 0)


def _any_growing_state(parameters: Parameters) -> State:
    """One stage gives two and more for one, and no other loses any."""
    state = SUBJECT.any_state(parameters)
    stations = _stations(state)
    stations.know(_GROWING)
    assume(all_of((_GROWING >= 0, parameters.stations > _GROWING)))
    assume(stations.get(_GROWING).least >= 2)
    stations.assume_every(lambda name: _keeps_all(stations.get(name)))
    return state


_GROWING_LOOP = replace(SUBJECT, any_state=_any_growing_state)


def _left(_name: int, station: Station) -> int:
    return _room(station) - station.held


def _room_left(state: State, _parameters: Parameters) -> int:
    return _stations(state).sum_by_name(_left)


def _to_growing(name: int, station: Station, size: int) -> int:
    return station.held * _steps_to_growing(name, size)


def _way_to_growing(state: State, parameters: Parameters) -> int:
    """Steps of all elements together until the next one is through the growing stage."""
    return _stations(state).sum_by_name(_to_growing, parameters.stations)


def _makes_none_fewer(action: str, more: int) -> bool:
    before, after, _ = _GROWING_LOOP.any_step(action)
    return _total(after) >= _total(before) + 2 * more


# Frames.


def _may_take(station: Station) -> bool:
    return station.drops or station.held < station.places


def _has_taken(before: Station, after: Station) -> bool:
    """It has this many more elements; a station that drops keeps what it has places for."""
    due = before.held + before.least + _MORE
    return after.held == (min(due, before.places) if before.drops else due)


def _is_a_ratio(station: Station) -> bool:
    return 0 <= _MORE <= station.most - station.least


def _neighbours(parameters: Parameters, name: int) -> State:
    """Two neighbours in any state at all: this station, and the next one."""
    assume(parameters.stations >= 2)
    focus = {"0": name, "1": _following(parameters, name)}
    member = member_by_name(Station, "station.")
    return State(Indexed.any_family(member, parameters.stations, parameters.stations - 1, focus=focus))


def _with_first(parameters: Parameters) -> State:
    return _neighbours(parameters, 0)


def _may_feed(state: State, parameters: Parameters, _more: int) -> bool:
    first, last = state.stations.get(0), state.stations.get(parameters.stations - 1)
    if not (_may_take(first) and _is_a_ratio(first)):
        return False
    if parameters.merge == "any":
        return True
    return last.held == 0 if parameters.merge == "preferred" else _total(state) < parameters.permits


def _may_hand_on(state: State, parameters: Parameters, name: int, _more: int) -> bool:
    following = state.stations.get(_following(parameters))
    return state.stations.get(name).held > 0 and _may_take(following) and _is_a_ratio(following)


FRAMES: tuple[Frame[State, Parameters], ...] = (
    Frame(
        "Feed",
        {"stations.0.held": None},
        lambda before, after, _: _has_taken(before.stations.get(0), after.stations.get(0)),
        "from least to most elements more; the first station acts",
        when=_may_feed,
        possible="where the first station asks, and the merge admits an element from outside",
        any_state=_with_first,
    ),
    Frame(
        "HandOn",
        {"stations.0.held": -1, "stations.1.held": None},
        lambda before, after, parameters: _has_taken(
            before.stations.get(_following(parameters)), after.stations.get(_following(parameters))
        ),
        "from least to most elements more, where there are places or nothing is dropped; 1 is the next station",
        when=_may_hand_on,
        possible="where the station has an element, and the next one asks",
    ),
)
"""What each action changes in the station that acts and the next one."""


def _any_neighbours(parameters: Parameters) -> State:
    assume(all_of((_ACTING >= 0, parameters.stations > _ACTING)))
    return _neighbours(parameters, _ACTING)


ANY = Subject(
    SYSTEM,
    partial(any_parameters_of, Parameters),
    _any_neighbours,
    dict.fromkeys(("Feed", "HandOn"), lambda _: (_MORE,)),
    acting=_ACTING,
)
"""Two neighbours in a loop of any number of stations, in any state at all."""


def _with_held(state: State, name: int, number: int) -> State:
    return State(state.stations.put(name, state.stations.get(name)._replace(held=number)))


_ROUND = claim("where a station asks and nothing moves, nothing is in the loop", _rests_empty, "none need ask")

_NEAR = claim("the nearest station that asks is one of them", _is_asking_near, "and not the last")


def theorems() -> tuple[Theorem, ...]:
    """All of them."""
    return (
        _CHAPTER.kept(
            "type-ok",
            "TypeOK",
            "A station holds what it has places for, and what its stage gives at once, less one; one that drops, no "
            "more than its places.",
            lambda state, _: _with_held(state, 0, -1),
            "after the step the first one holds -1",
        ),
        _CHAPTER.theorem(
            "bounded",
            "TypeOK",
            "The loop holds no more than its stations together.",
            claim("any number of stations", _holds_at_most, "one less"),
        ),
        _CHAPTER.theorem(
            "live",
            "NeverStuck",
            "A loop in which a station asks is never stuck, whatever its stages give for an element: where nothing "
            "moves, nothing is in it.",
            _ROUND,
        ),
        _CHAPTER.theorem(
            "dead",
            "Feed",
            "A loop of stages that give one element for one, fed by a merge that takes any, can fill up from every "
            "state, whatever its size: where a station has a place, some step leaves fewer places, or as many and one "
            "nearer to the merge. Where none has one and none drops, the loop is dead: nothing moves any more. So can "
            "one of filters, on data that they let pass.",
            claim("a step leaves fewer places, or the nearest one nearer", _can_fill, "two fewer, or two nearer"),
            claim("no number of free places is negative", _are_places_natural, "one is always free"),
            _NEAR,
            claim("where no station asks, nothing moves", _is_dead_if_full, "one asks"),
        ),
        _CHAPTER.theorem(
            "grows",
            "HandOn",
            "A loop in which one stage gives two and more for an element, and no other loses any, comes to a deadlock "
            "in every run that begins with an element, fed or not: each step makes them more, or brings one nearer to "
            "that stage, and there are places for only that many.",
            *comes_to_rest(_GROWING_LOOP, _room_left, _way_to_growing, steps=("Feed", "HandOn"), twin_by=100),
            *(
                claim(f"{action} makes no fewer elements", partial(_makes_none_fewer, action), "it makes two more")
                for action in ("Feed", "HandOn")
            ),
        ),
        _CHAPTER.theorem(
            "permits",
            "NeverFull",
            "Of stages that give at most one for one: with a merge that lets no more elements in than there are places "
            "but one, a station always asks, so that the loop is live; with permits for all places, it takes as one "
            "that takes any, and can be dead. A closed loop (Permits = 0) is live with fewer elements at the start "
            "than places.",
            claim("feeding stays within the permits", partial(_stays_within_permits, "Feed"), "one less"),
            claim("handing on makes none", partial(_stays_within_permits, "HandOn"), "one less"),
            claim("with fewer elements than places a station asks", _has_place_within, "one more"),
            claim("where a station asks there are fewer elements than places", _is_within_if_place, "one less"),
        ),
        _CHAPTER.theorem(
            "starves",
            "Admits",
            "Of stages that give one for one: with a merge that prefers what comes back a station always asks, so that "
            "the loop is live, if it has two stations and more. But what may still come in from outside, the places "
            "before the last station less the elements in the loop, falls with each element that does, and no step "
            "raises it. So from some time on the source has to wait for ever.",
            claim("handing on leaves a place", _keeps_a_place, "at the next station"),
            claim("so does an element from outside", _leaves_the_last_place, "with a single station"),
            *comes_to_rest(_STARVING, _still_to_come_in, steps=("Feed",), exactly=True),
        ),
        _CHAPTER.theorem(
            "drops",
            "NeverFull",
            "A station that drops what it has no place for always asks: the loop is never stuck, whatever its stages "
            "give; and if they give at most one for one, an element from outside can come in after at most as many "
            "steps as there are stations.",
            claim("it asks", _asks_if_it_drops, "it need not drop"),
            _ROUND,
            claim("the merge can take an element, or the nearest that asks is nearer", _can_come_in, "two nearer"),
            _NEAR,
        ),
        _CHAPTER.framed(FRAMES, ANY),
    )
