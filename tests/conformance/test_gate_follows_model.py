"""The gate's ends make every step that the model makes, and refuse what it refuses; the model explains what they do."""

import random
from dataclasses import asdict, replace
from typing import Any

import pytest

from permitflow import GateParameters
from permitflow.errors import InvalidParametersError
from permitflow.flows.gate.core import Gate, GateReceiver, GateSender
from permitflow_model import adaptive_gate
from permitflow_model.input_gate import SYSTEM
from permitflow_model.input_gate_credit import Parameters, State
from permitflow_model.input_gate_trace import GateExplanation
from permitflow_model.kernel.replay import Refused, World
from permitflow_model.kernel.system import System
from permitflow_model.withdrawing_gate import SYSTEM as WITHDRAWING
from permitflow_testing import Divergence
from permitflow_testing.moves import REFUSALS, Move, compare, moves_of
from permitflow_testing.subjects.input_gate import model_parameters
from tests.support.gate_ends import GateEnds

# The gate lends by itself, as soon as it can.
# The ends also announce a backlog where the model does not, if there is exclusive credit.
NO_MOVES = ("Borrow", "Done")
BARRIERS = {"ConsumeBarrier", "ConsumeNewerBarrier", "ConsumeOlderBarrier"}
"""The gate looks at the number, and decides which of them it is."""


TOLD = {"AnnounceBacklog", "ReturnCredit"}
"""The sender decides which of them it is."""
RARE, RARELY = {"OfferEnd", "LoseInput"}, 0.03
"""So that there is something to end."""
SOMETIMES = 0.2
"""The target changes."""
OFTEN = 0.7


def led(
    parameters: GateParameters,
    seed: int,
    steps: int,
    *,
    skip: int = 0,
    ends: bool = False,
    losses: bool = False,
    adapts: bool = False,
    withdraws: bool = False,
) -> tuple[GateEnds, list[str]]:
    """Let the model lead the ends through a random behaviour; what it refuses, they must refuse.

    If it ``adapts``, its target changes meanwhile; all else is what the gate without targets may do, but for loans.  If
    it ``withdraws``, senders take back what waits.
    """
    system = WITHDRAWING if withdraws else SYSTEM
    choose, gate = random.Random(seed), GateEnds(parameters)
    constants = replace(model_parameters(parameters), backlog=3, skip=skip, ends=ends, losses=losses)
    explanation = GateExplanation(constants, {str(name): name for name in range(parameters.inputs)})
    off = {action for action, is_on in {"OfferEnd": constants.ends, "LoseInput": constants.losses}.items() if not is_on}
    moves = [move for move in moves_of(system, constants) if move.action not in {*NO_MOVES, *off}]
    world, made = explanation.start(), []
    for _ in range(steps):
        enabled = [move for move in moves if system.is_enabled(move.action, world.state, constants, *move.arguments)]
        if not enabled:
            break
        never = {"OfferData", "OfferBarrier", "OfferNewerBarrier"}
        if parameters.exclusive > 0:
            never |= TOLD
        consumed = {move.arguments for move in enabled if move.action in BARRIERS}
        told = {move.arguments for move in enabled if move.action in TOLD}
        refused = choose.choice(
            [
                move
                for move in moves
                if move not in enabled
                and move.action not in never
                and not (move.action in BARRIERS and move.arguments in consumed)
                and not (move.action in TOLD and move.arguments in told)
            ]
        )
        require_refused(gate, refused, world.state)
        move = choose.choice([move for move in enabled if move.action not in RARE] or enabled)
        if choose.random() < RARELY:
            move = choose.choice(enabled)
        own = [move for move in enabled if not system.action(move.action).is_environment]
        if (
            withdraws and own and choose.random() < OFTEN
        ):  # what is offered is not always taken back before it is lent for
            move = choose.choice(own)
        world = explained(gate, move, explanation, world)
        compare(gate.observe(), world.state, f"after {move!r}")
        made.append(move.action)
        if adapts and choose.random() < SOMETIMES:
            world = resized(gate, choose.randrange(-1, parameters.floating + 2), explanation, world)
            made.append("Resize")
        withheld = parameters.floating - gate.gate.target
        assert not (gate.gate.pool > withheld and any(member.lacks for member in gate.gate.members))
    return gate, made


def resized(ends: GateEnds, target: int, explanation: GateExplanation, world: World[State]) -> World[State]:
    """The world after a new target, and the loans that it allows; or as before, if it is refused."""
    constants = adaptive_gate.Parameters(**asdict(explanation.parameters), floor=ends.gate.least_target)
    adaptive = adaptive_gate.State(*world.state, target=ends.gate.target)
    told, before = len(ends.events), ends.gate.target
    if target != before and not adaptive_gate.SYSTEM.is_enabled("Resize", adaptive, constants, target):
        with pytest.raises(InvalidParametersError):
            ends.gate.resize(target)
        assert (ends.gate.target, len(ends.events)) == (before, told)
        return world
    ends.gate.resize(target)
    assert ends.gate.target == target
    for event in ends.events[told:]:
        (world,) = explanation.perform(world, event)
    compare(ends.observe(), world.state, f"after a target of {target}")
    return world


def require_refused(ends: GateEnds, move: Move, state: State) -> None:
    """The model refuses it: so must they, and change nothing."""
    told = len(ends.events)
    try:
        ends.attempt(move)
    except REFUSALS:
        compare(ends.observe(), state, f"after the refusal of {move!r}")
        assert len(ends.events) == told
        return
    raise Divergence(f"{move!r} is impossible in {state}, but the ends perform it")


def explained(ends: GateEnds, move: Move, explanation: GateExplanation, world: World[State]) -> World[State]:
    """The world after the events of a move."""
    told = len(ends.events)
    ends.attempt(move)
    events = ends.events[told:]
    if move.action in BARRIERS:
        assert events[0].action == move.action
    if move.action == "OfferEnd":  # not recorded: the end is judged when it is consumed
        return World(SYSTEM.perform(move.action, world.state, explanation.parameters, *move.arguments))
    for event in events:
        before, (world, *_) = world, explanation.perform(world, event)  # the newest message is withdrawn
        assert explanation.broken(world) == []
        if event.action == "Borrow":
            floating = explanation.parameters.floating
            assert world.state.pool < before.state.pool
            assert floating - world.state.pool <= ends.gate.target
    return world


GATES = [(2, 0, 1), (2, 1, 1), (2, 2, 0), (3, 0, 2), (3, 1, 2), (4, 0, 1), (4, 2, 3)]
"""Inputs, exclusive and floating credit."""
NEWER: dict[str, Any]
LOST: dict[str, Any]
NEWER, LOST = {"skip": 2, "ends": True}, {"skip": 1, "ends": True, "losses": True}
RUNS: dict[str, tuple[list[tuple[int, int, int]], dict[str, Any], set[str]]] = {
    "barriers": (GATES, {}, {"SendData", "Deliver", "ConsumeBarrier"}),
    "newer barriers and ends": ([*GATES[:2], *GATES[3:6]], NEWER, {"OfferNewerBarrier", "ConsumeBarrier"}),
    "lost inputs": ([GATES[0], GATES[4]], LOST, {"LoseInput"}),
    "targets": (
        [(2, 0, 3), GATES[4], GATES[6]],
        {"adapts": True, "ends": True},
        {"Resize", "Deliver", "ConsumeBarrier"},
    ),
    "withdrawals": (
        [GATES[0], GATES[4]],
        {"withdraws": True, "skip": 2},
        {"WithdrawData", "WithdrawBarrier", "SendAndTell", "DeliverOrReturn"},
    ),
}


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 4))])
@pytest.mark.parametrize(("run", "gate"), [(name, gate) for name, (gates, *_) in RUNS.items() for gate in gates])
def test_the_model_leads_all_ends_of_a_gate(run: str, gate: tuple[int, int, int], seed: int) -> None:
    inputs, exclusive, floating = gate
    _, events, due = RUNS[run]
    parameters = GateParameters(inputs=inputs, exclusive=exclusive, floating=floating, max_chunk_cost=1)
    ends, made = led(parameters, seed, 400, **events)
    assert due <= set(made)
    if run == "newer barriers and ends":
        assert ends.gate.given_up > 0
    if run == "lost inputs":
        assert not any(member.is_blocked for member in ends.gate.members)


@pytest.mark.parametrize(("system", "withdraws", "floating"), [(SYSTEM, False, 1), (WITHDRAWING, True, 3)])
def test_such_behaviours_have_every_action(system: System[State, Parameters], withdraws: bool, floating: int) -> None:
    made: set[str] = set()
    for seed in range(10):
        gate = GateParameters(inputs=2, exclusive=0, floating=floating, max_chunk_cost=1)
        made.update(led(gate, seed, 300, withdraws=withdraws, **LOST)[1])
    assert made == {action.name for action in system.actions} - {*NO_MOVES}


# Mistakes that the model notices.


def keeps_credit(receiver: GateReceiver[int], action: str) -> None:
    """Resumes without a word."""
    receiver.is_blocked = receiver._is_behind_barrier = receiver.is_released = False


@pytest.mark.parametrize(
    ("owner", "name", "mistake"),
    [
        (GateSender, "_is_stopped", property(lambda self: False, lambda self, _: None)),
        (Gate, "take_home", lambda gate, credit, member=None: None),
        (GateReceiver, "lend", lambda receiver, credit: None),
        (GateReceiver, "resume", keeps_credit),
        (GateSender, "take_announcement", lambda sender: None),
    ],
)
def test_ends_with_a_mistake_are_found_out(
    monkeypatch: pytest.MonkeyPatch, owner: type[object], name: str, mistake: object
) -> None:
    monkeypatch.setattr(owner, name, mistake)
    with pytest.raises((AssertionError, Refused, *REFUSALS)):
        led(GateParameters(inputs=2, exclusive=0, floating=1), 0, 2_000)
