"""The queue of a sink while its mute spreads: the places that are enough, for any sources, rates, depths and delays.

The newest signal has this many hops to go, and each takes at most its delay: by induction over the hops, a source sends
no more than its rate allows in the time that is left.  The sources are a family: sums of what may still come are
compared, source by source.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from itertools import product

from permitflow_model.kernel.explore import explore
from permitflow_model.mute_delay import SYSTEM, Parameters, Source, State, initial, is_coming, is_in_time, places_for
from permitflow_proofs.kernel.arbitrary import any_parameters_of, any_value, arbitrary, assume_all
from permitflow_proofs.kernel.chapter import Chapter
from permitflow_proofs.kernel.family import SymbolicFamily, each_in_focus
from permitflow_proofs.kernel.frame import Change, Frame
from permitflow_proofs.kernel.induction import ExhaustiveObligation, Subject
from permitflow_proofs.kernel.symbols import assume
from permitflow_proofs.kernel.theorem import Theorem


def may_come(source: Source) -> int:
    """Messages that may still come from a source after the sink has muted."""
    if not is_coming(source):
        return source.wire
    gone = source.rate if source.late else source.sent
    return source.wire + source.ahead + source.spare - gone


def _has_rate(source: Source) -> bool:
    return 1 <= source.rate <= source.reach and source.slack >= 0 and source.flight >= 1


def rates(state: State, _parameters: Parameters) -> bool:
    """Each source has a rate, and is some hops away."""
    return state.sources.every(_has_rate)


def coming(state: State, parameters: Parameters) -> bool:
    """A sink that mutes has places for what is in its queue and for what may still come."""
    may = state.sources.sum_of(may_come)
    places = state.sources.sum_of(places_for)
    return not state.mutes or state.inbox + may <= parameters.high + places


INVARIANT = {
    **{name: SYSTEM.invariants[name] for name in ("TypeOK", "Marks", "NewestObeyed", "InTime")},
    "Rates": rates,
    "Coming": coming,
}
"""What every reachable state satisfies; proved by induction."""


def any_parameters() -> Parameters:
    """Any parameters that the model accepts."""
    return any_parameters_of(Parameters)


def any_state(parameters: Parameters) -> State:
    """Any state that satisfies the invariant."""
    return assume_all(INVARIANT.values(), arbitrary(State), parameters)


SUBJECT = Subject(SYSTEM, any_parameters, any_state)
"""A sink with any number of sources."""

_CHAPTER = Chapter(SUBJECT, INVARIANT, "mute-delay-", promises=frozenset({"bounded", "no-storm"}))


def _is_counted(source: Source) -> bool:
    return may_come(source) >= 0 and places_for(source) >= 0


def _bounded(state: State, parameters: Parameters, short: int) -> bool:
    counted = state.sources.every(_is_counted)
    assume(parameters.capacity >= parameters.high + state.sources.sum_of(places_for) - short)
    return counted and SYSTEM.invariants["Bounded"](state, parameters)


def _ahead(state: State, parameters: Parameters) -> int:
    """Messages that must come, or be consumed, before the sink changes its word."""
    return state.inbox - parameters.low if state.mutes else parameters.high + 1 - state.inbox


def _is_no_storm(before: State, after: State, parameters: Parameters, short: int) -> bool:
    """The sink changes its word only where nothing is ahead, and then the whole gap is."""
    if after.mutes == before.mutes:
        return _ahead(after, parameters) >= _ahead(before, parameters) - 1 + short
    gap = parameters.high + 1 - parameters.low
    return _ahead(before, parameters) <= 1 and _ahead(after, parameters) >= gap + short


def _cases() -> Iterable[Parameters]:
    """One source and two, near and far, slow and fast, with and without losses."""
    for sources, rate, depth, flight, losses in product((1, 2), (1, 2), (1, 2, 3), (1, 2), (0, 1)):
        if sources == 1 or rate * depth * flight * (losses + 1) <= 2:
            yield Parameters(
                sources=sources,
                rate=1,
                depth=1,
                flight=1,
                first_rate=rate,
                first_depth=depth,
                first_flight=flight,
                high=1,
                low=0,
                capacity=1,
                losses=losses,
            )


def _peak(parameters: Parameters) -> int:
    return max(state.inbox for state in explore(SYSTEM, parameters, invariants={}).states)


def _places(parameters: Parameters) -> int:
    return initial(parameters).sources.sum_of(places_for)


def _described(parameters: Parameters) -> Mapping[str, int]:
    names = ("sources", "first_rate", "first_depth", "first_flight", "losses")
    return {name: getattr(parameters, name) for name in names}


# Frames.

_TOLD: dict[str, Change] = {
    **{f"sources.{name}.{part}": None for name in (0, 1) for part in ("ahead", "late")},
    "sources.others": None,
}
"""What a source has of the newest signal: in focus are one that acts and, if there are several, any other one."""


def _tells_all(before: State, after: State, _parameters: Parameters) -> bool:
    """The newest signal begins its way to each source if the sink mutes or unmutes, and only then."""

    def is_right(name: int) -> bool:
        one, other = before.sources.get(name), after.sources.get(name)
        is_told = other.ahead == one.reach and not other.late
        is_left = other.ahead == one.ahead and other.late == one.late
        return is_left if before.mutes == after.mutes else is_told

    return each_in_focus(is_right, before.sources)


def _begins_a_tick(_before: State, after: State, _parameters: Parameters) -> bool:
    return each_in_focus(lambda name: after.sources.get(name).sent == 0, after.sources)


def _goes_a_hop(before: State, after: State, _parameters: Parameters) -> bool:
    one, other = before.sources.get(0), after.sources.get(0)
    return other.ahead == one.ahead - one.rate and other.muted == (one.muted if is_coming(other) else before.mutes)


def _says_the_opposite(before: State, after: State, _parameters: Parameters) -> bool:
    return after.sources.get(0).muted != before.sources.get(0).muted


def _goes_it_again(before: State, after: State, _parameters: Parameters) -> bool:
    return after.sources.get(0).spare == before.sources.get(0).spare - before.sources.get(0).rate


def _may_be_lost(state: State, _parameters: Parameters, _name: int) -> bool:
    source = state.sources.get(0)
    return source.ahead >= source.rate and source.spare >= source.rate


FRAMES: tuple[Frame[State, Parameters], ...] = (
    Frame(
        "Tick",
        {
            **{f"sources.{name}.{part}": None for name in (0, 1) for part in ("sent", "late")},
            "sources.others": None,
        },
        _begins_a_tick,
        "sent becomes 0 everywhere",
        when=lambda state, _: state.sources.every(is_in_time),
        possible="where no signal is late",
    ),
    Frame(
        "LoseSignal",
        {"sources.0.spare": None, "sources.0.late": False},
        _goes_it_again,
        "one hop's worth is spent",
        when=_may_be_lost,
        possible="where one has a hop to go, and a hop's worth is to spare",
    ),
    Frame("ReceiveOldSignal", {"sources.0.muted": None}, _says_the_opposite, "it says the opposite"),
    Frame("Send", {"sources.0.sent": +1, "sources.0.wire": +1}),
    Frame(
        "Deliver",
        {"sources.0.wire": -1, "inbox": +1, "mutes": None, **_TOLD},
        _tells_all,
        "all sources are told if the sink mutes or unmutes, and only then",
    ),
    Frame("Consume", {"inbox": -1, "mutes": None, **_TOLD}, _tells_all, "likewise"),
    Frame(
        "Hop",
        {"sources.0.ahead": None, "sources.0.late": False, "sources.0.muted": None},
        _goes_a_hop,
        "one hop's worth less is ahead; at the source it is done",
    ),
)
"""What each action changes; rates and ways never do."""


def _any_sources(parameters: Parameters) -> State:
    sources = SymbolicFamily.any_of_size("sources", any_value(Source), parameters.sources)
    return arbitrary(State, special={"sources": sources})


ANY = Subject(SYSTEM, any_parameters, _any_sources)
"""A sink and its sources in any state at all: in focus are one that acts, and any other one if there is one."""


def theorems() -> tuple[Theorem, ...]:
    """All of them."""
    return (
        _CHAPTER.kept(
            "type-ok",
            "TypeOK",
            "No count is ever negative.",
            lambda state, _: state._replace(inbox=-1),
            "after the step -1 messages are there",
        ),
        _CHAPTER.kept(
            "marks",
            "Marks",
            "A sink does not mute up to its high mark, and mutes no longer at its low mark.",
            lambda state, parameters: state._replace(inbox=parameters.low if state.mutes else parameters.high + 1),
            "after the step the queue is beyond the mark",
        ),
        _CHAPTER.kept(
            "heard",
            "NewestObeyed",
            "A source that the newest signal has reached does what it says, whatever older ones come, and by whichever "
            "path.",
            lambda state, _: state._replace(sources=state.sources.put(0, _deaf(state.sources.get(0), state.mutes))),
            "after the step a source has heard it and does the opposite",
        ),
        _CHAPTER.kept(
            "rates",
            "Rates",
            "The rate of each source is at least 1 and at most what it may still send, and its way takes at least a "
            "tick.",
            lambda state, _: state._replace(sources=state.sources.put(0, state.sources.get(0)._replace(reach=0))),
            "after the step a source is at the sink",
            about="Opened",
        ),
        _CHAPTER.kept(
            "in-time",
            "InTime",
            "A source sends nothing while its signal is late.",
            lambda state, _: state._replace(
                sources=state.sources.put(0, state.sources.get(0)._replace(late=True, sent=1))
            ),
            "after the step it has sent one message",
        ),
        _CHAPTER.kept(
            "coming",
            "Coming",
            "While a sink mutes, its queue and what may still come from each source, which falls with each hop of the "
            "signal, take no more than the places.",
            lambda state, parameters: state._replace(
                mutes=True,
                inbox=parameters.high + state.sources.sum_of(places_for) + 1 - state.sources.sum_of(may_come),
            ),
            "after the step one message more is there",
            about="Bounded",
        ),
        _CHAPTER.theorem(
            "bounded",
            "Bounded",
            "The queue of a sink never overflows with Flight + Rate * (Depth + Losses) places above High for each "
            "source, for any number of sources at any depths, with any rates.",
            SUBJECT.holds_whenever_invariant(
                "in every state", partial(_bounded, short=0), partial(_bounded, short=1), "one place less"
            ),
        ),
        Theorem(
            id="mute-delay-tight",
            statement="With one place less there is a run in which it overflows.",
            module="MuteDelay",
            operator="Bounded",
            tool="explorer",
            obligations=(
                ExhaustiveObligation(
                    "the longest queue takes exactly these places",
                    _cases,
                    lambda parameters: _peak(parameters) == parameters.high + _places(parameters),
                    lambda parameters: _peak(parameters) < parameters.high + _places(parameters),
                    "fewer",
                    _described,
                ),
            ),
        ),
        _CHAPTER.theorem(
            "no-storm",
            "Evaluate",
            "Between a mute and an unmute, in either order, High + 1 - Low messages come or are consumed: a sink mutes "
            "at most once for each fill of the gap between its marks.",
            *SUBJECT.step_obligations(
                [action.name for action in SYSTEM.actions],
                partial(_is_no_storm, short=0),
                partial(_is_no_storm, short=2),
                "two more",
            ),
        ),
        _CHAPTER.framed(FRAMES, ANY),
    )


def _deaf(source: Source, mutes: bool) -> Source:
    return source._replace(ahead=0, muted=not mutes)
