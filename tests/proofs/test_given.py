"""The given of a theorem is read from its premises: it tells all that they fix, and excludes what makes it false."""

from collections.abc import Callable
from dataclasses import fields, replace
from functools import cache
from importlib import import_module
from typing import Any

import pytest
import z3

from permitflow_model import demand, feedback_loop, shared_window, squelch
from permitflow_model.adaptive_window import Parameters as AdaptiveWindow
from permitflow_model.exploration import parameters_for
from permitflow_model.kernel.explore import explore
from permitflow_model.kernel.system import Action, System, require
from permitflow_model.manifest import read_manifest
from permitflow_model.registry import systems
from permitflow_proofs import catalogue
from permitflow_proofs import demand as demand_proofs
from permitflow_proofs.kernel.arbitrary import any_parameters_of
from permitflow_proofs.kernel.given import Given, given_by, given_in, given_of_all
from permitflow_proofs.kernel.induction import ExhaustiveObligation, Subject
from permitflow_proofs.kernel.obligation import Obligation, SymbolicObligation, decide
from permitflow_proofs.kernel.paths import Beginning, Explorer
from permitflow_proofs.kernel.symbols import assume, equal, function, integer, limit, merged, natural, negated, truth
from permitflow_proofs.kernel.terms import conjunction, disjunction
from permitflow_proofs.kernel.theorem import Theorem


def given_of(obligation: Obligation) -> Given | None:
    """What an obligation is given, without proving it: from the first path on which it comes to an end."""
    if isinstance(obligation, ExhaustiveObligation):
        return given_in(tuple(obligation.cases()))
    assert isinstance(obligation, SymbolicObligation)
    paths = Explorer().paths(lambda: bool(obligation.claim()))
    return next((given_by(path.premises) for path in paths if path.enabled), None)


THEOREMS = {theorem.id: theorem for theorem in catalogue()}


@cache
def givens_of(name: str) -> tuple[Given, ...]:
    """Of the first and the last obligation of a theorem: the others have the same subject."""
    obligations = THEOREMS[name].obligations
    givens = [given_of(obligation) for obligation in {obligations[0], obligations[-1]}]
    return tuple(given for given in givens if given is not None)


def admits(theorem: Theorem, parameters: object) -> bool:
    """Is the theorem about these parameters?"""
    return any(given.admits(parameters) for given in givens_of(theorem.id))


# A subject restricts nothing that is not told.


def is_told(any_parameters: Callable[[], Any]) -> bool:
    """Does the subject have all parameters that its given admits?"""
    paths = list(Explorer().paths(any_parameters))
    given = given_by(paths[0].premises)
    assert given is not None
    made: Any = paths[0].result
    values = {field.name: getattr(made, field.name) for field in fields(made)}
    same = {name: value for name, value in values.items() if hasattr(value, "is_any")} | dict(given.fixed)

    def any_accepted() -> Any:
        special = dict(same)
        if "initial_permits" in values.keys() - same.keys():
            # Not ALL, which is another word for row_permits: the model puts those in its place.
            number = special["initial_permits"] = integer("initial_permits")
            limit(number >= 0)
        return any_parameters_of(type(made), **special)

    accepted = Explorer().paths(any_accepted)
    solver = z3.Solver()
    solver.add(disjunction([conjunction(path.conditions) for path in accepted]), *given.assumed)
    solver.add(z3.Not(disjunction([conjunction(path.conditions) for path in paths])))
    return bool(solver.check() == z3.unsat)


def subjects() -> dict[str, Subject[Any, Any]]:
    """Those of all proofs, by file and name."""
    files = {registered.theorems.removesuffix(":theorems") for registered in systems().values() if registered.theorems}
    topics = {
        f"permitflow_proofs.permit_channel.{topic}" for topic in ("arbitrary", "inductive", "refinement", "stuck")
    }
    found = {}
    for file in sorted(files | topics):
        for name, value in vars(import_module(file)).items():
            if isinstance(value, Subject):
                found[f"{file.removeprefix('permitflow_proofs.')}.{name}"] = value
    return found


@pytest.mark.parametrize("name", subjects())
def test_a_given_tells_all_that_its_subject_fixes(name: str) -> None:
    assert is_told(subjects()[name].any_parameters)


def test_an_untold_restriction_is_noticed() -> None:
    def restricted() -> demand.Parameters:
        parameters = any_parameters_of(demand.Parameters)
        limit(natural("number", 5) <= parameters.size)
        return parameters

    assert is_told(lambda: any_parameters_of(demand.Parameters))
    assert not is_told(restricted)


def facts(make: Callable[[], object]) -> tuple[str, ...]:
    """What a claim that makes these parameters may assume."""

    def claim() -> bool:
        make()
        return True

    given = decide(claim).given
    return given.facts if given is not None else ("no model",)


def test_a_fixed_field_is_told() -> None:
    assert facts(lambda: any_parameters_of(demand.Parameters)) == ()
    assert facts(lambda: any_parameters_of(demand.Parameters, batch=2, withdrawals=True)) == (
        "batch = 2",
        "withdrawals = TRUE",
    )
    assert facts(lambda: natural("size")) == ("no model",)


def test_a_fixed_field_of_the_second_of_two_is_told() -> None:
    def two() -> None:
        for fixed in ({}, {"batch": 2}, {"batch": 2}):
            any_parameters_of(demand.Parameters, **fixed)

    assert facts(two) == ("batch = 2",)


def test_fields_of_two_parameters_are_told_apart() -> None:
    def two() -> None:
        one, other = (any_parameters_of(demand.Parameters) for _ in range(2))
        assume(one.size <= other.size)
        assume(other.withdrawals)

    assert facts(two) == ("size <= other.size", "other.withdrawals = TRUE")


def test_a_condition_on_the_largest_size_is_told() -> None:
    theorem = THEOREMS["adaptive-window-live-flush"]
    assert {"max(row_costs) <= row_permits"} < {*givens_of(theorem.id)[0].facts}
    for costs, is_about in (((1, 2), True), ((1, 3), False)):
        assert admits(theorem, AdaptiveWindow(row_permits=2, permit_batch=1, room=2, row_costs=costs)) == is_about


def test_an_assumption_about_parameters_is_told() -> None:
    def related() -> None:
        parameters = any_parameters_of(demand.Parameters)
        assume(2 * (parameters.batch - 1) <= parameters.size + 0)
        assume(negated(parameters.withdrawals))
        assume(natural("held") <= parameters.size)

    assert facts(related) == ("2 * (batch - 1) <= size", "withdrawals = FALSE")


def five_places() -> int:
    return any_parameters_of(demand.Parameters).size - 5


def by_a_limit() -> None:
    limit(five_places() >= 0)


def by_a_number_that_is_a_field() -> None:
    assume(equal(natural("more"), five_places()))


def by_a_number_of_a_number() -> None:
    one, other = integer("one"), integer("other")
    limit(equal(other, five_places() - one))
    limit(equal(one, 0))
    limit(other >= 0)


def by_a_value_of_a_function() -> None:
    places = function("places")
    limit(equal(places(1), five_places()))
    limit(places(1) >= 0)


def by_a_truth_value() -> None:
    are_five = truth("are.five")
    limit(are_five == (five_places() >= 0))
    limit(are_five)


@pytest.mark.parametrize(
    "narrow",
    [by_a_limit, by_a_number_that_is_a_field, by_a_number_of_a_number, by_a_value_of_a_function, by_a_truth_value],
)
def test_parameters_that_are_left_out_are_told(narrow: Callable[[], None]) -> None:
    assert facts(narrow) in {("size >= 5",), ("5 <= size",)}


def test_parameters_that_any_state_leaves_out_are_told() -> None:
    def five(parameters: demand.Parameters) -> demand.State:
        limit(parameters.size >= 5)
        return demand_proofs.SUBJECT.any_state(parameters)

    assert facts(replace(demand_proofs.SUBJECT, any_state=five).any_case) == ("size >= 5",)


def test_a_symbol_that_has_the_name_of_a_field_is_none() -> None:
    def alike() -> None:
        any_parameters_of(demand.Parameters)
        assume(natural("size") >= 5)

    assert facts(alike) == ()


def test_what_the_model_requires_of_all_parameters_is_not_told() -> None:
    def positive() -> None:
        limit(equal(natural("number", 1), any_parameters_of(demand.Parameters).size))

    assert facts(positive) == ()
    assert facts(lambda: any_parameters_of(feedback_loop.Parameters)) == ()  # a field of it is a word


def test_what_was_decided_on_a_path_is_not_told() -> None:
    def decided() -> None:
        parameters = any_parameters_of(demand.Parameters)
        limit(parameters.size >= 5 if parameters.size >= 5 else parameters.size < 5)

    assert facts(decided) == ()


def test_what_all_paths_leave_out_is_told_if_one_has_decided_it() -> None:
    def decided() -> None:
        parameters = any_parameters_of(demand.Parameters)
        bool(parameters.size >= 5)
        limit(parameters.size >= 3)

    assert facts(decided) == ("size >= 3",)


def by_a_limit_after_a_decision() -> None:
    are_five = five_places() >= 0
    bool(are_five)
    limit(are_five)


def by_a_limit_in_each_state() -> None:
    parameters = any_parameters_of(demand.Parameters)
    bool(parameters.size >= 5)
    bool(natural("waiting") > 1)
    limit(parameters.size >= 5)


def by_the_larger_one() -> None:
    size = any_parameters_of(demand.Parameters).size
    limit(equal(max(size, 5), size))


def by_a_number_that_depends_on_them() -> None:
    size = any_parameters_of(demand.Parameters).size
    limit(size >= (5 if size >= 5 else 7))


def by_an_end_on_one_side() -> None:
    if any_parameters_of(demand.Parameters).size < 5:
        limit(natural("waiting") < 0)


@pytest.mark.parametrize(
    "narrow",
    [
        by_a_limit_after_a_decision,
        by_a_limit_in_each_state,
        by_the_larger_one,
        by_a_number_that_depends_on_them,
        by_an_end_on_one_side,
    ],
)
def test_parameters_that_end_on_no_path_are_told(narrow: Callable[[], None]) -> None:
    assert facts(narrow) in {("size >= 5",), ("5 <= size",)}


def go_with_five(state: int, parameters: demand.Parameters) -> int:
    require(parameters.size == 5)
    return state


def step_of_five() -> int:
    system: System[int, demand.Parameters] = System(
        "Five", initial=lambda _: 0, actions=(Action("go", go_with_five),), invariants={}
    )
    return system.perform("go", 0, any_parameters_of(demand.Parameters))


def test_a_guard_leaves_out_no_parameters() -> None:
    assert facts(step_of_five) == ()


def test_where_a_claim_is_refuted_its_other_paths_are_not_left_out() -> None:
    finding = decide(lambda: not any_parameters_of(demand.Parameters).size >= 5)
    assert finding.outcome == "refuted"
    assert finding.given == Given()


def test_a_guard_in_a_beginning_leaves_out_no_parameters() -> None:
    assert facts(Beginning(step_of_five)) == ()


def test_what_a_claim_requires_outside_of_a_step_is_told() -> None:
    assert facts(lambda: go_with_five(0, any_parameters_of(demand.Parameters))) == ("size = 5",)


@pytest.mark.parametrize("is_first", [True, False])
def test_what_only_some_paths_assume_is_refused(is_first: bool) -> None:
    def claim() -> bool:
        parameters = any_parameters_of(demand.Parameters)
        bool(parameters.size >= 5)
        if bool(truth("waits")) == is_first:
            assume(parameters.size >= 5)
        return True

    with pytest.raises(ValueError, match="on another one; assume its condition merged"):
        decide(claim)


def test_symbols_of_which_a_field_is_made_are_told() -> None:
    def made() -> None:
        one, other = integer("one"), integer("other")
        any_parameters_of(demand.Parameters, size=one + other)
        limit(one >= 4)
        limit(other >= 5)

    assert facts(made) == ("size = one + other", "one >= 4", "other >= 5")


def test_what_only_some_states_require_is_not_told() -> None:
    def of_some_states() -> None:
        parameters = any_parameters_of(demand.Parameters)
        if natural("waiting") > 1:
            limit(parameters.size >= 2)

    assert facts(of_some_states) == ()


def test_a_field_fixed_as_another_one_is_told() -> None:
    def alike() -> None:
        size = natural("size", 1)
        any_parameters_of(demand.Parameters, size=size, batch=size)

    assert facts(alike)[:1] == ("batch = size",)


def test_a_premise_that_has_forked_is_refused() -> None:
    def forked() -> None:
        assume(not any_parameters_of(demand.Parameters).withdrawals)

    with pytest.raises(TypeError, match="a premise has forked"):
        facts(forked)


def test_a_premise_of_some_paths_is_refused() -> None:
    def split() -> None:
        parameters = any_parameters_of(demand.Parameters)
        assume(parameters.withdrawals or parameters.batch <= 2)

    with pytest.raises(ValueError, match="on another one; assume its condition merged"):
        facts(split)


def test_a_premise_within_a_merge_is_told_alike_on_all_paths() -> None:
    def bounded(parameters: demand.Parameters) -> bool:
        if parameters.withdrawals:
            assume(parameters.batch <= 2)
        return True

    def forked() -> None:
        parameters = any_parameters_of(demand.Parameters)
        merged(lambda: bounded(parameters))
        bool(integer("number") > 0)

    assert facts(forked) == ("withdrawals => batch <= 2",)


def test_what_only_some_obligations_are_given_is_told_apart() -> None:
    assert given_of_all([None, ("a", "b"), ("a",), ("c", "a")]) == "a; in 1 of 3: b; in 1 of 3: c"
    assert given_of_all([(), ()]) == "all parameters"
    assert given_of_all([None]) == "no model"


# No theorem is about constants with which the model breaks it.

_CONDITION_IN_WORDS = {
    "adaptive-window-live": "If no chunk costs more than the room",
    "adaptive-window-live-flush": "chunks that cost no more than row_permits",
    "byte-window-live": "If no chunk costs more than row_permits - permit_batch + 1",
    "chain-live": "batches of at most their sizes",
    "diamond-live": "if each branch has more places than the largest hold of all exceeds its own",
    "drop-fresh": "if the queue is short enough",
    "feedback-live": "in which a station asks",
    "mute-delay-bounded": "with Flight + Rate * (Depth + Losses) places above High for each source",
    "never-stuck": "if no chunk costs more than row_permits - permit_batch",
    "shared-window-live": "larger than those of all inputs but one together",
    "threshold": "if and only if no chunk costs more than row_permits - permit_batch + 1",
}
"""Conditions that relate constants and states, or of which also the opposite is shown: the words tell them."""

_OF_FAILURES = {
    "bridge-full",
    "diamond-stuck",
    "echo-stuck",
    "gate-out-of-nothing",
    "gate-stuck",
    "shared-window-stuck",
}
"""Theorems that say that the invariant is broken."""

_OF_PARTS = {"mute-delay-coming", "token-bucket-served"}
"""Lemmas about something else, for which the invariant is needed."""


def test_the_words_of_a_condition_stand_in_the_statement() -> None:
    gone = [name for name, words in _CONDITION_IN_WORDS.items() if words not in THEOREMS[name].statement]
    assert gone == []


def test_no_theorem_is_about_a_model_that_breaks_it() -> None:
    broken = [
        (model, theorem)
        for model in read_manifest().values()
        for theorem in THEOREMS.values()
        if model.expect.kind == "invariant" and theorem.expected == "proved"
        if (theorem.module, theorem.operator) == (model.module, model.expect.name)
        if theorem.id not in _OF_FAILURES | _OF_PARTS
    ]
    assert len(broken) > 40
    for model, theorem in broken:
        if admits(theorem, parameters_for(model)):
            assert _CONDITION_IN_WORDS.get(theorem.id, "?") in theorem.statement, (model.name, theorem.id)


def test_no_theorem_is_about_a_module_of_mistakes() -> None:
    mistaken = {model.module for model in read_manifest().values() if model.actions}
    assert {"InputGateMistakes", "MuteMistakes"} <= mistaken
    assert not mistaken & {theorem.module for theorem in THEOREMS.values()}


FALSE = (("shared-window-live", "NeverStuck", shared_window.Parameters(inputs=2, connection=3, stream=3)),)
"""Theorems, the invariants that they state, and constants with which a run of the model breaks these."""


@pytest.mark.parametrize(
    ("name", "invariant", "parameters"), FALSE, ids=lambda one: one if isinstance(one, str) else ""
)
def test_a_theorem_excludes_what_makes_it_false(name: str, invariant: str, parameters: object) -> None:
    theorem = THEOREMS[name]
    system: System[Any, Any] = systems()[theorem.module].system
    graph = explore(
        system,
        parameters,
        invariants={invariant: system.invariants[invariant]},
        stop_at_violation=True,
        max_states=60_000,
    )
    assert graph.violations
    if admits(theorem, parameters):
        assert _CONDITION_IN_WORDS[name] in theorem.statement


def test_squelch_excludes_a_repetition_that_comes_too_early() -> None:
    early = squelch.Parameters(waiters=1, high=1, low=0, capacity=9, rate=1, signal_delay=0, data_delay=2, repeat=1)
    assert not admits(THEOREMS["squelch-told-off"], early)
    assert admits(THEOREMS["squelch-told-off"], replace(early, repeat=2))
