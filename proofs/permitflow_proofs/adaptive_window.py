"""A permit channel whose receiver changes the window while it runs: any window, batch and chunks, any targets.

The clauses are shown in states that satisfy all of them, so they are inductive together.  Of the measure nothing is
assumed: the target and its batch may become anything that leaves the agreed room, at any time.
"""

from collections.abc import Callable, Mapping
from functools import partial
from operator import add

from permitflow_model.adaptive_window import SYSTEM, Parameters, State, cost_of, is_aim, is_cost, rows_in
from permitflow_model.adaptive_window_refinement import as_chunk, queue_move, queue_parameters
from permitflow_proofs.bounded_queue_view import ChunkView
from permitflow_proofs.kernel.arbitrary import any_parameters_of, arbitrary, assume_all
from permitflow_proofs.kernel.chapter import Chapter
from permitflow_proofs.kernel.frame import Frame
from permitflow_proofs.kernel.induction import Clause, Refutation, Subject
from permitflow_proofs.kernel.queue import Law, Sums, SymbolicQueue
from permitflow_proofs.kernel.queue_facts import law_obligations
from permitflow_proofs.kernel.ranking import comes_to_rest
from permitflow_proofs.kernel.symbols import Sizes, assume, assuming, integer, natural
from permitflow_proofs.kernel.theorem import Theorem

INVARIANT = {name: SYSTEM.invariants[name] for name in ("TypeOK", "AimOK", "Conservation", "Batched", "TargetKept")}
"""What every reachable state satisfies; proved by induction."""


def _any_parameters() -> Parameters:
    return any_parameters_of(Parameters, row_costs=Sizes(integer("largest_rows")))


def _any_cost(parameters: Parameters) -> int:
    rows = natural("offered")
    with assuming():
        assume(is_cost(rows, parameters))
    return rows


def _lawful_chunk() -> int:
    return _any_cost(_any_parameters())


def _any_chunk() -> int:
    return integer("chunk")


def _rows_held(chunks: Sums) -> int:
    return chunks.sum_of(cost_of, add, 0)


def _any_state_of(clauses: tuple[str, ...], parameters: Parameters, more_laws: tuple[Law, ...] = ()) -> State:
    laws = (_rows_held, *more_laws)
    queues = {name: SymbolicQueue.any_queue(name, integer, laws) for name in ("waiting", "wire", "inbox")}
    return assume_all([INVARIANT[name] for name in clauses], arbitrary(State, special=queues), parameters)


def _any_aim(_parameters: Parameters) -> tuple[int, int]:
    return natural("new_target", 1), natural("new_batch", 1)


_ARGUMENTS: Mapping[str, Callable[[Parameters], tuple[int, ...]]] = {
    "Offer": lambda parameters: (_any_cost(parameters),),
    "Resize": _any_aim,
    "AddPermits": lambda _: (natural("returned_rows", 1),),
}

SUBJECT = Subject(SYSTEM, _any_parameters, partial(_any_state_of, tuple(INVARIANT)), _ARGUMENTS)
"""The channel with any parameters."""

_CHAPTER = Chapter(
    SUBJECT,
    INVARIANT,
    "adaptive-window-",
    promises=frozenset(
        {"conservation", "bounded", "target-kept", "target-bounds", "shrinks-first", "live", "live-flush", "whole"}
    ),
)


_VIEW = ChunkView(as_chunk=as_chunk, queue=queue_parameters, move=queue_move, rows_held=_rows_held, stray=1)

SEEN = Subject(
    SYSTEM,
    _any_parameters,
    partial(_any_state_of, tuple(INVARIANT), more_laws=tuple(_VIEW.laws.values())),
    _ARGUMENTS,
)
"""The channel, with what a user sees of it."""


# Consequences.


def _bounds(state: State, parameters: Parameters, *, withheld: int) -> bool:
    """Where as much is withheld as shall be, or so much less."""
    if state.withheld + withheld != parameters.row_permits - state.target:
        return True
    return rows_in(state) <= state.target


def _shrinks(before: State, after: State, parameters: Parameters) -> bool:
    """Something returns only once as much is withheld as shall be."""
    return after.returned <= before.returned or after.withheld == parameters.row_permits - after.target


def _withholds_one_more(before: State, after: State, parameters: Parameters) -> bool:
    return _shrinks(before, after._replace(withheld=after.withheld + 1), parameters)


def _live(*, beyond: int, flush: bool) -> Clause[State, Parameters]:
    """Never stuck, if chunks cost as much as that, or so much more."""

    def live(state: State, parameters: Parameters) -> bool:
        most = parameters.row_permits if flush else parameters.room
        assume(max(parameters.row_costs) <= most + beyond)
        if flush:
            assume(parameters.flush_idle)
        return SYSTEM.invariants["NeverStuck"](state, parameters)

    return live


def _whole(state: State, parameters: Parameters, *, less: int) -> bool:
    assume(parameters.flush_idle)
    return SYSTEM.can_move(state, parameters) or state.permits == parameters.row_permits - less


def rank(state: State, _parameters: Parameters) -> int:
    """At most this many steps until everything that was offered is consumed and as much as possible has returned."""
    queues = (state.waiting, state.wire, state.inbox)
    steps = 3 * state.waiting.size() + 2 * state.wire.size() + state.inbox.size()
    kept = sum(map(_rows_held, queues)) + state.unreturned + state.withheld
    return steps + 2 * kept + state.returned


def _is_at_rest(state: State) -> bool:
    return state.waiting.is_empty() and state.wire.is_empty() and state.inbox.is_empty()


def _is_dead(parameters: Parameters) -> bool:
    return max(parameters.row_costs) > (parameters.row_permits if parameters.flush_idle else parameters.room)


_SMALL = Parameters(row_permits=4, permit_batch=2, room=1, row_costs=(1, 3))


def _is_within_target(state: State, _parameters: Parameters) -> bool:
    """What is in the channel never exceeds the target."""
    return rows_in(state) <= state.target


# Frames.


def _may_offer(state: State, parameters: Parameters, _rows: int) -> bool:
    return state.waiting.size() < parameters.waiters


def _may_withdraw(state: State, parameters: Parameters) -> bool:
    return parameters.withdrawals and state.waiting.size() > 0


def _may_resize(state: State, parameters: Parameters, target: int, batch: int) -> bool:
    is_new = target != state.target or batch != state.batch
    has_room = batch - 1 + parameters.room <= target
    return is_new and has_room and target <= parameters.row_permits and batch <= parameters.permit_batch


def _may_send(state: State, _parameters: Parameters) -> bool:
    return state.waiting.size() > 0 and state.waiting.head() <= state.permits


def _may_flush(state: State, parameters: Parameters) -> bool:
    return parameters.flush_idle and state.inbox.size() == 0 and state.unreturned + state.withheld > 0


def _pays(before: State, after: State, _parameters: Parameters) -> bool:
    return after.permits == before.permits - before.waiting.head()


def _settles(before: State, after: State, parameters: Parameters, consumed: int) -> bool:
    collected = before.unreturned + consumed
    is_complete = collected >= after.batch
    surplus = parameters.row_permits - after.target
    supply = before.withheld + (collected if is_complete else 0)
    return (
        after.unreturned == (0 if is_complete else collected)
        and after.withheld == (surplus if supply > surplus else supply)
        and after.returned - before.returned == supply - after.withheld
    )


def _consumes(before: State, after: State, parameters: Parameters) -> bool:
    return _settles(before, after, parameters, before.inbox.head())


def _resizes(before: State, after: State, parameters: Parameters) -> bool:
    return is_aim(parameters, after.target, after.batch) and _settles(before, after, parameters, 0)


def _flushes(before: State, after: State, _parameters: Parameters) -> bool:
    is_all = after.returned == before.returned + before.unreturned + before.withheld
    return is_all and after.unreturned == 0 and after.withheld == 0


def _arrive(before: State, after: State, _parameters: Parameters) -> bool:
    return after.permits + after.returned == before.permits + before.returned


_KEPT = dict.fromkeys(("unreturned", "withheld", "returned"))

FRAMES: tuple[Frame[State, Parameters], ...] = (
    Frame("Offer", {"waiting": +1}, when=_may_offer, possible="up to Waiters"),
    Frame("Withdraw", {"waiting": -1}, when=_may_withdraw, possible="where that is allowed, and a chunk waits"),
    Frame(
        "Resize",
        {"target": None, "batch": None, **_KEPT},
        _resizes,
        "what is collected and withheld returns as far as the new target lets it",
        when=_may_resize,
        possible="for another aim that leaves the room, up to the agreed window and batch",
    ),
    Frame(
        "Send",
        {"waiting": -1, "wire": +1, "permits": None},
        _pays,
        "by what the chunk costs",
        when=_may_send,
        possible="where the sender has its permits",
    ),
    Frame("Deliver", {"wire": -1, "inbox": +1}, when=lambda state, _: state.wire.size() > 0, possible="where one is"),
    Frame(
        "Consume",
        {"inbox": -1, **_KEPT},
        _consumes,
        "the chunk's permits are collected; of a batch that is complete the surplus is withheld, the rest returns",
        when=lambda state, _: state.inbox.size() > 0,
        possible="where there is one",
    ),
    Frame("Flush", _KEPT, _flushes, "all of both returns", when=_may_flush, possible="if it may, and keeps something"),
    Frame(
        "AddPermits",
        {"returned": None, "permits": None},
        _arrive,
        "together unchanged",
        when=lambda state, _, rows: rows <= state.returned,
        possible="as many as are on their way",
    ),
)
"""What each action changes."""

ANY = Subject(SYSTEM, _any_parameters, partial(_any_state_of, ()), _ARGUMENTS)
"""The channel in any state at all."""


def theorems() -> tuple[Theorem, ...]:
    """All of them."""
    follows = SUBJECT.holds_whenever_invariant
    return (
        _CHAPTER.theorem(
            "queue-laws",
            "RowsIn",
            "Chunks in a queue together hold no negative number of row permits.",
            *law_obligations("row permits held", _rows_held, _lawful_chunk, _any_chunk),
        ),
        _CHAPTER.kept(
            "type-ok",
            "TypeOK",
            "No count is ever negative.",
            lambda state, _: state._replace(permits=-1),
            "-1 permits",
        ),
        _CHAPTER.kept(
            "conservation",
            "Conservation",
            "Each row permit is at the sender, held by a chunk, collected, withheld, or on its way back, after any "
            "number of steps and any changes of the target: none is created, and none is lost.",
            lambda state, _: state._replace(withheld=state.withheld + 1),
            "after the step one more is withheld",
        ),
        _CHAPTER.kept(
            "aim-ok",
            "AimOK",
            "The target is at most the agreed window, the batch at most the agreed one, and both leave the room.",
            lambda state, parameters: state._replace(target=parameters.row_permits + 1),
            "the target is one more than the window",
        ),
        _CHAPTER.kept(
            "batched",
            "Batched",
            "Less than a batch is collected, however the batch changes.",
            lambda state, _: state._replace(unreturned=state.unreturned + state.batch),
            "after the step a batch more is",
        ),
        _CHAPTER.kept(
            "target-kept",
            "TargetKept",
            "At least the target circulates: what is withheld is at most the window less the target.",
            lambda state, parameters: state._replace(withheld=parameters.row_permits - state.target + 1),
            "one more is withheld",
        ),
        _CHAPTER.theorem(
            "bounded",
            "Bounded",
            "The chunks in the channel hold at most row_permits, the agreed window, whatever the targets.",
            follows(
                "in every state",
                SYSTEM.invariants["Bounded"],
                lambda state, parameters: rows_in(state) < parameters.row_permits,
                "fewer",
            ),
        ),
        _CHAPTER.theorem(
            "target-bounds",
            "TargetBounds",
            "Once row_permits - target are withheld, the chunks in the channel hold at most the target.",
            follows(
                "in every state", partial(_bounds, withheld=0), partial(_bounds, withheld=1), "one less is withheld"
            ),
        ),
        _CHAPTER.theorem(
            "shrinks-first",
            "ShrinksFirst",
            "While more circulates than the target nothing returns, but for the flush: so the target is reached once "
            "as much is consumed as the window is too large, in batches.",
            *SUBJECT.step_obligations(
                ("Consume", "Resize"), _shrinks, _withholds_one_more, "one more is withheld than shall be"
            ),
        ),
        _CHAPTER.theorem(
            "live",
            "NeverStuck",
            "If no chunk costs more than the room, then while a chunk waits some step of the protocol is possible, "
            "whatever the targets and with no flush.",
            follows("in every state", _live(beyond=0, flush=False), _live(beyond=1, flush=False), "one permit more"),
        ),
        _CHAPTER.theorem(
            "live-flush",
            "NeverStuck",
            "With the idle flush, and chunks that cost no more than row_permits: while a chunk waits some step of the "
            "protocol is possible, however small the target.",
            follows("in every state", _live(beyond=0, flush=True), _live(beyond=1, flush=True), "one permit more"),
        ),
        _CHAPTER.theorem(
            "whole",
            "WholeWhenIdle",
            "With the idle flush, where the protocol can do nothing more all permits are back at the sender: so it "
            "learns that everything is consumed.",
            follows("in every state", partial(_whole, less=0), partial(_whole, less=1), "one is missing"),
        ),
        _CHAPTER.theorem(
            "rank",
            "Protocol",
            "3 for each chunk that waits, 2 in flight, 1 in the inbox, two for each row permit that these hold, that "
            "is collected or withheld, and one for each on its way back: this falls with every step of the protocol, "
            "and only Offer raises it. So until then the protocol takes no more steps than that, however often the "
            "target changes.",
            *comes_to_rest(SUBJECT, rank, unless=("Offer",)),
        ),
        _CHAPTER.theorem(
            "all-delivered",
            "EveryChunkLeaves",
            "If no chunk costs more than the room, or than row_permits with the flush: where the protocol can do "
            "nothing more, everything offered is consumed.",
            SUBJECT.comes_to(_is_at_rest, _is_dead),
        ),
        Theorem(
            id="adaptive-window-within-target",
            statement=(
                "False: no more than the target is in the channel. What is out when the target falls is out; it is "
                "withheld when it is consumed."
            ),
            module="AdaptiveWindow",
            operator="WithinTargetProbe",
            expected="refuted",
            obligations=(
                Refutation(
                    "a state where it is false",
                    _is_within_target,
                    SYSTEM.invariants["Bounded"],
                    "the window",
                    SUBJECT.always,
                    SYSTEM,
                    _SMALL,
                ),
            ),
        ),
        Theorem(
            id="adaptive-window-refines-queue",
            is_promise=True,
            statement=(
                "A channel whose window adapts is the first-in, first-out queue of chunks that a permit channel with "
                "the agreed window is, which cost at most row_permits together: Send puts the oldest waiting chunk in, "
                "Consume gets the oldest one out, Offer and Withdraw change the line, and no other step can be seen."
            ),
            module="AdaptiveWindowRefinement",
            operator="IsQueue",
            obligations=_VIEW.obligations(SEEN, _any_chunk),
        ),
        _CHAPTER.framed(FRAMES, ANY),
    )
