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
    source_at,
)
from permitflow_proofs.kernel.arbitrary import any_parameters_of, arbitrary, assume_all
from permitflow_proofs.kernel.chapter import Chapter, claim
from permitflow_proofs.kernel.induction import Subject
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.queue import Law, SymbolicQueue
from permitflow_proofs.kernel.queue_facts import law_obligations
from permitflow_proofs.kernel.symbols import assume, integer, natural, truth
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


def any_parameters() -> Parameters:
    """Any parameters of the protocol with epochs, in this graph; each switch of the environment is on or off."""
    return any_parameters_of(
        Parameters,
        sinks=1,
        relays=2,
        sources=1,
        hops=_HOPS,
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

_CHAPTER = Chapter(SUBJECT, INVARIANT, "mute-")


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
            "By induction over the hops: on a hop where nothing is in flight, the node upstream has heard what the "
            "node downstream has; so, at rest, what the sink has told has reached each source, at any depth.",
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
            "A source that has something to send is never stuck: a signal is on its way, or the sink that holds it has "
            "something to consume.",
            SUBJECT.holds_whenever_invariant(
                "in every state", _never_stuck, _never_stuck_while_muted, "there is always something to send"
            ),
        ),
    )
