"""A mistake in the text of a model is an error that names the action or the condition, and the state."""

import sys
from asyncio import CancelledError
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, cycle
from typing import Any, NamedTuple

import pytest

from permitflow_model.kernel.explore import explore
from permitflow_model.kernel.replay import StepByStep, replay
from permitflow_model.kernel.system import Action, Disabled, LeadsTo, ModelError, System, require


class State(NamedTuple):
    n: int = 0
    seen: object = ()


Perform = Callable[..., Any]


def forgets_return(state: State, _: None) -> None:
    require(state.n < 3)
    state._replace(n=state.n + 1)


def writes_unknown(state: State, _: None) -> State:
    return state._replace(m=1)  # type: ignore[call-arg]


def reads_unknown(state: State, _: None) -> State:
    return state._replace(n=state.m)  # type: ignore[attr-defined]


def takes_a_list(state: State, _: None) -> State:
    require(state.n < 3)
    return state._replace(seen=[state.n])


class Incomparable:
    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        raise ValueError("not with me")


def takes_what_compares_with_nothing(state: State, _: None) -> State:
    return state._replace(seen=Incomparable())


def guards_by_and(state: State, _: None) -> object:
    return state.n < 3 and state._replace(n=state.n + 1)


def asserts(state: State, _: None) -> State:
    assert state.n
    return state


def exits(state: State, _: None) -> State:
    sys.exit("enough")


def is_given_up(state: State, _: None) -> State:
    raise CancelledError("no more")


def returns_its_class(state: State, _: None) -> object:
    return State


def returns_a_tuple(state: State, _: None) -> object:
    return (state.n + 1, ())


def guards_by_a_function(state: State, _: None) -> State:
    require(is_small)
    return state._replace(n=state.n + 1)


def guards_by_a_coroutine(state: State, _: None) -> State:
    guard = asynchronous()
    try:
        require(guard)
    finally:
        guard.close()
    return state


def guards_by_a_pair(state: State, _: None) -> State:
    require((state.n < 3, "small"))
    return state


def guards_by_a_word(state: State, _: None) -> State:
    require("small")
    return state


def guards_by_nothing(state: State, _: None) -> State:
    require(None)
    return state


def up(state: State, _: None) -> State:
    require(state.n < 3)
    return state._replace(n=state.n + 1)


def never(_state: State, _: None) -> State:
    raise Disabled


def is_small(state: State) -> bool:
    return state.n < 3


async def asynchronous(*_: object) -> State:
    return State()


def up_by(state: State, _: None, count: int) -> State:
    require(state.n + count < 4)
    return state._replace(n=state.n + count)


def system(*actions: Action[Any, Any], initial: Perform = lambda _: State(), **more: Any) -> System[Any, Any]:
    actions = actions or (Action("never", never),)
    return System(module="M", initial=initial, actions=actions, invariants=more.pop("invariants", {}), **more)


NAMES_ERROR = "ValueError" if sys.version_info < (3, 13) else "TypeError"

MISTAKES: dict[str, tuple[Perform, str]] = {
    "no return": (
        forgets_return,
        "action 'up' in state State(n=0, seen=()): it returned None; return the next state, or let `require` refuse",
    ),
    "writes an unknown field": (
        writes_unknown,
        f"action 'up' in state State(n=0, seen=()): {NAMES_ERROR}: Got unexpected field names: ['m']",
    ),
    "reads an unknown field": (
        reads_unknown,
        "action 'up' in state State(n=0, seen=()): AttributeError: 'State' object has no attribute 'm'",
    ),
    "a value that cannot be hashed": (
        takes_a_list,
        "action 'up' in state State(n=0, seen=()): seen would be [0]: unhashable type: 'list'",
    ),
    "a value that cannot be compared": (
        takes_what_compares_with_nothing,
        "which cannot be hashed and compared (ValueError: not with me); use values that cannot change",
    ),
    "a guard by and": (
        guards_by_and,
        "action 'up' in state State(n=3, seen=()): it returned False; return the next state, or let `require` refuse; "
        "a guard is written as require(...)",
    ),
    "an assertion": (asserts, "action 'up' in state State(n=0, seen=()): AssertionError"),
    "an exit": (exits, "action 'up' in state State(n=0, seen=()): SystemExit: enough"),
    "a cancellation": (is_given_up, "action 'up' in state State(n=0, seen=()): CancelledError: no more"),
    "the class of a state": (returns_its_class, "action 'up' in state State(n=0, seen=()): it returned <class "),
    "another tuple": (returns_a_tuple, "action 'up' in state State(n=0, seen=()): it returned (1, ())"),
    "a guard that is a function": (
        guards_by_a_function,
        "action 'up' in state State(n=0, seen=()): `require` was given <function is_small at ",
    ),
    "a guard that is a coroutine": (
        guards_by_a_coroutine,
        "action 'up' in state State(n=0, seen=()): `require` was given <coroutine object asynchronous at ",
    ),
    "a guard with a text": (guards_by_a_pair, "was given (True, 'small'); give it a condition: True or False"),
    "a guard that is a word": (guards_by_a_word, "`require` was given 'small'; give it a condition: True or False"),
    "a guard that is nothing": (guards_by_nothing, "`require` was given None; give it a condition: True or False"),
    "an argument too few": (up_by, "action 'up' in state State(n=0, seen=()): TypeError: up_by() missing 1 required"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_explorer_names_action_and_state(mistake: str) -> None:
    perform, said = MISTAKES[mistake]
    with pytest.raises(ModelError) as caught:
        explore(system(Action("up", perform)), None)
    assert said in str(caught.value)
    assert not str(caught.value).endswith(": ")


@dataclass(unsafe_hash=True)
class Box:
    held: int = 0


@dataclass
class SteadyBox(Box):
    def __hash__(self) -> int:
        """As a tuple of it has from Python 3.14 on."""
        return 1


@pytest.mark.parametrize("kind", [Box, SteadyBox])
def test_an_action_that_changes_its_state_is_noticed(kind: type[Box]) -> None:
    def fill(state: State, _: None) -> State:
        box = state.seen
        assert isinstance(box, Box)
        box.held += 1
        return state

    said = rf"changes the state that it is given, to State\(n=0, seen={kind.__name__}\(held=1\)\)"
    with pytest.raises(ModelError, match=said):
        explore(system(Action("fill", fill), initial=lambda _: State(seen=kind())), None)


@pytest.mark.parametrize("dice", [cycle((True, False)), cycle((False, True))], ids=["first", "second"])
def test_an_action_that_depends_on_something_else_is_named(dice: Iterator[bool]) -> None:
    def toss(state: State, _: None) -> State:
        require(next(dice))
        return State(n=1)

    with pytest.raises(ModelError, match=r"action 'toss' in state .*: it does something else when it is tried again"):
        explore(system(Action("up", up), Action("toss", toss)), None)


def test_equal_values_are_asked_for_only_where_they_look_equal() -> None:
    numbers = count()
    with pytest.raises(ModelError, match=r"tried again: n would be 0, and then 1; let it depend on state and"):
        explore(system(Action("up", lambda state, _: State(next(numbers)))), None)


class Plain:
    def __repr__(self) -> str:
        return "a plain object"


@pytest.mark.parametrize("make", [Plain, lambda: float("nan")], ids=["plain", "nan"])
def test_a_value_that_equals_no_other_is_named(make: Callable[[], object]) -> None:
    shown = repr(make())
    with pytest.raises(ModelError, match=f"seen would be {shown}, and then {shown}; use values that equal others"):
        explore(system(Action("up", lambda state, _: State(seen=make()))), None)


@pytest.mark.parametrize("least", [3, 5], ids=["broken later", "asked again"])
def test_an_invariant_that_depends_on_something_else_is_named(least: int) -> None:
    asked: list[State] = []

    def is_early(state: State, _: None) -> bool:
        asked.append(state)
        return len(asked) < least

    with pytest.raises(ModelError, match=r"invariant 'Early' in state State\(n=[01], .*: it held, and does not when"):
        explore(system(Action("up", up), invariants={"Early": is_early}), None)


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("I have no name")


@pytest.mark.parametrize(
    ("seen", "told"),
    [("x" * 10_000, "seen='" + "x" * 100), (Unprintable(), "state <a State that cannot be shown: I have no name>: it")],
    ids=["long", "unprintable"],
)
def test_a_state_is_told_briefly_and_in_any_case(seen: object, told: str) -> None:
    with pytest.raises(ModelError) as caught:
        explore(system(Action("up", forgets_return), initial=lambda _: State(seen=seen)), None)
    assert told in str(caught.value)
    assert str(caught.value).endswith("it returned None; return the next state, or let `require` refuse")
    assert len(str(caught.value)) < 1_000
    stuck = explore(system(initial=lambda _: State(seen=seen)), None).deadlock
    assert len(str(stuck)) < 1_000


@pytest.mark.parametrize("mistake", ["no return", "a guard by and", "another tuple"])
def test_a_single_step_names_action_and_state(mistake: str) -> None:
    perform, _ = MISTAKES[mistake]
    state = State(n=3) if mistake == "a guard by and" else State()
    for step in (
        lambda model: model.perform("up", state, None),
        lambda model: model.is_enabled("up", state, None),
        lambda model: list(model.successors(state, None)),
    ):
        with pytest.raises(ModelError, match=r"action 'up' in state State\(n=[03], seen=\(\)\): it returned"):
            step(system(Action("up", perform)))


class Recorded(NamedTuple):
    action: str
    arguments: tuple[int, ...] = ()
    counters: tuple[int, ...] = ()


def test_an_event_with_an_argument_too_many_names_its_action() -> None:
    model = StepByStep[State, None](system(Action("up", up)), None)
    with pytest.raises(ModelError, match=r"action 'up\(1\)' in state State\(n=0, seen=\(\)\): TypeError: up"):
        replay(model, model.start(), [[Recorded("up", (1,))]])


def test_an_event_of_an_unknown_member_names_its_action() -> None:
    raises = Action[State, None]("raise", lambda state, _, who: state._replace(n=state[who] + 1))
    model = StepByStep[State, None](system(raises), None)
    with pytest.raises(ModelError, match=r"action 'raise\(2\)' in state .*: IndexError: tuple index"):
        replay(model, model.start(), [[Recorded("raise", (2,))]])


def test_a_state_that_is_a_number_is_no_truth_value() -> None:
    wrong = Action[int, None]("up", lambda number, _: number < 3 and number + 1)
    with pytest.raises(ModelError, match="action 'up' in state 3: it returned False"):
        explore(system(wrong, initial=lambda _: 0), None)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (lambda _: [1, 2], "the arguments of action 'up': each must be a tuple, as in [(1,), (2,)], not 1"),
        (lambda _: 3, "the arguments of action 'up': TypeError: 'int' object is not iterable"),
        (lambda: [(1,)], "the arguments of action 'up': TypeError: "),
        (lambda _: ((n,) for n in count()), "the arguments of action 'up': there are more than 100,000; name those"),
        (lambda _: [(1, 2)], "action 'up(1, 2)' in state State(n=0, seen=()): TypeError: up_by() takes 3 positional"),
    ],
)
def test_a_wrong_list_of_arguments_is_named(arguments: Any, said: str) -> None:
    with pytest.raises(ModelError) as caught:
        explore(system(Action("up", up_by, arguments)), None)
    assert said in str(caught.value)


def test_arguments_that_are_no_function_are_refused() -> None:
    with pytest.raises(ModelError, match=r"action 'up': its arguments must be a function, as in .*, not \[\(1,\)\]"):
        Action("up", up_by, [(1,)])  # type: ignore[arg-type]


ASYNCHRONOUS: Any = asynchronous


def holds(*_: object) -> bool:
    return True


def test_an_asynchronous_action_is_refused() -> None:
    with pytest.raises(ModelError, match="action 'up': what it performs must be a plain function, not an async one"):
        Action("up", asynchronous)


@pytest.mark.parametrize(
    ("options", "which"),
    [
        ({"initial": asynchronous}, "initial"),
        ({"at_rest": asynchronous}, "at_rest"),
        ({"must_move": asynchronous}, "must_move"),
        ({"invariants": {"Small": asynchronous}}, "invariant 'Small'"),
        ({"probes": {"NeverFull": asynchronous}}, "probe 'NeverFull'"),
        ({"counters": {"sender": asynchronous}}, "the counters of 'sender'"),
        ({"leads_to": {"Served": LeadsTo(ASYNCHRONOUS, holds)}}, "the premise of 'Served'"),
        ({"leads_to": {"Served": LeadsTo(holds, ASYNCHRONOUS)}}, "the conclusion of 'Served'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_asynchronous_part_of_a_system_is_refused(options: dict[str, Any], which: str) -> None:
    with pytest.raises(ModelError, match=f"{which} must be a plain function, not an async one"):
        system(Action("up", up), **options)


def test_a_function_among_the_actions_is_refused() -> None:
    with pytest.raises(
        ModelError, match=r"actions must be Actions, as in \(Action\('send', send\),\), not <function up"
    ):
        system(up)  # type: ignore[arg-type]


def test_a_model_without_actions_is_refused() -> None:
    with pytest.raises(ModelError, match=r"a model must have actions, as in .*; this one can do nothing"):
        System("M", lambda _: State(), (), invariants={})


def test_one_action_without_its_comma_is_refused() -> None:
    with pytest.raises(ModelError, match=r"actions must be Actions, as in .*, not Action\(name='up'"):
        System("M", lambda _: State(), Action("up", up), invariants={})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [None, ""])
def test_an_action_whose_name_is_no_text_is_refused(name: Any) -> None:
    with pytest.raises(ModelError, match=f"the name of an action must be a text, as in .*, not {name!r}"):
        Action(name, up)


@pytest.mark.parametrize("invariants", [[up], {1: up}])
def test_invariants_without_names_are_refused(invariants: Any) -> None:
    with pytest.raises(ModelError, match=r"invariants must be functions by name, as in \{.*\}, not [\[{]"):
        system(Action("up", up), invariants=invariants)


@pytest.mark.parametrize("promises", [{"Served": (holds, holds)}, [LeadsTo(holds, holds)]], ids=["a pair", "a list"])
def test_promises_of_another_form_are_refused(promises: Any) -> None:
    with pytest.raises(ModelError, match=r"leads_to must have promises by name, as in \{'Served': LeadsTo"):
        system(Action("up", up), leads_to=promises)


@pytest.mark.parametrize("said", [(True, "why"), None, 1, 0.5, "yes", [], State()], ids=repr)
def test_a_condition_to_move_is_true_or_false(said: Any) -> None:
    with pytest.raises(ModelError, match=r"'NeverStuck' in state .*: must_move returned .*, as True or False"):
        explore(system(Action("up", up), must_move=lambda *_: said), None)


def test_two_actions_of_one_name_are_refused() -> None:
    with pytest.raises(ModelError, match="two actions are named 'up'"):
        system(Action("up", up), Action("down", up), Action("up", up_by))


@pytest.mark.parametrize("start", [None, State])
def test_an_initial_state_that_is_none_is_named(start: object) -> None:
    with pytest.raises(ModelError, match=f"the initial state: it is {start}; return a state"):
        explore(system(Action("up", up), initial=lambda _: start), None)


def interrupts(*_: object) -> bool:
    raise KeyboardInterrupt


def leaves(*_: object) -> State:
    sys.exit(0)


def test_an_initial_state_that_leaves_is_no_success() -> None:
    with pytest.raises(ModelError, match="the initial state: SystemExit: 0"):
        explore(system(initial=leaves), None)


@pytest.mark.parametrize(
    "interrupted",
    [system(Action("up", interrupts)), system(initial=interrupts), system(invariants={"Holds": interrupts})],
    ids=["an action", "an initial state", "an invariant"],
)
def test_an_interrupt_is_no_error_of_the_model(interrupted: System[Any, Any]) -> None:
    with pytest.raises(KeyboardInterrupt):
        explore(interrupted, None)


def test_an_initial_value_that_cannot_be_hashed_is_named() -> None:
    with pytest.raises(ModelError, match=r"the initial state: seen would be \[\]: unhashable type: 'list'"):
        explore(system(Action("up", up), initial=lambda _: State(seen=[])), None)


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        (lambda state, _: None, "it returned None; return whether it holds, as True or False"),
        (lambda state, _: (state.n < 3, "small"), "it returned (True, 'small'); return whether it holds"),
        (lambda state, _: state.n, "it returned 0; return whether it holds"),
        (lambda state, _: require(state.n > 3), "`require` refuses, which is for actions; return whether it holds"),
        (lambda state, _: state.m < 3, "AttributeError: 'State' object has no attribute 'm'"),
        (lambda state, _: 1 // (state.n - state.n) == 0, "ZeroDivisionError: "),
    ],
)
def test_an_invariant_that_cannot_be_asked_is_named(condition: Any, said: str) -> None:
    with pytest.raises(ModelError) as caught:
        explore(system(Action("up", up), invariants={"Small": condition}), None)
    assert f"invariant 'Small' in state State(n=0, seen=()): {said}" in str(caught.value)
