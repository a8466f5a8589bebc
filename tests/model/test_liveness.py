"""The explorer decides what leads to what as TLC does, on the models of this repository; and shows a run if not."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import pytest

from permitflow_model.exploration import parameters_for
from permitflow_model.kernel.explore import explore
from permitflow_model.kernel.family import Family, family
from permitflow_model.kernel.liveness import Lasso, check_liveness, counterexample
from permitflow_model.kernel.system import Action, LeadsTo, ModelError, System, require
from permitflow_model.manifest import Model, ModelVerdict
from permitflow_model.registry import system_of
from permitflow_model.squelch import OFF, ON
from tests.support.specification import MODELS

Promise = LeadsTo[Any, Any]


def _number(message: Any) -> int:
    return message if isinstance(message, int) else getattr(message, "id", getattr(message, "number", -1))


def served(parameters: Any, *queues: str, kind: str = "") -> list[Promise]:
    """Each message in one of these queues is consumed."""

    def waits(number: int, state: Any, _parameters: Any) -> bool:
        found = (each for queue in queues for each in getattr(state, queue))
        return any(_number(each) == number and (not kind or each.kind == kind) for each in found)

    def is_consumed(number: int, state: Any, parameters: Any) -> bool:
        return bool(state.consumed == (number + 1) % parameters.tags)

    return [LeadsTo(partial(waits, number), partial(is_consumed, number)) for number in range(parameters.tags)]


_PIPE = ("inbox", "wire", "waiting")
_CONFLATED = [
    LeadsTo[Any, Any](lambda state, _: state.watermark_pending >= 0, lambda state, _: state.watermark_pending == -1),
    LeadsTo[Any, Any](lambda state, _: state.permits.watermarks == 0, lambda state, _: state.permits.watermarks == 1),
]
PROMISES: Mapping[tuple[str, str], Callable[[Any], list[Promise]]] = {
    ("StopAndWait", "EveryMessageDelivered"): lambda parameters: served(parameters, "waiting"),
    ("Demand", "EveryMessageDelivered"): lambda parameters: served(parameters, "waiting"),
    ("GrpcCall", "EveryMessageConsumed"): lambda parameters: served(parameters, "hand", "local"),
    ("PermitChannel", "EveryChunkDelivered"): lambda parameters: served(parameters, *_PIPE, kind="chunk"),
    ("PermitChannel", "EveryBarrierDelivered"): lambda parameters: served(parameters, *_PIPE, kind="barrier"),
    ("PermitChannel", "EveryWatermarkDelivered"): lambda _: _CONFLATED,
    ("PermitChannelProbes", "EveryWatermarkDelivered"): lambda _: _CONFLATED,
    ("GrpcCall", "BothEnd"): lambda _: [
        LeadsTo(
            lambda state, _: state.producer != "open" or state.consumer != "open",
            lambda state, _: state.producer != "open" and state.consumer != "open",
        )
    ],
    ("PortMachine", "BothClose"): lambda _: [
        LeadsTo(
            lambda state, _: state.inlet != "open" or state.outlet != "open",
            lambda state, _: state.inlet != "open" and state.outlet != "open",
        )
    ],
    ("Squelch", "Resumed"): lambda _: [
        LeadsTo(lambda state, _: state.heard == OFF, lambda state, _: state.heard == ON)
    ],
    ("LoopChain", "SourceGoesOn"): lambda _: [
        LeadsTo(lambda state, _: state.waiting > 0, lambda state, parameters: state.waiting < parameters.waiters)
    ],
    # <> of what holds for ever once it holds.
    ("SparkMicroBatch", "Drained"): lambda _: [
        LeadsTo(
            lambda _state, _: True,
            lambda state, parameters: state.produced == state.output == state.acknowledged == parameters.horizon,
        )
    ],
}
"""The properties of the specifications, as this package writes them."""


def fair_of(model: Model) -> set[str]:
    """Its weakly fair actions."""
    chosen: Any = model.constants.get("Fair", frozenset())
    weakly = {"SendWatermark"} if model.specification == "WeakWatermarkSpec" else set()
    return {*chosen, *weakly}


def is_weak(model: Model) -> bool:
    """Is no action strongly fair?  In a channel that conflates watermarks, their sending is."""
    return "SendWatermark" not in model.constants.get("Fair", ())  # type: ignore[operator]


CASES = [
    (model.name, name)
    for model in MODELS.values()
    for name in model.properties
    if (model.module, name) in PROMISES and is_weak(model)
]


def test_many_models_of_the_specification_are_compared() -> None:
    expected = [MODELS[model].expect.kind for model, _ in CASES]
    assert (expected.count("success"), expected.count("property")) == (16, 47)


@pytest.mark.parametrize(("name", "property_"), CASES)
def test_what_leads_to_what_is_decided_as_by_tlc(name: str, property_: str) -> None:
    """``models.toml`` has TLC's verdict."""
    model = MODELS[name]
    registered = system_of(model.module)
    assert registered is not None
    parameters = parameters_for(model)
    graph = explore(registered.system, parameters, invariants={})
    promises = PROMISES[model.module, property_](parameters)
    found = [
        counterexample(registered.system, parameters, graph, promise, name=property_, fair=fair_of(model))
        for promise in promises
    ]
    broken = [each for each in found if each is not None]
    assert model.expect == (ModelVerdict("property", property_) if broken else ModelVerdict("success"))
    for lasso in broken:
        require_lasso(registered.system, parameters, lasso, promises[found.index(lasso)], fair_of(model))


def require_lasso(
    system: System[Any, Any], parameters: Any, lasso: Lasso[Any], promise: Promise, fair: set[str]
) -> None:
    """It is a run of the model, it is fair, the premise holds at some time and the conclusion never from then on."""
    state = lasso.start
    states = [state]
    for step in (*lasso.steps, *lasso.loop):
        state = system.perform(step.action, state, parameters, *step.arguments)
        assert state == step.state
        states.append(state)
    entrance = len(lasso.steps)
    assert states[-1] == states[entrance]
    begins = [number for number, each in enumerate(states) if promise.premise(each, parameters)]
    concluded = [number for number, each in enumerate(states) if promise.conclusion(each, parameters)]
    assert any(number > max(concluded, default=-1) for number in begins)
    assert not any(promise.conclusion(each, parameters) for each in states[entrance:])
    loop = states[entrance:]
    for unit in units(system, parameters, fair):
        taken = any(
            (step.action, step.arguments) in unit and before != step.state
            for before, step in zip(loop, lasso.loop, strict=False)
        )
        assert taken or any(not changes(system, parameters, unit, each) for each in loop), unit


Unit = frozenset[tuple[str, tuple[int, ...]]]


def units(system: System[Any, Any], parameters: Any, fair: set[str]) -> set[Unit]:
    """What fairness is about, as the specifications say: an action, or that of one member."""
    found: set[Unit] = set()
    for action in system.actions:
        if action.name in fair:
            calls = [(action.name, arguments) for arguments in action.arguments(parameters)]
            found |= {frozenset({each}) for each in calls} if action.members else {frozenset(calls)}
    return found


def changes(system: System[Any, Any], parameters: Any, unit: Unit, state: Any) -> bool:
    """Can it take a step that changes something?"""
    return any(
        (step.action, step.arguments) in unit and step.state != state for step in system.successors(state, parameters)
    )


class Shop(NamedTuple):
    asked: bool = False
    busy: bool = False


def ask(shop: Shop, _: None) -> Shop:
    require(not shop.asked)
    return shop._replace(asked=True)


def serve(shop: Shop, _: None) -> Shop:
    require(shop.asked)
    require(not shop.busy)
    return shop._replace(asked=False)


def telephone(shop: Shop, _: None) -> Shop:
    return shop._replace(busy=not shop.busy)


SERVED = LeadsTo[Shop, None](lambda shop, _: shop.asked, lambda shop, _: not shop.asked)


def shop_of(*actions: Action[Shop, None], promise: LeadsTo[Shop, None] = SERVED) -> System[Shop, None]:
    return System(module="Shop", initial=lambda _: Shop(), actions=actions, invariants={}, leads_to={"Served": promise})


ASK = Action[Shop, None]("ask", ask, is_environment=True)
SERVE = Action[Shop, None]("serve", serve, is_fair=True)


def test_a_fair_action_that_stays_possible_happens() -> None:
    assert check_liveness(shop_of(ASK, SERVE), None) == {"Served": None}


def test_without_fairness_a_run_stands_still_for_ever() -> None:
    lasso = check_liveness(shop_of(ASK, SERVE), None, fair=())["Served"]
    assert lasso is not None
    assert [step.action for step in lasso.steps] == ["ask"]
    assert lasso.loop == ()
    assert str(lasso).startswith("Served does not hold: after 1 step, nothing has to happen\n")


def test_a_fair_action_that_is_impossible_again_and_again_starves() -> None:
    lasso = check_liveness(shop_of(ASK, SERVE, Action("telephone", telephone)), None)["Served"]
    assert lasso is not None
    assert [step.action for step in lasso.loop] == ["telephone", "telephone"]
    assert "for ever steps 2 to 3" in str(lasso)


def test_a_fair_step_that_changes_nothing_serves_nobody() -> None:
    def serve_or_look(shop: Shop, _: None, serves: int) -> Shop:
        require(shop.asked)
        return shop._replace(asked=serves == 0)

    action = Action[Shop, None]("serve", serve_or_look, lambda _: [(0,), (1,)], is_fair=True)
    assert check_liveness(shop_of(ASK, action), None) == {"Served": None}


def test_an_unknown_fair_action_is_refused() -> None:
    with pytest.raises(ModelError, match="fair names an action 'server', and the model has ask, serve"):
        check_liveness(shop_of(ASK, SERVE), None, fair=["server"])


def test_a_promise_that_fails_is_named_with_its_state() -> None:
    forgetful = SERVED._replace(conclusion=lambda _shop, _: None)  # type: ignore[arg-type,return-value]
    with pytest.raises(
        ModelError, match=r"the conclusion of 'Served' in state Shop\(asked=False, busy=False\): it ret"
    ):
        check_liveness(shop_of(ASK, SERVE, promise=forgetful), None)


class Counters(NamedTuple):
    ends: Family[int]


def count(state: Counters, _: None, name: int) -> Counters:
    return state._replace(ends=state.ends.put(name, (state.ends.get(name) + 1) % 2))


def test_each_member_of_a_family_is_treated_fairly() -> None:
    def moves(members: Callable[[Counters], Family[int]] | None) -> System[Counters, None]:
        action = Action[Counters, None]("count", count, lambda _: [(0,), (1,)], is_fair=True, members=members)
        promise = LeadsTo[Counters, None](lambda _state, _: True, lambda state, _: state.ends.get(1) == 1)
        return System("Pair", lambda _: Counters(family(0, 2)), (action,), {}, leads_to={"Second": promise})

    assert check_liveness(moves(lambda state: state.ends), None) == {"Second": None}
    assert check_liveness(moves(None), None)["Second"] is not None
