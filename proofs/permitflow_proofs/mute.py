"""Mute, in any graph: no unmute is early, none is lost, and at rest each source does what the sinks have told.

Nodes, hops and muters are looked at by symbolic names: one that acts, or two that share a hop; any two nodes, of which
a clause is shown; and a muter.  That what a sink has told reaches each source goes from hop to hop: if some node has
not heard it, there is one furthest down; but what is downstream of that has heard it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any, cast

from permitflow_model.kernel.family import NamedFamily
from permitflow_model.kernel.queue import Queue, larger
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
from permitflow_proofs.kernel.arbitrary import any_parameters_of
from permitflow_proofs.kernel.chapter import Chapter, claim
from permitflow_proofs.kernel.frame import Change, Frame
from permitflow_proofs.kernel.indexed import Indexed, member_by_name, own
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
    is_same,
    merged,
    natural,
    negated,
    operation,
    predicate,
    relation,
)
from permitflow_proofs.kernel.theorem import Theorem

UP, DOWN, ONE, TWO, MUTER = (function("node")(number) for number in range(5))
"""The nodes of the hop at which something happens, of which one may act alone; any two nodes; and any muter."""

_hop, _leads = relation("hop"), relation("leads")
via = function("via")
"""The next node on a way to the muter, from a node that leads there."""


class AnyHops:
    """Any pairs of nodes: ``AnyGraph`` says which."""

    is_any = True

    def __iter__(self) -> Iterator[frozenset[int]]:
        return iter(())


class AnyGraph(Parameters):
    """Parameters with any graph: any relation of nodes in which hops lead from a higher number to a lower one."""

    def check_graph(self) -> None:
        """Nothing to refuse: hops are made such as the model requires."""

    def is_hop(self, up: int, down: int) -> bool:
        """Any hops from a relay or source down to a relay or sink."""
        is_downstream = all_of((down >= 1, down <= self.sinks + self.relays, down < up))
        return all_of((_hop(up, down), is_downstream, up > self.sinks, up <= self.nodes))

    def leads(self, node: int, sink: int) -> bool:
        """Any relation; ``assume_ways`` says how hops and ways agree."""
        return _leads(node, sink)


def _type_ok(state: State, parameters: Parameters) -> bool:
    if parameters.is_source(ONE) and not source_ok(source_at(state, parameters, ONE), parameters, MUTER):
        return False
    counts = (heard_by(state, ONE, MUTER) >= 0, state.remade >= 0, state.remade <= parameters.remakes)
    return sink_ok(state.sinks.get(MUTER - 1)) and all_of((*counts, _are_of_sinks(state, parameters, ONE, TWO)))


def _are_of_sinks(state: State, parameters: Parameters, up: int, down: int) -> bool:
    """Is each signal in flight on a hop of a sink?"""
    return in_flight(state, up, down).every(_is_of_sink, parameters)


def _is_of_sink(signal: Signal, parameters: Parameters) -> bool:
    return all_of((signal.muter >= 1, signal.muter <= parameters.sinks))


def _marks(state: State, parameters: Parameters) -> bool:
    return is_marked(state.sinks.get(MUTER - 1), heard_by(state, MUTER, MUTER), parameters)


def _in_order(state: State, parameters: Parameters, up: int = ONE, down: int = TWO) -> bool:
    if not was_told(state, up, MUTER):
        return False
    return not parameters.is_hop(up, down) or is_known(state, up, down, MUTER)


def _on_its_way(state: State, parameters: Parameters, up: int = ONE, down: int = TWO) -> bool:
    return not parameters.is_hop(up, down) or is_told(state, parameters, up, down, MUTER)


def _newest_holds(state: State, parameters: Parameters, node: int = ONE) -> bool:
    """A source is held by a muter if the newest epoch that it has heard of it is a mute, and only then."""
    if not parameters.is_source(node):
        return True
    return source_at(state, parameters, node).holds.get(MUTER - 1) == heard_by(state, node, MUTER) % 2


def _led(state: State, parameters: Parameters, node: int = ONE) -> bool:
    """A node has heard of muters only to which it leads."""
    return heard_by(state, node, MUTER) == 0 or parameters.leads(node, MUTER)


INVARIANT = {
    "TypeOK": _type_ok,
    "Marks": _marks,
    "InOrder": _in_order,
    "OnItsWay": _on_its_way,
    "NewestHolds": _newest_holds,
    "Led": _led,
}
"""What every reachable state satisfies, of any two nodes and any muter; proved by induction."""

_LAWS: tuple[Law, ...] = (lambda signals: signals.sum_of(epoch_if_of, larger, 0, MUTER),)


def any_signal(name: str) -> Signal:
    """Any one, of any muter."""
    return Signal(integer(f"{name}.muter"), integer(f"{name}.epoch"))


def any_parameters() -> Parameters:
    """Any parameters, in any graph."""
    return any_parameters_of(AnyGraph, hops=AnyHops())


def _nodes(state: State) -> Indexed[NamedFamily[int]]:
    return cast("Indexed[NamedFamily[int]]", state.heard)


def row_of(sinks: Indexed[Sink], of: Callable[[int, int], int], name: int) -> NamedFamily[int]:
    """One number for each muter, for a node or source."""
    return cast("NamedFamily[int]", sinks.beside(partial(of, name)))


def source_by_name(sinks: Indexed[Sink]) -> Callable[[int], Source]:
    """A function that makes the source of a name; called once more, it makes those of another state."""
    here, left, holds = predicate(own("here")), function(own("left")), operation(own("holds"))
    return lambda name: Source(here(name), left(name), row_of(sinks, holds, name))


def state_of(
    sources: Indexed[Source],
    sinks: Indexed[Sink],
    nodes: Indexed[NamedFamily[int]],
    pairs: Sequence[tuple[int, int]],
    laws: tuple[Law, ...] = _LAWS,
) -> State:
    """A state with any signals between the nodes of these names, which alone are looked at."""
    known: list[tuple[tuple[int, int], Queue[Signal]]] = []
    for number, pair in enumerate(pairs):
        met = next((queue for other, queue in known if equal(pair, other)), None)
        queue = SymbolicQueue.any_queue(f"signals.{number}", any_signal, laws) if met is None else met
        known.append((pair, queue))

    def signals(up: int, down: int) -> Queue[Signal]:
        # By their terms first, which does not fork.
        for are_equal in (is_same, equal):
            for pair, queue in known:
                if are_equal(up, pair[0]) and are_equal(down, pair[1]):
                    return queue
        raise TypeError(f"nothing is known of the signals up to {up} from {down}")

    return State(
        sources=cast(Any, sources),
        sinks=cast(Any, sinks),
        heard=cast(Any, nodes),
        signals=cast(Any, nodes.beside(lambda up: nodes.beside(partial(signals, up)))),
        remade=natural("remade"),
    )


def any_state(parameters: Parameters) -> State:
    """Any state of any graph that satisfies the invariant."""
    for node in (UP, DOWN, ONE, TWO):
        assume(all_of((node >= 1, node <= parameters.nodes)))
    assume(all_of((MUTER >= 1, parameters.sinks >= MUTER)))
    sinks = Indexed.any_family(member_by_name(Sink, "sink."), parameters.sinks, MUTER - 1)
    names = [node - 1 for node in (UP, DOWN, ONE, TWO, MUTER)]  # in families they count from 0
    nodes = Indexed.any_family(partial(row_of, sinks, operation(own("heard"))), parameters.nodes, *names)
    sources = Indexed.any_family(source_by_name(sinks), parameters.sources)
    up, down, one, two, _ = names
    state = state_of(sources, sinks, nodes, ((up, down), (one, two)))
    assume_ways(nodes, parameters)
    _assume_invariant(state, parameters)
    return state


def assume_ways(nodes: Indexed[Any], parameters: Parameters) -> None:
    """A node leads to the muter if it is the muter, or has a hop down to a node that does; and only then."""

    def leads_if_one_downstream_does(name: int) -> bool:
        is_downstream = all_of((parameters.is_hop(UP, name + 1), parameters.leads(name + 1, MUTER)))
        return implies(is_downstream, parameters.leads(UP, MUTER))

    def leads_through_one_downstream(name: int) -> bool:
        node, following = name + 1, via(name + 1)
        goes_on = all_of((parameters.is_hop(node, following), parameters.leads(following, MUTER)))
        return implies(parameters.leads(node, MUTER), any_of((equal(node, MUTER), goes_on)))

    assume(parameters.leads(MUTER, MUTER))
    nodes.assume_every(leads_if_one_downstream_does)
    nodes.assume_every(leads_through_one_downstream)


def _assume_invariant(state: State, parameters: Parameters) -> None:
    """Each clause, of all nodes and of the hops that are looked at."""

    def of_node(clause: Callable[..., bool]) -> None:
        _nodes(state).assume_every(lambda name: clause(state, parameters, name + 1))

    assume(merged(partial(_type_ok, state, parameters)))
    assume(merged(partial(_marks, state, parameters)))
    of_node(lambda *at: heard_by(state, at[-1], MUTER) >= 0)
    of_node(lambda *at: was_told(state, at[-1], MUTER))
    of_node(_led)
    for hop in ((UP, DOWN), (ONE, TWO)):
        assume(_are_of_sinks(state, parameters, *hop))
        assume(merged(partial(_in_order, state, parameters, *hop)))
        assume(merged(partial(_on_its_way, state, parameters, *hop)))
    for node in (UP, ONE):
        assume(merged(partial(_newest_holds, state, parameters, node)))


def _any_hop(parameters: Parameters) -> tuple[int, int]:
    assume(parameters.is_hop(UP, DOWN))
    return UP, DOWN


_ARGUMENTS: Mapping[str, Callable[[Parameters], tuple[int, ...]]] = {
    **dict.fromkeys(("Reconnect", "DuplicateSignal", "ReceiveSignal"), _any_hop),
    **dict.fromkeys(("Dispose", "Clear", "Deliver", "Consume"), lambda _: (DOWN,)),
    "Join": lambda _: (UP,),
    "Send": lambda _: (UP, DOWN),
}


def _looked_at(state: State, parameters: Parameters) -> tuple[object, ...]:
    """Any node, any hop and any muter."""
    parts = (heard_by(state, ONE, MUTER), state.sinks.get(MUTER - 1), in_flight(state, ONE, TWO), state.remade)
    if not parameters.is_source(ONE):
        return parts
    source = source_at(state, parameters, ONE)
    return (*parts, source.here, source.left, source.holds.get(MUTER - 1))


SUBJECT = Subject(SYSTEM, any_parameters, any_state, _ARGUMENTS, _looked_at)
"""Any graph."""

_CHAPTER = Chapter(
    SUBJECT,
    INVARIANT,
    "mute-",
    promises=frozenset({"live", "newcomer", "no-early-unmute", "no-lost-unmute", "settled"}),
)


def with_heard(state: State, node: int, epoch: int) -> State:
    """The state in which a node has heard this epoch of the muter."""
    return state._replace(heard=state.heard.put(node - 1, state.heard.get(node - 1).put(MUTER - 1, epoch)))


def _one_unled(state: State, _parameters: Parameters) -> State:
    return with_heard(state, ONE, heard_by(state, MUTER, MUTER) + 1)


def _untold(state: State, _parameters: Parameters) -> State:
    return with_heard(state, TWO, heard_by(state, TWO, MUTER) + 1)


def _held_once_more(state: State, parameters: Parameters) -> State:
    name = ONE - parameters.sinks - parameters.relays - 1
    source = state.sources.get(name)
    more = source.holds.put(MUTER - 1, source.holds.get(MUTER - 1) + 1)
    return state._replace(sources=state.sources.put(name, source._replace(holds=more)))


def _beyond_its_mark(state: State, parameters: Parameters) -> State:
    inbox = parameters.low if is_mute(heard_by(state, MUTER, MUTER)) else parameters.high + 1
    sink = state.sinks.get(MUTER - 1)
    return state._replace(sinks=state.sinks.put(MUTER - 1, sink._replace(inbox=inbox)))


def _never_falls(before: State, after: State, _parameters: Parameters, more: int) -> bool:
    return heard_by(after, ONE, MUTER) >= heard_by(before, ONE, MUTER) + more


def _hop_has_told(state: State, parameters: Parameters, more: int) -> bool:
    """On a hop where nothing is in flight, the node upstream has heard what the node downstream has."""
    assume(parameters.is_hop(ONE, TWO))
    assume(in_flight(state, ONE, TWO).is_empty())
    assume(merged(partial(is_here, state, parameters, ONE)))
    return heard_by(state, ONE, MUTER) >= heard_by(state, TWO, MUTER) + more


def _is_quiet_downstream(state: State, parameters: Parameters) -> None:
    """Nothing is in flight: so all nodes that are here, and lead to the muter, have heard what it has told.

    The one furthest down that has not would have a hop to one that has.
    """

    def has_heard(name: int) -> bool:
        node = name + 1
        is_led = all_of((parameters.leads(node, MUTER), merged(partial(is_here, state, parameters, node))))
        return implies(is_led, heard_by(state, node, MUTER) == heard_by(state, MUTER, MUTER))

    nodes = _nodes(state)
    lowest = nodes.beside(lambda name: name).last_without(has_heard, lambda name: -name)
    assume(implies(lowest.exists, all_of((lowest.name == ONE - 1, equal(TWO, via(ONE))))))
    assume(in_flight(state, ONE, TWO).is_empty())


def _is_settled_at_rest(loud: int) -> bool:
    """Any source: in any graph in which nothing is in flight, or something may be."""
    state, parameters = SUBJECT.any_case()
    if not loud:
        _is_quiet_downstream(state, parameters)
    assume(all_of((parameters.sinks + parameters.relays < UP, parameters.leads(UP, MUTER))))
    return is_settled(state, parameters, UP, MUTER)


def _joins(heard_below: int) -> bool:
    """A source that joins is muted at once if a node downstream has heard that a sink mutes."""
    state, parameters = SUBJECT.any_case()
    assume(parameters.is_hop(UP, DOWN))
    assume(heard_by(state, MUTER, MUTER) % 2 == 1)
    assume(heard_by(state, DOWN, MUTER) == heard_by(state, MUTER, MUTER) - heard_below)
    after = SUBJECT.perform("Join", state, parameters)
    return is_muted(source_at(after, parameters, UP))


def _rests_without_work(sends: int) -> bool:
    """Where no step of the protocol is possible, no source has anything to send; unless a source may send."""
    state, parameters = SUBJECT.any_case()
    assume(all_of((parameters.sinks + parameters.relays < UP, parameters.sinks >= DOWN)))

    def rests(action: str, *arguments: int) -> bool:
        return negated(merged(partial(SYSTEM.is_enabled, action, state, parameters, *arguments)))

    muter = cast("Indexed[int]", source_at(state, parameters, UP).holds).last_without(holds_nothing)
    assume(implies(muter.exists, muter.name == MUTER - 1))
    for action in ("Deliver", "Consume"):
        assume(rests(action, MUTER))
    if not sends:
        assume(rests("Send", UP, DOWN))
    _is_quiet_downstream(state, parameters)
    source, is_way = source_at(state, parameters, UP), parameters.leads(UP, DOWN)
    return negated(all_of((source.here, source.left > 0, is_way, negated(state.sinks.get(DOWN - 1).gone))))


def _laws() -> tuple[SymbolicObligation, ...]:
    def signal() -> Signal:
        return Signal(integer("muter"), natural("epoch"))

    return law_obligations("newest epoch", _LAWS[0], signal, lambda: any_signal("signal"))


# Frames: a node that acts is "up" or "down", the ends of a hop; "others" is any other node.  A sink is "down".


def _names_of_nodes(state: State) -> list[int]:
    """The numbers of the nodes that frames tell apart."""
    return [name + 1 for name in _nodes(state).focus.values()]


def _learns_from_all(before: State, after: State, parameters: Parameters) -> bool:
    """A newcomer knows the newest epoch of each muter that a node downstream knows, and does as it says."""
    newest = heard_by(after, UP, MUTER)

    def is_no_newer(name: int, heard: NamedFamily[int]) -> bool:
        is_asked = any_of((equal(name + 1, UP), parameters.is_hop(UP, name + 1)))
        return implies(is_asked, heard.get(MUTER - 1) <= newest)

    def is_not_it(name: int, heard: NamedFamily[int]) -> bool:
        is_asked = any_of((equal(name + 1, UP), parameters.is_hop(UP, name + 1)))
        return negated(all_of((is_asked, heard.get(MUTER - 1) == newest)))

    knows_all = before.heard.every_by_name(is_no_newer)
    knows_one = negated(before.heard.every_by_name(is_not_it))
    holds = source_at(after, parameters, UP).holds.get(MUTER - 1)
    return all_of((knows_all, knows_one, holds == newest % 2))


def _tells_upstream(down: int, is_news: bool, before: State, after: State, parameters: Parameters) -> bool:
    """Who has news of a muter tells each node upstream that is here, once."""
    for up in _names_of_nodes(before):
        told = in_flight(after, up, down).size() - in_flight(before, up, down).size()
        # A relay is always here; said without the model's own word for it, in which a mistake would agree with itself.
        here = source_at(before, parameters, up).here if parameters.is_source(up) else True
        is_told = is_news and parameters.is_hop(up, down) and here
        if told != (1 if is_told else 0):
            return False
    return True


def _tells_of_a_new_epoch(before: State, after: State, parameters: Parameters) -> bool:
    old, new = (heard_by(state, DOWN, DOWN) for state in (before, after))
    return (new == old or new == old + 1) and _tells_upstream(DOWN, new != old, before, after, parameters)


def _leaves_nothing(before: State, after: State, parameters: Parameters) -> bool:
    sink = after.sinks.get(DOWN - 1)
    return sink.wire == 0 and sink.inbox == 0 and _tells_of_a_new_epoch(before, after, parameters)


def _drops_its_queue(before: State, after: State, parameters: Parameters) -> bool:
    return after.sinks.get(DOWN - 1).inbox == 0 and _tells_of_a_new_epoch(before, after, parameters)


def _tells_all_again(before: State, after: State, _parameters: Parameters) -> bool:
    """On a new connection a node tells the newest epoch of each muter of which it has heard, and nothing else."""
    told = in_flight(after, UP, DOWN)
    return told.every(_is_newest, before) and newest_of(told, MUTER) == heard_by(before, DOWN, MUTER)


def _is_newest(signal: Signal, state: State) -> bool:
    return signal.epoch > 0 and signal.epoch == heard_by(state, DOWN, signal.muter)


def _learns(before: State, after: State, parameters: Parameters) -> bool:
    """A node learns of newer epochs only; a relay hands them on, a source does as they say."""
    signal = in_flight(before, UP, DOWN).head()
    old = heard_by(before, UP, MUTER)
    is_news = signal.muter == MUTER and signal.epoch > old
    if heard_by(after, UP, MUTER) != (signal.epoch if is_news else old):
        return False
    if not parameters.is_source(UP):
        is_news_of_any = signal.epoch > heard_by(before, UP, signal.muter)
        return _tells_upstream(UP, is_news_of_any, before, after, parameters)
    held, holds = (source_at(state, parameters, UP).holds.get(MUTER - 1) for state in (before, after))
    return holds == (signal.epoch % 2 if is_news else held)


def _is_source(parameters: Parameters) -> bool:
    return parameters.sinks + parameters.relays < UP


def _is_relay(parameters: Parameters) -> bool:
    return parameters.sinks + parameters.relays >= UP


# Guards.


def _may_join(state: State, parameters: Parameters, node: int) -> bool:
    return parameters.is_source(node) and not source_at(state, parameters, node).here


def _may_dispose(state: State, parameters: Parameters, name: int) -> bool:
    return parameters.disposals and name <= parameters.sinks and not state.sinks.get(name - 1).gone


def _may_clear(state: State, parameters: Parameters, name: int) -> bool:
    return parameters.clears and _may_consume(state, parameters, name)


def _may_consume(state: State, parameters: Parameters, name: int) -> bool:
    return name <= parameters.sinks and state.sinks.get(name - 1).inbox > 0


def _may_deliver(state: State, parameters: Parameters, name: int) -> bool:
    return name <= parameters.sinks and state.sinks.get(name - 1).wire > 0


def _may_remake(state: State, parameters: Parameters, up: int, down: int) -> bool:
    return state.remade < parameters.remakes and in_flight(state, up, down).size() > 0


def _may_send(state: State, parameters: Parameters, node: int, name: int) -> bool:
    """A source that is held by any muter sends nothing."""
    if not (parameters.is_source(node) and name <= parameters.sinks and parameters.leads(node, name)):
        return False
    source = source_at(state, parameters, node)
    return source.here and source.left > 0 and source.holds.every(holds_nothing) and not state.sinks.get(name - 1).gone


def _may_hear(state: State, _parameters: Parameters, up: int, down: int) -> bool:
    return in_flight(state, up, down).size() > 0


_EPOCH: dict[str, Change] = {"heard.down.down": None, "signals.up.down": None, "signals.others.down": None}
_HEARD: dict[str, Change] = {"signals.up.down": -1, "heard.up.down": None, "heard.up.others": None}
_HOLDS: dict[str, Change] = {"sources.up.holds.down": None, "sources.up.holds.others": None}
_REMADE = "up to Remakes, where a signal is in flight"
_TOLD_UPSTREAM = "a new epoch is told to each node upstream"

FRAMES: tuple[Frame[State, Parameters], ...] = (
    Frame("Done"),
    Frame(
        "Join",
        {"sources.up.here": True, **_HOLDS, "heard.up.down": None, "heard.up.others": None},
        _learns_from_all,
        "it knows what any node downstream knows",
        when=_may_join,
        possible="once, a source",
    ),
    Frame(
        "Dispose",
        {"sinks.down.gone": True, "sinks.down.wire": None, "sinks.down.inbox": None, **_EPOCH},
        _leaves_nothing,
        f"its messages are dropped; {_TOLD_UPSTREAM}",
        when=_may_dispose,
        possible="with Disposals, once",
    ),
    Frame(
        "Clear",
        {"sinks.down.inbox": None, **_EPOCH},
        _drops_its_queue,
        f"inbox becomes 0; {_TOLD_UPSTREAM}",
        when=_may_clear,
        possible="with Clears, where messages are in its queue",
    ),
    Frame(
        "Reconnect",
        {"signals.up.down": None, "remade": +1},
        _tells_all_again,
        "the newest epochs of all muters are told again",
        when=_may_remake,
        possible=_REMADE,
    ),
    Frame("DuplicateSignal", {"signals.up.down": +1, "remade": +1}, when=_may_remake, possible=_REMADE),
    Frame(
        "Send",
        {"sources.up.left": -1, "sinks.down.wire": +1},
        when=_may_send,
        possible="a source that is here, with messages left, whom no muter holds; to a sink that is here, to which it "
        "leads",
    ),
    Frame(
        "Deliver",
        {"sinks.down.wire": -1, "sinks.down.inbox": +1, **_EPOCH},
        _tells_of_a_new_epoch,
        _TOLD_UPSTREAM,
        when=_may_deliver,
        possible="where one is on its way",
    ),
    Frame(
        "Consume",
        {"sinks.down.inbox": -1, **_EPOCH},
        _tells_of_a_new_epoch,
        "likewise",
        when=_may_consume,
        possible="where one is in its queue",
    ),
    Frame(
        "ReceiveSignal",
        {**_HEARD, "signals.others.up": None},
        _learns,
        "a relay: newer epochs only; they are handed on",
        when=_may_hear,
        possible="where one is in flight",
        acts=_is_relay,
    ),
    Frame(
        "ReceiveSignal",
        {**_HEARD, **_HOLDS},
        _learns,
        "a source: newer epochs only; it does as they say",
        when=_may_hear,
        possible="where one is in flight",
        acts=_is_source,
    ),
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


def _any_hop_of_any_state(parameters: Parameters) -> State:
    """Any state of the right types."""
    for node in (UP, DOWN):
        assume(all_of((node >= 1, node <= parameters.nodes)))
    assume(all_of((negated(equal(UP, DOWN)), MUTER >= 1, parameters.sinks >= MUTER)))
    sinks = Indexed.any_family(member_by_name(Sink, "sink."), parameters.sinks, MUTER - 1, focus={"down": DOWN - 1})
    rows = partial(row_of, sinks, operation(own("heard")))
    nodes = Indexed.any_family(rows, parameters.nodes, focus={"up": UP - 1, "down": DOWN - 1})
    nodes.assume_every(lambda name: nodes.get(name).get(MUTER - 1) >= 0)
    up = {"up": UP - parameters.sinks - parameters.relays - 1}
    sources = Indexed.any_family(source_by_name(sinks), parameters.sources, focus=up)
    names = nodes.focus.values()
    state = state_of(sources, sinks, nodes, tuple(product(names, names)))
    assume(_are_of_sinks(state, parameters, UP, DOWN))
    return state


ANY = Subject(SYSTEM, any_parameters, _any_hop_of_any_state, _ARGUMENTS)
"""Any graph in any state at all."""


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
            "No node has heard more than the muter has told, and none tells more than it has heard.",
            _one_unled,
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
            "ReceiveSignal",
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
            "On a hop where nothing is in flight, the node upstream, if it is here, has heard what the node downstream "
            "has.",
            SUBJECT.holds_whenever_invariant(
                "any hop", partial(_hop_has_told, more=0), partial(_hop_has_told, more=1), "and one epoch more"
            ),
        ),
        _CHAPTER.kept(
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
