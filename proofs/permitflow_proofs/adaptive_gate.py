"""A gate whose pool lends up to a target: any inputs, buffers and backlogs, any targets.

Each step is a step of the gate, in any state at all; so the theorems ``gate-…`` hold of it.  What is added is the
target: what it bounds, and that no target from the floor on stops everybody.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import cast

from permitflow_model import input_gate_credit
from permitflow_model.adaptive_gate import (
    SYSTEM,
    Parameters,
    State,
    gate_in,
    is_target,
    lent,
    target_bounds,
)
from permitflow_model.input_gate import SYSTEM as GATE
from permitflow_model.input_gate import borrowed_by, floating_here
from permitflow_model.input_gate_credit import Channel
from permitflow_proofs import input_gate as gate_proofs
from permitflow_proofs.kernel.arbitrary import any_parameters_of
from permitflow_proofs.kernel.chapter import Chapter, claim
from permitflow_proofs.kernel.family import SymbolicFamily
from permitflow_proofs.kernel.frame import is_same_state
from permitflow_proofs.kernel.induction import Clause, Subject
from permitflow_proofs.kernel.obligation import SymbolicObligation, take
from permitflow_proofs.kernel.symbols import all_of, assume, merged, natural
from permitflow_proofs.kernel.theorem import Theorem

INVARIANT: Mapping[str, Clause[State, Parameters]] = {"TargetOK": SYSTEM.invariants["TargetOK"]}
"""What every reachable state satisfies beside the gate's clauses; proved by induction."""


_any_parameters = partial(any_parameters_of, Parameters)


def _with_target(gate: input_gate_credit.State, parameters: Parameters) -> State:
    target = natural("target")
    assume(is_target(target, parameters))
    return State(*gate, target=target)


def _any_state(parameters: Parameters) -> State:
    return _with_target(gate_proofs.any_state(parameters), parameters)


def _any_target(_parameters: Parameters) -> tuple[int, ...]:
    return (natural("new_target"),)


_ARGUMENTS = {**gate_proofs.SUBJECT.any_arguments, "Resize": _any_target}

SUBJECT = Subject(SYSTEM, _any_parameters, _any_state, _ARGUMENTS)
"""The gate with any target."""

ANY = Subject(
    SYSTEM,
    _any_parameters,
    lambda parameters: State(*gate_proofs.ANY.any_state(parameters), target=natural("target")),
    _ARGUMENTS,
)
"""The gate in any state at all."""

_CHAPTER = Chapter(
    SUBJECT,
    INVARIANT,
    "adaptive-gate-",
    promises=frozenset({"refines-gate", "shrinks-first", "target-bounds", "live-exclusive", "live-floating"}),
)


# It is the gate.

Mistake = Callable[[State], State]


def _a_buffer_more(state: State) -> State:
    return state._replace(pool=state.pool + 1)


def _unchanged(state: State) -> State:
    return state


def _implements(action: str, mistake: Mistake) -> bool:
    """Where this action is possible, the gate's of the same name is, and both end in the same gate, with the target."""
    before, arguments, parameters = ANY.any_call(action)
    after = take(SYSTEM, parameters, before, [(action, arguments)])
    if after is None:
        return True
    expected = take(GATE, parameters, gate_in(before), [(action, arguments)])
    if expected is None:
        return False
    return all_of([is_same_state(gate_in(mistake(after)), expected), after.target == before.target])


def _is_guarded_as_gate(action: str, *, within: bool) -> bool:
    """It is possible where the gate's action is; ``Borrow``, within the target."""
    before, arguments, parameters = ANY.any_call(action)
    expected = GATE.is_enabled(action, gate_in(before), parameters, *arguments)
    if within and action == "Borrow":
        expected = expected and lent(before, parameters) < before.target
    elif not within:
        expected = True
    return SYSTEM.is_enabled(action, before, parameters, *arguments) == expected


def _resizes(mistake: Mistake) -> bool:
    """It changes the target, to one within its bounds, and nothing of the gate."""
    before, arguments, parameters = ANY.any_call("Resize")
    after = take(SYSTEM, parameters, before, [("Resize", arguments)])
    (target,) = arguments
    if after is None:
        return not (target != before.target and is_target(target, parameters))
    is_gate = is_same_state(gate_in(mistake(after)), gate_in(before))
    return all_of([is_gate, after.target == target, merged(partial(is_target, target, parameters))])


def _is_opened(channel: Channel, parameters: Parameters) -> bool:
    return is_same_state(channel, input_gate_credit.opened(parameters.exclusive))


def _starts_as_gate(mistake: Mistake) -> bool:
    parameters = any_parameters_of(Parameters)
    start = mistake(SYSTEM.initial(parameters))
    is_whole = start.pool == parameters.floating and start.target == parameters.floating
    is_opened = start.channels.size() == parameters.inputs and start.channels.every(_is_opened, parameters)
    return is_whole and is_opened and start.epoch == 0 and not start.failed


def _refines() -> tuple[SymbolicObligation, ...]:
    names = [action.name for action in GATE.actions]

    def with_twin(name: str, holds: Callable[[Mistake], bool]) -> SymbolicObligation:
        return SymbolicObligation(name, partial(holds, _unchanged), partial(holds, _a_buffer_more), "a buffer more")

    return (
        with_twin("starts as a gate", _starts_as_gate),
        with_twin("Resize", _resizes),
        *(with_twin(name, partial(_implements, name)) for name in names),
        *(
            SymbolicObligation(
                f"guard of {name}",
                partial(_is_guarded_as_gate, name, within=True),
                partial(_is_guarded_as_gate, name, within=False),
                "it is always possible",
            )
            for name in names
        ),
    )


# Consequences.


def _lends_within(before: State, after: State, parameters: Parameters, *, less: int) -> bool:
    """Nothing is lent beyond the target, or one less."""
    return after.pool >= before.pool or lent(after, parameters) <= after.target - less


def _here_is_lent(state: State, parameters: Parameters) -> bool:
    """What is here beyond the channels' own buffers holds floating ones."""
    return state.channels.sum_of(floating_here, parameters) <= state.channels.sum_of(borrowed_by)


def _bounds(state: State, parameters: Parameters, *, less: int) -> bool:
    _here_is_lent(state, parameters)
    if less:
        here = state.channels.sum_of(floating_here, parameters)
        return lent(state, parameters) > state.target or here <= state.target - less
    return target_bounds(state, parameters)


# Liveness.


def _has_borrowed(channel: Channel) -> bool:
    return channel.borrowed > 0


def _live_with_exclusive(less: int) -> bool:
    state, parameters = SUBJECT.any_case()
    assume(parameters.exclusive >= 1 - less)
    return gate_proofs.never_stuck(SUBJECT, gate_in(state), state, parameters)


def _live_with_floating(less: int) -> bool:
    parameters = _any_parameters(exclusive=0)
    assume(parameters.floor >= 1 - less)
    state = _any_state(parameters)
    # In focus are the channel that waits, and one that has borrowed.
    channels = cast("SymbolicFamily[Channel]", state.channels).with_some(_has_borrowed)
    state = state._replace(channels=channels)
    return gate_proofs.never_stuck(SUBJECT, gate_in(state), state, parameters)


def theorems() -> tuple[Theorem, ...]:
    """All of them."""
    theorem, names = _CHAPTER.theorem, [action.name for action in SYSTEM.actions]
    return (
        theorem(
            "refines-gate",
            "IsGate",
            "Each step is the gate's step of the same name, or a new target, which changes nothing of the gate; and it "
            "is possible where the gate's is, but for loans beyond the target. So all that is proved of the gate holds "
            "whatever the targets: no buffer is made or lost, nothing is behind a barrier, none is stored for nobody.",
            *_refines(),
        ),
        _CHAPTER.kept(
            "target-ok",
            "TargetOK",
            "The target is at least the floor and at most the pool.",
            lambda state, parameters: state._replace(target=parameters.floating + 1),
            "the target is one more than the pool",
        ),
        theorem(
            "shrinks-first",
            "ShrinksFirst",
            "Nothing is lent beyond the target: while more is lent, each buffer that comes home stays there.",
            *SUBJECT.step_obligations(
                ["Borrow"], partial(_lends_within, less=0), partial(_lends_within, less=1), "the target is one less"
            ),
            *SUBJECT.step_obligations(
                [name for name in names if name != "Borrow"],
                lambda before, after, _: after.pool >= before.pool,
                lambda before, after, _: after.pool > before.pool,
                "something comes home at each step",
            ),
        ),
        theorem(
            "target-bounds",
            "TargetBounds",
            "Once no more is lent than the target, data here for which the channels' own buffers are not enough is at "
            "most the target.",
            SUBJECT.holds_whenever_invariant(
                "in every state", partial(_bounds, less=0), partial(_bounds, less=1), "one less"
            ),
        ),
        theorem(
            "live-exclusive",
            "NeverStuck",
            "With an exclusive buffer for each channel, no target stops the gate: while an input waits for something "
            "else than an alignment, or all inputs have joined one, some step of the protocol is possible.",
            claim("in every state", _live_with_exclusive, "no exclusive buffer"),
        ),
        theorem(
            "live-floating",
            "NeverStuck",
            "Without exclusive buffers the same holds of targets of at least one buffer.",
            claim("in every state", _live_with_floating, "a target of nothing"),
        ),
    )
