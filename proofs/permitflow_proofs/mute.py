"""Mute, for any marks, supplies and numbers of remade connections, and in any graph: no unmute is early, none is lost.

A step changes one node, and the hops at it.  So a small graph with all kinds of hops stands for every graph: a hop into
a sink, one into a relay, two paths to one node, and two nodes upstream of one.  What each step keeps for every node and
hop of it, whatever they hold, it keeps in each graph.  Muters do not meet: one stands for all.  What a sink has told
goes from hop to hop up to the sources.
"""

from functools import partial

from permitflow_model.kernel.family import Family, Members
from permitflow_model.kernel.queue import Fifo, Queue
from permitflow_model.mute import (
    SYSTEM,
    Parameters,
    Signal,
    Sink,
    Source,
    State,
    epoch_if_of,
    heard_by,
    in_flight,
    is_mute,
    is_muted,
    larger,
    newest_of,
    source_at,
)
from permitflow_proofs.kernel.arbitrary import any_parameters_of, arbitrary, assume_all
from permitflow_proofs.kernel.chapter import Chapter, claim
from permitflow_proofs.kernel.frame import Change, Frame
from permitflow_proofs.kernel.induction import Subject
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.queue import Law, SymbolicQueue
from permitflow_proofs.kernel.queue_facts import law_obligations
from permitflow_proofs.kernel.symbols import all_of, any_of, assume, integer, natural, truth
from permitflow_proofs.kernel.theorem import Theorem

_HOPS = frozenset(map(frozenset, ((1, 2), (1, 3), (2, 3), (3, 4))))
"""A sink, two relays, of which the second leads to it on two paths, and a source."""


def newest_holds(state: State, parameters: Parameters) -> bool:
    """A source is held by a muter if the newest epoch that it has heard of it is a mute, and only then."""
    return all(
        source_at(state, parameters, node).holds.get(0) == (1 if is_mute(heard_by(state, node, 1)) else 0)
        for node in parameters.source_names
    )


INVARIANT = {
    **{name: SYSTEM.invariants[name] for name in ("TypeOK", "Marks", "InOrder", "OnItsWay")},
    "NewestHolds": newest_holds,
}
"""What every reachable state satisfies; proved by induction."""

_LAWS: tuple[Law, ...] = (lambda signals: signals.sum_of(epoch_if_of(1), larger, 0),)


def _any_signal(name: str) -> Signal:
    return Signal(1, integer(f"{name}.epoch"))


def any_parameters(sinks: int = 1, relays: int = 2, hops: frozenset[frozenset[int]] = _HOPS) -> Parameters:
    """Any parameters of the protocol with epochs, in this graph; each switch of the environment is on or off."""
    return any_parameters_of(
        Parameters,
        sinks=sinks,
        relays=relays,
        sources=1,
        hops=hops,
        newcomers=1,
        memory="epoch",
        mutes_newcomers=True,
        dispose_unmutes=True,
        tells_again=True,
        reevaluates=True,
    )


def any_state(parameters: Parameters) -> State:
    """Any state that satisfies the invariant."""
    silence: Family[Queue[Signal]] = Members([Fifo()] * parameters.nodes)
    signals: Family[Family[Queue[Signal]]] = Members([silence] * parameters.nodes)
    for up, down in parameters.pairs:
        queue: Queue[Signal] = SymbolicQueue.any_queue(f"signals.{up}.{down}", _any_signal, _LAWS)
        signals = signals.put(up - 1, signals.get(up - 1).put(down - 1, queue))
    state = State(
        sources=Members([Source(truth("here"), natural("left"), Members([natural("holds")]))]),
        sinks=Members([arbitrary(Sink)]),
        heard=Members([Members([natural(f"heard.{node}")]) for node in parameters.names]),
        signals=signals,
        remade=natural("remade"),
    )
    return assume_all(INVARIANT.values(), state, parameters)


def any_hop(parameters: Parameters) -> tuple[int, int]:
    """Any hop: each on a path of its own."""
    *others, last = parameters.pairs
    return next((pair for pair in others if truth(f"at {pair[0]} from {pair[1]}")), last)


SUBJECT = Subject(
    SYSTEM,
    any_parameters,
    any_state,
    {
        **dict.fromkeys(("Lose", "Repeat", "Hear"), any_hop),
        **dict.fromkeys(("Dispose", "Clear", "Deliver", "Consume"), lambda _: (1,)),
        "Join": lambda _: (4,),
        "Send": lambda _: (4, 1),
    },
)
"""One muter, and all kinds of hops."""

_CHAPTER = Chapter(
    SUBJECT, INVARIANT, "mute-", promises=frozenset({"live", "newcomer", "no-early-unmute", "no-lost-unmute"})
)


def _with_heard(state: State, node: int, epoch: int) -> State:
    return state._replace(heard=state.heard.put(node - 1, Members([epoch])))


def _unled(state: State, _parameters: Parameters) -> State:
    return _with_heard(state, 4, heard_by(state, 1, 1) + 1)


def _untold(state: State, _parameters: Parameters) -> State:
    return _with_heard(state, 1, heard_by(state, 1, 1) + 1)


def _held_once_more(state: State, parameters: Parameters) -> State:
    source = source_at(state, parameters, 4)
    return state._replace(sources=Members([source._replace(holds=Members([source.holds.get(0) + 1]))]))


def _beyond_its_mark(state: State, parameters: Parameters) -> State:
    inbox = parameters.low if is_mute(heard_by(state, 1, 1)) else parameters.high + 1
    return state._replace(sinks=Members([state.sinks.get(0)._replace(inbox=inbox)]))


def _never_falls(before: State, after: State, parameters: Parameters, more: int) -> bool:
    return all(heard_by(after, node, 1) >= heard_by(before, node, 1) + more for node in parameters.names)


def _hop_has_told(state: State, parameters: Parameters, more: int) -> bool:
    """On a hop where nothing is in flight, the node upstream has heard what the node downstream has."""
    up, down = any_hop(parameters)
    assume(in_flight(state, up, down).is_empty())
    assume(state.sources.get(0).here)
    return heard_by(state, up, 1) >= heard_by(state, down, 1) + more


def _joins(heard_below: int) -> bool:
    """A source that joins is muted at once if a node downstream has heard that the sink mutes."""
    state, parameters = SUBJECT.any_case()
    assume(is_mute(heard_by(state, 1, 1)))
    assume(heard_by(state, 2, 1) == heard_by(state, 1, 1) - heard_below)
    assume(heard_by(state, 3, 1) == heard_by(state, 1, 1) - heard_below)
    assume(heard_by(state, 4, 1) == 0)
    after = SUBJECT.perform("Join", state, parameters)
    return is_muted(after.sources.get(0))


def _never_stuck(state: State, parameters: Parameters) -> bool:
    return SYSTEM.invariants["NeverStuck"](state, parameters)


def _never_stuck_while_muted(state: State, parameters: Parameters) -> bool:
    """As if a source that is held sent, or a sink without messages consumed."""
    return not _has_rest(state)


def _has_rest(state: State) -> bool:
    return state.sources.get(0).left == 0


def _laws() -> tuple[SymbolicObligation, ...]:
    def signal() -> Signal:
        return Signal(1, natural("epoch"))

    return law_obligations("newest epoch", lambda: _LAWS[0], signal, lambda: _any_signal("signal"))


# Frames: here the muters meet, in a graph with a newcomer that has two nodes downstream.

_MEETING = frozenset(map(frozenset, ((1, 3), (2, 3), (1, 4), (3, 4))))
"""Two sinks, a relay to both, and a source that leads to the first one on two paths."""

_PAIRS = ((3, 1), (3, 2), (4, 1), (4, 3))
"""Of each hop the node upstream and the node downstream."""


def _parities(state: State) -> list[int]:
    return [heard_by(state, 4, muter) % 2 for muter in (1, 2)]


def _learns_from_all(before: State, after: State, _parameters: Parameters) -> bool:
    """A newcomer knows the newest epoch of each muter that a node downstream knows, and does as it says."""
    for muter in (1, 2):
        known = [heard_by(before, node, muter) for node in (1, 3, 4)]
        newest = heard_by(after, 4, muter)
        if not all_of([*(newest >= epoch for epoch in known), any_of(newest == epoch for epoch in known)]):
            return False
    holds = after.sources.get(0).holds
    return [holds.get(0), holds.get(1)] == _parities(after)


def _tells_upstream(down: int, before: State, after: State, _parameters: Parameters) -> bool:
    """Who has news of a muter tells each node upstream that is here, once."""
    is_news = any(heard_by(after, down, muter) != heard_by(before, down, muter) for muter in (1, 2))
    for up, told_by in _PAIRS:
        if told_by == down:
            told = in_flight(after, up, down).size() - in_flight(before, up, down).size()
            is_told = is_news and (up == 3 or before.sources.get(0).here)
            if told != (1 if is_told else 0):
                return False
    return True


def _leaves_nothing(before: State, after: State, parameters: Parameters) -> bool:
    sink = after.sinks.get(0)
    return sink.wire == 0 and sink.inbox == 0 and _tells_upstream(1, before, after, parameters)


def _drops_its_queue(before: State, after: State, parameters: Parameters) -> bool:
    return after.sinks.get(0).inbox == 0 and _tells_upstream(1, before, after, parameters)


def _tells_all_again(up: int, down: int, before: State, after: State, _parameters: Parameters) -> bool:
    """On a new connection a node tells the newest epoch of each muter that it knows, once."""
    told = [newest_of(in_flight(after, up, down), muter) for muter in (1, 2)]
    known = [heard_by(before, down, muter) for muter in (1, 2)]
    return told == known and in_flight(after, up, down).size() == sum(1 if epoch > 0 else 0 for epoch in known)


# Guards: the source is 4, the sink 1.


def _may_dispose(state: State, parameters: Parameters, _name: int) -> bool:
    return parameters.disposals and not state.sinks.get(0).gone


def _may_clear(state: State, parameters: Parameters, _name: int) -> bool:
    return parameters.clears and state.sinks.get(0).inbox > 0


def _may_remake(state: State, parameters: Parameters, up: int, down: int) -> bool:
    return state.remade < parameters.remakes and in_flight(state, up, down).size() > 0


def _may_send(state: State, _parameters: Parameters, _node: int, _name: int) -> bool:
    """A source that is held by any muter sends nothing."""
    source = state.sources.get(0)
    is_held = any(source.holds.get(muter) != 0 for muter in (0, 1))
    return source.here and source.left > 0 and not is_held and not state.sinks.get(0).gone


def _may_hear(state: State, _parameters: Parameters, up: int, down: int) -> bool:
    return in_flight(state, up, down).size() > 0


def _learns(up: int, down: int, before: State, after: State, parameters: Parameters) -> bool:
    """A node learns of newer epochs only; a relay hands them on, a source does as they say."""
    signal = in_flight(before, up, down).head()
    for muter in (1, 2):
        old = heard_by(before, up, muter)
        if heard_by(after, up, muter) != (max(old, signal.epoch) if signal.muter == muter else old):
            return False
        held, holds = before.sources.get(0).holds.get(muter - 1), after.sources.get(0).holds.get(muter - 1)
        is_news = up == 4 and signal.muter == muter and signal.epoch > old
        if holds != (signal.epoch % 2 if is_news else held):
            return False
    return up == 4 or _tells_upstream(up, before, after, parameters)


def _told_by(down: int) -> dict[str, Change]:
    return {f"signals.{up - 1}.{down - 1}": None for up, told_by in _PAIRS if told_by == down}


_REMADE = "up to Remakes, where a signal is in flight"
_EPOCH: dict[str, Change] = {"heard.0.0": None, **_told_by(1)}


def _frame_of_hearing(up: int, down: int) -> Frame[State, Parameters]:
    done: dict[str, Change] = {"sources.0.holds.0": None, "sources.0.holds.1": None} if up == 4 else _told_by(up)
    changes: dict[str, Change] = {
        f"signals.{up - 1}.{down - 1}": -1,
        f"heard.{up - 1}.0": None,
        f"heard.{up - 1}.1": None,
        **done,
    }
    words = "newer epochs only; a source does as they say" if up == 4 else "newer epochs only; they are handed on"
    return Frame("Hear", changes, partial(_learns, up, down), words, (up, down), _may_hear, "where one is in flight")


FRAMES: tuple[Frame[State, Parameters], ...] = (
    Frame("Done"),
    Frame(
        "Join",
        {
            "sources.0.here": True,
            "sources.0.holds.0": None,
            "sources.0.holds.1": None,
            "heard.3.0": None,
            "heard.3.1": None,
        },
        _learns_from_all,
        "it knows what any node downstream knows",
        when=lambda state, *_: not state.sources.get(0).here,
        possible="once",
    ),
    Frame(
        "Dispose",
        {"sinks.0.gone": True, "sinks.0.wire": None, "sinks.0.inbox": None, **_EPOCH},
        _leaves_nothing,
        "its messages are dropped; a new epoch is told to each node upstream",
        when=_may_dispose,
        possible="with Disposals, once",
    ),
    Frame(
        "Clear",
        {"sinks.0.inbox": None, **_EPOCH},
        _drops_its_queue,
        "inbox becomes 0; a new epoch is told to each node upstream",
        when=_may_clear,
        possible="with Clears, where messages are in its queue",
    ),
    *(
        Frame(
            "Lose",
            {f"signals.{up - 1}.{down - 1}": None, "remade": +1},
            partial(_tells_all_again, up, down),
            "the newest epochs of all muters are told again",
            (up, down),
            _may_remake,
            _REMADE,
        )
        for up, down in _PAIRS
    ),
    *(
        Frame(
            "Repeat",
            {f"signals.{up - 1}.{down - 1}": +1, "remade": +1},
            arguments=(up, down),
            when=_may_remake,
            possible=_REMADE,
        )
        for up, down in _PAIRS
    ),
    Frame(
        "Send",
        {"sources.0.left": -1, "sinks.0.wire": +1},
        when=_may_send,
        possible="a source that is here, with messages left, whom no muter holds; while the sink is here",
    ),
    Frame(
        "Deliver",
        {"sinks.0.wire": -1, "sinks.0.inbox": +1, **_EPOCH},
        partial(_tells_upstream, 1),
        "a new epoch is told to each node upstream",
        when=lambda state, *_: state.sinks.get(0).wire > 0,
        possible="where one is on its way",
    ),
    Frame(
        "Consume",
        {"sinks.0.inbox": -1, **_EPOCH},
        partial(_tells_upstream, 1),
        "likewise",
        when=lambda state, *_: state.sinks.get(0).inbox > 0,
        possible="where one is in its queue",
    ),
    *(_frame_of_hearing(up, down) for up, down in _PAIRS),
)
"""What each action changes: no message is lost, doubled or let through, but for those that Dispose and Clear drop."""


def _left(source: Source) -> int:
    return source.left


def _arriving(sink: Sink) -> int:
    return sink.wire + sink.inbox


def _messages_fall(by: int, before: State, after: State, _parameters: Parameters) -> bool:
    """Messages that a source has to send, and those on their way to a sink and in its queue."""
    one, other = (state.sources.sum_of(_left) + state.sinks.sum_of(_arriving) for state in (before, after))
    return other == one - by


def _conservation() -> tuple[SymbolicObligation, ...]:
    ending = ("Consume", "Clear", "Dispose")
    others = [action.name for action in SYSTEM.actions if action.name not in ending]
    return (
        *SUBJECT.step_obligations(others, partial(_messages_fall, 0), partial(_messages_fall, 1), "one is lost"),
        *SUBJECT.step_obligations(["Consume"], partial(_messages_fall, 1), partial(_messages_fall, 2), "two are"),
    )


def _any_signal_of_two(name: str) -> Signal:
    muter = 1 if truth(f"{name}.is of the first") else 2
    return Signal(muter, natural(f"{name}.epoch"))


def _any_meeting(_parameters: Parameters) -> State:
    """Any state of the right types."""
    silence: Family[Queue[Signal]] = Members([Fifo()] * 4)
    signals: Family[Family[Queue[Signal]]] = Members([silence] * 4)
    for up, down in _PAIRS:
        queue: Queue[Signal] = SymbolicQueue.any_queue(f"signals.{up}.{down}", _any_signal_of_two)
        signals = signals.put(up - 1, signals.get(up - 1).put(down - 1, queue))
    return State(
        sources=Members([Source(truth("here"), natural("left"), Members([natural("holds.1"), natural("holds.2")]))]),
        sinks=Members([arbitrary(Sink, "first."), arbitrary(Sink, "second.")]),
        heard=Members([Members([natural(f"heard.{node}.{muter}") for muter in (1, 2)]) for node in range(1, 5)]),
        signals=signals,
        remade=natural("remade"),
    )


ANY = Subject(
    SYSTEM,
    partial(any_parameters, sinks=2, relays=1, hops=_MEETING),
    _any_meeting,
    {
        **dict.fromkeys(("Dispose", "Clear", "Deliver", "Consume"), lambda _: (1,)),
        "Join": lambda _: (4,),
        "Send": lambda _: (4, 1),
    },
)
"""Two muters that meet, in any state at all."""


def theorems() -> tuple[Theorem, ...]:
    """All of them."""
    return (
        _CHAPTER.theorem(
            "laws", "InFlight", "Epochs are numbers from 0 on: what the proofs assume of signals in flight.", *_laws()
        ),
        _CHAPTER.kept(
            "type-ok",
            "TypeOK",
            "No count is ever negative.",
            lambda state, _: state._replace(remade=-1),
            "after the step -1 connections were made anew",
        ),
        _CHAPTER.kept(
            "marks",
            "Marks",
            "A sink mutes above its high mark, and unmutes at its low mark or when it leaves.",
            _beyond_its_mark,
            "after the step the queue is beyond the mark",
        ),
        _CHAPTER.kept(
            "in-order",
            "InOrder",
            "No node has heard more than the muter has told.",
            _unled,
            "after the step a source has heard of an epoch to come",
        ),
        _CHAPTER.kept(
            "no-lost-unmute",
            "OnItsWay",
            "What a node has heard, the node upstream has heard, too, or it is on its way, whichever connections were "
            "made anew, and whatever was lost, repeated or late: no mute and no unmute is lost.",
            _untold,
            "after the step the sink is in an epoch of which it has told nobody",
        ),
        _CHAPTER.kept(
            "no-early-unmute",
            "NewestHolds",
            "A source is held by a muter if and only if the newest epoch that it has heard of it is a mute, whatever "
            "the order of signals: none is unmuted early.",
            _held_once_more,
            "after the step one more mute holds the source",
            about="NoEarlyUnmute",
        ),
        _CHAPTER.theorem(
            "forward",
            "Hear",
            "No node goes back to an older epoch: the last word is the one with the highest number.",
            *SUBJECT.step_obligations(
                [action.name for action in SYSTEM.actions],
                partial(_never_falls, more=0),
                partial(_never_falls, more=1),
                "all nodes hear of a new epoch in each step",
            ),
        ),
        _CHAPTER.theorem(
            "hop-by-hop",
            "Settled",
            "On a hop where nothing is in flight, the node upstream has heard what the node downstream has. (So, at "
            "rest, what a sink has told has reached each source: this induction over the hops is argued, and no "
            "formula.)",
            SUBJECT.holds_whenever_invariant(
                "any hop", partial(_hop_has_told, more=0), partial(_hop_has_told, more=1), "and one epoch more"
            ),
        ),
        _CHAPTER.theorem(
            "newcomer",
            "Join",
            "A source that joins is muted at once if the nodes downstream have heard that the sink mutes.",
            claim("it joins", _joins, "they have heard all but the mute"),
        ),
        _CHAPTER.theorem(
            "live",
            "NeverStuck",
            "While a source has something to send, or the sink something to consume, some step of the protocol is "
            "possible.",
            SUBJECT.holds_whenever_invariant(
                "in every state", _never_stuck, _never_stuck_while_muted, "there is always something to send"
            ),
        ),
        _CHAPTER.theorem(
            "conservation",
            "Next",
            "A message waits at its source, travels, or is in the queue of a sink: no step but Clear and Dispose loses "
            "or doubles one, and Consume takes one.",
            *_conservation(),
        ),
        _CHAPTER.framed(FRAMES, ANY),
    )
