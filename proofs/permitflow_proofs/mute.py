"""Mute, in any graph: no unmute is early, none is lost, and at rest each source does what the sinks have told.

Nodes, hops and muters are looked at by symbolic names: one that acts, or two that share a hop; any two nodes, of which
a clause is shown; and a muter.  That what a sink has told reaches each source goes from hop to hop: if some node has
not heard it, there is one furthest down; but what is downstream of that has heard it.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, cast

from permitflow_model.kernel.family import Members, NamedFamily
from permitflow_model.kernel.queue import Fifo, Queue, larger
from permitflow_model.mute import (
    SYSTEM,
    Parameters,
    Signal,
    Sink,
    Source,
    State,
    epoch_if_of,
    heard_by,
    holds_nothing,
    in_flight,
    is_here,
    is_known,
    is_marked,
    is_mute,
    is_muted,
    is_settled,
    is_told,
    newest_of,
    sink_ok,
    source_at,
    source_ok,
    was_told,
)
from permitflow_proofs.kernel.arbitrary import any_parameters_of, arbitrary
from permitflow_proofs.kernel.chapter import Chapter, claim
from permitflow_proofs.kernel.frame import Change, Frame
from permitflow_proofs.kernel.indexed import Indexed, member_by_name
from permitflow_proofs.kernel.induction import Subject
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.queue import Law, SymbolicQueue
from permitflow_proofs.kernel.queue_facts import law_obligations
from permitflow_proofs.kernel.symbols import (
    all_of,
    any_of,
    assume,
    equal,
    function,
    implies,
    integer,
    merged,
    natural,
    operation,
    predicate,
    relation,
    truth,
)
from permitflow_proofs.kernel.theorem import Theorem

_UP, _DOWN, _ONE, _TWO, _MUTER = (function("node")(number) for number in range(5))
"""The nodes of the hop at which something happens, of which one may act alone; any two nodes; and any muter."""

_hop, _leads = relation("hop"), relation("leads")
_via = function("via")
"""Of a node that leads to the muter: the next node on a way there."""


class _AnyHops:
    """Any pairs of nodes: ``_AnyGraph`` says which."""

    is_any = True

    def __iter__(self) -> Iterator[frozenset[int]]:
        return iter(())


class _AnyGraph(Parameters):
    """Parameters with any graph: any relation of nodes in which hops lead from a higher number to a lower one."""

    def check_graph(self) -> None:
        """Nothing to refuse: hops are made such as the model requires."""

    def is_hop(self, up: int, down: int) -> bool:
        """Any hops from a relay or source down to a relay or sink."""
        is_downstream = all_of((down >= 1, down <= self.sinks + self.relays, down < up))
        return all_of((_hop(up, down), is_downstream, up > self.sinks, up <= self.nodes))

    def leads(self, node: int, sink: int) -> bool:
        """Any relation; ``_any_ways`` says how hops and ways agree."""
        return _leads(node, sink)


def _is_false(condition: bool) -> bool:
    """Is it false?  Does not fork."""
    return implies(condition, False)


def _type_ok(state: State, parameters: Parameters) -> bool:
    if parameters.is_source(_ONE) and not source_ok(source_at(state, parameters, _ONE), parameters, _MUTER):
        return False
    counts = (heard_by(state, _ONE, _MUTER) >= 0, state.remade >= 0, state.remade <= parameters.remakes)
    return sink_ok(state.sinks.get(_MUTER - 1)) and all_of(counts)


def _marks(state: State, parameters: Parameters) -> bool:
    return is_marked(state.sinks.get(_MUTER - 1), heard_by(state, _MUTER, _MUTER), parameters)


def _in_order(state: State, parameters: Parameters, up: int = _ONE, down: int = _TWO) -> bool:
    if not was_told(state, up, _MUTER):
        return False
    return not parameters.is_hop(up, down) or is_known(state, up, down, _MUTER)


def _on_its_way(state: State, parameters: Parameters, up: int = _ONE, down: int = _TWO) -> bool:
    return not parameters.is_hop(up, down) or is_told(state, parameters, up, down, _MUTER)


def _newest_holds(state: State, parameters: Parameters, node: int = _ONE) -> bool:
    """A source is held by a muter if the newest epoch that it has heard of it is a mute, and only then."""
    if not parameters.is_source(node):
        return True
    return source_at(state, parameters, node).holds.get(_MUTER - 1) == heard_by(state, node, _MUTER) % 2


def _led(state: State, parameters: Parameters, node: int = _ONE) -> bool:
    """A node has heard of muters only to which it leads."""
    return heard_by(state, node, _MUTER) == 0 or parameters.leads(node, _MUTER)


INVARIANT = {
    "TypeOK": _type_ok,
    "Marks": _marks,
    "InOrder": _in_order,
    "OnItsWay": _on_its_way,
    "NewestHolds": _newest_holds,
    "Led": _led,
}
"""What every reachable state satisfies, of any two nodes and any muter; proved by induction."""

PROTOCOL: Mapping[str, object] = {
    "memory": "epoch",
    "mutes_newcomers": True,
    "dispose_unmutes": True,
    "tells_again": True,
    "reevaluates": True,
}
"""Without the published faults."""

_NEEDS: Mapping[str, tuple[str, ...]] = {
    "Marks": ("dispose_unmutes", "reevaluates"),
    "OnItsWay": ("mutes_newcomers", "tells_again"),
    "NewestHolds": ("memory",),
}
"""What a clause needs of the protocol; each holds by itself where that is so."""

_LAWS: tuple[Law, ...] = (lambda signals: signals.sum_of(epoch_if_of, larger, 0, _MUTER),)


def _any_signal(name: str) -> Signal:
    return Signal(integer(f"{name}.muter"), integer(f"{name}.epoch"))


def any_parameters(**fixed: object) -> Parameters:
    """Any parameters, with or without published faults, in any graph."""
    return any_parameters_of(_AnyGraph, hops=_AnyHops(), **fixed)


def _has(parameters: Parameters, clause: str) -> bool:
    """Is it known to be what the clause needs?"""
    needed = ((getattr(parameters, name), PROTOCOL[name]) for name in _NEEDS.get(clause, ()))
    return all(type(value) is type(wanted) and value == wanted for value, wanted in needed)


def _nodes(state: State) -> Indexed[NamedFamily[int]]:
    return cast("Indexed[NamedFamily[int]]", state.heard)


def any_state(parameters: Parameters) -> State:
    """Any state of any graph that satisfies the invariant: those clauses of it that the parameters allow."""
    for node in (_UP, _DOWN, _ONE, _TWO):
        assume(all_of((node >= 1, node <= parameters.nodes)))
    assume(all_of((_MUTER >= 1, parameters.sinks >= _MUTER)))
    sinks = Indexed.any_family(member_by_name(Sink, "sink."), parameters.sinks, _MUTER - 1)
    names = (node - 1 for node in (_UP, _DOWN, _ONE, _TWO, _MUTER))  # in families they count from 0
    here, left, holds, heard = predicate("here"), function("left"), operation("holds"), operation("heard")

    def source(name: int) -> Source:
        return Source(here(name), left(name), cast(Any, sinks.beside(partial(holds, name))))

    nodes = Indexed.any_family(lambda name: sinks.beside(partial(heard, name)), parameters.nodes, *names)
    queues = [SymbolicQueue.any_queue(f"signals.{name}", _any_signal, _LAWS) for name in ("acting", "others")]

    def signals(up: int, down: int) -> Queue[Signal]:
        if up == _UP - 1 and down == _DOWN - 1:
            return queues[0]
        if up == _ONE - 1 and down == _TWO - 1:
            return queues[1]
        raise TypeError(f"nothing is known of the signals up to {up} from {down}")

    state = State(
        sources=cast(Any, Indexed.any_family(source, parameters.sources)),
        sinks=cast(Any, sinks),
        heard=cast(Any, nodes),
        signals=cast(Any, nodes.beside(lambda up: nodes.beside(partial(signals, up)))),
        remade=natural("remade"),
    )
    _any_ways(nodes, parameters)
    _assume_invariant(state, parameters)
    return state


def _any_ways(nodes: Indexed[Any], parameters: Parameters) -> None:
    """A node leads to the muter if it is the muter, or has a hop down to a node that does; and only then."""

    def leads_if_one_downstream_does(name: int) -> bool:
        is_downstream = all_of((parameters.is_hop(_UP, name + 1), parameters.leads(name + 1, _MUTER)))
        return implies(is_downstream, parameters.leads(_UP, _MUTER))

    def leads_through_one_downstream(name: int) -> bool:
        node, following = name + 1, _via(name + 1)
        goes_on = all_of((parameters.is_hop(node, following), parameters.leads(following, _MUTER)))
        return implies(parameters.leads(node, _MUTER), any_of((equal(node, _MUTER), goes_on)))

    assume(parameters.leads(_MUTER, _MUTER))
    nodes.assume_every(leads_if_one_downstream_does)
    nodes.assume_every(leads_through_one_downstream)


def _assume_invariant(state: State, parameters: Parameters) -> None:
    """Each clause, of all nodes and of the hops that are looked at."""

    def of_node(clause: Callable[..., bool]) -> None:
        _nodes(state).assume_every(lambda name: clause(state, parameters, name + 1))

    assume(merged(partial(_type_ok, state, parameters)))
    if _has(parameters, "Marks"):
        assume(merged(partial(_marks, state, parameters)))
    of_node(lambda *at: heard_by(state, at[-1], _MUTER) >= 0)
    of_node(lambda *at: was_told(state, at[-1], _MUTER))
    of_node(_led)
    for hop in ((_UP, _DOWN), (_ONE, _TWO)):
        assume(merged(partial(_in_order, state, parameters, *hop)))
        if _has(parameters, "OnItsWay"):
            assume(merged(partial(_on_its_way, state, parameters, *hop)))
    for node in (_UP, _ONE) if _has(parameters, "NewestHolds") else ():
        assume(merged(partial(_newest_holds, state, parameters, node)))


def _any_hop(parameters: Parameters) -> tuple[int, int]:
    assume(parameters.is_hop(_UP, _DOWN))
    return _UP, _DOWN


def _where(*needed: str) -> Subject[State, Parameters]:
    """Any graph, with so much of the protocol."""
    return Subject(
        SYSTEM,
        partial(any_parameters, **{name: PROTOCOL[name] for name in needed}),
        any_state,
        {
            **dict.fromkeys(("Reconnect", "DuplicateSignal", "ReceiveSignal"), _any_hop),
            **dict.fromkeys(("Dispose", "Clear", "Deliver", "Consume"), lambda _: (_DOWN,)),
            "Join": lambda _: (_UP,),
            "Send": lambda _: (_UP, _DOWN),
        },
    )


SUBJECT = _where(*PROTOCOL)
"""Any graph, without the published faults."""

_WITH_FAULTS = _where()
_TOLD = _where(*_NEEDS["OnItsWay"])
_SETTLING = _where(*_NEEDS["OnItsWay"], *_NEEDS["NewestHolds"])
_JOINING = _where("mutes_newcomers")

_CHAPTER = Chapter(
    SUBJECT,
    INVARIANT,
    "mute-",
    promises=frozenset({"live", "newcomer", "no-early-unmute", "no-lost-unmute", "settled"}),
)
_IN_ANY_CASE = replace(_CHAPTER, subject=_WITH_FAULTS)
"""What holds with all published faults, too."""


def _with_needs(clause: str) -> Chapter[State, Parameters]:
    return replace(_CHAPTER, subject=_where(*_NEEDS[clause]))


def _with_heard(state: State, node: int, epoch: int) -> State:
    return state._replace(heard=state.heard.put(node - 1, state.heard.get(node - 1).put(_MUTER - 1, epoch)))


def _one_unled(state: State, _parameters: Parameters) -> State:
    return _with_heard(state, _ONE, heard_by(state, _MUTER, _MUTER) + 1)


def _untold(state: State, _parameters: Parameters) -> State:
    return _with_heard(state, _TWO, heard_by(state, _TWO, _MUTER) + 1)


def _held_once_more(state: State, parameters: Parameters) -> State:
    name = _ONE - parameters.sinks - parameters.relays - 1
    source = state.sources.get(name)
    more = source.holds.put(_MUTER - 1, source.holds.get(_MUTER - 1) + 1)
    return state._replace(sources=state.sources.put(name, source._replace(holds=more)))


def _beyond_its_mark(state: State, parameters: Parameters) -> State:
    inbox = parameters.low if is_mute(heard_by(state, _MUTER, _MUTER)) else parameters.high + 1
    sink = state.sinks.get(_MUTER - 1)
    return state._replace(sinks=state.sinks.put(_MUTER - 1, sink._replace(inbox=inbox)))


def _never_falls(before: State, after: State, _parameters: Parameters, more: int) -> bool:
    return heard_by(after, _ONE, _MUTER) >= heard_by(before, _ONE, _MUTER) + more


def _hop_has_told(state: State, parameters: Parameters, more: int) -> bool:
    """On a hop where nothing is in flight, the node upstream has heard what the node downstream has."""
    assume(parameters.is_hop(_ONE, _TWO))
    assume(in_flight(state, _ONE, _TWO).is_empty())
    assume(merged(partial(is_here, state, parameters, _ONE)))
    return heard_by(state, _ONE, _MUTER) >= heard_by(state, _TWO, _MUTER) + more


def _is_quiet_downstream(state: State, parameters: Parameters) -> None:
    """Nothing is in flight: so all nodes that are here, and lead to the muter, have heard what it has told.

    The one furthest down that has not would have a hop to one that has.
    """

    def has_heard(name: int) -> bool:
        node = name + 1
        is_led = all_of((parameters.leads(node, _MUTER), merged(partial(is_here, state, parameters, node))))
        return implies(is_led, heard_by(state, node, _MUTER) == heard_by(state, _MUTER, _MUTER))

    nodes = _nodes(state)
    lowest = nodes.beside(lambda name: name).last_without(has_heard, lambda name: -name)
    assume(implies(lowest.exists, all_of((lowest.name == _ONE - 1, equal(_TWO, _via(_ONE))))))
    assume(in_flight(state, _ONE, _TWO).is_empty())


def _is_settled_at_rest(loud: int) -> bool:
    """Any source: in any graph in which nothing is in flight, or something may be."""
    state, parameters = _SETTLING.any_case()
    if not loud:
        _is_quiet_downstream(state, parameters)
    assume(all_of((parameters.sinks + parameters.relays < _UP, parameters.leads(_UP, _MUTER))))
    return is_settled(state, parameters, _UP, _MUTER)


def _joins(heard_below: int) -> bool:
    """A source that joins is muted at once if a node downstream has heard that a sink mutes."""
    state, parameters = _JOINING.any_case()
    assume(parameters.is_hop(_UP, _DOWN))
    assume(heard_by(state, _MUTER, _MUTER) % 2 == 1)
    assume(heard_by(state, _DOWN, _MUTER) == heard_by(state, _MUTER, _MUTER) - heard_below)
    after = _JOINING.perform("Join", state, parameters)
    return is_muted(source_at(after, parameters, _UP))


def _rests_without_work(sends: int) -> bool:
    """Where no step of the protocol is possible, no source has anything to send; unless a source may send."""
    state, parameters = SUBJECT.any_case()
    assume(all_of((parameters.sinks + parameters.relays < _UP, parameters.sinks >= _DOWN)))

    def rests(action: str, *arguments: int) -> bool:
        return _is_false(merged(partial(SYSTEM.is_enabled, action, state, parameters, *arguments)))

    muter = cast("Indexed[int]", source_at(state, parameters, _UP).holds).last_without(holds_nothing)
    assume(implies(muter.exists, muter.name == _MUTER - 1))
    for action in ("Deliver", "Consume"):
        assume(rests(action, _MUTER))
    if not sends:
        assume(rests("Send", _UP, _DOWN))
    _is_quiet_downstream(state, parameters)
    source, is_way = source_at(state, parameters, _UP), parameters.leads(_UP, _DOWN)
    return _is_false(all_of((source.here, source.left > 0, is_way, _is_false(state.sinks.get(_DOWN - 1).gone))))


def _laws() -> tuple[SymbolicObligation, ...]:
    def signal() -> Signal:
        return Signal(integer("muter"), natural("epoch"))

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
    return Frame(
        "ReceiveSignal", changes, partial(_learns, up, down), words, (up, down), _may_hear, "where one is in flight"
    )


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
            "Reconnect",
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
            "DuplicateSignal",
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
        *_WITH_FAULTS.step_obligations(others, partial(_messages_fall, 0), partial(_messages_fall, 1), "one is lost"),
        *_WITH_FAULTS.step_obligations(["Consume"], partial(_messages_fall, 1), partial(_messages_fall, 2), "two are"),
    )


def _any_signal_of_two(name: str) -> Signal:
    muter = 1 if truth(f"{name}.is of the first") else 2
    return Signal(muter, natural(f"{name}.epoch"))


def _any_meeting(_parameters: Parameters) -> State:
    """Any state of the right types."""
    silence: NamedFamily[Queue[Signal]] = Members([Fifo()] * 4)
    signals: NamedFamily[NamedFamily[Queue[Signal]]] = Members([silence] * 4)
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
    partial(any_parameters_of, Parameters, sinks=2, relays=1, sources=1, newcomers=1, hops=_MEETING, **PROTOCOL),
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
        _IN_ANY_CASE.kept(
            "type-ok",
            "TypeOK",
            "No count is ever negative.",
            lambda state, _: state._replace(remade=-1),
            "after the step -1 connections were made anew",
        ),
        _with_needs("Marks").kept(
            "marks",
            "Marks",
            "A sink mutes above its high mark, and unmutes at its low mark or when it leaves.",
            _beyond_its_mark,
            "after the step the queue is beyond the mark",
        ),
        _IN_ANY_CASE.kept(
            "in-order",
            "InOrder",
            "No node has heard more than the muter has told, and none tells more than it has heard.",
            _one_unled,
            "after the step a source has heard of an epoch to come",
        ),
        _with_needs("OnItsWay").kept(
            "no-lost-unmute",
            "OnItsWay",
            "What a node has heard, the node upstream has heard, too, or it is on its way, whichever connections were "
            "made anew, and whatever was lost, repeated or late: no mute and no unmute is lost.",
            _untold,
            "after the step the sink is in an epoch of which it has told nobody",
        ),
        _with_needs("NewestHolds").kept(
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
            "ReceiveSignal",
            "No node goes back to an older epoch: the last word is the one with the highest number.",
            *_WITH_FAULTS.step_obligations(
                [action.name for action in SYSTEM.actions],
                partial(_never_falls, more=0),
                partial(_never_falls, more=1),
                "all nodes hear of a new epoch in each step",
            ),
        ),
        _CHAPTER.theorem(
            "hop-by-hop",
            "Settled",
            "On a hop where nothing is in flight, the node upstream has heard what the node downstream has.",
            _TOLD.holds_whenever_invariant(
                "any hop", partial(_hop_has_told, more=0), partial(_hop_has_told, more=1), "and one epoch more"
            ),
        ),
        _IN_ANY_CASE.kept(
            "led",
            "Led",
            "A node hears only of muters to which it leads.",
            _one_unled,
            "after the step a node has heard of any muter",
            about="ReceiveSignal",
        ),
        _CHAPTER.theorem(
            "settled",
            "Settled",
            "When nothing is in flight, each source is held by those sinks to which it leads that mute, over however "
            "many hops and ways, and by no other of them.",
            claim("any source and muter", _is_settled_at_rest, "something may be in flight"),
        ),
        _CHAPTER.theorem(
            "newcomer",
            "Join",
            "A source that joins is muted at once if a node downstream has heard that a sink mutes.",
            claim("it joins", _joins, "they have heard all but the mute"),
        ),
        _CHAPTER.theorem(
            "live",
            "NeverStuck",
            "While a source has something to send, and leads to a sink that has not left, some step of the protocol is "
            "possible.",
            claim("any source and sink", _rests_without_work, "a source could send"),
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
